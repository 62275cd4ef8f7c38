"""Extraction of values from a message: topic and payload decoded, paths into fields, templates and conditions on them.

A path is dotted (`Wifi.RSSI`, `sensors.0.value`). One that starts with `$` leaves the payload: `$topic`, a level of the
topic by number or name (`$2`, `$device`), the levels behind a final `#` (`$rest`), the whole `$payload`, the `$key`
(index or name) of an element of `each`, and the recorded `$row` around a message. After an array, `$length`, `$minimum`
and `$maximum` are values of it. JSONPath was rejected: filters and wildcards would give several values where an
attribute holds one.

Topic filters name their wildcards: `zigbee2mqtt/{device}` is the filter `zigbee2mqtt/+` whose second level is called
`device`. Matching is MQTT's own (MQTT 5.0, sections 4.7.1 and 4.7.2). Conditions are plain tests of one value each,
which choose a rule; a combination of tests belongs into the pattern.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import msgspec

from distced.middleware.mapping.schema import ConditionSpec, PayloadFormat, Scalar, ValuePath
from distced.middleware.model.errors import MappingError


@dataclass(slots=True)
class DeviceMessage:
    """Message as a rule reads it.

    Attributes:
        fields: of the payload or row, or of the element at hand, and the named groups of the rule's conditions.
        outside: values of paths with `$`, without the `$`.
    """

    fields: Mapping[str, object]
    outside: Mapping[str, object]


Pick: TypeAlias = Callable[[DeviceMessage], object]
"""Gives the value, or None where there is none."""

_BRACES: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def compile_path(path: ValuePath, outside: Callable[[str], bool]) -> Pick:
    """Function that picks the value at a path; `outside` tells whether a name can follow a `$` here."""
    steps = path.split(".") if isinstance(path, str) else path
    if not steps or not all(steps):
        raise MappingError(
            "not a path", given=path, allowed="names joined by dots, such as Wifi.RSSI, or a list of names"
        )
    first, *rest = steps
    if first.startswith("$"):
        name = first[1:]
        if not outside(name):
            raise MappingError(
                f"there is no ${name} here",
                given=path,
                allowed="$topic, levels of it by number or name, $rest after a #, $key with each, $payload, $row",
            )
        return lambda message: descend(message.outside.get(name), rest)
    if not rest:
        return lambda message: message.fields.get(first)
    return lambda message: descend(message.fields.get(first), rest)


def descend(value: object, steps: Sequence[str]) -> Any:
    """Value at the end of the steps, through tables by name and arrays by index; None where there is none."""
    for step in steps:
        # The exact type first: an abstract one takes ten times as long.
        if type(value) is dict or isinstance(value, Mapping):
            value = value.get(step)
        elif not isinstance(value, list):
            return None
        elif step.startswith("$"):
            value = _of_array(value, step)
        else:
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
    return value


def _of_array(array: list[Any], step: str) -> object:
    """Length, least or greatest number of an array; nulls aside. One of other values has itself for its maximum, which
    is no number to whatever reads it."""
    if step == "$length":
        return len(array)
    choose = {"$minimum": min, "$maximum": max}.get(step)
    values = [value for value in array if value is not None and value == value]
    if choose is None or not values:
        return None
    return choose(values) if all(type(value) is int or type(value) is float for value in values) else array


def compile_template(template: str, outside: Callable[[str], bool]) -> Pick:
    """Function that fills a template such as `office-{room}`; None where a part is missing. `{{` stands for `{`."""
    parts: list[str | Pick] = []
    end = 0
    for match in _BRACES.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(match[0][0])
        elif match[1] is None:
            raise MappingError(
                "a brace without its partner", given=template, allowed="{path}, and {{ or }} for a brace"
            )
        else:
            parts.append(compile_path(match[1], outside))
    parts.append(template[end:])
    parts = [part for part in parts if part != ""]
    if all(isinstance(part, str) for part in parts):
        constant = "".join(part for part in parts if isinstance(part, str))
        return lambda message: constant
    if len(parts) == 1:
        (only,) = parts
        assert not isinstance(only, str)
        return lambda message: text_of(only(message))

    def fill(message: DeviceMessage) -> str | None:
        texts = []
        for part in parts:
            text = part if isinstance(part, str) else text_of(part(message))
            if text is None:
                return None
            texts.append(text)
        return "".join(texts)

    return fill


def template_paths(template: str) -> Iterator[str]:
    """Paths in the braces of a template."""
    return (match[1] for match in _BRACES.finditer(template) if match[1] is not None)


def compile_value(path: ValuePath | None, text: str | None, outside: Callable[[str], bool]) -> Pick | None:
    """Function of the path or the template, whichever is given; None where neither is."""
    if path is not None and text is not None:
        raise MappingError("both a path and a text", given=f"{path}, {text}", allowed="one of the two")
    if path is not None:
        return compile_path(path, outside)
    return None if text is None else compile_template(text, outside)


def text_of(value: object) -> str | None:
    """Text of a single value for templates, lookups and comparisons; None for null, tables and arrays.

    Numbers that are equal have one text, so that a lookup finds 1 and 1.0 alike.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else None


RuleCondition: TypeAlias = Callable[[DeviceMessage], bool]
"""Whether it holds; a `matches` that holds adds its named groups to the fields of the message."""

_TESTS = ("present", "equals", "differs", "matches", "above", "below")


def compile_condition(spec: ConditionSpec, outside: Callable[[str], bool]) -> RuleCondition:
    """Function that tests one condition."""
    pick = compile_value(spec.path, spec.text, outside)
    if pick is None:
        raise MappingError("a key is missing", given="path", allowed="a path or a text")
    given = [name for name in _TESTS if getattr(spec, name) is not None]
    if len(given) > 1:
        raise MappingError(
            "several tests in one condition", given=", ".join(given), allowed="one of " + ", ".join(_TESTS),
            advice="write one condition for each, all of them must hold",
        )  # fmt: skip
    if spec.equals is not None:
        return _one_of(pick, spec.equals, True)
    if spec.differs is not None:
        return _one_of(pick, spec.differs, False)
    if spec.matches is not None:
        return _matches(pick, spec.matches)
    if spec.above is not None or spec.below is not None:
        return _bounded(pick, spec.above, spec.below)
    wanted = spec.present is not False
    return lambda message: (pick(message) is not None) is wanted


def _one_of(pick: Pick, values: Scalar | list[Scalar], wanted: bool) -> RuleCondition:
    texts = frozenset(text_of(value) for value in (values if isinstance(values, list) else [values]))
    return lambda message: (text_of(pick(message)) in texts) is wanted


def _matches(pick: Pick, pattern: str) -> RuleCondition:
    search = compile_regex(pattern).search

    def matches(message: DeviceMessage) -> bool:
        text = text_of(pick(message))
        match = None if text is None else search(text)
        if match is None:
            return False
        groups = match.groupdict()
        if groups:
            message.fields = {**message.fields, **groups}
        return True

    return matches


def _bounded(pick: Pick, above: float | None, below: float | None) -> RuleCondition:
    def bounded(message: DeviceMessage) -> bool:
        value = pick(message)
        try:
            number = float(value) if isinstance(value, str | int | float) else float("nan")
        except (ValueError, OverflowError):
            return False
        return number > above if above is not None else number < below  # type: ignore[operator]

    return bounded


def compile_regex(pattern: str) -> re.Pattern[str]:
    """Regular expression, checked."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise MappingError("not a regular expression", given=pattern, advice=str(error)) from None


def decode_payload(
    payload: bytes, form: PayloadFormat, columns: Sequence[str] = (), separator: str = ","
) -> dict[str, object]:
    """Fields of a payload. One that is no table (a number, a text, an array) is one field, `value`."""
    if form == "json":
        return as_fields(decode_json(payload))
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise MappingError("a payload that is no UTF-8 text", given=payload, advice=str(error)) from None
    if form == "text":
        return {"value": text}
    return split_columns(text, columns, separator)


def decode_json(payload: bytes | str) -> object:
    """Any JSON value; NaN and Infinity, which JSON has not and devices send, included."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        try:
            found = json.loads(payload)
            # Half of a pair of surrogates is no text, which Python does not mind.
            json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError):
            raise MappingError(
                "not JSON", given=payload, allowed="a JSON value in UTF-8", advice=f"{error}; is it format = 'text'?"
            ) from None
    except RecursionError:
        raise MappingError("JSON nested too deeply", given=payload) from None


def as_fields(value: object) -> dict[str, object]:
    """Fields of a JSON value by name."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {"value": value}


def split_columns(text: str, columns: Sequence[str], separator: str) -> dict[str, object]:
    """Columns of one line by name; a blank as separator stands for any run of blanks and tabs."""
    cells = text.split() if separator == " " else next(csv.reader([text], delimiter=separator), [])
    if len(cells) != len(columns):
        raise MappingError(
            f"{len(cells)} columns in place of {len(columns)}", given=text, allowed=separator.join(columns)
        )
    return dict(zip(columns, cells, strict=True))


_NAME: Final = re.compile(r"\{([^\W\d]\w*)\}")
RESERVED: Final = frozenset({"topic", "rest", "payload", "key", "row"})


class TopicFilter:
    """Topic filter with named levels; `mqtt` is the plain filter to subscribe to."""

    def __init__(self, text: str) -> None:
        self._levels = text.split("/")
        self._open = self._levels[-1] == "#"
        self._names: dict[str, int] = {}
        fixed = self._levels[:-1] if self._open else self._levels
        self._fixed = [self._read(level, place, text) for place, level in enumerate(fixed)]
        self.mqtt = "/".join("+" if level is None else level for level in self._fixed) + ("/#" if self._open else "")
        self.mqtt = self.mqtt.removeprefix("/") if self._levels == ["#"] else self.mqtt
        self._wild_front = not self._fixed or self._fixed[0] is None

    def _read(self, level: str, place: int, text: str) -> str | None:
        """Text that a level must have; None for any."""
        if level == "+":
            return None
        named = _NAME.fullmatch(level)
        if named is not None:
            if named[1] in self._names or named[1] in RESERVED:
                raise MappingError(
                    "a level of the topic needs a name of its own",
                    given=text,
                    allowed=f"each name once, and none of {', '.join(sorted(RESERVED))}",
                )
            self._names[named[1]] = place
            return None
        if any(sign in level for sign in "+#{}"):
            raise MappingError(
                "not a topic filter", given=text, allowed="whole levels +, {name}, or a # at the end", advice="see MQTT"
            )
        return level

    def knows(self, name: str) -> bool:
        """Whether `$name` can stand for a level of a matching topic."""
        if name == "topic" or name in self._names:
            return True
        if name == "rest":
            return self._open
        return name.isdecimal() and int(name) >= 1 and (self._open or int(name) <= len(self._fixed))

    def match(self, topic: str) -> dict[str, object] | None:
        """Values of `$` names in this topic; None where it does not match."""
        levels = topic.split("/")
        count = len(self._fixed)
        if len(levels) < count or (len(levels) > count and not self._open):
            return None
        if self._wild_front and topic.startswith("$"):
            return None
        for wanted, level in zip(self._fixed, levels, strict=False):
            if wanted is not None and wanted != level:
                return None
        found: dict[str, object] = {str(place): level for place, level in enumerate(levels, 1)}
        found["topic"] = topic
        for name, place in self._names.items():
            found[name] = levels[place]
        if self._open:
            found["rest"] = "/".join(levels[count:])
        return found

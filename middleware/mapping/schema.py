"""Schema of a mapping file: its tables and keys, as they stand in the TOML, and the check of their shape.

These structs are the reference of the language: `mapping_file` reads a file into them, other modules compile them.
msgspec checks; its messages name the place, the alternatives are looked up in the structs. Regular tables were chosen
over templates with expressions (Jinja in Home Assistant, JSONata in Node-RED): a mapping translates what a device
sends,
its meaning is the pattern's business, and a table can be checked when it is loaded.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from distced.middleware.model.errors import MappingError

ValuePath: TypeAlias = str | list[str]
"""Where a value stands: `"Wifi.RSSI"`, `"sensors.0.value"`, `"$topic"`; a list of steps where names hold dots."""

Scalar: TypeAlias = str | int | float | bool

PayloadFormat = Literal["json", "text", "csv"]
FileFormat = Literal["csv", "jsonl", "text", "parquet"]
AttributeKind = Literal["number", "string", "boolean"]
ClockMode = Literal["as-is", "monotone", "offset", "zone"]
Otherwise = Literal["reject", "arrival"]
Wrong = Literal["reject", "null"]


class ConditionSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Condition of a rule, `when = [{path = "state", equals = ["ON", "OFF"]}]`; all of them must hold.

    Attributes:
        present: whether the value must be there and not null; with no test at all, it must.
        equals, differs: a value or a list of values, one of which (none of which) it must be.
        matches: a regular expression its text must hold somewhere; its named groups join the fields of the message.
        above, below: bounds that a number, or a text that is one, must exceed or stay under.
    """

    path: ValuePath
    present: bool | None = None
    equals: Scalar | list[Scalar] | None = None
    differs: Scalar | list[Scalar] | None = None
    matches: str | None = None
    above: int | float | None = None
    below: int | float | None = None


class TypeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Event type that depends on the message: a value looked up in a table of event types.

    Attributes:
        path, text: the value, or a template that makes it; one of the two.
        lookup: event types by that value's text.
        default: the event type for values not in the table; without it they are rejected.
    """

    lookup: dict[str, str]
    path: ValuePath | None = None
    text: str | None = None
    default: str | None = None


class AttributeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Attribute of the event, and its extraction from the message.

    Attributes:
        kind: number, string or boolean.
        path, text: the value, or a template that makes it; without either, the field of the attribute's own name.
        null: further values that mean null, besides a missing one, an empty text and NaN.
        default: the value in place of null, as the event carries it.
        lookup: values by the text of the message's value.
        scale, offset: of a number, `value * scale + offset`.
        range: of a number, the least and the greatest value accepted, after scale and offset.
        true, false: values that mean true and false; with one list alone, everything else is the other.
        above, below: of a boolean, the bound above (below) which a number means true.
        wrong: fate of the event where the value is of another kind, in no lookup or out of range.
    """

    kind: AttributeKind
    path: ValuePath | None = None
    text: str | None = None
    null: list[Scalar] = []
    default: Scalar | None = None
    lookup: dict[str, Scalar] | None = None
    scale: int | float | None = None
    offset: int | float | None = None
    range: tuple[int | float, int | float] | None = None
    true: list[Scalar] | None = None
    false: list[Scalar] | None = None
    above: int | float | None = None
    below: int | float | None = None
    wrong: Wrong = "reject"


class TimeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Timestamp of the event, and how far its clock is trusted. Durations are texts such as `20s`.

    Attributes:
        path, text: the value, or a template that makes it; without either (and without `start`), time is the arrival.
        start, end: in place of `path`, the two ends of an interval.
        format: `iso`, a count of `s`, `ms`, `us` or `ns` since 1970, or a strptime format.
        year: of the first event, where the format has none; it grows by itself at New Year.
        timezone: of texts that name no zone: `UTC`, `+01:00` or a name such as `Europe/Berlin`.
        uncertainty: the interval reaches this far both ways.
        before, after: the interval reaches this much further back, and on.
        clock: `as-is`; `monotone` where it may jump back; `offset` where it is off by a constant; `zone` where it shows
            the local time of an unknown zone.
        skew: the greatest difference from the arrival at which the clock is trusted.
        otherwise: `reject` or `arrival`, where the time is missing, unreadable or not trusted.
        delay: the longest time a message is under way, where its arrival is taken for its time.
    """

    path: ValuePath | None = None
    text: str | None = None
    start: ValuePath | None = None
    end: ValuePath | None = None
    format: str = "iso"
    year: int | None = None
    timezone: str = "UTC"
    uncertainty: str = "0s"
    before: str = "0s"
    after: str = "0s"
    clock: ClockMode = "as-is"
    skew: str | None = None
    otherwise: Otherwise = "reject"
    delay: str = "0s"


class DuplicatesSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Second deliveries of messages, to be dropped and counted.

    Attributes:
        within: how long a message is remembered.
        by: values that two deliveries share; without them, or where one is missing, the whole payload.
    """

    within: str
    by: list[ValuePath] = []


class RuleSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Rule: which messages or rows it applies to, and the event each becomes.

    Attributes:
        name: in reports; the event type and place in the file where left out.
        topic: an MQTT topic filter, whose levels may be named: `zigbee2mqtt/{device}`. Without it the rule is for rows.
        format: of the payload: `json`, `text` (one field `value`) or `csv`.
        columns, separator: of a csv payload, the names of its fields, and what stands between them.
        when: the conditions under which the rule applies.
        each: an array or table in the payload, each element of which becomes an event.
        final: once this rule applies, later ones are not tried.
        type: the event type, or a table that looks it up.
        source: a template for the source, such as `{$device}` or `office-{room}`.
        sequence: the source's own sequence number; without it, events are counted for each source.
        attributes: by name, a kind, or a table.
        null: values that mean null in every attribute.
        time: the timestamp; without it, the arrival.
        duplicates: second deliveries; without it, none are looked for.
    """

    name: str | None = None
    topic: str | None = None
    format: PayloadFormat = "json"
    columns: list[str] = []
    separator: str = ","
    when: list[ConditionSpec] = []
    each: ValuePath | None = None
    final: bool = False
    type: str | TypeSpec | None = None
    source: str | None = None
    sequence: ValuePath | None = None
    attributes: dict[str, Any] = {}
    null: list[Scalar] = []
    time: TimeSpec | None = None
    duplicates: DuplicatesSpec | None = None


class ArrivalSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Arrival of a recorded row, at a path; format and zone as those of the event's time."""

    path: ValuePath
    format: str = "iso"
    timezone: str = "UTC"


class FileSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Reading of rows from a file.

    Attributes:
        format: `csv`, `jsonl`, `text` or `parquet`; by the ending of the file's name where left out.
        columns: names of the columns, of a file that has no heading.
        separator: between columns; a blank stands for any run of blanks and tabs.
        pattern: of a text file, a regular expression for a line, whose named groups are its fields.
        topic, payload: of recorded messages, where a row holds these two; the rules with topics then apply to it.
        arrival: of the row.
    """

    format: FileFormat | None = None
    columns: list[str] = []
    separator: str | None = None
    pattern: str | None = None
    topic: ValuePath | None = None
    payload: ValuePath | None = None
    arrival: ArrivalSpec | None = None


class FileOfRules(msgspec.Struct, forbid_unknown_fields=True):
    """Mapping file: how rows are read, keys that rules have unless they say otherwise, and the rules in order."""

    rule: list[dict[str, Any]]
    file: FileSpec = msgspec.field(default_factory=FileSpec)
    defaults: dict[str, Any] = {}


_T = TypeVar("_T", bound=msgspec.Struct)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d*|\.\.\.)\]")
_WORDS: Final = {"object": "table", "str": "text", "int": "whole number", "float": "number", "bool": "true or false"}


def shape(raw: object, wanted: type[_T], where: str) -> _T:
    """TOML table as a struct."""
    try:
        return msgspec.convert(raw, wanted)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        steps = [name or index for name, index in _STEP.findall(path.rstrip("`"))]
        found = _at(wanted, steps)
        place = ", ".join([where, ".".join(_counted(steps))]) if steps else where
        unknown = re.search(r"unknown field `(.*)`", problem)
        if unknown is not None:
            raise MappingError("unknown key", given=unknown[1], allowed=_keys(found), where=place) from None
        missing = re.search(r"missing required field `(.*)`", problem)
        if missing is not None:
            raise MappingError("a key is missing", given=missing[1], allowed=_keys(found), where=place) from None
        raise MappingError(
            "not a value for this key", given=_given(raw, steps), allowed=_allowed(found, problem), where=place
        ) from None


def _at(wanted: Any, steps: list[str]) -> Any:
    """Annotation at the end of a path through structs and lists."""
    for step in steps:
        for option in _options(wanted):
            if isinstance(option, type) and issubclass(option, msgspec.Struct):
                hints = get_type_hints(option)
                if step in hints:
                    wanted = hints[step]
                    break
            elif get_origin(option) is list and step.isdecimal():
                wanted = get_args(option)[0]
                break
        else:
            return None
    return wanted


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _keys(found: Any) -> str | None:
    for option in _options(found):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return ", ".join(option.__struct_fields__)
    return None


def _allowed(found: Any, problem: str) -> str:
    """Alternatives where there is a list of them, else the kinds msgspec expected."""
    for option in _options(found):
        if get_origin(option) is Literal:
            return ", ".join(get_args(option))
    expected = re.search(r"Expected `([^`]*)`", problem)
    if expected is None:
        return problem
    kinds = [_WORDS.get(kind, kind) for kind in expected[1].split(" | ") if kind != "null"]
    return " or ".join(dict.fromkeys(kinds))


def _given(raw: Any, steps: list[str]) -> object:
    for step in steps:
        if isinstance(raw, dict) and step in raw:
            raw = raw[step]
        elif isinstance(raw, list) and step.isdecimal():
            raw = raw[int(step)]
        else:
            return None
    return raw


def _counted(steps: list[str]) -> list[str]:
    """Steps with places counted from 1, as people do."""
    return [str(int(step) + 1) if step.isdecimal() else step for step in steps]

"""Schema of a mapping file: its tables and keys, as they stand in the TOML, and the check of their shape.

The keys are explained in docs/how-to/mappings.md. `mapping_file` reads a file into these structs, other modules compile
them. msgspec checks; its messages name the place, the alternatives are looked up in the structs. Regular tables were
chosen over templates with expressions (Jinja in Home Assistant, JSONata in Node-RED): a mapping translates what a
device sends, its meaning is the pattern's business, and a table can be checked when it is loaded.
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
FileFormat = Literal["csv", "jsonl", "json", "text", "parquet"]
AttributeKind = Literal["number", "string", "boolean"]
ClockMode = Literal["as-is", "monotone", "offset", "zone"]
Otherwise = Literal["reject", "arrival"]
Wrong = Literal["reject", "null"]


class ConditionSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Condition of a rule, `when = [{path = "state", equals = ["ON", "OFF"]}]`; all of them must hold."""

    path: ValuePath | None = None
    text: str | None = None
    present: bool | None = None
    equals: Scalar | list[Scalar] | None = None
    differs: Scalar | list[Scalar] | None = None
    matches: str | None = None
    above: int | float | None = None
    below: int | float | None = None


class TypeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Event type looked up by a value, or by a template that makes it; others take the default, or are rejected.

    A lookup is a table, or the name of a CSV file with the column of the values and the column of the types.
    """

    lookup: dict[str, str] | str
    columns: tuple[str, str] | None = None
    path: ValuePath | None = None
    text: str | None = None
    default: str | None = None


class AttributeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Attribute of the event, and its extraction from the message."""

    kind: AttributeKind
    path: ValuePath | None = None
    text: str | None = None
    null: list[Scalar] = []
    default: Scalar | None = None
    lookup: dict[str, Scalar] | str | None = None
    columns: tuple[str, str] | None = None
    scale: int | float | None = None
    offset: int | float | None = None
    range: tuple[int | float, int | float] | None = None
    true: list[Scalar] | None = None
    false: list[Scalar] | None = None
    above: int | float | None = None
    below: int | float | None = None
    wrong: Wrong = "reject"


class TimeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Timestamp of the event, and how far its clock is trusted. Durations are texts such as `20s`."""

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
    """Second deliveries of messages, to be dropped and counted."""

    within: str
    by: list[ValuePath] = []


class RuleSpec(msgspec.Struct, forbid_unknown_fields=True):
    """Rule: which messages or rows it applies to, and the event each becomes."""

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
    """Reading of rows from a file."""

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


# Resolves annotations before there are threads, for `convert`.
for _kind in (FileOfRules, RuleSpec, AttributeSpec):
    msgspec.json.Decoder(_kind)

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

"""Reading of a mapping file: every rule is checked before the first message, and errors name the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any, Final

from distced.middleware.mapping.clocks import ClockPolicy, InstantReader, TimeReader
from distced.middleware.mapping.conversion import AttributeReader, compile_attribute
from distced.middleware.mapping.extraction import (
    Pick,
    RuleCondition,
    TopicFilter,
    compile_condition,
    compile_path,
    compile_regex,
    compile_template,
    compile_value,
)
from distced.middleware.mapping.lookup_file import read_lookup
from distced.middleware.mapping.mapping import Mapping, RowReader
from distced.middleware.mapping.missing_paths import choosing_probes, going_probes, reading_probes
from distced.middleware.mapping.reads import reads_of
from distced.middleware.mapping.rules import Duplicates, Lookup, Rule, located
from distced.middleware.mapping.schema import (
    AttributeSpec,
    ConditionSpec,
    FileOfRules,
    FileSpec,
    RuleSpec,
    Scalar,
    TimeSpec,
    TypeSpec,
    ValuePath,
    shape,
)
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.event_types import KINDS, EventType, Kind, event_type
from distced.middleware.model.toml_text import parse_toml, read_toml

_NOT_DEFAULTS: Final = ("name", "topic")


def load_mapping(path: FilePath | str, *, first_seq: int = 0) -> Mapping:
    """Mapping of a file; `MappingError` where it cannot be read or is wrong.

    Args:
        first_seq: sequence number of each source's first event. A live driver gives the microseconds its clock shows at
            the start, so that no id comes twice; recordings start from 0.
    """
    raw = read_toml(path, "mapping", MappingError)
    return _compile_mapping(raw, str(path), FilePath(path).parent, first_seq)


def parse_mapping(text: str, *, name: str = "mapping", folder: FilePath = FilePath(), first_seq: int = 0) -> Mapping:
    """Mapping of a TOML text, which errors call `name`; files of lookups are in `folder`."""
    return _compile_mapping(parse_toml(text, name, MappingError), name, folder, first_seq)


def _compile_mapping(raw: dict[str, Any], name: str, folder: FilePath, first_seq: int) -> Mapping:
    whole = shape(raw, FileOfRules, name)
    # The defaults are checked on their own, so that a mistake in them is not reported of a rule.
    shape(whole.defaults, RuleSpec, f"{name}, defaults")
    for key in _NOT_DEFAULTS:
        if key in whole.defaults:
            raise MappingError("not for defaults", given=key, allowed="other keys of a rule", where=f"{name}, defaults")
    if not whole.rule:
        raise MappingError("a mapping without a rule", where=name, advice="write [[rule]]")
    with _at(f"{name}, file"):
        rows = _compile_file(whole.file)
    rules: list[Rule] = []
    places: list[str] = []
    lookups: dict[FilePath, None] = {}
    for number, each in enumerate(whole.rule, 1):
        where = f"{name}, rule {number}"
        spec = shape({**whole.defaults, **each}, RuleSpec, where)
        if spec.name:
            where += f" ({spec.name})"
        rule = _compile_rule(spec, number, where, rows, folder, lookups)
        if any(rule.name == other.name for other in rules):
            raise MappingError("two rules of one name", given=rule.name, allowed="each name once", where=where)
        rules.append(rule)
        places.append(where)
    types = _unite_types(rules, places)
    return Mapping(name, rules, types, file=whole.file, rows=rows, lookups=tuple(lookups), first_seq=first_seq)


def _compile_file(spec: FileSpec) -> RowReader:
    if (spec.topic is None) != (spec.payload is None):
        raise MappingError(
            "half a recorded message", given=spec.topic or spec.payload, allowed="both topic and payload"
        )
    if spec.pattern is not None:
        with _at("pattern"):
            if not compile_regex(spec.pattern).groupindex:
                raise MappingError("no named group", given=spec.pattern, allowed="(?P<name>...) for each field")
            if spec.columns or spec.separator is not None:
                raise MappingError("both a pattern and columns", allowed="pattern, or columns and separator")
    if spec.separator is not None and len(spec.separator) != 1:
        raise MappingError("not a separator", given=spec.separator, allowed="one character", where="separator")
    topic = _compile_optional("topic", spec.topic, _only_row)
    payload = _compile_optional("payload", spec.payload, _only_row)
    if spec.arrival is None:
        return RowReader(topic, payload)
    with _at("arrival"):
        clock = InstantReader(spec.arrival.format, spec.arrival.timezone)
        if clock.lacks_year:
            raise MappingError("no year", given=spec.arrival.format, allowed="a format with %Y or %y")
        return RowReader(topic, payload, compile_path(spec.arrival.path, _only_row), clock)


def _compile_rule(
    spec: RuleSpec, number: int, where: str, rows: RowReader, folder: FilePath, lookups: dict[FilePath, None]
) -> Rule:
    with _at(where):
        if spec.type is None or spec.source is None:
            missing = "type" if spec.type is None else "source"
            raise MappingError("a key is missing", given=missing, allowed="every rule has a type and a source")
        with _at("topic"):
            topic = None if spec.topic is None else TopicFilter(spec.topic)
        outside = _outside(topic, spec.each is not None)
        when = tuple(_compile_condition(place, each, outside) for place, each in enumerate(spec.when, 1))
        with _at("when"):
            groups = {name for each in spec.when if each.matches for name in compile_regex(each.matches).groupindex}
        each = _compile_optional("each", spec.each, _outside(topic, False))
        with _at("type"):
            type_name = spec.type if isinstance(spec.type, str) else _compile_type(spec.type, outside, folder)
        with _at("source"):
            source = compile_template(spec.source, outside)
        sequence = _compile_optional("sequence", spec.sequence, outside)
        shaped = _shape_attributes(spec)
        attributes = _compile_attributes(shaped, spec.null, outside, folder)
        timing = spec.time or TimeSpec()
        with _at("time"):
            time, clock = _compile_time(timing, topic is not None, rows, outside)
        with _at("duplicates"):
            duplicates = None if spec.duplicates is None else Duplicates(spec.duplicates, outside)
        _check_payload(spec)
    for table in (spec.type, *shaped.values()):
        if not isinstance(table, str | None) and isinstance(table.lookup, str):
            lookups[folder / table.lookup] = None
    named = spec.type if isinstance(spec.type, str) else "type looked up"
    return Rule(
        name=spec.name or f"{number} ({named})",
        topic=topic,
        payload=(spec.format, tuple(spec.columns), spec.separator),
        when=when,
        each=each,
        final=spec.final,
        type=type_name,
        source=source,
        sequence=sequence,
        attributes=attributes,
        kinds={key: each.kind for key, each in shaped.items()},
        time=time,
        clock=clock,
        duplicates=duplicates,
        going=going_probes(spec),
        choosing=choosing_probes(spec, frozenset(groups)),
        reading=reading_probes(spec, shaped, timing),
        reads=reads_of(spec, shaped, timing),
    )


def _compile_condition(place: int, spec: ConditionSpec, outside: Callable[[str], bool]) -> RuleCondition:
    with _at(f"when.{place}"):
        return compile_condition(spec, outside)


def _compile_optional(key: str, path: ValuePath | None, outside: Callable[[str], bool]) -> Pick | None:
    with _at(key):
        return None if path is None else compile_path(path, outside)


def _check_payload(spec: RuleSpec) -> None:
    if spec.format == "csv" and not spec.columns:
        raise MappingError("a csv payload without columns", allowed="columns = ['temperature', 'humidity']")
    if spec.columns and spec.format != "csv":
        raise MappingError("columns of what is no csv", given=spec.format, allowed="format = 'csv'")
    if len(spec.separator) != 1:
        raise MappingError("not a separator", given=spec.separator, allowed="one character", where="separator")


def _compile_type(spec: TypeSpec, outside: Callable[[str], bool], folder: FilePath) -> Lookup:
    pick = compile_value(spec.path, spec.text, outside)
    if pick is None:
        raise MappingError("a lookup of nothing", allowed="a path or a text")
    if isinstance(spec.lookup, str):
        return Lookup(pick, read_lookup(folder / spec.lookup, spec.columns, "type"), spec.default)
    if spec.columns is not None:
        raise MappingError("columns of no file", given=spec.columns, allowed="lookup = 'FILE.csv'")
    return Lookup(pick, spec.lookup, spec.default)


def _shape_attributes(spec: RuleSpec) -> dict[str, AttributeSpec]:
    shaped = {}
    for name, raw in spec.attributes.items():
        with _at(f"attributes.{name}"):
            shaped[name] = _shape_attribute(raw)
    return shaped


def _compile_attributes(
    shaped: dict[str, AttributeSpec], nulls: Sequence[Scalar], outside: Callable[[str], bool], folder: FilePath
) -> dict[str, AttributeReader]:
    readers = {}
    for name, each in shaped.items():
        with _at(f"attributes.{name}"):
            readers[name] = compile_attribute(name, each, nulls, outside, folder)
    return readers


def _shape_attribute(raw: Any) -> AttributeSpec:
    if isinstance(raw, str):
        if raw not in KINDS:
            raise MappingError("not a kind", given=raw, allowed=f"{', '.join(KINDS)}, or a table with path and kind")
        raw = {"kind": raw}
    try:
        return shape(raw, AttributeSpec, "")
    except MappingError as error:
        # The name of the attribute is the place; what is left of it is the key inside.
        place = (error.where or "").removeprefix(", ") or None
        raise MappingError(error.problem, given=error.given, allowed=error.allowed, where=place) from None


def _compile_time(
    spec: TimeSpec, live: bool, rows: RowReader, outside: Callable[[str], bool]
) -> tuple[TimeReader, ClockPolicy]:
    time = TimeReader(spec, outside)
    clock = ClockPolicy(spec, time.by_arrival)
    has_arrival = live or rows.arrival is not None
    if clock.needs_arrival and not has_arrival:
        raise MappingError(
            "rows have no arrival", allowed="a time of the row's own, and clock 'as-is' or 'monotone'",
            advice="give path (or start and end), or file.arrival where the recorder noted it",
        )  # fmt: skip
    if time.lacks_year and spec.year is None and not has_arrival:
        raise MappingError(
            "no year", given=spec.format, allowed="a format with %Y or %y, or year",
            advice="give the year of the first row; it grows by itself",
        )  # fmt: skip
    return time, clock


def _unite_types(rules: Sequence[Rule], places: Sequence[str]) -> list[EventType]:
    """Event types of all rules; an attribute that only some rules of a type know is null in the others."""
    kinds: dict[str, dict[str, Kind]] = {}
    for rule, where in zip(rules, places, strict=True):
        for type_name in sorted(rule.types):
            known = kinds.setdefault(type_name, {})
            for name, kind in rule.kinds.items():
                if known.setdefault(name, kind) != kind:
                    raise MappingError(
                        f"{type_name}.{name} has two kinds", given=kind, allowed=known[name],
                        where=f"{where}, attributes.{name}", advice="give the type's rules one kind for it",
                    )  # fmt: skip
            with _at(f"{where}, type or attributes"):
                event_type(type_name, known)
    for rule in rules:
        united = {name for type_name in rule.types for name in kinds[type_name]}
        for type_name in rule.types:
            kinds_of_type = kinds[type_name]
            for name in united - set(kinds_of_type):
                raise MappingError(
                    f"{type_name} lacks the attribute {name!r}", given=rule.name,
                    allowed="event types of one lookup with the same attributes", where=places[rules.index(rule)],
                )  # fmt: skip
        rule.unknown = dict.fromkeys(name for name in sorted(united) if name not in rule.kinds)
    return [event_type(name, attributes) for name, attributes in kinds.items()]


def _outside(topic: TopicFilter | None, each: bool) -> Callable[[str], bool]:
    def known(name: str) -> bool:
        return name in ("row", "payload") or (each and name == "key") or (topic is not None and topic.knows(name))

    return known


def _only_row(name: str) -> bool:
    return name == "row"


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Prefix the place to errors from inside."""
    try:
        yield
    except DistcedError as error:
        raise located(error, where) from None

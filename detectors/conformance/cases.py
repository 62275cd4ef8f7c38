"""Conformance cases and their TOML files (design, section 5).

    [[case]]
    name = "a meeting starts before anyone else comes"
    language = "core"                         # or another one, of whose text the last query is meant
    pattern = "[B <= {B, P}]"
    consumption = "ordered"                   # or epoch
    let = {Meeting = "[BoardOn][BoardOff]"}   # optional definitions
    events = ["P 10", "B 20", "B 30 35 room='FE02' temp=14.5"]
    expect = [[1], [2]]                       # constituents of each composite event, by position in events; order free
    output = [{room = "FE02"}, {}]            # optional: attributes, in the order of expect; what is left out is null

Beside the design's keys:

    timestamps = ["20", "30 35"]              # optional: when, in the order of expect, written as in events
    source = "Siddhi, SequenceTestCase.testQuery3"  # what the case restates
    error = "unexpected"                      # in place of expect: the pattern is refused, with this in the message
    types = {Temp = {room = "string"}}        # a closed registry; without it every type and attribute is taken as known
    derive = ["type Seen = Pers every 1min by person"]
    publications = ["[A] ; [B] -> Pair()"]    # detected beside the pattern, which may read them

A constituent that is a composite event itself is written as the list of what it is made of: `expect = [[[0, 1], 2]]`;
the event of a clock by its time: `expect = [[0, "at 1h"]]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from distced.detectors.compiler import Consumption
from distced.detectors.language.expression_parser import ExpressionParser
from distced.detectors.language.parser import INSTANT
from distced.detectors.language.scanner import Scanner
from distced.middleware.mapping.schema import shape
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, event_type
from distced.middleware.model.events import Attribute, Event, check_event
from distced.middleware.model.timestamps import INSTANT_MAX, Timestamp, parse_instant
from distced.middleware.model.toml_text import parse_toml, read_toml
from distced.middleware.sets.expressions import Literal, Span

SOURCE: Final = "e"
"""The source of the events of a case; their sequence number is their position."""

_TIME: Final = "a time: whole nanoseconds such as 10, a duration such as 5s, an instant such as 2026-11-21T08:00Z"


def parse_event(text: str, position: int) -> Event:
    """The event of a line. Raises `DistcedError` for a malformed one."""
    scanner = Scanner(text)
    name = scanner.expect_kind("name", "an event type").text
    lo = _time(scanner)
    hi = _time(scanner) if _at_time(scanner) else lo
    attributes: dict[str, Attribute] = {}
    while scanner.word.kind != "end":
        word = scanner.expect_kind("name", "an attribute" if attributes else f"{_TIME}, or an attribute")
        if word.text in attributes:
            raise scanner.error("given twice", Span(word.start, word.end), given=word.text)
        scanner.expect("=")
        attributes[word.text] = _value(scanner)
    return check_event(Event(name, lo, hi, SOURCE, position, attributes))


def _at_time(scanner: Scanner) -> bool:
    return scanner.word.kind in ("number", "duration") or (scanner.word.kind == "sign" and scanner.word.text == "-")


def _time(scanner: Scanner) -> int:
    start = scanner.word.start
    if INSTANT.match(scanner.text, start):
        text = scanner.raw(INSTANT, _TIME)[0]
        try:
            return parse_instant(text)
        except DistcedError as error:
            span = Span(start, scanner.previous.end)
            raise scanner.error(error.problem, span, given=text, allowed=error.allowed) from None
    sign = -1 if scanner.take("-") else 1
    if scanner.word.kind == "duration":
        return sign * ExpressionParser(scanner).duration()
    word = scanner.expect_kind("number", _TIME)
    if not word.text.isdigit() or len(word.text) > len(str(INSTANT_MAX)):
        raise scanner.error("not a time", Span(start, word.end), given=word.text, allowed=_TIME)
    return sign * int(word.text)


def _value(scanner: Scanner) -> Attribute:
    start = scanner.word.start
    expression = ExpressionParser(scanner).sum()
    if not isinstance(expression, Literal):
        span = Span(start, scanner.previous.end)
        raise scanner.error(
            "not the value of an attribute",
            span,
            given=scanner.text[span.start : span.end],
            allowed="a number, 'a text', true, false, null, a duration",
        )
    return expression.value


LANGUAGES: Final = ("core", "cel", "algebra", "cedr", "cedmos", "pretty")
"""The languages a case may be written in, whether or not this version supports them."""

CONSUMPTIONS: Final[tuple[Consumption, ...]] = ("ordered", "epoch")

Constituents: TypeAlias = tuple[Any, ...]
"""Positions in `events`; a constituent that is a composite event is a tuple of positions itself, the event of a clock
its `clock_at`."""


class ConformanceError(DistcedError):
    """Malformed file of conformance cases."""


@dataclass(frozen=True, slots=True)
class Match:
    """A composite event, in the notation of a case: positions of its constituents, attributes and timestamp; None for
    the latter two where the case does not give them."""

    constituents: Constituents
    attributes: Mapping[str, Attribute] | None = None
    timestamp: Timestamp | None = None

    def __str__(self) -> str:
        text = _format_constituents(self.constituents) if self.constituents else "a composite event"
        if self.timestamp is not None:
            text += f" at [{self.timestamp.lo}, {self.timestamp.hi}]"
        if self.attributes is not None:
            text += " with " + (
                ", ".join(f"{name} = {value!r}" for name, value in self.attributes.items()) or "nothing"
            )
        return text


@dataclass(frozen=True, slots=True)
class Case:
    """One conformance case.

    Attributes:
        name: its subject in words; unique in its file.
        publications: patterns that are detected beside it and whose composite events it may read.
        types: the event types; None where every type is taken as known.
        derive: statements that derive types from others.
        events: by position; sources and sequence numbers are given by the position. `texts` are these as written.
        expect: the expected composite events, in any order.
        error: a part of the message the pattern is refused with; empty where it is not.
        source: the test of another system that it restates; empty for none.
        where: its file and its place there.
    """

    name: str
    language: str
    pattern: str
    consumption: Consumption
    let: Mapping[str, str]
    publications: tuple[str, ...]
    types: Mapping[str, EventType] | None
    derive: tuple[str, ...]
    events: tuple[Event, ...]
    texts: tuple[str, ...]
    expect: tuple[Match, ...]
    error: str
    where: str
    source: str = ""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A case as a table of the file; the keys are explained above."""

    name: str
    pattern: str
    language: str = "core"
    consumption: str = "ordered"
    let: dict[str, str] = {}
    publications: list[str] = []
    types: dict[str, dict[str, str]] | None = None
    derive: list[str] = []
    events: list[str] = []
    expect: list[list[Any]] | None = None
    output: list[dict[str, int | float | str | bool]] | None = None
    timestamps: list[str] | None = None
    error: str | None = None
    source: str = ""


class _CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[dict[str, Any]]


def load_cases(path: Path | str) -> list[Case]:
    """The cases of a file. Raises `ConformanceError` with file, case and key for a malformed one."""
    return _cases(read_toml(path, "cases", ConformanceError), str(path))


def parse_cases(text: str, *, name: str = "cases") -> list[Case]:
    """The cases of a TOML text; `name` identifies it in errors."""
    return _cases(parse_toml(text, name, ConformanceError), name)


def _cases(raw: dict[str, Any], name: str) -> list[Case]:
    tables = _shaped(raw, _CaseFile, name).case
    if not tables:
        raise ConformanceError("a file without a case", where=name, advice="write [[case]]")
    cases: list[Case] = []
    places: dict[str, int] = {}
    for number, each in enumerate(tables, 1):
        given = each.get("name")
        where = f"{name}, case {number}" + (f" ({given!r})" if isinstance(given, str) else "")
        case = _case(_shaped(each, _Table, where), f"{name}, case {number}", where)
        if case.name in places:
            raise ConformanceError(
                "two cases of one name", given=case.name, allowed="each name once", where=f"{where}, name",
                advice=f"case {places[case.name]} has it already",
            )  # fmt: skip
        places[case.name] = number
        cases.append(case)
    return cases


def _case(table: _Table, place: str, where: str) -> Case:
    if not table.name.strip():
        raise ConformanceError("a case without a name", where=f"{where}, name", advice="name its subject in words")
    if table.language not in LANGUAGES:
        raise ConformanceError(
            "unknown language", given=table.language, allowed=", ".join(LANGUAGES), where=f"{where}, language"
        )
    consumption = next((each for each in CONSUMPTIONS if each == table.consumption), None)
    if consumption is None:
        raise ConformanceError(
            "unknown consumption",
            given=table.consumption,
            allowed=", ".join(CONSUMPTIONS),
            where=f"{where}, consumption",
        )
    types = None if table.types is None else _types(table.types, f"{where}, types")
    return Case(
        name=table.name,
        language=table.language,
        pattern=table.pattern,
        consumption=consumption,
        let=table.let,
        publications=tuple(table.publications),
        types=types,
        derive=tuple(table.derive),
        events=tuple(_event(text, position, types, where) for position, text in enumerate(table.events)),
        texts=tuple(table.events),
        expect=_expected(table, where),
        error=table.error or "",
        where=place,
        source=table.source,
    )


@contextmanager
def _errors_of_cases(where: str | None = None) -> Iterator[None]:
    """Raise other errors as those of a case, at this place or their own."""
    try:
        yield
    except DistcedError as error:
        raise ConformanceError(
            error.problem, given=error.given, allowed=error.allowed, where=where or error.where, advice=error.advice
        ) from None


def _types(tables: Mapping[str, Mapping[str, str]], where: str) -> dict[str, EventType]:
    with _errors_of_cases(where):
        return {name: event_type(name, attributes) for name, attributes in tables.items()}


def _event(text: str, position: int, types: Mapping[str, EventType] | None, where: str) -> Event:
    with _errors_of_cases(f"{where}, events, position {position}: {text!r}"):
        event = parse_event(text, position)
        if types is None:
            return event
        if event.type not in types:
            raise DistcedError("an event of a type that is not in types", given=event.type, allowed=", ".join(types))
        known = types[event.type]
        # What is left out is null, as everywhere in a case.
        attributes = {**dict.fromkeys(known.attributes), **event.attributes}
        event = Event(event.type, event.lo, event.hi, event.source, event.seq, attributes)
        known.check(event)
        return event


def _expected(table: _Table, where: str) -> tuple[Match, ...]:
    if table.error is not None:
        if not table.error:
            raise ConformanceError("an empty error", where=f"{where}, error", allowed="a part of the message")
        given = [name for name in ("events", "expect", "output", "timestamps") if getattr(table, name)]
        if given:
            raise ConformanceError(
                "a pattern that is refused meets no events and finds nothing", given=", ".join(given), where=where
            )
        return ()
    if table.expect is None:
        raise ConformanceError(
            "a key is missing", given="expect", allowed="expect, or error for a pattern that is refused", where=where
        )
    count = len(table.events)
    constituents = [
        _constituents(each, count, f"{where}, expect, number {number}") for number, each in enumerate(table.expect, 1)
    ]
    for key in ("output", "timestamps"):
        given_for = getattr(table, key)
        if given_for is not None and len(given_for) != len(constituents):
            raise ConformanceError(
                "not one for each composite event",
                given=f"{len(given_for)} for {len(constituents)}",
                allowed="as many as in expect",
                where=f"{where}, {key}",
            )
    attributes = table.output if table.output is not None else [None] * len(constituents)
    timestamps = (
        [None] * len(constituents)
        if table.timestamps is None
        else [_timestamp(text, f"{where}, timestamps") for text in table.timestamps]
    )
    return tuple(map(Match, constituents, attributes, timestamps))


def _constituents(given: list[Any], count: int, where: str) -> Constituents:
    if not given:
        raise ConformanceError("a composite event without a constituent", where=where, allowed="positions in events")
    return tuple(
        _constituents(each, count, where) if isinstance(each, list) else _position(each, count, where) for each in given
    )


def clock_at(instant: int) -> str:
    """Notation of the event of a clock."""
    return f"clock at {instant}"


def _position(given: object, count: int, where: str) -> int | str:
    if isinstance(given, str) and given.startswith("at "):
        return clock_at(_timestamp(given.removeprefix("at "), where).hi)
    if type(given) is not int or not 0 <= given < count:
        allowed = f"0 to {count - 1}" if count else "none, for there are no events"
        raise ConformanceError("not a position in events", given=given, allowed=allowed, where=where)
    return given


def _timestamp(text: str, where: str) -> Timestamp:
    try:
        return parse_event(f"_ {text}", 0).timestamp
    except DistcedError as error:
        allowed = "`lo` or `lo hi`, as in events"
        raise ConformanceError(error.problem, given=text, allowed=allowed, where=where) from None


def _format_constituents(constituents: Constituents) -> str:
    inner = (_format_constituents(each) if isinstance(each, tuple) else str(each) for each in constituents)
    return f"[{', '.join(inner)}]"


def _shaped(raw: object, wanted: type[Any], where: str) -> Any:
    with _errors_of_cases():
        return shape(raw, wanted, where)

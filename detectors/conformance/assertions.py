"""Assertions on patterns for the tests of an application: no server, no clock, no thread.

The public names are those of `distced.testing`, the expectations those of conformance cases (`cases.py`). Assertions on
arrival order were rejected: under guaranteed detection it makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from distced.detectors.batch_run.runner import run
from distced.detectors.compiler import Consumption
from distced.detectors.conformance.cases import Constituents, Match, parse_event
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute, CompositeEvent, Event, check_event
from distced.middleware.model.timestamps import parse_duration, parse_instant

Expectation: TypeAlias = Match | Mapping[str, Attribute] | Sequence[Any]
"""A composite event: its attributes, the positions of its constituents, or a `Match` with both."""


class EventBuilder:
    """Builder of events with ids: one source, ascending sequence numbers.

        day = EventBuilder("2026-11-21T08:00Z", source="office")
        events = [day.event("Door", "0s", room="FE02"), day.event("Temp", "40s", room="FE02", temp=14.5)]

    Attributes:
        start: instant that durations count from, ns since the Unix epoch.
        source: source of the events.
        seq: sequence number of the next event.
    """

    def __init__(self, start: int | str = 0, *, source: str = "test") -> None:
        """Args: start: ns since the Unix epoch, or an instant such as `2026-11-21T08:00Z`."""
        self.start = parse_instant(start) if isinstance(start, str) else start
        self.source = source
        self.seq = 0

    def event(self, name: str, at: int | str, until: int | str | None = None, /, **attributes: Attribute) -> Event:
        """The next event.

        Args:
            name: event type.
            at: ns or a duration after the start, such as `40s`; a text with a date is an instant.
            until: end of the interval timestamp; `at` by default.
            attributes: by name.
        """
        lo = self._instant(at)
        made = Event(name, lo, lo if until is None else self._instant(until), self.source, self.seq, attributes)
        self.seq += 1
        return check_event(made)

    def _instant(self, given: int | str) -> int:
        if isinstance(given, int):
            return self.start + given
        return parse_instant(given) if "T" in given else self.start + parse_duration(given)


def parse_events(lines: Iterable[str | Event]) -> list[Event]:
    """Events from lines of text such as `Temp 30s 35s room='FE02' temp=14.5`; events pass unchanged.

    The format is that of conformance cases: type, `lo`, optional `hi`, attributes; times are whole nanoseconds,
    durations since the epoch, or instants.
    """
    return [line if isinstance(line, Event) else parse_event(line, place) for place, line in enumerate(lines)]


def detect(
    pattern: object,
    events: Iterable[str | Event],
    *,
    types: Iterable[EventType] | None = None,
    consumption: Consumption = "ordered",
    engine: EngineName = "stepwise",
    finish: bool = True,
    language: str = "",
) -> list[CompositeEvent]:
    """Composite events of a pattern in these events under guaranteed detection, in order of detection.

    Args:
        pattern: pattern text, the path of a pattern file, or a pattern built from `distced.event`.
        events: events, or lines of text (`parse_events`); in any order.
        types: event types to check the pattern against; without them every type and attribute is accepted.
        consumption: `"ordered"` or `"epoch"`.
        engine: `"stepwise"` or `"columnar"`.
        finish: whether time goes on after the last event until every time event has fired.
        language: of pattern text, such as `"cel"`; by default the core language, and for a file that of its ending.
    """
    found: list[CompositeEvent] = run(
        pattern,
        parse_events(events),
        types=types,
        consumption=consumption,
        engine=engine,
        finish=finish,
        language=language,
    )
    return found


def assert_detects(
    pattern: object,
    events: Iterable[str | Event],
    expected: int | Iterable[Expectation],
    *,
    types: Iterable[EventType] | None = None,
    consumption: Consumption = "ordered",
    engine: EngineName = "stepwise",
    finish: bool = True,
    language: str = "",
) -> list[CompositeEvent]:
    """Assert that a pattern detects these composite events and no others, in any order; returns them.

    Args:
        expected: number of composite events; or for each its attributes (a mapping; what is left out is null), the
            positions of its constituents in `events` (a list), or a `Match`. One form for all of them.

    The other arguments are those of `detect`. Raises `AssertionError` with the missing and the unexpected ones, and
    `DistcedError` where pattern, events or expectations are malformed.
    """
    given = parse_events(events)
    found = detect(
        pattern, given, types=types, consumption=consumption, engine=engine, finish=finish, language=language
    )
    positions = {each.id: place for place, each in enumerate(given)}
    if isinstance(expected, int):
        if len(found) == expected:
            return found
        matches = [_match(each, positions) for each in found]
        raise AssertionError(_report(pattern, given, f"{len(found)} found, {expected} expected", found=matches))
    wanted = [_wanted(each, len(given)) for each in expected]
    if len({_facets(each) for each in wanted}) > 1:
        raise DistcedError(
            "expectations of several forms",
            given=", ".join(map(str, wanted)),
            allowed="attributes, positions of constituents, or Match, the same for all",
        )
    facets = _facets(wanted[0]) if wanted else (True, True, True)
    unexpected, missing = [_match(each, positions) for each in found], []
    for expectation in wanted:
        met = next((each for each in unexpected if _seen(each, facets) == _seen(expectation, facets)), None)
        if met is None:
            missing.append(expectation)
        else:
            unexpected.remove(met)
    if missing or unexpected:
        summary = f"{len(missing)} missing, {len(unexpected)} unexpected, {len(wanted)} expected"
        raise AssertionError(_report(pattern, given, summary, missing=missing, unexpected=unexpected))
    return found


def _wanted(expectation: Expectation, count: int) -> Match:
    if isinstance(expectation, Match):
        return expectation
    if isinstance(expectation, Mapping):
        return Match((), expectation)
    if isinstance(expectation, Sequence) and not isinstance(expectation, str):
        return Match(_positions(expectation, count))
    raise DistcedError(
        "not an expectation",
        given=repr(expectation),
        allowed="attributes (a mapping), positions of constituents (a list), or Match",
    )


def _positions(given: Sequence[Any], count: int) -> Constituents:
    for each in given:
        if not isinstance(each, list | tuple) and (type(each) is not int or not 0 <= each < count):
            raise DistcedError("not a position in events", given=repr(each), allowed=f"0 to {count - 1}")
    return tuple(_positions(each, count) if isinstance(each, list | tuple) else each for each in given)


def _match(composite: CompositeEvent, positions: Mapping[tuple[str, int], int]) -> Match:
    def places(of: CompositeEvent) -> Constituents:
        return tuple(places(each) if isinstance(each, CompositeEvent) else positions[each.id] for each in of.events)

    return Match(places(composite), composite.attributes, composite.timestamp)


def _facets(match: Match) -> tuple[bool, bool, bool]:
    """Whether constituents, attributes and timestamp are compared."""
    return bool(match.constituents), match.attributes is not None, match.timestamp is not None


def _seen(match: Match, facets: tuple[bool, bool, bool]) -> tuple[object, ...]:
    constituents, attributes, timestamp = facets
    return (
        _unordered(match.constituents) if constituents else None,
        _values(match.attributes or {}) if attributes else None,
        match.timestamp if timestamp else None,
    )


def _unordered(constituents: Constituents) -> tuple[object, ...]:
    return tuple(sorted((_unordered(each) if isinstance(each, tuple) else each for each in constituents), key=repr))


def _values(attributes: Mapping[str, Attribute]) -> frozenset[tuple[str, bool, Attribute]]:
    """Attributes without nulls; true is not 1."""
    return frozenset((name, type(value) is bool, value) for name, value in attributes.items() if value is not None)


def _report(pattern: object, events: Sequence[Event], summary: str, **matches: Sequence[Match]) -> str:
    rows = [("pattern", str(pattern).strip()), ("detected", summary)]
    rows += [(label, str(each)) for label, several in matches.items() for each in several]
    rows += [("events", f"{place}: {_line(each)}") for place, each in enumerate(events)]
    return "\n".join(f"{label if _first(rows, place) else '':11} {text}" for place, (label, text) in enumerate(rows))


def _first(rows: Sequence[tuple[str, str]], place: int) -> bool:
    return place == 0 or rows[place - 1][0] != rows[place][0]


def _line(event: Event) -> str:
    time = f"{event.lo}" if event.lo == event.hi else f"{event.lo} {event.hi}"
    return " ".join([event.type, time, *(f"{name}={value!r}" for name, value in event.attributes.items())])

"""Events for people to read."""

from __future__ import annotations

import pytest

from distced.middleware.cli.output import EventLines, clock, span
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE, SECOND


def test_columns_stay_where_they_are() -> None:
    lines = EventLines()
    wide = lines.line(Event("Temperature", SECOND, SECOND, "hall", 1, {"c": 21.5}))
    narrow = lines.line(Event("Door", SECOND, SECOND, "front", 1, {"open": True, "by": None}))
    assert wide.plain == "1970-01-01T00:00:01.000Z  Temperature  c=21.5  from hall"
    assert narrow.plain == "1970-01-01T00:00:01.000Z  Door         open=true  by=null  from front"
    assert lines.colours["Temperature"] != lines.colours["Door"]


def test_constituents_stand_below_and_indented() -> None:
    inner = Event("A", 5, 5, "s", 1, {})
    event = CompositeEvent("C", 5, 5 + MINUTE, "c1", 1, {}, constituents=(("s", 1),), events=(inner,))
    reported = [line.plain for line in EventLines().lines(event, 1_500_000)]
    assert reported == [
        "1970-01-01T00:01:00.000Z  C  over 1 min, 1 constituent, after 1.5 ms",
        "    1970-01-01T00:00:00.000Z  A  from s",
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 µs"),
        (1_500, "1.5 µs"),
        (2 * MILLISECOND, "2 ms"),
        (2_345 * MILLISECOND, "2.35 s"),
        (90 * SECOND, "1.5 min"),
        (36 * HOUR, "36 h"),
        (5_000 * HOUR, "5,000 h"),
    ],
)
def test_span_has_three_digits(nanoseconds: int, text: str) -> None:
    assert span(nanoseconds) == text


def test_instants_are_equally_long() -> None:
    assert clock(1_795_248_000 * SECOND + 7 * MILLISECOND) == "2026-11-21T08:00:00.007Z"
    assert clock(-1) == "1969-12-31T23:59:59.999Z"

"""When time events are due: relative ones, instants, times of day in zones with and without summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.detectors.automata.automaton import due_again, due_instant
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import (
    DAY,
    HOUR,
    INSTANT_MAX,
    INSTANT_MIN,
    MINUTE,
    SECOND,
    format_instant,
    parse_instant,
)
from distced.middleware.patterns.tree import Instant, Recurring, Relative, TimeOfDay, When

LONDON = "Europe/London"
KATHMANDU = "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("when", "end", "due"),
    [
        (Relative(5), 10, 15),
        (Relative(0), 10, 10),
        (Relative(5), -10, -5),
        (Relative(1), INSTANT_MAX, None),
        (Instant(20), 10, 20),
        (Instant(10), 10, 10),
        (Instant(9), 10, None),
        (TimeOfDay(19 * HOUR), 18 * HOUR, 19 * HOUR),
        (TimeOfDay(19 * HOUR), 19 * HOUR, 19 * HOUR),
        (TimeOfDay(19 * HOUR), 19 * HOUR + 1, DAY + 19 * HOUR),
        (TimeOfDay(19 * HOUR), -1, -5 * HOUR + DAY),
        (TimeOfDay(0), 1, DAY),
        (TimeOfDay(19 * HOUR, 120), 0, 17 * HOUR),
        (TimeOfDay(19 * HOUR, -330), 0, 30 * MINUTE),
        (TimeOfDay(19 * HOUR, -330), 31 * MINUTE, DAY + 30 * MINUTE),
        (TimeOfDay(0), INSTANT_MAX - 5, None),
    ],
)
def test_time_events_are_due_by_their_rule(when: Relative | Instant | TimeOfDay, end: int, due: int | None) -> None:
    assert due_instant(when, end) == due


@pytest.mark.parametrize(
    ("when", "fired", "due"),
    [
        (Relative(5), 10, None),
        (TimeOfDay(19 * HOUR), 10, None),
        (Recurring(Relative(5)), 10, 15),
        (Recurring(Relative(5)), INSTANT_MAX - 4, None),
        (Recurring(TimeOfDay(19 * HOUR)), 19 * HOUR, DAY + 19 * HOUR),
    ],
)
def test_time_events_recur_by_their_rule(when: When, fired: int, due: int | None) -> None:
    assert due_again(when, fired) == due


@pytest.mark.parametrize(
    ("time", "zone", "end", "due"),
    [
        ("09:00", LONDON, "2026-01-15T08:30:00Z", "2026-01-15T09:00:00Z"),
        ("09:00", LONDON, "2026-07-15T07:30:00Z", "2026-07-15T08:00:00Z"),
        ("09:00", LONDON, "2026-07-15T08:00:00.000000001Z", "2026-07-16T08:00:00Z"),
        # The night in spring that leaves out an hour: 01:30 is read by the offset before it.
        ("01:30", LONDON, "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
        ("09:00", LONDON, "2026-03-28T10:00:00Z", "2026-03-29T08:00:00Z"),
        # The night in autumn that has an hour twice: the first of them.
        ("01:30", LONDON, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("01:30", LONDON, "2026-10-25T00:45:00Z", "2026-10-26T01:30:00Z"),
        ("00:00", KATHMANDU, "2026-11-21T00:00:00Z", "2026-11-21T18:15:00Z"),
        ("00:00", "Pacific/Kiritimati", "2026-11-21T00:00:00Z", "2026-11-21T10:00:00Z"),
        ("00:00", "Pacific/Niue", "2026-11-21T00:00:00Z", "2026-11-21T11:00:00Z"),
    ],
)
def test_times_of_day_follow_their_zone(time: str, zone: str, end: str, due: str) -> None:
    hour, minute = map(int, time.split(":"))
    found = due_instant(TimeOfDay(hour * HOUR + minute * MINUTE, zone), parse_instant(end))
    assert found is not None
    assert format_instant(found) == due


@given(
    st.integers(0, 24 * 60 - 1),
    st.sampled_from([LONDON, KATHMANDU, "America/New_York", "Australia/Lord_Howe", "UTC"]),
    st.integers(0, 3 * 365 * 24 * 60),
)
def test_due_instant_shows_the_wall_clock_time(minute: int, zone: str, start: int) -> None:
    """The first minute at or after the start at which the clock shows the time, looked for minute by minute."""
    wall = ZoneInfo(zone)
    begin = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=start)
    end = int(begin.timestamp()) * SECOND
    due = due_instant(TimeOfDay(minute * MINUTE, zone), end)
    assert due is not None
    shown = datetime.fromtimestamp(due // SECOND, wall)
    for each in range(26 * 60):
        moment = (begin + timedelta(minutes=each)).astimezone(wall)
        if moment.hour * 60 + moment.minute == minute and moment.fold == 0:
            assert int(moment.timestamp()) * SECOND == due
            break
        # Left out in spring: the clock then shows an hour, or half of one, later.
        if int(moment.timestamp()) * SECOND == due:
            assert (shown.hour * 60 + shown.minute - minute) % (24 * 60) in (30, 60)
            break
    else:
        raise AssertionError(f"not within a day: {shown}")


@given(st.integers(INSTANT_MIN, INSTANT_MAX), st.integers(0, DAY - 1), st.integers(-1439, 1439))
def test_time_of_day_in_a_fixed_zone_is_due_once_a_day(end: int, nanosecond: int, zone: int) -> None:
    due = due_instant(TimeOfDay(nanosecond, zone), end)
    if due is None:
        assert end > INSTANT_MAX - DAY
        return
    assert end <= due < end + DAY
    assert (due + zone * MINUTE - nanosecond) % DAY == 0


@pytest.mark.parametrize("together", [True, False])
def test_time_event_of_an_instant_is_a_further_way_to_its_composite_event(together: bool) -> None:
    """Both ways leave in one message: a second composite event of this id would be taken for the first, sent twice."""
    engine = StepwiseEngine([compile_pattern("init n = 0 : ([A], [T set n = 1]{0,1}) @ T = 0ns")], derivations=True)
    happened = [Event("A", at, at, "s", at, {}) for at in (6, 8)]
    found = engine.feed(happened) if together else [*engine.feed(happened[:1]), *engine.feed(happened[1:])]
    found += engine.advance(100)
    assert [(each.hi, len(each.derivations)) for each in found] == [(6, 2), (8, 2)]

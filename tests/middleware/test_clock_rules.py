"""Clocks by their rules: instants, names, errors."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest

from distced.middleware.model.clock_rules import (
    check_clock,
    clock_event,
    cron_clock,
    every_clock,
    format_clock,
    interval_of,
    next_instant,
)
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, TypeRegistry, clock_type
from distced.middleware.model.events import check_event
from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MAX, INSTANT_MIN, MINUTE, SECOND, parse_instant


def instants(name: str, begin: str, number: int) -> list[str]:
    """The first instants of a clock behind one, in UTC."""
    found, instant = [], parse_instant(begin)
    for _ in range(number):
        following = next_instant(name, instant)
        assert following is not None
        instant = following
        found.append(datetime.fromtimestamp(instant / SECOND, UTC).strftime("%m-%dT%H:%M"))
    return found


@pytest.mark.parametrize(
    ("zone", "fields", "begin", "expected"),
    [
        ("UTC", "0 8 * * mon-fri", "2026-07-03T08:00Z", ["07-06T08:00", "07-07T08:00"]),
        ("Europe/London", "0 8 * * mon-fri", "2026-07-03T08:00Z", ["07-06T07:00", "07-07T07:00"]),
        # A spring night leaves half past one out, an autumn night has it twice.
        ("Europe/London", "30 1 * * *", "2026-03-28T12:00Z", ["03-29T01:00", "03-30T00:30"]),
        ("Europe/London", "30 1 * * *", "2026-10-24T12:00Z", ["10-25T00:30", "10-26T01:30"]),
        ("Europe/London", "30 * * * *", "2026-10-25T00:00Z", ["10-25T00:30", "10-25T01:30", "10-25T02:30"]),
        ("America/New_York", "0 2 * * *", "2026-03-07T12:00Z", ["03-08T07:00", "03-09T06:00"]),
        ("UTC", "0 0 29 2 *", "2026-01-01T00:00Z", ["02-29T00:00"]),
        ("UTC", "0 0 l * *", "2026-01-31T00:00Z", ["02-28T00:00"]),
    ],
)
def test_instants_by_the_calendar(zone: str, fields: str, begin: str, expected: list[str]) -> None:
    assert instants(cron_clock(fields, zone), begin, len(expected)) == expected


@pytest.mark.parametrize("fields", ["30 1 * * *", "0,30 2 * * *", "*/15 * * * *", "15 */2 * * *", "30 1-3 * * sun"])
@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York", "Australia/Lord_Howe"])
def test_the_next_instant_is_the_same_from_wherever_one_looks(zone: str, fields: str) -> None:
    name, random = cron_clock(fields, zone), Random(f"{zone} {fields}")
    for day in ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04"):
        begin = parse_instant(f"{day}T00:00Z") - DAY
        found = [begin]
        while found[-1] < begin + 3 * DAY:
            following = next_instant(name, found[-1])
            assert following is not None and following > found[-1]
            found.append(following)
        for _ in range(30):
            after = begin + random.randrange(3 * DAY)
            assert next_instant(name, after) == next(each for each in found[1:] if each > after)
        local = ZoneInfo(zone)
        whole = [datetime.fromtimestamp(each / SECOND, local) for each in found[1:]]
        assert all(each.second == 0 for each in whole)


def test_intervals_are_aligned_to_the_epoch() -> None:
    assert next_instant(every_clock(HOUR), 0) == HOUR
    assert next_instant(every_clock(HOUR), -1) == 0
    assert next_instant(every_clock(7), -8) == -7
    assert next_instant(every_clock(HOUR), INSTANT_MAX) is None
    assert next_instant(cron_clock("* * * * *"), INSTANT_MAX) is None
    least = next_instant(cron_clock("* * * * *"), INSTANT_MIN)
    assert least is not None and least % MINUTE == 0


def test_names_are_the_rules() -> None:
    assert every_clock(HOUR) == every_clock(60 * MINUTE) == "%every 1h"
    assert cron_clock("0  8 * * MON-FRI", "Europe/London") == "%0 8 * * mon-fri in Europe/London"
    for name in (every_clock(90 * MINUTE), cron_clock("*/5 * * * *"), cron_clock("0 8 * * *", "Asia/Tokyo")):
        assert check_clock(name) == name
    assert [interval_of(each) for each in ("%every 2h", "%0 8 * * * in UTC")] == [2 * HOUR, None]
    assert format_clock("%every 2h") == "every 2h"
    assert format_clock("%0 8 * * * in UTC") == '"0 8 * * *"'
    assert format_clock("%0 8 * * * in Asia/Tokyo") == '"0 8 * * *" in "Asia/Tokyo"'


def test_events_have_numbers_of_their_own_before_the_epoch_too() -> None:
    events = [clock_event("%every 1h", instant) for instant in (-HOUR, 0, HOUR, INSTANT_MIN, INSTANT_MAX)]
    assert len({check_event(each).id for each in events}) == 5


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("%every 60min", "not an interval of a clock"),
        ("%every 0s", "not an interval of a clock"),
        ("%every x", "not an interval of a clock"),
        ("%0 8 * * in UTC", "not the five fields of a clock"),
        ("%0 8 * * MON in UTC", "not the five fields of a clock"),
        ("%61 8 * * * in UTC", "bad minute"),
        ("%0 0 30 2 * in UTC", "bad day-of-month"),
        ("%0 8 * * * in Nowhere", "unknown time zone"),
        ("%0 8 * * * in ../UTC", "unknown time zone"),
        ("%", "not the five fields of a clock"),
        ("Hour", "not the five fields of a clock"),
    ],
)
def test_other_names_are_refused(name: str, problem: str) -> None:
    with pytest.raises(TypeRegistryError, match=problem):
        check_clock(name)


def test_types_of_clocks_are_registered_without_a_base() -> None:
    registry = TypeRegistry([clock_type("Hour", "%every 1h")])
    registry.register(EventType("Night", {}, Derivation("Hour", "hour() < 6")))
    assert registry.root("Night") == "%every 1h"
    for wrong in (
        EventType("Odd", {}, Derivation("%every 60min")),
        EventType("Odd", {}, Derivation("%every 1h", every=5)),
        EventType("Odd", {}, Derivation("%every 1h", "hour() < 6")),
    ):
        with pytest.raises(TypeRegistryError):
            registry.register(wrong)
    with pytest.raises(TypeRegistryError, match="must have the attributes"):
        registry.register(EventType("Odd", {"k": "number"}, Derivation("%every 1h")))

"""Local times: tables of offsets agree with `datetime`, and suggestions for unknown zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND
from distced.middleware.sets.local_time import LOCAL_TIMES, near_zone, offset_table, time_zone

# With and without summer time, by half an hour, with a day left out, with a change amid a minute, with two changes in a
# week, and with a negative offset.
ZONES = (
    "UTC", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "America/Noronha", "Asia/Gaza",
    "America/St_Johns", "Africa/Casablanca", "Asia/Kathmandu",
)  # fmt: skip


def local_times(instant: int, zone: str) -> list[object]:
    return [compute(instant, zone) for compute, _ in LOCAL_TIMES.values()]


def by_datetime(instant: int, zone: str) -> list[object]:
    seconds = instant // SECOND
    shown = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone))
    return [shown.hour, shown.minute, shown.isoweekday(), f"{shown:%Y-%m-%d}"]


@given(st.integers(INSTANT_MIN, INSTANT_MAX), st.sampled_from(ZONES))
def test_local_times_are_those_of_datetime(instant: int, zone: str) -> None:
    assert local_times(instant, zone) == by_datetime(instant, zone)


@pytest.mark.parametrize("zone", ZONES)
def test_changes_of_offsets_are_to_the_second(zone: str) -> None:
    table = offset_table(zone)
    assert table is not None
    for change in table.instants:
        for seconds in (change - 1, change, change + 1):
            assert local_times(seconds * SECOND, zone) == by_datetime(seconds * SECOND, zone)
    assert (len(table.instants) > 2) == (zone != "UTC")


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("Europe/Londn", "Europe/London"),
        ("europe/london", "Europe/London"),
        ("London", "Europe/London"),
        ("new york", "America/New_York"),
        ("Tokio", "Asia/Tokyo"),
        ("utc", "UTC"),
        ("Nowhere/Nothing", None),
        ("../secret", None),
        ("", None),
    ],
)
def test_a_zone_near_an_unknown_one_is_suggested(given: str, near: str | None) -> None:
    assert time_zone(given) is None
    assert near_zone(given) == near

"""Timestamps, their orders and union, and the text of durations and instants."""

from __future__ import annotations

import pytest

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import (
    DAY,
    HOUR,
    INSTANT_MAX,
    INSTANT_MIN,
    MINUTE,
    SECOND,
    Timestamp,
    duration_of,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)


def test_orders_of_timestamps_are_those_of_figure_6() -> None:
    # t1 < t2 and t1 < t3, but t2 and t3 overlap; in the total order t1 ≺ t2 ≺ t3.
    t1, t2, t3 = Timestamp(1, 2), Timestamp(4, 7), Timestamp(5, 9)
    assert t1.before(t2)
    assert t1.before(t3)
    assert not t2.before(t3)
    assert not t3.before(t2)
    assert t1.weakly_before(t2)
    assert t2.weakly_before(t3)
    assert not t3.weakly_before(t2)


@pytest.mark.parametrize(
    ("one", "other", "before", "weakly"),
    [
        ((1, 2), (3, 4), True, True),
        ((1, 3), (3, 4), False, True),
        ((1, 4), (2, 4), False, True),
        ((2, 4), (1, 4), False, False),
        ((2, 3), (1, 4), False, True),
        ((1, 4), (2, 3), False, False),
        ((1, 1), (1, 1), False, False),
        ((1, 1), (2, 2), True, True),
    ],
)
def test_weak_order_is_total_and_strong_order_implies_it(
    one: tuple[int, int], other: tuple[int, int], before: bool, weakly: bool
) -> None:
    assert Timestamp(*one).before(Timestamp(*other)) is before
    assert Timestamp(*one).weakly_before(Timestamp(*other)) is weakly


def test_union_is_the_smallest_interval_that_holds_both() -> None:
    assert Timestamp(3, 5).union(Timestamp(1, 4)) == Timestamp(1, 5)
    assert Timestamp(1, 9).union(Timestamp(3, 4)) == Timestamp(1, 9)
    assert Timestamp(1, 2).union(Timestamp(8, 9)) == Timestamp(1, 9)


@pytest.mark.parametrize(
    ("text", "nanoseconds", "shortest"),
    [
        ("15ns", 15, "15ns"),
        ("0ns", 0, "0ns"),
        ("0s", 0, "0ns"),
        ("1us", 1_000, "1us"),
        ("1µs", 1_000, "1us"),
        ("1.5ms", 1_500_000, "1500us"),
        ("5s", 5 * SECOND, "5s"),
        ("90s", 90 * SECOND, "90s"),
        ("2min", 2 * MINUTE, "2min"),
        ("60min", HOUR, "1h"),
        ("1.5d", 36 * HOUR, "36h"),
        (" 1 h ", HOUR, "1h"),
        ("0.000000001s", 1, "1ns"),
    ],
)
def test_durations_are_read_and_written(text: str, nanoseconds: int, shortest: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert format_duration(nanoseconds) == shortest


@pytest.mark.parametrize("text", ["", "5", "s", "5 weeks", "5S", "-5s", "1,5s", "5s 3s", "1.s", ".5s", "1e3s"])
def test_text_that_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(DistcedError, match="not a duration") as caught:
        parse_duration(text)
    assert caught.value.given == text
    assert "min" in str(caught.value.allowed)


def test_duration_finer_than_a_nanosecond_is_an_error() -> None:
    with pytest.raises(DistcedError, match=r"finer than a nanosecond: 0\.1ns"):
        duration_of("0.1", "ns")
    assert duration_of("0.10", "us") == 100


@pytest.mark.parametrize(
    ("text", "instant", "shown"),
    [
        ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
        ("1970-01-02", DAY, "1970-01-02T00:00:00Z"),
        ("1970-01-01T01:00+01:00", 0, "1970-01-01T00:00:00Z"),
        ("1970-01-01 00:00:05", 5 * SECOND, "1970-01-01T00:00:05Z"),
        ("1969-12-31T23:59:59.999999999Z", -1, "1969-12-31T23:59:59.999999999Z"),
        ("2026-11-21T08:00Z", 1_795_248_000 * SECOND, "2026-11-21T08:00:00Z"),
        ("2026-11-21T08:00:00.123456789Z", 1_795_248_000 * SECOND + 123_456_789, "2026-11-21T08:00:00.123456789Z"),
        ("2026-11-21T08:00:00.5+05:30", 1_795_228_200 * SECOND + SECOND // 2, "2026-11-21T02:30:00.5Z"),
    ],
)
def test_instants_are_read_and_written(text: str, instant: int, shown: str) -> None:
    assert parse_instant(text) == instant
    assert format_instant(instant) == shown
    assert parse_instant(shown) == instant


def test_first_and_last_instant_are_read() -> None:
    assert format_instant(INSTANT_MIN) == "1677-09-21T00:12:43.145224192Z"
    assert format_instant(INSTANT_MAX) == "2262-04-11T23:47:16.854775807Z"
    assert parse_instant(format_instant(INSTANT_MIN)) == INSTANT_MIN
    assert parse_instant(format_instant(INSTANT_MAX)) == INSTANT_MAX


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-11-21T25:00", "12:00"])
def test_text_that_is_no_instant_is_an_error(text: str) -> None:
    with pytest.raises(DistcedError, match="not an instant") as caught:
        parse_instant(text)
    assert caught.value.given == text


@pytest.mark.parametrize("text", ["2300-01-01", "1600-01-01", "9999-12-31T23:59:59Z"])
def test_instants_beyond_64_bits_are_errors(text: str) -> None:
    with pytest.raises(DistcedError, match="an instant beyond 64 bits"):
        parse_instant(text)

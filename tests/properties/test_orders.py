"""The two orders of timestamps are orders, the union is the least upper bound, and events are totally ordered."""

from __future__ import annotations

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import (
    DAY,
    INSTANT_MAX,
    INSTANT_MIN,
    Timestamp,
    duration_of,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)

SMALL = [Timestamp(lo, hi) for lo in range(4) for hi in range(lo, 4)]
INSTANTS = st.integers(INSTANT_MIN, INSTANT_MAX)
TIMESTAMPS = st.tuples(INSTANTS, INSTANTS).map(lambda ends: Timestamp(min(ends), max(ends)))


def test_relations_hold_for_every_small_pair_and_triple() -> None:
    for one, other in product(SMALL, repeat=2):
        # Irreflexive and asymmetric, the weak one total up to equality, the strong one stronger.
        assert not (one.before(other) and other.before(one))
        assert one.weakly_before(other) + other.weakly_before(one) + (one == other) == 1
        assert not one.before(other) or one.weakly_before(other)
        # The strong order is all that can be said for certain: whatever instants they stand for.
        certain = all(a < b for a in range(one.lo, one.hi + 1) for b in range(other.lo, other.hi + 1))
        assert one.before(other) == certain
        union = one.union(other)
        assert union == other.union(one)
        assert all(union.lo <= each.lo and each.hi <= union.hi for each in (one, other))
        # Least: whatever holds both holds the union.
        for holder in SMALL:
            if all(holder.lo <= each.lo and each.hi <= holder.hi for each in (one, other)):
                assert holder.lo <= union.lo
                assert union.hi <= holder.hi
    for a, b, c in product(SMALL, repeat=3):
        assert not (a.before(b) and b.before(c)) or a.before(c)
        assert not (a.weakly_before(b) and b.weakly_before(c)) or a.weakly_before(c)
        assert a.union(b).union(c) == a.union(b.union(c))
        assert not (a.before(b) and b.weakly_before(c)) or a.weakly_before(c)


@given(TIMESTAMPS, TIMESTAMPS)
def test_relations_hold_for_large_timestamps(one: Timestamp, other: Timestamp) -> None:
    assert one.weakly_before(other) + other.weakly_before(one) + (one == other) == 1
    assert one.before(other) == (one.hi < other.lo)
    assert one.union(other) == Timestamp(min(one.lo, other.lo), max(one.hi, other.hi))


@given(st.lists(st.tuples(st.sampled_from(SMALL), st.sampled_from(["e", "f"]), st.integers(0, 3)), max_size=12))
def test_order_of_consumption_is_total(drawn: list[tuple[Timestamp, str, int]]) -> None:
    events = [Event("A", at.lo, at.hi, source, seq, {}) for at, source, seq in drawn]
    ordered = sorted(events, key=lambda event: event.key)
    for before, after in pairwise(ordered):
        assert not after.timestamp.weakly_before(before.timestamp)
        if before.timestamp == after.timestamp:
            assert before.id <= after.id


@given(st.integers(0, 400 * DAY))
def test_durations_read_back(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(["us", "ms", "s", "min", "h", "d"]))
def test_decimal_durations_are_exact(whole: int, fraction: int, unit: str) -> None:
    exact = parse_duration(f"1{unit}") * (1000 * whole + fraction)
    assert duration_of(f"{whole}.{fraction:03}", unit) * 1000 == exact


@given(INSTANTS)
def test_instants_read_back(instant: int) -> None:
    assert parse_instant(format_instant(instant)) == instant

"""A recording on its way out: every event once, in order, and promises that are kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.event_files.pacing import BATCH, Feed
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND


def at(hi: int, source: str = "s", seq: int = 0) -> Event:
    return Event("A", hi, hi, source, seq, {})


TIMES = st.lists(st.integers(0, 5_000), min_size=1, max_size=60)


@settings(max_examples=200, deadline=None)
@given(times=TIMES, passing=st.lists(st.integers(0, 3_000), max_size=20), speed=st.sampled_from([None, 0.5, 1.0, 7.0]))
def test_no_event_is_due_twice_or_at_or_before_a_promise(
    times: list[int], passing: list[int], speed: float | None
) -> None:
    """Times and passing time in ns, so that a speed of 1 sends an event as many ns after the first as it was."""
    events = [at(time, seq=seq) for seq, time in enumerate(times)]
    feed = Feed(reversed(events), speed=speed)
    sent: list[Event] = []
    promised, elapsed = feed.start, 0
    for passed in [*passing, 100_000]:
        elapsed += passed
        due, watermark = feed.due(elapsed)
        assert all(event.hi > promised for event in due)
        assert watermark >= promised
        if speed is not None:
            assert all(event.hi - feed.start <= elapsed * speed + 1 for event in due)
        sent += due
        promised = watermark
    assert feed.done
    assert sent == sorted(events, key=lambda event: event.key)
    assert promised == feed.end == max(times)


def test_large_recording_goes_out_in_batches_that_may_tear_an_instant() -> None:
    feed = Feed([at(1, seq=seq) for seq in range(BATCH + 1)] + [at(5, seq=BATCH + 1)])
    first, promised = feed.due(0)
    assert len(first) == BATCH and promised == 0
    second, promised = feed.due(0)
    assert [event.hi for event in second] == [1, 5] and promised == 5


def test_feed_tells_how_long_to_wait_and_promises_through_gaps() -> None:
    feed = Feed([at(SECOND), at(11 * SECOND, seq=1)], speed=2.0)
    assert len(feed.due(1)[0]) == 1
    assert feed.wait(SECOND) == pytest.approx(4.0)
    assert feed.due(3 * SECOND) == ([], 7 * SECOND - 1)
    assert feed.due(5 * SECOND + 1)[1] == 11 * SECOND
    assert feed.done and feed.wait(0) == 0.0


def test_sources_and_their_types_are_those_of_the_events_and_composite_ones_are_left_out() -> None:
    composite = CompositeEvent("C", 1, 2, "c1", 3, {}, constituents=(("s", 0),))
    feed = Feed([at(2, "t"), composite, Event("B", 1, 1, "t", 1, {}), at(1, "s")])
    assert {source: set(types) for source, types in feed.sources.items()} == {"t": {"A", "B"}, "s": {"A"}}
    assert feed.composite == 1
    with pytest.raises(EventError, match="without events to publish"):
        Feed([composite], name="a.jsonl")

"""What is remembered of the clocks of sources while a recording is read."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.middleware.event_files.event_chunks import SeenIds, chunk_of
from distced.middleware.model.events import CompositeEvent, Event
from distced.simulations.ingest.recorded_tables import ClockWatch


def primitive(source: str, seq: int, lo: int, hi: int) -> Event:
    return Event("A", lo, hi, source, seq, {})


EVENTS = [
    *(
        primitive("s", seq, lo, hi)
        for seq, (lo, hi) in enumerate(((10, 12), (11, 11), (20, 20), (5, 6), (7, 7), (4, 4)))
    ),
    primitive("t", 9, 0, 0),
    primitive("t", 8, -5, -5),
    # Digests are no numbers of events.
    CompositeEvent("C", 9, 9, "p", 2**80, {}, constituents=()),
    CompositeEvent("C", 1, 1, "p", 2**81, {}, constituents=()),
]


@pytest.mark.parametrize("size", (1, 2, 3, len(EVENTS)))
@pytest.mark.parametrize("wide", (0, 2**70))
def test_clock_jumps_are_detected(size: int, wide: int) -> None:
    watch = ClockWatch()
    events = [
        Event(each.type, each.lo, each.hi, each.source, each.seq + wide, {}) if wide else each for each in EVENTS[:8]
    ]
    events += EVENTS[8:]
    for start in range(0, len(events), size):
        some = events[start : start + size]
        watch.see(chunk_of(some), np.ones(len(some), np.bool_))
    (jump,) = watch.jumps()
    assert (jump.source, jump.times, jump.most, jump.seq, jump.hi) == ("s", 2, 14, 3 + wide, 6)


def test_repeated_events_say_nothing_of_clocks() -> None:
    watch = ClockWatch()
    watch.see(chunk_of(EVENTS[:6]), np.array([True, True, True, False, False, False]))
    assert watch.jumps() == ()


def test_seen_ids_are_detected() -> None:
    draw = random.Random(5)
    for _ in range(50):
        seen, all_ids = SeenIds(), set[tuple[str, int]]()
        for _ in range(20):
            events = [primitive(draw.choice("ab"), draw.randrange(40), 0, 0) for _ in range(4)]
            for event, new in zip(events, seen.new(chunk_of(events)).tolist(), strict=True):
                assert new == (event.id not in all_ids)
                all_ids.add(event.id)

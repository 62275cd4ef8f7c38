"""What is remembered of sources while a recording is read."""

from __future__ import annotations

import random

from distced.middleware.model.events import CompositeEvent, Event
from distced.simulations.ingest.recording_task import ClockWatch, SequenceState


def test_clock_jumps_are_detected() -> None:
    watch = ClockWatch()
    for seq, (lo, hi) in enumerate(((10, 12), (11, 11), (20, 20), (5, 6), (7, 7), (4, 4))):
        watch.see(Event("A", lo, hi, "s", seq, {}))
    watch.see(Event("A", 0, 0, "t", 9, {}))
    watch.see(Event("A", -5, -5, "t", 8, {}))
    # Digests are no numbers of events.
    watch.see(CompositeEvent("C", 9, 9, "p", 2**80, {}, constituents=()))
    watch.see(CompositeEvent("C", 1, 1, "p", 2**81, {}, constituents=()))
    (jump,) = watch.jumps()
    assert (jump.source, jump.times, jump.most, jump.seq, jump.hi) == ("s", 2, 14, 3, 6)


def test_sequence_state_detects_seen_ids() -> None:
    draw = random.Random(5)
    for _ in range(50):
        seen, all_ids = SequenceState(), set[tuple[str, int]]()
        for _ in range(80):
            event = Event("A", 0, 0, draw.choice("ab"), draw.randrange(40), {})
            assert seen.add(event) == (event.id not in all_ids)
            all_ids.add(event.id)

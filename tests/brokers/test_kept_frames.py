"""Frames kept for durable subscriptions: within a limit, until they are taken, and in segments that a store has."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.core.effects import Pieces
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node import kept_frames
from distced.brokers.node.kept_frames import KeptFrames, detector_of, merged, unpack_run
from distced.brokers.node.node import Node
from distced.middleware.wire.node_messages import KeptFrame, KeptRun
from distced.middleware.wire.published_streams import OVERHEAD


def _frame(life: int, number: int, size: int = 10) -> KeptFrame:
    return KeptFrame(b"%d %d " % (life, number) + bytes(size), number - 1, number, 1, number)


def _payloads(frames: Iterable[bytes]) -> list[int]:
    return [int(each.split()[1]) for each in frames]


def test_frames_are_found_by_life_and_number() -> None:
    kept = KeptFrames("d", 10**6)
    for life, numbers in ((2, range(1, 6)), (4, range(1, 4))):
        for number in numbers:
            kept.keep(life, number, _frame(life, number))
    kept.take(lambda life, number, reach: life == 2 and number < 3)
    assert (kept.first(2), kept.first(4), kept.first(6)) == (3, 1, None)
    assert _payloads(kept.payloads(2, 1, 5)) == [3, 4]
    assert _payloads(kept.payloads(4, 2, 9)) == [2, 3]
    assert (kept.top(2, 4), kept.top(2, 1)) == (3, None)
    assert (kept.frames, kept.events, kept.oldest, kept.dropped) == (6, 6, 3, 0)


def test_oldest_frames_beyond_the_limit_are_dropped_and_counted() -> None:
    kept = KeptFrames("d", 5 * (OVERHEAD + 30))
    for number in range(1, 101):
        kept.keep(2, number, _frame(2, number, 20))
    assert kept.dropped == 100 - kept.frames and kept.size <= kept.most_bytes
    assert kept.first(2) == 101 - kept.frames


def _stored(store: dict[str, Pieces], changes: dict[str, Pieces | None]) -> None:
    for name, pieces in changes.items():
        if pieces is None:
            store.pop(name, None)
        else:
            store[name] = pieces


@given(st.data())
def test_store_has_what_is_kept_after_each_write(data: st.DataObject) -> None:
    """Frames, takes, and writes that fail or not, in any order; with segments of three frames."""
    before, kept_frames.SEGMENT_BYTES = kept_frames.SEGMENT_BYTES, 40  # type: ignore[misc]
    try:
        kept = KeptFrames("d", 30 * OVERHEAD)
        store: dict[str, Pieces] = {}
        life, number, taken = 2, 0, 0
        for _ in range(data.draw(st.integers(1, 40))):
            step = data.draw(st.sampled_from(("keep", "keep", "keep", "take", "write", "fail", "life")))
            if step == "keep":
                number += 1
                kept.keep(life, number, _frame(life, number))
            elif step == "life":
                life, number = life + 2, 0
            elif step == "take":
                taken += data.draw(st.integers(0, 5))
                kept.take(lambda life, number, reach: 100 * life + number <= taken)  # noqa: B023
            else:
                changes = kept.changes()
                if step == "write":
                    _stored(store, changes)
                    kept.written(changes)
        changes = kept.changes()
        _stored(store, changes)
        kept.written(changes)
        assert not kept.changes() and store.keys() == kept.names and all(detector_of(each) == "d" for each in store)
        found = {each.life: each for each in merged(map(unpack_run, store.values()))}
        for run in kept.runs():
            there = found[run.life]
            assert there.frames[run.first - there.first :][: len(run.frames)] == run.frames
    finally:
        kept_frames.SEGMENT_BYTES = before  # type: ignore[misc]


def test_segments_of_several_hosts_are_merged_without_gaps() -> None:
    frames = {number: _frame(2, number) for number in range(1, 10)}

    def run(first: int, last: int) -> KeptRun:
        return KeptRun(2, first, tuple(frames[number] for number in range(first, last + 1)))

    assert merged([run(1, 2), run(7, 9), run(4, 7), run(5, 6)]) == (run(4, 9),)
    assert merged([]) == ()


def test_limit_of_a_node_takes_from_those_with_most() -> None:
    node = Node("n", 0, limits=SubscriptionLimits(kept_bytes=20 * (OVERHEAD + 30)))
    output = node.event_path.output
    for detector, frames in (("few", 4), ("many", 100)):
        for number in range(1, frames + 1):
            output.keep(detector, 10**6).keep(2, number, _frame(2, number, 20))
    node.durable._shrink()
    assert output.durable["few"].dropped == 0
    assert sum(each.size for each in output.durable.values()) <= 20 * (OVERHEAD + 30)
    assert output.durable["many"].dropped == 100 - output.durable["many"].frames

"""Detection policies by themselves: who is waited for, what is late, and what is remembered."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from distced.detectors.runtime.detection_policy import Begins, Released
from distced.detectors.snapshot_format import pack_seq
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import ASK_AGAIN, StreamPosition
from distced.policies.detection import detection_policy
from distced.policies.detection import guaranteed as guaranteed_detection
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.guaranteed import Guaranteed
from distced.policies.detection.intake import Intake
from distced.policies.detection.recent_ids import REMEMBERED, RecentIds
from tests.support.event_streams import END, interleaved, messages, spread


def event(hi: int, source: str = "s", seq: int | None = None) -> Event:
    return Event("A", hi, hi, source, hi if seq is None else seq, {})


def his(released: Released) -> list[int]:
    return [each.hi for each in released.events]


def guaranteed(**watermarks: int) -> Guaranteed:
    policy = Guaranteed()
    for source, watermark in watermarks.items():
        assert policy.join(source, watermark, 0) == watermark
    return policy


def again(policy: Guaranteed | BestEffort) -> Any:
    """A policy resumed from the state of another, by way of bytes."""
    fresh = type(policy)()
    fresh.resume(msgspec.msgpack.decode(msgspec.msgpack.encode(policy.state())))
    return fresh


# The guarantee.


def test_events_wait_until_every_source_was_heard_beyond_them() -> None:
    policy = guaranteed(s=0, t=0)
    assert his(policy.receive("s", [event(5), event(3), event(9)], 4, 0)) == []
    assert policy.holding() == ["t"]
    released = policy.heartbeat(["t"], 6, 0)
    assert his(released) == [3]
    assert released.watermark == 4
    assert policy.holding() == ["s"]
    assert his(policy.heartbeat(["s", "t"], 9, 0)) == [5, 9]


def test_event_promises_nothing_by_itself() -> None:
    policy = guaranteed(s=0)
    assert his(policy.receive("s", [event(9)], None, 0)) == []
    assert his(policy.receive("s", [event(5)], None, 0)) == []
    assert his(policy.heartbeat(["s"], 9, 0)) == [5, 9]


def test_silent_source_holds_stream_forever() -> None:
    policy = guaranteed(s=0, silent=0)
    policy.receive("s", [event(5)], 5, 0)
    for now in (10, 10**9, INSTANT_MAX):
        assert policy.tick(now).events == []
        assert policy.heartbeat(["s"], now, now).events == []
    assert policy.holding() == ["silent"]


def test_source_is_fenced_off_when_its_lease_runs_out_by_time_handed_in() -> None:
    policy = Guaranteed()
    policy.join("s", 0, 100)
    policy.join("leased", 0, 100, lease=50)
    policy.receive("s", [event(5)], 5, 110)
    policy.heartbeat(["leased"], 2, 120)
    assert policy.tick(170).fenced == []
    released = policy.tick(171)
    assert (his(released), released.fenced) == ([5], ["leased"])
    assert policy.tick(1000).fenced == []


def test_message_of_source_renews_its_lease() -> None:
    policy = Guaranteed()
    policy.join("s", 0, 0, lease=10)
    for now, speak in enumerate(
        (
            lambda now: policy.receive("s", [event(1)], None, now),
            lambda now: policy.receive("s", [], None, now),
            lambda now: policy.heartbeat(["s"], 0, now),
            lambda now: policy.join("s", 0, now, lease=10),
        )
    ):
        speak(8 * now + 8)
        assert policy.tick(8 * now + 16).fenced == []
    assert policy.tick(100).fenced == ["s"]


@pytest.mark.parametrize("how", ["fence", "lease"])
def test_fenced_source_is_late_until_it_joins_again(how: str) -> None:
    policy = guaranteed(s=0)
    policy.join("f", 0, 0, lease=1 if how == "lease" else 0)
    released = policy.tick(10) if how == "lease" else policy.fence("f", 10)
    assert released.late == []
    released = policy.receive("f", [event(50, "f"), event(60, "f")], 60, 11)
    assert [each.hi for each in released.late] == [50, 60]
    assert policy.receive("f", [event(50, "f")], 60, 11).duplicates == 1
    assert policy.heartbeat(["f"], 70, 12).watermark == 0
    assert his(policy.heartbeat(["s"], 100, 12)) == []
    assert policy.join("f", 80, 13) == 100
    assert policy.receive("f", [event(90, "f")], None, 14).late == [event(90, "f")]
    assert policy.receive("f", [event(110, "f")], None, 14).late == []
    assert policy.holding() == ["f", "s"]


def test_source_can_be_fenced_off_before_it_was_heard() -> None:
    policy = guaranteed(s=0)
    policy.fence("unknown", 0)
    assert policy.receive("unknown", [event(5, "unknown")], None, 0).late == [event(5, "unknown")]
    assert "unknown" not in policy.sources


def test_joining_source_gets_watermark_of_released_events() -> None:
    policy = guaranteed(s=0)
    policy.heartbeat(["s"], 10, 0)
    assert policy.join("early", 3, 0) == 10
    assert policy.join("ahead", 30, 0) == 30
    assert policy.join("early", 5, 0) == 10
    assert policy.join("early", 12, 0) == 12
    assert policy.heartbeat(["s", "ahead"], 40, 0).watermark == 12


def test_events_are_released_when_all_sources_have_left() -> None:
    policy = guaranteed(s=0, t=0)
    policy.receive("s", [event(5), event(8)], None, 0)
    policy.receive("t", [event(6, "t")], None, 0)
    assert his(policy.leave("s", 0)) == []
    released = policy.leave("t", 0)
    assert (his(released), released.watermark) == ([5, 6, 8], 8)
    assert policy.leave("t", 0).events == []
    assert policy.join("u", 0, 0) == 8


def test_policy_without_source_has_no_watermark() -> None:
    policy = Guaranteed()
    for released in (policy.tick(5), policy.heartbeat(["s"], 7, 0), policy.leave("s", 0)):
        assert (released.events, released.watermark) == ([], None)


def test_source_nobody_announced_is_waited_for_from_its_first_word_on() -> None:
    policy = Guaranteed()
    released = policy.receive("s", [event(5)], None, 0)
    assert released.events == []
    # Nothing is promised that could not be sent: the least watermark there is.
    assert released.watermark == INSTANT_MIN
    assert his(policy.heartbeat(["s"], 5, 0)) == [5]
    policy.receive("t", [event(6, "t")], None, 0)
    assert policy.heartbeat(["s"], 9, 0).watermark == 5


@pytest.mark.parametrize("straggler", [event(5), event(3)])
def test_straggler_of_source_that_has_left_does_not_bring_it_back(straggler: Event) -> None:
    policy = guaranteed(s=0, t=0)
    policy.receive("s", [event(5)], 5, 0)
    policy.heartbeat(["t"], 5, 0)
    policy.leave("s", 0)
    released = policy.receive("s", [straggler], 5, 0)
    assert (released.duplicates, released.late) == ((1, []) if straggler.hi == 5 else (0, [straggler]))
    assert policy.heartbeat(["t"], 9, 0).watermark == 9


def test_late_events_are_reported_and_not_consumed() -> None:
    policy = guaranteed(s=0)
    policy.heartbeat(["s"], 10, 0)
    released = policy.receive("s", [event(10), event(11), event(4)], 20, 0)
    assert [each.hi for each in released.late] == [10, 4]
    assert his(released) == [11]
    assert (policy.sources["s"].events, policy.sources["s"].late) == (3, 2)


def test_redelivered_event_is_dropped_however_late() -> None:
    policy = guaranteed(s=0, t=0)
    first = [event(n) for n in range(1, 4)]
    policy.receive("s", first, None, 0)
    for start in range(0, REMEMBERED, 1000):
        policy.receive("s", [event(100 + start + n) for n in range(1000)], None, 0)
    assert policy.receive("s", first, None, 0).duplicates == 3
    policy.heartbeat(["s"], 50, 0)
    assert his(policy.heartbeat(["t"], 50, 0)) == [1, 2, 3]
    # By now they are forgotten, and behind the watermark all the same.
    released = policy.receive("s", first, None, 0)
    assert (his(released), released.duplicates + len(released.late)) == ([], 3)


def test_watermarks_do_not_go_back() -> None:
    policy = guaranteed(s=0, t=0)
    watermarks = []
    for source, watermark in [("s", 5), ("t", 3), ("s", 2), ("t", 9), ("s", 9), ("t", 1)]:
        watermarks.append(policy.heartbeat([source], watermark, 0).watermark)
    assert watermarks == [0, 3, 3, 5, 9, 9]


def composite(lo: int, hi: int, detector: str) -> CompositeEvent:
    return CompositeEvent("C", lo, hi, detector, hi, {}, constituents=())


def reading(*, moved: bool) -> Guaranteed:
    """A policy that begins with a source, read from its middle, and two detectors; `moved` amid that."""
    policy = Guaranteed()
    policy.join("s", INSTANT_MIN, 0, begins=Begins(["A"], 1, running=True))
    for detector in ("replayed", "running"):
        policy.join(detector, INSTANT_MIN, 0)
    policy.read_from("replayed", 10)
    policy.receive("replayed", [composite(12, 20, "replayed"), composite(22, 55, "replayed")], 60, 0)
    policy.read_from("running", 50)
    policy.receive("running", [composite(42, 45, "running"), composite(46, 60, "running")], 60, 0)
    if moved:
        policy = again(policy)
    # Everything before the seventh message, up to 40, was not read.
    policy.unavailable(Unavailable("e", "s", 7, 40, "A", position=True, watermark=40), 0)
    return policy


@pytest.mark.parametrize("moved", [False, True])
def test_composite_events_from_before_the_begin_of_another_input_are_left_out(moved: bool) -> None:
    policy = reading(moved=moved)
    assert policy.base == 50
    released = policy.receive("s", [event(52, "s")], 60, 0, StreamPosition("A", 7, None))
    assert [(each.source, each.hi) for each in released.events] == [
        ("running", 45), ("s", 52), ("replayed", 55), ("running", 60),
    ]  # fmt: skip
    # None of them is late: they are none of its concern.
    assert released.late == [] and released.watermark == 60
    # It has begun, and what comes later is as ever.
    assert policy.begins is None
    policy.read_from("later", 90)
    for source in ("s", "running"):
        policy.heartbeat([source], 80, 0, [[("A", 8, None)]])
    assert his(policy.receive("replayed", [composite(12, 70, "replayed")], 80, 0)) == [70]


def test_detector_that_continues_leaves_nothing_out() -> None:
    policy = reading(moved=False)
    policy.receive("s", [event(52, "s")], 60, 0, StreamPosition("A", 7, None))
    resumed = again(policy)
    assert resumed.begins is None
    resumed.join("s", INSTANT_MIN, 0, begins=Begins(["A"], 1))
    resumed.unavailable(Unavailable("e", "s", 9, 99, "A", position=True), 0)
    resumed.receive("replayed", [composite(12, 70, "replayed")], 80, 0)
    resumed.heartbeat(["running"], 80, 0)
    assert his(resumed.receive("s", [event(71, "s")], 75, 0, StreamPosition("A", 8, None))) == [70, 71]


def test_late_messages_of_a_source_that_was_not_known_are_lost() -> None:
    policy = Guaranteed()
    policy.join("part", INSTANT_MIN, 0)
    policy.read_from("part", 5)

    def told(number: int, *instants: int) -> tuple[int, list[tuple[int, int]]]:
        events = [event(each, "s") for each in instants]
        released = policy.receive("s", events, instants[-1], 0, StreamPosition("A", number, None))
        return len(released.late), [(each.since, each.until) for each in released.losses]

    assert his(policy.receive("part", [composite(6, 8, "part"), composite(7, 14, "part")], 20, 0)) == [8, 14]
    # A server had forgotten it: it is read from its first message on, behind the watermark.
    assert policy.join("s", 0, 0, begins=Begins(["A"], 1)) == 20
    assert told(1, 3, 8) == (2, [])
    assert told(2, 9, 19, 30) == (2, [(8, 19)])
    # Once, and neither of a policy that has released nothing before them, nor where nobody waits for the source.
    assert told(2, 9, 19, 30) == (0, [])
    policy.fence("s", 0)
    assert told(3, 15) == (1, [])
    policy = guaranteed(t=40)
    policy.heartbeat(["t"], 50, 0)
    policy.join("s", 0, 0, begins=Begins(["A"], 1))
    assert told(1, 3, 45) == (2, [])


def test_stream_that_was_read_before_its_source_was_announced_goes_on() -> None:
    intake = Intake()
    assert intake.take("s", StreamPosition("A", 9), 3, 0) == (True, 3)
    assert intake.take("s", StreamPosition("A", 11, 5), 6, 0) == (True, 3)
    # By a server that had forgotten it: no other life, and what is missing stays so.
    assert intake.begin("s", Begins(["A"], 5), 0) == []
    assert intake.missing(SECOND) == [("s", "A", 10, 11)]
    assert intake.take("s", StreamPosition("A", 9), 3, 0) == (False, 3)
    assert intake.take("s", StreamPosition("A", 10), 5, 0) == (True, 6)
    assert intake.complete
    # A later life is another one.
    assert intake.begin("s", Begins(["A"], 50), 0) == []
    assert intake.take("s", StreamPosition("A", 50), 8, 0) == (True, 8)
    assert intake.take("u", StreamPosition("A", 9), 3, 0) == (True, 3)
    assert intake.begin("u", Begins(["A"], 50), 0) == []
    assert intake.take("u", StreamPosition("A", 50), 8, 0) == (True, 8)


def test_random_streams_are_released_completely_in_order_and_once() -> None:
    for seed in range(300):
        random = Random(seed)
        events = spread(random, 15, 3)
        policy = guaranteed(s0=-9, s1=-9, s2=-9)
        streams = [messages(random, events, name, shuffled=True) for name in ("s0", "s1", "s2")]
        released: list[Event] = []
        watermark = -10
        for message in interleaved(random, *streams, again=0.5):
            if random.random() < 0.2:
                policy = again(policy)
            step = policy.receive(message.source, message.events, message.watermark, 0)
            assert all(each.hi > watermark for each in step.events)
            assert step.watermark is not None
            assert step.watermark >= watermark
            watermark = step.watermark
            released += step.events
        assert released == events, f"seed {seed}"
        assert watermark == END


def test_state_of_guaranteed_restores_policy() -> None:
    policy = Guaranteed()
    policy.join("s", 3, 17, lease=20)
    policy.join("gone", 3, 17)
    policy.fence("gone", 18)
    policy.receive("s", [event(9), event(5), event(2)], 4, 19)
    resumed = again(policy)
    assert resumed.state() == policy.state()
    for each in (policy, resumed):
        assert each.receive("gone", [event(30, "gone")], None, 20).late == [event(30, "gone")]
        assert each.receive("s", [event(9)], None, 20).duplicates == 1
        assert his(each.heartbeat(["s"], 9, 21)) == [5, 9]
        assert each.tick(42).fenced == ["s"]


# Best effort.


def test_best_effort_consumes_on_arrival_and_waits_for_nobody() -> None:
    policy = BestEffort()
    policy.join("silent", 0, 0)
    assert his(policy.receive("s", [event(5)], None, 0)) == [5]
    assert his(policy.receive("s", [event(3), event(5)], None, 0)) == [3]
    assert policy.receive("s", [event(3)], None, 0).duplicates == 1


def test_best_effort_takes_what_comes_together_in_order() -> None:
    assert his(BestEffort().receive("s", [event(9), event(3), event(5)], None, 0)) == [3, 5, 9]


def test_best_effort_goes_by_farthest_of_its_own_sources() -> None:
    policy = BestEffort()
    assert policy.heartbeat(["of another time"], 10**18, 0).watermark is None
    policy.join("s", 0, 0)
    policy.receive("t", [event(1, "t")], None, 0)
    assert policy.heartbeat(["s", "of another time"], 5, 0).watermark == 5
    assert policy.receive("t", [], 9, 0).watermark == 9
    assert policy.heartbeat(["s"], 7, 0).watermark == 9
    policy.leave("s", 0)
    assert policy.heartbeat(["s"], 20, 0).watermark == 9


def test_state_of_best_effort_restores_policy() -> None:
    policy = BestEffort()
    policy.receive("s", [event(5)], 5, 0)
    resumed = again(policy)
    assert resumed.state() == policy.state()
    assert resumed.receive("s", [event(5)], None, 0).duplicates == 1
    assert resumed.heartbeat(["s"], 8, 0).watermark == 8


def test_detector_from_a_checkpoint_requests_positions_until_they_come() -> None:
    """What a source has published since, and then nothing more, is not shown by any message."""
    policy = guaranteed(s=0)
    policy.join("s", 0, 0, begins=Begins(["A"], 10))
    policy.receive("s", [event(5)], 5, 0, StreamPosition("A", 10))
    resumed = again(policy)
    resumed.join("s", 0, 0, begins=Begins(["A"], 10))
    assert resumed.missing(0) == [("s", "A", 0, 0)] and resumed.missing(ASK_AGAIN - 1) == []
    assert resumed.missing(ASK_AGAIN) == [("s", "A", 0, 0)]
    resumed.unavailable(Unavailable("e", "s", 12, 8, "A", position=True, watermark=9), ASK_AGAIN)
    assert resumed.missing(3 * ASK_AGAIN) == [("s", "A", 11, 12)]
    assert his(resumed.receive("s", [event(8)], 9, 0, StreamPosition("A", 11))) == [8]
    assert resumed.watermark == 9 and resumed.missing(9 * ASK_AGAIN) == []


@pytest.mark.parametrize("seed", range(20))
def test_watermark_is_the_least_of_the_sources(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that come, rise, leave, are fenced off and come back; with a copy and a state in between."""
    monkeypatch.setattr(guaranteed_detection, "MOST_OUTDATED", 3)
    random, policy = Random(seed), Guaranteed()
    names = [f"s{number}" for number in range(6)]
    for now in range(300):
        source, known = random.choice(names), policy.watermark
        match random.randrange(6):
            case 0 if source not in policy.sources:
                policy.join(source, random.randrange(now + 1), now)
            case 1 if source in policy.sources:
                random.choice((policy.leave, policy.fence))(source, now)
            case 2:
                policy = policy.copy() if random.random() < 0.5 else again(policy)
            case _:
                policy.heartbeat([source], random.randrange(2 * now + 1), now)
        least = min((each.watermark for each in policy.sources.values()), default=None)
        expected = known if least is None or (known is not None and least < known) else least
        assert policy.tick(now).watermark == expected
    assert policy.watermark is not None and policy.watermark > 100


# Both.


def test_recent_ids_are_bounded() -> None:
    recent = RecentIds(3)
    assert [recent.add(("s", number)) for number in (1, 2, 1, 3, 4)] == [True, True, False, True, True]
    assert recent.add(("s", 2)) is False
    assert recent.add(("s", 1)) is True


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**96 - 1) | st.integers(0, 300))), st.integers(1, 9))
def test_packed_ids_come_back_in_order(ids: list[EventId], limit: int) -> None:
    recent, again, earlier = RecentIds(limit), RecentIds(limit), RecentIds(limit)
    for each in ids:
        recent.add(each)
    again.resume(msgpack.decode(msgpack.encode(recent.ids())))
    assert again.ids() == recent.ids() and again <= recent <= again
    # As earlier versions have packed them.
    earlier.resume([[source, pack_seq(seq)] for source, seq in recent._order])
    assert earlier.ids() == recent.ids()


def test_packed_ids_take_few_bytes() -> None:
    recent = RecentIds()
    for number in range(1_000):
        recent.add((f"a sensor with a long name {number % 7}", 10**12 + number // 7))
    assert len(msgpack.encode(recent.ids())) < 2_300


@pytest.mark.parametrize(
    "packed", [[["a"], [1, 1]], [["a"], [-1, 1]], [["a"], [0]], [["a"], [0, "b"]], [["a"], 7], [7]]
)
def test_damaged_ids_are_refused(packed: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        RecentIds().resume(packed)


def test_state_and_copy_have_the_last_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of an input that many share are not handed on with each detector that leaves it."""
    monkeypatch.setattr(guaranteed_detection, "HANDED_ON", 2)
    policy = Guaranteed()
    policy.receive("s", [event(5), event(6), event(7)], 7, 0)
    for other in (policy.copy(), again(policy)):
        assert other.recent.ids() == policy.recent.ids(2)
        released = other.receive("s", [event(5), event(6), event(7)], 7, 0)
        assert released.duplicates == 2 and not released.events
        assert [each.hi for each in released.late] == [5]


def test_detection_policies_have_names() -> None:
    assert isinstance(detection_policy("guaranteed"), Guaranteed)
    assert isinstance(detection_policy("best-effort"), BestEffort)
    with pytest.raises(DistcedError, match=r"probably.*guaranteed"):
        detection_policy("probably")

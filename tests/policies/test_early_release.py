"""Bounded and probabilistic detection: what is released before it is stable, what is late, and that it is reported."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime.detection_policy import Begins, DetectionPolicy, Released
from distced.detectors.runtime.detector import Detector
from distced.middleware.model.detection import parse_detection
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND, SECOND
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss, StreamPosition
from distced.policies.detection import detection_policy
from distced.policies.detection.arrival_gaps import MOST_GAPS, ArrivalGaps
from distced.policies.detection.early_release import CATCH_UP
from distced.simulations.benchmarks.detection import NETWORKS, TAIL, consumed, messages, run, upper_share
from tests.support.event_streams import comparable

MS = MILLISECOND


def event(hi: int, source: str = "s", seq: int | None = None, kind: str = "A") -> Event:
    return Event(kind, hi, hi, source, hi if seq is None else seq, {})


def his(released: Released) -> list[int]:
    return [each.hi for each in released.events]


def joined(name: str, *sources: str) -> Any:
    policy = detection_policy(name)
    for source in sources:
        policy.join(source, INSTANT_MIN, 0)
    return policy


def again(policy: Any) -> Any:
    """A policy that continues from the state of another, by way of bytes."""
    fresh = detection_policy(policy.name)
    fresh.resume(msgspec.msgpack.decode(msgspec.msgpack.encode(policy.state())))
    return fresh


# Names.


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("guaranteed", "guaranteed"),
        (" best-effort ", "best-effort"),
        ("bounded(2000ms)", "bounded(2s)"),
        ("bounded( 1.5s )", "bounded(1500ms)"),
        ("probabilistic(0.990)", "probabilistic(0.99)"),
        ("probabilistic(.5)", "probabilistic(0.5)"),
    ],
)
def test_names_are_read_in_their_shortest_form(text: str, shortest: str) -> None:
    assert parse_detection(text).text == shortest == parse_detection(shortest).text
    assert detection_policy(text).name == shortest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("probably", "unknown detection policy: probably .*probabilistic"),
        ("guaranteed(1)", "unknown detection policy"),
        ("bounded", "unknown detection policy"),
        ("bounded(0s)", "not a bound on .*more than 0"),
        ("bounded(2)", "not a duration: 2"),
        ("probabilistic(1)", "not a probability: .*between 0 and 1"),
        ("probabilistic(nan)", "not a probability"),
        ("probabilistic(x)", "not a probability"),
    ],
)
def test_other_names_are_errors(text: str, message: str) -> None:
    with pytest.raises(DistcedError, match=message):
        detection_policy(text)


# Bounded.


def test_events_wait_for_the_bound_or_until_they_are_stable() -> None:
    policy = joined("bounded(10ns)", "s", "t")
    assert his(policy.receive("s", [event(100)], None, 102)) == []
    assert his(policy.tick(109)) == []
    # The clock counts from the event that was ahead of all others: two behind.
    assert his(policy.tick(112)) == [100]
    assert his(policy.receive("s", [event(120)], 120, 122)) == []
    assert his(policy.heartbeat(["t"], 120, 123)) == [120]
    assert (policy.released, policy.early, policy.unstable) == (2, 1, 0)


def test_late_event_is_not_consumed_and_reported() -> None:
    policy = joined("bounded(10ns)", "s", "t")
    policy.receive("s", [event(95), event(100)], None, 100)
    assert his(policy.tick(110)) == [95, 100]
    released = policy.receive("t", [event(97, "t"), event(111, "t")], None, 111)
    assert his(released) == [] and his(policy.tick(121)) == [111]
    assert [each.hi for each in released.late] == [97]
    assert released.losses == [Loss(96, 97, "t: an event of type A late")]
    # The one behind it was consumed too early, the one before it was not.
    assert (policy.early, policy.unstable) == (3, 1)


def test_events_of_a_recording_are_delayed_by_the_bound() -> None:
    policy = joined("bounded(10ns)", "s", "t")
    now = 1_000_000
    assert his(policy.receive("s", [event(100)], None, now)) == []
    assert his(policy.receive("t", [event(97, "t")], None, now + 5)) == []
    assert his(policy.tick(now + 9)) == [97]
    assert his(policy.tick(now + 10)) == [100]


def test_source_whose_clock_is_ahead_makes_nothing_late() -> None:
    policy = joined("bounded(10ns)", "s", "t")
    policy.receive("t", [event(90_000, "t")], None, 100)
    released = policy.receive("s", [event(101)], None, 101)
    assert not released.late and his(policy.tick(111)) == [101]


def test_policy_from_a_state_waits_for_what_was_published_since() -> None:
    policy = joined("bounded(10ns)", "s")
    policy.join("s", 0, 0, begins=Begins(["A"], 10))
    policy.receive("s", [event(100)], 100, 100, StreamPosition("A", 10))
    resumed = again(policy)
    resumed.join("s", 0, 500, begins=Begins(["A"], 10))
    # Much is older than the bound by now, and not there yet.
    assert resumed.tick(500).watermark == 100
    resumed.unavailable(Unavailable("e", "s", 12, 300, "A", position=True), 510)
    assert resumed.tick(520).watermark == 100
    assert his(resumed.receive("s", [event(300)], 300, 530, StreamPosition("A", 11))) == [300]
    assert resumed.tick(540).watermark == 530

    resumed = again(policy)
    resumed.join("s", 0, 500, begins=Begins(["A"], 10))
    resumed.tick(500)
    assert resumed.tick(500 + CATCH_UP).watermark == 100
    assert resumed.tick(501 + CATCH_UP).watermark > 300


@pytest.mark.parametrize("seed", range(30))
def test_what_differs_from_guaranteed_detection_is_reported(seed: int) -> None:
    """Composite events missing or wrong for lack of late events lie within losses; all others are exact."""
    random = Random(seed)
    name = random.choice(["bounded(3ms)", "bounded(30ms)", "probabilistic(0.5)", "probabilistic(0.9)"])
    pattern = random.choice(["[A] ; [B]", "[A][!C <= {A, B, C}][B]", "[A] & [B]", "([A], [T <= {T, B}]) @ T = 20ms"])
    events = sorted({random.randrange(3 * SECOND) for _ in range(300)})
    arriving: list[tuple[int, Event]] = []
    last = dict.fromkeys("stu", 0)
    for seq, hi in enumerate(events):
        source = random.choice("stu")
        last[source] = max(last[source], hi + round(random.paretovariate(1.2) * 2 * MS))
        arriving.append((last[source], event(hi, source, seq, random.choice("ABC"))))
    arriving.sort(key=lambda each: each[0])
    found: dict[str, list[CompositeEvent]] = {}
    losses: list[Loss] = []
    for policy in (name, "guaranteed"):
        detector = Detector(compile_pattern(pattern), joined(policy, *"stu"))
        results = [detector.receive(each.source, [each], each.hi, at) for at, each in arriving]
        results.append(detector.heartbeat("stu", 10 * SECOND, 10 * SECOND))
        found[policy] = [one for each in results for one in each.events]
        losses += [one for each in results for one in each.losses]
    exact, early = (dict(zip(map(repr, comparable(each)), sorted(each, key=_order), strict=True)) for each in
                    (found["guaranteed"], found[name]))  # fmt: skip
    unlike = [(exact | early)[each] for each in exact.keys() ^ early.keys()]
    assert not [each for each in unlike if not any(each.hi > one.since and each.lo <= one.until for one in losses)]
    assert len(exact) > 10


def _order(each: CompositeEvent) -> Any:
    return (each.type, each.id, each.lo, each.hi, each.constituents, repr(sorted(each.attributes.items())))


# Probabilistic.


def test_little_is_known_at_first_so_it_waits_for_every_source() -> None:
    policy = joined("probabilistic(0.99)", "s", "t")
    assert his(policy.receive("s", [event(5)], 5, 10)) == []
    assert his(policy.tick(10 * SECOND)) == []
    assert his(policy.heartbeat(["t"], 5, 11 * SECOND)) == [5]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("probability", [0.9, 0.99])
def test_share_of_unstable_events_is_within_the_threshold(network: str, probability: float) -> None:
    arriving = messages(NETWORKS[network], 3, 40.0)
    policy = detection_policy(f"probabilistic({probability})")
    made = run(policy, arriving)
    assert upper_share(made.unstable, made.incidents, len(made.delays)) <= 1 - probability
    assert len(made.delays) > 1_000


@pytest.mark.slow
def test_delay_beside_a_heavy_tail_is_cut() -> None:
    arriving = messages(NETWORKS[TAIL], 1, 120.0)
    guaranteed, early = (run(detection_policy(name), arriving) for name in ("guaranteed", "probabilistic(0.95)"))
    assert early.mean < guaranteed.mean / 2
    assert guaranteed.late == guaranteed.unstable == 0


@pytest.mark.parametrize("name", ["bounded(5ms)", "probabilistic(0.9)"])
def test_each_event_is_consumed_in_order_or_late(name: str) -> None:
    arriving = messages(NETWORKS["standstills"], 2, 30.0)
    policy: Any = detection_policy(name)
    found, released = consumed(policy, arriving)
    policy_last = policy.fence("s0", 0), *(policy.fence(f"s{number}", 0) for number in range(1, 5))
    events = [each for each, _ in found] + [one for each in policy_last for one in each.events]
    assert [each.key for each in events] == sorted(each.key for each in events)
    late = [one for each in released for one in each.late]
    published = {one.id for each in arriving for one in each.events}
    assert {each.id for each in events} | {each.id for each in late} == published
    assert len(events) + len(late) == len(published) and late
    marks = [each.watermark for each in released if each.watermark is not None]
    assert marks == sorted(marks)
    # All that was released early and is not stable yet is still looked at.
    assert policy.released == len(events) and policy.unstable > 0


@pytest.mark.parametrize("name", ["bounded(20ms)", "probabilistic(0.9)"])
def test_state_and_copy_continue_as_the_original(name: str) -> None:
    arriving = messages(NETWORKS["standstills"], 5, 20.0)
    policy: Any = joined(name, *{each.source for each in arriving})
    half = len(arriving) // 2
    consumed(policy, arriving[:half])
    others = [policy, policy.copy(), again(policy)]
    before = policy.released
    released = [[event for event, _ in consumed(each, arriving[half:])[0]] for each in others]
    # Probabilities are computed again at other times, which may make an event late, or not.
    fewest = min(map(len, released))
    assert fewest > 500 and max(map(len, released)) - fewest <= fewest / 100
    assert [each.released - before for each in others] == [len(each) for each in released]
    assert others[0].sources == others[1].sources == others[2].sources


def test_probability_of_a_constant_delay_is_learnt() -> None:
    """An event of a source with a delay of 100 ms is certainly not under way any more after a little longer."""
    random, gaps = Random(1), ArrivalGaps()
    instant = 0
    for _ in range(5_000):
        instant += round(random.expovariate(10) * SECOND) + 1
        gaps.arrived(instant, instant, instant + 100 * MS)
    now = instant + 100 * MS
    # Half of all events would have come within 70 ms.
    assert 0.4 < gaps.under_way(instant + 70 * MS, now) < 0.6
    assert gaps.under_way(instant + 70 * MS, now + 90 * MS) < 0.01
    assert gaps.under_way(instant, now) == 0.0


def test_memory_is_bounded_and_follows_changes() -> None:
    random, gaps = Random(1), ArrivalGaps()
    instant = 0
    for rate in (100, 10):
        for _ in range(MOST_GAPS + 1):
            instant += round(random.expovariate(rate) * SECOND) + 1
            gaps.arrived(instant, instant, instant)
    assert gaps.total <= MOST_GAPS
    assert gaps.under_way(instant + 10 * MS, instant) < 0.5
    assert len(gaps.state()[2]) < 1_000


def test_policies_are_detection_policies() -> None:
    policies: list[DetectionPolicy] = [detection_policy(name) for name in ("bounded(1s)", "probabilistic(0.9)")]
    assert [each.size for each in policies] == [0, 0]

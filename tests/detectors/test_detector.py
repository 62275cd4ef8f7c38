"""Detectors under detection policies: under the guarantee delays change nothing, and a snapshot is the whole state."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_pattern, compile_publication
from distced.detectors.runtime.detector import Detected, Detector, detector_id
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError, SnapshotError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.numbered_stream import Loss
from distced.policies.detection import detection_policy
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.guaranteed import Guaranteed
from tests.support.event_streams import END, Message, comparable, interleaved, messages, spread
from tests.support.random_patterns import PatternMaker

SEEDS = 800


class Observer:
    """Tells a detector what arrives, and holds it to its watermarks."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.found: list[CompositeEvent] = []
        self.late: list[Event] = []
        self.watermark: int | None = None

    def take(self, detected: Detected) -> Detected:
        for event in detected.events:
            assert self.watermark is None or event.hi > self.watermark, "found at or before a watermark told before"
        if self.watermark is not None:
            assert detected.watermark is not None
            assert detected.watermark >= self.watermark
        self.watermark = detected.watermark
        self.found += detected.events
        self.late += detected.late
        return detected

    def arrive(self, message: Message, now: int = 0) -> None:
        if message.events or message.watermark is None:
            self.take(self.detector.receive(message.source, message.events, message.watermark, now))
        else:
            self.take(self.detector.heartbeat([message.source, "unknown"], message.watermark, now))


def _compiled(random: Random) -> Compiled | None:
    consumption = random.choice(("ordered", "ordered", "epoch"))
    if random.random() < 0.1:
        return compile_file("type Seen = A every 3ns by k\n[Seen] ; [B]\n")[0]
    try:
        return compile_publication(
            PatternMaker(random).publication(random.randrange(1, 6)),
            consumption=consumption,  # type: ignore[arg-type]
        )
    except PatternError:
        return None


def _patterns(count: int) -> Iterator[tuple[int, Random, Compiled]]:
    for seed in range(count):
        random = Random(seed)
        pattern = _compiled(random)
        if pattern is not None:
            yield seed, random, pattern


def _expected(pattern: Compiled, events: list[Event]) -> list[CompositeEvent]:
    engine = StepwiseEngine([pattern])
    return engine.feed(events) + engine.advance(END)


def _arrivals(random: Random, again: float = 0.3) -> tuple[list[Event], list[str], list[Message]]:
    sources = random.randrange(1, 5)
    events = spread(random, random.randrange(1, 12), sources)
    names = [f"s{number}" for number in range(sources)]
    shuffled = random.random() < 0.3
    streams = [messages(random, events, name, shuffled=shuffled) for name in names]
    return events, names, interleaved(random, *streams, again=again)


def test_guaranteed_detection_does_not_depend_on_delays() -> None:
    compared = 0
    for seed, random, pattern in _patterns(SEEDS):
        events, names, arriving = _arrivals(random)
        observer = Observer(Detector(pattern, Guaranteed()))
        for name in names:
            assert observer.detector.join(name, random.randrange(-20, -5), 0) <= -5
        for message in arriving:
            observer.arrive(message)
        assert comparable(observer.found) == comparable(_expected(pattern, events)), f"seed {seed}: {pattern.text}"
        assert not observer.late, f"seed {seed}"
        assert observer.watermark == END
        assert observer.detector.statistics.consumed == len(events)
        compared += bool(observer.found)
    assert compared > SEEDS // 8


def test_sources_that_leave_or_are_fenced_off_after_their_last_event_change_nothing() -> None:
    compared = 0
    for seed, random, pattern in _patterns(SEEDS // 2):
        events, names, arriving = _arrivals(random, again=0.0)
        observer = Observer(Detector(pattern, Guaranteed()))
        for name in names:
            observer.detector.join(name, -5, 0)
        for message in arriving:
            if message.watermark == END:
                end = random.choice((observer.detector.leave, observer.detector.fence))
                observer.take(end(message.source, 0))
            else:
                observer.arrive(message)
        # All have gone: what has come is released, and time goes on for whoever joins next.
        watermark = observer.detector.join("another", -5, 0)
        assert watermark >= max(event.hi for event in events)
        observer.take(observer.detector.heartbeat(["another"], END, 0))
        assert comparable(observer.found) == comparable(_expected(pattern, events)), f"seed {seed}: {pattern.text}"
        compared += bool(observer.found)
    assert compared > SEEDS // 16


def test_a_detector_resumed_from_its_snapshot_goes_on_as_if_nothing_had_happened() -> None:
    compared = 0
    for seed, random, pattern in _patterns(SEEDS):
        policy = random.choice(("guaranteed", "guaranteed", "best-effort"))
        _, names, arriving = _arrivals(random)
        detectors = [Detector(pattern, detection_policy(policy)) for _ in range(2)]
        for detector in detectors:
            for name in names:
                detector.join(name, -5, 0, 7)
        cut = random.randrange(len(arriving) + 1)
        whole, moved = (Observer(detector) for detector in detectors)
        for place, message in enumerate(arriving):
            if place == cut:
                content = moved.detector.snapshot()
                moved.detector = Detector(pattern, detection_policy(policy))
                moved.detector.resume(content)
                assert moved.detector.statistics == whole.detector.statistics
            whole.arrive(message, place)
            moved.arrive(message, place)
        assert comparable(moved.found) == comparable(whole.found), f"seed {seed}: {pattern.text}"
        assert moved.late == whole.late
        assert moved.watermark == whole.watermark
        compared += 0 < cut < len(arriving) and bool(whole.found)
    assert compared > SEEDS // 10


def test_best_effort_finds_the_same_where_events_arrive_in_order() -> None:
    compared = 0
    for seed, random, pattern in _patterns(SEEDS):
        # Best effort does not wait for other events of the same instant, so there are none where they go together.
        events = spread(random, random.randrange(1, 12), 3)
        instants = {event.hi: event for event in events}
        if pattern.automaton.by_instants or pattern.automaton.parts:
            events = sorted(instants.values(), key=lambda event: event.key)
        observer = Detector(pattern, BestEffort())
        found: list[CompositeEvent] = []
        for place, event in enumerate(events):
            found += observer.receive(event.source, [event], None, 0).events
            following = events[place + 1].hi if place + 1 < len(events) else END
            if random.random() < 0.5 and following > event.hi:
                found += observer.heartbeat([event.source], random.randrange(event.hi, following), 0).events
        final = observer.heartbeat(["s0", "s1", "s2"], END, 0)
        found += final.events
        assert comparable(found) == comparable(_expected(pattern, events)), f"seed {seed}: {pattern.text}"
        assert final.watermark is None
        assert observer.statistics.late == 0
        compared += bool(found)
    assert compared > SEEDS // 8


def test_best_effort_survives_disorder_and_counts_what_came_late() -> None:
    late = 0
    for _, random, pattern in _patterns(SEEDS):
        events, _, arriving = _arrivals(random)
        detector = Detector(pattern, BestEffort())
        random.shuffle(arriving)
        disordered = 0
        for message in arriving:
            if message.events:
                disordered += detector.receive(message.source, message.events, message.watermark, 0).disordered
        assert detector.statistics.consumed == len(events)
        assert detector.statistics.late == disordered
        late += disordered
    assert late > SEEDS


def test_what_late_events_may_have_made_wrong_is_reported_by_best_effort() -> None:
    unlike = reported = 0
    for seed, random, pattern in _patterns(SEEDS):
        if pattern.automaton.by_instants:
            # What goes together depends on arrivals.
            continue
        events = spread(random, random.randrange(2, 12), 3)
        if pattern.automaton.parts:
            # Best effort does not wait for other events of the same instant.
            events = sorted({event.hi: event for event in events}.values(), key=lambda event: event.key)
        arriving = sorted(events, key=lambda each: each.hi + random.choice((0, 0, random.randrange(12))))
        detector = Detector(pattern, BestEffort())
        found: dict[object, CompositeEvent] = {}
        losses: list[Loss] = []
        for event in arriving:
            if random.random() < 0.1:
                detector.resume(detector.snapshot())
            detected = detector.receive(event.source, [event], random.choice((None, event.hi)), 0)
            found |= {each.id: each for each in detected.events}
            losses += detected.behind
        found |= {each.id: each for each in detector.heartbeat(["s0", "s1", "s2"], END, 0).events}
        due = {each.id: each for each in _expected(pattern, events)}
        wrong = [*(found[each] for each in found.keys() - due), *(due[each] for each in due.keys() - found)]
        for each in wrong:
            where = f"seed {seed}: {pattern.text}"
            assert any(loss.concerns(each.lo, each.hi) for loss in losses), (where, each, losses, arriving)
        unlike += bool(wrong)
        reported += bool(losses)
    assert unlike > SEEDS // 40 and reported > unlike


def test_best_effort_consumes_a_frame_in_order() -> None:
    detector = Detector(compile_pattern("[A] ; [B]"), BestEffort())
    frame = [Event("B", 9, 9, "s", 1, {}), Event("A", 1, 1, "s", 0, {})]
    detected = detector.receive("s", frame, None, 0)
    assert [each.hi for each in detected.events] == [9]
    assert detected.disordered == 0


def test_best_effort_does_not_wait_for_the_instant_to_be_over() -> None:
    detector = Detector(compile_pattern("[A] & [B]"), BestEffort())
    assert detector.receive("s", [Event("B", 1, 1, "s", 0, {})], None, 0).events == []
    assert [each.lo for each in detector.receive("s", [Event("A", 2, 2, "s", 1, {})], None, 0).events] == [1]


def test_time_events_wait_for_the_watermark_not_for_the_next_event() -> None:
    observer = Observer(Detector(compile_pattern("([A], [T]) @ T = 5ns"), Guaranteed()))
    observer.detector.join("s", 0, 0)
    observer.take(observer.detector.receive("s", [Event("A", 1, 1, "s", 0, {})], 1, 0))
    observer.take(observer.detector.heartbeat(["s"], 5, 0))
    assert observer.found == []
    observer.take(observer.detector.heartbeat(["s"], 6, 0))
    assert [(each.lo, each.hi) for each in observer.found] == [(1, 6)]


def test_a_detector_is_named_after_the_pattern_and_the_policy() -> None:
    one, same = compile_pattern("[A as x] ; [B where v == x.v]"), compile_pattern("[A as y];[B where v==y.v]")
    other = compile_pattern("[A] [B]")
    epochs = compile_pattern("[A as x] ; [B where v == x.v]", consumption="epoch")
    names = {detector_id(each, "guaranteed") for each in (one, other, epochs)}
    assert len(names) == 3
    assert Detector(same, Guaranteed()).id == detector_id(one, "guaranteed")
    assert Detector(one, BestEffort()).id == detector_id(one, "guaranteed") + ".best-effort"


def _used(policy: str = "guaranteed") -> Detector:
    detector = Detector(compile_pattern("[A] ; [B] by k"), detection_policy(policy))
    detector.join("s", 0, 0)
    detector.receive("s", [Event("A", n, n, "s", n, {"k": n}) for n in range(1, 4)], 2, 0)
    return detector


def test_snapshot_may_hold_an_unannounced_source() -> None:
    detector = Detector(compile_pattern("[A]"), Guaranteed())
    detector.receive("s", [Event("A", INSTANT_MIN + 1, 5, "s", 0, {})], None, 0)
    fresh = Detector(compile_pattern("[A]"), Guaranteed())
    fresh.resume(detector.snapshot())
    assert [each.hi for each in fresh.heartbeat(["s"], INSTANT_MAX, 0).events] == [5]


@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_damaged_snapshots_are_refused(policy: str) -> None:
    content = _used(policy).snapshot()
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        with pytest.raises(SnapshotError):
            _used(policy).resume(damaged)
    for length in range(len(content)):
        with pytest.raises(SnapshotError):
            _used(policy).resume(content[:length])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no snapshot"),
        (b"\xc1", "no snapshot"),
        (b"\x93\x01\x02\x03", "no snapshot"),
        (_used().snapshot().replace(b"detector\x03", b"detector\x04"), "another version"),
        (_used("best-effort").snapshot(), "another detector"),
        (Detector(compile_pattern("[B]"), Guaranteed()).snapshot(), "another detector"),
    ],
)
def test_snapshot_of_another_detector_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        _used().resume(content)

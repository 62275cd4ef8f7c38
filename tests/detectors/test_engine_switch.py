"""A detector whose engine changes while it runs, beside one that keeps the stepwise engine: nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from distced.detectors.compiler import Compiled, compile_file, compile_pattern, compile_publication
from distced.detectors.runtime import engine_switch
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engine_choice import LEAST, STEPWISE, EngineLoad, Forced
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.engines import EngineName
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.policies.detection import detection_policy
from distced.policies.detection.best_effort import BestEffort
from distced.policies.detection.guaranteed import Guaranteed
from tests.support.engine_switches import AtOnce, Never, by_chance
from tests.support.event_streams import END, comparable, interleaved, messages, spread
from tests.support.random_patterns import PatternMaker

COLUMNAR = Engines(AtOnce(), lambda: Forced("columnar"))


class Script:
    """What to take, call by call; from then on the last."""

    def __init__(self, *engines: EngineName) -> None:
        self.engines = list(engines)

    def choose(self, calls: int, events: int, found: int, now: int, load: EngineLoad) -> EngineName:
        return self.engines.pop(0) if len(self.engines) > 1 else self.engines[0]


def _patterns(count: int) -> Iterator[tuple[int, Random, Compiled]]:
    for seed in range(count):
        random = Random(seed)
        if random.random() < 0.1:
            yield seed, random, compile_file("type Seen = A every 3ns by k\n[Seen] ; [B]\n")[0]
            continue
        consumption = random.choice(("ordered", "ordered", "ordered", "epoch"))
        try:
            made = PatternMaker(random).publication(random.randrange(1, 6))
            yield seed, random, compile_publication(made, consumption=consumption)  # type: ignore[arg-type]
        except PatternError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_switched_engine_finds_the_same_with_any_engine(policy: str, at_length: bool) -> None:
    """With events in any order, snapshots in between, and sometimes another detector that goes on from one."""
    changed = found = disordered = 0
    seeds = 10_000 if at_length else 300
    for seed, random, pattern in _patterns(seeds):
        sources = random.randrange(1, 4)
        events = spread(random, random.randrange(1, 14), sources)
        names = [f"s{number}" for number in range(sources)]
        streams = [messages(random, events, name, shuffled=random.random() < 0.3) for name in names]
        arriving = interleaved(random, *streams, again=0.2)
        if policy == "best-effort" and random.random() < 0.3:
            random.shuffle(arriving)
        engines = by_chance(seed)
        kept = Detector(pattern, detection_policy(policy))
        changing = Detector(pattern, detection_policy(policy), engines=engines)
        for name in names:
            assert kept.join(name, -5, 0) == changing.join(name, -5, 0)
        before, at_work = 0, {changing.at_work}
        for place, message in enumerate(arriving):
            said = f"seed {seed}, message {place}: {pattern.text}"
            if random.random() < 0.2:
                now_at_work = changing.at_work
                content = changing.snapshot()
                assert changing.at_work == now_at_work
                if random.random() < 0.5:
                    changing, before = Detector(pattern, detection_policy(policy), engines=engines), 0
                    changing.resume(content)
            one = kept.receive(message.source, message.events, message.watermark, place)
            other = changing.receive(message.source, message.events, message.watermark, place)
            assert comparable(other.events) == comparable(one.events), said
            assert (other.watermark, other.late, other.duplicates) == (one.watermark, one.late, one.duplicates), said
            assert other.disordered == one.disordered, said
            assert changing.touched >= before, said
            before = changing.touched
            at_work.add(changing.at_work)
        assert changing.statistics == kept.statistics
        changed += len(at_work) == 2
        found += kept.statistics.found
        disordered += kept.statistics.late
    assert changed > seeds // 5
    assert found > seeds // 2
    assert disordered > seeds // 10 if policy == "best-effort" else disordered == 0


def test_load_continues_after_a_switch() -> None:
    pattern = compile_pattern("[A as a] ; [B where v > a.v] by k")
    events = [Event("AB"[at % 2], at, at, "s", at, {"k": at % 3, "v": -1}) for at in range(400)]
    detector = Detector(pattern, BestEffort(), engines=by_chance(1))
    whole = StepwiseEngine([pattern])
    touched = [0]
    for place in range(0, 400, 10):
        detector.receive("s", events[place : place + 10], None, place)
        whole.feed(events[place : place + 10])
        if place == 200:
            detector.snapshot()
        touched.append(detector.touched)
    assert all(before < after for before, after in pairwise(touched))
    # As much as the stepwise engine alone: nothing of this is looked up.
    assert detector.touched == whole.touched


def test_size_is_similar_after_a_switch() -> None:
    pattern = compile_pattern("[A] ; [B] by k")
    events = [Event("A", at, at, "s", at, {"k": at}) for at in range(500)]
    sizes = []
    for engines in (None, COLUMNAR):
        detector = Detector(pattern, BestEffort(), engines=engines)
        detector.receive("s", events[:1], None, 0)
        detector.receive("s", events[1:], None, 0)
        assert detector.at_work == ("columnar" if engines else "stepwise")
        sizes.append(detector.size)
    assert sizes[0] == sizes[1]


def test_snapshot_leaves_the_engine_and_its_choice() -> None:
    made: list[Script] = []

    def choice() -> Script:
        made.append(Script("stepwise", "columnar"))
        return made[-1]

    detector = Detector(compile_pattern("[A]"), BestEffort(), engines=Engines(AtOnce(), choice))
    at_work = []
    for number in range(6):
        if number == 3:
            detector.snapshot()
        detector.receive("s", [Event("A", number, number, "s", number, {})], None, 0)
        at_work.append(detector.at_work)
    assert at_work == ["stepwise", *["columnar"] * 5]
    assert len(made) == 1


def test_pattern_with_derivations_stays_with_the_stepwise_engine() -> None:
    detector = Detector(compile_pattern("[A] ; [B]"), Guaranteed(), engines=COLUMNAR)
    detector.join("s", 0, 0)
    detector.receive("s", [Event("A", 1, 1, "s", 0, {})], 1, 0)
    assert detector.at_work == "columnar"
    detector.keep_derivations()
    assert detector.at_work == "stepwise"
    (event,) = detector.receive("s", [Event("B", 2, 2, "s", 1, {})], 2, 0).events
    assert event.hi == 2
    assert detector.at_work == "stepwise"
    assert Detector(compile_pattern("[A]"), Guaranteed(), derivations=True, engines=COLUMNAR).at_work == "stepwise"


def test_unsupported_pattern_stays_with_the_stepwise_engine() -> None:
    """It is tried once."""
    choice = Script("columnar")
    engines = Engines(AtOnce(), lambda: choice)
    detector = Detector(compile_pattern("[C] ; (([A] ; [B] by v) by k)"), BestEffort(), engines=engines)
    assert detector.compiled.automaton.inner_keys
    events = [Event("CAB"[at % 3], at, at, "s", at, {"k": 1, "v": 2}) for at in range(3)]
    found = [each for event in events for each in detector.receive("s", [event], None, 0).events]
    assert len(found) == 1
    assert detector.at_work == "stepwise"


def test_stepwise_engine_serves_until_the_columnar_is_ready() -> None:
    readiness = Never()
    detector = Detector(compile_pattern("[A]"), BestEffort(), engines=Engines(readiness, lambda: Forced("columnar")))
    for number in range(3):
        assert len(detector.receive("s", [Event("A", number, number, "s", number, {})], None, 0).events) == 1
    assert readiness.asked == 3
    assert detector.at_work == "stepwise"


def test_columnar_engine_releases_events_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of those that nobody refers to."""
    monkeypatch.setattr(engine_switch, "LET_GO_AFTER", 1_000)
    detector = Detector(compile_pattern("[A] ; [B] within 20ns by k"), BestEffort(), engines=COLUMNAR)
    expected = StepwiseEngine([detector.compiled])
    engines = set()
    for size in (1, 20, 300):
        for _ in range(100):
            start = expected.units[0].matcher.latest.hi + 1 if expected.units[0].matcher.latest else 0
            events = [Event("AB"[at % 2], at, at, "s", at, {"k": at // 2}) for at in range(start, start + size)]
            assert comparable(detector.receive("s", events, None, 0).events) == comparable(expected.feed(events))
            if detector.at_work == "columnar":
                engines.add(detector.engine)
                assert detector.engine.loop.store.held <= 1_000 + 2 * size
                assert len(detector.engine.loop.store._segments) <= 1_000 // engine_switch.CALL + 2
    assert len(engines) == 1
    assert detector.touched == expected.touched


def test_a_columnar_engine_is_renewed_after_very_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the texts that it has seen."""
    monkeypatch.setattr(engine_switch, "RENEW_AFTER", 1_000)
    detector = Detector(compile_pattern("[A] ; [B] within 4ns by k"), BestEffort(), engines=COLUMNAR)
    expected = StepwiseEngine([detector.compiled])
    engines = set()
    for start in range(0, 10_000, 20):
        events = [Event("AB"[at % 2], at, at, "s", at, {"k": f"{at // 2}"}) for at in range(start, start + 20)]
        assert comparable(detector.receive("s", events, None, 0).events) == comparable(expected.feed(events))
        if start:
            assert detector.at_work == "columnar"
            assert len(detector.engine.loop.texts.texts) <= 510
            engines.add(detector.engine)
    assert len(engines) == 10
    assert detector.touched == expected.touched


def test_engine_with_many_instances_is_renewed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_switch, "RENEW_AFTER", 1)
    detector = Detector(compile_pattern("[A] ; [B]"), BestEffort(), engines=COLUMNAR)
    detector.receive("s", [Event("A", at, at, "s", at, {}) for at in range(10)], None, 0)
    first = detector.engine
    most = 10 * engine_switch.RENEW_PER_INSTANCE
    for at in range(10, 10 + most, 100):
        assert detector.engine is first
        detector.receive("s", [Event("C", each, each, "s", each, {}) for each in range(at, at + 100)], None, 0)
    assert detector.engine is not first


def test_time_events_fire_whichever_engine_is_at_work() -> None:
    detector = Detector(
        compile_pattern("([A], [T]) @ T = 5ns"),
        Guaranteed(),
        engines=Engines(AtOnce(), lambda: Script("columnar", "stepwise", "columnar")),
    )
    detector.join("s", 0, 0)
    found = detector.receive("s", [Event("A", 1, 1, "s", 0, {}), Event("A", 3, 3, "s", 1, {})], 4, 0).events
    found += detector.heartbeat(["s"], 6, 0).events
    assert [(each.lo, each.hi) for each in found] == [(1, 6)]
    found += detector.heartbeat(["s"], END, 0).events
    assert [(each.lo, each.hi) for each in found] == [(1, 6), (3, 8)]


def test_choice_begins_once_the_engine_has_worked_enough() -> None:
    begun = list[Script]()

    def choice() -> Script:
        begun.append(Script("stepwise"))
        return begun[-1]

    pattern = compile_pattern("[A where v > 90] ; [B]")
    settings = Engines(AtOnce(), choice, begins=LEAST)
    detector = Detector(pattern, BestEffort(), engines=settings)
    most = LEAST // STEPWISE.of(1, 1, 0, 0)
    for at in range(2 * int(most)):
        detector.receive("s", [Event("A", at, at, "s", at, {"v": 0})], None, at)
        if begun:
            break
    assert at == pytest.approx(most, rel=0.01)

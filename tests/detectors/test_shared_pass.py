"""A shared columnar pass: its members, and the choice of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from distced.detectors.compiler import Compiled, check_pattern, compile_pattern
from distced.detectors.runtime import shared_pass
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engine_choice import LOOK_EVERY
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.engines import EngineName
from distced.detectors.runtime.pass_choice import Changes, ForcedPass, M, PassChoice, PassLoad, Work
from distced.detectors.runtime.shared_input import SharedInput
from distced.detectors.runtime.shared_pass import is_suited
from distced.detectors.shapes import Shapes
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND
from distced.middleware.wire.numbered_stream import Loss
from distced.policies.detection.best_effort import BestEffort
from tests.support.engine_switches import AtOnce, Never
from tests.support.event_streams import comparable

FORCED = Engines(AtOnce(), shared=ForcedPass)
READING = event_type("Reading", {"dev": "string", "v": "number"})


class Script:
    """Changes, release by release; then none."""

    def __init__(self, *changes: Callable[[Sequence[Any]], Changes[Any]]) -> None:
        self.changes = list(changes)

    def choose(self, called: Sequence[M], load: PassLoad) -> Changes[M]:
        return self.changes.pop(0)(called) if self.changes else Changes(())


def _readings(first: int, count: int) -> list[Event]:
    places = range(first, first + count)
    return [Event("Reading", at, at, "s", at, {"dev": f"d{at % 3}", "v": 7 * at % 100}) for at in places]


def _thresholds(count: int) -> list[Compiled]:
    return [
        compile_pattern(f"[Reading where v > {60 + number}] ; [Reading where v < {number + 5}] within 40ns by dev")
        for number in range(count)
    ]


def _beside(patterns: Sequence[Compiled], engines: Engines) -> tuple[SharedInput, SharedInput]:
    """Detectors that share an input, with these engines, and with stepwise ones."""
    made = SharedInput(BestEffort(), engines), SharedInput(BestEffort())
    for shared in made:
        for pattern in patterns:
            shared.add(Detector(pattern, BestEffort(), engines=engines if shared is made[0] else None))
    return made


def _feed(shared: SharedInput, events: list[Event], now: int = 0) -> dict[str, list[Any]]:
    passed = shared.receive([("s", events, None, None)], now)
    shared.validate()
    return {detector.id: comparable(found) for detector, found in passed.found}


def test_members_are_accounted_for_like_those_with_engines_of_their_own() -> None:
    columnar, stepwise = _beside(_thresholds(10), FORCED)
    found = 0
    for start in range(0, 300, 20):
        events = _readings(start, 20)
        one, other = _feed(columnar, events), _feed(stepwise, events)
        assert one == other
        found += sum(map(len, one.values()))
        for identity, member in columnar.members.items():
            reference = stepwise.members[identity]
            assert member.statistics == reference.statistics
            assert (member.at_work, reference.at_work) == ("columnar", "stepwise")
    assert found > 100
    assert {member.due() for member in columnar.members.values()} == {None}
    for identity, member in columnar.members.items():
        reference = stepwise.members[identity]
        # Instances that one test of an event settles are not counted by the stepwise engine.
        assert 0 < reference.touched <= member.touched
        assert member.live > 0
    before = {identity: member.touched for identity, member in columnar.members.items()}
    for member in columnar.members.values():
        # The engine of its own: it leaves.
        assert member.engine.touched == 0
        assert member.at_work == "stepwise"
        assert member.touched == before[member.id]
    events = _readings(300, 50)
    assert _feed(columnar, events) == _feed(stepwise, events)


def test_late_events_are_reported_to_members_whom_they_may_concern() -> None:
    single, other = compile_pattern("[Reading where v > 3]"), compile_pattern("[Reading where v == 1] ; [Reading]")
    keyed = compile_pattern("[Reading where dev == 'd7'] ; [Reading where dev == 'd7' and v < 5]")
    columnar, stepwise = _beside([*_thresholds(10), single, other, keyed], FORCED)
    for start in range(0, 200, 20):
        assert _feed(columnar, _readings(start, 20)) == _feed(stepwise, _readings(start, 20))
    late = Event("Reading", 5, 5, "t", 1_000, {"dev": "d1", "v": 99})
    for shared in (columnar, stepwise):
        behind = {
            detector.id: losses for detector, losses in shared.receive([("t", [late], None, None)], 0).behind.items()
        }
        expected = {each.id for each in shared.members.values()} - {
            Detector(each, BestEffort()).id for each in (single, keyed)
        }
        assert behind.keys() == expected
        assert {tuple(each) for each in behind.values()} == {(Loss(4, 5, "t: an event of type Reading late"),)}
        # One that comes in order is nothing to report.
        assert shared.receive([("t", _readings(300, 1), None, None)], 0).behind == {}


def test_snapshot_is_a_copy_and_the_member_stays() -> None:
    columnar, stepwise = _beside(_thresholds(4), FORCED)
    for start in (0, 50):
        assert _feed(columnar, _readings(start, 50)) == _feed(stepwise, _readings(start, 50))
    for identity, member in columnar.members.items():
        content = member.snapshot()
        assert member.at_work == "columnar"
        arrived = Detector(member.compiled, BestEffort())
        arrived.resume(content)
        assert arrived.statistics == member.statistics
        found = arrived.receive("s", _readings(100, 40), None, 0).events
        assert comparable(found) == comparable(stepwise.members[identity].engine.feed(_readings(100, 40)))


def test_members_enter_and_leave_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pass, "AT_ONCE", 3)
    script = Script(Changes, lambda _: Changes(()), lambda _: Changes(()), lambda _: Changes((), ends=True))
    columnar, stepwise = _beside(_thresholds(8), Engines(AtOnce(), shared=lambda: script))
    seated = []
    for start in range(0, 180, 20):
        events = _readings(start, 20)
        assert _feed(columnar, events) == _feed(stepwise, events)
        seated.append(sum(each.at_work == "columnar" for each in columnar.members.values()))
        changed = {each.id for each in columnar.take_touched() if each.at_work == "columnar"}
        assert len(changed) >= min(3, max(0, seated[-1] - sum(seated[-2:-1])))
    assert seated == [3, 6, 8, 5, 2, 0, 0, 0, 0]


def test_stepwise_engines_serve_until_the_columnar_is_ready() -> None:
    readiness = Never(problem="")
    columnar, stepwise = _beside(_thresholds(3), Engines(readiness, shared=ForcedPass))
    assert _feed(columnar, _readings(0, 40)) == _feed(stepwise, _readings(0, 40))
    assert readiness.asked == 1
    assert {each.at_work for each in columnar.members.values()} == {"stepwise"}


def test_loop_is_replaced_after_very_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pass, "RENEW_AFTER", 200)
    monkeypatch.setattr(shared_pass, "AT_ONCE", 2)
    patterns = [compile_pattern(f"[A where v > {number}] ; [B] within 6ns by k") for number in range(5)]
    columnar, stepwise = _beside(patterns, FORCED)
    loops, most = set(), 0
    for start in range(0, 2000, 20):
        places = range(start, start + 20)
        events = [Event("AB"[at % 2], at, at, "s", at, {"k": f"{at // 2}", "v": at % 7}) for at in places]
        assert _feed(columnar, events) == _feed(stepwise, events)
        loops |= {id(each.member_loop) for each in columnar._columnar.members.values()}  # type: ignore[union-attr]
        most = max([most, *(len(each.member_loop.loop.texts.texts) for each in columnar._columnar.members.values())])  # type: ignore[union-attr]
    assert len(loops) > 3
    assert most < 300
    assert {each.at_work for each in columnar.members.values()} == {"columnar"}


def test_patterns_of_a_shape_run_with_texts_of_their_own() -> None:
    registry, shapes = TypeRegistry([READING]), Shapes()
    patterns = []
    for number in range(6):
        text = f"[Reading where v > 50 and dev != 'd{number}'] ; [Reading where dev == 'd{number}'] within 9ns"
        patterns.append(shapes.find(text, registry) or check_pattern(text, registry))
    columnar, stepwise = _beside(patterns, FORCED)
    for start in range(0, 100, 20):
        assert _feed(columnar, _readings(start, 20)) == _feed(stepwise, _readings(start, 20))
    assert {each.at_work for each in columnar.members.values()} == {"columnar"}


@pytest.mark.parametrize(
    ("text", "suited"),
    [
        ("[A] ; [B where v > 1] by k", True),
        ("([A], [T]) @ T = 3ns", True),
        ("[any where v == 1]", True),
        ("[A] & [B]", False),
        ("[C] ; (([A] ; [B] by v) by k)", False),
    ],
)
def test_patterns_that_the_pass_can_run(text: str, suited: bool) -> None:
    assert is_suited(compile_pattern(text)) == suited
    assert not is_suited(compile_pattern(text, consumption="epoch"))


class Member:
    """A member that touches a number of instances with each call."""

    def __init__(self, touched: int, live: int = 0) -> None:
        self.each = touched
        self.touched = self.consumed = self.found = 0
        self.live = live
        self.at_work: EngineName = "stepwise"

    @property
    def statistics(self) -> Member:
        return self

    def call(self, events: int) -> None:
        self.consumed += events
        self.touched += self.each


class Simulated:
    """Releases of a shared input, at a steady rate."""

    def __init__(self, members: int, touched: int, events: int) -> None:
        self.choice = PassChoice()
        self.outside = [Member(touched) for _ in range(members)]
        self.inside: list[Member] = []
        self.events = events
        self.now = self._calls = 0

    def run(self, seconds: float, rate: int) -> None:
        for _ in range(int(seconds * rate)):
            self.now += 1000 * MILLISECOND // rate
            for each in (*self.outside, *self.inside):
                each.call(self.events)
            self._calls += 1
            load = PassLoad(1, self.events, self.now, len(self.inside), 0, self._work)
            called = [each for each in self.outside if each.each]
            changes = self.choice.choose(called, load)
            entering = list(changes.entering)
            self.inside += entering
            self.outside = [each for each in self.outside if each not in entering]
            if changes.ends:
                self.outside, self.inside = [*self.outside, *self.inside], []

    def _work(self, calls: int, events: int) -> Work:
        done, self._calls = self._calls, 0
        each = sum(member.each > 0 for member in self.inside)
        return Work(done * each, done * self.events * each, done * sum(member.each for member in self.inside), 0)


def test_members_that_every_event_concerns_enter_and_those_that_save_most_first() -> None:
    simulated = Simulated(members=300, touched=1, events=1)
    simulated.outside[7].each = 40
    simulated.run(1.5, 200)
    assert 0 < len(simulated.inside) < 300
    assert simulated.inside[0].each == 40
    simulated.run(20, 200)
    assert len(simulated.inside) == 300


@pytest.mark.parametrize(("members", "touched", "rate"), [(1, 100, 500), (5, 1, 200), (300, 1, 1)])
def test_few_members_and_few_events_do_not_pay_for_a_pass(members: int, touched: int, rate: int) -> None:
    simulated = Simulated(members, touched, events=1)
    simulated.run(30, rate)
    assert not simulated.inside


def test_pass_of_members_that_nothing_concerns_any_more_is_given_up() -> None:
    simulated = Simulated(members=100, touched=2, events=1)
    simulated.run(20, 200)
    assert len(simulated.inside) == 100
    for each in simulated.inside:
        each.each = 0
    assert LOOK_EVERY < 1000 * MILLISECOND
    simulated.run(30, 200)
    assert not simulated.inside

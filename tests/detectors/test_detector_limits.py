"""Limits of detectors on both engines and in the shared pass: cut short amid an event, and nothing changes below."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distced.detectors.automata.properties import grows_texts
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.limits import BIRTH, TOGETHER, Limits
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engine_choice import Forced
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.pass_choice import ForcedPass
from distced.detectors.runtime.shared_input import SharedInput
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import LimitError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.sets.values import LONGEST, add
from distced.policies.detection.best_effort import BestEffort
from tests.support.engine_switches import AtOnce

DOUBLING = "init x = 0 : ([A set x = 2 * x] | [A set x = 2 * x + 1])+ [C]"
TEXT = "init s = 'x' : [A set s = s + s]+ [C]"
FEW = Limits(instances=500, work=1000, memory=2**20, text=200)

Engine = StepwiseEngine | ColumnarEngine


def events(types: str, begin: int = 0, **attributes: int) -> list[Event]:
    return [
        Event(name, seq, seq, "s", seq, {"k": seq, "v": seq % 7, **attributes})
        for seq, name in enumerate(types, begin + 1)
    ]


def limited(make: Callable[..., Engine], pattern: str, limits: Limits = FEW) -> Engine:
    engine = make([compile_pattern(pattern)])
    engine.limit(limits)
    return engine


def by_id(composite: CompositeEvent) -> int:
    return composite.seq


BOTH = pytest.mark.parametrize("make", [StepwiseEngine, ColumnarEngine])


@BOTH
@pytest.mark.parametrize("together", [True, False])
def test_instances_that_double_are_too_many(make: Callable[..., Engine], together: bool) -> None:
    engine = limited(make, DOUBLING)
    happened = events("A" * 30)
    with pytest.raises(LimitError, match="more instances of a pattern") as caught:
        for each in [happened] if together else [[event] for event in happened]:
            engine.feed(each)
    assert caught.value.advice and caught.value.allowed in ("500", "1,000")


@BOTH
def test_text_that_doubles_is_too_long(make: Callable[..., Engine]) -> None:
    engine = limited(make, TEXT)
    with pytest.raises(LimitError, match="256 characters"):
        engine.feed(events("A" * 30))


@BOTH
def test_text_that_is_copied_is_not_limited(make: Callable[..., Engine]) -> None:
    long = "x" * 1000
    engine = limited(make, "init s = '' : [A as a set s = a.name] ; [C] -> Out(s = s)")
    (found,) = engine.feed([Event("A", 1, 1, "s", 1, {"name": long}), Event("C", 2, 2, "s", 2, {})])
    assert found.attributes == {"s": long}


@BOTH
def test_numbers_do_not_grow_beyond_64_bits(make: Callable[..., Engine]) -> None:
    engine = limited(make, "init x = 3 : [S] [A set x = x * x]+ [C] -> Out(x = x)")
    assert [each.attributes for each in engine.feed(events("S" + "A" * 40 + "C"))] == [{"x": float("inf")}]


def test_joined_text_has_a_greatest_length() -> None:
    half = "x" * (LONGEST // 2)
    assert len(str(add(half, half))) == LONGEST
    assert add(half + "x", half) is None


@BOTH
def test_open_instances_are_too_many(make: Callable[..., Engine]) -> None:
    engine = limited(make, "[A as a] ; [B where k > a.k + 9]")
    engine.feed(events("A" * 500))
    with pytest.raises(LimitError, match=r"than nodes hold: 5.. \(allowed: 500\)"):
        engine.feed(events("A" * 40, 600))


@BOTH
def test_closed_windows_do_not_count(make: Callable[..., Engine]) -> None:
    engine = limited(make, "[A as a] ; [B where k > a.k + 9] within 100ns")
    for begin in range(0, 20_000, 100):
        engine.feed(events("A" * 100, begin))


def test_event_for_many_instances_is_too_much_work() -> None:
    engine = limited(StepwiseEngine, "[A as a] ; [B where k > a.k + 900000]", Limits(work=1000))
    engine.feed(events("A" * 1000))
    engine.feed(events("B", 1000))
    engine.feed(events("A", 1001))
    with pytest.raises(LimitError, match=r"^one event concerns .*: 1,001 \(allowed: 1,000\)"):
        engine.feed(events("B", 1002))


def test_plain_instances_of_one_event_are_cut_short() -> None:
    """Instances with several ways on and nothing else are moved in a loop of their own."""
    engine = limited(StepwiseEngine, "[A] [B]* [B] [C]", Limits(work=1000))
    engine.feed(events("A" * 600))
    with pytest.raises(LimitError, match=r"^one event concerns .*: 1,008"):
        engine.feed(events("B", 600))


def test_instances_that_are_brought_forth_count_more_than_those_that_are_looked_at() -> None:
    pattern = "init x = 0 : ([A set x = 2 * x] | [A set x = 2 * x + 1])+ [C]"
    engine = limited(StepwiseEngine, pattern, Limits(work=64 * BIRTH))
    # Two, six, fourteen, and so on.
    engine.feed(events("A" * 4))
    with pytest.raises(LimitError, match=rf"^one event concerns .*: {65 * BIRTH:,} "):
        engine.feed(events("A" * 10, 4))


def test_work_of_earlier_calls_does_not_count() -> None:
    engine = limited(StepwiseEngine, "[A as a] ; [B where k > a.k + 900000] within 20ns", Limits(work=20 * BIRTH))
    # More births than all events of one call may have.
    for begin in range(0, 30 * TOGETHER, 10):
        engine.feed(events("A" * 10, begin))


def test_events_of_one_call_are_too_much_work_together() -> None:
    pattern = "[A as a] ; [B where k > a.k + 900000]"
    apart, together = (limited(StepwiseEngine, pattern, Limits(work=1000)) for _ in range(2))
    for engine in (apart, together):
        for begin in range(0, 900, 100):
            engine.feed(events("A" * 100, begin))
    for each in events("B" * 120, 900):
        apart.feed([each])
    with pytest.raises(LimitError, match=r"^events that arrived together concern .* \(allowed: 100,000\)"):
        together.feed(events("B" * 120, 900))


def test_long_matches_are_too_much_work_together() -> None:
    engine = limited(StepwiseEngine, "~[S] [A]+ [C]", Limits(work=4000))
    engine.feed(events("S" * 400))
    for begin in range(400, 1_500):
        engine.feed(events("A", begin))
    with pytest.raises(LimitError, match="events that arrived together"):
        engine.feed(events("C", 1_500))


@pytest.mark.parametrize(
    ("pattern", "grows"),
    [
        (TEXT, True),
        ("init s = '' : [A as a set s = s + a.name]+", True),
        ("init n = 0 : [A as a set n = n + a.v]+", False),
        ("init n = 0 : [A as a set n = n + 1]+", False),
        ("init n = 0, s = '' : [A as a set s = a.name, n = n + length(s)]+", False),
        ("init n = null : [A as a set n = coalesce(n, 'x') + 'y']+", True),
        ("[A as a] ; [B where k + a.k > 3]", False),
    ],
)
def test_pattern_grows_texts(pattern: str, grows: bool) -> None:
    assert grows_texts(compile_pattern(pattern).automaton) is grows


@pytest.mark.parametrize("columnar", [True, False])
def test_memory_is_measured_now_and_then(columnar: bool) -> None:
    engines = Engines(AtOnce(), lambda: Forced("columnar")) if columnar else None
    limits = Limits(memory=2**20)
    growing, closing = (
        Detector(compile_pattern(pattern), BestEffort(), engines=engines, limits=limits)
        for pattern in ("[S] [A]* [B]", "[S] [A]* [B] within 50ns")
    )
    for begin in range(0, 40_000, 100):
        batch = events("S" * (begin == 0) + "A" * 100, begin)
        for detector in (growing, closing):
            detector.receive_all([("s", batch, batch[-1].hi, None)], begin)
        assert closing.measure() is None
        excess = growing.measure()
        if excess is not None:
            break
    assert excess is not None and "more memory" in excess.problem
    assert 1000 < begin < 10_000
    assert growing.at_work == "stepwise", "an engine that keeps more than it needs is given up first"


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize(
    ("stage", "closing"),
    [
        ("A with (n = count(v) over 1h) by k", "A with (n = count(v) over 50ns) by k"),
        ("A with (n = distinct(v) over 1h)", "A with (n = distinct(v) over 50ns)"),
        ("A every 1h by k", "A every 50ns by k"),
        ("last A by k", "last A"),
    ],
    ids=["window", "distinct", "throttle", "state"],
)
def test_what_stages_keep_is_measured(stage: str, closing: str, columnar: bool) -> None:
    """Of events of which none begins anything."""
    engines = Engines(AtOnce(), lambda: Forced("columnar")) if columnar else None
    read = {"last A by k": "[A where v == last(S.v, k)]", "last A": "[A where v == last(S.v)]"}
    detectors = []
    for each in (stage, closing):
        (pattern,) = compile_file(f"type S = {each}\n{read.get(each, '[S where v == null]')}")
        detectors.append(Detector(pattern, BestEffort(), engines=engines, limits=Limits(memory=2**21)))
    grown = None
    for begin in range(1, 60_000, 100):
        batch = [Event("A", at, at, "s", at, {"k": f"k{at}", "v": f"v{at}"}) for at in range(begin, begin + 100)]
        for detector in detectors:
            detector.receive_all([("s", batch, batch[-1].hi, None)], begin)
        assert detectors[1].measure() is None
        grown = detectors[0].measure()
        if grown is not None:
            break
    assert grown is not None and "more memory" in grown.problem
    assert begin > 1000


def test_engine_that_cannot_go_on_is_an_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(StepwiseEngine, "feed", fail)
    detector = Detector(compile_pattern("[A] ; [B]"), BestEffort())
    detected = detector.receive_all([("s", events("A"), 1, None)], 0)
    assert detected.excess is not None and "MemoryError" in str(detected.excess)


@pytest.mark.parametrize("columnar", [True, False])
def test_member_beyond_its_limits_leaves_others_where_they_are(columnar: bool) -> None:
    engines = Engines(AtOnce(), shared=ForcedPass) if columnar else None
    patterns = ["[A as a] ; [B where k == a.k + 1]", DOUBLING.replace("C", "B"), "[A] ; [B] within 3ns"]
    shared, alone = SharedInput(BestEffort(), engines), [SharedInput(BestEffort()) for _ in patterns]
    members = [Detector(compile_pattern(each), shared.policy, engines=engines, limits=FEW) for each in patterns]
    for member, text, other in zip(members, patterns, alone, strict=True):
        shared.add(member)
        other.add(Detector(compile_pattern(text), other.policy))
    poison = members[1]
    found: dict[str, list[CompositeEvent]] = {}
    expected: dict[str, list[CompositeEvent]] = {}
    beyond = []
    for now, each in enumerate(events("A" * 5 + "AB" + "A" * 12 + "BAABAB")):
        arrival = ("s", [each], each.hi, None)
        passed = shared.receive([arrival], now)
        for detector, composites in passed.found:
            found.setdefault(detector.id, []).extend(composites)
        beyond += list(passed.excesses.items())
        if poison in passed.excesses:
            shared.remove(poison)
            alone[1].remove(next(iter(alone[1].members.values())))
        for other in alone:
            for detector, composites in other.receive([arrival], now).found:
                expected.setdefault(detector.id, []).extend(composites)
        shared.validate()
    ((detector, excess),) = beyond
    assert detector is poison and "more instances" in excess.problem
    for member in (members[0], members[2]):
        assert sorted(found[member.id], key=by_id) == sorted(expected[member.id], key=by_id)


@BOTH
@pytest.mark.parametrize("behind", ["watermark", "event"])
@pytest.mark.parametrize("text", ["([A], [T]* [B]) @ T = every 1us", "([A as a], [T]* [B]) @ T = every 1us by k"])
def test_time_events_that_recur_too_often(make: Callable[..., Engine], text: str, behind: str) -> None:
    """With an interval of microseconds they would hold a node up for as long as an instance waits."""
    engine = limited(make, text)
    engine.feed([Event("A", 1, 1, "s", 1, {"k": 1})])
    for number in range(1, 9):
        engine.advance(number * 1_000_000)
    late = Event("C", 10**12, 10**12, "s", 2, {"k": 1})
    with pytest.raises(LimitError, match="time events recur more often than nodes look at") as caught:
        engine.feed([late]) if behind == "event" else []
        engine.advance(10**12)
    assert caught.value.advice == "take a longer interval, or start nodes with --max-work"


@BOTH
def test_recurrences_of_many_instances_are_those_of_each(make: Callable[..., Engine]) -> None:
    engine = limited(make, "([A], [T] [T] [T] [T] [T]) @ T = every 1us", Limits(work=100))
    happened = [Event("A", seq, seq, "s", seq, {}) for seq in range(90)]
    assert len(engine.feed(happened) + engine.advance(1_000_000)) == 90

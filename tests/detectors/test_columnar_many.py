"""Many patterns in one pass: those that begin alike share states, come and go, and find what each finds by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from random import Random

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.columnar.loop import Loop
from distced.detectors.columnar.program.sharing import chain_of
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import CompositeEvent, Event
from tests.support.event_streams import comparable

STEPS = ("A", "B", "A where v == 1", "B where v > 0", "A where v == 1 and k == 2", "B where v < 2 and k == 1", "C")
DOMAINS = ("", " <= {A, B}", " <= A", " <= B where v > 0", " <= {A, B, C}", " <= any")
SUFFIXES = ("", " within 6ns", " by k", " within 20ns by k")


def a_pattern(random: Random) -> Compiled:
    """A chain of steps out of few, so that many begin alike; now and then something else."""
    steps = []
    for _ in range(random.randrange(1, 4)):
        step = random.choice(STEPS[: random.choice((2, 4, 7))])
        hidden = "~" if random.random() < 0.05 else ""
        steps.append(f"{hidden}[{step}{random.choice(DOMAINS[: random.choice((1, 1, 2, 6))])}]")
    if all(each[0] == "~" for each in steps):
        steps[0] = steps[0][1:]
    joint = random.choice((" ; ", " ; ", " "))
    try:
        return compile_pattern(joint.join(steps) + random.choice(SUFFIXES))
    except PatternError:
        # Such as can never match.
        return a_pattern(random)


def some_events(random: Random, first: int, count: int) -> list[Event]:
    return [
        Event(random.choice("ABBCD"), at - random.choice((0, 0, 2)), at, "s", at, _attributes(random))
        for at in range(first, first + count)
    ]


def _attributes(random: Random) -> dict[str, int | float | None]:
    return {"v": random.choice((0, 1, 1.0, 2, 0.5, None)), "k": random.choice((1, 2, 2.0, None))}


@pytest.mark.parametrize("seed", range(60))
def test_patterns_that_come_and_go_find_what_each_finds_by_itself(seed: int) -> None:
    random = Random(seed)
    loop = Loop(())
    alone: dict[int, StepwiseEngine] = {}
    patterns: dict[int, Compiled] = {}
    for step in range(12):
        for _ in range(random.randrange(4)):
            pattern = a_pattern(random)
            number = loop.add(pattern.automaton).number
            alone[number], patterns[number] = StepwiseEngine([pattern]), pattern
        for number in list(alone):
            if random.random() < 0.15:
                loop.remove(number)
                del alone[number]
        events = some_events(random, 30 * step, random.choice((5, 30)))
        found = loop.events_of(loop.feed(Batch.of_events(events)))
        own: dict[str, list[CompositeEvent]] = {}
        for each in found:
            own.setdefault(each.source, []).append(each)
        expected: dict[str, list[CompositeEvent]] = {}
        for number, engine in alone.items():
            name = patterns[number].automaton.canonical_id
            expected.setdefault(name, []).extend(engine.feed(events))
        assert own.keys() <= expected.keys()
        for name, composites in expected.items():
            said = [each.text for each in patterns.values() if each.automaton.canonical_id == name]
            assert comparable(own.get(name, [])) == comparable(composites), said


def test_equal_beginnings_are_one_state_and_one_instance() -> None:
    texts = [f"[A where v == 1] ; [B] ; [C where v == {number} <= C] within 1min" for number in range(50)]
    loop = Loop(compile_pattern(text).automaton for text in texts)
    assert len(loop.assembler.nodes) == 2
    loop.feed(Batch.of_events([Event("A", 1, 1, "s", 1, {"v": 1})]))
    assert loop.live == 1
    found = loop.feed(Batch.of_events([Event("B", 2, 2, "s", 2, {}), Event("C", 3, 3, "s", 3, {"v": 7})]))
    assert found.units.tolist() == [7]


def test_shared_instances_are_handed_over_to_each_pattern_they_are_of() -> None:
    patterns = [compile_pattern(f"[A] ; [B] ; [C where v == {number} <= C]") for number in range(3)]
    engine = ColumnarEngine(patterns)
    engine.feed([Event("A", 1, 1, "s", 1, {}), Event("B", 2, 2, "s", 2, {})])
    assert engine.live_instances() == 1
    between = engine.stepwise()
    assert between.live_instances() == 3
    again = ColumnarEngine(patterns)
    again.go_on_from(between)
    last = [Event("C", 3, 3, "s", 3, {"v": 2})]
    assert [each.source for each in again.feed(last)] == [patterns[2].automaton.canonical_id]


def test_removed_patterns_are_swept_out() -> None:
    pattern = compile_pattern("[A] ; [B]")
    loop = Loop([pattern.automaton])
    loop.feed(Batch.of_events([Event("A", at, at, "s", at, {}) for at in range(100)]))
    assert loop.live == 100
    loop.remove(0)
    loop.state.counters[word_offsets.C_CROWD] = 0
    assert len(loop.feed(Batch.of_events([Event("B", 200, 200, "s", 200, {})]))) == 0
    assert loop.live == 0


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("[A] ; [B]", True),
        ("[A] [B <= {A, B}] by k within 5s", True),
        ("[A as x] ; [B where v == x.v]", False),
        ("[A] ; ~[B]* [B]", False),
        ("[A]+ [B]", False),
        ("[A] | [B]", False),
        ("[A <= any] ; [B]", False),
        ("([A], [T]) @ T = 1s", False),
    ],
)
def test_only_chains_of_steps_share_states(text: str, shares: bool) -> None:
    assert (chain_of(compile_pattern(text).automaton) is not None) == shares


VALUES = (1, 1.0, True, 0, 0.0, -0.0, False, None, "1", "a", 2.5, 2**53 + 1, float(2**53), -(2**63), -(2.0**63), 1e300)


@pytest.mark.parametrize(
    "text",
    [
        "[A as x] ; [B where k == x.k]",
        "[A as x] [B where x.k == k and v > 1]",
        "[A as x] ; [{B, C} where k == x.k]",
        "[A as x] ; [B where k == x.k as y] ; [C where k == y.k or v == 1 <= C where k == y.k]",
        "[A as x] ; [B where k == x.k <= {B where k == x.k, C where k == x.k}]+ ; [A where k == x.k]",
        "[A as x] ; ([B where k == x.k], [Z]) @ Z = 40ns",
    ],
)
def test_instances_are_found_by_a_value_of_an_event_before(text: str) -> None:
    """Whatever kinds of values are equal to the language are one value to the index, and null is equal to null."""
    random = Random(5)
    pattern = compile_pattern(text)
    events = [
        Event(random.choice("AABBC"), at, at, "s", at, {"k": random.choice(VALUES), "v": at % 3}) for at in range(400)
    ]
    engine, other = ColumnarEngine([pattern]), StepwiseEngine([pattern])
    half = engine.feed(events[:200])
    handed_over = ColumnarEngine([pattern])
    handed_over.go_on_from(engine.stepwise())
    found = [*half, *handed_over.feed(events[200:]), *handed_over.finish()]
    assert comparable(found) == comparable([*other.feed(events), *other.finish()])
    assert len(found) > 20


def test_event_visits_only_instances_it_may_concern() -> None:
    pattern = compile_pattern("[A as x] ; [B where k == x.k]")
    loop = Loop([pattern.automaton])
    starts = [Event("A", at, at, "s", at, {"k": at}) for at in range(1000)]
    ends = [Event("B", at, at, "s", at, {"k": at % 1000}) for at in range(1000, 2000)]
    assert len(loop.feed(Batch.of_events([*starts, *ends]))) == 1000
    assert loop.touched == 2000


def test_touched_and_live_instances_are_counted_by_pattern() -> None:
    texts = [
        "[A where v == 1] ; [B where v == 0 <= B]",
        "[A where v == 1] ; [B where v == 1 <= B]",
        "[A] ; [B] by k",
        "[A as x] ; [B where k == x.k]",
    ]
    patterns = [compile_pattern(text) for text in texts]
    loop = Loop(each.automaton for each in patterns)
    units = list(loop.assembler.units.values())
    engines = [StepwiseEngine([each]) for each in patterns]
    events = [Event("AB"[at % 5 == 4], at, at, "s", at, {"v": at % 2, "k": 1}) for at in range(40)]
    loop.feed(Batch.of_events(events))
    for engine in engines:
        engine.feed(events)
    live = loop.live_by_unit()
    assert [live.get(unit.number, 0) for unit in units] == [engine.live_instances() for engine in engines]
    # The first two share a state, so what one touches the other touches. Starts are looked up by value.
    first, second, *others = (loop.touched_by(unit) for unit in units)
    assert first == second == 16 + 16
    assert others == [engine.touched for engine in engines[2:]]
    added = loop.add(patterns[0].automaton, apart=True)
    loop.remove(units[0].number)
    assert loop.touched_by(added) == 0
    loop.feed(Batch.of_events([Event("A", 50, 50, "s", 50, {"v": 1})]))
    assert loop.touched_by(added) == 1


def _chosen(number: int) -> Compiled:
    return compile_pattern(f"[A where v == {number}] ; [B where k == {number} <= B] within {number + 1}s by k")


def _published(number: int) -> Compiled:
    return compile_pattern(f"[A where v == {number}] -> Out{number}")


def _read(number: int) -> Compiled:
    return compile_pattern(f"[Out{number}] ; [B where v == {number}]")


def _split(number: int) -> Compiled:
    return compile_pattern(f"[C] ; ([A where v == {number}] ; [B] by v by k)")


def _operations(function: Callable[[], object]) -> int:
    """Number of calls, of functions in C too."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("makers", [(_chosen,), (_published,), (_published, _read), (_split,)])
@pytest.mark.parametrize("engine", [ColumnarEngine, StepwiseEngine])
def test_making_an_engine_grows_with_the_number_of_patterns_only(
    makers: Sequence[Callable[[int], Compiled]], engine: type[ColumnarEngine | StepwiseEngine]
) -> None:
    patterns = [make(number) for number in range(80) for make in makers]
    # Automata are built, and functions compiled, at their first use.
    engine(patterns)
    few, many = (_operations(lambda count=count: engine(patterns[: count * len(makers)])) for count in (20, 80))
    assert many < 4.5 * few


def test_adding_and_removing_cost_the_same_however_many_patterns_there_are() -> None:
    patterns = [_chosen(number) for number in range(40)]
    others = [*map(_chosen, range(40, 140)), *map(_published, range(40, 140))]
    costs = []
    for copies in (1, 20):
        loop = Loop(each.automaton for each in others * copies)
        # The types are known, and the lists of what waits for them are written.
        loop.feed(Batch.of_events(some_events(Random(1), 1, 20)))
        numbers: list[int] = []
        added = _operations(
            lambda loop=loop, numbers=numbers: numbers.extend(loop.add(each.automaton).number for each in patterns)
        )
        removed = _operations(lambda loop=loop, numbers=numbers: [loop.remove(number) for number in numbers])
        costs.append((added, removed))
    (added, removed), (added_to_many, removed_from_many) = costs
    assert added_to_many < 1.1 * added
    assert removed_from_many < 1.1 * removed

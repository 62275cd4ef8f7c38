"""Stages by column hold to those of the stepwise engine, value by value and bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.columnar.program import stages as stages_by_column
from distced.detectors.columnar.program.stages import ColumnStages, are_columnar
from distced.detectors.columnar.python_calls import Callback
from distced.detectors.compiler import compile_file
from distced.detectors.language.computed import Computation
from distced.detectors.language.derived import Sliding, Throttling
from distced.detectors.language.parser import parse_expression
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.detectors.stepwise.throttling import Computer, mark, stage_of
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.sets.expressions import TRUE, Literal, Name

FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "distinct")
GREATEST = 2**63 - 1
EDGES: tuple[Attribute, ...] = (
    *(0, 1, -1, GREATEST, -(2**63), 2**53, 2**53 + 1, -(2**53) - 1, 2**62),
    *(0.0, -0.0, 1.0, 0.1, -0.1, inf, -inf, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308),
    *(-1.7976931348623157e308, 2.0**53, 2.0**63, -(2.0**63), nextafter(1.0, 2.0), 2.0**-1022 * 0.75, 1e22, 1e-320),
    *(None, True, False, "x", "y", ""),
)


def exact(value: Attribute) -> object:
    """A value with its kind and its bits."""
    return (type(value), pack("<d", value) if isinstance(value, float) else value)


def held(
    throttlings: Sequence[Throttling],
    events: Sequence[Event],
    random: Random,
    computations: Sequence[Computation] = (),
    *,
    moves: bool = True,
) -> ColumnStages:
    """Hold stages by column to those of the stepwise engine, over batches of any size, with moves to the other engine
    and back between them; the stages by column at the end."""
    stages, computers = list(map(stage_of, throttlings)), list(map(Computer, computations))
    columns = ColumnStages(throttlings, computations, Callback)
    marks = [each.mark for each in (*computations, *throttlings)]
    at = 0
    while at < len(events):
        some = events[at : at + random.choice((1, 2, 5, 40, 400))]
        at += len(some)
        if moves and random.random() < 0.3:
            others = list(map(stage_of, throttlings))
            columns.hand_over(others)
            columns = ColumnStages(throttlings, computations, Callback)
            columns.take_over(others)
        batch = columns.marked(Batch.of_events(some))
        for place, event in enumerate(some):
            expected, found = mark(stages, event, computers), batch.event(place)
            for each in marks:
                wanted, given = expected.attributes.get(each), found.attributes.get(each)
                assert exact(wanted) == exact(given), (each, event, wanted, given)
    return columns


def sliding(function: str, length: int, by: tuple[str, ...] = ("k",), **other: Any) -> Throttling:
    argument = other.get("argument", Name("v"))
    return Throttling(
        f"sliding {function}", "A", other.get("condition", TRUE), 0, by, sliding=Sliding(function, argument, length)
    )


def made(values: Sequence[Attribute], random: Random, keys: Sequence[Attribute] = (1,), step: int = 3) -> list[Event]:
    """Events of type A, some of B, with these values, at instants that rise."""
    found, hi = [], -20
    for number, value in enumerate(values):
        hi += random.randrange(step)
        attributes = {"v": value, "k": random.choice(keys), "l": random.choice(keys)}
        found.append(
            Event("B" if random.random() < 0.1 else "A", hi - random.randrange(2), hi, "s", number, attributes)
        )
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=60)
@given(st.data())
def test_aggregates_of_any_values(function: str, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32))
    random = Random(seed)
    kinds = st.one_of(st.sampled_from(EDGES), st.floats(allow_nan=False), st.integers(-(2**63), GREATEST))
    values = data.draw(st.lists(kinds, min_size=1, max_size=80))
    events = made(values, random, random.choice(((1,), (1, 1.0, True, "1"), (None, 2, 2.5, "x"))))
    held([sliding(function, random.choice((0, 1, 5, 30)), random.choice(((), ("k",), ("k", "l"))))], events, random)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("magnitude", [0, 30, 300])
def test_aggregates_of_many_values(function: str, magnitude: int) -> None:
    random = Random(magnitude)
    values = [
        random.choice((1, -1)) * random.random() * 10.0 ** random.randint(-magnitude, magnitude) for _ in range(4000)
    ]
    held([sliding(function, 300)], made(values, random, range(50)), random)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_aggregates_of_many_keys_and_edges(function: str) -> None:
    random = Random(7)
    values = [random.choice(EDGES) for _ in range(6000)]
    keys = [*EDGES, *range(300), *map(str, range(100))]
    held([sliding(function, 500), sliding(function, 90, ("k", "l"))][:1], made(values, random, keys), random)
    held([sliding(function, 90, ("k", "l"))], made(values, random, keys), random)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_aggregates_of_integers_beyond_64_bits(function: str) -> None:
    random = Random(9)
    values = [random.choice((GREATEST, -(2**63), GREATEST - 1, 1, -1, 0)) for _ in range(3000)]
    held([sliding(function, 40, ())], made(values, random), random)


def test_sums_that_cancel_and_round_half_to_even() -> None:
    random = Random(3)
    halves = [2.0**53, 1.0, -1.0, 0.5, -0.5, 2.0**-30, 2.0**54, -(2.0**53), 5e-324, -5e-324, 2.0**1023, -(2.0**1023)]
    values = [random.choice(halves) for _ in range(5000)]
    for function in ("sum", "avg"):
        for length in (1, 3, 6, 100):
            held([sliding(function, length, ())], made(values, random), random)


def test_means_of_the_least_floats() -> None:
    random = Random(5)
    values = [random.randrange(-8, 9) * 5e-324 for _ in range(4000)]
    held([sliding("avg", 9, ())], made(values, random), random)
    values = [random.choice((1, -1)) * random.random() * 2.0**-1020 for _ in range(4000)]
    held([sliding("avg", 9, ())], made(values, random), random)


def test_conditions_and_calculated_values() -> None:
    random = Random(11)
    values = [random.choice((*EDGES, *range(20))) for _ in range(3000)]
    condition = parse_expression("v > -5 and k != 3")
    for argument in ("v * 3", "v / 0", "if(v > 2, v, null)", "length(v)", "hi() - lo()", "v + 'z'", "1", "lower(k)"):
        for function in FUNCTIONS:
            held(
                [sliding(function, 50, condition=condition, argument=parse_expression(argument))],
                made(values, random, range(6)),
                random,
            )


def test_windows_at_the_ends_of_time() -> None:
    random = Random(13)
    instants = [-(2**63), -(2**63) + 1, -(2**63) + 9, 0, GREATEST - 9, GREATEST]
    events = [Event("A", hi, hi, "s", number, {"v": number, "k": 1}) for number, hi in enumerate(instants)]
    for length in (1, 8, GREATEST):
        held([sliding(each, length) for each in FUNCTIONS], events, random)
        held([Throttling("t", "A", TRUE, 0, ("k",), length)], events, random)
    held([Throttling("t", "A", TRUE, 7, ("k",))], events, random)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_throttled_types(seed: int) -> None:
    random = Random(seed)
    every, quiet = random.choice(((5, 0), (0, 5), (1, 0), (0, 1)))
    by = random.choice(((), ("k",), ("k", "l")))
    values = [random.choice(EDGES) for _ in range(300)]
    condition = random.choice((TRUE, parse_expression("v != 1")))
    held([Throttling("t", "A", condition, every, by, quiet)], made(values, random, EDGES), random)


def test_throttled_types_of_many_keys() -> None:
    random = Random(17)
    for every, quiet in ((3000, 0), (0, 3000)):
        events = made([None] * 20_000, random, range(9000))
        held([Throttling("t", "A", TRUE, every, ("k",), quiet)], events, random)


def test_stages_that_build_on_others() -> None:
    random = Random(19)
    computation = Computation(
        mark="half", name="half", values=(("A", parse_expression("floor(v / 2)")), ("B", Literal(None)))
    )
    throttlings = [
        Throttling("thin", "A", parse_expression("v > 1"), 3, ("half",)),
        Throttling("n", "A", Name("thin"), 0, ("half",), sliding=Sliding("count", Name("v"), 20)),
        Throttling("more", "A", parse_expression("v > 1"), 0, (), sliding=Sliding("sum", Name("n"), 9)),
    ]
    events = made([random.randrange(9) for _ in range(3000)], random, range(4))
    held(throttlings, events, random, [computation])


def test_memory_is_bounded_by_the_window() -> None:
    columns = ColumnStages([sliding(each, 100) for each in FUNCTIONS], (), Callback)
    sizes = set()
    for begin in range(0, 60_000, 1000):
        events = [Event("A", hi, hi, "s", hi, {"v": hi, "k": hi // 3}) for hi in range(begin, begin + 1000)]
        columns.marked(Batch.of_events(events))
        sizes.add(columns.memory())
    assert len(sizes) == 1


def test_texts_that_no_stage_holds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages_by_column, "TEXTS", 50)
    random = Random(23)
    texts = [*map(str, range(3000))]
    condition = parse_expression("v != '7'")
    for function in FUNCTIONS:
        throttlings = [
            sliding(function, 60, ("k", "l"), condition=condition),
            Throttling("t", "A", condition, 9, ("k",)),
        ]
        columns = held(throttlings, made(texts, random, (*texts[:40], 1)), random, moves=False)
        # Those of the code, of what stages hold, of as many more, and of one batch.
        assert len(columns.texts.texts) < 1000
    first = sliding("first", 60, ())
    columns = ColumnStages([first], (), Callback)
    sizes = []
    for begin in range(0, 10_000, 100):
        columns.marked(
            Batch.of_events([Event("A", hi, hi, "s", hi, {"v": f"{hi:09}"}) for hi in range(begin, begin + 100)])
        )
        sizes.append(columns.memory())
    assert max(sizes[50:]) == max(sizes[:50])


def test_states_are_kept_event_by_event() -> None:
    (pattern,) = compile_file("type S = last A by k\n[B where v > last(S.v, k)]")
    assert not are_columnar(pattern.throttlings, pattern.computations)
    assert ColumnarEngine([pattern]).stages is None


# The engines around the stages.

TEXT = """type W = A where v != 7 with (n = count() over 20ns, mean = avg(v) over 20ns, low = min(v) over 30ns) by k
type T = A every 10ns by k
{} -> Out(k = w.k, n = w.n, mean = w.mean, low = w.low)"""
PATTERNS = (
    "[W as w where v > mean]",
    "[W as w where n > 2] ; [B] by k",
    "([W as w where v >= mean] ; [B]) & [T]",
    "([T], [X]) @ X = 5ns ; [W as w]",
)


@pytest.mark.parametrize("text", PATTERNS)
@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_late_events_and_changes_of_engine(text: str, seed: int) -> None:
    random = Random(seed)
    (pattern,) = compile_file(TEXT.format(text))
    values = (0, 1, 2.5, 7, None, -3, inf, "x")
    events = made([random.choice(values) for _ in range(60)], random, (1, 2, None))
    for _ in range(random.choice((0, 0, 3))):
        # Late, by best effort.
        place = random.randrange(len(events) - 1)
        events.insert(random.randrange(place, len(events)), events.pop(place))
    reference, engine = StepwiseEngine([pattern]), ColumnarEngine([pattern])
    expected: list[object] = []
    found: list[object] = []
    at = 0
    while at < len(events):
        some = events[at : at + random.choice((1, 3, 20))]
        at += len(some)
        expected += map(seen, reference.feed(some))
        found += map(seen, engine.feed(some))
        if random.random() < 0.3:
            watermark = some[-1].hi - random.randrange(4)
            expected += map(seen, reference.advance(watermark))
            found += map(seen, engine.advance(watermark))
        match random.randrange(6):
            case 0:
                content = snapshot(engine.stepwise())
                other = StepwiseEngine([pattern])
                restore(other, content)
                engine = ColumnarEngine([pattern])
                engine.go_on_from(other)
            case 1:
                content = snapshot(reference)
                reference = StepwiseEngine([pattern])
                restore(reference, content)
            case _:
                pass
    expected += map(seen, reference.finish())
    found += map(seen, engine.finish())
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def seen(event: CompositeEvent) -> object:
    values = tuple((name, exact(value)) for name, value in sorted(event.attributes.items()))
    return event.lo, event.hi, event.constituents, values, tuple(sorted(each.attributes) for each in event.events)


def test_a_columnar_engine_runs_windows_by_column() -> None:
    patterns = compile_file(TEXT.format(PATTERNS[0]))
    engine = ColumnarEngine(patterns)
    assert engine.stages is not None and not engine.throttlers

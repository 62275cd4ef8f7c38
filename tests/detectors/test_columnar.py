"""The columnar engine: every case in batches of any size, state from one engine to the other, batches of columns."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

import pytest

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch, Column
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.columnar.program.units import supports
from distced.detectors.columnar.results import store
from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.conformance.case_runner import run_case
from distced.detectors.conformance.cases import Case, load_cases
from distced.detectors.runtime.engines import Kinds
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from tests.support.bounds_checked import BoundsChecked
from tests.support.columnar_engine import differences
from tests.support.event_streams import comparable

ROOT = Path(__file__).parents[2]
CASES = [case for file in sorted((ROOT / "tests/conformance").glob("*.toml")) for case in load_cases(file)]
RUN = [case for case in CASES if not case.error]


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_conformance_cases_hold_in_batches_of_any_size(case: Case, size: int) -> None:
    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        engine = ColumnarEngine(patterns, kinds)
        found = []
        for start in range(0, len(events), size):
            found += engine.feed(events[start : start + size])
        return found + engine.finish()

    outcome = run_case(case, run=run)
    assert outcome.passed, outcome.report()


@pytest.mark.parametrize("case", RUN, ids=by_name)
def test_conformance_cases_hold_with_a_handover_after_every_event(case: Case) -> None:
    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        engine: ColumnarEngine | StepwiseEngine = ColumnarEngine(patterns, kinds)
        found = []
        for event in events:
            found += engine.feed([event])
            if isinstance(engine, ColumnarEngine):
                content = snapshot(engine.stepwise())
                engine = StepwiseEngine(patterns, kinds)
                restore(engine, content)
            else:
                before, engine = engine, ColumnarEngine(patterns, kinds)
                engine.go_on_from(before)
        return found + engine.finish()

    outcome = run_case(case, run=run)
    assert outcome.passed, outcome.report()


def test_most_of_the_language_is_run_by_the_loop() -> None:
    patterns = [
        compile_pattern(case.pattern, definitions=case.let) for case in RUN if not case.types and not case.derive
    ]
    assert sum(supports(each.automaton) for each in patterns) > 0.7 * len(patterns)


@pytest.mark.slow
def test_engines_agree_on_random_patterns_and_streams() -> None:
    """A share of what `make properties` runs at length."""
    compared = sum(differences(seed) for seed in range(250))
    assert compared > 115


def test_matches_are_positions_until_events_are_asked_for() -> None:
    engine = ColumnarEngine([compile_pattern("[A as x] ; [B where k == x.k] -> Pair(k = x.k)")])
    types = np.array([0, 1, 0, 1], np.int32)
    attributes = {"k": np.array([1, 2, 2, 2])}
    matches = engine.feed_batch(Batch.of_arrays(types, ["A", "B"], np.array([1, 2, 3, 4]), attributes))
    assert len(matches) == 1
    assert matches.constituents(0).tolist() == [2, 3]
    assert (matches.lo.tolist(), matches.hi.tolist(), matches.units.tolist()) == ([3], [4], [0])
    (pair,) = matches.events()
    assert (pair.type, pair.attributes, [each.seq for each in pair.events]) == ("Pair", {"k": 2}, [2, 3])


@pytest.mark.slow
def test_unreferenced_events_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long stream leaves no more behind than what is alive, and finds what the stepwise engine finds."""
    monkeypatch.setattr(store, "LEAST", 64)
    random = Random(3)
    text = "([A as x], [B where k == x.k] | [T]) @ T = 30ns ; [C where v > x.v] within 100ns by k"
    engine, other = ColumnarEngine([compile_pattern(text)]), StepwiseEngine([compile_pattern(text)])
    assert engine.loop is not None
    engine.loop.state.counters[word_offsets.C_CROWD] = 64
    found, expected = [], []
    for start in range(0, 10_000, 50):
        events = [
            Event(random.choice("ABCD"), at, at, "s", at, {"k": random.randrange(5), "v": random.randrange(9)})
            for at in range(start, start + 50)
        ]
        found += engine.feed(events)
        expected += other.feed(events)
    assert comparable(found) == comparable(expected)
    assert len(found) > 500
    counters = engine.loop.state.counters
    assert max(counters[word_offsets.C_ROWS], counters[word_offsets.C_LINKS], counters[word_offsets.C_TIMES]) < 2000
    assert engine.loop.store.held < 2000


def test_columns_hold_every_kind() -> None:
    text = "[A as x] ; [B where v == x.v] -> Same(v = x.v)"
    values = [1, 1.0, True, "1", None, 2**62, 0.5, "", float("inf"), -(2**63)]
    events = [Event("A", i, i, "s", i, {"v": value}) for i, value in enumerate(values)]
    events += [Event("B", 100 + i, 100 + i, "s", 100 + i, {"v": value}) for i, value in enumerate(values)]
    found = ColumnarEngine([compile_pattern(text)]).feed(events)
    assert comparable(found) == comparable(StepwiseEngine([compile_pattern(text)]).feed(events))
    assert len(found) == len(values)


def test_arrays_become_columns() -> None:
    column = Column.of(np.array([0.5, np.nan, 2.0]))
    assert column.values() == [0.5, None, 2.0]
    assert Column.of(np.array([True, False])).values() == [True, False]
    assert Column.coded(np.array([1, -1, 0]), ["a", "b"]).values() == ["b", None, "a"]
    with pytest.raises(EventError, match="beyond 64 bits"):
        Column.of(np.array([2**63], np.uint64))
    with pytest.raises(EventError, match="not an attribute's value"):
        Column.of(np.array(["2026-11-21"], "datetime64[s]"))
    with pytest.raises(EventError, match="different lengths"):
        Batch.of_arrays(np.zeros(2, np.int32), ["A"], np.arange(2), {"k": np.arange(3)})
    with pytest.raises(EventError, match="a type with two numbers"):
        Batch.of_arrays(np.zeros(2, np.int32), ["B", "A", "A"], np.arange(2), {})


@pytest.mark.parametrize(
    "guard",
    [
        "v + x.v > 9223372036854775807",
        "v * x.v == 4611686018427387904.0",
        "v / x.v >= 0.5",
        "v % x.v == 1",
        "-v < x.v",
        "v / 0 == 1 or v == x.v",
        "v == x.v + 0.0",
        "max(v, x.v, 3) == 3",
        "upper(name) == x.name",
        "name < x.name",
        "name + x.name == 'ab'",
        "coalesce(w, v) == x.v",
        "not (v == x.v) and not flag",
        "flag == x.flag or flag > x.flag",
        "hi(x) - lo() < -2",
        "abs(v - x.v) <= 1 and round(0.5 * v) == 2",
        "if(v > x.v, v, x.v) == 2",
        "if(flag, name, x.name) == if(not x.flag, 'a', upper(name))",
        "if(if(v == 1, flag, x.flag), v < 2, name == 'a' or name == x.name)",
        "if(flag or v < 1, if(x.flag, 1, 2), 3) <= if(x.v in (0, 1, true), 1, 2)",
        "v in (1, x.v, 0.5) and name in ('a', 'b') or not v in (1, null, true)",
        "(v in (1, 2.0)) == (name in ('A', null))",
        "hour(hi() * 1h) > 2 and minute(hi(x) * 7min, 'Asia/Kolkata') < 45",
        "hour(hi() * 397h, 'Europe/London') > 11 and weekday(lo(x) * 5000h, 'Asia/Tokyo') < 5",
        "minute((0 - v) * 7min, 'Africa/Monrovia') < 45 or hour(v * 1e18, 'Europe/London') == 1",
        "hour(v / 3 * 100h) < 12 or weekday((name)) == null or hour((flag)) == minute(x.name)",
        "weekday(v * 1d) == weekday((v)) or date(x, 'Asia/Tokyo') == '1970-01-02'",
    ],
)
def test_conditions_agree_with_the_stepwise_engine(guard: str) -> None:
    random = Random(guard)
    values = [0, 1, 2, 3, -1, 0.5, 2.0, 2**53, 2**53 + 1, 2**62, INSTANT_MAX, INSTANT_MIN, 1e300, None, True, "b"]
    names = ["a", "A", "b", "", None, 3]
    events = [
        Event(
            random.choice("AB"),
            at,
            at,
            "s",
            at,
            {"v": random.choice(values), "name": random.choice(names), "flag": random.choice((True, False, None))},
        )
        for at in range(400)
    ]
    pattern = compile_pattern(f"[A as x] ; ~[B <= B]* [B where {guard} as y <= B] within 60ns -> Out(sum = x.v + y.v)")
    expected = StepwiseEngine([pattern]).feed(events)
    engine = ColumnarEngine([pattern])
    assert engine.loop is not None
    assert comparable(engine.feed(events)) == comparable(expected)


def test_error_of_a_python_call_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ColumnarEngine([compile_pattern("[A where upper(name) == 'X']")])
    monkeypatch.setattr("distced.detectors.columnar.python_calls.FUNCTION_NAMES", ())
    with pytest.raises(IndexError):
        engine.feed([Event("A", 1, 1, "s", 1, {"name": "x"})])


@pytest.mark.slow
def test_loop_stays_within_array_bounds(bounds_checked: BoundsChecked) -> None:
    """The loop compiled with numba's checks, in a process of its own: nothing is read or written beyond an array."""
    assert bounds_checked.total("differences(seed)", range(3000, 3060)) > 20


def test_stepwise_engine_does_not_import_numba() -> None:
    script = (
        "import sys, distced.detectors.batch_run.runner, distced.detectors.runtime.engines\n"
        "print('numba' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_example_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/explanation/engines.md").read_text(encoding="utf-8"), re.DOTALL
    )
    exec(compile(code, "docs/explanation/engines.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == re.findall(r"# (2 \[.*\])", code)[0]


# What a review found, each kept.


def _alike(texts: Sequence[str], batches: Sequence[Sequence[Event]]) -> int:
    """Hold one engine to the other on these batches; how much was found."""
    patterns = [compile_pattern(text) for text in texts]
    stepwise, columnar = StepwiseEngine(patterns), ColumnarEngine(patterns)
    expected = [each for batch in batches for each in stepwise.feed(batch)] + stepwise.finish()
    found = [each for batch in batches for each in columnar.feed(batch)] + columnar.finish()
    assert comparable(found) == comparable(expected), texts
    return len(found)


def _row(types: str) -> list[Event]:
    return [Event(name, at, at, "s", at, {}) for at, name in enumerate(types)]


@pytest.mark.parametrize("text", ["[X] [any - A]* [any - B]", "[X] [any - A]{0,1} [any - B]", "[X] ([any - A]* [B])"])
def test_event_outside_one_domain_reaches_another(text: str) -> None:
    assert _alike([text], [_row("XCABCA")])


def test_shared_states_read_types_of_some_patterns_only() -> None:
    assert _alike(["[X] [A <= {A, B}]", "[X] [B <= {A, B}]"], [_row("XAXBXA")]) == 3
    texts = [f"[X] [{name} <= {{A, B, C}}]" for name in "ABC"]
    assert _alike([*texts, "[X] [A <= {A, B, C}] [B]"], [_row("XAXBXCXAB")]) >= 4


def test_batch_may_bring_many_new_types() -> None:
    events = [Event(f"T{number}", number, number, "s", number, {}) for number in range(80)]
    assert _alike(["[any]"], [events]) == 80


def test_repeated_late_event_is_handled() -> None:
    first, second, last = _row("AAB")
    assert _alike(["[A] ; [B]"], [[first, second], [first], [last]]) == 2


def test_the_least_integer_is_equal_to_its_float() -> None:
    events = [Event("A", 1, 1, "s", 1, {"k": INSTANT_MIN}), Event("B", 2, 2, "s", 2, {"k": float(INSTANT_MIN)})]
    assert _alike(["[A] ; [B] by k"], [events]) == 1
    assert _alike(["[A where k == -9223372036854775808.0]"], [events]) == 1


def test_empty_engine_consumes_nothing() -> None:
    assert _alike(["[A] & [B]", "[A] ; [B]"], [[], _row("AB"), []]) == 2


def test_marks_of_throttled_types_stay_inside_across_a_hand_over() -> None:
    compiled = compile_file("type Seen = A every 10ns\n[Seen] & [B] -> X()\n[A] ; [C] -> Y()")
    events = [Event("A", 5, 5, "s", 0, {"k": 1}), Event("B", 6, 6, "s", 1, {}), Event("C", 7, 7, "s", 2, {})]
    engine = ColumnarEngine(compiled)
    found = engine.feed(events[:1])
    other = ColumnarEngine(compiled)
    other.go_on_from(engine.stepwise())
    found += other.feed(events[1:]) + other.finish()
    assert {each.type: each.events[0].attributes for each in found} == {"X": {"k": 1}, "Y": {"k": 1}}


def test_peak_of_instances_does_not_slow_later_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST", 64)
    engine = ColumnarEngine([compile_pattern("[A] ; [B] within 10ns")])
    assert engine.loop is not None
    engine.loop.state.counters[word_offsets.C_CROWD] = 64
    engine.feed([Event("A", 0, 0, "s", number, {}) for number in range(1000)])
    engine.feed([Event("B", 50, 50, "s", 1000, {})])
    assert engine.live_instances() == 0
    engine.loop.state.counters[word_offsets.C_CROWD] = 64
    calls: list[int] = []
    monkeypatch.setattr(
        "distced.detectors.columnar.loop.collect", lambda *given: (calls.append(1), store.collect(*given))
    )
    for at in range(100, 160):
        engine.feed([Event("C", at, at, "s", at + 1000, {})])
    assert len(calls) == 1


def test_ids_that_cannot_come_again_are_forgotten() -> None:
    engine = ColumnarEngine([compile_pattern("[A] ; ~[B]* ~[B] within 10ns")])
    assert engine.loop is not None
    for start in range(0, 30_000, 1000):
        engine.feed([Event("AB"[at % 2], at, at, "s", at, {}) for at in range(start, start + 1000)])
    assert len(engine.loop.composites[engine.loop.assembler.units[0]].reported) < 10_000


def test_events_may_be_asked_for_twice() -> None:
    engine = ColumnarEngine([compile_pattern("[A] ; ~[B]* ~[B]")])
    matches = engine.feed_batch(Batch.of_events(_row("ABB")))
    assert len(matches.events()) == 1
    assert matches.events() == matches.events()


def test_invalid_batches_are_refused_and_change_nothing() -> None:
    def batch(types: Sequence[int], hi: Sequence[int], lo: Sequence[int] | None = None) -> Batch:
        begins = None if lo is None else np.array(lo)
        return Batch.of_arrays(np.array(types), ["A", "B"], np.array(hi), {}, lo=begins)

    with pytest.raises(EventError, match="without a name"):
        batch([0, 2], [1, 2])
    with pytest.raises(EventError, match="without a name"):
        batch([-1], [1])
    with pytest.raises(EventError, match="lo > hi"):
        batch([0], [1], [2])
    with pytest.raises(EventError, match="behind the one before"):
        batch([0, 1], [2, 1])
    engine = ColumnarEngine([compile_pattern("[A] ; [B]")])
    engine.feed_batch(batch([0], [5]))
    with pytest.raises(EventError, match="behind what was consumed"):
        engine.feed_batch(batch([1], [4]))
    assert len(engine.feed_batch(batch([], []))) == 0
    assert len(engine.feed_batch(batch([1], [6]))) == 1


def test_overdue_time_events_complete_matches_late() -> None:
    """Late events set off a time event that is due already: what a side finds by it is late for whoever reads it."""
    text = "([C as y], [T, B]) @ T = 4ns & ([C where v != 1], ~[U <= U]) @ U = at 1970-01-01T00:00:00.000000003Z"
    pattern = compile_pattern(text)
    kept = Event("C", 0, 0, "s", 6, {"v": 2})
    late = [("C", 0, 1, 2, 1), ("C", 1, 1, 3, 2), ("B", 2, 2, 1, 0), ("C", 2, 2, 7, 1)]
    events = [Event(name, lo, hi, "s", number, {"v": value}) for name, lo, hi, number, value in late]
    outcomes = []
    for engine in (StepwiseEngine([pattern]), ColumnarEngine([pattern])):
        found = [*engine.feed([kept]), *engine.advance(16), *engine.feed(events)]
        outcomes.append(comparable([*found, *engine.advance(4), *engine.finish()]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]


@pytest.mark.parametrize(
    "text",
    [
        "[X] ; ([A] ; [B] by k)",
        "[X] ; ([A] ; [B] by (k, v)) within 40ns",
        "([A] ; [B] by k) ; [X]",
        "[X] ; ([A as x] [B where v > x.v <= {A, B}] by k) | [X] ; [C]",
        "[X] ; (([A], [T]) @ T = 7ns by k)",
        "[X] ; ([A] ; [B] by k){1,2} within 9ns",
    ],
)
@pytest.mark.parametrize("consumption", ["ordered", "epoch"])
def test_inner_keys_are_run_by_the_loop(text: str, consumption: Literal["ordered", "epoch"]) -> None:
    """Each value of the key goes its own way, whatever kinds of values are equal, and across a hand-over."""
    random = Random(9)
    pattern = compile_pattern(text, consumption=consumption)
    assert supports(pattern.automaton)
    values = (1, 1.0, True, 2, None, "a")
    events = [
        Event(random.choice("XAABBC"), at // 2, at // 2, "s", at, {"k": random.choice(values), "v": at % 3})
        for at in range(240)
    ]
    engine, other = ColumnarEngine([pattern]), StepwiseEngine([pattern])
    found = engine.feed(events[:121])
    handed_over = ColumnarEngine([pattern])
    handed_over.go_on_from(engine.stepwise())
    found += [*handed_over.feed(events[121:]), *handed_over.finish()]
    assert comparable(found) == comparable([*other.feed(events), *other.finish()])
    assert len(found) > 5


@pytest.mark.slow
def test_values_of_inner_keys_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST", 64)
    pattern = compile_pattern("[X] ; ([A] ; [B] by k) within 60ns")
    engine, other = ColumnarEngine([pattern]), StepwiseEngine([pattern])
    assert engine.loop is not None
    engine.loop.state.counters[word_offsets.C_CROWD] = 64
    random, found, expected = Random(4), [], []
    for start in range(0, 10_000, 50):
        events = [
            Event(random.choice("XAABC"), at, at, "s", at, {"k": random.randrange(30)})
            for at in range(start, start + 50)
        ]
        found += engine.feed(events)
        expected += other.feed(events)
    assert comparable(found) == comparable(expected)
    assert len(found) > 250
    assert len(engine.loop.state.spent) < 2000


def test_events_without_matches_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LEAST", 64)
    engine = ColumnarEngine([compile_pattern("[Z] ; [A]")])
    assert engine.loop is not None
    engine.loop.state.counters[word_offsets.C_CROWD] = 64
    for start in range(0, 10_000, 50):
        engine.feed([Event("A", at, at, "s", at, {}) for at in range(start, start + 50)])
    assert engine.loop.store.held < 1000


@pytest.mark.parametrize(
    "values",
    [[1, 2], [1.5, -0.0], ["a", "b", "a"], [True, False], [1, None], [None, 2.5], [None, "x"], [None, True], [None]],
)
def test_values_become_columns(values: list[int | float | str | None]) -> None:
    """Those of one kind are made at once, and are what they were, kinds included."""
    column = Column.of(values)
    assert list(map(repr, column.values())) == list(map(repr, values))
    mixed = Column.of([*values, 1, "y", 0.5, None, True])
    assert list(map(repr, mixed.values())) == [*map(repr, values), "1", "'y'", "0.5", "None", "True"]


def test_integers_beyond_64_bits_are_refused() -> None:
    for values in ([1, 2**63], [None, -(2**63) - 1]):
        with pytest.raises(EventError, match="beyond 64 bits"):
            Column.of(values)

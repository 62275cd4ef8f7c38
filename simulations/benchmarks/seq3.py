"""`distced bench seq3`: A, then B, then C with the same key within five seconds.

Event i happens at i ms; type, key and value come from `random.Random(7)`. Two questions: the first B and C after each
A, and every one of them. The implementations alternate, and the best round of each counts: Python written by hand, the
stepwise engine, and over columns the columnar engine, a loop that numba compiles for this pattern alone, DuckDB's
self-join, and a bare pass over the columns.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Final

from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.simulations.plots import bars
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

if TYPE_CHECKING:
    from distced.simulations.benchmarks.seq3_compiled import SeqColumns

FIRST: Final = "[A] ; [B] ; [C] within 5s by key"
EVERY: Final = "[A] ; ~[B]* [B] ; ~[C]* [C] within 5s by key"
WINDOW: Final = 5 * SECOND

EXPECTED: Final = {
    (200_000, "first"): 17_746,
    (200_000, "every"): 38_889,
    (1_000_000, "first"): 89_195,
    (1_000_000, "every"): 195_163,
}
"""Number of matches, by number of events and question."""

IN_PYTHON: Final = 1_000_000  # greatest number of events consumed one by one in Python


@dataclass(frozen=True)
class SeqFigure:
    """Rate of one implementation at one question."""

    question: str
    by: str
    events: int
    matches: int | None  # None of a bare pass
    expected: int | None  # None where unknown
    seconds: float  # of the best round
    rate: float
    ratio: float  # of the rate to that of Python written by hand
    starting: float | None = None  # seconds until the first answer, where something is compiled or loaded first


@dataclass(frozen=True)
class _Implementation:
    by: str
    events: int
    answer: Callable[[], int | None]
    starting: float | None = None


def make_rows(count: int) -> Iterator[tuple[int, int, int]]:
    """The input: for each event the number of its type, its key and its value."""
    random = Random(7)
    for _ in range(count):
        yield random.randrange(4), random.randrange(1000), random.randrange(100)


def make_events(count: int) -> list[Event]:
    """The input as events."""
    return [
        Event("ABCD"[kind], at * MILLISECOND, at * MILLISECOND, "bench", at, {"key": key, "value": value})
        for at, (kind, key, value) in enumerate(make_rows(count))
    ]


def measure(count: int, rounds: int = 3, on_progress: OnProgress = no_progress) -> list[SeqFigure]:
    """Answer both questions with every implementation, alternately, and keep the best round of each."""
    on_progress("making events")
    columns = _columns(count)
    events = make_events(min(count, IN_PYTHON))
    gc.collect()
    gc.freeze()
    results: list[SeqFigure] = []
    known = {events for events, _ in EXPECTED}
    for question, text, by_hand in (("first", FIRST, first_by_hand), ("every", EVERY, every_by_hand)):
        implementations = [*_in_python(text, by_hand, events), *_over_columns(question, text, columns)]
        best: dict[str, tuple[float, int | None]] = {}
        for number in range(rounds):
            for implementation in implementations:
                on_progress(f"{question}, {implementation.by}, round {number + 1} of {rounds}")
                began = time.perf_counter()
                matches = implementation.answer()
                seconds = time.perf_counter() - began
                if implementation.by not in best or seconds < best[implementation.by][0]:
                    best[implementation.by] = (seconds, matches)
        basis = implementations[0].events / best[implementations[0].by][0]
        for implementation in implementations:
            seconds, matches = best[implementation.by]
            # Where the number is unknown, the loop written for the pattern gives it.
            expected = EXPECTED.get((implementation.events, question), best.get("compiled by hand", (0.0, None))[1])
            expected = expected if matches is not None and implementation.events in (count, *known) else None
            rate = implementation.events / seconds
            figures = (implementation.events, matches, expected, seconds, rate, rate / basis, implementation.starting)
            results.append(SeqFigure(question, implementation.by, *figures))
    return results


def _columns(count: int) -> SeqColumns | None:
    if find_spec("numba") is None:
        return None
    import numpy as np

    from distced.simulations.benchmarks.seq3_compiled import SeqColumns

    drawn = np.fromiter((word for row in make_rows(count) for word in row), np.int64, 3 * count).reshape(count, 3)
    hi = np.arange(count, dtype=np.int64) * MILLISECOND
    return SeqColumns(drawn[:, 0].astype(np.int32), hi, np.ascontiguousarray(drawn[:, 1]))


def _in_python(text: str, by_hand: Callable[[list[Event]], int], events: list[Event]) -> list[_Implementation]:
    def stepwise() -> int:
        return len(StepwiseEngine([compile_pattern(text)]).feed(events))

    return [
        _Implementation("by hand", len(events), lambda: by_hand(events)),
        _Implementation("stepwise", len(events), stepwise),
    ]


def _over_columns(question: str, text: str, columns: SeqColumns | None) -> list[_Implementation]:
    if columns is None:
        return []
    from distced.simulations.benchmarks import seq3_compiled as compiled

    by_hand = compiled.first_compiled if question == "first" else compiled.every_compiled
    few = columns.first(100)
    began = time.perf_counter()
    compiled.by_engine(few, text)
    engine_ready = time.perf_counter()
    by_hand(few, WINDOW)
    loop_ready = time.perf_counter()
    compiled.by_pass(few)
    count = len(columns)
    implementations = [
        _Implementation("columnar", count, lambda: compiled.by_engine(columns, text), engine_ready - began),
        _Implementation("compiled by hand", count, lambda: by_hand(columns, WINDOW), loop_ready - engine_ready),
    ]
    if question == "every" and compiled.joined(few, WINDOW) is not None:
        some = columns.first(compiled.JOINED)
        implementations.append(_Implementation("DuckDB", len(some), lambda: compiled.joined(some, WINDOW)))
    return [*implementations, _Implementation("a bare pass", count, lambda: compiled.by_pass(columns))]


def first_by_hand(events: list[Event]) -> int:
    """For each A the first B after it, and the first C after that."""
    waiting_b: dict[object, list[int]] = {}
    waiting_c: dict[object, list[int]] = {}
    matches = 0
    for event in events:
        name, now, key = event.type, event.hi, event.attributes["key"]
        if name == "A":
            waiting_b.setdefault(key, []).append(now)
        elif name == "B":
            begun = waiting_b.pop(key, None)
            if begun:
                alive = [start for start in begun if now - start <= WINDOW]
                if alive:
                    waiting_c.setdefault(key, []).extend(alive)
        elif name == "C":
            begun = waiting_c.pop(key, None)
            if begun:
                matches += sum(now - start <= WINDOW for start in begun)
    return matches


def every_by_hand(events: list[Event]) -> int:
    """For each A every B after it, and for each of these pairs every C after that."""
    all_a: dict[object, deque[int]] = {}
    all_b: dict[object, deque[tuple[int, list[int]]]] = {}
    matches = 0
    for event in events:
        name, now, key = event.type, event.hi, event.attributes["key"]
        if name == "A":
            all_a.setdefault(key, deque()).append(now)
        elif name == "B":
            begun = all_a.get(key)
            if begun:
                while begun and now - begun[0] > WINDOW:
                    begun.popleft()
                if begun:
                    all_b.setdefault(key, deque()).append((now, list(begun)))
        elif name == "C":
            pairs = all_b.get(key)
            if pairs:
                while pairs and now - pairs[0][0] > WINDOW:
                    pairs.popleft()
                matches += sum(now - start <= WINDOW for _, starts in pairs for start in starts)
    return matches


def report(figures: Sequence[SeqFigure]) -> Report:
    """The figures as a report; wrong numbers of matches are faults."""
    table = ReportTable.of(
        figures,
        Column("question"),
        Column("by"),
        *number_columns(",", "events", "matches", "expected"),
        Column("rate", "events/s", ",.0f"),
        Column("of by hand", "", ",.1%", "ratio"),
        Column("to start", "s", ".2f", "starting"),
    )
    most = max((each.events for each in figures), default=0)
    rates = [(f"{each.question}, {each.by}", each.rate) for each in figures]
    plot = partial(bars, rates, title=f"seq3, {most:,} events", unit="events/s")
    faults = [
        f"{each.question}, {each.by}: {each.matches} matches, expected {each.expected}"
        for each in figures
        if each.expected not in (None, each.matches)
    ]
    return Report("seq3", figures, [table], [], faults, {"seq3.svg": plot})

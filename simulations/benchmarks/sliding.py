"""`distced bench sliding`: aggregates over sliding windows, and throttled types, on both engines.

Events of one type come every ten milliseconds from a hundred rooms, with a temperature and a grade; a pattern outputs
an aggregate over the last ten minutes of the room beside each temperature above a limit. The baselines are the same
pattern without the aggregate, so that the difference is its cost, and Python written by hand for it, whose sums are
floats that are not exact. All alternate, and the best round of each counts, in processor time. Both engines have to
give the same values, to the last bit.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import isclose
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from distced.detectors.compiler import compile_file
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MILLISECOND, MINUTE
from distced.simulations.plots import bars
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

if TYPE_CHECKING:
    from distced.detectors.columnar.batch.columns import Batch

STEP: Final = 10 * MILLISECOND
WINDOW: Final = 10 * MINUTE
BATCH: Final = 100_000
ROOMS: Final = 100
LIMIT: Final = 29.99  # of temperatures, evenly between 10 and 30
WITHOUT: Final = "without"

_Found: TypeAlias = tuple[int, Any]
"""Number of the event, and the value beside it."""

AGGREGATES: Final = {
    "count": "count()",
    "sum": "sum(temp)",
    "avg": "avg(temp)",
    "min": "min(temp)",
    "max": "max(temp)",
    "first": "first(temp)",
    "distinct": "distinct(grade)",
}
THROTTLED: Final = {"every": "every 10min by room", "at most": "at most 1 per 10min by room"}


@dataclass(frozen=True)
class SlidingFigure:
    """Cost of an event with one implementation of an aggregate, or of a throttled type."""

    aggregate: str
    by: str
    events: int
    matches: int
    same: bool  # whether its values are those of the stepwise engine
    event: float  # ns an event, in the best round
    alone: float  # ns more than without the aggregate, by the same engine
    ratio: float | None  # of `alone` to that of Python written by hand; None without one


def pattern_of(aggregate: str) -> str:
    """The text of the pattern with an aggregate, or a throttled type."""
    if aggregate in THROTTLED:
        return f"type W = Temp {THROTTLED[aggregate]}\n[W as w where temp > {LIMIT}] -> Found(x = w.temp)"
    if aggregate == WITHOUT:
        return f"[Temp as w where temp > {LIMIT}] -> Found(x = w.temp)"
    text = f"type W = Temp with (x = {AGGREGATES[aggregate]} over 10min) by room\n"
    return text + f"[W as w where temp > {LIMIT}] -> Found(x = w.x)"


def make_events(count: int) -> list[Event]:
    """The input."""
    random = Random(7)
    return [
        Event(
            "Temp",
            at * STEP,
            at * STEP,
            "bench",
            at,
            {"room": random.randrange(ROOMS), "temp": random.uniform(10, 30), "grade": random.randrange(30)},
        )
        for at in range(count)
    ]


def measure(count: int, rounds: int = 3, on_progress: OnProgress = no_progress) -> list[SlidingFigure]:
    """Run every aggregate with every implementation, alternately, and keep the best round of each."""
    on_progress("making events")
    events = make_events(count)
    batches = _batches(events)
    gc.collect()
    gc.freeze()
    results: list[SlidingFigure] = []
    without: dict[str, float] = {}
    for aggregate in (WITHOUT, *AGGREGATES, *THROTTLED):
        text = pattern_of(aggregate)
        made: dict[str, Callable[[], list[_Found]]] = {"stepwise": partial(_stepwise, text, events)}
        if batches is not None:
            made["columnar"] = partial(_columnar, text, batches)
            made["columnar"]()
        if aggregate in AGGREGATES or aggregate == WITHOUT:
            made = {"by hand": partial(_by_hand, aggregate, events), **made}
        best: dict[str, tuple[float, list[_Found]]] = {}
        for number in range(rounds):
            for by, run in made.items():
                on_progress(f"{aggregate}, {by}, round {number + 1} of {rounds}")
                began = time.process_time()
                found = run()
                seconds = time.process_time() - began
                if by not in best or seconds < best[by][0]:
                    best[by] = (seconds, found)
        costs = {by: seconds / count * 1e9 for by, (seconds, _) in best.items()}
        if aggregate == WITHOUT:
            without = costs
        hand = costs["by hand"] - without["by hand"] if "by hand" in costs and aggregate != WITHOUT else None
        for by, (_, found) in best.items():
            alone = costs[by] - without[by]
            ratio = alone / hand if hand and hand > 0 else None
            same = _are_same(best["stepwise"][1], found, exact=by != "by hand")
            results.append(SlidingFigure(aggregate, by, count, len(found), same, costs[by], alone, ratio))
    return results


def _are_same(expected: Sequence[_Found], found: Sequence[_Found], *, exact: bool) -> bool:
    """Whether the composite events are the same; those in floats that are not exact nearly."""
    if exact:
        return [(number, type(value), value) for number, value in expected] == [
            (number, type(value), value) for number, value in found
        ]
    pairs = list(zip(expected, found, strict=False))
    return len(expected) == len(found) and all(
        number == other and isclose(value, by_hand, rel_tol=1e-9) for (number, value), (other, by_hand) in pairs
    )


def _batches(events: Sequence[Event]) -> list[Batch] | None:
    """The events as columns; None where there is no columnar engine."""
    if find_spec("numba") is None:
        return None
    import numpy as np

    from distced.detectors.columnar.batch.columns import Batch

    made = []
    for begin in range(0, len(events), BATCH):
        some = events[begin : begin + BATCH]
        hi = np.array([each.hi for each in some], np.int64)
        columns: dict[str, Any] = {
            name: np.array([each.attributes[name] for each in some]) for name in ("room", "temp", "grade")
        }
        made.append(Batch.of_arrays(np.zeros(len(some), np.int32), ["Temp"], hi, columns, source="bench", first=begin))
    return made


def _stepwise(text: str, events: Sequence[Event]) -> list[_Found]:
    return _values(StepwiseEngine(compile_file(text)).feed(events))


def _columnar(text: str, batches: Sequence[Batch]) -> list[_Found]:
    from distced.detectors.columnar.engine import ColumnarEngine

    engine = ColumnarEngine(compile_file(text))
    found: list[CompositeEvent] = []
    for batch in batches:
        found += engine.consume(batch, int(batch.hi[-1]))
    return _values(found)


def _values(found: Iterable[CompositeEvent]) -> list[_Found]:
    return [(each.events[0].seq, each.attributes["x"]) for each in found]


def _by_hand(aggregate: str, events: Sequence[Event]) -> list[_Found]:
    """The aggregate in Python, with the least that its result needs."""
    found: list[_Found] = []
    windows: dict[object, deque[tuple[int, float]]] = {}
    sums: dict[object, float] = {}
    counts: dict[object, dict[object, int]] = {}
    name = "grade" if aggregate == "distinct" else "temp"
    summed = aggregate in ("sum", "avg")
    for event in events:
        attributes: dict[str, Any] = event.attributes
        now, value = event.hi, attributes["temp"]
        if aggregate != WITHOUT:
            room, number = attributes["room"], attributes[name]
            window = windows.get(room)
            if window is None:
                window = windows[room] = deque()
                sums[room], counts[room] = 0.0, {}
            begin = now - WINDOW
            while window and window[0][0] < begin:
                _, gone = window.popleft()
                if summed:
                    sums[room] -= gone
                elif aggregate == "distinct":
                    counts[room][gone] -= 1
                    if not counts[room][gone]:
                        del counts[room][gone]
            if aggregate == "min":
                while window and window[-1][1] > number:
                    window.pop()
            elif aggregate == "max":
                while window and window[-1][1] < number:
                    window.pop()
            elif summed:
                sums[room] += number
            elif aggregate == "distinct":
                counts[room][number] = counts[room].get(number, 0) + 1
            window.append((now, number))
            if aggregate == "count":
                value = len(window)
            elif aggregate == "sum":
                value = sums[room]
            elif aggregate == "avg":
                value = sums[room] / len(window)
            elif aggregate == "distinct":
                value = len(counts[room])
            else:
                value = window[0][1]
        if attributes["temp"] > LIMIT:
            found.append((event.seq, value))
    return found


def report(figures: Sequence[SlidingFigure]) -> Report:
    """The figures as a report; different values are faults."""
    table = ReportTable.of(
        figures,
        Column("aggregate"),
        Column("by"),
        *number_columns(",", "events", "matches"),
        Column("an event", "ns", ",.0f", "event"),
        Column("aggregate alone", "ns", ",.0f", "alone"),
        Column("of by hand", "", ",.0%", "ratio"),
    )
    costs = [(f"{each.aggregate}, {each.by}", each.alone) for each in figures if each.aggregate != WITHOUT]
    most = max((each.events for each in figures), default=0)
    plot = partial(bars, costs, title=f"aggregates over windows, {most:,} events", unit="ns an event")
    faults = [
        f"{each.aggregate}, {each.by}: other values than those of the stepwise engine"
        for each in figures
        if not each.same
    ]
    return Report("sliding", figures, [table], [], faults, {"sliding.svg": plot})

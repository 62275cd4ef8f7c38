"""A task of a replay: tables of events in, composite events out. The same in a Spark worker and in any other process.

Tables come a day at a time, in the order of days, several days together where there is little in them; the engine keeps
its state from one to the next. So a task holds a day of what it reads, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from distced.detectors.compiler import Compiled
from distced.detectors.runtime.engines import EngineName, chosen, has_columnar, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import CompositeEvent, OrderKey
from distced.simulations.replay.batches import TableBatch
from distced.simulations.replay.plan import Slice

STEP: Final = 131_072
"""Events consumed at once, extended to all events of the last instant."""


PAYS_FROM: Final = 20_000
"""Number of events from which the columnar engine is faster: the other one needs an object for each event."""


class ReplayCounts:
    """Counts of the events read by a task.

    Attributes:
        consumed: events consumed.
        repeated: duplicates, left out.
    """

    def __init__(self) -> None:
        self.consumed = self.repeated = 0


def detect(
    patterns: Sequence[Compiled],
    days: Iterable[Sequence[Any]],
    wanted: Slice,
    *,
    engine: EngineName = "auto",
    events: int = 0,
    counts: ReplayCounts | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> Iterator[list[CompositeEvent]]:
    """The composite events of a slice, in order, stretch by stretch.

    Args:
        days: the tables of each day, or of several together, in the native form; days in order, what is in one in any
            order.
        events: approximate number of events, to choose the engine by.
        watch: called with the number of events consumed.
    """
    counts = ReplayCounts() if counts is None else counts
    made = make_engine(patterns, engine=_chosen(engine, events))
    for tables in days:
        batch = TableBatch(tables)
        counts.repeated += batch.repeated
        place = int(np.searchsorted(batch.hi, wanted.begin))
        last = int(np.searchsorted(batch.hi, wanted.until, "right"))
        while place < last:
            end = min(place + STEP, last)
            # Events of one instant stay together.
            end = min(int(np.searchsorted(batch.hi, batch.hi[end - 1], "right")), last)
            stretch, until = batch.stretch(place, end), int(batch.hi[end - 1])
            if isinstance(made, StepwiseEngine):
                found = made.feed([stretch.event(each) for each in range(len(stretch))]) + made.advance(until)
            else:
                found = made.consume(stretch, until)
            counts.consumed += end - place
            watch(counts.consumed)
            yield _answered(found, wanted)
            place = end
    yield _answered(made.advance(wanted.until), wanted)


def _chosen(engine: EngineName, events: int) -> EngineName:
    if engine == "auto":
        return "columnar" if events >= PAYS_FROM and has_columnar() else "stepwise"
    return chosen(engine, events)


def _answered(found: list[CompositeEvent], wanted: Slice) -> list[CompositeEvent]:
    """The composite events the slice answers for, in order."""
    return sorted((each for each in found if wanted.after < each.hi <= wanted.until), key=_order)


def _order(event: CompositeEvent) -> OrderKey:
    return event.key

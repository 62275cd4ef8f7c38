"""A task of a replay: tables of events in, composite events out. The same in a Spark worker and anywhere else.

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
"""Events that are consumed at once, or as many more as the last instant has."""


PAYS_FROM: Final = 20_000
"""From so many events on the columnar engine is quicker: the other one needs an object for each of them."""


class Counts:
    """What a task has read.

    Attributes:
        consumed: events consumed.
        repeated: events that came again, left out.
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
    counts: Counts | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> Iterator[list[CompositeEvent]]:
    """The composite events of a slice, in order, stretch by stretch.

    Args:
        days: the tables of each day, or of several together, in the native form; days in order, what is in one in any
            order.
        events: about how many events there are, to choose the engine by.
        watch: told how many events were consumed by now.
    """
    counts = Counts() if counts is None else counts
    made = make_engine(patterns, engine=_chosen(engine, events))
    for tables in days:
        batch = TableBatch(tables)
        counts.repeated += batch.repeated
        place = int(np.searchsorted(batch.hi, wanted.begin))
        last = int(np.searchsorted(batch.hi, wanted.until, "right"))
        while place < last:
            end = min(place + STEP, last)
            # An instant is not torn apart.
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
    """Those that the slice answers for, in order."""
    return sorted((each for each in found if wanted.after < each.hi <= wanted.until), key=_order)


def _order(event: CompositeEvent) -> OrderKey:
    return event.key

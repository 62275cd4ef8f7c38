"""`distced bench instances`: memory of a live instance, and rate of events with many of them.

One pattern, `[A] ; [B] by k`, and as many keys as there are to be instances: one A for each, and then events of random
keys, half of them A and half B, so that about half of the keys wait at any time. The baseline is the stepwise engine on
the same events, while there are few enough of them.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.loop import Loop
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import Event
from distced.simulations.plots import bars
from distced.simulations.report import OnProgress, Report, ReportTable, ignore_progress, number_columns

TEXT: Final = "[A] ; [B] by k"
BATCH: Final = 50_000
STEPWISE_MOST: Final = 100_000
"""Greatest number of instances the stepwise engine is measured with."""


@dataclass(frozen=True, slots=True)
class InstanceFigure:
    """Memory and rate with a number of live instances.

    Attributes:
        used: bytes in use for each: rows, links of chains, buckets.
        allocated: bytes of the arrays for each; they grow by doubling.
        rate: events a second.
        stepwise_used, stepwise_rate: the same of the stepwise engine; None where it was not tried.
    """

    instances: int
    used: float
    allocated: float
    rate: float
    stepwise_used: float | None
    stepwise_rate: float | None


def measure(counts: list[int], events: int, on_progress: OnProgress = ignore_progress) -> Iterator[InstanceFigure]:
    """The figures with each of these numbers of instances."""
    compiled = compile_pattern(TEXT)
    for count in counts:
        on_progress(f"{count:,} instances")
        loop = Loop([compiled.automaton])
        for start in range(0, count, BATCH):
            keys = np.arange(start, min(start + BATCH, count))
            loop.feed(_batch(np.zeros(len(keys), np.int32), keys, start))
        used, allocated = (each / count for each in loop.memory())
        random = np.random.default_rng(1)
        types, keys = random.integers(0, 2, events).astype(np.int32), random.integers(0, count, events)
        batches = [_batch(types[at : at + BATCH], keys[at : at + BATCH], count + at) for at in range(0, events, BATCH)]
        began = time.perf_counter()
        for batch in batches:
            loop.feed(batch)
        rate = events / (time.perf_counter() - began)
        beside = _stepwise(count, types, keys) if count <= STEPWISE_MOST else (None, None)
        yield InstanceFigure(count, used, allocated, rate, *beside)


def _batch(types: np.ndarray, keys: np.ndarray, first: int) -> Batch:  # type: ignore[type-arg]
    hi = np.arange(first, first + len(types))
    return Batch.of_arrays(types, ["A", "B"], hi, {"k": keys}, first=first)


def _stepwise(count: int, types: np.ndarray, keys: np.ndarray) -> tuple[float, float]:  # type: ignore[type-arg]
    """Memory of an instance without its event, and the rate."""
    first = [Event("A", at, at, "s", at, {"k": at}) for at in range(count)]
    some = min(len(types), BATCH)
    drawn = zip(types[:some].tolist(), keys[:some].tolist(), strict=True)
    rest = [Event("AB"[kind], at, at, "s", at, {"k": key}) for at, (kind, key) in enumerate(drawn, count)]
    gc.collect()
    tracemalloc.start()
    engine = StepwiseEngine([compile_pattern(TEXT)])
    engine.feed(first)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    began = time.perf_counter()
    engine.feed(rest)
    return used, some / (time.perf_counter() - began)


def report(figures: Sequence[InstanceFigure]) -> Report:
    """The figures as a report."""
    table = ReportTable(
        number_columns(
            ",.0f", "instances", "bytes each", "allocated", "events/s", "stepwise: bytes each", "stepwise: events/s"
        ),
        [
            (each.instances, each.used, each.allocated, each.rate, each.stepwise_used, each.stepwise_rate)
            for each in figures
        ],
    )
    rates = [(f"{each.instances:,}", each.rate) for each in figures]
    plot = partial(bars, rates, title="events by live instances, columnar engine", unit="events/s")
    return Report("instances", figures, [table], plots={"instances.svg": plot})

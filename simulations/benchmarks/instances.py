"""`distced bench instances`: memory of a live instance, and rate of events with many of them.

One pattern, `[A] ; [B] by k`, and a key for each instance: one A for each, and then events of random keys, half of them
A and half B, so that about half of the keys wait at any time. The baseline is the stepwise engine on the same events,
up to `STEPWISE_MOST` instances.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.loop import Loop
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import Event
from distced.simulations.plots import bars
from distced.simulations.report import OnProgress, Report, ReportTable, no_progress, number_columns

TEXT: Final = "[A] ; [B] by k"
BATCH: Final = 50_000
STEPWISE_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class InstanceFigure:
    """Memory and rate with a number of live instances; of the stepwise engine None where it was not measured."""

    instances: int
    used: float  # bytes in use for each: rows, links of chains, buckets
    allocated: float  # bytes of the arrays for each; they grow by doubling
    rate: float  # events/s
    stepwise_used: float | None
    stepwise_rate: float | None


def measure(counts: list[int], events: int, on_progress: OnProgress = no_progress) -> list[InstanceFigure]:
    """The figures with each of these numbers of instances."""
    return [_measured(count, events, on_progress) for count in counts]


def _measured(count: int, events: int, on_progress: OnProgress) -> InstanceFigure:
    on_progress(f"{count:,} instances")
    loop = Loop([compile_pattern(TEXT).automaton])
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
    return InstanceFigure(count, used, allocated, rate, *beside)


def _batch(types: np.ndarray[Any, Any], keys: np.ndarray[Any, Any], first: int) -> Batch:
    hi = np.arange(first, first + len(types))
    return Batch.of_arrays(types, ["A", "B"], hi, {"k": keys}, first=first)


def _stepwise(count: int, types: np.ndarray[Any, Any], keys: np.ndarray[Any, Any]) -> tuple[float, float]:
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
    names = ("instances", "bytes each", "allocated", "events/s", "stepwise: bytes each", "stepwise: events/s")
    table = ReportTable(number_columns(",.0f", *names), list(map(astuple, figures)))
    rates = [(f"{each.instances:,}", each.rate) for each in figures]
    plot = partial(bars, rates, title="events by live instances, columnar engine", unit="events/s")
    return Report("instances", figures, [table], plots={"instances.svg": plot})

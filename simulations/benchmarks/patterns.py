"""`distced bench patterns`: Cayuga's technical benchmark, many patterns in one pass of the columnar engine.

cayuga-algebra-cesar, section 5.1, Figures 16 and 17: throughput by the number of patterns, by how alike they are (Zipf)
and by how much their ranges let through, with and without indexes. Patterns are added to an engine that runs, so that
the measurements for more of them go on where those for fewer ended.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Final

from detectors.columnar.columns import Batch
from detectors.columnar.looping import Loop
from detectors.compilation import compile_pattern
from simulations.benchmarks.cayuga_queries import Parameters, automata, queries, stream, text_of

BATCH: Final = 10_000
"""So many events the engine is given at once."""

WARM: Final = 5_000
"""So many events come before it is measured."""

WITHOUT: Final = 2_000
"""So many events are measured without indexes, which takes a thousand times as long."""

FROM_TEXT: Final = 100
"""So many patterns are compiled from their text, to see what that takes."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Events a second with so many patterns.

    Attributes:
        indexed: whether conditions are looked up; if not, every event is held to every pattern.
        matches: how many were found in the events that were measured.
        touched: pairs of an instance or a start and an event that were looked at, for each event.
        add_ms: the median time to add one pattern, when so many are there; compiling it comes before.
        compile_ms: the median time to compile one from its text.
    """

    template: str
    patterns: int
    zipf: float
    selectivity: float
    indexed: bool
    events: int
    rate: float
    matches: int
    touched: float
    live: int
    add_ms: float
    compile_ms: float


def measure(
    parameters: Parameters,
    counts: Sequence[int],
    events: int,
    *,
    indexed: bool = True,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[Throughput]:
    """The throughput with each of these numbers of patterns, the least first."""
    loop = Loop((), indexed=indexed)
    source = automata(parameters, max(counts))
    compiled = _compile_ms(parameters)
    begun = 0
    for count in sorted(counts):
        added: list[float] = []
        # Millions of objects that stay are not to be looked through again and again.
        gc.freeze()
        gc.disable()
        for automaton in islice(source, count - len(loop.assembler.units)):
            began = time.perf_counter()
            loop.add(automaton)
            added.append(time.perf_counter() - began)
            if len(added) % 1000 == 0:
                watch(f"{parameters.template}, adding patterns", len(loop.assembler.units), max(counts))
        gc.enable()
        given = list(_batches(WARM + events, parameters.seed, begun))
        begun += WARM + events
        _feed(loop, given[:1])
        touched = loop.touched
        watch(f"{parameters.template}, {count:,} patterns", count, max(counts))
        began = time.perf_counter()
        matches = _feed(loop, given[1:])
        seconds = time.perf_counter() - began
        yield Throughput(
            parameters.template,
            count,
            parameters.zipf[0],
            parameters.selectivity,
            indexed,
            events,
            events / seconds,
            matches,
            (loop.touched - touched) / events,
            loop.live,
            1000 * median(added[-1000:]),
            compiled,
        )


def by_zipf(
    parameters: Parameters, powers: Sequence[float], count: int, events: int, watch: Callable[[str, int, int], None]
) -> Iterator[Throughput]:
    """The throughput by how alike the first steps are."""
    for power in powers:
        yield from measure(replace(parameters, zipf=(power, *parameters.zipf[1:])), [count], events, watch=watch)


def by_selectivity(
    parameters: Parameters, shares: Sequence[float], count: int, events: int, watch: Callable[[str, int, int], None]
) -> Iterator[Throughput]:
    """The throughput by what ranges let through."""
    for share in shares:
        yield from measure(replace(parameters, selectivity=share), [count], events, watch=watch)


def _compile_ms(parameters: Parameters) -> float:
    took = []
    for query in queries(parameters, FROM_TEXT):
        text = text_of(query, parameters.template)
        began = time.perf_counter()
        compile_pattern(text)
        took.append(time.perf_counter() - began)
    return 1000 * median(took)


def _batches(count: int, seed: int, begun: int) -> Iterator[Batch]:
    """The stream from some tick on, the events to get warm with first."""
    yield stream(WARM, seed + begun, begun)
    for start in range(WARM, count, BATCH):
        yield stream(min(BATCH, count - start), seed + begun + start, begun + start)


def _feed(loop: Loop, batches: Sequence[Batch]) -> int:
    return sum(len(loop.feed(batch)) for batch in batches)

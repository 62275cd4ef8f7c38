"""`distced bench patterns`: Cayuga's technical benchmark, many patterns in one pass of the columnar engine.

cayuga-algebra-cesar, section 5.1, Figures 16 and 17: throughput by the number of patterns, by how alike they are (Zipf)
and by how much their ranges let through, with indexes, without merging, and without any. Patterns are added to engines
that run, so that the measurements for more of them go on where those for fewer ended.

All that is compared is in memory at once and takes in the same events, batch by batch in turn. To measure one after the
other would take less memory, but minutes of adding patterns would lie between, in which a machine's speed drifts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Final, TypeAlias

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.compiler import compile_pattern
from distced.simulations.benchmarks.cayuga_queries import Parameters, Template, queries, stream, text_of, with_automata
from distced.simulations.benchmarks.patterns_variants import OPTIONS, Baseline, Engine, Variant, Way
from distced.simulations.benchmarks.static_predicates import Row, StaticPredicates, read

Watch: TypeAlias = Callable[[str, int, int], None]

BATCH: Final = 10_000
"""So many events the engine is given at once."""

WARM: Final = 5_000
"""So many events come before it is measured."""

WITHOUT: Final = 2_000
"""So many events are measured without indexes, which takes a thousand times as long."""

ZIPF: Final = (0.8, 1.0, 1.2, 1.4)
SELECTIVITY: Final = (0.5, 0.6, 0.7, 0.8, 0.9)

FROM_TEXT: Final = 100
"""So many patterns are compiled from their text, to see what that takes."""


EXCHANGED: Final = 500
"""So many patterns are removed, to see what that takes, and added again."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Events a second with so many patterns; None for what the baseline has not.

    Attributes:
        variant: how the engine ran, or the baseline, which is to tell the first steps' static predicates alone.
        ratio: the rate against that of the baseline.
        matches: how many were found in the events that were measured.
        expected: how many were found in these events with indexes.
        touched: pairs of an instance or a start and an event that were looked at, for each event; of the baseline the
            predicates that it satisfies.
        states: in how many states instances may wait.
        add_ms: the median time to add one pattern, when so many are there; compiling it comes before.
        remove_ms: the median time to remove one.
        compile_ms: the median time to compile one from its text.
    """

    template: str
    patterns: int
    zipf: float
    selectivity: float
    variant: Variant
    events: int
    rate: float
    ratio: float
    matches: int | None
    expected: int | None
    touched: float
    live: int | None
    states: int | None
    add_ms: float | None
    remove_ms: float | None
    compile_ms: float


def measure_all(
    templates: Sequence[Template],
    counts: Sequence[int],
    events: int,
    *,
    vary: str = "",
    merging: bool = True,
    without: int = 0,
    watch: Watch = lambda *_: None,
) -> Iterator[Throughput]:
    """The throughput of several templates, with each of these numbers of patterns, the least first.

    Args:
        vary: with the largest number of patterns only: `zipf` or `selectivity`.
        merging, without: as for `measure`.
    """
    if vary:
        counts = counts[-1:]
    elif 0 < without < counts[0]:
        # There is to be one number that all variants are measured with.
        counts = [without, *counts]
    for template in templates:
        for parameters in varied(Parameters(template), vary):
            yield from measure(parameters, counts, events, merging=merging, without=without, watch=watch)


def measure(
    parameters: Parameters,
    counts: Sequence[int],
    events: int,
    *,
    merging: bool = True,
    without: int = 0,
    watch: Watch = lambda *_: None,
) -> Iterator[Throughput]:
    """The throughput with each of these numbers of patterns, the least first.

    Args:
        merging: measure without merging, too.
        without: up to so many patterns measure without any indexes, too.
    """
    variants = [variant for variant in OPTIONS if merging or variant != "without merging"]
    try:
        yield from _measured(parameters, sorted(counts), events, variants, without, watch)
    finally:
        # Patterns and states refer to each other, so that nothing goes by itself.
        gc.enable()
        gc.unfreeze()
        gc.collect()


def _measured(
    parameters: Parameters,
    counts: Sequence[int],
    events: int,
    variants: Sequence[Variant],
    without: int,
    watch: Watch,
) -> Iterator[Throughput]:
    watch(f"{parameters.template}, compiling", 0, counts[-1])
    engines = [Engine(variant) for variant in variants]
    compiled = _compile_ms(parameters)
    source = with_automata(parameters, counts[-1])
    rows: list[Row] = []
    begun = 0
    for count in counts:
        engines = [each for each in engines if each.variant != "without any" or count <= without]
        gc.disable()
        for query, automaton in islice(source, count - len(rows)):
            rows.append(read(query.steps[0]))
            for engine in engines:
                engine.add(automaton)
            if len(rows) % 1000 == 0:
                watch(f"{parameters.template}, adding patterns", len(rows), counts[-1])
        # Millions of objects that stay are not to be looked through while it is measured.
        gc.freeze()
        gc.enable()
        baseline = Baseline(StaticPredicates(rows))
        told = f"{parameters.template}, {count:,} patterns"
        _run([*engines, baseline], list(_batches(parameters, begun, events)), told, watch)
        begun += WARM + events
        for engine in engines:
            engine.exchange(min(EXCHANGED, count))
        for way in (*engines, baseline):
            yield _figures(way, parameters, count, engines[0], baseline, compiled)


def varied(parameters: Parameters, by: str) -> list[Parameters]:
    """The same by how alike the first steps are, or by what ranges let through; else as they are."""
    if by == "zipf":
        return [replace(parameters, zipf=(power, *parameters.zipf[1:])) for power in ZIPF]
    if by == "selectivity":
        return [replace(parameters, selectivity=share) for share in SELECTIVITY]
    return [parameters]


def _compile_ms(parameters: Parameters) -> float:
    took = []
    for query in queries(parameters, FROM_TEXT):
        text = text_of(query, parameters.template)
        began = time.perf_counter()
        compile_pattern(text)
        took.append(time.perf_counter() - began)
    return 1000 * median(took)


def _batches(parameters: Parameters, begun: int, events: int) -> Iterator[Batch]:
    """The stream from some tick on: the events to get warm with, those for every variant, and the others."""
    sizes = [WARM, min(WITHOUT, events)]
    while sum(sizes) < WARM + events:
        sizes.append(min(BATCH, WARM + events - sum(sizes)))
    for size in sizes:
        yield stream(size, parameters.seed + begun, begun, parameters.domain)
        begun += size


def _run(ways: Sequence[Way], batches: Sequence[Batch], told: str, watch: Watch) -> None:
    """Have all take in the same events, in turn; each begins with a batch now and then, for whoever does is slower."""
    done, total = 0, sum(map(len, batches))
    for number, batch in enumerate(batches):
        turn = number % len(ways)
        for way in (*ways[turn:], *ways[:turn]):
            if way.variant != "without any" or number < 2:
                watch(f"{told}, {way.variant}", done, total)
                way.take(batch)
                if number == 0:
                    way.warm()
        done += len(batch)
    watch(told, done, total)


def _figures(
    way: Way, parameters: Parameters, count: int, indexed: Engine, baseline: Baseline, compiled: float
) -> Throughput:
    rate = way.events / way.seconds
    engine = way if isinstance(way, Engine) else None
    return Throughput(
        parameters.template,
        count,
        parameters.zipf[0],
        parameters.selectivity,
        way.variant,
        way.events,
        rate,
        rate * baseline.seconds / baseline.events,
        sum(way.found) if engine else None,
        sum(indexed.found[: len(way.found)]) if engine else None,
        (engine.touched if engine else sum(way.found)) / way.events,
        engine.loop.live if engine else None,
        engine.states() if engine else None,
        1000 * median(engine.added[-1000:]) if engine else None,
        1000 * median(engine.removed) if engine else None,
        compiled,
    )

"""`distced bench patterns`: Cayuga's technical benchmark, many patterns in one pass of the columnar engine.

cayuga-algebra-cesar, section 5.1, Figures 16 and 17: throughput by the number of patterns, by how alike they are (Zipf)
and by how much their ranges let through, with indexes, without merging, and without any. Patterns are added to engines
that run, so that the measurements for more of them go on where those for fewer ended.

All variants are in memory at once and consume the same events, batch by batch in turn. To measure one after the
other would take less memory, but minutes of adding patterns would lie between, in which a machine's speed drifts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.compiler import compile_pattern
from distced.simulations.benchmarks.cayuga_queries import Parameters, Template, queries, stream, text_of, with_automata
from distced.simulations.benchmarks.patterns_variants import (
    OPTIONS,
    BaselineRunner,
    EngineRunner,
    PatternRunner,
    Variant,
)
from distced.simulations.benchmarks.static_predicates import Row, StaticPredicates, read
from distced.simulations.plots import lines
from distced.simulations.report import (
    Column,
    OnProgress,
    Report,
    ReportTable,
    ignore_progress,
    number_columns,
)

BATCH: Final = 10_000
"""Number of events in a batch for the engine."""

WARM: Final = 5_000
"""Number of events consumed before the measurement."""

WITHOUT: Final = 2_000
"""Number of events measured without indexes, which takes a thousand times as long."""

VARIED: Final = ("", "zipf", "selectivity")
"""Parameters that may vary with the greatest number of patterns; empty for none."""

ZIPF: Final = (0.8, 1.0, 1.2, 1.4)
SELECTIVITY: Final = (0.5, 0.6, 0.7, 0.8, 0.9)

FROM_TEXT: Final = 100
"""Number of patterns compiled from their text, to measure that."""


EXCHANGED: Final = 500
"""Number of patterns removed and added again, to measure that."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rate of a variant with a number of patterns; None for what the baseline has not.

    Attributes:
        variant: of the engine, or the baseline, which evaluates the first steps' static predicates alone.
        ratio: the rate against that of the baseline.
        matches: number detected in the measured events.
        expected: number detected in these events with indexes.
        touched: pairs of an instance or a start and an event that were checked, for each event; of the baseline the
            predicates that it satisfies.
        states: number of states in which instances may wait.
        add_ms: the median time to add one pattern to this number of patterns, without compiling it.
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
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Throughput]:
    """The throughput of several templates, with each of these numbers of patterns, the least first.

    Args:
        vary: with the largest number of patterns only: `zipf` or `selectivity`.
        merging, without: as for `measure`.
    """
    if vary:
        counts = counts[-1:]
    elif 0 < without < counts[0]:
        # At least one number of patterns is measured with all variants.
        counts = [without, *counts]
    for template in templates:
        for parameters in varied(Parameters(template), vary):
            yield from measure(parameters, counts, events, merging=merging, without=without, on_progress=on_progress)


def measure(
    parameters: Parameters,
    counts: Sequence[int],
    events: int,
    *,
    merging: bool = True,
    without: int = 0,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Throughput]:
    """The throughput with each of these numbers of patterns, the least first.

    Args:
        merging: measure without merging, too.
        without: greatest number of patterns measured without any indexes, too.
    """
    variants = [variant for variant in OPTIONS if merging or variant != "without merging"]
    try:
        yield from _measured(parameters, sorted(counts), events, variants, without, on_progress)
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
    on_progress: OnProgress,
) -> Iterator[Throughput]:
    on_progress(f"{parameters.template}, compiling", 0, counts[-1])
    engines = [EngineRunner(variant) for variant in variants]
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
                on_progress(f"{parameters.template}, adding patterns", len(rows), counts[-1])
        # The garbage collector skips millions of permanent objects during the measurement.
        gc.freeze()
        gc.enable()
        baseline = BaselineRunner(StaticPredicates(rows))
        told = f"{parameters.template}, {count:,} patterns"
        _run([*engines, baseline], list(_batches(parameters, begun, events)), told, on_progress)
        begun += WARM + events
        for engine in engines:
            engine.exchange(min(EXCHANGED, count))
        for runner in (*engines, baseline):
            yield _figures(runner, parameters, count, engines[0], baseline, compiled)


def varied(parameters: Parameters, by: str) -> list[Parameters]:
    """Parameters varied by the similarity of first steps, or by the selectivity of ranges; else unvaried."""
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
    """The stream from a tick on: warm-up events, events for every variant, and the others."""
    sizes = [WARM, min(WITHOUT, events)]
    while sum(sizes) < WARM + events:
        sizes.append(min(BATCH, WARM + events - sum(sizes)))
    for size in sizes:
        yield stream(size, parameters.seed + begun, begun, parameters.domain)
        begun += size


def _run(runners: Sequence[PatternRunner], batches: Sequence[Batch], told: str, on_progress: OnProgress) -> None:
    """Feed all variants with the same events, in turn; the first one changes with the batch, for it is slower."""
    done, total = 0, sum(map(len, batches))
    for number, batch in enumerate(batches):
        turn = number % len(runners)
        for runner in (*runners[turn:], *runners[:turn]):
            if runner.variant != "without any" or number < 2:
                on_progress(f"{told}, {runner.variant}", done, total)
                runner.take(batch)
                if number == 0:
                    runner.warm()
        done += len(batch)
    on_progress(told, done, total)


def _figures(
    runner: PatternRunner,
    parameters: Parameters,
    count: int,
    indexed: EngineRunner,
    baseline: BaselineRunner,
    compiled: float,
) -> Throughput:
    rate = runner.events / runner.seconds
    engine = runner if isinstance(runner, EngineRunner) else None
    return Throughput(
        parameters.template,
        count,
        parameters.zipf[0],
        parameters.selectivity,
        runner.variant,
        runner.events,
        rate,
        rate * baseline.seconds / baseline.events,
        sum(runner.found) if engine else None,
        sum(indexed.found[: len(runner.found)]) if engine else None,
        (engine.touched if engine else sum(runner.found)) / runner.events,
        engine.loop.live if engine else None,
        engine.states() if engine else None,
        1000 * median(engine.added[-1000:]) if engine else None,
        1000 * median(engine.removed) if engine else None,
        compiled,
    )


def report(figures: Sequence[Throughput]) -> Report:
    """The figures as a report; numbers of matches that differ between variants are faults."""
    table = ReportTable(
        (
            Column("template"),
            *number_columns(",", "patterns"),
            *number_columns("g", "zipf", "selectivity"),
            Column("variant"),
            Column("rate", "events/s", ",.0f"),
            *number_columns(".3g", "ratio"),
            *number_columns(",", "matches", "expected"),
            *number_columns(",.1f", "looked at"),
            *number_columns(",", "live", "states"),
            *number_columns(".2f", "to add", "to remove", "to compile", unit="ms"),
        ),
        [
            (
                each.template,
                each.patterns,
                each.zipf,
                each.selectivity,
                each.variant,
                each.rate,
                each.ratio,
                each.matches,
                each.expected,
                each.touched,
                each.live,
                each.states,
                each.add_ms,
                each.remove_ms,
                None if each.add_ms is None else each.compile_ms,
            )
            for each in figures
        ],
    )
    notes = [
        "predicates alone: the baseline, the static predicates of the first steps and nothing else",
        "ratio: against the baseline",
        "expected: matches found with indexes in the same events",
        "looked at: instances and starts, for each event; of the baseline the predicates it satisfies",
    ]
    if few := [each.patterns for each in figures if each.variant == "without any"]:
        notes.append(f"without any indexes: {WITHOUT:,} events at most, and no more than {max(few):,} patterns")
    return Report(
        "patterns",
        figures,
        [table],
        notes,
        [
            f"matches differ: {each.template}, {each.patterns:,} patterns, {each.variant}: "
            f"{each.matches} of {each.expected}"
            for each in figures
            if each.matches != each.expected
        ],
        _plots(figures),
    )


def _plots(figures: Sequence[Throughput]) -> dict[str, Callable[[], str]]:
    """A plot with all templates, and one with the variants of each."""
    varied = [name for name in ("zipf", "selectivity") if len({getattr(each, name) for each in figures}) > 1]
    across = varied[0] if varied else "patterns"
    name = f"patterns-{across}" if varied else "patterns"
    drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in figures:
        point = (float(getattr(each, across)), each.rate)
        if each.variant == "with indexes":
            drawn.setdefault("", {}).setdefault(each.template, []).append(point)
        drawn.setdefault(f"-{each.template}", {}).setdefault(each.variant, []).append(point)
    return {
        f"{name}{of}.svg": partial(
            lines,
            series,
            title=f"{of[1:]}: effect of indexes and merging" if of else "many patterns in one pass",
            across=across,
            unit="events/s",
            logarithmic=bool(of),
        )
        for of, series in drawn.items()
    }

"""`distced bench patterns`: Cayuga's technical benchmark, many patterns in one pass of the columnar engine.

cayuga-algebra-cesar, section 5.1, Figures 16 and 17: throughput by the number of patterns, by their similarity (Zipf)
and by the selectivity of their ranges. Patterns are added to running engines, so that the measurements for more of them
go on where those for fewer ended. All variants are in memory at once and consume the same events, batch by batch in
turn. One variant after the other was rejected: with minutes of adding patterns between them, a machine's speed drifts.

The variants of Figure 17: with indexes, without merging of states, and without any. In the last, Cayuga keeps its index
of static predicates; here every event is checked against every pattern, for a mode with one index would exist for this
figure alone. The baseline, which is not in their figure, is that index by itself.
"""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.loop import Loop
from distced.simulations.benchmarks.cayuga_queries import (
    CONTINUOUS,
    DISCRETE,
    Language,
    Parameters,
    Template,
    compiled_query,
    queries,
    stream,
    text_of,
    with_automata,
)
from distced.simulations.benchmarks.static_predicates import Row, StaticPredicates, read
from distced.simulations.plots import lines
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

Variant: TypeAlias = Literal["with indexes", "without merging", "without any", "predicates alone"]

OPTIONS: Final[Mapping[Variant, tuple[bool, bool]]] = {
    "with indexes": (True, True),
    "without merging": (True, False),
    "without any": (False, False),
}
"""Options of each variant of the engine: indexed or not, states shared or not."""

BATCH: Final = 10_000  # events in a batch for the engine
WARM: Final = 5_000  # events consumed before the measurement
WITHOUT: Final = 2_000  # events measured without indexes, which takes a thousand times as long
VARIED: Final = ("", "zipf", "selectivity")  # parameters that may vary with the greatest number of patterns
ZIPF: Final = (0.8, 1.0, 1.2, 1.4)
SELECTIVITY: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
FROM_TEXT: Final = 100  # patterns compiled from their text, to measure that
EXCHANGED: Final = 500  # patterns removed and added again, to measure that


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rate of a variant with a number of patterns; None where the baseline has no such figure.

    Times are medians for one pattern, added to this number of patterns without compiling it.
    """

    template: str
    patterns: int
    zipf: float
    selectivity: float
    variant: Variant
    events: int
    rate: float
    ratio: float  # to the rate of the baseline
    matches: int | None  # in the measured events
    expected: int | None  # with indexes
    touched: float  # pairs of an instance and an event, and begun matches, or satisfied predicates, for each event
    live: int | None
    states: int | None  # states in which instances may wait
    add_ms: float | None
    remove_ms: float | None
    compile_ms: float


class PatternRunner(ABC):
    """A measured variant, with its time, number of events, and number of matches of each batch."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.warm()

    def warm(self) -> None:
        """End the warm-up and begin to measure."""
        self.seconds, self.events, self.found = 0.0, 0, list[int]()

    def take(self, batch: Batch) -> None:
        """Consume events."""
        began = time.perf_counter()
        found = self.count(batch)
        self.seconds += time.perf_counter() - began
        self.events += len(batch)
        self.found.append(found)

    @abstractmethod
    def count(self, batch: Batch) -> int:
        """Consume events, and return the number of matches."""


class EngineRunner(PatternRunner):
    """A variant of the engine, with the times to add each pattern and to remove some, s."""

    def __init__(self, variant: Variant) -> None:
        indexed, shared = OPTIONS[variant]
        self.loop = Loop((), indexed=indexed, shared=shared)
        self.added: list[float] = []
        self.removed: list[float] = []
        super().__init__(variant)

    def add(self, automaton: Automaton) -> None:
        """Add a pattern."""
        began = time.perf_counter()
        self.loop.add(automaton)
        self.added.append(time.perf_counter() - began)

    def exchange(self, count: int) -> None:
        """Remove the n patterns added last, and add them again."""
        self.removed = []
        units = list(self.loop.assembler.units.values())[-count:]
        for unit in units:
            began = time.perf_counter()
            self.loop.remove(unit.number)
            self.removed.append(time.perf_counter() - began)
        for unit in units:
            self.loop.add(unit.automaton)

    def warm(self) -> None:
        super().warm()
        self._before = self.loop.touched

    def count(self, batch: Batch) -> int:
        return len(self.loop.feed(batch))

    @property
    def touched(self) -> int:
        """Number of pairs of an instance and an event, and of begun matches."""
        return self.loop.touched - self._before

    def states(self) -> int:
        """Number of states in which instances may wait."""
        return len({state for unit in self.loop.assembler.units.values() for state in unit.states if state})


class BaselineRunner(PatternRunner):
    """The baseline: the static predicates of first steps alone."""

    def __init__(self, predicates: StaticPredicates) -> None:
        self._predicates = predicates
        super().__init__("predicates alone")

    def count(self, batch: Batch) -> int:
        return self._predicates.count(arrays(batch))


def arrays(batch: Batch) -> dict[str, np.ndarray[Any, Any]]:
    """The attributes of a batch of Cayuga's stream."""
    columns = {name: batch.column(name) for name in (*DISCRETE, *CONTINUOUS)}
    words = {name: column.payload for name, column in columns.items() if column is not None}
    return {name: each.view(np.float64) if name in CONTINUOUS else each for name, each in words.items()}


def measure(
    templates: Sequence[Template],
    counts: Sequence[int],
    events: int,
    vary: str,
    merging: bool,
    without: int,
    language: Language,
    on_progress: OnProgress,
) -> list[Throughput]:
    """The throughput of several templates, with each of these numbers of patterns, the least first.

    Args:
        vary: of `VARIED`; empty for none.
        merging, without: as for `measure_template`.
        language: of the templates.
    """
    if vary:
        counts = counts[-1:]
    elif 0 < without < counts[0]:
        # At least one number of patterns is measured with all variants.
        counts = [without, *counts]
    figures: list[Throughput] = []
    for template in templates:
        for parameters in varied(Parameters(template, language=language), vary):
            figures += measure_template(
                parameters, counts, events, merging=merging, without=without, on_progress=on_progress
            )
    return figures


def measure_template(
    parameters: Parameters,
    counts: Sequence[int],
    events: int,
    *,
    merging: bool = True,
    without: int = 0,
    on_progress: OnProgress = no_progress,
) -> Iterator[Throughput]:
    """The throughput with each of these numbers of patterns, the least first.

    Args:
        merging: measure without merging, too.
        without: greatest number of patterns measured without any indexes, too.
    """
    on_progress(f"{parameters.template}, compiling", 0, max(counts))
    engines = [EngineRunner(variant) for variant in OPTIONS if merging or variant != "without merging"]
    compile_ms = _compile_ms(parameters)
    source = with_automata(parameters, max(counts))
    rows: list[Row] = []
    begun = 0
    try:
        for count in sorted(counts):
            engines = [each for each in engines if each.variant != "without any" or count <= without]
            gc.disable()
            for query, automaton in islice(source, count - len(rows)):
                rows.append(read(query.steps[0]))
                for engine in engines:
                    engine.add(automaton)
                if len(rows) % 1000 == 0:
                    on_progress(f"{parameters.template}, adding patterns", len(rows), max(counts))
            # The garbage collector skips millions of permanent objects during the measurement.
            gc.freeze()
            gc.enable()
            baseline = BaselineRunner(StaticPredicates(rows))
            step = f"{parameters.template}, {count:,} patterns"
            _feed([*engines, baseline], list(_batches(parameters, begun, events)), step, on_progress)
            begun += WARM + events
            for engine in engines:
                engine.exchange(min(EXCHANGED, count))
            for runner in (*engines, baseline):
                yield _throughput(runner, parameters, count, engines[0], baseline, compile_ms)
    finally:
        # Patterns and states refer to each other, so that reference counts free nothing.
        gc.enable()
        gc.unfreeze()
        gc.collect()


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
        text = text_of(query, parameters.template, parameters.language)
        began = time.perf_counter()
        _ = compiled_query(text, parameters.language).automaton
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


def _feed(runners: Sequence[PatternRunner], batches: Sequence[Batch], step: str, on_progress: OnProgress) -> None:
    """Feed all variants with the same events, in turn; the first one, which is slower, changes with the batch."""
    done, total = 0, sum(map(len, batches))
    for number, batch in enumerate(batches):
        turn = number % len(runners)
        for runner in (*runners[turn:], *runners[:turn]):
            if runner.variant != "without any" or number < 2:
                on_progress(f"{step}, {runner.variant}", done, total)
                runner.take(batch)
                if number == 0:
                    runner.warm()
        done += len(batch)
    on_progress(step, done, total)


def _throughput(
    runner: PatternRunner,
    parameters: Parameters,
    count: int,
    indexed: EngineRunner,
    baseline: BaselineRunner,
    compile_ms: float,
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
        compile_ms,
    )


def report(figures: Sequence[Throughput]) -> Report:
    """The figures as a report; numbers of matches that differ between variants are faults."""
    table = ReportTable.of(
        figures,
        Column("template"),
        *number_columns(",", "patterns"),
        *number_columns("g", "zipf", "selectivity"),
        Column("variant"),
        Column("rate", "events/s", ",.0f"),
        *number_columns(".3g", "ratio"),
        *number_columns(",", "matches", "expected"),
        Column("looked at", "", ",.1f", "touched"),
        *number_columns(",", "live", "states"),
        Column("to add", "ms", ".2f", "add_ms"),
        Column("to remove", "ms", ".2f", "remove_ms"),
        Column("to compile", "ms", ".2f", lambda each: None if each.add_ms is None else each.compile_ms),
    )
    notes = [
        "predicates alone: the baseline, the static predicates of the first steps and nothing else",
        "ratio: against the baseline",
        "expected: matches found with indexes in the same events",
        "looked at: instances and starts, for each event; of the baseline the predicates it satisfies",
    ]
    if few := [each.patterns for each in figures if each.variant == "without any"]:
        notes.append(f"without any indexes: {WITHOUT:,} events at most, and no more than {max(few):,} patterns")
    faults = [
        f"matches differ: {each.template}, {each.patterns:,} patterns, {each.variant}: "
        f"{each.matches} of {each.expected}"
        for each in figures
        if each.matches != each.expected
    ]
    return Report("patterns", figures, [table], notes, faults, _plots(figures))


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
    plot = partial(lines, across=across, unit="events/s")
    return {
        f"{name}{of}.svg": partial(
            plot,
            series,
            title=f"{of[1:]}: effect of indexes and merging" if of else "many patterns in one pass",
            logarithmic=bool(of),
        )
        for of, series in drawn.items()
    }

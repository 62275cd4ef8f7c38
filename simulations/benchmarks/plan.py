"""`distced bench plan`: time to plan a large pattern against a catalogue of running detectors.

Measured are the steps of a subscription: the canonical form of the pattern, its cheapest cover by running detectors
(design, section 3, "for reuse"), and the automaton of the new detector for the rest. The baselines are compiling the
same pattern, and the obvious way to detect reuse: the canonical form of every run of it that may be a detector, looked
up by its name.

The catalogue consists of sub-patterns of other patterns of all three shapes, each cut at random a few times, and of
parts of the planned pattern: none, few disjoint runs, or every run of 2 to 12 parts. All of them come from `cut`, with
the names, keys and exports that detectors have in use. Small patterns written for the catalogue were rejected: they
would have no exports, and take longer, because each is named and built when it is compiled and when it is cut.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from random import Random
from statistics import median
from typing import Final, TypeAlias

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.cutting.candidates import JointView, size_of, views
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import ChosenCut, DetectorGraph, DetectorPlan, cut
from distced.detectors.cutting.reuse import for_reuse
from distced.middleware.patterns.tree import Delegated, Publication
from distced.simulations.plots import bars
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress

TYPES: Final = 40  # number of types of events in the patterns
LEAST: Final = 2
MOST: Final = 12  # greatest number of parts of a joint in a sub-pattern of the catalogue
CUTS: Final = 8  # number of cuts of each of the other patterns
FILLS: Final = ("none", "few", "many")  # shares of the pattern that are in the catalogue
SAMPLE: Final = 250  # number of canonical forms measured for the naive way; the total is extrapolated from them
TOUCHED: Final = 200  # number of plans removed and added again, and of those whose memory is measured

Run: TypeAlias = tuple[int, int]
"""Range of parts of a joint: begin, end (excluded)."""


@dataclass(frozen=True, slots=True)
class PlanFigure:
    """Figures of one pattern against one catalogue; times by round."""

    shape: str
    fill: str
    atoms: int  # of the pattern, in canonical form
    plan_ms: tuple[float, ...]
    compile_ms: tuple[float, ...]
    collected: int  # number of rounds with a full garbage collection of Python, over the whole catalogue
    naive_ms: float  # for the canonical forms of all runs; measured once for each shape
    runs: int  # number of runs that may be detectors
    measured: int  # number of runs measured
    reused: int  # number of detectors of the catalogue that are read
    places: int  # number of places of the pattern with a reused detector
    left: int  # atoms that are left to the new detector
    sound: bool  # whether each detector that is read detects the sub-pattern in whose place it is read

    @property
    def ratio(self) -> float:
        """Time of the naive way relative to that of the planner, medians."""
        return self.naive_ms / median(self.plan_ms)


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """Results of the benchmark."""

    rows: tuple[PlanFigure, ...]
    catalogue: int  # number of detectors in it
    build_s: float  # to make them
    add_us: float  # median for one detector of the full catalogue
    remove_us: float
    entry_bytes: float  # memory the catalogue needs for a detector, without the detector's own
    plan_bytes: float  # memory of a detector's plan: its tree and its automaton

    @property
    def sound(self) -> bool:
        """Whether all plans are sound."""
        return all(each.sound for each in self.rows)


def plain(random: Random, atoms: int) -> str:
    """Atoms with filters and wider domains, by concatenation and sequence."""
    parts = []
    for _ in range(atoms):
        name = _type(random)
        roll = random.random()
        if roll < 0.4:
            parts.append(f"[{name}]")
        elif roll < 0.7:
            parts.append(f"[{name} where v > {random.randrange(5)}]")
        else:
            parts.append(f"[{name} <= {{{name}, {_type(random)}}}]")
    return _joined(random, parts)


def guarded(random: Random, atoms: int) -> str:
    """Atoms that bind variables, with guards on those bound shortly before."""
    parts = []
    bound: list[int] = []
    for place in range(atoms):
        near = [each for each in bound if place - each <= 4]
        binding, condition = random.random() < 0.4, ""
        if near and random.random() < 0.4:
            attribute, relation = random.choice((("v", ">"), ("room", "==")))
            condition = f" where {attribute} {relation} x{random.choice(near)}.{attribute}"
        parts.append(f"[{_type(random)}{f' as x{place}' if binding else ''}{condition}]")
        if binding:
            bound.append(place)
    return _joined(random, parts)


def nested(random: Random, atoms: int) -> str:
    """Alternations, hidden iterations, windows, timings and keys among the parts; keyed, in a window."""
    parts: list[str] = []
    left, timer = atoms, 0
    while left:
        one, two, three = (_type(random) for _ in range(3))
        form = random.randrange(10)
        if form < 5 or left < 3:
            parts.append(f"[{one}]")
            left -= 1
            continue
        if form == 5:
            parts.append(f"([{one}] | [{two}] ; [{three}])")
            left -= 3
            continue
        left -= 2
        if form == 6:
            # A part of its own, so that it is among the joints.
            parts.append(f"~[{one}]* [{two}]")
        elif form == 7:
            parts.append(f"([{one}] ; [{two}] within {random.randrange(1, 20)}s)")
        elif form == 8:
            timer += 1
            wait = random.randrange(1, 20)
            parts.append(f"(([{one}], [{two} <= {{{two}, T{timer}}}]) @ T{timer} = {wait}min)")
        else:
            parts.append(f"([{one}] ; [{two}] by room)")
    return f"{_joined(random, parts)} by key within 1h"


SHAPES: Final[Mapping[str, Callable[[Random, int], str]]] = {"plain": plain, "guarded": guarded, "nested": nested}


def _type(random: Random) -> str:
    return f"E{random.randrange(TYPES)}"


def _joined(random: Random, parts: list[str]) -> str:
    return parts[0] + "".join(random.choice((" ", " ; ")) + each for each in parts[1:])


@dataclass(frozen=True, slots=True)
class Subject:
    """A pattern, and its longest joint, whose runs are its sub-patterns here."""

    compiled: Compiled
    whole: Publication
    joint: JointView

    @classmethod
    def of(cls, text: str) -> Subject:
        compiled = compile_pattern(text)
        whole = canonical_form(compiled.plain).publication
        return cls(compiled, whole, max(views(whole), key=lambda view: len(view.joint.parts)))

    def detectors(self, runs: Iterable[Run]) -> list[DetectorPlan]:
        """Disjoint runs as detectors, as a cut of the pattern makes them."""
        choices = [ChosenCut(self.joint.candidate(start, stop)) for start, stop in runs]
        graph = cut([self.compiled], lambda publication, _: choices if publication == self.whole else ())
        return [plan for plan in graph.plans.values() if plan.id not in graph.roots]

    def all_runs(self) -> Iterator[list[Run]]:
        """Runs of `LEAST` to `MOST` parts that may be cut out, in groups of disjoint ones."""
        count = len(self.joint.joint.parts)
        for length in range(LEAST, min(MOST, count - 1) + 1):
            for offset in range(length):
                starts = range(offset, count - length + 1, length)
                yield [(at, at + length) for at in starts if self.joint.allows(at, at + length)]

    def some_runs(self, random: Random) -> list[Run]:
        """Consecutive disjoint runs of random lengths that may be cut out."""
        count, at = len(self.joint.joint.parts), 0
        found: list[Run] = []
        while at < count:
            stop = min(at + random.randint(LEAST, MOST), count)
            if LEAST <= stop - at < count and self.joint.allows(at, stop):
                found.append((at, stop))
                at = stop
            else:
                at += 1
        return found


def measure(
    atoms: int = 100, size: int = 10_000, rounds: int = 20, seed: int = 1, on_progress: OnProgress = no_progress
) -> PlanFigures:
    """Plan a pattern of each shape against a catalogue of n detectors with none, few and many of its sub-patterns."""
    random = Random(seed)
    subjects = {shape: Subject.of(write(random, atoms)) for shape, write in SHAPES.items()}
    began = time.perf_counter()
    catalogue = build_catalogue(random, list(subjects.values()), atoms, size, on_progress)
    build_s = time.perf_counter() - began
    gc.collect()
    rows: list[PlanFigure] = []
    for number, (shape, subject) in enumerate(subjects.items()):
        on_progress(f"planning, {shape}", number, len(subjects))
        rows += _measure_shape(shape, subject, catalogue, rounds, random)
    on_progress("memory", len(subjects), len(subjects))
    touched = random.sample(sorted(catalogue.plans), min(TOUCHED, size))
    add_us, remove_us = _measure_touching(catalogue, [catalogue.plans[each] for each in touched])
    entry_bytes, plan_bytes = _measure_memory(random, atoms, min(TOUCHED, size))
    return PlanFigures(tuple(rows), len(catalogue), build_s, add_us, remove_us, entry_bytes, plan_bytes)


def build_catalogue(
    random: Random, subjects: list[Subject], atoms: int, size: int, on_progress: OnProgress = no_progress
) -> Catalogue:
    """Detectors for the sub-patterns of other patterns, none of which can be reused for the subjects."""
    catalogue = Catalogue()
    others = other_detectors(random, atoms)
    while True:
        while len(catalogue) < size:
            catalogue.add(next(others))
            on_progress("building the catalogue", len(catalogue), size)
        found = {each for subject in subjects for each in plan(subject, catalogue).reused}
        if not found:
            return catalogue
        for each in found:
            catalogue.remove(each)


def other_detectors(random: Random, atoms: int) -> Iterator[DetectorPlan]:
    """Sub-patterns of random patterns of all shapes, without end."""
    while True:
        for write in SHAPES.values():
            other = Subject.of(write(random, atoms))
            for _ in range(CUTS):
                yield from other.detectors(other.some_runs(random))


def plan(subject: Subject, catalogue: Catalogue) -> DetectorGraph:
    """Plan a pattern: the measured operation."""
    return cut([subject.compiled], for_reuse(catalogue), running=catalogue.plans)


def own_detectors(subject: Subject, fill: str, random: Random) -> list[DetectorPlan]:
    """Detectors of a pattern's own sub-patterns for a catalogue, in no order."""
    if fill == "none":
        return []
    if fill == "few":
        runs = subject.some_runs(random)
        wanted = max(size_of(subject.whole.pattern) // 20, 1)
        return subject.detectors(random.sample(runs, min(wanted, len(runs))))
    found = {each.id: each for runs in subject.all_runs() for each in subject.detectors(runs)}
    return random.sample(list(found.values()), len(found))


def all_candidates(whole: Publication) -> list[tuple[JointView, int, int]]:
    """Runs of two or more parts of every joint that may be cut out, the shortest first."""
    found = (
        (view, start, stop)
        for view in views(whole)
        for start, stop in combinations(range(len(view.joint.parts) + 1), 2)
    )
    allowed = [(view, start, stop) for view, start, stop in found if stop - start > 1 and view.allows(start, stop)]
    return sorted(allowed, key=lambda each: each[2] - each[1])


def name_of(view: JointView, start: int, stop: int) -> str:
    """The name of a run's detector: the naive way computes it for every run."""
    publication = Publication(view.joint.run(start, stop))
    return canonical_form(publication, key=view.context.key, exports=view.exports(start, stop)).id


def is_sound(read: Iterable[Delegated]) -> bool:
    """Whether each detector that is read detects the sub-pattern in whose place it is read."""
    return all(each.source == canonical_form(Publication(each.whole), key=each.key).id for each in read)


def _measure_shape(
    shape: str, subject: Subject, catalogue: Catalogue, rounds: int, random: Random
) -> Iterator[PlanFigure]:
    runs = all_candidates(subject.whole)
    # In the order of their lengths every n-th run represents all of them.
    step = -(-len(runs) // SAMPLE) or 1
    sample = runs[step // 2 :: step]
    began = time.perf_counter()
    for view, start, stop in sample:
        catalogue.plans.get(name_of(view, start, stop))
    naive_ms = (time.perf_counter() - began) * 1000 * len(runs) / max(len(sample), 1)
    text = subject.compiled.text
    for fill in FILLS:
        own = own_detectors(subject, fill, random)[: len(catalogue)]
        out = [catalogue.plans[each] for each in random.sample(sorted(catalogue.plans), len(own))]
        _swap(catalogue, out, own)
        plan_ms: list[float] = []
        compile_ms: list[float] = []
        collected = 0
        for _ in range(rounds):
            before = gc.get_stats()[-1]["collections"]
            began = time.perf_counter()
            graph = plan(subject, catalogue)
            planned = time.perf_counter()
            collected += gc.get_stats()[-1]["collections"] > before
            compile_pattern(text)
            compile_ms.append((time.perf_counter() - planned) * 1000)
            plan_ms.append((planned - began) * 1000)
        _swap(catalogue, own, out)
        read = graph.plans[graph.roots[0]].compiled.automaton.delegated
        atoms = size_of(subject.whole.pattern)
        yield PlanFigure(
            shape,
            fill,
            atoms,
            tuple(plan_ms),
            tuple(compile_ms),
            collected,
            naive_ms,
            len(runs),
            len(sample),
            len(graph.reused),
            len(read),
            atoms - sum(size_of(each.whole) for each in read),
            is_sound(read),
        )


def _swap(catalogue: Catalogue, out: list[DetectorPlan], into: list[DetectorPlan]) -> None:
    for each in out:
        catalogue.remove(each.id)
    for each in into:
        catalogue.add(each)


def _measure_touching(catalogue: Catalogue, plans: list[DetectorPlan]) -> tuple[float, float]:
    """Median times to add and to remove a plan, µs."""
    added, removed = [], []
    for each in plans:
        began = time.perf_counter()
        catalogue.remove(each.id)
        gone = time.perf_counter()
        catalogue.add(each)
        added.append(time.perf_counter() - gone)
        removed.append(gone - began)
    return median(added) * 1e6, median(removed) * 1e6


def _measure_memory(random: Random, atoms: int, count: int) -> tuple[float, float]:
    """Bytes of the catalogue and of the plan for each detector, of a sample."""
    others = other_detectors(random, atoms)
    tracemalloc.start()
    try:
        before = _allocated()
        made: dict[str, DetectorPlan] = {}
        while len(made) < count:
            each = next(others)
            made.setdefault(each.id, each)
        # The generator holds the pattern it cuts.
        del others
        with_plans = _allocated()
        catalogue = Catalogue()
        for each in made.values():
            catalogue.add(each)
        with_entries = _allocated()
    finally:
        tracemalloc.stop()
    return (with_entries - with_plans) / len(catalogue), (with_plans - before) / len(made)


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def report(figures: PlanFigures) -> Report:
    """The figures as a report; a detector reused that detects something else is a fault."""
    table = ReportTable.of(
        figures.rows,
        Column("shape"),
        Column("in catalogue", of="fill"),
        Column("atoms", "", ","),
        Column("plan", "ms", ".1f", lambda each: median(each.plan_ms)),
        Column("best", "", ".1f", lambda each: min(each.plan_ms)),
        Column("worst", "", ".1f", lambda each: max(each.plan_ms)),
        Column("compile", "ms", ".1f", lambda each: median(each.compile_ms)),
        Column("naive", "ms", ",.0f", "naive_ms"),
        Column("naive/plan", "", ",.0f", "ratio"),
        Column("reused", "", ","),
        Column("atoms left", "", ",", "left"),
    )
    samples = {each.shape: f"{each.shape} {each.measured:,} of {each.runs:,}" for each in figures.rows}
    notes = [
        f"{figures.catalogue:,} detectors in the catalogue, made in {figures.build_s:.1f} s. One is added in "
        f"{figures.add_us:.0f} µs and removed in {figures.remove_us:.0f} µs; it needs {figures.entry_bytes / 1024:.1f} "
        f"KiB there, and {figures.plan_bytes / 1024:.1f} KiB for its plan.",
        "naive: estimated from a sample of the runs that may be detectors: " + ", ".join(samples.values()) + ".",
    ]
    if collected := sum(each.collected for each in figures.rows):
        notes.append(f"worst: Python collected garbage in {collected} of the rounds, over the whole catalogue.")
    times = [(f"{each.shape}, {each.fill}", median(each.plan_ms)) for each in figures.rows]
    ratios = [(f"{each.shape}, {each.fill}", each.ratio) for each in figures.rows]
    title = f"Plan {max(each.atoms for each in figures.rows)} atoms against {figures.catalogue:,} detectors"
    plots = {
        "plan.svg": partial(bars, times, title=title, unit="ms"),
        "plan-ratio.svg": partial(bars, ratios, title="Time of the naive way, in times of the plan", unit="×"),
    }
    faults = [] if figures.sound else ["a detector was reused that detects something else"]
    return Report("plan", figures, [table], notes, faults, plots)

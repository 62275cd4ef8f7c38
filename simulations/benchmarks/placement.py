"""`distced bench placement`: gap between placements by policies and the optimum, on random instances.

An instance is a random network of up to two hundred nodes with patterns of the kinds that occur and a subscriber at a
random place for each. Figures of detectors are those that policies expect: given, and the same for all, so that a gap
is one of decisions and not of estimates. Compared are, for each metric, the five named policies as they place one
subscription after the other; the policy named after the metric after its detectors have settled, and after replanning
(`simulations.placement.by_policy`); and the optimum as HiGHS proves it. Where the solver ran out of time, the gap is
to its best solution, with the possible distance of that from the optimum.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import mean, median
from typing import Final

from distced.detectors.compiler import compile_pattern
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.placement.by_policy import place_all, replan, settle
from distced.simulations.placement.evaluation import METRICS, OWN, Metric, evaluate, gap
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import PatternRequest, space_of
from distced.simulations.placement.problem import PlacementProblem, expected_figures
from distced.simulations.plots import bars
from distced.simulations.report import (
    Column,
    OnProgress,
    Report,
    ReportTable,
    ignore_progress,
    number_columns,
)

NODES: Final = (5, 10, 20, 50, 100, 200)
"""Numbers of nodes of instances, at most the number asked for."""

SITES: Final = (4, 30)
"""Least and greatest number of sites, the latter excluded."""

PUBLISHERS: Final = (6, 25)
SUBSCRIBERS: Final = (3, 10)
PATTERNS: Final = (4, 17)
"""Least and greatest number of patterns, the latter excluded."""

SETTLED: Final = "settled"
REPLANNED: Final = "replanned"
"""Names of the metric's policy after its detectors have settled, and after replanning."""

WITHIN: Final = 0.02
"""Greatest median gap of the best heuristic, relative to the optimum."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """Gaps of an instance by a metric.

    Attributes:
        gaps: distance of each heuristic from the optimum: relative to it, of reliability a difference of shares.
        proven: whether the solver has proven the optimum.
        open: gap between the best solution and the proven bound, as a share.
        seconds: times of each heuristic, and of the solver.
    """

    metric: Metric
    gaps: Mapping[str, float]
    proven: bool
    open: float
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GapInstance:
    """A random instance and its gaps.

    Attributes:
        detectors: number of detectors in the search space.
    """

    seed: int
    nodes: int
    sites: int
    patterns: int
    detectors: int
    by_metric: tuple[GapRow, ...]


@dataclass(frozen=True, slots=True)
class GapFigures:
    """Results of the benchmark.

    Attributes:
        limit: time limit of the solver for each optimum, s.
    """

    tried: tuple[GapInstance, ...]
    metrics: tuple[Metric, ...]
    limit: float

    def gaps(self, metric: Metric, heuristic: str) -> list[float]:
        """The gaps of a heuristic, by instance."""
        rows = [each for one in self.tried for each in one.by_metric if each.metric == metric]
        return [each.gaps[heuristic] for each in rows if heuristic in each.gaps]

    def heuristics(self, metric: Metric) -> list[str]:
        """The heuristics tried."""
        rows = [each for one in self.tried for each in one.by_metric if each.metric == metric]
        return list(dict.fromkeys(name for each in rows for name in each.gaps))

    def best(self, metric: Metric) -> tuple[str, float]:
        """The heuristic with the least median gap, then the least mean gap, and that gap."""

        def rank(name: str) -> tuple[float, float]:
            gaps = self.gaps(metric, name)
            return median(gaps), sum(gaps) / len(gaps)

        name = min(self.heuristics(metric), key=rank)
        return name, median(self.gaps(metric, name))

    @property
    def holds(self) -> bool:
        """Whether the best heuristic is near enough to the optimum, by every metric."""
        return all(self.best(metric)[1] <= WITHIN for metric in self.metrics)


def measure(
    instances: int = 50,
    nodes: int = NODES[-1],
    seed: int = 0,
    metrics: tuple[Metric, ...] = METRICS,
    limit: float = 10.0,
    on_progress: OnProgress = ignore_progress,
) -> GapFigures:
    """Measure n instances.

    Args:
        nodes: greatest number of nodes of an instance.
        limit: time limit of the solver for each optimum, s.
    """
    tried = []
    for number in range(instances):
        on_progress("instances", number, instances)
        tried.append(_tried(seed + number, nodes, metrics, limit))
    on_progress("instances", instances, instances)
    return GapFigures(tuple(tried), metrics, limit)


def random_instance(seed: int, most: int = NODES[-1]) -> PlacementProblem:
    """A random instance; one seed always gives the same.

    Args:
        most: greatest number of nodes.
    """
    random = Random(f"placement {seed}")
    nodes = random.choice([each for each in NODES if each <= most] or [most])
    topology = random_topology(
        random.choice(RANDOM_KINDS),
        random,
        sites=min(nodes, random.randrange(*SITES)),
        nodes=nodes,
        publishers=random.randrange(*PUBLISHERS),
        subscribers=random.randrange(*SUBSCRIBERS),
    )
    subscribers = sorted(topology.subscribers)
    patterns = random_patterns(random, topology.types, random.randrange(*PATTERNS))
    asked = [
        PatternRequest(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
        for number, text in enumerate(patterns, 1)
    ]
    space = space_of(asked)
    return PlacementProblem(topology, space, expected_figures(topology, space), {})


def _tried(seed: int, most: int, metrics: tuple[Metric, ...], limit: float) -> GapInstance:
    instance = random_instance(seed, most)
    placed, seconds = {}, dict[str, float]()
    for name, policy in NAMED.items():
        began = time.perf_counter()
        placed[name] = place_all(instance, policy)
        seconds[name] = time.perf_counter() - began
        instance = instance.with_ways(placed[name].plans)
    rows = []
    for metric in metrics:
        own = placed[OWN[metric]]
        began = time.perf_counter()
        settled = settle(instance, own)
        then = time.perf_counter()
        replanned = replan(instance, settled, metric)
        took = {**seconds, SETTLED: then - began, REPLANNED: time.perf_counter() - then}
        known = instance.with_ways(replanned.plans)
        every = {**placed, SETTLED: settled, REPLANNED: replanned}
        costs = {name: evaluate(known, each.detectors) for name, each in every.items()}
        best = optimum(known, metric, known=[each.detectors for each in every.values()], seconds=limit)
        figure = best.cost.by(metric)
        rows.append(
            GapRow(
                metric,
                {name: gap(cost.by(metric), figure, metric) for name, cost in costs.items()},
                best.proven,
                max(gap(figure, best.bound, metric), 0.0),
                {**took, "optimum": best.seconds},
            )
        )
    topology, space = instance.topology, instance.space
    return GapInstance(seed, len(topology.nodes), len(topology.sites), len(space.asked), len(space.ways), tuple(rows))


def report(figures: GapFigures) -> Report:
    """The figures as a report; a metric whose best heuristic is too far from the optimum is a fault."""
    columns = (Column("heuristic"), *number_columns("+.1%", "median", "mean", "most"))
    tables = []
    for metric in figures.metrics:
        gaps = {name: figures.gaps(metric, name) for name in (*NAMED, SETTLED, REPLANNED)}
        rows = [(name, median(each), mean(each), max(each)) for name, each in gaps.items()]
        tables.append(ReportTable(columns, rows, metric))
    nodes = [each.nodes for each in figures.tried]
    patterns = [each.patterns for each in figures.tried]
    notes = [
        f"{len(figures.tried)} instances of {min(nodes)} to {max(nodes)} nodes with {min(patterns)} to {max(patterns)} "
        "patterns. Distance from the optimum: median, mean, greatest; of reliability in percentage points of the "
        f"events lost with a node. {SETTLED.capitalize()} and {REPLANNED}: the policy named after the metric "
        f"({', '.join(OWN[metric] for metric in figures.metrics)})."
    ]
    faults, plots = [], {}
    for metric in figures.metrics:
        tried = [each for one in figures.tried for each in one.by_metric if each.metric == metric]
        proven, (best, distance) = sum(each.proven for each in tried), figures.best(metric)
        rest = "" if proven == len(tried) else f", the others to {max(each.open for each in tried):.1%}"
        solver = median(each.seconds["optimum"] for each in tried)
        notes.append(
            f"{metric}: the best heuristic is {best}, {distance:+.2%} at the median (wanted {WITHIN:.0%}); "
            f"optimum proven in {proven} of {len(tried)}{rest}, in {solver:.2f} s at the median"
        )
        if distance > WITHIN:
            faults.append(f"{metric}: the best heuristic is {distance:.2%} from the optimum, wanted {WITHIN:.0%}")
        medians = [(name, max(median(figures.gaps(metric, name)), 0.0) * 100) for name in figures.heuristics(metric)]
        title = f"{metric}: from the optimum, median of {len(figures.tried)} instances"
        plots[f"placement-{metric}.svg"] = partial(bars, medians, title=title, unit="%")
    return Report("placement", figures, tables, notes, faults, plots)

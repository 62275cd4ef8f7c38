"""`distced bench placement`: gap between placements by policies and the optimum, on random instances.

An instance is a random network with random patterns and a subscriber at a random place for each. Figures of detectors
are those that policies expect: given, and the same for all, so that a gap is one of decisions and not of estimates.
Compared are, for each metric, the five named policies as they place one subscription after the other; the policy named
after the metric after its detectors have settled, and after replanning (`simulations.placement.by_policy`); and the
optimum as HiGHS proves it. Where the solver runs out of time, the gap is to its best solution, with the possible
distance of that from the optimum.
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
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.placement.by_policy import place_all, replan, settle
from distced.simulations.placement.evaluation import METRICS, OWN, Metric, evaluate, gap
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from distced.simulations.placement.problem import PlacementProblem, expected_figures
from distced.simulations.plots import bars
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

NODES: Final = (5, 10, 20, 50, 100, 200)  # of instances, up to the given number
# Least and greatest numbers of an instance, the latter excluded.
SITES: Final = (4, 30)
PUBLISHERS: Final = (6, 25)
SUBSCRIBERS: Final = (3, 10)
PATTERNS: Final = (4, 17)

SETTLED: Final = "settled"  # the metric's policy after its detectors have settled
REPLANNED: Final = "replanned"  # the same after replanning
WITHIN: Final = 0.02  # greatest median gap of the best heuristic, relative to the optimum


@dataclass(frozen=True, slots=True)
class GapRow:
    """Gaps of an instance by a metric."""

    metric: Metric
    gaps: Mapping[str, float]  # of each heuristic, relative to the optimum; of reliability a difference of shares
    proven: bool  # whether the solver has proven the optimum
    open: float  # gap between the best solution and the proven bound, as a share
    seconds: Mapping[str, float]  # of each heuristic, and of the solver


@dataclass(frozen=True, slots=True)
class GapInstance:
    """A random instance and its gaps."""

    seed: int
    nodes: int
    sites: int
    patterns: int
    detectors: int  # in the search space
    by_metric: tuple[GapRow, ...]


@dataclass(frozen=True, slots=True)
class GapFigures:
    """Results of the benchmark."""

    tried: tuple[GapInstance, ...]
    metrics: tuple[Metric, ...]
    limit: float  # time limit of the solver for each optimum, s

    def rows(self, metric: Metric) -> list[GapRow]:
        """The gaps by a metric, by instance."""
        return [each for one in self.tried for each in one.by_metric if each.metric == metric]

    def gaps(self, metric: Metric) -> dict[str, list[float]]:
        """The gaps of each heuristic by a metric, by instance."""
        rows = self.rows(metric)
        return {name: [each.gaps[name] for each in rows] for name in (rows[0].gaps if rows else ())}

    def best(self, metric: Metric) -> tuple[str, float]:
        """The heuristic with the least median gap, then the least mean gap, and that gap."""
        name, gaps = min(self.gaps(metric).items(), key=lambda each: (median(each[1]), mean(each[1])))
        return name, median(gaps)

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
    on_progress: OnProgress = no_progress,
) -> GapFigures:
    """Measure n instances with at most this number of nodes, each optimum with a time limit in seconds."""
    tried = []
    for number in range(instances):
        tried.append(_tried(seed + number, nodes, metrics, limit))
        on_progress("instances", number + 1, instances)
    return GapFigures(tuple(tried), metrics, limit)


def random_instance(seed: int, most: int = NODES[-1]) -> PlacementProblem:
    """A random instance with at most this number of nodes; one seed always gives the same."""
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
    space = random_space(random, topology, PATTERNS)
    return PlacementProblem(topology, space, expected_figures(topology, space), {})


def random_space(random: Random, topology: Topology, patterns: tuple[int, int]) -> SearchSpace:
    """The search space of random patterns, least and greatest number, the latter excluded, at random subscribers."""
    subscribers = sorted(topology.subscribers)
    texts = random_patterns(random, topology.types, random.randrange(*patterns))
    return space_of(
        [
            PatternRequest(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
            for number, text in enumerate(texts, 1)
        ]
    )


def _tried(seed: int, most: int, metrics: tuple[Metric, ...], limit: float) -> GapInstance:
    instance = random_instance(seed, most)
    placed, seconds = {}, dict[str, float]()
    for name, policy in NAMED.items():
        began = time.perf_counter()
        placed[name] = place_all(instance, policy)
        seconds[name] = time.perf_counter() - began
        instance = instance.with_alternatives(placed[name].plans)
    rows = []
    for metric in metrics:
        own = placed[OWN[metric]]
        began = time.perf_counter()
        settled = settle(instance, own)
        then = time.perf_counter()
        replanned = replan(instance, settled, metric)
        took = {**seconds, SETTLED: then - began, REPLANNED: time.perf_counter() - then}
        known = instance.with_alternatives(replanned.plans)
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
    return GapInstance(
        seed, len(topology.nodes), len(topology.sites), len(space.asked), len(space.alternatives), tuple(rows)
    )


def report(figures: GapFigures) -> Report:
    """The figures as a report; a metric whose best heuristic is too far from the optimum is a fault."""
    columns = (Column("heuristic"), *number_columns("+.1%", "median", "mean", "most"))
    nodes, patterns = [each.nodes for each in figures.tried], [each.patterns for each in figures.tried]
    tables, faults, plots = [], [], {}
    notes = [
        f"{len(figures.tried)} instances of {min(nodes)} to {max(nodes)} nodes with {min(patterns)} to {max(patterns)} "
        "patterns. Distance from the optimum: median, mean, greatest; of reliability in percentage points of the "
        f"events lost with a node. {SETTLED.capitalize()} and {REPLANNED}: the policy named after the metric "
        f"({', '.join(OWN[metric] for metric in figures.metrics)})."
    ]
    for metric in figures.metrics:
        gaps, tried = figures.gaps(metric), figures.rows(metric)
        rows = [(name, median(each), mean(each), max(each)) for name, each in gaps.items()]
        tables.append(ReportTable(columns, rows, metric))
        proven, (best, distance) = sum(each.proven for each in tried), figures.best(metric)
        rest = "" if proven == len(tried) else f", the others to {max(each.open for each in tried):.1%}"
        solver = median(each.seconds["optimum"] for each in tried)
        notes.append(
            f"{metric}: the best heuristic is {best}, {distance:+.2%} at the median (wanted {WITHIN:.0%}); "
            f"optimum proven in {proven} of {len(tried)}{rest}, in {solver:.2f} s at the median"
        )
        if distance > WITHIN:
            faults.append(f"{metric}: the best heuristic is {distance:.2%} from the optimum, wanted {WITHIN:.0%}")
        medians = [(name, max(middle, 0.0) * 100) for name, middle, _, _ in rows]
        title = f"{metric}: from the optimum, median of {len(tried)} instances"
        plots[f"placement-{metric}.svg"] = partial(bars, medians, title=title, unit="%")
    return Report("placement", figures, tables, notes, faults, plots)

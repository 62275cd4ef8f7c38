"""`distced bench placement`: how far what policies do is from the best placement there is, on instances by chance.

An instance is a random network of up to two hundred nodes with patterns of the kinds that occur and somebody at a
random place who wants each. What detectors would do is what policies expect of them: given, and the same for all, so
that a gap is one of decisions and not of estimates. Compared are, for each metric, the five named policies as they
place one subscription after the other; the one that is called after the metric once its detectors have settled, and
once all was planned anew (`simulations.placement.replanning`); and the optimum as HiGHS proves it. Where the solver ran
out of time, the gap is to the best it has found, and how far that may be from the optimum is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final

from distced.detectors.compiler import compile_pattern
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.placement.by_policy import place_all, settle
from distced.simulations.placement.evaluation import METRICS, OWN, Metric, evaluate, gap
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import Asked, space_of
from distced.simulations.placement.problem import Instance, expected_figures
from distced.simulations.placement.replanning import replan

NODES: Final = (5, 10, 20, 50, 100, 200)
"""How many nodes instances have, at the most as many as are asked for."""

SITES: Final = (4, 30)
"""At how many sites, from and below."""

PUBLISHERS: Final = (6, 25)
SUBSCRIBERS: Final = (3, 10)
PATTERNS: Final = (4, 17)
"""How many of these there are, from and below."""

SETTLED: Final = "settled"
REPLANNED: Final = "replanned"
"""What the policy of the metric is called once its detectors have settled, and once all was planned anew."""

WITHIN: Final = 0.02
"""Within what share of the optimum the best heuristic is to be, at the median."""

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Compared:
    """An instance by a metric.

    Attributes:
        gaps: how far each heuristic is from the optimum: as a share of it, of reliability as a difference of shares.
        proven: whether the solver has proven the optimum.
        open: how far the optimum may be from what was proven, as a share.
        seconds: how long each heuristic took, and the solver.
    """

    metric: Metric
    gaps: Mapping[str, float]
    proven: bool
    open: float
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tried:
    """An instance.

    Attributes:
        detectors: of how many the patterns may be made.
    """

    seed: int
    nodes: int
    sites: int
    patterns: int
    detectors: int
    by_metric: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class GapFigures:
    """What the benchmark found.

    Attributes:
        limit: seconds the solver was given for each optimum.
    """

    tried: tuple[Tried, ...]
    metrics: tuple[Metric, ...]
    limit: float

    def gaps(self, metric: Metric, heuristic: str) -> list[float]:
        """The gaps of a heuristic, by instance."""
        rows = [each for one in self.tried for each in one.by_metric if each.metric == metric]
        return [each.gaps[heuristic] for each in rows if heuristic in each.gaps]

    def heuristics(self, metric: Metric) -> list[str]:
        """Those that were tried."""
        rows = [each for one in self.tried for each in one.by_metric if each.metric == metric]
        return list(dict.fromkeys(name for each in rows for name in each.gaps))

    def best(self, metric: Metric) -> tuple[str, float]:
        """The heuristic that is the nearest at the median, then on average, and how far that is."""

        def rank(name: str) -> tuple[float, float]:
            gaps = self.gaps(metric, name)
            return median(gaps), sum(gaps) / len(gaps)

        name = min(self.heuristics(metric), key=rank)
        return name, median(self.gaps(metric, name))

    @property
    def holds(self) -> bool:
        """Whether the best heuristic is as near as it should be, by every metric."""
        return all(self.best(metric)[1] <= WITHIN for metric in self.metrics)


def measure(
    instances: int = 50,
    nodes: int = NODES[-1],
    seed: int = 0,
    metrics: tuple[Metric, ...] = METRICS,
    limit: float = 10.0,
    tell: Tell = lambda *_: None,
) -> GapFigures:
    """Try so many instances.

    Args:
        nodes: how many nodes they have at the most.
        limit: seconds the solver is given for each optimum.
        tell: how far it is.
    """
    tried = []
    for number in range(instances):
        tell("instances", number, instances)
        tried.append(_tried(seed + number, nodes, metrics, limit))
    tell("instances", instances, instances)
    return GapFigures(tuple(tried), metrics, limit)


def random_instance(seed: int, most: int = NODES[-1]) -> Instance:
    """An instance by chance; the same seed makes the same.

    Args:
        most: how many nodes it has at the most.
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
        Asked(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
        for number, text in enumerate(patterns, 1)
    ]
    space = space_of(asked)
    return Instance(topology, space, expected_figures(topology, space), {})


def _tried(seed: int, most: int, metrics: tuple[Metric, ...], limit: float) -> Tried:
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
        anew = replan(instance, settled, metric)
        took = {**seconds, SETTLED: then - began, REPLANNED: time.perf_counter() - then}
        known = instance.with_ways(anew.plans)
        every = {**placed, SETTLED: settled, REPLANNED: anew}
        costs = {name: evaluate(known, each.detectors) for name, each in every.items()}
        best = optimum(known, metric, known=[each.detectors for each in every.values()], seconds=limit)
        figure = best.cost.by(metric)
        rows.append(
            Compared(
                metric,
                {name: gap(cost.by(metric), figure, metric) for name, cost in costs.items()},
                best.proven,
                max(gap(figure, best.bound, metric), 0.0),
                {**took, "optimum": best.seconds},
            )
        )
    topology, space = instance.topology, instance.space
    return Tried(seed, len(topology.nodes), len(topology.sites), len(space.asked), len(space.ways), tuple(rows))

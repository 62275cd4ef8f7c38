"""The five named policies against one another, each at what it is called after, on scenarios by chance.

composite-event-framework-2004, Table 1, claims for each policy what it is best at; here that is tried. In each scenario
all subscriptions have one policy, and the run is made once with each of the five; for the impact the subscriptions
have policies by chance, and one more arrives with each of the five in turn. A policy wins where no other is better at
its metric. Less than `EQUAL` apart counts as equal: a byte more or less is the length of a number in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from middleware.timestamps import SECOND
from policies.distribution.policy import NAMED
from policies.topology.generating import RANDOM_KINDS, random_topology
from policies.topology.topology import Topology
from simulations.experiments.metrics import RunFigures, figures_of, impact_of, reliability_of
from simulations.network.scenario import Scenario
from simulations.network.scenarios import random_scenario

METRICS: Final[Mapping[str, str]] = {
    "min-latency": "latency",
    "min-bandwidth": "bandwidth",
    "min-impact": "impact",
    "min-load": "load",
    "max-reliability": "reliability",
}
"""By policy, what it wants to be best at."""

LASTS: Final = 30 * SECOND
"""How long events are published, ns."""

FIRST: Final = 3 * SECOND
"""When the first subscription comes, ns after the start."""

APART: Final = 2 * SECOND
"""How long after one another subscriptions come, ns."""

LATE: Final = 17 * SECOND
"""When the one more comes whose impact is measured, ns after the start: the others have settled."""

COUNT_FROM: Final = 20 * SECOND
"""From when on it is counted, ns after the start: all subscriptions are there, and have what they read."""

EQUAL: Final = 0.01
"""What counts as equal, as a share."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A scenario under each policy.

    Attributes:
        seed: of the scenario.
        figures: by metric and policy; less is better, but of reliability more is.
        refused: what was refused, by policy.
    """

    seed: int
    figures: Mapping[str, Mapping[str, float]]
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def best(self, policy: str) -> bool:
        """Whether a policy is best at its metric, or as good as the best."""
        metric = METRICS[policy]
        own = self.figures[metric][policy]
        others = [value for name, value in self.figures[metric].items() if name != policy]
        if metric == "reliability":
            return own >= max(others) * (1 - EQUAL)
        return own <= min(others) * (1 + EQUAL) + 1e-9

    def shortfall(self, policy: str) -> float:
        """By what share of it the best is better; 0 where it is best itself."""
        metric = METRICS[policy]
        own = self.figures[metric][policy]
        if metric == "reliability":
            best = max(self.figures[metric].values())
            return max(best - own, 0.0)
        best = min(self.figures[metric].values())
        return max(own - best, 0.0) / max(best, 1e-9)


def scenario_of(seed: int, *, duration: int = LASTS) -> tuple[Scenario, Random]:
    """A scenario by chance, and the chance that is left.

    Subscriptions come one after the other while events are published, so that of those there are already it is known
    what they do. All nodes can do as much as one another: the load that counts is that in instances.
    """
    random = Random(f"policies {seed}")
    topology = random_topology(
        random.choice(RANDOM_KINDS),
        random,
        sites=random.randrange(3, 8),
        nodes=random.randrange(3, 7),
        publishers=random.randrange(4, 9),
        subscribers=random.randrange(2, 5),
    )
    alike = Topology(
        topology.sites.values(),
        [replace(each, capacity=None) for each in topology.nodes.values()],
        topology.publishers.values(),
        topology.subscribers.values(),
        topology.links,
    )
    scenario = random_scenario(seed, topology=alike, subscriptions=random.randrange(3, 7), duration=duration)
    asked = tuple(replace(each, at=FIRST + place * APART) for place, each in enumerate(scenario.subscriptions))
    return replace(scenario, subscriptions=asked, lead=5 * SECOND), random


def compare(seed: int, *, metrics: tuple[str, ...] = tuple(METRICS.values()), duration: int = LASTS) -> Compared:
    """One scenario under each policy."""
    scenario, random = scenario_of(seed, duration=duration)
    figures: dict[str, dict[str, float]] = {metric: {} for metric in metrics}
    refused: dict[str, Mapping[str, str]] = {}
    if figures.keys() & _MEASURES.keys():
        for policy in NAMED:
            own = replace(scenario, distribution=policy)
            run = figures_of(own, COUNT_FROM)
            if run.refused:
                refused[policy] = run.refused
            for metric, measure in _MEASURES.items():
                if metric in metrics:
                    figures[metric][policy] = measure(own, run)
    if "impact" in metrics:
        *there, more = scenario.subscriptions
        mixed = tuple(replace(each, distribution=random.choice(list(NAMED))) for each in there)
        before = replace(scenario, subscriptions=mixed)
        base = figures_of(before, COUNT_FROM)
        late = replace(more, at=LATE)
        for policy in NAMED:
            figures["impact"][policy] = impact_of(before, replace(late, distribution=policy), base, COUNT_FROM)
    return Compared(seed, figures, refused)


def compare_many(seeds: range, metrics: tuple[str, ...], processes: int) -> Iterator[Compared]:
    """Many scenarios, in the order they are done; several at once."""
    from concurrent.futures import ProcessPoolExecutor, as_completed

    if processes == 1:
        for seed in seeds:
            yield compare(seed, metrics=metrics)
        return
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(compare, seed, metrics=metrics) for seed in seeds]):
            yield done.result()


_MEASURES: Final[Mapping[str, Callable[[Scenario, RunFigures], float]]] = {
    "latency": lambda _, run: run.latency or 0.0,
    "bandwidth": lambda _, run: float(run.bytes),
    "load": lambda _, run: run.load,
    "reliability": reliability_of,
}

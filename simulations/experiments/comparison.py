"""Comparison of the five named policies, each at the metric it is named after, on random scenarios.

composite-event-framework-2004, Table 1, claims a metric at which each policy is best; this tests the claim. In each
scenario all subscriptions have one policy, and the run is made once with each of the five. The measurement begins when
all detectors have settled: they are placed by estimates, and checked again with measured figures.

For the impact the earlier subscriptions have random policies, and one more arrives with each of the five in turn.
Earlier detectors stay where they are: in earlier runs they moved now and then, for reasons of their own, and that was
more than the addition of the new one. There are more of them, too, for beside two or three any other is the largest.

A policy wins where no other is better at its metric. Less than `EQUAL` apart counts as equal: a byte more or less is
the length of a number in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.experiments.metrics import RunFigures, figures_of, impact_of, reliability_of
from distced.simulations.network.scenario.random_scenario import random_scenario
from distced.simulations.network.scenario_model import Scenario, ScenarioSubscription

METRICS: Final[Mapping[str, str]] = {
    "min-latency": "latency",
    "min-bandwidth": "bandwidth",
    "min-impact": "impact",
    "min-load": "load",
    "max-reliability": "reliability",
}
"""Metric of each policy."""

LASTS: Final = 80 * SECOND
"""Duration of publishing, ns."""

LOSS_LASTS: Final = 30 * SECOND
"""The same where nodes are lost, each in a run of its own, ns."""

SUBSCRIPTIONS: Final = (3, 7)
"""Least and greatest number of subscriptions, the latter excluded."""

FIRST: Final = 3 * SECOND
"""Time of the first subscription, ns after the start."""

APART: Final = 2 * SECOND
"""Interval between subscriptions, ns."""

COUNT_FROM: Final = 50 * SECOND
"""Begin of the measurement, ns after the start: all subscriptions are there, their figures are known, and the policies
have checked most detectors once more and moved what they would have placed elsewhere.
"""

LOSS_FROM: Final = 20 * SECOND
"""The same where nodes are lost: all subscriptions are there."""

BEFORE: Final = (8, 13)
"""Least and greatest number of subscriptions before the one whose impact is measured, the latter excluded."""

LATE: Final = 40 * SECOND
"""Time of the additional subscription whose impact is measured, ns after the start: figures of the others are known."""

IMPACT_FROM: Final = 42 * SECOND
"""Begin of the measurement of its impact, ns after the start."""

IMPACT_LASTS: Final = 70 * SECOND
"""Duration of publishing where the impact is measured, ns: too short for a detector to be moved."""

EQUAL: Final = 0.01
"""Greatest relative difference that counts as equal."""

IMPACT_EQUAL: Final = 0.03
"""The same of an impact, as a share of the load before. Without any new subscription, the two halves of the measured
time differ by more: half of the difference in the load of the busiest node is 4 % of it, median over scenarios, and
decisions depend on earlier measurements.
"""


@dataclass(frozen=True, slots=True)
class ComparedScenario:
    """A scenario under each policy.

    Attributes:
        seed: of the scenario.
        figures: by metric and policy; less is better, but of reliability more is.
        refused: reasons of refusals, by policy.
    """

    seed: int
    figures: Mapping[str, Mapping[str, float]]
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def behind(self, policy: str, metric: str) -> float:
        """Relative advantage of the best policy at a metric; 0 for the best itself.

        Reliability and impact are shares themselves, of the events detected without a loss and of the values before, so
        of these it is the difference.
        """
        figures = self.figures[metric]
        own = figures[policy]
        if metric == "reliability":
            return max(figures.values()) - own
        best = min(figures.values())
        if metric == "impact" or own == best:
            return own - best
        return (own - best) / best if best else float("inf")

    def best(self, policy: str, metric: str | None = None) -> bool:
        """Whether a policy is best at a metric, its own unless another is given, or as good as the best."""
        metric = metric or METRICS[policy]
        return self.behind(policy, metric) <= (IMPACT_EQUAL if metric == "impact" else EQUAL)


def scenario_of(
    seed: int, *, duration: int = LASTS, subscriptions: tuple[int, int] = SUBSCRIPTIONS
) -> tuple[Scenario, Random]:
    """A random scenario, and the random source that made it.

    Subscriptions come one after the other while events are published, so that figures of the earlier ones are known.
    All nodes have the same capacity: the load that counts is that in instances.
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
    scenario = random_scenario(seed, topology=alike, subscriptions=random.randrange(*subscriptions), duration=duration)
    asked = tuple(replace(each, at=FIRST + place * APART) for place, each in enumerate(scenario.subscriptions))
    return replace(scenario, subscriptions=asked, lead=5 * SECOND), random


def impact_scenario_of(seed: int) -> tuple[Scenario, ScenarioSubscription]:
    """The scenario before, and the subscription whose impact is measured.

    Earlier subscriptions have random policies, and stay on random nodes: reactions of others to the new one, or random
        moves at the same time, are no impact of it.
    """
    scenario, random = scenario_of(seed, duration=IMPACT_LASTS, subscriptions=BEFORE)
    *there, more = scenario.subscriptions
    nodes = sorted(scenario.topology.nodes)
    pinned = []
    for each in there:
        policy = random.choice(list(NAMED.values()))
        hints = Hints(nodes=tuple(random.sample(nodes, policy.replicas)))
        pinned.append(replace(each, distribution=policy.name, hints=hints))
    return replace(scenario, subscriptions=tuple(pinned)), replace(more, at=LATE)


def compare(
    seed: int, *, metrics: Sequence[str] = tuple(METRICS.values()), policies: Sequence[str] = tuple(NAMED)
) -> ComparedScenario:
    """One scenario under each policy."""
    figures: dict[str, dict[str, float]] = {metric: {} for metric in metrics}
    refused: dict[str, Mapping[str, str]] = {}
    measured = [metric for metric in metrics if metric in _MEASURES]
    if measured:
        scenario, _ = scenario_of(seed)
        for policy in policies:
            run = figures_of(replace(scenario, distribution=policy), COUNT_FROM)
            if run.refused:
                refused[policy] = run.refused
            for metric in measured:
                figures[metric][policy] = _MEASURES[metric](run)
    if "reliability" in metrics:
        scenario, _ = scenario_of(seed, duration=LOSS_LASTS)
        for policy in policies:
            own = replace(scenario, distribution=policy)
            figures["reliability"][policy] = reliability_of(own, figures_of(own, LOSS_FROM))
    if "impact" in metrics:
        before, more = impact_scenario_of(seed)
        base = figures_of(before, IMPACT_FROM)
        for policy in policies:
            figures["impact"][policy] = impact_of(before, replace(more, distribution=policy), base, IMPACT_FROM)
    return ComparedScenario(seed, figures, refused)


def compare_many(seeds: range, metrics: tuple[str, ...], processes: int) -> Iterator[ComparedScenario]:
    """Many scenarios, in the order they are done; several at once."""
    from concurrent.futures import ProcessPoolExecutor, as_completed

    if processes == 1:
        for seed in seeds:
            yield compare(seed, metrics=metrics)
        return
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(compare, seed, metrics=metrics) for seed in seeds]):
            yield done.result()


_MEASURES: Final[Mapping[str, Callable[[RunFigures], float]]] = {
    "latency": lambda run: run.latency or 0.0,
    "bandwidth": lambda run: float(run.bytes),
    "load": lambda run: run.load,
}
"""Metrics measured in a run without a loss."""

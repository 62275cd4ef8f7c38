"""The five named policies against one another, each at what it is called after, on scenarios by chance.

composite-event-framework-2004, Table 1, claims for each policy what it is best at; here that is tried. In each scenario
all subscriptions have one policy, and the run is made once with each of the five. It is counted when everybody has
settled: detectors are placed by estimates, and looked at again when it is known what they do.

For the impact the subscriptions that are there have policies by chance, and one more arrives with each of the five in
turn. What is there stays where it is: in earlier runs it moved now and then, for reasons of its own, and that was more
than what the one more added. There are more of them, too, for beside two or three any other is the largest.

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
from distced.simulations.network.scenario_model import Asked, Scenario

METRICS: Final[Mapping[str, str]] = {
    "min-latency": "latency",
    "min-bandwidth": "bandwidth",
    "min-impact": "impact",
    "min-load": "load",
    "max-reliability": "reliability",
}
"""By policy, what it wants to be best at."""

LASTS: Final = 80 * SECOND
"""How long events are published, ns."""

LOSS_LASTS: Final = 30 * SECOND
"""The same where nodes are lost, each in a run of its own, ns."""

SUBSCRIPTIONS: Final = (3, 7)
"""How many subscriptions there are, from and below."""

FIRST: Final = 3 * SECOND
"""When the first subscription comes, ns after the start."""

APART: Final = 2 * SECOND
"""How long after one another subscriptions come, ns."""

COUNT_FROM: Final = 50 * SECOND
"""From when on it is counted, ns after the start: all subscriptions are there, it is known what they do, and the
policies have looked at most detectors once more and moved what they would have placed elsewhere."""

LOSS_FROM: Final = 20 * SECOND
"""The same where nodes are lost: all subscriptions are there."""

BEFORE: Final = (8, 13)
"""How many subscriptions are there before the one whose impact is measured, from and below."""

LATE: Final = 40 * SECOND
"""When the one more comes whose impact is measured, ns after the start: of the others it is known what they do."""

IMPACT_FROM: Final = 42 * SECOND
"""From when on its impact is counted, ns after the start."""

IMPACT_LASTS: Final = 70 * SECOND
"""How long events are published where the impact is counted, ns: a detector is not moved as soon as that."""

EQUAL: Final = 0.01
"""What counts as equal, as a share."""

IMPACT_EQUAL: Final = 0.03
"""The same of an impact, as a share of what was there before. From one half of the time that is counted to the other
that differs by more, without anything having come: half of the difference in the load of the busiest node is 4 % of it,
median over scenarios, and what is decided is decided by what was measured earlier."""


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

    def behind(self, policy: str, metric: str) -> float:
        """By what share of it the best policy is better at a metric; 0 for the best itself.

        Reliability and impact are shares themselves, of what is detected without a loss and of all there was before,
        so of these it is the difference.
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
    scenario = random_scenario(seed, topology=alike, subscriptions=random.randrange(*subscriptions), duration=duration)
    asked = tuple(replace(each, at=FIRST + place * APART) for place, each in enumerate(scenario.subscriptions))
    return replace(scenario, subscriptions=asked, lead=5 * SECOND), random


def impact_scenario_of(seed: int) -> tuple[Scenario, Asked]:
    """What is there before, and the subscription whose impact is measured.

    What is there has policies by chance, and nodes by chance that it stays on: what others do because of the one more,
    or by chance at the same time, is no impact of it.
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
) -> Compared:
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


_MEASURES: Final[Mapping[str, Callable[[RunFigures], float]]] = {
    "latency": lambda run: run.latency or 0.0,
    "bandwidth": lambda run: float(run.bytes),
    "load": lambda run: run.load,
}
"""What is read off a run without a loss."""

"""Comparison of the five named policies, each at the metric it is named after, on random scenarios.

composite-event-framework-2004, Table 1, claims a metric at which each policy is best; this tests the claim. In each
scenario all subscriptions have one policy, and the run is made once with each of the five. The measurement begins when
all detectors have settled: they are placed by estimates, and checked again with measured figures. A policy wins where
no other is better at its metric by more than `EQUAL`: a byte more or less is the length of a number in a message.

* *latency*: from the last event of a match to the subscriber, mean over all notifications, ns. Where a policy has fewer
  than `FEW` of them, all policies are measured over a longer time: a mean of four is a matter of chance.
  So they are for load and impact where the busiest node touches fewer than `FEW_TOUCHED` instances.
* *bandwidth*: bytes summed over links while events are published, acknowledgements included, and without the directory,
  whose traffic is the same under every policy.
* *load*: instances touched a second on the busiest node of each `PERIOD`, mean over these: a detector that moves
  loads one node after the other, not each with a part of it.
* *reliability*: share of the composite events detected without a loss that are detected although a node is lost in the
  middle, mean over the nodes.
* *impact*: of one more subscription: bytes added to the links plus load added to the busiest node, each as a share of
  the value before. Earlier detectors, of random policies, are pinned, for their own moves would outweigh it; and there
  are more of them, for beside two or three any other is the largest.

All figures are measured in the simulation, not taken from reports of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import mean
from typing import Any, Final

from distced.middleware.model.events import EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, Hints
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.deployment import Deployment
from distced.simulations.network.scenario.outcome import ScenarioOutcome
from distced.simulations.network.scenario.random_scenario import random_scenario
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Crash, Scenario, ScenarioSubscription
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.links import ACKNOWLEDGEMENT

METRICS: Final[Mapping[str, str]] = {
    "min-latency": "latency",
    "min-bandwidth": "bandwidth",
    "min-impact": "impact",
    "min-load": "load",
    "max-reliability": "reliability",
}
"""Metric of each policy."""

# Instants in ns after the start; ranges of numbers have their end excluded.
LASTS: Final = 80 * SECOND  # of publishing
LONG_LASTS: Final = 480 * SECOND  # the same where there are few notifications
FEW: Final = 30  # notifications in the measured time
FEW_TOUCHED: Final = 300  # instances on the busiest node in the measured time, which varies by 6 % there
LOSS_LASTS: Final = 30 * SECOND  # the same where nodes are lost, each in a run of its own
SUBSCRIPTIONS: Final = (3, 7)
FIRST: Final = 3 * SECOND  # first subscription
APART: Final = 2 * SECOND  # interval between subscriptions
COUNT_FROM: Final = 50 * SECOND  # figures are known, and policies have checked, and maybe moved, most detectors
LOSS_FROM: Final = 20 * SECOND  # the same where nodes are lost: all subscriptions are there
BEFORE: Final = (8, 13)  # subscriptions before the one whose impact is measured
LATE: Final = 40 * SECOND  # additional subscription whose impact is measured: figures of the others are known
IMPACT_FROM: Final = 42 * SECOND
IMPACT_LASTS: Final = 70 * SECOND  # of publishing where the impact is measured: too short for a detector to be moved
EQUAL: Final = 0.01  # greatest relative difference that counts as equal
IMPACT_EQUAL: Final = 0.03
"""The same of an impact, as a share of the load before: decisions depend on earlier measurements. Without any new
subscription the loads of the busiest node in two halves of the measured time differ by 8 %, median over scenarios.
"""
COUNTED: Final = ("e", "c", "a")  # the areas of topics whose bytes count
PERIOD: Final = 10 * SECOND  # of the busiest node: as often detectors are reconsidered
SAMPLE: Final = SECOND  # interval between samples of the instances touched, ns: a moved detector counts from zero


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run without a loss."""

    latency: float | None  # None without notifications
    notifications: int
    bytes: int
    load: float
    found: Mapping[str, frozenset[EventId]]  # ids of the composite events, by subscription
    hosts: tuple[str, ...]  # the nodes with detectors at the end
    refused: Mapping[str, str]  # reasons, by subscription


def figures_of(scenario: Scenario, since: int) -> RunFigures:
    """Run a scenario and measure its figures.

    Args:
        since: begin of the measurement, ns after the start; events that happened since then count.
    """
    simulation = Simulation(scenario)
    observed = observe(simulation, since)
    outcome = observed.outcome
    delays = [
        each.delay
        for subscribed in outcome.subscriptions.values()
        for each in subscribed.found.values()
        if each.event.hi >= scenario.start + since
    ]
    return RunFigures(
        mean(delays) if delays else None,
        len(delays),
        sum(observed.bytes.values()),
        observed.busiest,
        _found(outcome),
        tuple(sorted(name for name, each in outcome.nodes.items() if each.detectors)),
        {name: each.refused for name, each in outcome.subscriptions.items() if each.refused},
    )


@dataclass(frozen=True, slots=True)
class Observed:
    """A run, with what was measured in a part of it.

    Attributes:
        bytes: by link (from site, to site), acknowledgements included; all messages of these areas are at QoS 1.
        touched: instances touched, by node.
        busiest: instances touched a second on the busiest node of each `PERIOD`, mean over these.
        detectors: entries at the end of the measurement, by id.
    """

    outcome: ScenarioOutcome
    bytes: Mapping[tuple[str, str], int]
    touched: Mapping[str, int]
    busiest: float
    detectors: Mapping[str, DetectorEntry]


def observe(simulation: Simulation, since: int, until: int | None = None) -> Observed:
    """Run a simulation to its end, and measure from `since` to `until`, ns after the start; by default to the end of
    publishing."""
    network, scenario = simulation.network, simulation.scenario
    network.engine.run(scenario.start + since)
    before = _bytes(network)
    periods: list[Counter[str]] = []
    seen = _touched(simulation.deployment)
    until = scenario.duration if until is None else until
    begin, end = scenario.start + since, scenario.start + until
    while network.engine.instant < end:
        if network.engine.instant - begin >= len(periods) * PERIOD:
            periods.append(Counter())
        network.engine.run(min(network.engine.instant + SAMPLE, end))
        now = _touched(simulation.deployment)
        for (node, detector), count in now.items():
            known = seen.get((node, detector), 0)
            periods[-1][node] += count - known if count >= known else count
        seen = now
    sent = {link: size - before[link] for link, size in _bytes(network).items()}
    most = sum(max(each.values(), default=0) for each in periods)
    busiest = most * SECOND / (until - since)
    detectors = dict(simulation.administrator.detectors)
    return Observed(simulation.run(), sent, sum(periods, Counter()), busiest, detectors)


def reliability_of(scenario: Scenario, without_loss: RunFigures) -> float:
    """Share of composite events detected although a node is lost, mean over nodes; those without detectors count 1."""
    expected = sum(map(len, without_loss.found.values()))
    if not expected:
        return 1.0
    shares = [1.0] * (len(scenario.topology.nodes) - len(without_loss.hosts))
    for node in without_loss.hosts:
        lost = replace(scenario, faults=(*scenario.faults, Crash(scenario.duration * 3 // 4, node, silent=False)))
        found = _found(Simulation(lost).run())
        shares.append(sum(len(ids & found[name]) for name, ids in without_loss.found.items()) / expected)
    return mean(shares)


def impact_of(scenario: Scenario, more: ScenarioSubscription, before: RunFigures, since: int) -> float:
    """Additional bytes and load of the busiest node by one more subscription, each as a share of those before."""
    after = figures_of(replace(scenario, subscriptions=(*scenario.subscriptions, more)), since)
    more_load = max(after.load - before.load, 0.0)
    return (after.bytes - before.bytes) / (before.bytes or 1) + more_load / (before.load or 1.0)


def _bytes(network: Fabric) -> dict[tuple[str, str], int]:
    """Bytes so far by link, acknowledgements included: all messages of these areas are at QoS 1."""
    return {
        (link.origin, link.target): sum(
            size + messages * ACKNOWLEDGEMENT for area, (messages, size) in link.traffic.items() if area in COUNTED
        )
        for link in network.links.all.values()
    }


def _touched(deployment: Deployment) -> dict[tuple[str, str], int]:
    return {
        (name, detector): hosted.detector.touched
        for name, each in deployment.nodes.items()
        for detector, hosted in each.node.hosted.items()
    }


def _found(outcome: ScenarioOutcome) -> dict[str, frozenset[EventId]]:
    return {name: frozenset(each.found) for name, each in outcome.subscriptions.items()}


@dataclass(frozen=True, slots=True)
class ComparedScenario:
    """A scenario under each policy."""

    seed: int
    figures: Mapping[str, Mapping[str, float]]  # by metric and policy; less is better, but of reliability more is
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # reasons of refusals, by policy

    def behind(self, policy: str, metric: str) -> float:
        """Relative advantage of the best policy at a metric; 0 for the best itself.

        Of reliability and impact, which are shares themselves, it is the difference.
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


def unlimited_topology(random: Random, **numbers: tuple[int, int]) -> Topology:
    """A random topology, nodes without a limit of capacity; of least to greatest numbers, the latter excluded."""
    kind = random.choice(RANDOM_KINDS)
    drawn: dict[str, Any] = {name: random.randrange(*each) for name, each in numbers.items()}
    made = random_topology(kind, random, **drawn)
    nodes = [replace(each, capacity=None) for each in made.nodes.values()]
    return Topology(made.sites.values(), nodes, made.publishers.values(), made.subscribers.values(), made.links)


def scenario_of(
    seed: int, *, duration: int = LASTS, subscriptions: tuple[int, int] = SUBSCRIPTIONS
) -> tuple[Scenario, Random]:
    """A random scenario, and the random source that made it.

    Subscriptions come one after the other while events are published, so that figures of the earlier ones are known.
    """
    random = Random(f"policies {seed}")
    topology = unlimited_topology(random, sites=(3, 8), nodes=(3, 7), publishers=(4, 9), subscribers=(2, 5))
    scenario = random_scenario(
        seed, topology=topology, subscriptions=random.randrange(*subscriptions), duration=duration
    )
    asked = tuple(replace(each, at=FIRST + place * APART) for place, each in enumerate(scenario.subscriptions))
    return replace(scenario, subscriptions=asked, lead=5 * SECOND, validates=False), random


def impact_scenario_of(seed: int, duration: int = IMPACT_LASTS) -> tuple[Scenario, ScenarioSubscription]:
    """The scenario before, and the subscription whose impact is measured.

    Earlier subscriptions have random policies, and stay on random nodes: moves of others are no impact of the new one.
    """
    scenario, random = scenario_of(seed, duration=duration, subscriptions=BEFORE)
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
        runs = _runs(seed, policies)
        refused = {policy: run.refused for policy, run in runs.items() if run.refused}
        few = {
            "latency": min(run.notifications for run in runs.values()) < FEW,
            "load": max(run.load for run in runs.values()) * (LASTS - COUNT_FROM) / SECOND < FEW_TOUCHED,
        }
        longer = _runs(seed, policies, LONG_LASTS) if any(few.get(metric) for metric in measured) else runs
        for metric in measured:
            measure, taken = _MEASURES[metric], longer if few.get(metric) else runs
            figures[metric] = {policy: measure(run) for policy, run in taken.items()}
    if "reliability" in metrics:
        scenario, _ = scenario_of(seed, duration=LOSS_LASTS)
        for policy in policies:
            own = replace(scenario, distribution=policy)
            figures["reliability"][policy] = reliability_of(own, figures_of(own, LOSS_FROM))
    if "impact" in metrics:
        before, more = impact_scenario_of(seed)
        base = figures_of(before, IMPACT_FROM)
        if base.load * (IMPACT_LASTS - IMPACT_FROM) / SECOND < FEW_TOUCHED:
            before, more = impact_scenario_of(seed, LONG_LASTS)
            base = figures_of(before, IMPACT_FROM)
        for policy in policies:
            figures["impact"][policy] = impact_of(before, replace(more, distribution=policy), base, IMPACT_FROM)
    return ComparedScenario(seed, figures, refused)


def _runs(seed: int, policies: Sequence[str], duration: int = LASTS) -> dict[str, RunFigures]:
    """Figures of a scenario by policy, without losses."""
    scenario, _ = scenario_of(seed, duration=duration)
    return {policy: figures_of(replace(scenario, distribution=policy), COUNT_FROM) for policy in policies}


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

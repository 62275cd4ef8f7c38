"""Figures of a run on the simulated network, by the metrics that the named policies are named after.

* *latency*: from the last event of a match to the subscriber, mean over all notifications, ns.
* *bandwidth*: bytes summed over links while events are published: events, composite events, heartbeats, messages
  between nodes, and the acknowledgements. The directory, whose traffic is the same under every policy, is left out.
* *load*: instances touched a second on the busiest node.
* *reliability*: share of the composite events detected without a loss that are detected although a node is lost in the
  middle, mean over the nodes, each of which is lost in turn.
* *impact*: of one more subscription: bytes added to the links plus load added to the busiest node, each as a share of
  the value before.

All figures are measured in the simulation, not taken from reports of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import mean
from typing import Final

from distced.middleware.model.events import EventId
from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.deployment import Deployment
from distced.simulations.network.scenario.outcome import ScenarioOutcome
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Crash, Scenario, ScenarioSubscription
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.packet_sizes import ACKNOWLEDGEMENT

COUNTED: Final = ("e", "c", "a")  # the areas of topics whose bytes count
SAMPLE: Final = SECOND  # interval between samples of the instances touched, ns: a moved detector counts from zero


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run without a loss."""

    latency: float | None  # None without notifications
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
    network = simulation.network
    network.engine.run(scenario.start + since)
    before = _bytes(network)
    touched: Counter[str] = Counter()
    seen = _touched(simulation.deployment)
    end = scenario.start + scenario.duration
    while network.engine.instant < end:
        network.engine.run(min(network.engine.instant + SAMPLE, end))
        now = _touched(simulation.deployment)
        for (node, detector), count in now.items():
            known = seen.get((node, detector), 0)
            touched[node] += count - known if count >= known else count
        seen = now
    sent = _bytes(network) - before
    outcome = simulation.run()
    delays = [
        each.delay
        for subscribed in outcome.subscriptions.values()
        for each in subscribed.found.values()
        if each.event.hi >= scenario.start + since
    ]
    return RunFigures(
        mean(delays) if delays else None,
        sent,
        max(touched.values(), default=0) * SECOND / (scenario.duration - since),
        _found(outcome),
        tuple(sorted(name for name, each in outcome.nodes.items() if each.detectors)),
        {name: each.refused for name, each in outcome.subscriptions.items() if each.refused},
    )


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


def _bytes(network: Fabric) -> int:
    """Bytes over links so far, acknowledgements included: all messages of these areas are at QoS 1."""
    counted = [each.traffic[area] for each in network.links.all.values() for area in COUNTED if area in each.traffic]
    return sum(size + messages * ACKNOWLEDGEMENT for messages, size in counted)


def _touched(deployment: Deployment) -> dict[tuple[str, str], int]:
    return {
        (name, detector): hosted.detector.touched
        for name, each in deployment.nodes.items()
        for detector, hosted in each.node.hosted.items()
    }


def _found(outcome: ScenarioOutcome) -> dict[str, frozenset[EventId]]:
    return {name: frozenset(each.found) for name, each in outcome.subscriptions.items()}

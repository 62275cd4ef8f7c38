"""Runs of a scenario under a treatment: a policy, a placement that stays, a central detector, or an optimal placement.

* A *policy* is one of the five, one of an installed package, or its three words.
* *static POLICY*: detectors stay where the policy has them before the rates of a drift change, after it has measured
  them; the other treatment of the pair is the policy itself, which goes on to adapt.
* *central*: all patterns whole, on the one node with the least mean latency from publishers and to subscribers.
* *optimum-bandwidth*, *optimum-latency*, *optimum-load*: the placement that the mixed-integer programme of placement
  analysis proves optimal for the mean rates of the whole run, which no policy knows beforehand. Of several placements
  that are equally good by these rates it is the one that the installed solver finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, pstdev
from typing import Final

from msgspec.structs import replace as replace_entry

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import HintEntry
from distced.policies.distribution.policy import GROUP, NAMED, parse_policy
from distced.policies.distribution.situation.rates import hosting
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.benchmarks.policy_comparison import Observed, observe
from distced.simulations.experiments.model import ExperimentError, Row
from distced.simulations.experiments.topologies import LINK_CLASSES, link_class
from distced.simulations.network.scenario.outcome import ScenarioOutcome
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Crash, Scenario
from distced.simulations.placement.analysis import hints_of
from distced.simulations.placement.evaluation import OWN, Metric
from distced.simulations.placement.history_figures.counting import count
from distced.simulations.placement.history_figures.measuring import instance_of, located, types_of
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import PatternRequest, space_of
from distced.simulations.plots import percentile

CENTRAL: Final = "central"
STATIC: Final = "static "
OPTIMA: Final[Mapping[str, Metric]] = {
    "optimum-latency": "latency",
    "optimum-bandwidth": "bandwidth",
    "optimum-load": "load",
}

SOLVER: Final = 120.0
"""Time limit of the solver, s; a run beyond it fails, for its result would depend on the machine."""

LOST_AT: Final = 0.5
"""Loss of a node, as a share of the measured part of a run."""


def check_treatment(text: str) -> None:
    """Check the name of a treatment; raises `DistcedError`."""
    if text == CENTRAL or text in OPTIMA:
        return
    try:
        parse_policy(text.removeprefix(STATIC))
    except DistcedError as error:
        others = [CENTRAL, *OPTIMA]
        near = get_close_matches(text, [*NAMED, *others], n=1)
        raise ExperimentError(
            "no treatment", given=text, allowed=f"{error.allowed}; {', '.join(others)}; {STATIC}and a policy",
            advice=f"did you mean {near[0]}?" if near else error.advice,
        ) from None  # fmt: skip


def code_of(treatment: str) -> str:
    """Digest of the module of an installed policy; empty for the named ones, which are part of distced."""
    for point in entry_points(group=GROUP, name=treatment.removeprefix(STATIC)):
        found = find_spec(point.module)
        if found is not None and found.origin is not None:
            return sha256(Path(found.origin).read_bytes()).hexdigest()[:16]
    return ""


@dataclass(frozen=True, slots=True)
class Treated:
    """A scenario under a treatment, measured from an instant on (ns after the start)."""

    scenario: Scenario
    since: int

    def figures(self, *, losses: bool) -> Row:
        """Figures of a run; with losses, those of a second run in which a node is lost, too."""
        observed = observe(Simulation(self.scenario), self.since)
        row = _figures(self.scenario, observed, self.since)
        if losses:
            row |= _with_loss(self.scenario, observed.outcome, self.since)
        return row


def treated(scenario: Scenario, treatment: str, since: int) -> Treated:
    """A scenario under a treatment."""
    if treatment == CENTRAL:
        return Treated(_central(scenario), since)
    if treatment in OPTIMA:
        return Treated(_optimal(scenario, OPTIMA[treatment]), since)
    if treatment.startswith(STATIC):
        return Treated(_static(scenario, treatment.removeprefix(STATIC), since), since)
    return Treated(replace(scenario, distribution=treatment), since)


def _central(scenario: Scenario) -> Scenario:
    topology = scenario.topology

    def latency(node: str) -> float:
        place = Place("node", node)
        to = fmean(topology.latency(each.place, place) for each in topology.publishers.values())
        return to + fmean(topology.latency(place, each.place) for each in topology.subscribers.values())

    node = min(sorted(topology.nodes), key=latency)
    asked = tuple(
        replace(each, decomposition="none", distribution="min-latency", hints=replace_entry(each.hints, nodes=(node,)))
        for each in scenario.subscriptions
    )
    return replace(scenario, subscriptions=asked)


def _static(scenario: Scenario, policy: str, until: int) -> Scenario:
    """The scenario with the placement of a policy at an instant, which stays."""
    simulation = Simulation(replace(scenario, distribution=policy))
    simulation.network.engine.run(scenario.start + until)
    entries = simulation.administrator.detectors
    hints = {name: HintEntry(tuple(hosting(entry)), entry.parts) for name, entry in entries.items()}
    return replace(scenario, distribution=policy, hints=hints)


def _optimal(scenario: Scenario, metric: Metric) -> Scenario:
    topology = scenario.topology
    registry = TypeRegistry(scenario.types)
    space = space_of(
        [
            PatternRequest(each.name, compile_pattern(each.pattern, registry), (Place("subscriber", each.subscriber),))
            for each in scenario.subscriptions
        ]
    )
    events = sorted(
        (event for stream in scenario.streams for send in stream.sends for event in send.events),
        key=lambda event: event.key,
    )
    sources = located({each.name: each.types for each in topology.publishers.values()}, topology)
    kinds = {each.name: each.attributes for each in scenario.types}
    end = scenario.start + scenario.duration
    counts = count(space, events, types_of(sources), scenario.start, end, kinds.get)
    instance = instance_of(counts, space, topology, sources)
    best = optimum(instance, metric, seconds=SOLVER)
    if not best.proven:
        raise ExperimentError("an optimum that was not proven in time", given=f"{SOLVER:g} s", where=metric,
                              advice="fewer nodes or subscriptions, or leave it out")  # fmt: skip
    return replace(scenario, distribution=OWN[metric], hints=hints_of(instance, best.detectors))


# Figures.


def _figures(scenario: Scenario, observed: Observed, since: int) -> Row:
    outcome, topology = observed.outcome, scenario.topology
    seconds = (scenario.duration - since) / SECOND
    delays = sorted(
        each.delay / MILLISECOND
        for subscribed in outcome.subscriptions.values()
        for each in subscribed.found.values()
        if each.event.hi >= scenario.start + since
    )
    loads = [observed.touched.get(node, 0) / seconds for node in topology.nodes]
    mean_load = fmean(loads)
    by_class = _by_class(topology, observed.bytes)
    served = [entry.subscriptions for entry in outcome.detectors.values()]
    return {
        "notifications": len(delays),
        "latency_ms": fmean(delays) if delays else None,
        "latency_p50_ms": percentile(delays, 0.5) if delays else None,
        "latency_p99_ms": percentile(delays, 0.99) if delays else None,
        "bytes_s": sum(by_class.values()) / seconds,
        **{f"bytes_{name}_s": size / seconds for name, size in by_class.items()},
        "cost_s": sum(_cost(topology)[link] * size for link, size in observed.bytes.items()) / seconds,
        "load_max": observed.busiest,
        "load_mean": mean_load,
        "load_spread": pstdev(loads) / mean_load if mean_load else None,
        "detectors": len(outcome.detectors),
        "shared": sum(number > 1 for number in served),
        "migrations": sum(each.at >= since for each in outcome.moved),
        "refused": sum(bool(each.refused) for each in outcome.subscriptions.values()),
    }


def _cost(topology: Topology) -> dict[tuple[str, str], float]:
    return {pair: link.cost for link in topology.links for pair in link.directions}


def _by_class(topology: Topology, sizes: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Bytes by class of link; classes without a link are left out."""
    classes = {pair: link_class(cost) for pair, cost in _cost(topology).items()}
    return {
        name: sum(size for link, size in sizes.items() if classes[link] == name)
        for name in LINK_CLASSES
        if name in classes.values()
    }


def _with_loss(scenario: Scenario, outcome: ScenarioOutcome, since: int) -> Row:
    """Share of the composite events after the loss of a node that are delivered nevertheless.

    The node is the one with the most detectors of the run without a loss; its process ends, and does not come back.
    """
    hosts: dict[str, int] = dict.fromkeys(sorted(scenario.topology.nodes), 0)
    for entry in outcome.detectors.values():
        hosts[entry.node] += 1
    node = max(hosts, key=hosts.__getitem__)
    at = since + round((scenario.duration - since) * LOST_AT)
    lost = Simulation(replace(scenario, faults=(*scenario.faults, Crash(at, node, silent=False)))).run()
    expected = _after(outcome, at)
    found = _after(lost, at)
    number = sum(map(len, expected.values()))
    kept = sum(len(ids & found.get(name, frozenset())) for name, ids in expected.items())
    return {"expected_after_loss": number, "delivered_after_loss": kept / number if number else None}


def _after(outcome: ScenarioOutcome, at: int) -> dict[str, frozenset[object]]:
    """Composite events by subscription that end after an instant."""
    start = outcome.scenario.start
    return {
        name: frozenset(identity for identity, each in subscribed.found.items() if each.event.hi >= start + at)
        for name, subscribed in outcome.subscriptions.items()
    }

"""Runs of a scenario under a treatment: a policy, a placement that stays, a central detector, or an optimal placement.

* A *policy* is one of the five, one of an installed package, or its three words.
* *static POLICY*: detectors stay where the policy has them before the rates of a drift change, after it has measured
  them; the other treatment of the pair is the policy itself, which goes on to adapt. Up to then both are the same.
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
from distced.middleware.model.timestamps import INSTANT_MAX, MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry
from distced.policies.distribution.policy import GROUP, NAMED, parse_policy
from distced.policies.distribution.situation.rates import hosting
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.benchmarks.policy_comparison import Observed, observe
from distced.simulations.experiments.model import ExperimentError, Row
from distced.simulations.experiments.topologies import LINK_CLASSES, link_class
from distced.simulations.network.scenario.outcome import ScenarioOutcome, expected
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Scenario
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

LOST_AT: Final = 0.8
"""Loss of a node, as a share of a run; the measured part of the run ends shortly before."""

ARRIVES_WITHIN: Final = 2 * SECOND
"""Time from the end of the measured part to the loss, ns: its composite events have arrived."""


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


def measured_until(scenario: Scenario) -> int:
    """End of the measured part of a run in which a node may be lost, ns after the start."""
    return round(scenario.duration * LOST_AT) - ARRIVES_WITHIN


@dataclass(frozen=True, slots=True)
class Treated:
    """A scenario under a treatment.

    Attributes:
        since, until: the measured part, ns after the start.
        static: whether detectors stay where they are at its begin.
    """

    scenario: Scenario
    since: int
    until: int
    static: bool = False

    def figures(self, *, losses: bool) -> Row:
        """Figures of a run; with losses a node is lost after the measured part."""
        scenario = self.scenario
        simulation = Simulation(scenario)
        engine = simulation.network.engine
        if self.static:
            engine.run(scenario.start + self.since)
            simulation.administrator.hint(_present(simulation.administrator.detectors))
        lost_at = scenario.start + self.until + ARRIVES_WITHIN
        if losses:
            engine.at(lost_at, _lose_node, simulation)
        observed = observe(simulation, self.since, self.until)
        row = _figures(self, observed)
        return row | after_loss(observed.outcome, lost_at) if losses else row


def treated(scenario: Scenario, treatment: str, since: int, until: int | None = None) -> Treated:
    """A scenario under a treatment, measured from and to an instant, by default the end of publishing."""
    until = scenario.duration if until is None else until
    if treatment == CENTRAL:
        return Treated(_central(scenario), since, until)
    if treatment in OPTIMA:
        return Treated(_optimal(scenario, OPTIMA[treatment]), since, until)
    policy = treatment.removeprefix(STATIC)
    return Treated(replace(scenario, distribution=policy), since, until, static=policy != treatment)


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


def _present(detectors: Mapping[str, DetectorEntry]) -> dict[str, HintEntry]:
    """Hints for the places where detectors are."""
    return {name: HintEntry(tuple(hosting(entry)), entry.parts) for name, entry in detectors.items()}


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


def _figures(made: Treated, observed: Observed) -> Row:
    scenario, outcome, topology = made.scenario, observed.outcome, made.scenario.topology
    seconds = (made.until - made.since) / SECOND
    begin = scenario.start + made.since
    # Time events may be behind the end of publishing.
    end = INSTANT_MAX if made.until == scenario.duration else scenario.start + made.until
    delays = sorted(
        each.delay / MILLISECOND
        for subscribed in outcome.subscriptions.values()
        for each in subscribed.found.values()
        if begin <= each.event.hi < end
    )
    loads = [observed.touched.get(node, 0) / seconds for node in topology.nodes]
    mean_load = fmean(loads)
    by_class = _by_class(topology, observed.bytes)
    served = [entry.subscriptions for entry in observed.detectors.values()]
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
        "detectors": len(observed.detectors),
        "shared": sum(number > 1 for number in served),
        "migrations": sum(made.since <= each.at < made.until for each in outcome.moved),
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


def _lose_node(simulation: Simulation) -> None:
    """Lose the node with the most detectors: its process ends, and does not come back."""
    hosts = dict.fromkeys(sorted(simulation.deployment.nodes), 0)
    for entry in simulation.administrator.detectors.values():
        if entry.node in hosts:
            hosts[entry.node] += 1
    simulation.deployment.crash_node(max(hosts, key=hosts.__getitem__), silent=False)


def after_loss(outcome: ScenarioOutcome, lost_at: int) -> Row:
    """Delivered share of the composite events after the loss of a node.

    They are those that one engine finds over all published events, as a run without a loss would deliver them.
    """
    number = kept = 0
    for name, found in expected(outcome.subscriptions, outcome).items():
        subscribed = outcome.subscriptions[name]
        if subscribed.refused or subscribed.active_at is None:
            continue
        due = {each.id for each in found if each.hi >= lost_at and each.lo > subscribed.active_at}
        number += len(due)
        kept += len(due & subscribed.found.keys())
    return {"expected_after_loss": number, "delivered_after_loss": kept / number if number else None}

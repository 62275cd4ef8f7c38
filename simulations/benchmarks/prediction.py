"""`distced bench prediction`: what placement analysis predicts of links, beside what the simulator measures.

Random networks, on which publishers publish by chance; what they publish is the history. It is counted, detectors are
placed by several policies and as the solver says, and each placement is played on the simulated network, told to the
nodes as hints, which do everything else as they do live. What each link carries in a stretch of it is compared with
what is predicted of where the detectors then stand (`simulations.placement.what_if`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.event_types import event_type
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import BrokerNode, Place
from distced.policies.topology.random_topology import RANDOM_KINDS, TYPES, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.benchmarks.report import Tell
from distced.simulations.network.scenario.event_streams import streams_by_rates
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.network.scenario_model import START
from distced.simulations.placement.analysis import hints_of
from distced.simulations.placement.by_policy import place_all
from distced.simulations.placement.evaluation import Detectors
from distced.simulations.placement.history_figures.counting import count
from distced.simulations.placement.history_figures.measuring import instance_of, located, types_of
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import Asked, Space, space_of
from distced.simulations.placement.problem import Instance
from distced.simulations.placement.what_if import LEAST, LOOK, SETTLE, LinkCompared, Recorded, replay

POLICIES: Final = ("min-latency", "min-bandwidth", "min-load")
OPTIMUM: Final = "optimum"
"""Whose placements are predicted: of these policies, and the best by bytes."""

SITES: Final = (4, 9)
NODES: Final = (3, 9)
PUBLISHERS: Final = (5, 11)
SUBSCRIBERS: Final = (2, 5)
PATTERNS: Final = (3, 7)
"""How many of these there are, from and below."""

WITHIN: Final = 0.1
"""By what share of what was measured a prediction may be off."""

_DURATION: Final = SETTLE + LOOK
_EVENT_TYPES: Final = tuple(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
_VALUES: Final = {name: {"k": tuple(range(5)), "v": tuple(range(10))} for name in TYPES}


@dataclass(frozen=True, slots=True)
class Predicted:
    """A placement on a network.

    Attributes:
        seed: of the network.
        links: those that carry at least `LEAST`.
        settled: whether nothing has moved while it was counted; else there is no one placement to compare with.
    """

    seed: int
    policy: str
    nodes: int
    detectors: int
    links: tuple[LinkCompared, ...]
    settled: bool

    @property
    def worst(self) -> float:
        """How far the prediction is off on the link where it is the farthest."""
        return max((abs(each.off) for each in self.links), default=0.0)


@dataclass(frozen=True, slots=True)
class PredictionFigures:
    """What the benchmark found."""

    tried: tuple[Predicted, ...]

    def off(self, policy: str = "") -> list[float]:
        """How far predictions are off, link by link, of one policy or all."""
        chosen = [each for each in self.tried if each.settled and policy in ("", each.policy)]
        return [abs(link.off) for each in chosen for link in each.links]

    @property
    def holds(self) -> bool:
        """Whether every link is predicted as well as it should be."""
        return all(each <= WITHIN for each in self.off())

    def middle(self, policy: str = "") -> float:
        """At the median."""
        return median(self.off(policy) or [0.0])


def measure(networks: int = 10, seed: int = 0, tell: Tell = lambda *_: None) -> PredictionFigures:
    """Predict and measure on so many networks.

    Args:
        tell: how far it is, in placements.
    """
    tried: list[Predicted] = []
    total = networks * (len(POLICIES) + 1)
    for number in range(networks):
        network = _Network(seed + number)
        for policy in (*POLICIES, OPTIMUM):
            tell(f"network {number + 1} of {networks}, {policy}", len(tried), total)
            tried.append(network.predict(policy))
    tell("done", total, total)
    return PredictionFigures(tuple(tried))


class _Network:
    """A network by chance, what is published on it, and what that means for detectors."""

    def __init__(self, seed: int) -> None:
        random = Random(f"prediction {seed}")
        self.seed = seed
        self.topology = _topology(random)
        self.space = _space(random, self.topology)
        streams = streams_by_rates(
            self.topology, _EVENT_TYPES, random, start=START, duration=_DURATION, values=_VALUES
        )  # fmt: skip
        events = [event for stream in streams for send in stream.sends for event in send.events]
        events.sort(key=lambda event: event.key)
        published = {each.name: each.types for each in self.topology.publishers.values()}
        sources = located(published, self.topology)
        self.recorded = Recorded(events, _EVENT_TYPES, sources, START)
        kinds = {each.name: each.attributes for each in _EVENT_TYPES}
        counts = count(self.space, events, types_of(sources), START, START + _DURATION, kinds.get)
        self.instance: Instance = instance_of(counts, self.space, self.topology, sources)

    def predict(self, policy: str) -> Predicted:
        detectors = self._placed(policy)
        instance = self.instance
        hints = hints_of(instance, detectors)
        by = "min-bandwidth" if policy == OPTIMUM else policy
        found = replay(self.recorded, self.space, self.topology, by, name=policy, hints=hints, seed=self.seed)
        links = tuple(each for each in found.links if max(each.measured, each.predicted) >= LEAST)
        settled = found.settled and not found.refused
        return Predicted(self.seed, policy, len(self.topology.nodes), len(found.detectors), links, settled)

    def _placed(self, policy: str) -> Detectors:
        if policy == OPTIMUM:
            return optimum(self.instance, "bandwidth").detectors
        placed = place_all(self.instance, NAMED[policy])
        self.instance = self.instance.with_ways(placed.plans)
        return placed.detectors


def _topology(random: Random) -> Topology:
    """Nodes have room for all, lest a subscription be refused."""
    made = random_topology(
        random.choice(RANDOM_KINDS),
        random,
        sites=random.randrange(*SITES),
        nodes=random.randrange(*NODES),
        publishers=random.randrange(*PUBLISHERS),
        subscribers=random.randrange(*SUBSCRIBERS),
    )
    return Topology(
        made.sites.values(),
        [BrokerNode(each.name, each.site) for each in made.nodes.values()],
        made.publishers.values(),
        made.subscribers.values(),
        made.links,
    )


def _space(random: Random, topology: Topology) -> Space:
    subscribers: Sequence[str] = sorted(topology.subscribers)
    texts = random_patterns(random, topology.types, random.randrange(*PATTERNS))
    return space_of(
        [
            Asked(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
            for number, text in enumerate(texts, 1)
        ]
    )

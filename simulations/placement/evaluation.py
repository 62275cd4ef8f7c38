"""Cost of a placement: bytes on links, delays, loads, and losses by the failure of a node.

A placement is the entries of detectors as in a directory, so that a policy's suggestion, the optimum and the result of
a simulation are evaluated alike, with the paths, delays and uses of policies (`situation`): here is no model of a
network. *Reliability* is given as its loss: the share of composite events not detected while a node is down, mean over
the nodes. A detector with two hosts outlives either; one that reads a part does not outlive the part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, Literal, TypeAlias, get_args

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.estimate.delays import arrivals, mean
from distced.policies.distribution.situation.rates import DEEPEST, hosting
from distced.policies.distribution.situation.situation import Situation
from distced.simulations.placement.problem import PlacementProblem

Metric: TypeAlias = Literal["bandwidth", "latency", "load", "reliability"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)

OWN: Final[Mapping[Metric, str]] = {
    "bandwidth": "min-bandwidth",
    "latency": "min-latency",
    "load": "min-load",
    "reliability": "max-reliability",
}
"""The policy of each metric."""

Detectors: TypeAlias = Mapping[str, DetectorEntry]
"""A placement: entries of the directory, by id."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a placement.

    Attributes:
        links, traffic: bytes a second by (from site, to site), on each link, and between sites that send and receive.
        delays: by the index of a pattern, ns until a subscriber receives, mean over its subscribers.
        loads, uses: by node, instances touched a second, and shares of capacities where these are known.
        lost: share of composite events lost with a node, mean over the nodes.
    """

    links: Mapping[tuple[str, str], float]
    delays: tuple[float, ...]
    loads: Mapping[str, float]
    uses: Mapping[str, float]
    lost: float
    overloaded: tuple[str, ...]
    traffic: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def bytes(self) -> float:
        """Bytes a second, summed over links."""
        return sum(self.links.values())

    @property
    def delay(self) -> float:
        """Delay, ns, mean over patterns."""
        return mean(self.delays)

    @property
    def unheard(self) -> int:
        """Number of patterns with a subscriber or source out of reach."""
        return sum(not isfinite(each) for each in self.delays)

    @property
    def peak(self) -> float:
        """Utilisation of the busiest node."""
        return max(self.uses.values(), default=0.0)

    def by(self, metric: Metric) -> float:
        """The figure of a metric; less is better."""
        match metric:
            case "bandwidth":
                return self.bytes
            case "latency":
                return self.delay
            case "load":
                return self.peak
            case _:
                return self.lost


def evaluate(instance: PlacementProblem, detectors: Detectors) -> Cost:
    """Cost of a placement."""
    situation = instance.situation(detectors)
    missing = [name for name in instance.space.roots if name not in situation.detectors]
    if missing:
        raise DistcedError("a placement without the detector of a pattern", given=", ".join(missing))
    uses = dict(situation.uses)
    overloaded = tuple(node for node, use in uses.items() if situation.knows_capacity and use > 1.0)
    return Cost(
        situation.bytes_by_link,
        tuple(_delay(situation, instance, place) for place in range(len(instance.space.asked))),
        {node: situation.load(node) for node in uses},
        uses,
        _lost(instance, situation),
        overloaded,
        situation.bytes_by_ends,
    )


def fatal(name: str, detectors: Detectors, read: Mapping[str, tuple[str, ...]], depth: int = DEEPEST) -> frozenset[str]:
    """The nodes without which a detector detects nothing; `read` has the detectors that each reads by their types."""
    entry = detectors.get(name)
    if entry is None or not depth:
        return frozenset()
    hosts = hosting(entry)
    own = frozenset(hosts) if len(hosts) == 1 else frozenset()
    return own.union(*(fatal(each, detectors, read, depth - 1) for each in (*entry.parts, *read.get(name, ()))))


def gap(cost: float, best: float, metric: Metric) -> float:
    """Distance of a cost from the least: relative to it, of reliability a difference of shares."""
    if metric == "reliability" or cost == best:
        return cost - best
    return (cost - best) / best if best else float("inf")


def parse_metrics(text: str) -> tuple[Metric, ...]:
    """Metrics of a text, separated by commas; all for an empty text."""
    named = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for each in named:
        if each not in METRICS:
            raise DistcedError("not a metric", given=each, allowed=", ".join(METRICS), where="--metrics")
    return tuple(metric for metric in METRICS if not named or metric in named)


def _delay(situation: Situation, instance: PlacementProblem, place: int) -> float:
    arrived = arrivals(situation, instance.space.roots[place])
    subscribers = instance.space.asked[place].subscribers
    return mean(
        min((at + situation.to_place(home, each) for home, at in arrived.items()), default=0.0) for each in subscribers
    )


def _lost(instance: PlacementProblem, situation: Situation) -> float:
    space, nodes = instance.space, situation.nodes
    read = {name: space.named(space.whole(name)) for name in space.alternatives}
    rates = [instance.foreseen[name].rate for name in space.roots]
    weights = rates if any(rates) else [1.0] * len(rates)
    lost = sum(
        weight * len(fatal(name, situation.detectors, read) & nodes.keys())
        for name, weight in zip(space.roots, weights, strict=True)
    )
    return lost / (sum(weights) * len(nodes)) if nodes else 0.0

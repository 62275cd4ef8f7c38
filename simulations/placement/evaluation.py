"""What a placement would mean: bytes on links, delays, loads, and what the loss of a node would cost.

A placement is the entries of detectors as a directory has them, so that what a policy suggests, what the optimum says
and what a simulation has come to are held to the same. Ways, delays and uses are those that policies reckon with
(`policies.distribution.situation.situation`): nothing here knows how a network works.

*Reliability* is told as what is lost: the share of composite events that are not detected while a node is down, mean
over the nodes. A detector with two hosts outlives either; one that reads a part does not outlive the part.
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
from distced.simulations.placement.problem import Instance

Metric: TypeAlias = Literal["bandwidth", "latency", "load", "reliability"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)

OWN: Final[Mapping[Metric, str]] = {
    "bandwidth": "min-bandwidth",
    "latency": "min-latency",
    "load": "min-load",
    "reliability": "max-reliability",
}
"""By metric the policy that is called after it."""

Detectors: TypeAlias = Mapping[str, DetectorEntry]
"""A placement: entries of the directory, by id."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a placement means.

    Attributes:
        links: bytes a second on each link that carries any, by (from site, to site).
        delays: by the place of a pattern among those that are asked for, ns until a subscriber hears, mean over its
            subscribers.
        loads: instances touched a second, by node.
        uses: the same as shares of capacities, where these are known.
        lost: the share of composite events that is lost with a node, mean over the nodes.
        overloaded: the nodes that would have more to do than they can.
        traffic: bytes a second that are sent from a site for another one, by (from site, to site).
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
        """ns, mean over patterns."""
        return mean(self.delays)

    @property
    def unheard(self) -> int:
        """How many patterns have subscribers that never hear of them: there is no way to their detector, or from it."""
        return sum(not isfinite(each) for each in self.delays)

    @property
    def peak(self) -> float:
        """The use of the node that is used the most."""
        return max(self.uses.values(), default=0.0)

    def by(self, metric: Metric) -> float:
        """The figure that a metric is about: the less, the better."""
        match metric:
            case "bandwidth":
                return self.bytes
            case "latency":
                return self.delay
            case "load":
                return self.peak
            case _:
                return self.lost


def evaluate(instance: Instance, detectors: Detectors) -> Cost:
    """What a placement means."""
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
    """The nodes without which a detector finds nothing any more.

    Args:
        read: the detectors that each reads by their types.
    """
    entry = detectors.get(name)
    if entry is None or not depth:
        return frozenset()
    hosts = hosting(entry)
    own = frozenset(hosts) if len(hosts) == 1 else frozenset()
    return own.union(*(fatal(each, detectors, read, depth - 1) for each in (*entry.parts, *read.get(name, ()))))


def gap(cost: float, best: float, metric: Metric) -> float:
    """How far a cost is from the least: as a share of that, of reliability as a difference of shares."""
    if metric == "reliability" or cost == best:
        return cost - best
    return (cost - best) / best if best else float("inf")


def parse_metrics(text: str) -> tuple[Metric, ...]:
    """Metrics as people write them, apart by commas; all for an empty text."""
    named = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for each in named:
        if each not in METRICS:
            raise DistcedError("not a metric", given=each, allowed=", ".join(METRICS), where="--metrics")
    return tuple(metric for metric in METRICS if not named or metric in named)


def _delay(situation: Situation, instance: Instance, place: int) -> float:
    arrived = arrivals(situation, instance.space.roots[place])
    subscribers = instance.space.asked[place].subscribers
    return mean(
        min((at + situation.to_place(home, each) for home, at in arrived.items()), default=0.0) for each in subscribers
    )


def _lost(instance: Instance, situation: Situation) -> float:
    space, nodes = instance.space, situation.nodes
    read = {name: space.named(space.whole(name)) for name in space.ways}
    rates = [instance.foreseen[name].rate for name in space.roots]
    weights = rates if any(rates) else [1.0] * len(rates)
    lost = sum(
        weight * len(fatal(name, situation.detectors, read) & nodes.keys())
        for name, weight in zip(space.roots, weights, strict=True)
    )
    return lost / (sum(weights) * len(nodes)) if nodes else 0.0

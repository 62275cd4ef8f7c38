"""Distances in a network for the optimum: links between places, delays of paths, candidate nodes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import product
from math import inf
from typing import Final, NamedTuple, TypeAlias

from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.estimate.delays import Input, from_source, waited
from distced.policies.distribution.estimate.detector_estimate import streams_of
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, inputs
from distced.policies.topology.model import Place
from distced.simulations.placement.problem import PlacementProblem

MOST: Final = 20
"""Greatest number of places from which a node with capacities may read a type of composite events."""

Beside: TypeAlias = frozenset[tuple[str, str]]
"""Detectors, and the nodes they are on."""


class _Heard(NamedTuple):
    """Delay, ns after the event, of composite events, and the detectors and nodes required (`beside`)."""

    after: float
    beside: Beside


class Nearness:
    """The network of an instance, `limited` by capacities or not, as the optimum sees it; computes each figure once."""

    def __init__(self, instance: PlacementProblem) -> None:
        self.instance = instance
        if not instance.empty.nodes:
            raise DistcedError("a topology without broker nodes", allowed="at least one", advice="write [nodes.NAME]")
        self.situation = instance.situation(
            {name: instance.entry(instance.space.whole(name), (min(instance.empty.nodes),))
             for name in instance.space.roots if instance.space.publishes(name)}
        )  # fmt: skip
        self.limited = self.situation.knows_capacity
        self._able: dict[str, frozenset[str]] = {}
        self._streams: dict[str, tuple[Stream, ...]] = {}
        self._arrivals: dict[tuple[str, str], list[_Heard]] = {}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that may host any of the detectors."""
        return tuple(sorted(frozenset().union(*(self.able(name) for name in self.instance.space.alternatives))))

    def able(self, name: str) -> frozenset[str]:
        """The nodes that may host a detector: they reach every source that it reads, and every subscriber."""
        if name not in self._able:
            situation = self.situation
            homes = self._homes(name)
            sites = {situation.site_of(place) for place in self.instance.subscribers(name)}
            self._able[name] = frozenset(
                node
                for node in situation.nodes
                if all(self.links(home, self.site(node)) < inf for home in homes)
                and all(self.links(self.site(node), site) < inf for site in sites)
            )
        return self._able[name]

    def _homes(self, name: str) -> set[str]:
        """The sites of the sources that a detector reads, and of those of what it reads by its type."""
        space, situation = self.instance.space, self.situation
        found = {
            situation.site_of_home(home)
            for stream in self.streams(space.whole(name))
            if stream.kind == "event"
            for home in situation.homes_of(stream, "")
        }
        return found.union(*(self._homes(other) for other in space.named(space.whole(name))))

    def representatives(self, count: int) -> tuple[str, ...]:
        """The n nodes of each site with the greatest capacity."""
        found: dict[str, list[str]] = {}
        for node in sorted(self.nodes, key=lambda each: (-self.capacity(each), each)):
            at = found.setdefault(self.site(node), [])
            if len(at) < count:
                at.append(node)
        return tuple(sorted(node for nodes in found.values() for node in nodes))

    def site(self, node: str) -> str:
        """The site of a node."""
        return self.situation.site_of_node(node)

    def capacity(self, node: str) -> float:
        """Capacity of a node, instances a second."""
        return self.situation.capacity(node)

    def links(self, origin: str, target: str) -> float:
        """Number of links between two sites; inf where there is no path."""
        path = self.situation.network.path(origin, target)
        return inf if path.latency == inf else float(path.hops)

    def nearest(self, hosts: Iterable[str], site: str) -> list[str]:
        """Hosts of a detector in the order of preference of a reader at a site."""
        network, situation = self.situation.network, self.situation

        def distance(node: str) -> tuple[float, str]:
            path = network.path(self.site(node), site)
            return path.latency, situation.home_of_node(node)

        return sorted(hosts, key=distance)

    # Streams.

    def streams(self, plan: DetectorPlan) -> tuple[Stream, ...]:
        """The streams that an alternative of a detector reads."""
        key = f"{plan.id} {' '.join(plan.parts)}"
        if key not in self._streams:
            self._streams[key] = streams_of(plan, self.situation)
        return self._streams[key]

    def flow(self, stream: Stream) -> float:
        """Bytes a second of a stream of primitive events, or of heartbeats, on a link."""
        return self.situation.measures.flow(stream)

    def links_to(self, stream: Stream, node: str) -> float:
        """Number of links such a stream crosses to a node; 0 where there is no path."""
        situation, site = self.situation, self.site(node)
        links = (self.links(situation.site_of_home(home), site) for home in situation.homes_of(stream, site))
        return sum(each for each in links if each < inf)

    # Delays.

    def delays(self, plan: DetectorPlan, node: str, subscriber: Place) -> Iterable[tuple[float, Beside]]:
        """Delays, ns, from the last event of a match of a whole pattern on a node until a subscriber receives it.

        There is one for each way to place what it reads by its type.
        """
        latency = self.situation.to_place(self.situation.home_of_node(node), subscriber)
        for heard in self._arrivals_of(plan, node):
            yield heard.after + latency, heard.beside

    def _arrivals_of(self, plan: DetectorPlan, node: str) -> list[_Heard]:
        """Arrival of a detector's composite events, from a node, at the server of its site."""
        key = (plan.id, node)
        if key not in self._arrivals:
            situation, measures = self.situation, self.situation.measures
            sources, others = inputs(self.streams(plan))
            own = []
            for source, types in sources:
                rate = sum(measures.rate(source, each) for each in types)
                own.append(Input(from_source(situation, source, node), rate, message_sizes.HEARTBEATS + rate))
            rates = [
                (measures.of(each).rate, measures.watermark_rate(each, read=True) or message_sizes.HEARTBEATS)
                for each in others
            ]
            home = situation.to_node(situation.home_of_node(node), node)
            few = max(round(MOST ** (1 / len(others))), 1) if others else 1
            self._arrivals[key] = [
                _Heard(
                    waited([*own, *(Input(each.after, *often) for each, often in zip(chosen, rates, strict=True))])
                    + home,
                    frozenset().union(*(each.beside for each in chosen)),
                )
                for chosen in product(*(self._soonest(other, node, few) for other in others))
            ]
        return self._arrivals[key]

    def _soonest(self, other: str, node: str, most: int) -> list[_Heard]:
        """Earliest arrivals of another detector's composite events at a detector on a node, over all hosts.

        Where nodes are full, a later one may be needed; beyond `most` places it is from anywhere, no sooner.
        """
        situation, whole = self.situation, self.instance.space.whole(other)
        every = sorted(
            (
                _Heard(
                    heard.after + situation.to_node(situation.home_of_node(each), node), heard.beside | {(other, each)}
                )
                for each in self.able(other)
                if self.links(self.site(each), self.site(node)) < inf
                for heard in self._arrivals_of(whole, each)
            ),
            key=lambda heard: (heard.after, sorted(heard.beside)),
        )
        if not self.limited:
            return every[:1]
        return every if len(every) <= most else [*every[:most], _Heard(every[most].after, frozenset())]

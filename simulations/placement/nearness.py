"""What the optimum asks of a network: how many links are between places, how long ways take, which nodes count."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import inf

from detectors.cutting.graph import DetectorPlan
from middleware.errors import DistcedError
from policies.distribution import sizes
from policies.distribution.delays import Input, from_source, waited
from policies.distribution.estimating import streams_of
from policies.distribution.reading import Stream, inputs
from policies.topology.model import Place
from simulations.placement.instance import Instance


class Nearness:
    """The network of an instance, as far as the optimum looks at it; each figure is reckoned once.

    Attributes:
        limited: whether capacities of nodes are known.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        if not instance.empty.nodes:
            raise DistcedError("a topology without broker nodes", allowed="at least one", advice="write [nodes.NAME]")
        self.situation = instance.situation(
            {name: instance.entry(instance.space.whole(name), (min(instance.empty.nodes),))
             for name in instance.space.roots if instance.space.publishes(name)}
        )  # fmt: skip
        self.limited = self.situation.knows_capacity
        self._streams: dict[str, tuple[Stream, ...]] = {}
        self._arrivals: dict[tuple[str, str], float] = {}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Those that reach every source that is read and every subscriber."""
        situation, space = self.situation, self.instance.space
        sites = {situation.site_of(place) for asked in space.asked for place in asked.subscribers}
        homes = {
            situation.site_of_home(home)
            for name in space.roots
            for stream in self.streams(space.whole(name))
            if stream.kind == "event"
            for home in situation.homes_of(stream, "")
        }
        return tuple(
            node
            for node in sorted(situation.nodes)
            if all(self.links(home, self.site(node)) < inf for home in homes)
            and all(self.links(self.site(node), site) < inf for site in sites)
        )

    def representatives(self, count: int) -> tuple[str, ...]:
        """So many nodes of each site, those that can do the most."""
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
        """Instances a second."""
        return self.situation.capacity(node)

    def links(self, origin: str, target: str) -> float:
        """How many links are between two sites; inf where there is no way."""
        way = self.situation.network.way(origin, target)
        return inf if way is None else float(way.hops)

    # Streams.

    def streams(self, plan: DetectorPlan) -> tuple[Stream, ...]:
        """What a way of a detector reads."""
        key = f"{plan.id} {' '.join(plan.parts)}"
        if key not in self._streams:
            self._streams[key] = streams_of(plan, self.situation)
        return self._streams[key]

    def flow(self, stream: Stream) -> float:
        """Bytes a second of a stream of primitive events, or of heartbeats, on a link."""
        return self.situation.measures.flow(stream)

    def links_to(self, stream: Stream, node: str) -> float:
        """How many links such a stream crosses on its way to a node."""
        situation, site = self.situation, self.site(node)
        return sum(self.links(situation.site_of_home(home), site) for home in situation.homes_of(stream, site))

    # Delays.

    def delay(self, plan: DetectorPlan, node: str, subscriber: Place) -> float:
        """ns from the last event of a match until a subscriber hears of it, of a whole pattern on a node."""
        home = self.situation.home_of_node(node)
        return self._arrival(plan, node) + self.situation.to_place(home, subscriber)

    def _arrival(self, plan: DetectorPlan, node: str) -> float:
        """ns until what a detector on a node finds is at the server of its site."""
        key = (plan.id, node)
        if key not in self._arrivals:
            situation = self.situation
            heard = list(self._heard(plan, node))
            self._arrivals[key] = waited(heard) + situation.to_node(situation.home_of_node(node), node)
        return self._arrivals[key]

    def _heard(self, plan: DetectorPlan, node: str) -> Iterable[Input]:
        measures = self.situation.measures
        sources, others = inputs(self.streams(plan))
        for source, types in sources:
            rate = sum(measures.rate(source, each) for each in types)
            yield Input(from_source(self.situation, source, node), rate, sizes.HEARTBEATS + rate)
        for other in others:
            whole = self.instance.space.whole(other)
            # From where it would be the soonest.
            way = min(
                self._arrival(whole, each) + self.situation.to_node(self.situation.home_of_node(each), node)
                for each in self.nodes
            )
            yield Input(way, measures.of(other).rate, measures.told(other, read=True) or sizes.HEARTBEATS)

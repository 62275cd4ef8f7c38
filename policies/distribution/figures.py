"""The figures of a detector on each node: how long it waits, what it adds to links, what it adds to nodes.

One `Figures` is for one way to detect a pattern, in one situation. What a site has in common is reckoned once for all
its nodes. Parts that are yet to be made are put where the policy would put them by themselves (`assumed`): where they
end up is decided when somebody asks for them, and this detector then has a place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from detectors.cutting.graph import DetectorGraph
from middleware.protocol import Hints, Measured
from policies.distribution.delays import Input, arrivals, from_detector, from_source, waited
from policies.distribution.estimating import Rates, expected, streams_of
from policies.distribution.situation import Situation, Stream
from policies.topology.model import Place


@dataclass(slots=True)
class Assumed:
    """Parts that are yet to be made, where they are taken to be.

    Attributes:
        homes: of each part the home of its topic.
        arrived: of each part, ns from an event until it is there.
        measured: what each is expected to do.
        loads: instances a second they add to nodes.
        reads: what they make nodes read.
        bytes, cost: what they add to links.
    """

    homes: dict[str, str] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    loads: dict[str, float] = field(default_factory=dict)
    reads: dict[str, set[Stream]] = field(default_factory=dict)
    bytes: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class _AtSite:
    """What reading everything costs a node at a site: bytes over links and their cost, by stream and together."""

    by_stream: Mapping[Stream, tuple[float, float]]
    bytes: float
    cost: float


class Figures:
    """The figures of one detector.

    Attributes:
        streams: what it reads.
        does: what it does, or is expected to do.
        guaranteed: whether it waits until what it reads is complete.
        gone: what a node would not read any more if the detector were not there: by node, for one that is there.
    """

    def __init__(
        self,
        situation: Situation,
        streams: tuple[Stream, ...],
        does: Measured,
        rates: Rates,
        *,
        guaranteed: bool = True,
        assumed: Assumed | None = None,
        gone: Mapping[str, Collection[Stream]] | None = None,
    ) -> None:
        self.situation = situation
        self.streams = streams
        self.does = does
        self.guaranteed = guaranteed
        self.assumed = assumed or Assumed()
        self.gone = gone or {}
        self._rates = rates
        self._at_site: dict[str, _AtSite] = {}
        self._sources: dict[str, float] = {}
        self._arrived: list[tuple[Mapping[str, float], float]] = []
        for stream in streams:
            if stream.kind == "event":
                self._sources[stream.name] = self._sources.get(stream.name, 0.0) + rates.of_stream(stream)
            elif stream.kind == "composite":
                self._arrived.append((self._arrivals_of(stream.name), rates.of_stream(stream)))

    @classmethod
    def of_new(
        cls,
        situation: Situation,
        graph: DetectorGraph,
        detector: str,
        hints: Hints,
        *,
        records: bool,
        constituents: bool,
        guaranteed: bool,
        assumed: Assumed | None = None,
    ) -> Figures:
        """Of a detector that is yet to be made: a plan of a graph."""
        plan = graph.plans[detector]
        parts = assumed.measured if assumed is not None else {}
        does = expected(plan, situation, hints, records=records, constituents=constituents, parts=parts)
        rates = Rates(situation, hints, parts)
        return cls(situation, streams_of(plan, situation), does, rates, guaranteed=guaranteed, assumed=assumed)

    @classmethod
    def of_running(
        cls, situation: Situation, detector: str, *, gone: Mapping[str, Collection[Stream]] | None = None
    ) -> Figures:
        """Of a detector that is there."""
        guaranteed = situation.detectors[detector].policy == "guaranteed"
        rates = Rates(situation, Hints(), {})
        does = situation.measured(detector)
        return cls(situation, situation.streams_of(detector), does, rates, guaranteed=guaranteed, gone=gone)

    def wait(self, node: str) -> float:
        """ns from an event until a detector on a node consumes it."""
        situation = self.situation
        inputs = [Input(from_source(situation, source, node), rate) for source, rate in self._sources.items()]
        inputs += [Input(from_detector(situation, arrived, node), rate) for arrived, rate in self._arrived]
        return waited(inputs, guaranteed=self.guaranteed)

    def reading(self, node: str) -> tuple[float, float]:
        """Bytes a second over links, and their cost, that a detector on a node adds by reading; what the node reads
        already is nothing new."""
        at_site = self._reading_at(self.situation.site_of_node(node))
        amount, cost = at_site.bytes, at_site.cost
        gone = self.gone.get(node, ())
        read = self.situation.read_at(node)
        also = self.assumed.reads.get(node, ())
        for stream, (own, own_cost) in at_site.by_stream.items():
            if (stream in read and stream not in gone) or stream in also:
                amount, cost = amount - own, cost - own_cost
        return max(amount, 0.0), max(cost, 0.0)

    def telling(self, home: str, place: Place) -> tuple[float, float]:
        """Bytes a second over links, and their cost, for somebody who listens at a home server."""
        situation = self.situation
        way = situation.network.way(situation.site_of_home(home), situation.site_of(place))
        return (0.0, 0.0) if way is None else (self.does.size * way.hops, self.does.size * way.cost)

    def links(self, node: str) -> dict[tuple[str, str], float]:
        """Bytes a second that reading adds to each link."""
        situation, found = self.situation, dict[tuple[str, str], float]()
        site, gone = situation.site_of_node(node), self.gone.get(node, ())
        for stream in self.streams:
            if stream not in situation.read_at(node) or stream in gone:
                for home in self._homes_of(stream, site):
                    self._along(situation.site_of_home(home), site, self._rates.bytes_of(stream), found)
        return found

    def links_to(self, home: str, place: Place) -> dict[tuple[str, str], float]:
        """Bytes a second on each link for somebody who listens."""
        found: dict[tuple[str, str], float] = {}
        self._along(self.situation.site_of_home(home), self.situation.site_of(place), self.does.size, found)
        return found

    def _along(self, origin: str, target: str, amount: float, found: dict[tuple[str, str], float]) -> None:
        way = self.situation.network.way(origin, target)
        for link in () if way is None else way.links:
            found[link] = found.get(link, 0.0) + amount

    def _reading_at(self, site: str) -> _AtSite:
        known = self._at_site.get(site)
        if known is None:
            situation = self.situation
            by_stream = {}
            for stream in self.streams:
                hops, cost = 0, 0.0
                for home in self._homes_of(stream, site):
                    way = situation.network.way(situation.site_of_home(home), site)
                    if way is not None:
                        hops, cost = hops + way.hops, cost + way.cost
                if hops:
                    flow = self._rates.bytes_of(stream)
                    by_stream[stream] = (flow * hops, flow * cost)
            amounts = list(by_stream.values())
            total, total_cost = sum(each for each, _ in amounts), sum(each for _, each in amounts)
            known = self._at_site[site] = _AtSite(by_stream, total, total_cost)
        return known

    def _homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        if stream.kind == "composite" and stream.name in self.assumed.homes:
            return (self.assumed.homes[stream.name],)
        return self.situation.homes_of(stream, site)

    def _arrivals_of(self, detector: str) -> Mapping[str, float]:
        if detector in self.assumed.homes:
            return {self.assumed.homes[detector]: self.assumed.arrived[detector]}
        return arrivals(self.situation, detector)

"""Costs of a detector on each node: delay, bytes on links, load.

A `CostEstimate` covers one alternative in one situation. Parts yet to be made are assumed at the policy's own choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from distced.detectors.cutting.cut import DetectorGraph
from distced.middleware.model.detection import BEST_EFFORT
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Hints, Measured
from distced.policies.distribution.estimate.busiest_node import ESTIMATED, INFORMED, error_of
from distced.policies.distribution.estimate.delays import (
    Input,
    arrivals,
    from_detector,
    until_all_heard,
    waited,
)
from distced.policies.distribution.estimate.detector_estimate import (
    Part,
    Rates,
    expected,
    is_informed,
    is_read_by_type,
    streams_of,
)
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, inputs
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place


@dataclass(slots=True)
class Assumed:
    """Parts yet to be made, and their assumed nodes.

    Attributes:
        homes: home server of each part.
        arrived: ns from an event to the arrival of each part's composite event there.
        loads, errors: instances per second they add, by node, and the standard error.
        reads: streams they make nodes read.
        bytes, cost: bytes per second they add to links, and their cost.
    """

    homes: dict[str, str] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    loads: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    reads: dict[str, set[Stream]] = field(default_factory=dict)
    bytes: float = 0.0
    cost: float = 0.0


class _Read(NamedTuple):
    """A stream that is read, the nodes that read it already, and its bytes per second."""

    stream: Stream
    readers: Collection[str]
    flow: float


class CostEstimate:
    """Costs of one detector.

    Attributes:
        does: measured or estimated load and output.
        load: instances touched per second; of a new detector corrected by earlier estimates where the values of its
            events are unknown.
        error: standard error of that.
        watermark_rate: watermarks per second.
        louder: additional bytes per second over links, and their cost, from its parts to their present listeners.
        gone: streams a node no longer reads without a running detector, by node.
    """

    def __init__(
        self,
        situation: Situation,
        streams: tuple[Stream, ...],
        does: Measured,
        rates: Rates,
        *,
        guaranteed: bool = True,
        read: bool = False,
        assumed: Assumed | None = None,
        gone: Mapping[str, Collection[Stream]] | None = None,
        watermark_rate: float | None = None,
    ) -> None:
        """`watermark_rate`: watermarks per second, where known."""
        self.situation = situation
        self.streams = streams
        self.does = does
        self.load = does.load
        self.error = error_of(does.load)
        self.guaranteed = guaranteed
        self.assumed = assumed or Assumed()
        self.gone = gone or {}
        self._rates = rates
        # The streams by the site where they are at home; by themselves those of detectors with replicas, where that
        # differs from reader to reader. None until somebody asks.
        self._origins: dict[str, list[_Read]] | None = None
        self._replicated: list[_Read] = []
        # By site where a detector might be, how many links there are from streams to it, and what a byte costs.
        self._at_site: dict[str, list[tuple[int, float, Sequence[_Read]]]] = {}
        self.watermark_rate = rates.watermark_rate(streams, read=read) if watermark_rate is None else watermark_rate
        self._output = situation.measures.output(does, self.watermark_rate)
        # Events a second of each source; of each detector that is read also when it is where, and its watermarks.
        self._sources: dict[str, float] = {}
        self._detectors: list[tuple[Mapping[str, float], float, float]] = []
        sources, detectors = inputs(streams)
        for source, types in sources:
            self._sources[source] = rates.of_source(source, types)
        for each in detectors:
            self._detectors.append((self._arrivals_of(each), rates.of_detector(each), rates.heard(each)))
        # The home servers of sources; of each, ns from a source to it, and the periods, ns, in which sources there are
        # heard.
        periods: dict[str, list[float]] = {}
        for source, rate in self._sources.items():
            periods.setdefault(situation.sources[source].home, []).append(SECOND / (message_sizes.HEARTBEATS + rate))
        self._homes = tuple(periods)
        self._periods = [
            (float(situation.network.local(situation.site_of_home(home))), each) for home, each in periods.items()
        ]
        # By node, where its latencies are measured, or else by site.
        self._waits: dict[tuple[bool, str], float] = {}
        self.louder = self._louder(detectors)

    @classmethod
    def of_new(
        cls,
        situation: Situation,
        graph: DetectorGraph,
        detector: str,
        hints: Hints,
        *,
        derivations: bool,
        constituents: bool,
        guaranteed: bool,
        promises: bool = True,
        assumed: Assumed | None = None,
    ) -> CostEstimate:
        """Costs of a plan of a graph; `promises`: whether it publishes watermarks."""
        plan = graph.plans[detector]
        parts = assumed.parts if assumed is not None else {}
        does = expected(
            plan, situation, hints, derivations=derivations, constituents=constituents, parts=parts, promises=promises
        )
        rates = Rates(situation, hints, parts)
        # What it publishes under a name anybody may read.
        read = derivations or plan.compiled.structure.output is not None
        streams = streams_of(plan, situation)
        foreseen = situation.measures.unmeasured(detector)
        known = None if foreseen is None else foreseen.output(part=derivations, read=is_read_by_type(plan, situation))
        watermark_rate = known.often if known is not None else None if promises else 0.0
        made = cls(
            situation,
            streams,
            does,
            rates,
            guaranteed=guaranteed,
            read=read,
            assumed=assumed,
            watermark_rate=watermark_rate,
        )
        if foreseen is None and is_informed(plan, situation):
            made.error = INFORMED * made.load
        elif foreseen is None:
            made.load *= situation.measures.correction
            made.error = ESTIMATED * made.load
        return made

    @classmethod
    def of_running(
        cls, situation: Situation, detector: str, *, gone: Mapping[str, Collection[Stream]] | None = None
    ) -> CostEstimate:
        """Costs of a running detector."""
        policy = situation.detectors[detector].policy
        guaranteed, promises = policy == "guaranteed", policy != BEST_EFFORT
        rates = Rates(situation, Hints(), {})
        does = situation.measures.of(detector)
        streams, read = situation.reading.streams_of(detector), situation.reading.is_read(detector)
        watermark_rate = (
            None
            if promises and situation.measures.unmeasured(detector) is None
            else situation.measures.watermark_rate(detector)
        )
        made = cls(
            situation, streams, does, rates, guaranteed=guaranteed, read=read, gone=gone, watermark_rate=watermark_rate
        )
        if not situation.measures.is_known(detector):
            made.error = ESTIMATED * made.load
        return made

    def _louder(self, detectors: Sequence[str]) -> tuple[float, float]:
        situation = self.situation
        amount = cost = 0.0
        for detector in detectors:
            more = situation.measures.louder(detector)
            for listener, count in situation.detectors[detector].readers.items() if more else ():
                site = situation.site_of_home(listener)
                for home in situation.homes_heard(detector, site):
                    path = situation.network.path(situation.site_of_home(home), site)
                    amount, cost = amount + more * count * path.hops, cost + more * count * path.cost
        return amount, cost

    def wait(self, node: str) -> float:
        """ns from an event to its consumption on a node."""
        situation = self.situation
        measured = situation.loads.get(node)
        apart = measured is not None and bool(measured.latencies)
        # Without measurements as at any node of the site.
        key = apart, node if apart else situation.site_of_node(node)
        known = self._waits.get(key)
        if known is None:
            known = self._waits[key] = self._wait(node)
        return known

    def _wait(self, node: str) -> float:
        situation = self.situation
        if self.guaranteed and len(self._sources) + len(self._detectors) > 1:
            # The same as below, without an input for each source.
            spans = []
            latencies = situation.to_node_from(self._homes, node)
            for to_node, (local, periods) in zip(latencies, self._periods, strict=True):
                latency = local + to_node
                spans += [(latency + period, latency, period) for period in periods]
            for arrived, _, watermark_rate in self._detectors:
                latency, period = from_detector(situation, arrived, node), SECOND / watermark_rate
                spans.append((latency + period, latency, period))
            return until_all_heard(spans)
        # The same for all sources at a server.
        at_home = {
            home: local + situation.to_node(home, node)
            for home, (local, _) in zip(self._homes, self._periods, strict=True)
        }
        heard = [
            Input(at_home[situation.sources[source].home], rate, message_sizes.HEARTBEATS + rate)
            for source, rate in self._sources.items()
        ]
        heard += [
            Input(from_detector(situation, arrived, node), rate, watermark_rate)
            for arrived, rate, watermark_rate in self._detectors
        ]
        return waited(heard, guaranteed=self.guaranteed)

    def reading(self, node: str, beside: Collection[Stream] = ()) -> tuple[float, float]:
        """Bytes per second over links, and their cost, that reading on a node adds to what it reads already, and to
        what it is assumed to read `beside`."""
        amount = cost = 0.0
        gone, also = self.gone.get(node, ()), self.assumed.reads.get(node, beside)
        for hops, price, streams in self._reading_at(self.situation.site_of_node(node)):
            more = 0.0
            for stream, readers, flow in streams:
                if (node not in readers or stream in gone) and stream not in also:
                    more += flow
            amount += more * hops
            cost += more * price
        return amount, cost

    def publishing(self, home: str, place: Place) -> tuple[float, float]:
        """Bytes per second over links, and their cost, for a listener at a home server."""
        situation = self.situation
        path = situation.network.path(situation.site_of_home(home), situation.site_of(place))
        return self._output * path.hops, self._output * path.cost

    def sending(self, node: str, home: str) -> tuple[float, float]:
        """Bytes per second over links, and their cost, from a node to the home server of the detector's topic."""
        return self.publishing(home, Place("node", node))

    def links(self, node: str) -> dict[tuple[str, str], float]:
        """Bytes per second that reading adds to each link."""
        situation, found = self.situation, dict[tuple[str, str], float]()
        site, gone = situation.site_of_node(node), self.gone.get(node, ())
        for stream in self.streams:
            if stream not in situation.reading.at(node) or stream in gone:
                for home in self._homes_of(stream, site):
                    self._along(situation.site_of_home(home), site, self._rates.bytes_of(stream), found)
        return found

    def links_to(self, home: str, place: Place) -> dict[tuple[str, str], float]:
        """Bytes per second on each link for a listener."""
        found: dict[tuple[str, str], float] = {}
        self._along(self.situation.site_of_home(home), self.situation.site_of(place), self._output, found)
        return found

    def _along(self, origin: str, target: str, amount: float, found: dict[tuple[str, str], float]) -> None:
        for link in self.situation.network.path(origin, target).links:
            found[link] = found.get(link, 0.0) + amount

    def _reading_at(self, site: str) -> Sequence[tuple[int, float, Sequence[_Read]]]:
        """Streams that reach a site over links, with number of links and cost of a byte."""
        known = self._at_site.get(site)
        if known is None:
            situation = self.situation
            known = self._at_site[site] = []
            for origin, streams in self._by_origin().items():
                path = situation.network.path(origin, site)
                if path.links:
                    known.append((path.hops, path.cost, streams))
            for each in self._replicated:
                homes = map(situation.site_of_home, self._homes_of(each.stream, site))
                paths = [situation.network.path(home, site) for home in homes]
                known.append((sum(path.hops for path in paths), sum(path.cost for path in paths), [each]))
        return known

    def _by_origin(self) -> Mapping[str, Sequence[_Read]]:
        if self._origins is None:
            self._origins = {}
            detectors, readers = self.situation.detectors, self.situation.reading.readers()
            for stream in self.streams:
                read = _Read(stream, readers.get(stream, ()), self._rates.bytes_of(stream))
                entry = detectors.get(stream.name) if stream.kind == "composite" else None
                if entry is not None and entry.replicas and stream.name not in self.assumed.homes:
                    self._replicated.append(read)
                    continue
                # The same for all sites.
                for home in self._homes_of(stream, ""):
                    self._origins.setdefault(self.situation.site_of_home(home), []).append(read)
        return self._origins

    def _homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        if stream.kind == "composite" and stream.name in self.assumed.homes:
            return (self.assumed.homes[stream.name],)
        return self.situation.homes_of(stream, site)

    def _arrivals_of(self, detector: str) -> Mapping[str, float]:
        if detector in self.assumed.homes:
            return {self.assumed.homes[detector]: self.assumed.arrived[detector]}
        return arrivals(self.situation, detector)

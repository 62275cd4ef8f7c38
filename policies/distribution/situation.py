"""The situation policies decide in: the network, and of the directory what they look at.

composite-event-framework-2004, "Distribution Policies": detectors that are aware of the load of nodes and of the
latency to publishers and subscribers decide better. A node keeps one `Situation` along with the directory: each change
of an entry is handed to `changed`, which only notes it, and the tables that follow from entries are reckoned when
somebody asks. So a detector is placed without looking at all the others once more. `suggest` and the others read it
and change nothing.

*Who pays for what.* A `Stream` is a topic: the events of one type from one source, the composite events of a detector,
the heartbeats of the sources at one server. It travels from its home server to each node that reads it, once however
many detectors there read it, because a node has one connection to each server; along the shortest way by latency, and
not as a tree, for connections know nothing of one another. A detector's output goes from its node to its home server,
and from there to each connection that listens.

*What is not measured yet* is taken from whoever placed the detector (`expect`), else roughly from what it reads.
Measured delays are not looked at: they hold what a move would not change, and compared with an estimate they would
always lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from middleware.directory import Entries
from middleware.protocol import (
    NODE_CLIENT,
    ClientEntry,
    DetectorEntry,
    LoadEntry,
    Measured,
    NodeEntry,
    SourceEntry,
)
from policies.distribution.network import Network
from policies.topology.model import Place
from policies.topology.topology import Topology

EVENT_BYTES: Final = 100.0
"""Bytes of a primitive event in a frame of its own, topic and MQTT header included, where none has been measured."""

FRAME_BYTES: Final = 90.0
"""Bytes of a frame without events, topic and MQTT header included: a detector's heartbeat."""

HEARTBEAT_BYTES: Final = 80.0
"""Bytes of a source's heartbeat, topic and MQTT header included."""

HEARTBEATS: Final = 4.0
"""How often a second a publisher says how far its sources are."""

RATE: Final = 1.0
"""Events a second of one type from one source, where nothing at all is known."""

TOUCHES: Final = 2.0
"""How many instances an event touches, where nothing has been measured or expected."""

Kind: TypeAlias = Literal["event", "composite", "heartbeat"]


class Stream(NamedTuple):
    """What is carried as a whole to whoever reads it.

    Attributes:
        type: of primitive events; else empty.
        name: the source; of composite events the detector; of heartbeats the home server.
    """

    kind: Kind
    type: str
    name: str


class Situation:
    """The network and the directory, as far as policies look at them.

    Whoever made it keeps it up to date; everybody else only reads it.

    Attributes:
        network: ways between sites.
        nodes, sources, detectors, loads, clients: entries of the directory, by name.
        expected: what detectors are expected to do that have not been measured yet, by id.
        remembered_delays: what `delays` has reckoned, for as long as nothing changes.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.network = Network(topology)
        self.nodes: dict[str, NodeEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.expected: dict[str, Measured] = {}
        self._forget_all()

    @classmethod
    def of(cls, entries: Entries, topology: Topology | None = None) -> Situation:
        """The situation that a directory shows, in a network; None for a network nobody knows."""
        situation = cls(topology)
        situation.nodes |= entries.nodes
        situation.sources |= entries.sources
        situation.detectors |= entries.detectors
        situation.loads |= entries.loads
        situation.clients |= entries.clients
        return situation

    def copy(self) -> Situation:
        """The same, to be changed by somebody else."""
        other = Situation(None)
        other.network = self.network
        other.nodes |= self.nodes
        other.sources |= self.sources
        other.detectors |= self.detectors
        other.loads |= self.loads
        other.clients |= self.clients
        other.expected |= self.expected
        return other

    @property
    def topology(self) -> Topology | None:
        """The topology; None where none is known."""
        return self.network.topology

    # Keeping it up to date.

    def changed(self, kind: str, name: str, entry: Any) -> None:
        """An entry of the directory is new, is another, or was cleared (None). Kinds not looked at change nothing."""
        match kind:
            case "detector":
                self._detector_changed(name, entry)
            case "source":
                _put(self.sources, name, entry)
                self._forget_streams()
            case "node":
                before = self.nodes.get(name)
                _put(self.nodes, name, entry)
                if before is None or entry is None or before.home != entry.home or before.capacity != entry.capacity:
                    self._forget_all()
            case "load":
                _put(self.loads, name, entry)
                self._forget_measured()
            case "client":
                _put(self.clients, name, entry)

    def expect(self, detector: str, measured: Measured | None) -> None:
        """What a detector is expected to do until that is measured; None for nothing any more."""
        _put(self.expected, detector, measured)
        self._forget_measured()

    def _detector_changed(self, name: str, entry: DetectorEntry | None) -> None:
        before = self.detectors.get(name)
        known = self._reading
        if known is not None and before is not None:
            self._count(before, name, -1, known)
        _put(self.detectors, name, entry)
        if entry is None:
            self.expected.pop(name, None)
        if _told(before) != _told(entry):
            # Whoever reads it by name now reads something else.
            self._forget_streams()
        else:
            self._own_streams.pop(name, None)
            if known is not None and entry is not None:
                self._count(entry, name, 1, known)
        self._forget_measured()

    def _forget_measured(self) -> None:
        self._measured: dict[str, Measured] | None = None
        self._flows: dict[Stream, float] | None = None
        self._loads: dict[str, float] | None = None
        self._busiest: tuple[str, float] | None = None
        self._total: float | None = None
        self._event_bytes: float | None = None
        # By detector and node; see `delays`.
        self.remembered_delays: dict[tuple[str, str], float] = {}

    def _forget_streams(self) -> None:
        self._own_streams: dict[str, tuple[Stream, ...]] = {}
        self._reading: dict[str, Counter[Stream]] | None = None
        self._by_type: dict[str, list[str]] | None = None
        self._named: dict[str, list[str]] | None = None
        self._beats: dict[str, float] | None = None
        self._forget_measured()

    def _forget_all(self) -> None:
        self._sites: dict[str, str] = {}
        self._mean_capacity: float | None = None
        self._forget_streams()

    # Where things are.

    def site_of_node(self, node: str) -> str:
        """The site where a node is: by the topology, else by its entry."""
        known = self._sites.get(node)
        if known is None:
            topology, entry = self.network.topology, self.nodes.get(node)
            if topology is not None and node in topology.nodes:
                known = topology.nodes[node].site
            else:
                known = self.network.site_of_home("" if entry is None else entry.home)
            self._sites[node] = known
        return known

    def site_of_home(self, home: str) -> str:
        """The site of a home server."""
        return self.network.site_of_home(home)

    def home_of_node(self, node: str) -> str:
        """The server of a node's own site, as entries name it."""
        entry = self.nodes.get(node)
        return "" if entry is None else entry.home

    def place_of(self, client: str) -> Place:
        """Where somebody is who subscribes.

        Args:
            client: of a `SubscriptionEntry`: an application, or a node that reads a part of a pattern. Who is not in
                the directory is taken to be at the directory's server.
        """
        if client.startswith(NODE_CLIENT):
            return Place("node", client.removeprefix(NODE_CLIENT))
        entry = self.clients.get(client)
        return Place("site", self.site_of_home("" if entry is None else entry.home))

    def site_of(self, place: Place) -> str:
        """The site of a place."""
        return self.site_of_node(place.name) if place.kind == "node" else self.network.site_of(place)

    def to_node(self, home: str, node: str) -> float:
        """ns from a home server to a node, and as long the other way: as it measured, else by the network; inf where
        there is no way."""
        load = self.loads.get(node)
        if load is not None and home in load.latencies:
            return float(load.latencies[home])
        site = self.site_of_node(node)
        way = self.network.way(self.site_of_home(home), site)
        return float("inf") if way is None else way.latency + self.network.local(site)

    def to_place(self, home: str, place: Place) -> float:
        """ns from a home server to somebody who listens."""
        if place.kind == "node":
            return self.to_node(home, place.name)
        site = self.site_of(place)
        way = self.network.way(self.site_of_home(home), site)
        return float("inf") if way is None else way.latency + self.network.local(site)

    def hops(self, origin: str, target: str) -> int:
        """How many links a byte crosses from site to site; 0 where there is no way, for then nothing is sent."""
        way = self.network.way(origin, target)
        return 0 if way is None else way.hops

    def hosts(self, detector: str) -> dict[str, str]:
        """The living nodes that host a detector, the primary first, and the home servers they publish at."""
        entry = self.detectors.get(detector)
        if entry is None:
            return {}
        hosting = {entry.node: entry.home, **entry.copies}
        return {node: home for node, home in hosting.items() if node in self.nodes}

    # What is read.

    def streams_of(self, detector: str) -> tuple[Stream, ...]:
        """What a detector of the directory reads."""
        known = self._own_streams.get(detector)
        if known is None:
            entry = self.detectors[detector]
            known = self._own_streams[detector] = self.streams(entry.reads, entry.parts, but=detector)
        return known

    def streams(self, reads: Iterable[str] | None, parts: Iterable[str] = (), *, but: str = "") -> tuple[Stream, ...]:
        """What a detector reads of these types, None for all primitive ones, and as parts; each stream once.

        Args:
            but: a detector whose own composite events are not meant.
        """
        by_type, named = self._index()
        found: dict[Stream, None] = {}
        homes: dict[str, None] = {}
        for name in sorted(by_type if reads is None else reads):
            for source in by_type.get(name, ()):
                found[Stream("event", name, source)] = None
                homes[self.sources[source].home] = None
            if reads is not None:
                for each in named.get(name, ()):
                    if each != but:
                        found[Stream("composite", "", each)] = None
        for part in parts:
            found[Stream("composite", "", part)] = None
        for home in homes:
            found[Stream("heartbeat", "", home)] = None
        return tuple(found)

    def read_at(self, node: str) -> Mapping[Stream, int]:
        """What a node reads already, with the number of detectors there that do."""
        return self._readers().get(node, _NOTHING)

    def homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        """The servers where somebody at a site reads a stream, as `homes_heard`."""
        if stream.kind == "event":
            return (self.sources[stream.name].home,) if stream.name in self.sources else ()
        if stream.kind == "heartbeat":
            return (stream.name,)
        return self.homes_heard(stream.name, site)

    def homes_heard(self, detector: str, site: str) -> tuple[str, ...]:
        """The servers where somebody at a site listens to a detector, each as often as there are nodes that publish
        there: of a detector with copies the nearest, or all where the copies are there for the sake of reliability."""
        homes = tuple(self.hosts(detector).values())
        if len(homes) < 2 or self.is_replicated(detector):
            return homes
        nearest = min(homes, key=lambda home: (self._distance(self.site_of_home(home), site), home))
        return tuple(home for home in homes if home == nearest)

    def is_replicated(self, detector: str) -> bool:
        """Whether the copies of a detector are there for the sake of reliability, so that all of them are heard."""
        from policies.distribution.policy import replicas_of

        return replicas_of(self.detectors[detector].distribution) > 1

    # How much that is.

    def flow(self, stream: Stream) -> float:
        """Bytes a second of a stream."""
        if stream.kind == "heartbeat":
            return self._heartbeats().get(stream.name, 0.0)
        flows = self._all_flows()
        known = flows.get(stream)
        if known is None:
            if stream.kind == "composite":
                known = self.measured(stream.name).size
            else:
                known = self.rate(stream.name, stream.type) * self.event_bytes
            flows[stream] = known
        return known

    @property
    def event_bytes(self) -> float:
        """Bytes of a primitive event, as measured over all detectors that read nothing else, else `EVENT_BYTES`."""
        if self._event_bytes is None:
            amount = events = 0.0
            for name, measured in self._all_measured().items():
                if name in self.detectors and not self.detectors[name].parts:
                    amount, events = amount + sum(measured.inputs.values()), events + measured.events
            self._event_bytes = amount / events if amount and events else EVENT_BYTES
        return self._event_bytes

    def is_measured(self, stream: Stream) -> bool:
        """Whether the flow of a stream of primitive events was measured."""
        return stream in self._all_measured_flows()

    def rate(self, source: str, type_name: str) -> float:
        """Events a second of one type from one source: measured, else by the topology, else `RATE`."""
        measured = self._all_measured_flows().get(Stream("event", type_name, source))
        if measured is not None:
            return measured / self.event_bytes
        topology = self.network.topology
        if topology is not None and source in topology.publishers:
            return topology.publishers[source].rates.get(type_name, RATE)
        return RATE

    def knows_rate(self, source: str, type_name: str) -> bool:
        """Whether that rate was measured, or is in the topology."""
        topology = self.network.topology
        return Stream("event", type_name, source) in self._all_measured_flows() or (
            topology is not None and source in topology.publishers and type_name in topology.publishers[source].rates
        )

    def sources_of(self, type_name: str) -> list[str]:
        """The sources of a type."""
        return self._index()[0].get(type_name, [])

    def publishers_of(self, type_name: str) -> list[str]:
        """The detectors whose composite events are of a type."""
        return self._index()[1].get(type_name, [])

    def types(self) -> list[str]:
        """The types that sources publish."""
        return sorted(self._index()[0])

    def measured(self, detector: str) -> Measured:
        """What a detector does: measured, else expected, else roughly by what it reads. It need not be there."""
        known = self._all_measured().get(detector) or self.expected.get(detector)
        if known is not None:
            return known
        entry = self.detectors.get(detector)
        if entry is None:
            return Measured()
        return self._roughly(detector, entry)

    def load(self, node: str) -> float:
        """Instances touched a second at a node, by all its detectors."""
        return self._all_loads().get(node, 0.0)

    def capacity(self, node: str) -> float:
        """Instances a node can touch a second, where that is known of all nodes or of some: of the others it is taken
        to be the mean; 1 where it is known of none, so that the load of one node compares with that of another."""
        own = self._capacity(node)
        if own:
            return own
        if self._mean_capacity is None:
            known = [each for each in map(self._capacity, self.nodes) if each]
            self._mean_capacity = sum(known) / len(known) if known else 1.0
        return self._mean_capacity

    @property
    def knows_capacity(self) -> bool:
        """Whether the capacity of any node is known, so that loads are shares of it."""
        return any(map(self._capacity, self.nodes))

    def use(self, node: str) -> float:
        """The load of a node as a share of its capacity; the load itself where no capacity is known."""
        return self.load(node) / self.capacity(node)

    @property
    def busiest(self) -> tuple[str, float]:
        """The node that is used the most, and its use; ("", 0) without nodes."""
        if self._busiest is None:
            self._busiest = max(((node, self.use(node)) for node in sorted(self.nodes)), key=lambda each: each[1],
                                default=("", 0.0))  # fmt: skip
        return self._busiest

    # Bytes over links.

    @property
    def bytes_over_links(self) -> float:
        """Bytes a second that all links together carry now."""
        if self._total is None:
            hops = self.hops
            self._total = sum(amount * hops(origin, target) for (origin, target), amount in self._carried().items())
        return self._total

    @property
    def bytes_by_link(self) -> dict[tuple[str, str], float]:
        """Bytes a second that each link carries now, by (from site, to site)."""
        found: dict[tuple[str, str], float] = {}
        for (origin, target), amount in self._carried().items():
            way = self.network.way(origin, target)
            for link in () if way is None else way.links:
                found[link] = found.get(link, 0.0) + amount
        return found

    def _carried(self) -> dict[tuple[str, str], float]:
        """Bytes a second that are sent from site to site."""
        carried: dict[tuple[str, str], float] = {}
        for node, streams in self._readers().items():
            if node not in self.nodes:
                continue
            site = self.site_of_node(node)
            for stream in streams:
                flow = self.flow(stream)
                for home in self.homes_of(stream, site):
                    pair = (self.site_of_home(home), site)
                    carried[pair] = carried.get(pair, 0.0) + flow
        nodes_reading = self._nodes_reading_parts()
        for name, entry in self.detectors.items():
            size = self.measured(name).size
            for node, home in self.hosts(name).items():
                pair = (self.site_of_node(node), self.site_of_home(home))
                carried[pair] = carried.get(pair, 0.0) + size
            for listener, count in entry.readers.items():
                # Nodes that read it as a part were counted with what they read.
                clients = max(count - nodes_reading.get((name, listener), 0), 0)
                site = self.site_of_home(listener)
                for home in self.homes_heard(name, site):
                    pair = (self.site_of_home(home), site)
                    carried[pair] = carried.get(pair, 0.0) + size * clients
        return carried

    # Tables.

    def _readers(self) -> dict[str, Counter[Stream]]:
        if self._reading is None:
            self._reading = {}
            for name, entry in self.detectors.items():
                self._count(entry, name, 1, self._reading)
        return self._reading

    def _count(self, entry: DetectorEntry, name: str, by: int, reading: dict[str, Counter[Stream]]) -> None:
        for node in (entry.node, *entry.copies):
            counter = reading.setdefault(node, Counter())
            for stream in self.streams_of(name):
                counter[stream] += by
                if not counter[stream]:
                    del counter[stream]

    def _nodes_reading_parts(self) -> Counter[tuple[str, str]]:
        reading: set[tuple[str, str]] = set()
        for entry in self.detectors.values():
            reading.update((part, node) for part in entry.parts for node in (entry.node, *entry.copies))
        return Counter((part, self.home_of_node(node)) for part, node in reading)

    def _index(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The sources of each primitive type, the detectors of each composite one."""
        if self._by_type is None or self._named is None:
            self._by_type, self._named = {}, {}
            for name in sorted(self.sources):
                for each in self.sources[name].types:
                    self._by_type.setdefault(each, []).append(name)
            for name in sorted(self.detectors):
                if self.detectors[name].publishes:
                    self._named.setdefault(self.detectors[name].publishes, []).append(name)
        return self._by_type, self._named

    def _heartbeats(self) -> dict[str, float]:
        if self._beats is None:
            beating: dict[str, set[str]] = {}
            for name, entry in self.sources.items():
                beating.setdefault(entry.home, set()).add(entry.publisher or name)
            self._beats = {home: len(who) * HEARTBEATS * HEARTBEAT_BYTES for home, who in beating.items()}
        return self._beats

    def _all_measured(self) -> dict[str, Measured]:
        if self._measured is None:
            self._measured = {}
            for node in sorted(self.loads):
                for name, measured in self.loads[node].detectors.items():
                    entry = self.detectors.get(name)
                    # The primary's word counts before that of copies, and of where it was before.
                    if name not in self._measured or (entry is not None and entry.node == node):
                        self._measured[name] = measured
        return self._measured

    def _all_measured_flows(self) -> dict[Stream, float]:
        self._all_flows()
        return self._measured_flows

    def _all_flows(self) -> dict[Stream, float]:
        if self._flows is None:
            self._flows = {}
            self._measured_flows: dict[Stream, float] = {}
            flows = self._measured_flows
            for name, measured in self._all_measured().items():
                entry = self.detectors.get(name)
                if entry is None or not measured.inputs:
                    continue
                by_source: dict[str, list[str]] = {}
                for stream in self.streams_of(name):
                    if stream.kind == "event":
                        by_source.setdefault(stream.name, []).append(stream.type)
                for source, types in by_source.items():
                    if source in measured.inputs:
                        self._share(source, types, measured.inputs[source], flows)
            self._flows |= flows
        return self._flows

    def _share(self, source: str, types: list[str], amount: float, flows: dict[Stream, float]) -> None:
        """What a detector hears of a source, shared out to the types it reads, as they are said to be frequent."""
        topology = self.network.topology
        said: Mapping[str, float] = {}
        if topology is not None and source in topology.publishers:
            said = topology.publishers[source].rates
        weights = [said.get(each, RATE) for each in types]
        for name, weight in zip(types, weights, strict=True):
            stream = Stream("event", name, source)
            flows[stream] = max(flows.get(stream, 0.0), amount * weight / sum(weights))

    def _all_loads(self) -> dict[str, float]:
        if self._loads is None:
            loads = dict.fromkeys(self.nodes, 0.0)
            for node in loads:
                entry = self.loads.get(node)
                if entry is not None:
                    # What it does beside its detectors.
                    loads[node] = max(entry.load - sum(each.load for each in entry.detectors.values()), 0.0)
            for name in self.detectors:
                general: float | None = None
                for node in self.hosts(name):
                    entry = self.loads.get(node)
                    own = None if entry is None else entry.detectors.get(name)
                    if own is not None:
                        loads[node] += own.load
                    else:
                        general = self.measured(name).load if general is None else general
                        loads[node] += general
            self._loads = loads
        return self._loads

    def _roughly(self, detector: str, entry: DetectorEntry) -> Measured:
        """What a detector may do of which nothing is known but what it reads."""
        rates = [
            self.rate(each.name, each.type) if each.kind == "event" else RATE
            for each in self.streams_of(detector)
            if each.kind != "heartbeat"
        ]
        rate = min(rates, default=0.0)
        size = rate * (FRAME_BYTES + EVENT_BYTES) + HEARTBEATS * FRAME_BYTES
        return Measured(load=sum(rates) * TOUCHES, rate=rate, size=size, events=sum(rates))

    def _capacity(self, node: str) -> float:
        entry = self.nodes.get(node)
        if entry is not None and entry.capacity:
            return entry.capacity
        topology = self.network.topology
        known = None if topology is None or node not in topology.nodes else topology.nodes[node].capacity
        return known or 0.0

    def _distance(self, origin: str, target: str) -> float:
        way = self.network.way(origin, target)
        return float("inf") if way is None else way.latency


_NOTHING: Final[Mapping[Stream, int]] = {}


def _put(table: dict[str, Any], name: str, entry: Any) -> None:
    if entry is None:
        table.pop(name, None)
    else:
        table[name] = entry


def _told(entry: DetectorEntry | None) -> tuple[Any, ...]:
    """What of a detector makes a difference to those who read it."""
    return ("",) if entry is None else (entry.publishes,)

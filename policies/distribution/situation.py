"""The situation policies decide in: the network, and of the directory what they look at.

composite-event-framework-2004, "Distribution Policies": detectors that are aware of the load of nodes and of the
latency to publishers and subscribers decide better. A node keeps one `Situation` along with the directory: each change
of an entry is handed to `changed`, which only notes it, and what follows from entries is reckoned when somebody asks.
So a detector is placed without looking at all the others once more. `suggest` and the others read it and change
nothing.

*Who pays for what.* A stream travels from its home server to each node that reads it (`reading`), along the shortest
way by latency, and not as a tree, for connections know nothing of one another. A detector's output goes from its node
to its home server, and from there to each connection that listens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

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
from policies.distribution.measures import Measures, hosting, load_of_entry
from policies.distribution.network import Network
from policies.distribution.policy import replicas_of
from policies.distribution.reading import Reading, Stream
from policies.topology.model import Place
from policies.topology.topology import Topology


class Situation:
    """The network and the directory, as far as policies look at them.

    Whoever made it keeps it up to date; everybody else only reads it.

    Attributes:
        network: ways between sites.
        nodes, sources, detectors, loads, clients: entries of the directory, by name.
        reading: who reads what.
        measures: how much there is of everything.
        remembered_delays: what `delays` has reckoned, for as long as nothing changes.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.network = Network(topology)
        self.nodes: dict[str, NodeEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.reading = Reading(self.sources, self.detectors)
        self.measures = Measures(self.reading, self.loads, topology)
        self._forget_places()

    @classmethod
    def of(cls, entries: Entries, topology: Topology | None = None) -> Situation:
        """The situation that a directory shows, in a network; None for a network nobody knows."""
        situation = cls(topology)
        situation.nodes.update(entries.nodes)
        situation.sources.update(entries.sources)
        situation.detectors.update(entries.detectors)
        situation.loads.update(entries.loads)
        situation.clients.update(entries.clients)
        return situation

    def copy(self) -> Situation:
        """The same, to be changed by somebody else."""
        other = Situation(self.topology)
        other.network = self.network
        other.nodes.update(self.nodes)
        other.sources.update(self.sources)
        other.detectors.update(self.detectors)
        other.loads.update(self.loads)
        other.clients.update(self.clients)
        other.measures.expected.update(self.measures.expected)
        return other

    @property
    def topology(self) -> Topology | None:
        """The topology; None where none is known."""
        return self.network.topology

    # Keeping it up to date.

    def changed(self, kind: str, name: str, entry: Any) -> None:
        """An entry of the directory is new, is another, or was cleared (None).

        Kinds that are not looked at change nothing. Where the topology becomes another, make a new `Situation`.
        """
        match kind:
            case "detector":
                hosts = [
                    node for each in (self.detectors.get(name), entry) if each is not None for node in hosting(each)
                ]
                if self.reading.change(name, entry):
                    self.measures.forget_all()
                if entry is None:
                    self.measures.expected.pop(name, None)
                self._forget(*hosts)
            case "source":
                _put(self.sources, name, entry)
                self.reading.forget()
                self.measures.forget_all()
                self._forget()
            case "node":
                before = self.nodes.get(name)
                _put(self.nodes, name, entry)
                # It tells its counters every few seconds, which make no difference here.
                if before is None or entry is None or (before.home, before.capacity) != (entry.home, entry.capacity):
                    self._forget_places()
            case "load":
                _put(self.loads, name, entry)
                self._forget(name)
            case "client":
                _put(self.clients, name, entry)

    def expect(self, detector: str, does: Measured | None) -> None:
        """What a detector is expected to do until that is measured; None for nothing any more."""
        _put(self.measures.expected, detector, does)
        self._forget()

    def _forget(self, *nodes: str) -> None:
        """Something has changed; also what these nodes tell of what they read, or the detectors they host."""
        self.measures.forget(*nodes)
        self._loads: dict[str, float] | None = None
        self._busiest: tuple[str, float] | None = None
        self._total: float | None = None
        # By detector and node; see `delays`.
        self.remembered_delays: dict[tuple[str, str], float] = {}

    def _forget_places(self) -> None:
        self._sites: dict[str, str] = {}
        self._capacities: dict[str, float] | None = None
        self._forget()

    # Where things are.

    def site_of_node(self, node: str) -> str:
        """The site where a node is: by the topology, else by its entry."""
        known = self._sites.get(node)
        if known is None:
            topology = self.topology
            if topology is not None and node in topology.nodes:
                known = topology.nodes[node].site
            else:
                known = self.network.site_of_home(self.home_of_node(node))
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
        return self._to_site(home, self.site_of_node(node))

    def to_place(self, home: str, place: Place) -> float:
        """ns from a home server to somebody who listens; inf where there is no way."""
        return self.to_node(home, place.name) if place.kind == "node" else self._to_site(home, self.site_of(place))

    def _to_site(self, home: str, site: str) -> float:
        way = self.network.way(self.site_of_home(home), site)
        return float("inf") if way is None else way.latency + self.network.local(site)

    # Who hosts, and who hears whom.

    def hosts(self, detector: str) -> dict[str, str]:
        """The living nodes that host a detector, the primary first, and the home servers they publish at."""
        entry = self.detectors.get(detector)
        if entry is None:
            return {}
        if not entry.copies:
            return {entry.node: entry.home} if entry.node in self.nodes else {}
        return {node: home for node, home in hosting(entry).items() if node in self.nodes}

    def homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        """The servers where somebody at a site reads a stream; of a detector as `homes_heard`."""
        if stream.kind == "event":
            return (self.sources[stream.name].home,) if stream.name in self.sources else ()
        if stream.kind == "heartbeat":
            return (stream.name,)
        return self.homes_heard(stream.name, site)

    def homes_heard(self, detector: str, site: str) -> tuple[str, ...]:
        """The servers where somebody at a site listens to a detector, each as often as there are nodes that publish
        there: of a detector with copies the nearest, or all where the copies are there for the sake of reliability."""
        homes = tuple(self.hosts(detector).values())
        if len(homes) < 2 or replicas_of(self.detectors[detector].distribution) > 1:
            return homes
        nearest = min(homes, key=lambda home: (self._distance(self.site_of_home(home), site), home))
        return tuple(home for home in homes if home == nearest)

    def _distance(self, origin: str, target: str) -> float:
        way = self.network.way(origin, target)
        return float("inf") if way is None else way.latency

    # How much nodes have to do.

    def load(self, node: str) -> float:
        """Instances touched a second at a node, by all its detectors."""
        if self._loads is None:
            loads = {name: load_of_entry(self.loads.get(name)) for name in self.nodes}
            for name, entry in self.detectors.items():
                for host in (entry.node, *entry.copies):
                    if host in loads:
                        loads[host] += self.measures.at(name, host).load
            self._loads = loads
        return self._loads.get(node, 0.0)

    def capacity(self, node: str) -> float:
        """Instances a node can touch a second. Where that is known of some nodes only, others are taken to be like
        their mean; where it is known of none it is 1, so that loads compare as they are."""
        if self._capacities is None:
            known = {name: self._known_capacity(name) for name in self.nodes}
            said = [each for each in known.values() if each]
            usual = sum(said) / len(said) if said else 1.0
            self._capacities = {name: each or usual for name, each in known.items()}
        return self._capacities.get(node, 1.0)

    @property
    def knows_capacity(self) -> bool:
        """Whether the capacity of any node is known, so that uses are shares of it."""
        return any(map(self._known_capacity, self.nodes))

    def use(self, node: str) -> float:
        """The load of a node as a share of its capacity; the load itself where no capacity is known."""
        return self.load(node) / self.capacity(node)

    @property
    def busiest(self) -> tuple[str, float]:
        """The node that is used the most, and its use; ("", 0) without nodes."""
        if self._busiest is None:
            uses = ((node, self.use(node)) for node in sorted(self.nodes))
            self._busiest = max(uses, key=lambda each: each[1], default=("", 0.0))
        return self._busiest

    def _known_capacity(self, node: str) -> float:
        if self.nodes[node].capacity:
            return self.nodes[node].capacity
        topology = self.topology
        known = None if topology is None or node not in topology.nodes else topology.nodes[node].capacity
        return known or 0.0

    # Bytes over links.

    @property
    def bytes_over_links(self) -> float:
        """Bytes a second that all links together carry now."""
        if self._total is None:
            total = 0.0
            for (origin, target), amount in self._carried().items():
                way = self.network.way(origin, target)
                total += 0.0 if way is None else amount * way.hops
            self._total = total
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

    def _carried(self) -> Mapping[tuple[str, str], float]:
        """Bytes a second that are sent from site to site."""
        carried: defaultdict[tuple[str, str], float] = defaultdict(float)
        flow, site_of_home = self.measures.flow, self.site_of_home
        # What is at home in one place for all who read it: where, and how much.
        fixed: dict[Stream, tuple[str, float]] = {}
        for node, streams in self.reading.by_node().items():
            if node not in self.nodes:
                continue
            site = self.site_of_node(node)
            for stream in streams:
                known = fixed.get(stream)
                if known is not None:
                    carried[known[0], site] += known[1]
                    continue
                homes = self.homes_of(stream, site)
                for home in homes:
                    carried[site_of_home(home), site] += flow(stream)
                if len(homes) == 1 and (stream.kind != "composite" or not self.detectors[stream.name].copies):
                    fixed[stream] = (site_of_home(homes[0]), flow(stream))
        reading = self._nodes_reading_parts()
        for name, entry in self.detectors.items():
            hosts = self.hosts(name)
            pairs: list[tuple[tuple[str, str], int]] = []
            for node, home in hosts.items():
                # Most are at home where they are.
                if self.site_of_node(node) != site_of_home(home):
                    pairs.append(((self.site_of_node(node), site_of_home(home)), 1))
            for listener, count in entry.readers.items():
                # Nodes that read it as a part were counted with what they read.
                clients = max(count - reading.get((name, listener), 0), 0)
                if clients and hosts:
                    site = site_of_home(listener)
                    heard = self.homes_heard(name, site) if len(hosts) > 1 else tuple(hosts.values())
                    pairs += [((site_of_home(home), site), clients) for home in heard if home != listener]
            if pairs:
                size = flow(Stream("composite", "", name))
                for pair, times in pairs:
                    carried[pair] += size * times
        return carried

    def _nodes_reading_parts(self) -> Mapping[tuple[str, str], int]:
        """By part and home server, how many nodes at that server read the part."""
        reading: set[tuple[str, str]] = set()
        for entry in self.detectors.values():
            if entry.parts:
                reading.update((part, node) for part in entry.parts for node in hosting(entry))
        return Counter((part, self.home_of_node(node)) for part, node in reading)


def _put(table: dict[str, Any], name: str, entry: Any) -> None:
    if entry is None:
        table.pop(name, None)
    else:
        table[name] = entry

"""The simulated network: a server at each site, everybody around them, and what can go wrong.

Every participant is connected to the server of the directory, and to those of other homes as needed; messages take the
shortest way through the topology, by latency. Which way it is does not change when a link fails: what would cross it
waits, as TCP's segments do until routing has settled, which is the harder case.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import IO

from distced.brokers.core.effects import Note
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DeadLetter, decode
from distced.middleware.wire.topics import ROOT, Area, parse_topic
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.network.participants.broker_node import TICK, SimulatedNode
from distced.simulations.network.participants.publisher import SimulatedPublisher
from distced.simulations.network.participants.subscriber import SimulatedSubscriber
from distced.simulations.network.transport.links import Channel, Channels
from distced.simulations.network.transport.mqtt_server import Server
from distced.simulations.network.transport.sessions import Session
from distced.simulations.network.transport.trace import Trace
from distced.simulations.network.transport.virtual_time import Engine

_AREA = len(ROOT) + 1


class Network:
    """Everybody and everything between them.

    Attributes:
        topology: where everything is.
        directory: the site of the directory's server.
        engine: the time, and chance.
        channels: the links.
        servers: by home.
        nodes, publishers, subscribers: those who are there, by name.
        sessions: the connections that may still stand at one end.
        keepalive, tick: ns, as of `Scenario`.
        again, repeats: as of `Scenario`.
        promising: whether sources that have sent everything tell their last watermark again and again.
        notes: what nodes have logged: instant, node, note.
        letters: the dead letters.
        trace: what was delivered.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        start: int = 0,
        seed: int = 0,
        keepalive: int = 30 * SECOND,
        again: float = 0.0,
        repeats: str = "ec",
        one_home: bool = False,
        tick: int = TICK,
        log: IO[str] | None = None,
    ) -> None:
        self.topology = topology
        self.directory = topology.directory
        self.one_home = one_home
        self.engine = Engine(start, seed)
        self.channels = Channels(topology)
        self.keepalive = keepalive
        self.tick = tick
        self.again = again
        self.repeats = frozenset(repeats)
        self.promising = True
        self.trace = Trace(log)
        self.notes: list[tuple[int, str, Note]] = []
        self.letters: list[DeadLetter] = []
        self.sessions: dict[Session, None] = {}
        self.servers = {home_of(topology, site): Server(self, home_of(topology, site), site) for site in topology.sites}
        self.nodes: dict[str, SimulatedNode] = {}
        self.publishers: dict[str, SimulatedPublisher] = {}
        self.subscribers: dict[str, SimulatedSubscriber] = {}
        self._ways = cache(self._find_ways)

    # Who is there.

    def add_node(self, name: str) -> SimulatedNode:
        """A node of the topology comes up."""
        described = self.topology.nodes[name]
        self.nodes[name] = SimulatedNode(self, described.place, described.capacity or 0.0)
        self.nodes[name].begin()
        return self.nodes[name]

    def add_publisher(self, name: str) -> SimulatedPublisher:
        """A publisher of the topology connects."""
        described = self.topology.publishers[name]
        self.publishers[name] = SimulatedPublisher(self, described.place, described.loss)
        self.publishers[name].begin()
        return self.publishers[name]

    def add_subscriber(self, name: str) -> SimulatedSubscriber:
        """A subscriber of the topology connects."""
        self.subscribers[name] = SimulatedSubscriber(self, self.topology.subscribers[name].place)
        self.subscribers[name].begin()
        return self.subscribers[name]

    # Where things are.

    def home_of(self, site: str) -> str:
        """The home of what is published at a site."""
        return "" if self.one_home else home_of(self.topology, site)

    def site_of(self, place: Place) -> str:
        """The site where somebody is."""
        return self.topology.site_of(place).name

    def local_latency(self, place: Place) -> int:
        """ns between somebody and the server of their site."""
        return 0 if place.kind == "site" else self.topology.site_of(place).local_latency

    def ways(self, place: Place, site: str) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
        """The channels from somebody to a server, and back."""
        return self._ways(self.site_of(place), site)

    def _find_ways(self, site: str, other: str) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
        one, end = Place("site", site), Place("site", other)
        there, back = self.topology.path(one, end), self.topology.path(end, one)
        along = self.channels.along
        return along((hop.origin, hop.target) for hop in there.hops), along(
            (hop.origin, hop.target) for hop in back.hops
        )

    def area(self, topic: str) -> str:
        """What a topic is about, one letter."""
        return topic[_AREA]

    # What happens.

    def run(self, duration: int) -> None:
        """Let time pass, ns."""
        self.engine.run(self.engine.instant + duration)

    def note(self, node: str, note: Note) -> None:
        """A node has something to be logged."""
        self.notes.append((self.engine.instant, node, note))

    def watch(self, server: Server, topic: str, payload: bytes) -> None:
        """A server hands a message on."""
        if topic[_AREA] == "x":
            self.letters.append(decode(payload, DeadLetter, where=topic))

    # What goes wrong.

    def fail(self, channels: Iterable[Channel]) -> None:
        """Nothing crosses these any more."""
        for each in channels:
            each.fail()
        self._look()

    def mend(self, channels: Iterable[Channel]) -> None:
        """What has waited for these goes on."""
        for each in channels:
            each.mend()
        self._look()

    def lose(self, name: str, *, silent: bool = True) -> SimulatedNode:
        """A node is gone, with all it knew."""
        lost = self.nodes.pop(name)
        lost.crash(silent=silent)
        return lost

    def stop_node(self, name: str) -> SimulatedNode:
        """A node ends, properly."""
        ended = self.nodes.pop(name)
        ended.stop()
        return ended

    def server_at(self, site: str) -> Server:
        """The server of a site."""
        return self.servers[home_of(self.topology, site)]

    def _look(self) -> None:
        """Connections notice what has become of the links."""
        standing = [each for each in self.sessions if each.open]
        self.sessions = dict.fromkeys(standing)
        for each in standing:
            each.look()

    # What is known.

    def directory_entries(self, kind: str) -> dict[str, bytes]:
        """What the server of the directory keeps of a kind of entries, by name."""
        below = f"{ROOT}/{Area.DIRECTORY}/{kind}/"
        retained = self.servers[""].retained
        return {parse_topic(topic).levels[1]: each for topic, each in retained.items() if topic.startswith(below)}


def home_of(topology: Topology, site: str) -> str:
    """What entries call the server of a site in a simulation: by the name of the site; empty where the directory is."""
    return "" if site == topology.directory else site

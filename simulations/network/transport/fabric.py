"""Fabric of the simulated network: virtual time, links, an MQTT server at each site, and their faults.

Messages take the shortest path by latency, which does not change when a link fails: they wait, as TCP's segments do
until routing has settled, which is the harder case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import IO

from distced.brokers.core.effects import Note, Publish
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import decode
from distced.middleware.wire.topics import ROOT, Area, parse_topic
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.network.transport.links import OTHER, DirectedLink, LinkPath, Links, area_of
from distced.simulations.network.transport.mqtt_server import (
    DuplicateDeliveries,
    ServerSession,
    SessionOwner,
    SimulatedServer,
)
from distced.simulations.network.transport.trace import Trace
from distced.simulations.network.transport.virtual_time import VirtualTime


class Fabric:
    """Time, links and servers between participants, and the record of a run.

    Attributes:
        directory: the site of the directory's server.
        one_home: whether all topics are at home there.
        served_by: sites without a server of their own, with the site whose server their participants use.
        pings: whether pings of idle connections count.
        engine: virtual time and random source.
        servers: by home.
        keepalive: silence after which connections are missed, ns.
        notes: log events: instant, participant, note.
        letters: dead letters.
        json: composite events as JSON: home of the server, topic, payload.
        events_forwarded: number of messages with events that servers have forwarded.
        trace: digest of all deliveries.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        start: int = 0,
        seed: int = 0,
        keepalive: int = 30 * SECOND,
        duplicates: DuplicateDeliveries | None = None,
        one_home: bool = False,
        served_by: Mapping[str, str] | None = None,
        pings: bool = False,
        log: IO[str] | None = None,
    ) -> None:
        self.topology = topology
        self.directory = topology.directory
        self.one_home = one_home
        self.served_by = served_by or {}
        self.pings = pings
        self.engine = VirtualTime(start, seed)
        self.links = Links(topology)
        self.keepalive = keepalive
        self.trace = Trace(log)
        self.notes: list[tuple[int, str, Note]] = []
        self.letters: list[DeadLetter] = []
        self.json: list[tuple[str, str, bytes]] = []
        self.events_forwarded = 0
        common = (self.engine, self.trace, duplicates or DuplicateDeliveries(), self._count)
        homes = {topology.home_of(site): site for site in topology.sites if site not in self.served_by}
        self.servers = {home: SimulatedServer(home, site, *common) for home, site in homes.items()}
        # Sessions that may still stand at one end.
        self._sessions: dict[ServerSession, None] = {}
        self._paths = cache(self._find_paths)

    def home_of(self, site: str) -> str:
        """Home of topics published at a site."""
        return "" if self.one_home else self.topology.home_of(self.served_by.get(site, site))

    def site_of(self, place: Place) -> str:
        """The site of a participant."""
        return self.topology.site_of(place).name

    def server_at(self, site: str) -> SimulatedServer:
        """The server of a site."""
        return self.servers[self.topology.home_of(site)]

    def open_session(
        self,
        owner: SessionOwner,
        server: SimulatedServer,
        client: str,
        place: Place,
        will: Publish | None,
        keepalive: int = 0,
    ) -> ServerSession:
        """A session of a participant with a server, not yet connected; keepalive in ns, 0 for that of the network."""
        keepalive = keepalive or self.keepalive
        session = ServerSession(self.engine, keepalive, owner, server, client, will)
        there, here = self._paths(self.site_of(place), server.site)
        local = 0 if place.kind == "site" else self.topology.site_of(place).local_latency
        session.out = LinkPath(self.engine, there, local, 0, lambda item: server.take(session, item))
        session.back = LinkPath(self.engine, here, 0, local, lambda item: owner.came(session, item))
        if self.pings:
            session.out.answers, session.out.keepalive = session.back, keepalive
        self._sessions[session] = None
        session.check_paths()
        return session

    def count_pings(self) -> None:
        """Count the pings of all connections up to now."""
        for session in self._sessions:
            if session.open:
                session.out.count_pings()

    def run(self, duration: int) -> None:
        """Advance time by a duration, ns."""
        self.engine.run(self.engine.instant + duration)

    def note(self, participant: str, note: Note) -> None:
        """Record a log event of a participant."""
        self.notes.append((self.engine.instant, participant, note))

    def fail(self, links: Iterable[DirectedLink]) -> None:
        """Take links down."""
        for each in links:
            each.fail()
        self._check_sessions()

    def mend(self, links: Iterable[DirectedLink]) -> None:
        """End a fault of links; waiting messages continue."""
        for each in links:
            each.mend()
        self._check_sessions()

    def directory_entries(self, kind: str) -> dict[str, bytes]:
        """Retained entries of a kind, by name."""
        below = f"{ROOT}/{Area.DIRECTORY}/{kind}/"
        retained = self.servers[""].retained
        return {parse_topic(topic).levels[1]: each for topic, each in retained.items() if topic.startswith(below)}

    def _find_paths(self, site: str, other: str) -> tuple[tuple[DirectedLink, ...], tuple[DirectedLink, ...]]:
        one, end = Place("site", site), Place("site", other)
        return self.links.along(self.topology.path(one, end)), self.links.along(self.topology.path(end, one))

    def _check_sessions(self) -> None:
        standing = [each for each in self._sessions if each.open]
        self._sessions = dict.fromkeys(standing)
        for each in standing:
            each.check_paths()

    def _count(self, home: str, topic: str, payload: bytes) -> None:
        area = area_of(topic)
        if area in "ec":
            self.events_forwarded += 1
        elif area == "x":
            self.letters.append(decode(payload, DeadLetter, where=topic))
        elif area == OTHER:
            self.json.append((home, topic, payload))

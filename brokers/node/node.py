"""A broker node: it is told what messages arrive and what time it is, and says what is to be done.

composite-event-framework-2004, "Mobile Composite Event Detectors" and "Implementation using JMS"; design, section 4.
The node is sans-I/O: the same object runs live, on MQTT and the wall clock, and in simulations. It keeps a view of the
directory, serves the subscriptions that fall to it (`brokers.node.hosting`), hands events to their detectors and their
composite events on (`brokers.node.event_path`).

What it hosts outlives a lost connection. What the directory has dropped meanwhile nobody tells it, and a server that
starts again without a memory has dropped everything; so after a reconnection entries that do not show up again are
taken for cleared only after a while, in which those who stand behind them publish them anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.admission import Routing
from distced.brokers.node.claiming import Claim
from distced.brokers.node.event_path import Detecting, Hosted
from distced.brokers.node.hosting import Serving
from distced.brokers.node.isolation import Isolating
from distced.brokers.node.membership import Peers
from distced.brokers.node.migration import Migrating
from distced.brokers.node.placement import Deciding
from distced.brokers.node.planning import node_client
from distced.brokers.node.policy_settings import EVERYBODY, PolicySettings
from distced.brokers.node.rebalancing import Adapting
from distced.brokers.node.replication import Copying
from distced.detectors.runtime.engine_switch import Engines
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import (
    Acknowledgement,
    Answer,
    Heartbeat,
    Move,
    NodeEntry,
    SourceEntry,
    decode,
    encode,
)
from distced.middleware.wire.topics import ROOT, Area, administration_topic, area_filter, directory_topic, parse_topic
from distced.policies.detection.guaranteed import Guaranteed

STATUS_EVERY: Final = 2 * SECOND
"""How often a node says how it is, ns."""

ASK_EVERY: Final = SECOND // 2
"""How often a node asks whether it has read the directory, until it has, ns."""

CONFIRM_WITHIN: Final = 30 * SECOND
"""How long after a reconnection entries of the directory may stay away, ns."""


class Node:
    """A broker node.

    Attributes:
        name: unlike all others.
        home: the server of its site; empty for that of the directory.
        claim: to its name, and since when it is up.
        directory: what is known.
        detecting: its detectors at work.
        homes: the servers it speaks to.
        serving: the subscriptions it serves.
        hosted: the detectors it hosts, by id.
        counts: what it has done so far.
        dead_letters: what could not be used.
    """

    def __init__(
        self,
        name: str,
        now: int,
        *,
        root: str = ROOT,
        inspects: bool = True,
        home: str = "",
        capacity: float = 0.0,
        isolates: bool = False,
        reserved: str = "",
        engines: Engines | None = None,
    ) -> None:
        """
        Args:
            inspects: whether it may be the one that looks at all events of its site.
            home: the server of its site; empty for that of the directory.
            capacity: how many instances it can touch a second; 0 where nobody knows.
            isolates: whether the driver does what `Isolate` asks for.
            reserved: the detector it was started for, and the only one it hosts; empty for any.
            engines: how engines are chosen for its detectors; None for the stepwise engine in any case.
        """
        self.name = name
        self.home = home
        self.capacity = capacity
        self.isolates = isolates
        self.reserved = reserved
        self.claim = Claim(name, root, now)
        self.root = root
        self.inspects = inspects
        self.directory = Directory()
        self.detecting = Detecting(name, root, self.directory)
        self.homes = Homes(name, root)
        self.policies = PolicySettings()
        self.serving = Serving(name, root, home, self.directory, self.detecting, self.homes, self.policies, engines)
        self.deciding = Deciding(self.directory, self.serving.delegating, self.policies)
        self.isolating = Isolating(name, root, self.directory)
        self.routing = Routing(name, root, reserved, self.directory, self.serving, self.deciding, self.isolating)
        self.migrating = Migrating(name, root, self.directory, self.detecting, self.serving, self.routing)
        self.copying = Copying(self.directory, self.serving, self.deciding, self.migrating)
        self.adapting = Adapting(self.serving, self.deciding, self.migrating)
        self.peers = Peers(name, root, self.directory, self.serving, self.migrating, self.routing)
        self.hosted = self.detecting.hosted
        self.counts = self.detecting.counts
        self.dead_letters = self.detecting.dead_letters
        self._routes = self.detecting.routes
        self._client = node_client(name)
        self._known_topic = administration_topic("known", name, root=root)
        self._status: bytes = b""
        self._status_at = now
        self._without_columnar = False
        # Whether it is to end, and does not answer to its own farewell.
        self._stopped = False
        # Whether the directory was read, once; and since when the node waits for its end, None where it does not.
        self._settled = False
        self._asked_at: int | None = None
        # Entries from before the connection was lost that have not shown up again, and until when they may.
        self._unconfirmed: set[tuple[str, str]] = set()
        self._confirm_until = now

    # From the driver.

    def start(self, now: int) -> list[Effect]:
        """The node is connected, or connected again."""
        if self.claim.lost:
            return []
        effects: list[Effect] = []
        self._unconfirmed = {(kind, name) for kind, name in self.directory.names() if kind != "type"}
        self._confirm_until = now + CONFIRM_WITHIN
        self.peers.connected(now)
        if self.hosted:
            note = "connected again: events that were published meanwhile are missing"
            effects.append(Note("warning", note, {"detectors": len(self.hosted)}))
        self._asked_at = now
        self.claim.connected()
        return [
            *effects,
            Subscribe(area_filter(Area.DIRECTORY, root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, "ready", root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, "fence", root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, "move", root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, "policy", root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, "node", self.name, root=self.root)),
            Subscribe(administration_topic("answer", self._client, root=self.root)),
            Subscribe(self._known_topic),
            self._announce(),
            # What the directory retains comes before what is sent behind the subscription to it.
            Publish(self._known_topic, b""),
        ]

    def will(self) -> Publish:
        """What is to be published when the node is lost."""
        return Publish(directory_topic("node", self.name, root=self.root), b"", retain=True)

    def stop(self) -> list[Effect]:
        """The node is to end: it takes its entries out of the directory, unless they are another's by now."""
        self._stopped = True
        if self.claim.lost:
            return []
        load = Publish(directory_topic("load", self.name, root=self.root), b"", retain=True)
        return [*self.serving.copies.leave(), load, self.claim.give_up(), self.will()]

    def linked(self, home: str, now: int) -> list[Effect]:
        """A connection to another server than that of the directory stands, perhaps again."""
        return [] if self._stopped else self.homes.linked(home, now)

    def receive(self, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """A message has arrived, over the connection to this home."""
        if self._stopped:
            return []
        route = self._routes.get(topic)
        if route is not None:
            return self.detecting.receive(route, topic, payload, now, home)
        try:
            area, levels = parse_topic(topic, root=self.root)
            if area in (Area.EVENTS, Area.COMPOSITE_EVENTS):
                return self.detecting.receive(self.detecting.find(topic, area, levels), topic, payload, now, home)
            if area is Area.DIRECTORY:
                return self._entry(levels, payload, now, topic)
            if area is Area.ADMINISTRATION:
                if home and topic == self._known_topic:
                    return self.homes.answered(home, payload, now)
                return self._administration(levels, payload, now, topic)
        except DistcedError as error:
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        return []

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it a few times a second."""
        if self._stopped:
            return []
        again = now - self._status_at >= STATUS_EVERY
        effects = self.detecting.tick(now, tell_again=again)
        effects += self.homes.tick(self.serving.listening.homes_used(), now)
        if self._asked_at is not None and now - self._asked_at >= ASK_EVERY:
            # A server may take a message before a subscription that was sent before it, and amqtt does.
            self._asked_at = now
            effects.append(Publish(self._known_topic, b""))
        if self._unconfirmed and now > self._confirm_until:
            missing, self._unconfirmed = self._unconfirmed, set()
            for kind, name in sorted(missing):
                effects += self._changed(self.directory.read((kind, name), b"", where="the directory"), now)
        if self._settled:
            effects += self.peers.tick(now)
        measured = self.detecting.measured(now, self.homes.latencies)
        if measured is not None:
            effects.append(Publish(directory_topic("load", self.name, root=self.root), encode(measured), retain=True))
        if again:
            self._status_at = now
            status = self._announce()
            if status.payload != self._status:
                self._status = status.payload
                effects.append(status)
            effects += self._see_what_engines_there_are()
            if self._settled:
                effects += [*self.migrating.tick(now), *self.routing.tick(now), *self.serving.tick(now)]
                effects += [*self.copying.tick(now), *self.adapting.tick(now)]
        return effects

    def holding(self) -> dict[str, list[str]]:
        """For each detector the sources its stream waits for."""
        return {
            name: hosted.detector.policy.holding()
            for name, hosted in self.hosted.items()
            if isinstance(hosted.detector.policy, Guaranteed)
        }

    def _see_what_engines_there_are(self) -> list[Effect]:
        """That an engine cannot be had is said once."""
        engines = self.serving.engines
        if engines is None or self._without_columnar or not engines.readiness.problem:
            return []
        self._without_columnar = True
        note = "the stepwise engine serves, because the columnar one cannot be had"
        return [Note("warning", note, {"reason": engines.readiness.problem})]

    # The directory.

    def _entry(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str) -> list[Effect]:
        change = self.directory.read(levels, payload, where=topic)
        self._unconfirmed.discard((change.kind, change.name))
        # Who becomes a source waits for an answer, also where it says what was known already.
        if change.entry == change.before and change.kind != "source":
            return []
        return self._changed(change, now)

    def _changed(self, change: Change, now: int) -> list[Effect]:
        return [*self.deciding.changed(change), *self._answered_to(change, now)]

    def _answered_to(self, change: Change, now: int) -> list[Effect]:
        match change.kind:
            case "source":
                return self._source_changed(change, now)
            case "client":
                return self._client_changed(change)
            case "node":
                return self._node_changed(change, now)
            case "subscription":
                if change.entry is None or self._settled:
                    return [*self.routing.changed(change.name, change.entry, now), *self.isolating.tidy()]
                return []
            case "detector":
                moved = self.migrating.detector_changed(change, now)
                effects = self.serving.detector_changed(change, now) if moved is None else moved
                return [*effects, *self.routing.detector_changed(change, now), *self.isolating.tidy()]
            case "type":
                return self.serving.listening.refilter()
            case _:
                return []

    def _source_changed(self, change: Change, now: int) -> list[Effect]:
        name, entry, before = change.name, change.entry, change.before
        effects: list[Effect] = []
        reading = [] if entry is None else self._reading(entry)
        if entry is None or (before is not None and before.types != entry.types):
            # Its last events have come when its server has handed them on; its end is told by that of the directory.
            home = "" if before is None else before.home
            effects += self.homes.flush({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark = entry.watermark
        for hosted in reading:
            watermark = max(watermark, hosted.detector.join(name, entry.watermark, now, entry.lease))
        ack = Publish(administration_topic("ack", name, self.name, root=self.root), encode(Acknowledgement(watermark)))
        # Before it publishes it has to be heard.
        homes = {entry.home} if reading else set()
        effects += self.serving.listening.refilter() if reading else []
        return [*effects, *self.homes.flush(homes, lambda _: [ack], now)]

    def _leave(self, source: str, now: int) -> list[Effect]:
        """Detectors wait no more for a source that does not publish for them any more."""
        entry = self.directory.sources.get(source)
        reading = [] if entry is None else self._reading(entry)
        effects: list[Effect] = []
        for hosted in self.hosted.values():
            if hosted.active and hosted not in reading:
                effects += self.detecting.leave(source, hosted, now)
        return effects

    def _client_changed(self, change: Change) -> list[Effect]:
        if change.entry is not None:
            return []
        sources = sorted(name for name, each in self.directory.sources.items() if each.publisher == change.name)
        if not sources or chosen(change.name, self.directory.common_nodes) != self.name:
            return []
        note = "a client is gone, and its sources are waited for: fence them off if they do not come back"
        return [Note("warning", note, {"client": change.name, "sources": ", ".join(sources)})]

    def _node_changed(self, change: Change, now: int) -> list[Effect]:
        effects: list[Effect] = []
        if change.entry is None and change.name == self.name:
            # The last will of a connection that was lost before this one.
            effects.append(self._announce())
        elif self._settled:
            effects += self.peers.changed(change, now)
        if change.entry is not None:
            effects += self.isolating.node_up(change.name)
        return [*effects, *self.serving.upstream.listen_elsewhere(now), *self._inspect()]

    def _reading(self, entry: SourceEntry) -> list[Hosted]:
        return [each for each in self.hosted.values() if each.active and any(map(each.takes, entry.types))]

    # Administration.

    def _administration(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str) -> list[Effect]:
        match levels:
            case ("heartbeat", _):
                return self.detecting.heartbeat(decode(payload, Heartbeat, where=topic), now)
            case ("ready", name):
                return self.serving.ready(name, now)
            case ("answer", self._client):
                return self.serving.answered(decode(payload, Answer, where=topic), now)
            case ("move", detector):
                return self.migrating.asked(detector, decode(payload, Move, where=topic), now)
            case ("node", self.name, "serve" | "host" | "served" as kind, subscription):
                return self.routing.told(kind, subscription, payload, now, topic)
            case ("node", self.name, kind, detector):
                return self.migrating.told(kind, detector, payload, now, topic)
            case ("policy", key):
                return self._policy_set(key, payload, now, topic)
            case ("fence", source):
                return self.detecting.fence(source, now)
            case ("known", self.name):
                return self._known(now)
            case ("node", self.name, "since"):
                return self._claimed(payload)
        return []

    def _policy_set(self, key: str, payload: bytes, now: int, topic: str) -> list[Effect]:
        if not self.policies.read(key, payload, topic):
            return []
        self.adapting.look_again(None if key == EVERYBODY else key, now)
        fields: dict[str, object] = {"of": key, "policy": self.policies.set[key].text if payload else "none"}
        return [Note("info", "distribution policy set", fields), *self.serving.tell_entries()]

    def _claimed(self, payload: bytes) -> list[Effect]:
        """Somebody of this name is up, or was."""
        effects = self.claim.found(payload)
        self._stopped = self.claim.lost
        return effects

    def _known(self, now: int) -> list[Effect]:
        """The directory was read."""
        if self._asked_at is None:
            return []
        self._asked_at = None
        effects = self.claim.make()
        if self._settled:
            # What has shown up again may say that others host what is here, and what has not is forgotten.
            shown = {name for kind, name in self.directory.names() - self._unconfirmed if kind == "detector"}
            effects += self.serving.compare(shown, now)
        self._settled = True
        return [*effects, *self.routing.take_up(now), *self._inspect()]

    def _inspect(self) -> Iterable[Effect]:
        """One node looks at all events, for those of types that nobody has registered."""
        nodes = [name for name in self.directory.common_nodes if self.directory.nodes[name].home == self.home]
        wanted = self.inspects and self._settled and chosen("inspector", nodes) == self.name
        if wanted == self.serving.listening.inspecting:
            return []
        self.serving.listening.inspecting = wanted
        return self.serving.listening.refilter()

    def _announce(self) -> Publish:
        counts = {**self.counts, **{f"dead letters, {name}": n for name, n in self.dead_letters.counts.items()}}
        since, hosted = self.claim.since, len(self.hosted)
        entry = NodeEntry(since, hosted, counts, self.home, self.capacity, self.isolates, self.reserved)
        return Publish(directory_topic("node", self.name, root=self.root), encode(entry), retain=True)

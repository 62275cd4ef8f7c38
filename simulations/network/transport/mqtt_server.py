"""Simulated MQTT server: sessions, subscriptions, retained messages, wills.

MQTT 5: a message goes once to each connection with a matching filter, at the lower of both QoS; retained messages
follow a subscription, in random order; subscriptions and waiting messages end with a connection (clean session). At QoS
1 a message may come twice, directly one after the other (`DuplicateDeliveries`), or after a lost connection.

Each end has its own view of a connection: where a path is down, each misses the other by itself. A participant may be
back before the server has missed its old connection; the server then ends that one and publishes its will (section
3.1.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from paho.mqtt.matcher import MQTTMatcher

from distced.brokers.core.effects import Publish, Subscribe, Unsubscribe
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.topics import matches
from distced.simulations.network.transport.links import ACKNOWLEDGEMENT, MQTT, LinkPath, area_of, message_size
from distced.simulations.network.transport.trace import Trace
from distced.simulations.network.transport.virtual_time import VirtualTime

OVERTAKEN: Final = "ec"
OVERTAKEN_BY: Final = SECOND
"""Areas of messages that may be overtaken, and the longest time by which, ns."""


class ControlPacket(Enum):
    """Packets of connections, without a payload."""

    CONNECT = "connect"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAREWELL = "farewell"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class DuplicateDeliveries:
    """Probability of a second delivery at QoS 1, in the areas of these letters."""

    probability: float = 0.0
    areas: frozenset[str] = frozenset("ec")


class SessionOwner(Protocol):
    """The participant's side of a session, which outlives it."""

    on: bool

    def uses(self, session: ServerSession) -> bool:
        """Whether this is its present session."""

    def came(self, session: ServerSession, item: Any) -> None:
        """Handle a packet from the server."""

    def lost(self, session: ServerSession) -> None:
        """Handle the loss of the connection."""


@dataclass(slots=True, eq=False)
class ServerSession:
    """One connection between a participant and a server, from its opening to its end.

    Attributes:
        owner: the participant's side.
        client: the client id.
        will: published when the session ends without a farewell.
        out, back: paths to the server and to the participant.
        filters: subscriptions, with the requested QoS.
        cut_since: instant when a path went down, ns; None while both are up.
    """

    _time: VirtualTime
    _keepalive: int
    owner: SessionOwner
    server: SimulatedServer
    client: str
    will: Publish | None
    filters: dict[str, int] = field(default_factory=dict)
    cut_since: int | None = None
    out: LinkPath = field(init=False)
    back: LinkPath = field(init=False)

    @property
    def open(self) -> bool:
        """Whether one of its ends considers it connected."""
        return self.owner.uses(self) or self.server.has(self)

    def check_paths(self) -> None:
        """Detect a path down, or up again, after a change of the links."""
        down = self.out.down or self.back.down
        time, keepalive = self._time, self._keepalive
        if down and self.cut_since is None:
            since = self.cut_since = time.instant
            # The participant asks after as long a silence, and waits as long for an answer.
            time.after(round(keepalive * time.random.uniform(1.0, 2.0)), self._missed_by_participant, since)
            time.after(keepalive * 3 // 2, self._missed_by_server, since)
        elif not down and self.cut_since is not None:
            self.cut_since = None
            if self.owner.on and self.owner.uses(self) and not self.server.has(self):
                # The server has closed it meanwhile, which is only known now.
                time.after(self.back.latency, self.owner.lost, self)

    def _missed_by_participant(self, since: int) -> None:
        if self.cut_since == since:
            self.owner.lost(self)

    def _missed_by_server(self, since: int) -> None:
        if self.cut_since == since:
            self.server.end(self)


@dataclass(eq=False)
class SimulatedServer:
    """An MQTT server.

    Attributes:
        home: in entries; empty for that of the directory.
        name: in the trace.
        published: gets the home, topic and payload of each forwarded message.
        up: whether it runs.
        reorders: number of faults for which messages with events overtake each other.
        retained: messages by topic.
        sessions: known connections, by client.
    """

    home: str
    site: str
    _time: VirtualTime
    _trace: Trace
    duplicates: DuplicateDeliveries
    published: Callable[[str, str, bytes], object]
    up: bool = True
    reorders: int = 0
    retained: dict[str, bytes] = field(default_factory=dict)
    sessions: dict[str, ServerSession] = field(default_factory=dict)
    # Subscribers of each filter, and the cached receivers of each topic.
    _tree: MQTTMatcher = field(default_factory=MQTTMatcher)
    _by_filter: dict[str, dict[ServerSession, int]] = field(default_factory=dict)
    _known: dict[str, list[tuple[ServerSession, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"server {self.site}"

    def has(self, session: ServerSession) -> bool:
        """Whether the server considers a session connected."""
        return self.sessions.get(session.client) is session

    def take(self, session: ServerSession, item: Any) -> None:
        """Handle a packet from a participant."""
        if item is ControlPacket.CONNECT:
            self._connect(session)
            return
        if self.sessions.get(session.client) is not session:
            return
        if item.__class__ is list:
            self._take_message(session, item)
        elif isinstance(item, Subscribe):
            self._subscribe(session, item.topic_filter, item.qos, retained=item.retained)
        elif isinstance(item, Unsubscribe):
            self._unsubscribe(session, item.topic_filter)
        else:
            self.end(session, will=item is ControlPacket.CLOSED)

    def publish(self, message: Publish) -> None:
        """Forward a message to its subscribers."""
        topic, payload, qos = message.topic, message.payload, message.qos
        self.published(self.home, topic, payload)
        if message.retain:
            if payload:
                self.retained[topic] = payload
            else:
                self.retained.pop(topic, None)
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._receivers(topic)
        if not known:
            return
        area = area_of(topic)
        sizes = (message_size(topic, len(payload), 0), message_size(topic, len(payload), 1))
        duplicates = self.duplicates
        twice = duplicates.probability if qos and area in duplicates.areas else 0.0
        for session, granted in known:
            level = min(qos, granted)
            sent = (topic, payload, level)
            if self.reorders and area in OVERTAKEN and self._time.random.random() < 0.3:
                delay = self._time.random.randrange(OVERTAKEN_BY)
                self._time.after(delay, session.back.send, sent, sizes[level], area)
                continue
            session.back.send(sent, sizes[level], area)
            if twice and level and self._time.random.random() < twice:
                session.back.send(sent, sizes[level], area)

    def end(self, session: ServerSession, *, will: bool = True) -> None:
        """End a session, and lose the messages on their way to the participant."""
        if self.sessions.get(session.client) is not session:
            return
        del self.sessions[session.client]
        session.back.open = False
        for topic_filter in list(session.filters):
            self._unsubscribe(session, topic_filter, confirm=False)
        if will and session.will is not None:
            self.publish(session.will)

    def stop(self, *, remembers: bool = False) -> None:
        """Stop, with all state lost, wills among it, but perhaps retained messages; connections close."""
        self.up = False
        sessions = list(self.sessions.values())
        self.sessions.clear()
        if not remembers:
            self.retained.clear()
        self._tree = MQTTMatcher()  # type: ignore[no-untyped-call]
        self._by_filter.clear()
        self._known.clear()
        for session in sessions:
            session.back.open = session.out.open = False
            if session.cut_since is None:
                self._time.after(session.back.latency, session.owner.lost, session)

    def start(self) -> None:
        """Start again."""
        self.up = True

    def reorder(self, faults: int) -> None:
        """Begin faults for which messages with events overtake each other, or with a negative number end them."""
        self.reorders += faults

    def _connect(self, session: ServerSession) -> None:
        if not self.up:
            session.back.send(ControlPacket.REFUSED, ACKNOWLEDGEMENT, MQTT)
            return
        before = self.sessions.get(session.client)
        if before is not None:
            self.end(before)
        self.sessions[session.client] = session
        session.back.send(ControlPacket.ACCEPTED, ACKNOWLEDGEMENT, MQTT)

    def _take_message(self, session: ServerSession, sent: list[Any]) -> None:
        message: Publish = sent[0]
        self._trace.add(self._time.instant, session.client, self.name, message.topic, message.payload)
        if message.qos:
            session.back.acknowledge()
            if session.cut_since is None:
                sent[1] = self._time.instant + session.back.latency
        self.publish(message)

    def _subscribe(self, session: ServerSession, topic_filter: str, qos: int, *, retained: bool) -> None:
        session.filters[topic_filter] = qos
        subscribed = self._by_filter.get(topic_filter)
        if subscribed is None:
            subscribed = self._by_filter[topic_filter] = {}
            self._tree[topic_filter] = subscribed
        subscribed[session] = qos
        self._known.clear()
        # The confirmation comes first, then the retained messages.
        session.back.send(topic_filter, ACKNOWLEDGEMENT, MQTT)
        for topic in self._retained_for(topic_filter) if retained else ():
            payload = self.retained[topic]
            session.back.send((topic, payload, qos), message_size(topic, len(payload), qos), area_of(topic))

    def _unsubscribe(self, session: ServerSession, topic_filter: str, *, confirm: bool = True) -> None:
        if session.filters.pop(topic_filter, None) is None:
            return
        subscribed = self._by_filter[topic_filter]
        del subscribed[session]
        if not subscribed:
            del self._by_filter[topic_filter]
            del self._tree[topic_filter]  # type: ignore[no-untyped-call]
        self._known.clear()
        if confirm:
            session.back.acknowledge()

    def _retained_for(self, topic_filter: str) -> list[str]:
        """The retained topics that match, in no certain order."""
        if topic_filter[-1] not in "#+" and "+/" not in topic_filter:
            return [topic_filter] if topic_filter in self.retained else []
        if topic_filter.endswith("/#") and "+" not in topic_filter:
            below = topic_filter[:-1]
            found = [topic for topic in self.retained if topic.startswith(below)]
        else:
            found = [topic for topic in self.retained if matches(topic_filter, topic)]
        self._time.random.shuffle(found)
        return found

    def _receivers(self, topic: str) -> list[tuple[ServerSession, int]]:
        """Sessions with a matching filter, each once, with the greatest requested QoS."""
        found: dict[ServerSession, int] = {}
        for subscribed in self._tree.iter_match(topic):  # type: ignore[no-untyped-call]
            for session, qos in subscribed.items():
                found[session] = max(qos, found.get(session, 0))
        return list(found.items())

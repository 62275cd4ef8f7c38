"""A simulated MQTT server: subscriptions, retained messages, wills.

MQTT 5: a message goes once to each connection with a filter that matches, at the lower of both QoS; what is retained
comes after subscribing, in no certain order; a connection's subscriptions and what waits for it end with it (a clean
session, as mosquitto has it without an expiry). At QoS 1 a message may come twice, one directly behind the other:
`again` says how probable that is, and `repeats` of which messages; for others a repetition after a lost connection is
the only one there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from paho.mqtt.matcher import MQTTMatcher

from distced.brokers.core.effects import Publish, Subscribe, Unsubscribe
from distced.middleware.bus.routes import matches
from distced.simulations.network.transport.packet_sizes import ACKNOWLEDGEMENT, message_size
from distced.simulations.network.transport.sessions import Control, Session
from distced.simulations.network.transport.ways import MQTT

if TYPE_CHECKING:
    from distced.simulations.network.network import Network


class Server:
    """An MQTT server.

    Attributes:
        home: its name in entries; empty for that of the directory.
        site: where it is.
        up: whether it runs.
        retained: what it keeps, by topic.
        sessions: the connections it knows, by client.
        taken, sent: messages from participants and to them so far.
    """

    def __init__(self, network: Network, home: str, site: str) -> None:
        self._network = network
        self.home = home
        self.site = site
        self.name = f"server {site}"
        self.up = True
        self.retained: dict[str, bytes] = {}
        self.sessions: dict[str, Session] = {}
        self.taken = 0
        self.sent = 0
        # Who has subscribed to each filter, and whom messages of a topic go to, as found out before.
        self._tree = MQTTMatcher()  # type: ignore[no-untyped-call]
        self._by_filter: dict[str, dict[Session, int]] = {}
        self._known: dict[str, list[tuple[Session, int]]] = {}

    def has(self, session: Session) -> bool:
        """Whether it takes a connection as standing."""
        return self.sessions.get(session.client) is session

    def take(self, session: Session, item: Any) -> None:
        """Something has come from a participant."""
        if item is Control.CONNECT:
            self._connect(session)
            return
        if self.sessions.get(session.client) is not session:
            return
        if item.__class__ is list:
            self._take_message(session, item)
        elif isinstance(item, Subscribe):
            self._subscribe(session, item.topic_filter, item.qos)
        elif isinstance(item, Unsubscribe):
            self._unsubscribe(session, item.topic_filter)
        else:
            self.end(session, will=item is Control.CLOSED)

    def publish(self, message: Publish, origin: str = "") -> None:
        """Hand a message on to whom it concerns."""
        topic, payload, qos = message.topic, message.payload, message.qos
        network = self._network
        network.watch(self, topic, payload)
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
        area = network.area(topic)
        sizes = (message_size(topic, len(payload), 0), message_size(topic, len(payload), 1))
        twice = network.again if qos and area in network.repeats else 0.0
        for session, granted in known:
            level = min(qos, granted)
            sent = (topic, payload, level)
            session.back.send(sent, sizes[level], area)
            self.sent += 1
            if twice and level and network.engine.random.random() < twice:
                session.back.send(sent, sizes[level], area)
                self.sent += 1

    def end(self, session: Session, *, will: bool = True) -> None:
        """A connection is over, with what was on its way to the participant."""
        if self.sessions.get(session.client) is not session:
            return
        del self.sessions[session.client]
        session.back.open = False
        for topic_filter in list(session.filters):
            self._unsubscribe(session, topic_filter, tell=False)
        if will and session.will is not None:
            self.publish(session.will, self.name)

    def stop(self) -> None:
        """It is gone, with all it knew; participants find their connections closed."""
        self.up = False
        sessions = list(self.sessions.values())
        self.sessions.clear()
        self.retained.clear()
        self._tree = MQTTMatcher()  # type: ignore[no-untyped-call]
        self._by_filter.clear()
        self._known.clear()
        for session in sessions:
            session.back.open = session.out.open = False
            if session.cut_since is None:
                self._network.engine.after(session.back.latency, session.connection.lost, session)

    def start(self) -> None:
        """It runs again, without a memory."""
        self.up = True

    def _connect(self, session: Session) -> None:
        if not self.up:
            session.back.send(Control.REFUSED, ACKNOWLEDGEMENT, MQTT)
            return
        before = self.sessions.get(session.client)
        if before is not None:
            self.end(before)
        self.sessions[session.client] = session
        session.back.send(Control.ACCEPTED, ACKNOWLEDGEMENT, MQTT)

    def _take_message(self, session: Session, sent: list[Any]) -> None:
        message: Publish = sent[0]
        engine = self._network.engine
        self.taken += 1
        self._network.trace.add(engine.instant, session.client, self.name, message.topic, message.payload)
        if message.qos:
            session.back.acknowledge()
            if session.cut_since is None:
                sent[1] = engine.instant + session.back.latency
        self.publish(message, session.client)

    def _subscribe(self, session: Session, topic_filter: str, qos: int) -> None:
        session.filters[topic_filter] = qos
        subscribed = self._by_filter.get(topic_filter)
        if subscribed is None:
            subscribed = self._by_filter[topic_filter] = {}
            self._tree[topic_filter] = subscribed
        subscribed[session] = qos
        self._known.clear()
        # The participant learns that its filter counts, and then what is kept.
        session.back.send(topic_filter, ACKNOWLEDGEMENT, MQTT)
        for topic in self._kept(topic_filter):
            payload = self.retained[topic]
            self.sent += 1
            session.back.send((topic, payload, qos), message_size(topic, len(payload), qos), self._network.area(topic))

    def _unsubscribe(self, session: Session, topic_filter: str, *, tell: bool = True) -> None:
        if session.filters.pop(topic_filter, None) is None:
            return
        subscribed = self._by_filter[topic_filter]
        del subscribed[session]
        if not subscribed:
            del self._by_filter[topic_filter]
            del self._tree[topic_filter]  # type: ignore[no-untyped-call]
        self._known.clear()
        if tell:
            session.back.acknowledge()

    def _kept(self, topic_filter: str) -> list[str]:
        """The retained topics that match, in no certain order."""
        if topic_filter[-1] not in "#+" and "+/" not in topic_filter:
            return [topic_filter] if topic_filter in self.retained else []
        kept: Iterable[str]
        if topic_filter.endswith("/#") and "+" not in topic_filter:
            below = topic_filter[:-1]
            kept = [topic for topic in self.retained if topic.startswith(below)]
        else:
            kept = [topic for topic in self.retained if matches(topic_filter, topic)]
        found = list(kept)
        self._network.engine.random.shuffle(found)
        return found

    def _receivers(self, topic: str) -> list[tuple[Session, int]]:
        """Whom a topic goes to, each once, with the greatest QoS that was asked for."""
        found: dict[Session, int] = {}
        for subscribed in self._tree.iter_match(topic):  # type: ignore[no-untyped-call]
            for session, qos in subscribed.items():
                found[session] = max(qos, found.get(session, 0))
        return list(found.items())

"""A participant and its connections to servers; the counterpart of `middleware.bus`.

As there, connecting is retried with growing delays; subscriptions are made again on every new connection; messages wait
in order while there is none; those at QoS 1 without an acknowledgement are sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.middleware.bus.reconnection import Backoff
from distced.middleware.model.timestamps import SECOND
from distced.policies.topology.model import Place
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.links import MQTT, area_of, connect_size, message_size, subscribe_size
from distced.simulations.network.transport.mqtt_server import ControlPacket, ServerSession

CONNECT_WITHIN: Final = 5 * SECOND
"""Timeout for a server to accept a connection, ns; as of the bus."""

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 10.0
"""Delays between attempts to connect, seconds; as of the bus."""


class SimulatedConnection:
    """A connection to a server, reconnected after losses.

    Attributes:
        participant: its user.
        home: the server.
        on: whether the server has accepted it.
        wanted: subscriptions, with their QoS.
        waiting: messages to be sent once connected.
    """

    def __init__(self, network: Fabric, participant: Participant, home: str) -> None:
        self._network = network
        self.participant = participant
        self.home = home
        self.server = network.servers[participant.server_of(home)]
        self.on = False
        self.wanted: dict[str, int] = {}
        self.waiting: deque[Publish] = deque()
        self._session: ServerSession | None = None
        # Messages at QoS 1 that were sent, each with the instant its acknowledgement comes, ns; None where unknown.
        self._unsettled: deque[list[Any]] = deque()
        # Filters that the server has not confirmed on this connection, with the calls that wait for it.
        self._unconfirmed: dict[str, list[Callable[[], object]]] = {}
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, network.engine.random)

    @property
    def pending(self) -> bool:
        """Whether messages wait for a connection, or for an acknowledgement of the server."""
        now = self._network.engine.instant
        return bool(self.waiting) or any(settled is None or settled > now for _, settled in self._unsettled)

    # From the participant.

    def open(self) -> None:
        """Connect, and stay connected."""
        user = self.participant
        session = self._session = self._network.open_session(
            self, self.server, user.client_at(self.home), user.place, user.will_for(self.home), user.keepalive
        )
        engine = self._network.engine
        size = connect_size(session.client, session.will.topic if session.will else None)
        # TCP's handshake goes there and back first.
        handshake = session.out.latency + session.back.latency
        engine.after(handshake, session.out.send, ControlPacket.CONNECT, size, MQTT)
        engine.after(CONNECT_WITHIN + handshake, self._too_late, session)

    def publish(self, message: Publish) -> None:
        """Send a message, now or once connected."""
        if not self.on:
            self.waiting.append(message)
            return
        session = self._session
        assert session is not None
        sent: list[Any] = [message, None]
        if message.qos:
            unsettled, now = self._unsettled, self._network.engine.instant
            while unsettled and unsettled[0][1] is not None and unsettled[0][1] <= now:
                unsettled.popleft()
            unsettled.append(sent)
        size = message_size(message.topic, len(message.payload), message.qos)
        session.out.send(sent, size, area_of(message.topic))

    def subscribe(
        self, topic_filter: str, qos: int, then: Callable[[], object] | None = None, *, retained: bool = True
    ) -> None:
        """Subscribe; `then` is called once the server has confirmed it."""
        new = topic_filter not in self.wanted
        self.wanted[topic_filter] = qos
        if then is not None:
            if self.on and not new and topic_filter not in self._unconfirmed:
                then()
                return
            self._unconfirmed.setdefault(topic_filter, []).append(then)
        if new and self.on:
            self._ask(topic_filter, qos, retained=retained)

    def unsubscribe(self, topic_filter: str) -> None:
        """End a subscription."""
        self._unconfirmed.pop(topic_filter, None)
        if self.wanted.pop(topic_filter, None) is not None and self._session is not None and self.on:
            self._session.out.send(Unsubscribe(topic_filter), subscribe_size(topic_filter), MQTT)

    def close(self) -> None:
        """Close with a farewell, after all messages sent."""
        self._end(ControlPacket.FAREWELL)

    def crash(self, *, silent: bool) -> None:
        """Lose the participant; messages sent before may still arrive. The server misses it after the keepalive
        (`silent`), or sees the connection close.
        """
        session = self._session
        if silent and session is not None:
            # Messages that the server goes on sending are dropped.
            session.back.arrived = _ignore
            self._network.engine.after(self._network.keepalive * 3 // 2, session.server.end, session)
            self._session, self.on = None, False
        else:
            self._end(ControlPacket.CLOSED)

    def cut(self) -> None:
        """Lose the connection, with the messages under way in both directions; both ends miss it."""
        session = self._session
        if session is not None and self.on:
            session.out.open = session.back.open = False
            self._network.engine.after(session.out.latency, session.server.end, session)
            self.lost(session)

    # From the network.

    def uses(self, session: ServerSession) -> bool:
        """Whether this is its present session."""
        return session is self._session

    def came(self, session: ServerSession, item: Any) -> None:
        """Handle a packet from the server."""
        if session is not self._session:
            return
        if item.__class__ is tuple:
            topic, payload, qos = item
            if qos:
                session.out.acknowledge()
            network = self._network
            network.trace.add(network.engine.instant, self.server.name, session.client, topic, payload)
            self.participant.arrived(topic, payload, self.home)
        elif item.__class__ is str:
            for then in self._unconfirmed.pop(item, ()):
                then()
        elif item is ControlPacket.ACCEPTED:
            self._accepted()
        else:
            self.lost(session)

    def lost(self, session: ServerSession) -> None:
        """Handle the loss of a session, and reconnect after a delay."""
        if session is not self._session:
            return
        before, cut = self.on, session.cut_since
        self._end(ControlPacket.CLOSED)
        now = self._network.engine.instant if cut is None else cut
        again = [message for message, settled in self._unsettled if settled is None or settled > now]
        self._unsettled.clear()
        self.waiting.extendleft(reversed(again))
        if before:
            self.participant.disconnected(self.home)
        self._network.engine.after(round(self._backoff.next() * SECOND), self._reopen)

    def _accepted(self) -> None:
        self.on = True
        self._backoff.reset()
        for topic_filter, qos in self.wanted.items():
            self._ask(topic_filter, qos)
        waiting, self.waiting = self.waiting, deque()
        for message in waiting:
            self.publish(message)
        self.participant.connected(self.home)

    def _ask(self, topic_filter: str, qos: int, *, retained: bool = True) -> None:
        assert self._session is not None
        self._unconfirmed.setdefault(topic_filter, [])
        self._session.out.send(Subscribe(topic_filter, qos, retained=retained), subscribe_size(topic_filter), MQTT)

    def _reopen(self) -> None:
        if self._session is None and self.participant.alive:
            self.open()

    def _too_late(self, session: ServerSession) -> None:
        if not self.on:
            self.lost(session)

    def _end(self, how: ControlPacket) -> None:
        session, self._session = self._session, None
        self.on = False
        if session is None:
            return
        session.back.open = False
        if session.server.has(session):
            session.out.send(how, subscribe_size(""), MQTT)
        else:
            # The server has not accepted it: nothing arrives.
            session.out.open = False


def _ignore(item: Any) -> None:
    return None


class Participant:
    """A participant at a site: connected to the server of the directory, and to other homes as needed.

    Base of nodes, publishers and subscribers, which differ in how they handle messages.

    Attributes:
        place: kind, name and site.
        name: in the topology.
        client_id: on servers.
        home: of its site.
        connections: by home.
        alive: whether it runs.
        keepalive: of its connections, ns; that of the network where 0.
    """

    keepalive = 0

    def __init__(self, network: Fabric, place: Place) -> None:
        self.network = network
        self.place = place
        self.name = place.name
        self.client_id = str(place)
        self.home = network.home_of(network.site_of(place))
        self.connections: dict[str, SimulatedConnection] = {}
        self.alive = True

    def begin(self) -> None:
        """Connect to the server of the directory."""
        self.connection("")

    def connection(self, home: str) -> SimulatedConnection:
        """The connection to a server, opened where there is none."""
        found = self.connections.get(home)
        if found is None:
            found = self.connections[home] = SimulatedConnection(self.network, self, home)
            found.open()
        return found

    def do(self, effects: Iterable[Effect]) -> None:
        """Perform effects in order, each on the connection to its home."""
        for effect in effects:
            match effect:
                case Publish(home=home):
                    self.connection(home).publish(effect)
                case Subscribe(topic_filter=topic_filter, qos=qos, home=home, retained=retained):
                    self.connection(home).subscribe(topic_filter, qos, retained=retained)
                case Unsubscribe(topic_filter=topic_filter, home=home):
                    self.connection(home).unsubscribe(topic_filter)
                case Note():
                    self.network.note(self.name, effect)
                case _:
                    self.act(effect)

    def act(self, effect: Effect) -> None:
        """Carry out an effect that is neither MQTT nor a log event."""

    def end(self) -> None:
        """Disconnect from all servers."""
        self.alive = False
        for each in self.connections.values():
            each.close()

    def crash(self, *, silent: bool) -> None:
        """Crash without a farewell; see `SimulatedConnection.crash`."""
        self.alive = False
        for each in self.connections.values():
            each.crash(silent=silent)

    def server_of(self, connection: str) -> str:
        """Home to which a connection leads."""
        return connection

    def client_at(self, connection: str) -> str:
        """Client id of a connection."""
        return self.client_id

    # Events of its connections.

    def will_for(self, home: str) -> Publish | None:
        """The will of the connection to a server."""
        return None

    def connected(self, home: str) -> None:
        """Handle a connection established, or established again."""

    def disconnected(self, home: str) -> None:
        """Handle a lost connection, which is retried."""

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        """Handle a message."""
        raise NotImplementedError

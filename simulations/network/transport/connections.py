"""A participant's side of a connection to one server, over its losses: what the bus is live.

As `middleware.bus` does: it is tried again, later each time; what is subscribed to is asked for again on every new
connection; messages wait while there is none, in order; those of QoS 1 that were not acknowledged are sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from distced.brokers.core.effects import Publish, Subscribe, Unsubscribe
from distced.middleware.bus.backoff import Backoff
from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.transport.packet_sizes import connect_size, message_size, subscribe_size
from distced.simulations.network.transport.sessions import Control, Session
from distced.simulations.network.transport.ways import MQTT

if TYPE_CHECKING:
    from distced.simulations.network.network import Network
    from distced.simulations.network.participants.participant import Participant

CONNECT_WITHIN: Final = 5 * SECOND
"""How long a server may take to accept a connection, ns; as of the bus."""

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 10.0
"""Seconds between attempts to connect; as of the bus."""


class Connection:
    """A connection to a server, kept up.

    Attributes:
        participant: whose it is.
        home: the server.
        on: whether the server has accepted it.
        wanted: what is subscribed to, with the QoS.
        waiting: what is to be sent once it stands.
    """

    def __init__(self, network: Network, participant: Participant, home: str) -> None:
        self._network = network
        self.participant = participant
        self.home = home
        self.server = network.servers[home]
        self.on = False
        self.wanted: dict[str, int] = {}
        self.waiting: deque[Publish] = deque()
        self._session: Session | None = None
        # Messages at QoS 1 that were sent, each with the instant its acknowledgement comes, ns; None where none is
        # known of.
        self._unsettled: deque[list[Any]] = deque()
        # Filters that the server has not confirmed on this connection, and who waits for it.
        self._unconfirmed: dict[str, list[Callable[[], object]]] = {}
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, network.engine.random)

    # From the participant.

    def open(self) -> None:
        """Connect, and keep connected from now on."""
        session = self._session = Session(self._network, self, self.server, self.participant.will_for(self.home))
        self._network.sessions[session] = None
        session.look()
        engine = self._network.engine
        size = connect_size(session.client, session.will.topic if session.will else None)
        # TCP's handshake goes there and back first.
        handshake = session.out.latency + session.back.latency
        engine.after(handshake, session.out.send, Control.CONNECT, size, MQTT)
        engine.after(CONNECT_WITHIN + handshake, self._too_late, session)

    def publish(self, message: Publish) -> None:
        """Send a message, now or once the connection stands."""
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
        session.out.send(sent, size, self._network.area(message.topic))

    def subscribe(self, topic_filter: str, qos: int, then: Callable[[], object] | None = None) -> None:
        """Subscribe; `then` is called once the server has taken it."""
        new = topic_filter not in self.wanted
        self.wanted[topic_filter] = qos
        if then is not None:
            if self.on and not new and topic_filter not in self._unconfirmed:
                then()
                return
            self._unconfirmed.setdefault(topic_filter, []).append(then)
        if new and self.on:
            self._ask(topic_filter, qos)

    def unsubscribe(self, topic_filter: str) -> None:
        """Subscribe no more."""
        self._unconfirmed.pop(topic_filter, None)
        if self.wanted.pop(topic_filter, None) is not None and self._session is not None and self.on:
            self._session.out.send(Unsubscribe(topic_filter), subscribe_size(topic_filter), MQTT)

    def close(self) -> None:
        """End it with a farewell, behind all that was sent."""
        self._end(Control.FAREWELL)

    def crash(self, *, silent: bool) -> None:
        """Whoever it belongs to is gone. What was sent before may still arrive.

        Args:
            silent: nothing tells the server, which misses it after a while; else its connection is seen to be closed.
        """
        session = self._session
        if silent and session is not None:
            # Nobody reads what the server goes on sending.
            session.back.arrived = _ignore
            self._network.engine.after(self._network.keepalive * 3 // 2, session.server.end, session)
            self._session, self.on = None, False
        else:
            self._end(Control.CLOSED)

    # From the network.

    def uses(self, session: Session) -> bool:
        """Whether this is its present session."""
        return session is self._session

    def came(self, session: Session, item: Any) -> None:
        """Something has come from the server."""
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
        elif item is Control.ACCEPTED:
            self._accepted()
        else:
            self.lost(session)

    def lost(self, session: Session) -> None:
        """The connection is over."""
        if session is not self._session:
            return
        before, cut = self.on, session.cut_since
        self._end(Control.CLOSED)
        now = self._network.engine.instant if cut is None else cut
        again = [message for message, settled in self._unsettled if settled is None or settled > now]
        self._unsettled.clear()
        self.waiting.extendleft(reversed(again))
        if before:
            self.participant.disconnected(self.home)
        self._network.engine.after(round(self._backoff.next() * SECOND), self._again)

    def _accepted(self) -> None:
        self.on = True
        self._backoff.reset()
        for topic_filter, qos in self.wanted.items():
            self._ask(topic_filter, qos)
        waiting, self.waiting = self.waiting, deque()
        for message in waiting:
            self.publish(message)
        self.participant.connected(self.home)

    def _ask(self, topic_filter: str, qos: int) -> None:
        assert self._session is not None
        self._unconfirmed.setdefault(topic_filter, [])
        self._session.out.send(Subscribe(topic_filter, qos), subscribe_size(topic_filter), MQTT)

    def _again(self) -> None:
        if self._session is None and self.participant.alive:
            self.open()

    def _too_late(self, session: Session) -> None:
        if not self.on:
            self.lost(session)

    def _end(self, how: Control) -> None:
        session, self._session = self._session, None
        self.on = False
        if session is None:
            return
        session.back.open = False
        if session.server.has(session):
            session.out.send(how, subscribe_size(""), MQTT)
        else:
            # Of a connection that has not come about nothing arrives.
            session.out.open = False


def _ignore(item: Any) -> None:
    return None

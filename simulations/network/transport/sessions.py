"""One MQTT connection between a participant and a server, from its opening to its end.

Both ends have their own view of whether it stands: where the way between them is down, each notices by itself, and a
participant may be back over a new connection before the server has missed the old one; the server then ends the old one
and publishes its will (MQTT 5, section 3.1.4).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from distced.brokers.core.effects import Publish
from distced.simulations.network.transport.links import Channel
from distced.simulations.network.transport.ways import Way

if TYPE_CHECKING:
    from distced.simulations.network.network import Network
    from distced.simulations.network.transport.connections import Connection
    from distced.simulations.network.transport.mqtt_server import Server


class Control(Enum):
    """What connections need themselves."""

    CONNECT = "connect"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAREWELL = "farewell"
    CLOSED = "closed"


class Session:
    """A connection, one attempt at it.

    Attributes:
        connection: the participant's side, which outlives it.
        client: who this is to the server.
        will: what the server publishes when it ends without a farewell.
        out, back: its directions.
        filters: what the server sends, with the QoS asked for.
        cut_since: since when its way is down, ns; None while it is not.
    """

    __slots__ = ("_network", "back", "client", "connection", "cut_since", "filters", "out", "server", "will")

    def __init__(self, network: Network, connection: Connection, server: Server, will: Publish | None) -> None:
        self._network = network
        self.connection = connection
        self.server = server
        self.client = connection.participant.client_id
        self.will = will
        self.filters: dict[str, int] = {}
        self.cut_since: int | None = None
        there, here = network.ways(connection.participant.place, server.site)
        local = network.local_latency(connection.participant.place)
        self.out = Way(network.engine, there, local, 0, lambda item: server.take(self, item))
        self.back = Way(network.engine, here, 0, local, lambda item: connection.came(self, item))

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels it crosses, there and back."""
        return self.out.channels + self.back.channels

    @property
    def open(self) -> bool:
        """Whether one of its ends takes it as standing."""
        return self.connection.uses(self) or self.server.has(self)

    def look(self) -> None:
        """The network has changed: notice that the way is down, or up again."""
        down = self.out.down or self.back.down
        engine, keepalive = self._network.engine, self._network.keepalive
        if down and self.cut_since is None:
            since = self.cut_since = engine.instant
            # The participant asks after as long a silence, and waits as long for an answer.
            engine.after(round(keepalive * engine.random.uniform(1.0, 2.0)), self._missed_by_participant, since)
            engine.after(keepalive * 3 // 2, self._missed_by_server, since)
        elif not down and self.cut_since is not None:
            self.cut_since = None
            if self.connection.on and self.connection.uses(self) and not self.server.has(self):
                # The server has closed it meanwhile, which is only known now.
                engine.after(self.back.latency, self.connection.lost, self)

    def _missed_by_participant(self, since: int) -> None:
        if self.cut_since == since:
            self.connection.lost(self)

    def _missed_by_server(self, since: int) -> None:
        if self.cut_since == since:
            self.server.end(self)

"""Somebody at a site: connected to the server of the directory, and to other homes as needed.

What participants have in common; nodes, publishers and subscribers differ in what they do about messages. Effects are
carried out in order, each on the connection to its home, which is opened where it is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import Connection

if TYPE_CHECKING:
    from distced.simulations.network.network import Network


class Participant:
    """Somebody who is connected to servers.

    Attributes:
        place: who this is, and where.
        name: its name in the topology.
        client_id: who this is to servers.
        home: the home of its site.
        connections: by home; that to the directory's server is there from the beginning.
        alive: whether it is there at all.
    """

    def __init__(self, network: Network, place: Place) -> None:
        self.network = network
        self.place = place
        self.name = place.name
        self.client_id = str(place)
        self.home = network.home_of(network.site_of(place))
        self.connections: dict[str, Connection] = {}
        self.alive = True

    def begin(self) -> None:
        """Connect to the server of the directory."""
        self.connection("")

    def connection(self, home: str) -> Connection:
        """The connection to a server, opened where there was none."""
        found = self.connections.get(home)
        if found is None:
            found = self.connections[home] = Connection(self.network, self, home)
            found.open()
        return found

    def do(self, effects: Iterable[Effect]) -> None:
        """Carry out what was decided, in order."""
        for effect in effects:
            match effect:
                case Publish(home=home):
                    self.connection(home).publish(effect)
                case Subscribe(topic_filter=topic_filter, qos=qos, home=home):
                    self.connection(home).subscribe(topic_filter, qos)
                case Unsubscribe(topic_filter=topic_filter, home=home):
                    self.connection(home).unsubscribe(topic_filter)
                case Note():
                    self.network.note(self.name, effect)

    def end(self) -> None:
        """Take leave of all servers."""
        self.alive = False
        for each in self.connections.values():
            each.close()

    def crash(self, *, silent: bool) -> None:
        """It is gone all of a sudden; see `Connection.crash`."""
        self.alive = False
        for each in self.connections.values():
            each.crash(silent=silent)

    # What happens to it.

    def will_for(self, home: str) -> Publish | None:
        """What a server publishes when it loses the participant."""
        return None

    def connected(self, home: str) -> None:
        """A connection stands, or stands again."""

    def disconnected(self, home: str) -> None:
        """A connection is lost, and is tried again."""

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        """A message has come."""
        raise NotImplementedError

"""A participant at a site: connected to the server of the directory, and to other homes as needed.

Base of nodes, publishers and subscribers, which differ in the handling of messages. Effects are
carried out in order, each on the connection to its home, which is opened where it is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import SimulatedConnection
from distced.simulations.network.transport.fabric import Fabric


class Participant:
    """A participant with connections to servers.

    Attributes:
        place: kind, name and site.
        name: its name in the topology.
        client_id: client id on servers.
        home: the home of its site.
        connections: by home; that to the directory's server is there from the beginning.
        alive: whether it runs.
    """

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
        """Perform the actions of a decision, in order."""
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
        """Disconnect from all servers."""
        self.alive = False
        for each in self.connections.values():
            each.close()

    def crash(self, *, silent: bool) -> None:
        """Crash without a farewell; see `SimulatedConnection.crash`."""
        self.alive = False
        for each in self.connections.values():
            each.crash(silent=silent)

    # Events of its connections.

    def will_for(self, home: str) -> Publish | None:
        """The will a server publishes when it loses the participant."""
        return None

    def connected(self, home: str) -> None:
        """Handle a connection established, or established again."""

    def disconnected(self, home: str) -> None:
        """Handle a lost connection, which is retried."""

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        """Handle a message."""
        raise NotImplementedError

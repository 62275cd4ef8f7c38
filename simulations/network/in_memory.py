"""In-memory deployment for the tests of an application: clients, broker nodes and MQTT servers in virtual time.

An application gets a `Client` from it and runs unchanged: calls that wait, such as `subscribe` and `get`, advance
virtual time instead. There is no thread, no socket and no sleeping, and a run is a function of its seed. Nodes and the
client session are the shipped ones. A bus in memory under the thread driver was rejected: threads would have made the
order of messages depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any, Final, Self, cast

from distced.detectors.runtime.engines import EngineName
from distced.middleware.client.client import Client
from distced.middleware.client.client_effects import ClientEffect
from distced.middleware.client.driver import ClientDriver
from distced.middleware.client.subscription import SharedFunction, Subscription
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND, parse_duration, parse_instant
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.numbered_stream import Loss
from distced.policies.topology.model import BrokerNode, Link, Place, Site
from distced.policies.topology.topology import Topology
from distced.simulations.network.deployment import Administrator, Deployment
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.virtual_store import VirtualDisk

WAIT_LIMIT: Final = 3_600.0
NODES_WITHIN: Final = 60.0
"""Seconds of virtual time for calls without a timeout, and for nodes to start and detectors to move."""


class InMemoryDeployment:
    """Broker nodes and MQTT servers in virtual time, with clients of an application; a context manager.

        with InMemoryDeployment(nodes=2) as deployment:
            client = deployment.client("office")
            ...
            deployment.advance(60)

    Time stands still except in `advance`, `settle` and calls that wait.

    Attributes:
        network: time, links and servers; its `engine` is the clock of all participants.
        deployment: the broker nodes that run, by name in `deployment.nodes`.
        clients: the clients that run, by name.
    """

    def __init__(
        self,
        nodes: int | Iterable[str] = 1,
        *,
        servers: int = 1,
        latency: float = 0.01,
        jitter: float = 0.0,
        topology: Topology | None = None,
        start: int | str = 0,
        seed: int = 0,
        engine: EngineName = "stepwise",
        checkpoints: bool = False,
    ) -> None:
        """Start the servers and nodes, and wait until the nodes are in the directory.

        Args:
            nodes: number of broker nodes, named `node-1` and so on, or their names; spread over the servers.
            servers: number of MQTT servers, one a site, named `site-1` and so on; the first has the directory.
            latency: of a message between the first and each other site, seconds.
            jitter: upper bound of a random additional delay of each message there, seconds; by the seed.
            topology: sites, nodes and links, instead of the four arguments above.
            start: instant at which time begins, ns since the Unix epoch or text such as `2026-11-21T08:00Z`.
            seed: of every random choice.
            engine: detection engine of the nodes: `stepwise`, `columnar`, or `auto`, as on a live node.
            checkpoints: whether nodes write checkpoints, to a store that all of them read.
        """
        topology = topology or _star(nodes, servers, latency, jitter)
        instant = parse_instant(start) if isinstance(start, str) else start
        self.network = Fabric(topology, start=instant, seed=seed)
        disk = VirtualDisk(self.network.engine) if checkpoints else None
        self.deployment = Deployment(self.network, engine=engine, disk=disk)
        self.clients: dict[str, InMemoryClient] = {}
        self._administrator = Administrator(self.network)
        self._administrator.begin()
        self._administrator.describe()
        for name in topology.nodes:
            self.deployment.start_node(name)
        entries = self._administrator.session.entries
        self._wait("the nodes are not in the directory", lambda: entries.nodes.keys() >= topology.nodes.keys())

    def client(self, name: str, *, site: str = "", patience: float = 5.0) -> InMemoryClient:
        """A running client.

        Args:
            name: in the directory, unlike all others.
            site: of its server; by default that of the directory.
            patience: seconds that nodes and servers have to answer.
        """
        if name in self.clients:
            allowed = f"another than {', '.join(self.clients)}"
            raise DistcedError("a client has this name", given=name, allowed=allowed)
        place = self.network.topology.part(Place("site", site or self.network.directory)).place
        client = self.clients[name] = InMemoryClient(self, place, name, patience)
        return client.start()

    def crash_client(self, name: str) -> None:
        """Crash a client, without a farewell: what it has published last, and not received, is lost with it."""
        client = self.clients.pop(name, None)
        if client is None:
            raise DistcedError("not a running client", given=name, allowed=", ".join(sorted(self.clients)) or "none")
        client._driver.crash()

    # Time.

    @property
    def now(self) -> int:
        """The instant, ns since the Unix epoch."""
        return self.network.engine.instant

    def advance(self, seconds: float | str) -> None:
        """Advance time by seconds, or by a duration such as `5min`; messages and timers that are due take effect."""
        duration = parse_duration(seconds) if isinstance(seconds, str) else round(seconds * SECOND)
        if duration < 0:
            raise DistcedError("time does not go back", given=f"{seconds} s", allowed="0 or more")
        self.network.run(duration)

    def settle(self, quiet: float = 1.0, limit: float = 600.0) -> None:
        """Advance time until no event is under way.

        Args:
            quiet: seconds without an event on any server after which none is under way.
            limit: seconds; a `DistcedError` where events are still published then.
        """
        deadline = self.now + round(limit * SECOND)
        before = -1
        while before != self.network.events_forwarded:
            if self.now >= deadline:
                given, advice = f"after {limit} s of virtual time", "move time by `advance`"
                raise DistcedError("events are still under way", given=given, advice=advice)
            before = self.network.events_forwarded
            self.advance(quiet)

    def wait_for(self, holds: Callable[[], bool], timeout: float = WAIT_LIMIT) -> bool:
        """Advance time until a condition holds, up to `timeout` seconds; whether it holds."""
        return self.network.engine.run_until(holds, self.now + round(timeout * SECOND))

    # Nodes and detectors.

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes that run."""
        return sorted(self.deployment.nodes)

    @property
    def detectors(self) -> dict[str, DetectorEntry]:
        """Detectors of the directory, by id; `node` of each is its host."""
        return dict(self._administrator.detectors)

    def host_of(self, subscription: SubscriptionState) -> str:
        """Name of the node that hosts the detector of a subscription; empty where no node does."""
        entry = self._administrator.detectors.get(subscription.detector)
        return "" if entry is None else entry.node

    def start_node(self, name: str) -> None:
        """Start a node of the topology again, without state, and wait until the directory has it."""
        stopped = self.network.topology.nodes.keys() - self.deployment.nodes.keys()
        if name not in stopped:
            raise DistcedError("not a stopped node", given=name, allowed=", ".join(sorted(stopped)) or "all nodes run")
        self.deployment.start_node(name)
        self._wait(f"node {name} is not in the directory", lambda: name in self._administrator.session.entries.nodes)

    def stop_node(self, name: str) -> None:
        """Stop a node with a farewell; other nodes start its detectors, with the state of replicas only."""
        self.deployment.stop_node(self._running(name))

    def crash_node(self, name: str, *, silent: bool = False) -> None:
        """Crash a node, with the loss of its state.

        Args:
            silent: as after a power cut: the server misses the node 45 s later only.
        """
        self.deployment.crash_node(self._running(name), silent=silent)

    def move(self, detector: str | SubscriptionState, node: str) -> None:
        """Move a detector, by its id or by a subscription that it serves, and wait until it is there."""
        identity = detector if isinstance(detector, str) else detector.detector
        if identity not in self._administrator.detectors:
            known = ", ".join(self._administrator.detectors) or "no detector is known"
            raise DistcedError("not a detector", given=identity or "none yet", allowed=known)
        self._administrator.move(identity, self._running(node))
        moved = f"detector {identity} has not moved to {node}"
        self._wait(moved, lambda: self._administrator.detectors[identity].node == node)

    def _running(self, node: str) -> str:
        if node not in self.deployment.nodes:
            raise DistcedError("not a running node", given=node, allowed=", ".join(self.nodes) or "none runs")
        return node

    def _wait(self, problem: str, holds: Callable[[], bool]) -> None:
        if not self.wait_for(holds, NODES_WITHIN):
            advice = "look at `network.notes`, the log events of the nodes"
            raise DistcedError(problem, given=f"after {NODES_WITHIN} s of virtual time", advice=advice)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in list(self.clients.values()):
            client.stop()


class InMemorySubscription(Subscription):
    """A subscription of an in-memory deployment: `get` and iteration advance virtual time until an event arrives.

    A callback is called while time advances; its exceptions are counted and logged, as on threads.
    """

    client: InMemoryClient
    _begun = False

    def begin(self) -> None:
        self._begun = True
        self._schedule()

    def end(self) -> None:
        super().end()
        self._schedule()

    def _give(self, event: Event | Loss, now: int) -> None:
        super()._give(event, now)
        self._schedule()

    def _schedule(self) -> None:
        if self._begun and self._callback is not None:
            self.client.deployment.network.engine.after(0, lambda: self._call_back(iter(self._take, None)))

    def _wait_for(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        found = self.client.deployment.wait_for(holds, WAIT_LIMIT if timeout is None else timeout)
        if found or timeout is not None:
            return found
        raise DistcedError(
            "no event has arrived",
            given=f"within {WAIT_LIMIT:.0f} s of virtual time",
            where=f"subscription {self.pattern}",
            advice="publish, and promise a watermark, before; `get(timeout)` gives up after seconds of virtual time",
        )


class InMemoryClient(Client):
    """A `Client` of an in-memory deployment: its calls advance virtual time where they wait."""

    _driver: VirtualDriver  # type: ignore[assignment]
    _subscription = InMemorySubscription

    def __init__(self, deployment: InMemoryDeployment, place: Place, name: str, patience: float) -> None:
        self.deployment = deployment
        self._place = place
        self._numbers = count(1)
        home = deployment.network.home_of(place.name)
        super().__init__("memory", home=home, name=name, clock=deployment.network.engine, patience=patience)

    def _meet(self, url: str, home: str, patience: float) -> ClientDriver:
        # It has the methods of a driver on threads, over a participant of the simulated network instead of buses.
        return cast(ClientDriver, VirtualDriver(self.deployment, self._place, self.name, patience))

    def start(self, timeout: float = 10.0) -> Self:
        self._driver.start(timeout)
        return self

    def stop(self) -> None:
        super().stop()
        self.deployment.clients.pop(self.name, None)

    def flush(self, timeout: float = 5.0) -> bool:
        return self._driver.flush(timeout)

    def _share_callback(self, subscriptions: Sequence[Subscription], callback: SharedFunction) -> None:
        # There is one thread.
        for each in subscriptions:
            each._callback = partial(callback, each)

    def _register(self, event_type: EventType, operation: object, awaited: Container[str] = ()) -> list[ClientEffect]:
        return self._session.register(event_type, self.home, operation, awaited)

    def _new_id(self) -> str:
        # Without a random one, by which runs would differ.
        return f"{self.name}.{next(self._numbers)}"


class VirtualDriver:
    """Driver of a client session in virtual time, with the methods of `ClientDriver`.

    Attributes:
        session, subscriptions: as of that driver.
        lock: of nothing, for there is one thread.
    """

    def __init__(self, deployment: InMemoryDeployment, place: Place, name: str, patience: float) -> None:
        self._deployment = deployment
        self._participant = _Application(deployment.network, place, name, round(patience * SECOND))
        self.session = self._participant.session
        self.subscriptions = self._participant.subscriptions
        self.lock = nullcontext()
        self._running = False

    def start(self, timeout: float) -> None:
        if not self._running and not self._participant.connections:
            self._running = True
            self._participant.begin()
        self.run(partial(self.session.wait_known, round(timeout * SECOND)))

    def stop(self, timeout: float = 5.0) -> None:
        if self._running:
            self._running = False
            self._participant.stop()
            self._deployment.wait_for(lambda: not self._participant.alive)

    def crash(self) -> None:
        """End without a farewell."""
        self._running = False
        self._participant.crash(silent=False)

    def run(self, begin: Callable[[Any], list[ClientEffect]]) -> None:
        """Begin an operation of the application, and advance time until it is complete; raises its error."""
        results: list[DistcedError | None] = []
        self.do(lambda: begin(results.append))
        self._deployment.wait_for(lambda: bool(results))
        error = results[0] if results else BusError("a call was not completed", given=self.session.name)
        if error is not None:
            raise error

    def do(self, decide: Callable[[], list[ClientEffect]]) -> None:
        """Carry out effects."""
        if not self._running:
            advice = "get another from `client` of the deployment"
            raise BusError("the client has stopped", given=self.session.name, advice=advice)
        self._participant.do(decide())

    post = do

    def send_of_source(self, message: Publish, *, events: bool) -> None:
        self.do(lambda: [message])

    @property
    def connections(self) -> Any:
        raise DistcedError("no bus in memory", given=self.session.name, advice="use `network` of the deployment")

    def flush(self, timeout: float) -> bool:
        connections = self._participant.connections
        return self._deployment.wait_for(lambda: not any(each.pending for each in connections.values()), timeout)


class _Application(SimulatedClient):
    """The application as a participant."""

    def __init__(self, network: Fabric, place: Place, name: str, patience: int) -> None:
        super().__init__(network, place, name, patience)
        self.client_id = f"distced-{name}"

    def heard(self, subscription: SubscriptionState, topic: str, payload: bytes, home: str) -> None:
        cast(Subscription, subscription).receive(home, topic, payload, False)

    def took(self, subscription: SubscriptionState, items: Iterable[Event | Loss], home: str) -> None:
        cast(Subscription, subscription).take(lambda now: items, home)

    def waits(self, subscription: SubscriptionState, reason: str) -> None:
        cast(Subscription, subscription).notify_waiting(reason)

    def ended(self, subscription: SubscriptionState, error: DistcedError) -> None:
        del self.subscriptions[subscription.id]
        cast(Subscription, subscription).fail(error)


def _star(nodes: int | Iterable[str], servers: int, latency: float, jitter: float) -> Topology:
    """Topology of an in-memory deployment: all sites are linked to the first."""
    if servers < 1 or (isinstance(nodes, int) and nodes < 1):
        raise DistcedError("not a deployment", given=f"{nodes} nodes, {servers} servers", allowed="1 or more of each")
    sites = [f"site-{number}" for number in range(1, servers + 1)]
    names = [f"node-{number}" for number in range(1, nodes + 1)] if isinstance(nodes, int) else list(nodes)
    return Topology(
        [Site(each) for each in sites],
        [BrokerNode(name, sites[place % servers]) for place, name in enumerate(names)],
        links=[Link((sites[0], each), round(latency * SECOND), round(jitter * SECOND)) for each in sites[1:]],
    )

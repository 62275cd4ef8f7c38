"""Several sites, each with a real MQTT server of its own; the directory is at one of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.bus import Bus
from distced.middleware.cli.command import main
from distced.middleware.client.aio import AsyncClient
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import BusError, SubscriptionError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry, Hints, SourceEntry
from distced.middleware.wire.topics import composite_topic, directory_topic, event_topic, pointer_topic

pytestmark = pytest.mark.mqtt

A, B = event_type("A", {"k": "number"}), event_type("B", {"k": "number"})
NOWHERE = "mqtt://127.0.0.1:9"
Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    """A server for the directory, and one for each of two sites."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with ExitStack() as stack:
        yield {name: stack.enter_context(start_server("mosquitto")) for name in ("directory", "north", "south")}


@dataclass
class Sites:
    """Nodes and clients at the sites, called after them."""

    urls: dict[str, str]
    root: str
    stack: ExitStack
    nodes: dict[str, LiveNode] = field(default_factory=dict)

    def name(self, of: str) -> str:
        """What the server of a site is called in entries."""
        return "" if of == "directory" else self.urls[of]

    def node(self, site: str, **arguments: Any) -> LiveNode:
        made = LiveNode(
            self.urls["directory"], f"{self.root}-{site}", home=self.urls[site], root=self.root, **arguments
        )
        self.nodes[site] = self.stack.enter_context(made)
        return made

    def client(self, site: str = "directory", **arguments: Any) -> Client:
        name = f"{self.root}-app-{site}"
        made = Client(self.urls["directory"], home=self.urls[site], name=name, root=self.root, **arguments)
        return self.stack.enter_context(made)

    def bus(self, site: str) -> Bus:
        bus = self.stack.enter_context(Bus(self.urls[site]))
        bus.wait_connected()
        return bus


@pytest.fixture
def sites(servers: dict[str, Server], root: str) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites({name: server.url for name, server in servers.items()}, root, stack)


def heard(subscription: Subscription, source: Source) -> bool:
    """Whether a further event arrives: nobody tells a reader of a type when the servers have its subscriptions."""
    source.publish(source.create("A", 1, k=1))
    event = subscription.get(0.2)
    assert event is None or event.type == "A"
    return event is not None and event.source == source.name


def his(subscription: Subscription, count: int) -> list[int]:
    """The `hi` of the next `count` events."""
    taken = [subscription.get(10) for _ in range(count)]
    assert None not in taken
    return [each.hi for each in taken if each is not None]


@pytest.mark.parametrize("host", ["directory", "north"])
def test_composite_events_do_not_depend_on_sites(sites: Sites, host: str) -> None:
    random = Random(3)
    pattern = "[A as x] ; [B where k >= x.k] -> Out(k = x.k)"
    events = {
        site: [
            Event(name, at, at, site, at, {"k": random.randrange(3)})
            for at in range(1, 300)
            if (name := random.choice("AB")) and random.random() < 0.6
        ]
        for site in ("north", "south")
    }
    engine = StepwiseEngine([compile_pattern(pattern)])
    expected = engine.feed(sorted((each for some in events.values() for each in some), key=lambda one: one.key))
    expected += engine.finish()
    assert len(expected) > 50
    sites.node(host)
    subscriber = sites.client("south")
    publishers = {"north": sites.client("north"), "south": subscriber}
    subscriber.wait_for_nodes(1)
    subscriber.register(A, B)
    subscription = subscriber.subscribe(pattern)
    assert subscription.homes == (sites.name(host),)
    sources = {}
    for site, client in publishers.items():
        client.register(A, B)
        sources[site] = client.source(site, ["A", "B"], watermark=0)
    for start in range(0, 200, 20):
        for site, source in sources.items():
            batch = events[site][start : start + 20]
            if batch:
                source.publish(*batch, watermark=batch[-1].hi)
    for source in sources.values():
        source.heartbeat(1_000)
    found = [subscription.get(10) for _ in expected]
    assert [None if each is None else each.id for each in found] == [each.id for each in expected]
    assert subscription.statistics.duplicates == 0


def test_entries_name_homes_and_events_travel_at_home_only(sites: Sites, eventually: Eventually) -> None:
    node = sites.node("north", capacity=250.0)
    client = sites.client("south")
    client.wait_for_nodes(1)
    client.register(A)
    seen: dict[str, list[str]] = {site: [] for site in sites.urls}
    for site, topics in seen.items():
        sites.bus(site).subscribe(f"{sites.root}/#", lambda topic, *_, to=topics: to.append(topic), qos=1, timeout=5)
    source = client.source("s", ["A"], watermark=0)
    subscription = client.subscribe("[A]")
    directory = client._session.entries
    assert directory.nodes[node.node.name].home == sites.name("north")
    assert directory.nodes[node.node.name].capacity == 250.0
    assert directory.clients[client.name].home == sites.name("south")
    assert directory.sources["s"].home == sites.name("south")
    assert client.detectors[subscription.detector].home == sites.name("north")
    source.publish(source.create("A", 1, k=1), watermark=1)
    source.heartbeat(2)
    assert his(subscription, 1) == [1]
    assert subscription.wait_watermark(2, 10)
    event, found = event_topic("A", "s", root=sites.root), composite_topic(subscription.detector, root=sites.root)
    beat = f"{sites.root}/a/heartbeat/{client.name}"
    eventually(lambda: {event, beat} <= set(seen["south"]) and found in seen["north"])
    assert not {event, beat, found} & set(seen["directory"])
    assert found not in seen["south"]
    assert not {event, beat} & set(seen["north"])


def test_server_of_the_directory_is_no_other_home(sites: Sites) -> None:
    node, client = sites.node("directory"), sites.client("directory")
    assert (node.node.home, client.home) == ("", "")
    assert client.home_bus is client.bus
    # Events have a second connection to it.
    assert list(node.connections.all()) == ["", sites.urls["directory"]]


# Subscriptions to a type.


def test_events_of_a_type_are_heard_wherever_sources_come(sites: Sites, eventually: Eventually) -> None:
    sites.node("directory")
    north, south, reader = sites.client("north"), sites.client("south"), sites.client()
    reader.wait_for_nodes(1)
    reader.register(A, B)
    eventually(lambda: {"A", "B"} <= north.types.keys() & south.types.keys())
    first = north.source("n", ["A", "B"], watermark=0)
    subscription = reader.subscribe("A")
    # The reader may have subscribed before it heard of the source.
    eventually(lambda: {place.home for place in subscription.places} == {"", sites.name("north")})
    first.publish(first.create("B", 1, k=1))
    eventually(lambda: heard(subscription, first))
    other = south.source("s", ["A"], watermark=0)
    eventually(lambda: sites.name("south") in {place.home for place in subscription.places})
    eventually(lambda: heard(subscription, other))
    reader.unsubscribe(subscription)
    assert not subscription.places


def test_composite_events_of_a_type_are_heard_wherever_detectors_are(sites: Sites, eventually: Eventually) -> None:
    sites.node("north")
    client, reader = sites.client("south"), sites.client()
    client.wait_for_nodes(1)
    client.register(A, B)
    source = client.source("s", ["A", "B"], watermark=0)
    client.subscribe("[A] -> Out()")
    eventually(lambda: bool(reader.detectors))
    subscription = reader.subscribe("Out")
    assert {place.home for place in subscription.places} == {sites.name("north")}
    # Another pattern publishes the type, on a node that comes later.
    sites.nodes.pop("north").stop()
    eventually(lambda: not reader.nodes)
    sites.node("south")
    reader.wait_for_nodes(1)
    client.subscribe("[B] -> Out()")
    eventually(lambda: {place.home for place in subscription.places} == {sites.name("north"), sites.name("south")})
    eventually(lambda: all(entry.home == sites.name("south") for entry in reader.detectors.values()))
    for at in range(1, 1000):
        # Its subscription at the other server is confirmed to nobody, so the first events may pass by.
        source.publish(source.create("B", at, k=1), watermark=at)
        if (event := subscription.get(0.1)) is not None:
            assert event.type == "Out"
            return
    pytest.fail("no composite event was heard")


# What goes wrong.


def test_unreachable_home_is_named_and_delays_no_other(
    sites: Sites, eventually: Eventually, make_bus: Callable[..., Bus]
) -> None:
    sites.urls["nowhere"] = NOWHERE
    sites.node("nowhere")
    client = sites.client(patience=2.0)
    client.wait_for_nodes(1)
    client.register(A)
    with pytest.raises(SubscriptionError, match=r"can be listened to: mqtt://127.0.0.1:9.*nothing listens"):
        client.subscribe("[A]")
    sites.nodes.pop("nowhere").stop()
    eventually(lambda: not client.nodes)
    sites.node("directory")
    client.wait_for_nodes(1)
    # Somebody says of a source that it is there, and of another something that is no server.
    raw = make_bus(sites.urls["directory"])
    for name, home in {"ghost": NOWHERE, "fool": "http://no.server"}.items():
        entry = SourceEntry(("A",), 0, 1, "somebody", home)
        raw.publish(directory_topic("source", name, root=sites.root), encode(entry), qos=1, retain=True)
    eventually(lambda: {"ghost", "fool"} <= client._session.entries.sources.keys())
    subscription = client.subscribe("A")
    assert subscription.places[next(place for place in subscription.places if not place.home)]
    assert {place.home: done for place, done in subscription.places.items() if place.home} == {NOWHERE: False}
    source = client.source("s", ["A"], watermark=0)
    source.publish(source.create("A", 1, k=1), watermark=1)
    assert his(subscription, 1) == [1]


def test_client_reports_the_absence_of_its_own_server(sites: Sites) -> None:
    sites.urls["nowhere"] = NOWHERE
    with pytest.raises(BusError, match=r"nothing listens at 127.0.0.1:9"):
        sites.client("nowhere")
    # And is not left in the directory.
    other = sites.client()
    assert other._session.entries.clients.keys() == {other.name}


def test_site_whose_server_was_restarted_goes_on(
    sites: Sites, start_mosquitto: Callable[..., Server], eventually: Eventually
) -> None:
    server = start_mosquitto()
    sites.urls["island"] = server.url
    island, mainland = sites.node("island"), sites.client()
    client = sites.client("island")
    client.wait_for_nodes(1)
    client.register(A, B)
    source = client.source("s", ["A", "B"], watermark=0)
    subscription = mainland.subscribe("[A] ; [B]")
    source.publish(source.create("A", 1, k=1), watermark=1)
    assert subscription.wait_watermark(1, 10)
    server.stop()
    home = sites.name("island")
    buses = [each.to(home) for each in (island.connections, client._driver.connections, mainland._driver.connections)]
    eventually(lambda: not any(bus.connected for bus in buses))
    # Meanwhile the rest of the world goes on, and what the site publishes waits.
    assert mainland.types.keys() == {"A", "B"}
    source.publish(source.create("B", 2, k=1), watermark=2)
    start_mosquitto(port=server.port)
    eventually(lambda: all(bus.connected for bus in buses))
    for at in range(10, 1000, 2):
        # What was published while others were not back yet is lost to them, and never more than that.
        source.publish(source.create("A", at, k=1), source.create("B", at + 1, k=1), watermark=at + 1)
        if (event := subscription.get(0.05)) is not None:
            assert event.hi in (2, at + 1) or event.hi < at
            return
    pytest.fail("nothing was detected any more")


def test_node_at_another_site_takes_over(sites: Sites, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.client.subscription_session.LINGER", 200 * MILLISECOND)
    sites.node("north")
    client = sites.client("south")
    client.wait_for_nodes(1)
    client.register(A, B)
    source = client.source("s", ["A", "B"], watermark=0)
    subscription = client.subscribe("[A] ; [B]")
    assert subscription.homes == (sites.name("north"),)
    later = sites.node("south")
    client.wait_for_nodes(2)
    sites.nodes.pop("north").stop()
    eventually(lambda: subscription.homes == (sites.name("south"),))
    eventually(lambda: any(each.running for each in later.node.hosted.values()))
    # Until its server has taken what it subscribes to.
    eventually(lambda: not later.node.homes.awaited)
    source.publish(source.create("A", 1, k=1), source.create("B", 2, k=1), watermark=2)
    assert his(subscription, 1) == [2]
    # It does not listen for ever where nothing is published any more.
    eventually(lambda: {place.home for place in subscription.places} == {sites.name("south")})


def test_subscriber_hears_replicas_at_their_sites_and_each_event_once(sites: Sites, eventually: Eventually) -> None:
    for site in sites.urls:
        sites.node(site)
    client = sites.client()
    client.wait_for_nodes(3)
    client.register(A, B)
    source = client.source("s", ["A", "B"], watermark=0)
    hints = Hints(rates={"A": 2.0}, selectivity=0.5)
    quality = QualityOfService(distribution="max-reliability", hints=hints)
    subscription = client.subscribe("[A] ; [B]", quality=quality)
    entry = client._session.directory.own["subscription"][subscription.id]
    assert (entry.distribution, entry.hints) == ("max-reliability", hints)

    def hosts() -> DetectorEntry:
        return client.detectors[subscription.detector]

    # A replica is told of when it is at work.
    eventually(lambda: len(hosts().replicas) == 1)
    homes = {hosts().home, *hosts().replicas.values()}
    assert len(homes) == 2
    eventually(lambda: {place.home for place, there in subscription.places.items() if there} == homes)
    source.publish(source.create("A", 1, k=1), source.create("B", 2, k=1), source.create("A", 3, k=1), watermark=3)
    assert his(subscription, 1) == [2]
    eventually(lambda: subscription.statistics.duplicates == 1)
    primary = hosts().node
    sites.nodes.pop(primary.removeprefix(f"{sites.root}-")).stop()
    eventually(lambda: hosts().node != primary)
    # What had been matched when the first was lost is known to the second.
    source.publish(source.create("B", 4, k=1), watermark=4)
    assert his(subscription, 1) == [4]


def test_detector_moves_to_another_site_and_its_topic_follows(
    sites: Sites, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    # `distced move` speaks of the usual root.
    sites = Sites(sites.urls, "ced", sites.stack)
    sites.node("north")
    client = sites.client("south")
    client.wait_for_nodes(1)
    client.register(A, B)
    source = client.source("s", ["A", "B"], watermark=0)
    subscription = client.subscribe("[A] ; [B]")
    target = sites.node("south")
    client.wait_for_nodes(2)
    source.publish(source.create("A", 1, k=1), watermark=1)
    assert main(["move", subscription.detector, target.node.name, "--server", sites.urls["directory"]]) == 0
    assert "moved from ced-north to ced-south" in capsys.readouterr().out
    source.publish(source.create("B", 2, k=1), watermark=2)
    assert his(subscription, 1) == [2]
    assert client.detectors[subscription.detector].home == sites.name("south")
    eventually(lambda: subscription.homes == (sites.name("south"),))
    source.publish(source.create("A", 3, k=1), source.create("B", 4, k=1), watermark=4)
    assert his(subscription, 1) == [4]
    client.unregister("A")
    client.unregister("B")


# Finding the directory.


def test_client_finds_the_directory_by_its_own_server(sites: Sites, eventually: Eventually) -> None:
    sites.node("north")
    topic, seen = pointer_topic(root=sites.root), []
    sites.bus("north").subscribe(topic, lambda _, payload, retain: seen.append(payload), qos=1)
    eventually(lambda: bool(seen))
    with Client(sites.urls["north"], name=f"{sites.root}-lost", root=sites.root) as client:
        assert client.home == sites.name("north")
        assert str(client.bus.address) in sites.urls["directory"]
        client.wait_for_nodes(1)
        client.register(A)
        source = client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("[A]")
        source.publish(source.create("A", 1, k=1), watermark=1)
        assert his(subscription, 1) == [1]
    # Nothing is left of the first look.
    with Client(sites.urls["north"], name=f"{sites.root}-other", root=sites.root, home="") as stubborn:
        assert stubborn.home == ""
        assert stubborn._session.entries.clients.keys() == {stubborn.name}


def test_pointer_to_a_server_that_is_away_is_named(sites: Sites) -> None:
    topic = pointer_topic(root=sites.root)
    sites.bus("north").publish(topic, b'{"url": "mqtt://127.0.0.1:9"}', qos=1, retain=True)
    time.sleep(0.1)
    with pytest.raises(BusError, match=r"nothing listens at 127.0.0.1:9"):
        Client(sites.urls["north"], root=sites.root).start(2.0)


def test_asyncio_client_follows_the_pointer_and_is_at_home_where_it_was_sent(
    sites: Sites, eventually: Eventually
) -> None:
    sites.node("north")
    topic, seen = pointer_topic(root=sites.root), []
    sites.bus("north").subscribe(topic, lambda _, payload, retain: seen.append(payload), qos=1)
    eventually(lambda: bool(seen))

    async def run() -> list[int]:
        async with AsyncClient(sites.urls["north"], name=f"{sites.root}-lost", root=sites.root) as client:
            assert client.home == sites.name("north")
            await client.wait_for_nodes(1)
            await client.register(A)
            source = await client.source("s", ["A"], watermark=0)
            # The events come over another bus than the directory.
            subscription = await client.subscribe("[A]", quality=QualityOfService(queue=1))
            for each in (1, 2, 3):
                await source.publish(source.create("A", each, k=1), watermark=each)
            return [event.hi for _ in range(3) if (event := await subscription.get(10.0)) is not None]

    assert asyncio.run(run(), debug=True) == [1, 2, 3]
    # The end of the source is published behind its events, although their server is another.
    with Client(sites.urls["directory"], root=sites.root) as client:
        assert not client._session.entries.sources
        assert client._session.entries.clients.keys() == {client.name}


def test_asyncio_client_raises_the_reason_where_a_server_is_away(sites: Sites) -> None:
    async def run() -> None:
        for url, home in (("mqtt://127.0.0.1:9", None), (sites.urls["directory"], "mqtt://127.0.0.1:9")):
            with pytest.raises(BusError, match=r"127.0.0.1:9"):
                await AsyncClient(url, home=home, root=sites.root).start(2.0)
        starting = asyncio.create_task(AsyncClient(sites.urls["directory"], root=sites.root).start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        stopped = AsyncClient(sites.urls["directory"], root=sites.root)
        async with stopped:
            pass
        with pytest.raises(BusError, match="the client is not running"):
            await stopped.register(A)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    with Client(sites.urls["directory"], root=sites.root) as client:
        assert client._session.entries.clients.keys() == {client.name}

"""The client against broker nodes on a real MQTT server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.clock import ManualClock
from distced.middleware.model.errors import (
    BusError,
    DistcedError,
    EventError,
    SubscriptionError,
    SubscriptionsError,
    TypeRegistryError,
)
from distced.middleware.model.event_types import derive, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX, SECOND
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import NodeEntry, SubscriptionEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import directory_topic, event_topic

pytestmark = pytest.mark.mqtt

A = event_type("A", {"k": "number"})
B = event_type("B", {"k": "number"})
Eventually = Callable[[Callable[[], bool]], None]


@dataclass
class Site:
    """A server with nodes, and clients at hand."""

    url: str
    root: str
    stack: ExitStack
    nodes: list[LiveNode] = field(default_factory=list)

    def node(self) -> LiveNode:
        made = LiveNode(self.url, f"{self.root}-n{len(self.nodes)}", root=self.root)
        self.nodes.append(self.stack.enter_context(made))
        return made

    def client(self, name: str = "app", **arguments: Any) -> Client:
        return self.stack.enter_context(Client(self.url, name=f"{self.root}-{name}", root=self.root, **arguments))

    def ready(self, nodes: int = 1) -> tuple[Client, Source]:
        """Start nodes, and a client that has registered types and is a source."""
        for _ in range(nodes):
            self.node()
        client = self.client()
        client.wait_for_nodes(nodes)
        client.register(A, B)
        return client, client.source("s", ["A", "B"], watermark=0)


@pytest.fixture
def site(mosquitto: Server, root: str) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(mosquitto.url, root, stack)


def send(source: Source, *events: tuple[str, int], watermark: int | None = None) -> list[Event]:
    made = [source.create(name, instant, k=1) for name, instant in events]
    source.publish(*made, watermark=watermark)
    return made


def his(subscription: Subscription, count: int) -> list[int]:
    """The `hi` of the next `count` events."""
    taken = [subscription.get(10) for _ in range(count)]
    assert None not in taken
    return [each.hi for each in taken if each is not None]


# Types and sources.


def test_types_are_registered_for_everybody(site: Site, eventually: Eventually) -> None:
    one, other = site.client("one"), site.client("other")
    one.register(A, derive(A, "Slow", where="k < 3"))
    eventually(lambda: set(other.types) == {"A", "Slow"})
    assert other.type("A").attributes == {"k": "number"}
    assert other.type("A").home == site.url
    other.register(A)
    with pytest.raises(TypeRegistryError, match="'A' is registered already, and differs"):
        other.register(event_type("A", {"k": "string"}))
    with pytest.raises(TypeRegistryError, match="derived from 'A'"):
        one.unregister("A")
    with pytest.raises(TypeRegistryError, match=r"unknown event type: B .allowed: A, Slow"):
        one.unregister("B")
    one.unregister("Slow")
    one.unregister("A")
    eventually(lambda: not other.types)


def test_faulty_type_in_the_directory_leaves_others_usable(site: Site, make_bus: Callable[..., Bus]) -> None:
    bus = make_bus(site.url)
    for name, content in {
        "Orphan": b'{"name": "Orphan", "attributes": {}, "derived": {"base": "Nobody"}}',
        "Ring": b'{"name": "Ring", "attributes": {}, "derived": {"base": "Ring"}}',
        "Bad": b"garbage",
    }.items():
        bus.publish(directory_topic("type", name, root=site.root), content, qos=1, retain=True)
    assert bus.flush()
    client = site.client()
    client.register(A)
    assert "A" in client.types
    assert "Bad" not in client.types


def test_type_that_detectors_publish_cannot_be_registered_differently(site: Site) -> None:
    client, _ = site.ready()
    client.subscribe("[A as a] -> Out(k = a.k)")
    with pytest.raises(TypeRegistryError, match=r"'Out' are published already, and differ: x .allowed: k"):
        client.register(event_type("Out", {"x": "string"}))
    client.register(event_type("Out", {"k": "number"}))


def test_source_is_ready_when_all_nodes_have_acknowledged_it(site: Site) -> None:
    client, _ = site.ready(nodes=2)
    subscription = client.subscribe("[A] ; [A]")
    source = client.source("t", ["A"], watermark=5)
    assert source.watermark == 5
    detectors = {name: hosted for each in site.nodes for name, hosted in each.node.hosted.items()}
    assert "t" in detectors[subscription.detector].detector.policy.sources
    client.heartbeat(50)
    eventually_watermark(subscription, 50)
    assert client.source("late", ["A"], watermark=7).watermark == 50


def eventually_watermark(subscription: Subscription, watermark: int) -> None:
    assert subscription.wait_watermark(watermark, 10)


def test_source_publishes_its_end(site: Site) -> None:
    client, source = site.ready()
    other = client.source("t", ["A"], watermark=0)
    subscription = client.subscribe("[A]")
    source.heartbeat(20)
    other.close()
    eventually_watermark(subscription, 20)
    with pytest.raises(DistcedError, match=r"not a source of this client: t .allowed: s"):
        client.publish(Event("A", 30, 30, "t", 0, {"k": 1}))


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        (("t", ["X"]), TypeRegistryError, "unknown event type: X"),
        (("t", ["Slow"]), TypeRegistryError, "'Slow' is derived.*subscribe to the pattern .Slow."),
        (("s", ["A"]), DistcedError, "open already: s"),
        (("t", ["A"], {"watermark": 2**63}), DistcedError, "not a watermark"),
        (("t", ["A"], {"lease": -1}), DistcedError, "not a lease"),
    ],
)
def test_sources_that_cannot_be(site: Site, arguments: Any, error: type[DistcedError], problem: str) -> None:
    client, _ = site.ready()
    client.register(derive(A, "Slow", where="k < 3"))
    name, types, more = (*arguments, {})[:3]
    with pytest.raises(error, match=problem):
        client.source(name, types, **more)
    assert client.source("fine", ["A"]).name == "fine"


def test_two_clients_cannot_be_one_source(site: Site) -> None:
    client, _ = site.ready()
    other = site.client("other")
    with pytest.raises(DistcedError, match=f"open already: s, at client {client.name}"):
        other.source("s", ["A"])


def test_silent_nodes_are_named_and_no_entry_is_left(site: Site, make_bus: Callable[..., Bus]) -> None:
    client = site.client(patience=0.3)
    client.register(A)
    topic = directory_topic("node", "ghost", root=site.root)
    make_bus(site.url).publish(topic, encode(NodeEntry(0)), qos=1, retain=True)
    client.wait_for_nodes(1)
    with pytest.raises(SubscriptionError, match="'t': ghost"):
        client.source("t", ["A"])
    make_bus(site.url).publish(topic, b"", qos=1, retain=True)
    site.node()
    patient = site.client("patient")
    patient.wait_for_nodes(1)
    assert patient.source("t", ["A"]).name == "t"


def test_source_refuses_foreign_and_late_events(site: Site) -> None:
    client, source = site.ready()
    foreign = client.source("t", ["A"], watermark=0)
    good = source.create("A", 5, k=1)
    for wrong, problem in [
        (lambda: source.create("A", 5, k="one"), "'k' of type 'A' is a number: one"),
        (lambda: source.create("A", 5), "lacks the attribute 'k'"),
        (lambda: source.create("A", 9, 5, k=1), "lo > hi"),
        (lambda: source.create("C", 5, k=1), "does not publish this type: C .allowed: A, B"),
        (lambda: source.publish(Event("A", 5, 5, "s", 0, {"k": "one"})), "is a number"),
        (lambda: foreign.publish(good), "not an event of the source 't'"),
        (lambda: source.publish(good, source.create("A", 0, k=1)), "at or before the watermark.*hi > 0"),
        (lambda: source.publish(good, watermark=2**70), "not a watermark"),
        (lambda: source.heartbeat(1.5), "not a watermark"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(DistcedError, match=problem):
            wrong()
    assert source.published == 0
    source.publish(good, watermark=7)
    with pytest.raises(EventError, match="hi > 7"):
        send(source, ("A", 7))
    client.publish(source.create("A", 8, k=1))
    assert source.published == 2


def test_watermark_reaches_readers_of_one_of_several_types(site: Site) -> None:
    client, source = site.ready()
    subscription = client.subscribe("[A]")
    send(source, ("A", 1), ("B", 2), watermark=2)
    assert his(subscription, 1) == [1]


def test_source_that_was_fenced_off_does_not_hold_the_stream(site: Site) -> None:
    client, source = site.ready()
    client.source("silent", ["A"], watermark=0)
    subscription = client.subscribe("[A]")
    send(source, ("A", 1), watermark=1)
    assert subscription.get(0.1) is None
    client.fence("silent")
    assert his(subscription, 1) == [1]
    another = client.subscribe("[B]")
    send(source, ("B", 2), watermark=2)
    assert his(another, 1) == [2]


# Subscriptions.


def test_events_come_by_iteration_and_by_callback(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()
    heard: list[Event] = []
    with client.subscribe("[A] ; [B] -> Out()", heard.append) as called:
        read = client.subscribe("[A];[B]->Out()")
        assert (called.detector, called.node) == (read.detector, site.nodes[0].node.name)
        sent = send(source, ("A", 1), ("B", 2), ("A", 3), ("B", 4), watermark=4)
        taken = []
        for each in read:
            taken.append(each)
            if len(taken) == 2:
                client.unsubscribe(read)
        eventually(lambda: len(heard) == 2)
    assert heard == taken
    assert isinstance(taken[0], CompositeEvent)
    assert (taken[0].type, taken[0].lo, taken[0].hi) == ("Out", 1, 2)
    assert taken[0].constituents == (sent[0].id, sent[1].id)
    assert read.statistics.received == 2
    eventually(lambda: not site.nodes[0].node.hosted)


def test_callback_that_fails_is_counted_and_called_again(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()

    def fail(event: Event) -> None:
        raise ValueError(event.hi)

    subscription = client.subscribe("[A]", fail)
    send(source, ("A", 1), ("A", 2), watermark=2)
    eventually(lambda: subscription.statistics.errors == 2)


def test_subscription_ends_with_the_first_match(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()
    subscription = client.subscribe("[A]", quality=QualityOfService(matches="first"))
    send(source, ("A", 1), ("A", 2), watermark=2)
    assert [each.hi for each in subscription] == [1]
    assert subscription.ended
    eventually(lambda: not site.nodes[0].node.hosted)
    client.unsubscribe(subscription)


def test_subscription_has_an_upper_rate(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()
    # One in a thousand seconds.
    subscription = client.subscribe("[A]", quality=QualityOfService(rate=0.001))
    send(source, *(("A", instant) for instant in range(1, 11)), watermark=10)
    eventually(lambda: subscription.statistics.limited == 9)
    assert his(subscription, 1) == [1]


def test_rates_are_kept_by_the_clock() -> None:
    clock = ManualClock(10 * SECOND)
    client: Any = SimpleNamespace(clock=clock)

    def passing(rate: float, times: list[float]) -> list[float]:
        subscription = Subscription(client, "q", "A", QualityOfService(rate=rate), None)
        passed = []
        start = clock.now()
        for number, instant in enumerate(times):
            clock.instant = max(clock.instant, start + round(instant * SECOND))
            subscription("t", encode_frame([Event("A", 1, 1, "s", number, {})], type="A", source="s"), False)
            if subscription.get(0) is not None:
                passed.append(instant)
        assert subscription.statistics.limited == len(times) - len(passed)
        return passed

    assert passing(2, [0, 0.1, 0.2, 0.9, 1.0, 1.05, 1.1, 1.15]) == [0, 0.1, 1.0, 1.1]
    assert passing(0.5, [0, 1, 1.9, 2, 3, 4.5]) == [0, 2, 4.5]


@pytest.mark.parametrize(
    "quality",
    [
        {"detection": "perhaps"},
        {"consumption": "x"},
        {"matches": "last"},
        {"rate": 0},
        {"queue": 0},
        {"overflow": "x"},
    ],
)
def test_qualities_of_service_that_cannot_be(quality: dict[str, Any]) -> None:
    with pytest.raises(DistcedError, match=str(next(iter(quality.values())))):
        QualityOfService(**quality)


def test_client_with_the_name_of_a_node_is_refused() -> None:
    with pytest.raises(DistcedError, match="node:n1"):
        Client("mqtt://127.0.0.1:1", name="node:n1")


def test_refused_pattern_is_an_error(site: Site) -> None:
    client, _ = site.ready()
    with pytest.raises(
        SubscriptionError, match=r"(?s)unknown event type: X .*line 1, column 8.*\[A\] ; \[X\].*at node"
    ):
        client.subscribe("[A] ; [X]")
    with pytest.raises(SubscriptionError, match="line 1"):
        client.subscribe("[A] ; [")
    assert client.subscribe("[A]").detector


def test_definitions_types_and_other_objects_are_patterns(site: Site) -> None:
    client, source = site.ready()
    defined = client.subscribe("[Pair] ; [A]", definitions={"Pair": "[A] [B]"})
    by_type = client.subscribe(A)
    named = client.subscribe("Pair", definitions={"Pair": "[A] [B]"})
    send(source, ("A", 1), ("B", 2), ("A", 3), watermark=3)
    assert (his(defined, 1), his(by_type, 2), his(named, 1)) == ([3], [1, 3], [2])


def test_absence_of_broker_nodes_is_reported_in_time(site: Site) -> None:
    client = site.client(patience=0.2)
    client.register(A)
    with pytest.raises(SubscriptionError, match=r"no broker node has answered.*0 nodes are known.*start one"):
        client.subscribe("[A]")
    with pytest.raises(SubscriptionError, match=r"too few broker nodes: 0 .allowed: 1"):
        client.wait_for_nodes(1, 0.1)
    # Nothing is left for a node that comes later.
    site.node()
    client.wait_for_nodes(1)
    client.patience = 5.0
    client.subscribe("[A] ; [A]")
    assert len(site.nodes[0].node.directory.subscriptions) == 1


def test_two_clients_share_a_detector_and_only_one_gets_constituents(site: Site) -> None:
    client, source = site.ready(nodes=2)
    other = site.client("other")
    bare = client.subscribe("[A] ; [B]")
    full = other.subscribe("[A as x];[B]", quality=QualityOfService(constituents=True))
    assert (bare.detector, bare.node) == (full.detector, full.node)
    sent = send(source, ("A", 1), ("B", 2), watermark=2)
    without, with_them = bare.get(10), full.get(10)
    assert isinstance(without, CompositeEvent)
    assert isinstance(with_them, CompositeEvent)
    assert without.id == with_them.id
    assert (without.events, with_them.events) == ((), tuple(sent))
    other.unsubscribe(full)
    send(source, ("A", 3), ("B", 4), watermark=4)
    assert his(bare, 1) == [4]


def test_best_effort_and_epochs(site: Site) -> None:
    client, source = site.ready()
    quick = client.subscribe("[A] ; [B]", quality=QualityOfService(detection="best-effort"))
    epochs = client.subscribe("[A] ; [B]", quality=QualityOfService(consumption="epoch"))
    assert len({quick.detector, epochs.detector}) == 2
    written = client.subscribe("[A] ; [B] consumed epoch")
    assert written.detector == epochs.detector
    send(source, ("A", 1), ("B", 2))
    assert his(quick, 1) == [2]
    assert epochs.get(0.05) is None
    source.heartbeat(5)
    assert his(epochs, 1) == his(written, 1) == [2]


# Types by name.


def test_events_of_a_type_come_from_every_source_checked(
    site: Site, make_bus: Callable[..., Bus], eventually: Eventually
) -> None:
    client, source = site.ready()
    subscription = client.subscribe("A")
    assert (subscription.detector, subscription.node) == ("", "")
    send(source, ("A", 1), ("B", 2), ("A", 3), watermark=3)
    bus = make_bus(site.url)
    wrong = encode_frame(
        [Event("A", 5, 5, "raw", 1, {"k": "one"}), Event("A", 6, 6, "raw", 2, {"k": 1})], type="A", source="raw"
    )
    bus.publish(event_topic("A", "raw", root=site.root), wrong)
    bus.publish(event_topic("A", "raw", root=site.root), b"garbage")
    assert sorted(his(subscription, 3)) == [1, 3, 6]
    eventually(lambda: subscription.statistics.errors == 2)
    # Each source promises for itself alone.
    assert subscription.statistics.watermark is None


def test_composite_events_come_by_the_name_of_their_type(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()
    other = site.client("other")
    with pytest.raises(TypeRegistryError, match="unknown event type: Out"):
        other.subscribe("Out")
    first = client.subscribe("[A] -> Out()")
    eventually(lambda: bool(other.detectors))
    subscription = other.subscribe("Out")
    # Who publishes the type later is heard as well.
    client.subscribe("[B] -> Out()")
    eventually(lambda: len(subscription.filters) == 2)
    assert first.detector in subscription.filters[0]
    send(source, ("A", 1), watermark=1)
    assert his(subscription, 1) == [1]
    send(source, ("B", 2), watermark=2)
    assert his(subscription, 1) == [2]


def test_derived_type_cannot_be_published(site: Site) -> None:
    client, _ = site.ready()
    client.register(derive(A, "Slow", where="k < 3"))
    with pytest.raises(TypeRegistryError, match=r"subscribe to the pattern .Slow."):
        client.subscribe("Slow")
    assert client.subscribe("[Slow]").detector


def test_file_with_clocks_registers_their_types(site: Site, tmp_path: Path) -> None:
    client, source = site.ready()
    path = tmp_path / "clocks.detect"
    path.write_text(
        """type Five = clock every 5ns
type Noon = clock "0 12 * * *" in "Europe/London"
[A] [Five] -> Waited()
[A] [B, Noon] -> Other()
""",
        encoding="utf-8",
    )
    waited, other = client.subscribe_file(path)
    assert {"Five", "Noon"} <= set(client.types)
    assert [each.detector for each in client.subscribe_file(path)] == [waited.detector, other.detector]
    send(source, ("A", 7), watermark=9)
    source.heartbeat(12)
    found = waited.get(10)
    assert isinstance(found, CompositeEvent) and (found.lo, found.hi) == (7, 10)
    assert found.constituents[1] == ("%every 5ns", 10)


# What goes wrong around it.


def test_another_node_takes_over_without_the_applications_doing(site: Site, eventually: Eventually) -> None:
    client, source = site.ready(nodes=2)
    subscription = client.subscribe("[A] ; [B]")
    before = subscription.node
    next(each for each in site.nodes if each.node.name == before).stop()
    eventually(lambda: subscription.node != before)
    survivor = next(each for each in site.nodes if each.node.name != before)
    eventually(lambda: any(each.running for each in survivor.node.hosted.values()))
    send(source, ("A", 1), ("B", 2), watermark=2)
    assert his(subscription, 1) == [2]


def test_cleared_subscription_reports_an_error(site: Site, make_bus: Callable[..., Bus]) -> None:
    client, source = site.ready()
    subscription = client.subscribe("[A]")
    send(source, ("A", 1), watermark=1)
    assert subscription.wait_watermark(1, 10)
    topic = directory_topic("subscription", subscription.id, root=site.root)
    make_bus(site.url).publish(topic, b"", qos=1, retain=True)
    with pytest.raises(SubscriptionError, match="cleared"):
        list(subscription)
    assert subscription.statistics.received == 1


def test_unservable_subscription_waits_and_reports_the_reason(site: Site, eventually: Eventually) -> None:
    client, _ = site.ready()
    subscription = client.subscribe("[B]")
    report: list[str] = []
    subscription.on_wait = report.append
    client.unregister("B")
    # The next node finds that it cannot be detected.
    site.node()
    client.wait_for_nodes(2)
    site.nodes[0].stop()
    eventually(lambda: "unknown event type: B" in subscription.waits)
    assert not subscription.ended
    client.register(B)
    eventually(lambda: not subscription.waits)
    eventually(lambda: len(report) == 2)
    assert report[1] == ""
    assert subscription.node == site.nodes[1].node.name


def test_client_that_crashes_leaves_the_directory(site: Site, eventually: Eventually) -> None:
    watching = site.client("watching")
    code = (
        "import sys, time; from distced.middleware.client.client import Client\n"
        "Client(sys.argv[1], name=sys.argv[2], root=sys.argv[3]).start(); print('up', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, site.url, f"{site.root}-crash", site.root]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        clients = watching._session.entries.clients
        eventually(lambda: f"{site.root}-crash" in clients)
        process.kill()
        eventually(lambda: f"{site.root}-crash" not in clients)


def test_client_that_stops_leaves_nothing_behind(site: Site, eventually: Eventually) -> None:
    site.node()
    watching = site.client("watching")
    with Client(site.url, root=site.root, name=f"{site.root}-short") as client:
        client.register(A)
        client.source("s", ["A"])
        client.subscribe("[A]")
        eventually(lambda: bool(watching.detectors))
    left = watching._session.entries
    eventually(lambda: not (left.sources or left.subscriptions or left.detectors or len(left.clients) > 1))


def test_client_continues_after_a_restart_of_the_server(
    start_mosquitto: Callable[..., Server], root: str, eventually: Eventually
) -> None:
    server = start_mosquitto()
    with ExitStack() as stack:
        site = Site(server.url, root, stack)
        client, source = site.ready(nodes=2)
        subscription = client.subscribe("[A] ; [B]")
        send(source, ("A", 1), watermark=1)
        assert subscription.wait_watermark(1, 10)
        server.stop()
        eventually(lambda: not client.bus.connected and not any(each.bus.connected for each in site.nodes))
        start_mosquitto(port=server.port)
        buses = [bus for each in site.nodes for bus in each.connections.all().values()]
        eventually(lambda: client.bus.connected and all(each.connected for each in buses))
        # The server has forgotten everything, and was told again.
        another = site.client("another")
        another.wait_for_nodes(2)
        eventually(lambda: set(another.types) == {"A", "B"} and set(another.detectors) == {subscription.detector})
        assert another._session.entries.sources.keys() == {"s"}
        assert all(set(each.node.directory.subscriptions) == {subscription.id} for each in site.nodes)
        send(source, ("B", 2), watermark=2)
        # What had been matched before is not lost.
        assert his(subscription, 1) == [2]
        later = another.subscribe("[A]")
        send(source, ("A", 3), watermark=3)
        assert his(later, 1) == [3]
        # Each directory message is heard once, as before.
        counts = [each.node.counts["frames"] for each in site.nodes]
        assert sum(counts) < 20


@pytest.mark.slow
def test_client_works_with_the_embedded_server(amqtt: Server, root: str) -> None:
    with ExitStack() as stack:
        site = Site(amqtt.url, root, stack)
        client, source = site.ready(nodes=2)
        subscriptions = [client.subscribe(f"[A] ; [B] within {number}s") for number in range(1, 5)]
        send(source, ("A", 1), ("B", 2), watermark=2)
        assert [his(each, 1) for each in subscriptions] == [[2]] * 4
        watching = site.client("watching")
        assert set(watching.nodes) == {each.node.name for each in site.nodes}
        assert set(watching.detectors) == {each.detector for each in subscriptions}


def test_client_without_a_connection_is_an_error() -> None:
    client = Client("mqtt://127.0.0.1:1")
    with pytest.raises(BusError, match=r"127.0.0.1:1"):
        client.start(0.5)
    client.stop()


def test_raw_subscription_of_an_absent_client_gets_no_answer(
    site: Site, make_bus: Callable[..., Bus], eventually: Eventually
) -> None:
    site.ready()
    entry = SubscriptionEntry("nobody", "[A]")
    topic = directory_topic("subscription", "raw", root=site.root)
    make_bus(site.url).publish(topic, encode(entry), qos=1, retain=True)
    eventually(lambda: len(site.nodes[0].node.hosted) == 1)
    assert not any(each.running for each in site.nodes[0].node.hosted.values())


def test_promise_far_beyond_the_clock_is_refused(site: Site) -> None:
    client, source = site.ready()
    subscription = client.subscribe("([A], [T]) @ T = 5ns")
    send(source, ("A", 1))
    with pytest.raises(EventError, match=r"up to 1h beyond .* the clock of this client"):
        source.heartbeat(INSTANT_MAX)
    now = client.clock.now()
    source.heartbeat(now)
    assert his(subscription, 1) == [6]
    assert subscription.wait_watermark(now, 5)


def test_many_subscriptions_come_with_their_events(site: Site, eventually: Eventually) -> None:
    client, source = site.ready()
    heard: list[tuple[str, int]] = []
    patterns = [f"[A where k == {number}] ; [B where k == {number}]" for number in range(300)]
    made = client.subscribe_many(patterns, lambda subscription, event: heard.append((subscription.pattern, event.hi)))
    for hi, number in enumerate((7, 299)):
        source.publish(*(source.create(name, 2 * hi + place + 1, k=number) for place, name in enumerate("AB")))
    source.heartbeat(4)
    eventually(lambda: len(heard) == 2)
    assert sorted(heard) == [(patterns[299], 4), (patterns[7], 2)]
    client.unsubscribe_many(made)
    eventually(lambda: not client.detectors)


def test_refused_ones_of_many_are_named(site: Site) -> None:
    client, _ = site.ready()
    with pytest.raises(SubscriptionsError) as caught:
        client.subscribe_many(["[A]", "[A where k == 'x']", "[Nobody]", "A"])
    assert caught.value.errors.keys() == {1, 2}
    assert [each.pattern for each in caught.value.subscriptions] == ["[A]", "A"]

"""Three sites on one machine, each with an MQTT server and a Ray node of its own: detectors on actors at all of them.

Ray takes its time, so all of this is done on one cluster, in the order in which it stands here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import find_mosquitto
from distced.brokers.live.observers import publish_entries
from distced.brokers.ray.local_sites import LocalSites
from distced.brokers.ray.nodes import RayNodes
from distced.detectors.compiler import Compiled
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Hints, TopologyEntry
from distced.middleware.wire.topics import directory_topic
from distced.simulations.demo.node_counters import NodeCounters
from tests.brokers.test_transparency import KINDS, _pattern
from tests.live.test_ray import descendants, is_loopback, listening
from tests.support.event_streams import END, messages, spread
from tests.support.random_patterns import TYPES

pytestmark = [
    pytest.mark.ray,
    pytest.mark.mqtt,
    pytest.mark.spawn,
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: broker)"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked at in /proc"),
]

SITES = ("a", "b", "c")
NODES = {"a1": "a", "b1": "b", "c1": "c"}
SEED = 11
SECONDS = 75.0


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Verbs that run in this process configure logging, to a standard error that is the test's."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def sites() -> Iterator[LocalSites]:
    with LocalSites(SITES, kind="mosquitto") as here:
        yield here


@pytest.fixture(scope="module")
def nodes(sites: LocalSites) -> Iterator[RayNodes]:
    locations = {name: sites.location(site) for name, site in NODES.items()}
    with RayNodes(sites.url, locations, address=sites.address) as started:
        yield started


@pytest.fixture
def client(sites: LocalSites, nodes: RayNodes) -> Iterator[Client]:
    """An application at the site of the directory."""
    with Client(sites.url, name="app", patience=SECONDS) as made:
        made.wait_for_nodes(len(NODES))
        yield made


def wait(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            pytest.fail("it did not come about")
        time.sleep(0.02)


def described(sites: LocalSites, latency: str) -> str:
    """Topology of the sites: a star around the first, with links of this latency."""
    tables = [f'[sites.{name}]\nurl = "{server.url}"\n' for name, server in sites.servers.items()]
    links = [f'[[links]]\nbetween = ["a", "{name}"]\nlatency = "{latency}"\n' for name in "bc"]
    return "\n".join([*tables, *links])


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_sites_are_reachable_from_this_machine_only(sites: LocalSites) -> None:
    addresses = listening(descendants(os.getpid()))
    assert addresses
    assert all(map(is_loopback, addresses)), addresses


def test_site_without_a_ray_node_is_an_error(sites: LocalSites) -> None:
    nodes = RayNodes(sites.url, {"x": NodeLocation(site="a"), "y": NodeLocation(site="attic")}, address=sites.address)
    with pytest.raises(DistcedError, match=r"no Ray node offers the site: attic .*a, b, c.*--resources") as raised:
        nodes.start()
    assert raised.value.__cause__ is None
    import ray

    assert not ray.is_initialized()


@pytest.mark.slow
def test_broker_of_another_process_joins_the_cluster(sites: LocalSites, tmp_path: Path) -> None:
    topology = tmp_path / "three.toml"
    topology.write_text(described(sites, "1ms"))
    code = "import sys; from distced.middleware.cli.command import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "broker", "--server", sites.url, "--topology", str(topology), "--json"]
    command += ["--ray-address", sites.address, "--name"]
    broker = subprocess.Popen([*command, "guest", "--site", "b"], stdout=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        report = next(each for line in broker.stdout if (each := json.loads(line))["event"] == "ready")
        assert (report["nodes"], report["ray"]) == (["guest"], True)
        with Client(sites.url, name="visitor", patience=SECONDS) as client:
            wait(lambda: "guest" in client.nodes)
            assert (client.nodes["guest"].home, client.nodes["guest"].isolates) == (sites.servers["b"].url, True)
            broker.terminate()
            assert broker.wait(SECONDS) == 0
            wait(lambda: "guest" not in client.nodes)
            directory = client._session.entries
            wait(lambda: "overlay" in directory.topologies)
    finally:
        broker.kill()
        broker.wait()
    publish_entries(sites.url, {directory_topic("topology", "overlay"): b""})


def test_absent_cluster_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("127.0.0.1:9", "nowhere"):
        with pytest.raises(DistcedError, match=rf"no Ray cluster can be joined: {address} .*ray start"):
            RayNodes("mqtt://127.0.0.1:9", ["x"], address=address).start()
    assert main(["broker", "--no-ray", "--ray-address", "auto"]) == 2
    assert "a Ray cluster for nodes without Ray" in capsys.readouterr().err


def test_each_node_is_at_its_site(sites: LocalSites, nodes: RayNodes, client: Client) -> None:
    import ray

    offering = {name: node["NodeID"] for node in ray.nodes() for name in node["Resources"] if name.startswith("site:")}
    homes = {"a1": "", "b1": sites.servers["b"].url, "c1": sites.servers["c"].url}
    assert {name: entry.home for name, entry in client.nodes.items()} == homes
    assert all(entry.isolates for entry in client.nodes.values())
    for name, site in NODES.items():
        actor = ray.get_actor(f"distced-{name}", namespace="distced")
        assert ray.get(actor.process.remote()) == nodes.processes()[name]
        where = actor.__ray_call__.remote(lambda host: ray.get_runtime_context().get_node_id())
        assert ray.get(where) == offering[f"site:{site}"]


# What is found.


@pytest.mark.slow
def test_composite_events_do_not_depend_on_sites(
    sites: LocalSites, nodes: RayNodes, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(SEED)
    patterns = made_patterns(random)
    events = spread(random, 90, len(SITES), span=60)
    engine = StepwiseEngine(patterns)
    expected = engine.feed(events) + engine.advance(END)
    assert len(expected) >= 100
    publishers = [Client(sites.url, home=sites.servers[site].url, name=f"pub-{site}") for site in SITES]
    client.register(*KINDS)
    try:
        sources = []
        for number, publisher in enumerate(publishers):
            publisher.start()
            publisher.register(*KINDS)
            sources.append(publisher.source(f"s{number}", TYPES, watermark=-100))
        subscriptions = subscribed(random, patterns, [client, *publishers])
        publishing = threading.Thread(target=publish, args=(random.random(), sources, events))
        publishing.start()
        moved = move_about(random, sites.url, client, publishing)
        for pattern, subscription in zip(patterns, subscriptions, strict=True):
            assert subscription.wait_watermark(END - 1, SECONDS), pattern.text
            own = [each for each in expected if each.source == pattern.automaton.canonical_id]
            assert report(drained(subscription)) == report(own), pattern.text
        publishing.join()
        assert moved > 3
        hosts = {entry.node for entry in client.detectors.values()}
        assert len(hosts) > 1
        assert any(entry.parts for entry in client.detectors.values())
        # Nothing a node was to do has failed, and nothing came that could not be used.
        with NodeCounters(sites.url) as counters:
            wait(lambda: set(counters.now()) >= set(NODES))
            for name, counts in counters.now().items():
                assert counts["events"] and not {count for count in counts if "dead letters" in count}, name
    finally:
        for publisher in publishers:
            publisher.stop()
    capsys.readouterr()


def made_patterns(random: Random) -> list[Compiled]:
    registry = TypeRegistry(KINDS)
    patterns = [_pattern(random, f"Out{number}", registry) for number in range(5)]
    return [*patterns, _pattern(random, "Out5", registry, reads="Out0")]


def subscribed(random: Random, patterns: list[Compiled], clients: list[Client]) -> list[Subscription]:
    policies = ["min-latency", "min-bandwidth", "min-impact", "min-load", "max-reliability", ""]
    subscriptions = []
    for pattern, policy in zip(patterns, policies, strict=True):
        quality = QualityOfService(
            consumption="epoch" if pattern.automaton.epochs else "ordered",
            decomposition=random.choice(("none", "full", "full")),
            distribution=policy,
        )
        reader = random.choice(clients)
        for each in patterns:
            wanted = each.publishes.name
            if f"[{wanted}]" in pattern.text:
                wait(lambda reader=reader, wanted=wanted: _is_published(reader, wanted))
        subscriptions.append(reader.subscribe(pattern.text, quality=quality))
    return subscriptions


def _is_published(client: Client, name: str) -> bool:
    return any(entry.publishes == name for entry in client.detectors.values())


def publish(seed: float, sources: list[Source], events: list[Event]) -> None:
    """Publish everything, each source at its own pace."""
    random = Random(seed)
    streams = [messages(random, events, source.name) for source in sources]
    while any(streams):
        place = random.choice([place for place, stream in enumerate(streams) if stream])
        message = streams[place].pop(0)
        if message.events:
            sources[place].publish(*message.events, watermark=message.watermark)
        else:
            assert message.watermark is not None
            sources[place].heartbeat(message.watermark)
        time.sleep(0.03)


def move_about(random: Random, url: str, client: Client, publishing: threading.Thread) -> int:
    """Move detectors at random while events are on their way, and until four have moved; how many."""
    moved = 0
    while publishing.is_alive() or moved < 4:
        identity, entry = random.choice(sorted(client.detectors.items()))
        target = random.choice(sorted({*NODES} - {entry.node, *entry.replicas}))
        # One that has just gone, or is on its way already, cannot be moved.
        moved += main(["move", identity, target, "--server", url]) == 0
    return moved


def drained(subscription: Subscription) -> list[Event]:
    return list(iter(lambda: subscription.get(0.2), None))  # type: ignore[arg-type]


def report(events: list[Any]) -> list[object]:
    return sorted((each.type, each.id, each.lo, each.hi, repr(sorted(each.attributes.items()))) for each in events)


# Processes.


@pytest.fixture
def neighbour(sites: LocalSites, client: Client) -> Iterator[Client]:
    """An application at site b, for which detectors stand at b1.

    Sites are a second apart by the topology: without one they count as 10 ms apart, and a node that measures a latency
    of more than half of that to its own server, as nodes do on a busy machine, is no longer the nearest.
    """
    topic = directory_topic("topology", "overlay")
    publish_entries(sites.url, {topic: encode(TopologyEntry(described(sites, "1s")))})
    with Client(sites.url, home=sites.servers["b"].url, name="neighbour", patience=SECONDS) as made:
        made.wait_for_nodes(len(NODES))
        yield made
    publish_entries(sites.url, {topic: b""})


@pytest.fixture
def source(client: Client, neighbour: Client) -> Iterator[Source]:
    """A source at site b."""
    for each in (client, neighbour):
        each.register(event_type("Up", {}), event_type("Down", {}))
    made = neighbour.source("lift", ["Up", "Down"], watermark=0)
    yield made
    made.close()


def subscribe(client: Client, pattern: str, *avoid: str, isolated: bool = False, **quality: Any) -> Subscription:
    hints = Hints(avoid=avoid, rates={"Up": 1.0, "Down": 1.0}, selectivity=0.5, isolated=isolated)
    return client.subscribe(pattern, quality=QualityOfService(hints=hints, **quality))


def detects(subscription: Subscription, source: Source, at: int) -> bool:
    """Whether something is detected in events that are published now, from this instant on."""
    events = [source.create(name, at + number) for number, name in enumerate(("Up", "Up", "Down", "Down"))]
    source.publish(*events, watermark=at + 3)
    return any(event.lo >= at for event in iter(lambda: subscription.get(0.5), None))


def test_node_whose_process_is_killed_comes_back_at_its_site(
    sites: LocalSites, nodes: RayNodes, client: Client, neighbour: Client, source: Source
) -> None:
    processes, since = nodes.processes(), client.nodes["b1"].since
    subscription = subscribe(neighbour, "[Up] ; [Down]")
    assert subscription.node == "b1"
    os.kill(processes["b1"], signal.SIGKILL)
    wait(lambda: "b1" in client.nodes and client.nodes["b1"].since > since)
    assert client.nodes["b1"].home == sites.servers["b"].url
    again = nodes.processes()
    assert again["b1"] != processes["b1"]
    assert {**again, "b1": 0} == {**processes, "b1": 0}
    instants = iter(range(10, 10_000, 10))
    wait(lambda: detects(subscription, source, next(instants)))
    another = subscribe(neighbour, "[Up] ; [Down] within 1min")
    assert another.node == "b1"
    assert detects(another, source, next(instants))


@pytest.mark.slow
def test_isolated_detector_has_a_process_while_it_is_needed(
    sites: LocalSites, nodes: RayNodes, client: Client, source: Source
) -> None:
    assert nodes.isolated_processes() == {}
    subscription = subscribe(client, "[Up] ; [Up] ; [Down]", "a1", "b1", isolated=True)
    name = f"c1+{subscription.detector}"
    assert subscription.node == name
    entry = client.nodes[name]
    assert (entry.home, entry.reserved) == (sites.servers["c"].url, subscription.detector)
    process = nodes.isolated_processes()[name]
    assert process not in nodes.processes().values()
    assert is_running(process)
    source.publish(*(source.create(each, at) for at, each in enumerate(("Up", "Up", "Down"), 20_001)), watermark=20_003)
    event = subscription.get(SECONDS)
    assert event is not None and event.hi == 20_003
    # Nothing else is put there.
    others = [subscribe(client, f"[Up] ; [Down] within {number}s", "a1", "b1") for number in (1, 2)]
    assert {each.node for each in others} == {"c1"}
    for each in others:
        client.unsubscribe(each)

    # It is started again as others are.
    os.kill(process, signal.SIGKILL)
    instants = iter(range(20_010, 25_000, 10))
    wait(lambda: detects(subscription, source, next(instants)))
    assert client.detectors[subscription.detector].node == name
    assert client.nodes[name].since > entry.since
    another = nodes.isolated_processes()[name]
    assert another != process

    client.unsubscribe(subscription)
    wait(lambda: not is_running(another) and name not in client.nodes)
    assert nodes.isolated_processes() == {}
    assert len(client.nodes) == len(NODES)


@pytest.mark.slow
def test_isolated_detector_ends_with_the_node_that_has_started_it(
    nodes: RayNodes, client: Client, neighbour: Client, source: Source
) -> None:
    subscription = subscribe(neighbour, "[Down] ; [Down]", isolated=True)
    assert subscription.node == f"b1+{subscription.detector}"
    (process,) = nodes.isolated_processes().values()
    os.kill(nodes.processes()["b1"], signal.SIGKILL)
    wait(lambda: not is_running(process))
    # Wherever it is detected next, it has a process of its own again.
    instants = iter(range(25_000, 29_000, 10))
    wait(lambda: detects(subscription, source, next(instants)))
    # Two nodes may have had one started, and then one of these ends.
    wait(lambda: len(nodes.isolated_processes()) == 1)
    ((name, again),) = nodes.isolated_processes().items()
    assert again != process
    wait(lambda: client.detectors[subscription.detector].node == name)
    neighbour.unsubscribe(subscription)
    wait(lambda: not nodes.isolated_processes())


@pytest.mark.slow
def test_reliable_detector_continues_when_a_site_is_lost(
    sites: LocalSites, nodes: RayNodes, client: Client, source: Source
) -> None:
    patterns = ("[Up] ; [Down]", "[Down] ; [Up]", "[Up] ; [Up]", "[Down] ; [Down]")
    subscriptions = [subscribe(client, each, "a1", distribution="max-reliability") for each in patterns]
    detectors = {each.detector for each in subscriptions}
    wait(lambda: all(len(client.detectors[each].replicas) == 1 for each in detectors))
    at = 30_000
    source.publish(source.create("Up", at + 1), source.create("Down", at + 2), watermark=at + 2)
    assert [event.hi for event in iter(lambda: subscriptions[0].get(2.0), None)][-1:] == [at + 2]
    since = client.nodes["c1"].since

    sites.lose("c")
    wait(lambda: "c1" not in client.nodes)
    wait(lambda: {client.detectors[each].node for each in detectors} == {"b1"})
    # What had been matched before is known to those that go on.
    source.publish(source.create("Up", at + 3), source.create("Down", at + 4), watermark=at + 4)
    for subscription, last in zip(subscriptions, (at + 4, at + 3, at + 3, at + 4), strict=True):
        found = []
        while not found or found[-1] != last:
            event = subscription.get(SECONDS)
            assert event is not None, (subscription.pattern, found)
            found.append(event.hi)

    sites.bring_back("c")
    wait(lambda: "c1" in client.nodes and client.nodes["c1"].since > since)
    wait(lambda: all(len(client.detectors[each].replicas) == 1 for each in detectors))

"""`InMemoryDeployment`: an application's code on the client interface, in virtual time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from distced import Client, CompositeEvent, QualityOfService, Source, Subscription, SubscriptionError, event_type
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.simulations.network.in_memory import InMemoryClient, InMemoryDeployment
from distced.testing import detect

COLD = "[Door as d] ; [Temp where temp < 15 and room == d.room] within 5min -> Cold(room = d.room)"
TYPES = event_type("Door", {"room": "string"}), event_type("Temp", {"room": "string", "temp": "number"})


def _source(client: InMemoryClient) -> Source:
    client.register(*TYPES)
    return client.source("sensors", ["Door", "Temp"])


def _door(source: Source) -> None:
    now = source.client.clock.now()
    source.publish(source.create("Door", now, room="FE02"), watermark=now)


def _cold(source: Source) -> None:
    now = source.client.clock.now()
    source.publish(source.create("Temp", now, room="FE02", temp=14.5), watermark=now)


def _subscribe(client: Client, pattern: str = COLD, **options: Any) -> Subscription:
    return client.subscribe(pattern, **options)


def _rooms(events: list[Event]) -> list[object]:
    return [event.attributes["room"] for event in events]


def test_subscription_has_composite_event_after_settle() -> None:
    with InMemoryDeployment(nodes=2, start="2026-11-21T08:00Z") as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        _door(source)
        deployment.advance(60)
        assert subscription.events() == []
        _cold(source)
        deployment.settle()
        assert _rooms(subscription.events()) == ["FE02"]
        assert subscription.events() == []


def test_time_stands_still_while_application_publishes() -> None:
    with InMemoryDeployment() as deployment:
        source = _source(deployment.client("office"))
        before = deployment.now
        _door(source)
        assert deployment.now == before
        deployment.advance("5min")
        assert deployment.now == before + 300 * SECOND


def test_get_advances_time_until_event_or_timeout() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        before = deployment.now
        assert subscription.get(timeout=5) is None
        assert deployment.now == before + 5 * SECOND
        _door(source)
        deployment.advance(1)
        before = deployment.now
        _cold(source)
        assert isinstance(subscription.get(timeout=5), CompositeEvent)
        assert deployment.now < before + SECOND
        assert subscription.wait_watermark(before, timeout=5)


def test_get_without_timeout_names_remedy() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES)
        with pytest.raises(DistcedError, match=r"no event has arrived.*3600 s of virtual time.*get\(timeout\)"):
            next(iter(_subscribe(client)))


def test_iteration_ends_with_first_match() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        source = _source(client)
        subscription = _subscribe(client, quality=QualityOfService(matches="first"))
        _door(source)
        deployment.advance(1)
        _cold(source)
        assert _rooms(list(subscription)) == ["FE02"]
        assert subscription.ended
        deployment.advance(10)
        assert not deployment.detectors


def test_callback_publishes_and_waits_in_virtual_time() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES, event_type("Alarm", {"room": "string"}))
        source = client.source("sensors", ["Door", "Temp"])
        alarms = _subscribe(client, "Alarm")

        def raise_alarm(event: Event) -> None:
            bell = client.source("bell", ["Alarm"])
            bell.publish(bell.create("Alarm", event.hi, room=event.attributes["room"]))

        subscription = client.subscribe(COLD, raise_alarm)
        _door(source)
        deployment.advance(1)
        _cold(source)
        deployment.settle()
        assert _rooms(alarms.events()) == []
        assert subscription.statistics.errors == 1

        subscription.close()
        client.subscribe(COLD, lambda event: seen.append(event))
        seen: list[Event] = []
        _door(source)
        deployment.advance(1)
        _cold(source)
        deployment.settle()
        assert _rooms(seen) == ["FE02"]


def test_detector_keeps_state_when_it_moves() -> None:
    with InMemoryDeployment(nodes=["roof", "cellar"]) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        _door(source)
        deployment.settle()
        (other,) = set(deployment.nodes) - {deployment.host_of(subscription)}
        deployment.move(subscription, other)
        assert deployment.host_of(subscription) == other
        _cold(source)
        assert subscription.get(timeout=5) is not None


def test_subscription_continues_when_node_stops() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        before = deployment.host_of(subscription)
        deployment.stop_node(before)
        deployment.advance(5)
        _door(source)
        deployment.advance(1)
        assert deployment.host_of(subscription) in deployment.nodes
        _cold(source)
        assert subscription.get(timeout=5) is not None
        deployment.start_node(before)
        assert deployment.nodes == ["node-1", "node-2"]
        client.wait_for_nodes(2)


def test_subscription_continues_when_node_crashes() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        client = deployment.client("office")
        source, subscription = _source(client), _subscribe(client)
        deployment.crash_node(deployment.host_of(subscription))
        deployment.advance(60)
        _door(source)
        deployment.advance(1)
        _cold(source)
        assert subscription.get(timeout=5) is not None


@pytest.mark.parametrize("seed", range(3))
def test_servers_and_delays_change_no_composite_event(seed: int) -> None:
    published: list[Event] = []
    with InMemoryDeployment(nodes=3, servers=3, latency=0.05, jitter=0.5, seed=seed) as deployment:
        doors, temps = deployment.client("doors", site="site-2"), deployment.client("temps", site="site-3")
        doors.register(*TYPES)
        door, temp = doors.source("door", ["Door"]), temps.source("temp", ["Temp"])
        subscription = _subscribe(deployment.client("office"), quality=QualityOfService(decomposition="full"))
        for step in range(20):
            if step % 3:
                made = temp.create("Temp", deployment.now, room=f"FE0{step % 2}", temp=10.0 + step)
            else:
                made = door.create("Door", deployment.now, room=f"FE0{step % 2}")
            (temp if step % 3 else door).publish(made)
            published.append(made)
            deployment.advance(0.3)
        doors.heartbeat(deployment.now)
        temps.heartbeat(deployment.now)
        deployment.settle()
        found = subscription.events()
    expected = detect(COLD, published)
    assert {event.constituents for event in found if isinstance(event, CompositeEvent)} == {
        event.constituents for event in expected
    }
    assert expected


def test_run_repeats_by_its_seed() -> None:
    def run(seed: int) -> str:
        with InMemoryDeployment(nodes=2, servers=2, jitter=0.2, seed=seed) as deployment:
            client = deployment.client("office", site="site-2")
            source, _ = _source(client), _subscribe(client)
            _door(source)
            deployment.advance(10)
            return deployment.network.trace.digest

    assert run(1) == run(1) != run(2)


def test_type_subscription_and_flush() -> None:
    with InMemoryDeployment() as deployment, deployment.client("office") as client:
        source = _source(client)
        with _subscribe(client, "Door") as subscription:
            _door(source)
            assert client.flush()
            deployment.advance(1)
            assert _rooms(subscription.events()) == ["FE02"]
        _door(source)
        deployment.advance(1)
        assert subscription.events() == []


def test_refused_pattern_raises_at_subscribe() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        with pytest.raises(SubscriptionError, match="Nothing"):
            client.subscribe("[Nothing] ; [Door]")
        assert client.detectors == {}


def test_subscribe_without_node_times_out_in_virtual_time() -> None:
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        client.register(*TYPES)
        deployment.stop_node("node-1")
        before = deployment.now
        with pytest.raises(SubscriptionError, match="no broker node"):
            client.subscribe(COLD)
        assert deployment.now == before + 5 * SECOND


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(DistcedError, match="not a deployment: 0 nodes, 1 servers"):
        InMemoryDeployment(nodes=0)
    with InMemoryDeployment() as deployment:
        client = deployment.client("office")
        for call, message in (
            (lambda: deployment.client("office"), "a client has this name"),
            (lambda: deployment.client("other", site="moon"), "moon.*site-1"),
            (lambda: deployment.advance(-1), "time does not go back"),
            (lambda: deployment.stop_node("roof"), "not a running node: roof.*node-1"),
            (lambda: deployment.start_node("node-1"), "all nodes run"),
            (lambda: deployment.move("abc", "node-1"), "not a detector: abc.*no detector is known"),
            (lambda: client.bus, "no bus in memory"),
        ):
            with pytest.raises(DistcedError, match=message):
                call()
        client.stop()
        with pytest.raises(BusError, match=r"the client has stopped.*`client` of the deployment"):
            client.register(*TYPES)
        deployment.client("office").register(*TYPES)


def test_testing_module_loads_simulation_on_first_use() -> None:
    check = "import sys, distced.testing as t; a = 'distced.simulations' in sys.modules; t.InMemoryDeployment; print(a)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

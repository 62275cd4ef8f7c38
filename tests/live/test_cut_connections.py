"""Connections cut in the middle of traffic, with a real server: messages under way come again, and nothing is lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.numbered_stream import Loss

pytestmark = [pytest.mark.mqtt, pytest.mark.slow]

TYPES = [event_type(name, {"k": "number"}) for name in ("A", "B", "C")]
EVENTS = 900


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def cut(bus: Bus) -> None:
    """Break the connection of a bus, as a network does."""
    connection: Any = bus._dispatch.connection
    if connection is not None:
        connection._client.stream.raw.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("whose", ["node", "subscriber", "publisher", "anybody"])
def test_cut_connections_lose_nothing(mosquitto: Server, root: str, stack: ExitStack, whose: str) -> None:
    # One node, as others would take its detectors over, without their state.
    node = stack.enter_context(LiveNode(mosquitto.url, f"{root}-n", root=root))
    publisher = stack.enter_context(Client(mosquitto.url, name=f"{root}-p", root=root))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    publisher.register(*TYPES)
    publisher.wait_for_nodes(1)
    source = publisher.source("s", ["A", "B", "C"], watermark=0)
    patterns = {
        "each": ("[A]", "none"),
        "pair": ("[A as a] ; [B where k == a.k]", "none"),
        "cut": ("([A] ; [B]) ; [C] -> Out()", "full"),
    }
    subscriptions = {
        name: subscriber.subscribe(text, quality=QualityOfService(decomposition=decomposition))  # type: ignore[arg-type]
        for name, (text, decomposition) in patterns.items()
    }
    losses: list[Loss] = []
    for each in subscriptions.values():
        each.on_loss = losses.append
    buses = {
        "node": list(node.connections.all().values()),
        "subscriber": list(subscriber._driver.connections.all().values()),
        "publisher": list(publisher._driver.connections.all().values()),
    }
    random = Random(whose)
    for number in range(EVENTS):
        name = "ABC"[number % 3]
        source.publish(source.create(name, number + 1, k=number // 3), watermark=number + 1)
        time.sleep(0.002)
        if number % 150 == 75:
            cut(random.choice(buses[whose if whose in buses else random.choice(sorted(buses))]))
    for name, subscription in subscriptions.items():
        assert subscription.wait_watermark(EVENTS, 20.0), name
        found = subscription.events()
        assert len({each.id for each in found}) == len(found) == EVENTS // 3, name
    assert losses == []


def test_subscriptions_to_types_lose_nothing_without_a_next_message(
    mosquitto: Server, root: str, stack: ExitStack
) -> None:
    stack.enter_context(LiveNode(mosquitto.url, f"{root}-n", root=root))
    publisher = stack.enter_context(Client(mosquitto.url, name=f"{root}-p", root=root))
    finder = stack.enter_context(Client(mosquitto.url, name=f"{root}-f", root=root))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    publisher.register(*TYPES)
    publisher.wait_for_nodes(1)
    source = publisher.source("s", ["A", "B", "C"], watermark=0)
    found = finder.subscribe("[B] -> Out()")
    subscriptions = {name: subscriber.subscribe(name) for name in ("A", "Out")}
    losses: list[Loss] = []
    for each in subscriptions.values():
        each.on_loss = losses.append
    number = 0
    for turn in range(4):
        # A subscription begins at the position of a detector that it has had an answer of.
        if turn:
            cut(subscriber.bus)
        for _ in range(10):
            number += 1
            source.publish(
                source.create("A", 2 * number - 1, k=1), source.create("B", 2 * number, k=1), watermark=2 * number
            )
        # Nothing comes behind these: the position shows that they are missing.
        assert found.wait_watermark(2 * number, 20.0)
        deadline = time.monotonic() + 20.0
        while time.monotonic() < deadline and {e.statistics.received for e in subscriptions.values()} != {number}:
            time.sleep(0.01)
        assert {name: each.statistics.received for name, each in subscriptions.items()} == {"A": number, "Out": number}
    assert losses == []
    # A source that begins while the subscriber is not connected.
    cut(subscriber.bus)
    other = publisher.source("t", ["A"], watermark=2 * number)
    other.publish(other.create("A", 10**6, k=1))
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline and subscriptions["A"].statistics.received != number + 1:
        time.sleep(0.01)
    assert subscriptions["A"].statistics.received == number + 1 and losses == []


def test_cut_connection_is_a_loss_of_sources_without_numbers(mosquitto: Server, root: str, stack: ExitStack) -> None:
    node = stack.enter_context(LiveNode(mosquitto.url, f"{root}-n", root=root))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    subscriber.register(*TYPES)
    subscriber.wait_for_nodes(1)
    pattern = subscriber.subscribe("[A]", quality=QualityOfService(detection="best-effort"))
    to_type = subscriber.subscribe("A")
    losses: dict[str, list[Loss]] = {"pattern": [], "type": []}
    pattern.on_loss, to_type.on_loss = losses["pattern"].append, losses["type"].append
    subscriber.bus.publish(f"{root}/e/A/d", b'{"type": "A", "source": "d", "seq": 1, "attributes": {"k": 1}}')
    assert pattern.get(20.0) is not None and to_type.get(20.0) is not None
    for name, buses in (("type", [subscriber.bus]), ("pattern", list(node.connections.all().values()))):
        for each in buses:
            cut(each)
        deadline = time.monotonic() + 20.0
        while not losses[name] and time.monotonic() < deadline:
            to_type.get(0.01)
            pattern.get(0.01)
        assert [each.reason.partition(" ")[2].partition(" had")[0] for each in losses[name]] == [
            {"type": "client", "pattern": "node"}[name]
        ]

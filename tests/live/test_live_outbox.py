"""Outbox with a real server: what a killed node needs behind its checkpoint, and a server that is away."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.model.errors import BusError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.outbox import Outbox
from tests.support.node_process import NodeProcess

pytestmark = [pytest.mark.mqtt, pytest.mark.slow, pytest.mark.spawn]

A = event_type("A", {"k": "number"})


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_killed_node_gets_what_came_behind_its_checkpoint(
    mosquitto: Server, root: str, stack: ExitStack, tmp_path: Path
) -> None:
    node = stack.enter_context(NodeProcess(mosquitto.url, f"{root}-n", root, tmp_path))
    # Ten messages are recent: without acknowledgements all others would be lost.
    outbox = Outbox(recent_bytes=3_000)
    publisher = stack.enter_context(Client(mosquitto.url, name=f"{root}-p", root=root, outbox=outbox))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    publisher.register(A)
    publisher.wait_for_nodes(1)
    source = publisher.source("s", ["A"], watermark=0)
    subscription = subscriber.subscribe("[A as a] ; [A where k == a.k + 1]")
    losses: list[Loss] = []
    subscription.on_loss = losses.append
    for number in range(1, 1_001):
        source.publish(source.create("A", number, k=number), watermark=number)
        if number == 5:
            deadline = time.monotonic() + 20.0
            while outbox.unacknowledged(("s", "A")) is None and time.monotonic() < deadline:
                time.sleep(0.05)
        if number == 300:
            node.kill()
        if number == 700:
            node.start_again()
        time.sleep(0.001)
    assert outbox.held_bytes > 600 * 250
    assert subscription.wait_watermark(1_000, 60.0)
    assert len(subscription.events()) == 999 and losses == []
    # What its checkpoints cover by now is forgotten.
    deadline = time.monotonic() + 20.0
    number = 1_000
    while outbox.held_bytes > 3_000 and time.monotonic() < deadline:
        number += 1
        source.publish(source.create("A", number, k=number), watermark=number)
        time.sleep(0.05)
    assert outbox.held_bytes <= 3_000


def test_publisher_with_an_outbox_goes_on_while_its_server_is_away(
    start_mosquitto: Callable[..., Server], root: str
) -> None:
    server = start_mosquitto()
    with (
        LiveNode(server.url, f"{root}-n", root=root),
        Client(server.url, name=f"{root}-p", root=root, outbox=Outbox(1_000_000)) as publisher,
        Client(server.url, name=f"{root}-s", root=root) as subscriber,
    ):
        publisher.register(A)
        publisher.wait_for_nodes(1)
        source = publisher.source("s", ["A"], watermark=0)
        subscription = subscriber.subscribe("[A]")
        losses: list[Loss] = []
        subscription.on_loss = losses.append
        for number in range(1, 101):
            source.publish(source.create("A", number, k=number), watermark=number)
        assert subscription.wait_watermark(100, 20.0)
        os.kill(server.pid, signal.SIGKILL)
        server.wait(5.0)
        deadline = time.monotonic() + 10.0
        while publisher.bus.connected and time.monotonic() < deadline:
            time.sleep(0.01)
        begin = time.monotonic()
        for number in range(101, 1_001):
            source.publish(source.create("A", number, k=number), watermark=number)
        assert time.monotonic() - begin < 2.0
        with pytest.raises(BusError, match=r"the server, which is away"):
            for number in range(1_001, 100_000):
                source.publish(source.create("A", number, k=number))
        start_mosquitto(port=server.port)
        assert publisher.flush(30.0)
        source.heartbeat(number)
        assert subscription.wait_watermark(1_000, 30.0)
        assert subscription.wait_watermark(number, 30.0)
        assert len(subscription.events()) == number - 1 and losses == []

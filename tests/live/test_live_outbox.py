"""Outbox with a real server: what a killed node needs behind its checkpoint, a server that is away,
and a publisher that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.aio import AsyncClient
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


PUBLISHER = """
import sys
from distced.middleware.client.aio import AsyncClient
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
url, root, path = sys.argv[1:]
with Client(url, name=f"{root}-p", root=root, outbox=path) as client:
    client.register(event_type("A", {"k": "number"}))
    client.wait_for_nodes(1)
    source = client.source("s", ["A"], watermark=0)
    print("open", file=sys.stderr, flush=True)
    for line in sys.stdin:
        number = int(line)
        source.publish(source.create("A", number, k=number), watermark=number)
        print(number, file=sys.stderr, flush=True)
"""


class PublisherProcess:
    """A publisher with an outbox, which publishes an event for each number."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", PUBLISHER, *arguments]
        pipe, off = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=off, stderr=pipe, text=True)
        assert self.process.stdin is not None and self.process.stderr is not None
        self._in, self._out = self.process.stdin, self.process.stderr
        assert self._out.readline() == "open\n"

    def publish(self, numbers: range) -> None:
        for number in numbers:
            self._in.write(f"{number}\n")
        self._in.flush()
        for number in numbers:
            assert self._out.readline() == f"{number}\n"

    def end(self, *, kill: bool) -> None:
        if kill:
            self.process.kill()
        self._in.close()
        self.process.wait(20)


def test_killed_publisher_continues_its_stream(
    start_mosquitto: Callable[..., Server], root: str, tmp_path: Path
) -> None:
    server = start_mosquitto()
    arguments = server.url, root, str(tmp_path / "outbox")
    with (
        LiveNode(server.url, f"{root}-n", root=root),
        Client(server.url, name=f"{root}-s", root=root) as subscriber,
    ):
        first = PublisherProcess(*arguments)
        subscription = subscriber.subscribe("[A as a] ; [A where k == a.k + 1]")
        losses: list[Loss] = []
        subscription.on_loss = losses.append
        first.publish(range(1, 101))
        # With the server that may have the last ones, and without one.
        os.kill(server.pid, signal.SIGKILL)
        server.wait(5.0)
        first.publish(range(101, 201))
        first.end(kill=True)
        start_mosquitto(port=server.port)
        second = PublisherProcess(*arguments)
        second.publish(range(201, 301))
        second.end(kill=True)
        third = PublisherProcess(*arguments)
        third.publish(range(301, 401))
        assert subscription.wait_watermark(400, 30.0)
        found = subscription.events()
        assert len(found) == len({each.id for each in found}) == 399 and losses == []
        third.end(kill=False)


def test_asyncio_client_continues_with_its_outbox(mosquitto: Server, root: str, tmp_path: Path) -> None:
    async def publish(begin: int) -> int:
        async with AsyncClient(mosquitto.url, root=root, outbox=tmp_path) as client:
            await client.register(A)
            await client.wait_for_nodes(1)
            source = await client.source("s", ["A"], watermark=0)
            for number in range(begin, begin + 10):
                await source.publish(source.create("A", number, k=number), watermark=number)
            assert await client.flush()
            return source.first

    with (
        LiveNode(mosquitto.url, f"{root}-n", root=root),
        Client(mosquitto.url, name=f"{root}-s", root=root) as subscriber,
    ):
        subscriber.register(A)
        subscription = subscriber.subscribe("A")
        lives = {asyncio.run(publish(begin)) for begin in (1, 11)}
        found = [subscription.get(10.0) for _ in range(20)]
        assert [each.hi for each in found if each is not None] == list(range(1, 21)) and len(lives) == 1
        assert subscription.get(0.0) is None and subscription.statistics.losses == 0

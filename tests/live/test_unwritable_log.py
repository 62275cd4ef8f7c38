"""Participants whose log cannot be written: they go on, and end as ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import structlog

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

A = event_type("A", {"k": "number"})
CODE = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
Eventually = Callable[[Callable[[], bool]], None]


def serve(client: Client, number: int) -> None:
    """Have an event detected by a pattern that no node has had before."""
    client.register(A)
    subscription = client.subscribe(f"[A as a where k == {number}] -> Found(k = a.k)")
    source = client.source(f"source-{number}", ["A"])
    now = client.clock.now()
    source.publish(source.create("A", now, k=number), watermark=now)
    source.close()
    found = subscription.get(20)
    assert found is not None
    assert found.attributes == {"k": number}
    client.unsubscribe(subscription)


@pytest.mark.parametrize("closed", ["log", "reader"])
def test_node_whose_log_is_lost_serves_further_subscriptions(
    start_mosquitto: Callable[..., Server], closed: str, eventually: Eventually
) -> None:
    # Seen where a verb in the process of a node had configured logging to a stream that was closed: the effects behind
    # a log event were lost, and the bus of the node ended.
    server = start_mosquitto()
    reading, writing = os.pipe()
    ends = {"reader": os.fdopen(reading), "log": os.fdopen(writing, "w")}
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(ends["log"]))
    with LiveNode(server.url, "n") as node, Client(server.url) as client:
        serve(client, 0)
        ends[closed].close()
        for number in range(1, 4):
            serve(client, number)
        eventually(lambda: node.statistics()["detectors"] == 0)
    for each in ends.values():
        with suppress(OSError):
            each.close()


class Broker:
    """A broker that loses standard output or error, and its other stream in a file."""

    def __init__(self, lost: str, loss: str, url: str, folder: Path, *options: str) -> None:
        self._kept = folder / "kept"
        self._reading = -1
        number = {"stdout": 1, "stderr": 2}[lost]
        # Unbuffered streams have nothing left to write at the end.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with self._kept.open("w") as kept:
            streams: dict[str, int] = dict.fromkeys(("stdout", "stderr"), kept.fileno())
            if loss == "full disk":
                streams[lost] = os.open("/dev/full", os.O_WRONLY)
            elif loss != "closed":
                self._reading, streams[lost] = os.pipe()
            self.process = subprocess.Popen(
                [sys.executable, "-c", CODE, "broker", "--no-ray", "--name", "n", "--server", url, *options],
                stdin=subprocess.DEVNULL, preexec_fn=partial(os.close, number) if loss == "closed" else None,
                env=environment, **streams,
            )  # fmt: skip
            if streams[lost] != kept.fileno():
                os.close(streams[lost])
        if loss == "no reader":
            self.lose_reader()

    def lose_reader(self) -> None:
        """End the reader of the pipe."""
        os.close(self._reading)
        self._reading = -1

    def read(self) -> None:
        """Read lines of the pipe."""
        assert os.read(self._reading, 1000)

    @property
    def kept(self) -> str:
        return self._kept.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self._reading >= 0:
            os.close(self._reading)


@pytest.fixture
def broker(start_mosquitto: Callable[..., Server], tmp_path: Path) -> Iterator[Callable[..., tuple[Broker, str]]]:
    """Starts a broker, killed with the test, at a server of its own; the broker and the URL."""
    started: list[Broker] = []

    def start(lost: str, loss: str, *options: str) -> tuple[Broker, str]:
        url = start_mosquitto().url
        started.append(Broker(lost, loss, url, tmp_path, *options))
        return started[-1], url

    yield start
    for each in started:
        each.kill()


LOST = [
    ("stdout", "no reader"),
    ("stdout", "no reader", "--json"),
    ("stdout", "reader ends", "--json"),
    ("stdout", "full disk"),
    ("stdout", "full disk", "--json"),
    ("stdout", "closed"),
    ("stderr", "no reader"),
    ("stderr", "reader ends"),
    ("stderr", "full disk"),
    ("stderr", "closed"),
]


@pytest.mark.parametrize("lost", LOST, ids=", ".join)
def test_broker_goes_on_where_its_output_cannot_be_written(
    broker: Callable[..., tuple[Broker, str]], lost: tuple[str, ...], eventually: Eventually
) -> None:
    if "full disk" in lost and not Path("/dev/full").exists():
        pytest.skip("a system without /dev/full")
    running, url = broker(*lost)
    with Client(url) as client:
        client.wait_for_nodes(1, 60)
        serve(client, 0)
        if "reader ends" in lost:
            running.read()
            running.lose_reader()
        serve(client, 1)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
        eventually(lambda: not client.nodes)
    assert "Traceback" not in running.kept
    # The other stream is as ever.
    expected = {"stderr": "Ctrl-C", "stdout": "broker stopped"}[lost[0]] if "--json" not in lost else ""
    assert expected in running.kept

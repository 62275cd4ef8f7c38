"""`distced drain` on a real MQTT server: all nodes are restarted in turn, while events are on their way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.brokers.node.node import Node
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type

pytestmark = pytest.mark.mqtt

NODES = ("attic", "cellar", "hall")


@pytest.fixture
def url() -> Iterator[str]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with start_server("mosquitto") as server:
        yield server.url


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """JSON of a verb, amid the log of the nodes of this process."""
    text = capsys.readouterr().out
    return json.JSONDecoder().raw_decode(text, text.index("{\n"))[0]


@pytest.mark.slow
def test_nodes_restart_in_turn_without_a_loss(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        nodes = {name: stack.enter_context(LiveNode(url, name)) for name in NODES}
        client = stack.enter_context(Client(url, name="app"))
        client.wait_for_nodes(3)
        client.register(*(event_type(name, {"v": "number"}) for name in "AB"))
        source = client.source("s", ["A", "B"], watermark=0)
        found: dict[str, list[int]] = {}
        for number in range(6):
            pattern = f"[A as x where v >= {number}] ; [B where v == x.v] -> Out{number}(v = x.v)"
            found[pattern] = []
            quality = QualityOfService(distribution="max-reliability") if number == 0 else QualityOfService()
            client.subscribe(
                pattern, lambda event, at=found[pattern]: at.append(int(event.attributes["v"])), quality=quality
            )
        done = threading.Event()
        published = 0

        def publish() -> None:
            nonlocal published
            while not done.is_set():
                published += 1
                for place, name in enumerate("AB"):
                    instant = 2 * published + place
                    source.publish(source.create(name, instant, v=published), watermark=instant)
                time.sleep(0.005)
            source.heartbeat(2 * published + 2)

        publishing = threading.Thread(target=publish)
        publishing.start()
        try:
            for name in NODES:
                assert main(["drain", name, "--server", url, "--json"]) == 0
                report = printed(capsys)
                assert report["node"] == name and report["left"] == []
                assert main(["nodes", "--server", url, "--json"]) == 0
                shown = {each["node"]: each for each in printed(capsys)["nodes"]}
                assert shown[name]["draining"] and not shown[name]["detectors"] and not shown[name]["replicas"]
                nodes[name].stop()
                nodes[name] = stack.enter_context(LiveNode(url, name))
                client.wait_for_nodes(3)
        finally:
            done.set()
            publishing.join()
        expected = {
            pattern: [each for each in range(1, published + 1) if each >= number]
            for number, pattern in enumerate(found)
        }
        deadline = time.monotonic() + 20
        while found != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found == expected


def test_last_node_and_unknown_ones_are_errors(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveNode(url, "attic"):
        assert main(["drain", "attic", "--server", url]) == 2
        assert "the last node" in capsys.readouterr().err
        assert main(["drain", "atic", "--server", url]) == 2
        assert "atic" in capsys.readouterr().err
        with LiveNode(url, "cellar"):
            assert main(["drain", "attic", "--server", url]) == 0
            assert "can be stopped" in capsys.readouterr().out
            assert main(["nodes", "--server", url]) == 0
            assert "draining" in capsys.readouterr().out
            assert main(["drain", "attic", "--undo", "--server", url]) == 0
            assert "again" in capsys.readouterr().out
            # Of a version that knows nothing of it, or one that hangs.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Node, "_administration", lambda *_: [])
                assert main(["drain", "attic", "--timeout", "2s", "--server", url]) == 2
            assert "has not answered" in capsys.readouterr().err
            # The other one may go now.
            assert main(["drain", "cellar", "--server", url]) == 0

"""`distced move` on a real MQTT server, while events are on their way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

from distced.brokers.live.mqtt_server import find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event

pytestmark = pytest.mark.mqtt

PATTERN = "[A as x] ; [B where v >= x.v] ; [C] -> Out(v = x.v)"


@pytest.fixture
def url() -> Iterator[str]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with start_server("mosquitto") as server, LiveNode(server.url, "attic"), LiveNode(server.url, "cellar"):
        yield server.url


@pytest.mark.slow
def test_detector_loses_nothing_while_it_moves_to_and_fro(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(5)
    events = [Event(random.choice("ABC"), at, at, "s", at, {"v": random.randrange(3)}) for at in range(1, 1500)]
    engine = StepwiseEngine([compile_pattern(PATTERN)])
    expected = engine.feed(events) + engine.finish()
    with Client(url, name="app") as client:
        client.wait_for_nodes(2)
        client.register(*(event_type(name, {"v": "number"}) for name in "ABC"))
        source = client.source("s", ["A", "B", "C"], watermark=0)
        subscription = client.subscribe(PATTERN)

        def publish() -> None:
            for event in events:
                source.publish(event, watermark=event.hi)
                time.sleep(0.001)
            source.heartbeat(10_000)

        publishing = threading.Thread(target=publish)
        publishing.start()
        identity = subscription.detector
        for _ in range(3):
            for node in ("attic", "cellar"):
                assert main(["move", identity[:6], node, "--server", url]) == 0
        publishing.join()
        found = {}
        deadline = time.monotonic() + 15
        while len(found) < len(expected) and time.monotonic() < deadline:
            event = subscription.get(timeout=1.0)
            if event is not None:
                assert event.id not in found
                found[event.id] = event
        assert {each.id for each in expected} == found.keys()
    assert capsys.readouterr().out.count("moved from") >= 5


def test_impossible_moves_are_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(url, name="app") as client:
        client.wait_for_nodes(2)
        client.register(event_type("A", {}))
        subscription = client.subscribe("[A]")
        assert main(["move", subscription.detector, "attics", "--server", url]) == 2
        assert "attics" in capsys.readouterr().err
        assert main(["move", "cffff", "attic", "--server", url]) == 2
        capsys.readouterr()
        assert main(["move", subscription.detector, subscription.node, "--server", url, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["moved"], report["origin"]) == (True, subscription.node)

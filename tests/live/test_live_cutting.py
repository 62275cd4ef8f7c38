"""Parts of a pattern on nodes of their own, on a real MQTT server: what is found is the same."""

from __future__ import annotations

import time
from random import Random

import pytest

from brokers.live import LiveNode
from brokers.server import Server
from detectors.compilation import compile_pattern
from detectors.stepwise.engine import StepwiseEngine
from middleware.client import Client
from middleware.events import Event
from middleware.eventtypes import event_type
from middleware.quality import Decomposition, QualityOfService

pytestmark = pytest.mark.live

KINDS = [event_type(name, {"k": "number", "v": "number"}) for name in "ABC"]
PATTERN = "[A as x] ; [B where v >= x.v] ; ([C] & [A] ; [B]) by k within 1s -> Out(v = x.v)"


@pytest.mark.parametrize("decomposition", ["none", "full"])
def test_the_same_is_found(decomposition: Decomposition, mosquitto: Server, root: str) -> None:
    random = Random(11)
    events = [
        Event(
            random.choice("ABC"),
            10 * at,
            10 * at + random.randrange(15),
            "s",
            at,
            {"k": at % 2, "v": random.randrange(3)},
        )
        for at in range(1, 120)
    ]
    pattern = compile_pattern(PATTERN)
    engine = StepwiseEngine([pattern])
    expected = engine.feed(sorted(events, key=lambda event: event.key)) + engine.finish()
    names = [f"{root}-n{number}" for number in range(3)]
    nodes = [LiveNode(mosquitto.url, name, root=root) for name in names]
    try:
        for node in nodes:
            node.start()
        with Client(mosquitto.url, name=f"{root}-app", root=root) as client:
            client.wait_for_nodes(3)
            client.register(*KINDS)
            source = client.source("s", ["A", "B", "C"], watermark=0)
            subscription = client.subscribe(PATTERN, quality=QualityOfService(decomposition=decomposition))
            hosted = [hosted for node in nodes for hosted in node.node.hosted.values()]
            assert any(each.parts for each in hosted) == (decomposition == "full")
            for event in events:
                source.publish(event)
            source.heartbeat(10_000)
            found = {}
            deadline = time.monotonic() + 20
            while len(found) < len(expected) and time.monotonic() < deadline:
                event = subscription.get(timeout=1.0)
                if event is not None:
                    found[event.id] = event
            assert {each.id for each in expected} == found.keys()
            assert {(each.lo, each.hi) for each in expected} == {(each.lo, each.hi) for each in found.values()}
            assert expected
    finally:
        for node in nodes:
            node.stop()

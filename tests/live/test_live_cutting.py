"""Parts of a pattern on nodes of their own, on a real MQTT server: what is found is the same."""

from __future__ import annotations

import time
from random import Random

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.detectors.compiler import compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.client.client import Client
from distced.middleware.client.quality import Decomposition, QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event

pytestmark = pytest.mark.mqtt

KINDS = [event_type(name, {"k": "number", "v": "number"}) for name in "ABC"]
PATTERN = "[A as x] ; [B where v >= x.v] ; ([C] & [A] ; [B]) by k within 1s -> Out(v = x.v)"


@pytest.mark.parametrize("decomposition", ["none", "full"])
def test_cut_patterns_give_the_same_composite_events(
    decomposition: Decomposition, mosquitto: Server, root: str
) -> None:
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


def test_any_reads_composite_events_that_are_named(mosquitto: Server, root: str) -> None:
    """`any` has the composite events of a type where the pattern names it, beside `any`, too; as in a run."""
    node = LiveNode(mosquitto.url, f"{root}-n0", root=root)
    node.start()
    try:
        with Client(mosquitto.url, name="any", root=root) as client:
            client.wait_for_nodes(1)
            client.register(event_type("A"), event_type("B"))
            source = client.source("s", ["A", "B"], watermark=0)
            texts = ("[A] ; [B] -> Met()", "[any, Met]", "[any]")
            subscriptions = [client.subscribe(text) for text in texts]
            events = [source.create("A", 1), source.create("B", 2)]
            source.publish(*events, watermark=5)
            engine = StepwiseEngine([compile_pattern(text) for text in texts])
            expected = [*engine.feed(events), *engine.advance(5)]
            for subscription in subscriptions:
                wanted = {each.id for each in expected if each.source == subscription.detector}
                found = set()
                while len(found) < len(wanted):
                    event = subscription.get(timeout=10.0)
                    assert event is not None
                    found.add(event.id)
                assert found == wanted
                assert subscription.get(timeout=0.3) is None
            assert [len([each for each in expected if each.source == one.detector]) for one in subscriptions] == [
                1,
                3,
                2,
            ]
    finally:
        node.stop()

"""Nodes killed in the middle of traffic, with a real server: their next host goes on from checkpoints, and nothing is
lost, found twice or wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.numbered_stream import Loss
from tests.support.node_process import NodeProcess

pytestmark = [pytest.mark.mqtt, pytest.mark.slow, pytest.mark.spawn]

TYPES = [event_type(name, {"k": "number"}) for name in ("A", "B", "C")]
EVENTS = 1_500
PATTERNS = {
    "each": ("[A]", "none", EVENTS // 3),
    "pair": ("[A as a] ; [B where k == a.k]", "none", EVENTS // 3),
    "long": ("[A where k == 0] ; ~[any]* [C where k == 490]", "none", 1),
    "cut": ("([A] ; [B]) ; [C] -> Out()", "full", EVENTS // 3),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("how", ["comes back", "does not come back", "all at once"])
def test_killed_nodes_lose_nothing(mosquitto: Server, root: str, stack: ExitStack, tmp_path: Path, how: str) -> None:
    number_of_nodes = 3 if how == "does not come back" else 2
    nodes = [NodeProcess(mosquitto.url, f"{root}-n{number}", root, tmp_path) for number in range(number_of_nodes)]
    for each in nodes:
        stack.enter_context(each)
    publisher = stack.enter_context(Client(mosquitto.url, name=f"{root}-p", root=root))
    subscriber = stack.enter_context(Client(mosquitto.url, name=f"{root}-s", root=root))
    publisher.register(*TYPES)
    publisher.wait_for_nodes(number_of_nodes)
    source = publisher.source("s", ["A", "B", "C"], watermark=0)
    losses: list[Loss] = []
    subscriptions = {}
    for name, (text, decomposition, _) in PATTERNS.items():
        quality = QualityOfService(decomposition=decomposition)  # type: ignore[arg-type]
        subscriptions[name] = subscriber.subscribe(text, quality=quality)
        subscriptions[name].on_loss = losses.append
    for number in range(EVENTS):
        if number in (EVENTS // 3, 2 * EVENTS // 3):
            # Of the node that hosts the first pattern, at least.
            hosts = {subscriptions["each"].node} if how != "all at once" else {f"{root}-n0", f"{root}-n1"}
            killed = [each for place, each in enumerate(nodes) if f"{root}-n{place}" in hosts]
            for each in killed:
                each.kill()
            for each in killed if how != "does not come back" else ():
                each.start_again()
        name = "ABC"[number % 3]
        source.publish(source.create(name, number + 1, k=number // 3), watermark=number + 1)
        time.sleep(0.003)
    for name, subscription in subscriptions.items():
        assert subscription.wait_watermark(EVENTS, 60.0), name
        found = subscription.events()
        assert len({each.id for each in found}) == len(found) == PATTERNS[name][2], (name, len(found))
    assert losses == []

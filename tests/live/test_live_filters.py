"""Filters at sources on a real MQTT server: what nobody reads is not sent, and whoever comes later misses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from distced.brokers.live.bridge import LiveBridge
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.recorder import LiveRecorder
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client, Source
from distced.middleware.client.subscription import Subscription
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire import declared_reads, source_filter
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import ClientEntry
from distced.middleware.wire.frames import decode
from distced.middleware.wire.topics import directory_topic, event_filter

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]

MOTION = event_type("Motion", {"room": "string", "v": "number"})

PLAIN = """
[[rule]]
topic = "home/{room}/temperature"
format = "text"
type = "Temperature"
source = "{$room}"
[rule.attributes]
celsius = { kind = "number", path = "value" }
"""


class Deployment:
    """A server, a node, a publisher that filters, a subscriber, and a listener that the directory does not know."""

    def __init__(self, stack: ExitStack, url: str) -> None:
        self.stack = stack
        self.url = url
        self.node = stack.enter_context(LiveNode(url, "n"))
        self.publisher = stack.enter_context(Client(url, name="pub", filters=True))
        self.reader = stack.enter_context(Client(url, name="reader"))
        self.publisher.wait_for_nodes(1)
        self.seen: list[tuple[str, object]] = []
        listener = stack.enter_context(Bus(url))
        listener.wait_connected()
        listener.subscribe(event_filter(), self._heard, qos=1)
        assert listener.flush()

    def _heard(self, topic: str, payload: bytes, retained: bool) -> None:
        self.seen += [(each.type, each.attributes.get("room")) for each in decode(payload).events]

    def source(self) -> Source:
        self.publisher.register(MOTION)
        return self.publisher.source("s", ["Motion"])


def publish(source: Source, room: str, v: int = 1) -> int:
    event = source.create("Motion", time.time_ns(), room=room, v=v)
    source.publish(event, watermark=event.hi)
    return event.seq


def is_left_out(deployment: Deployment, source: Source, room: str) -> bool:
    """Publish an event; whether it was left out."""
    before = deployment.publisher.left_out.get("Motion", 0)
    publish(source, room)
    return deployment.publisher.left_out.get("Motion", 0) > before


def received(subscription: Subscription, count: int) -> list[object]:
    found: list[object] = []
    deadline = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline:
        each = subscription.get(timeout=0.5)
        if each is not None:
            found.append(each)
    return found


@pytest.fixture
def deployment(start_mosquitto: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(source_filter, "NARROW_AFTER", SECOND // 5)
    monkeypatch.setattr(declared_reads, "NARROW_EVERY", SECOND // 2)
    with ExitStack() as stack:
        yield Deployment(stack, start_mosquitto().url)


def test_source_sends_what_a_pattern_reads_and_detection_goes_on(
    deployment: Deployment, eventually: Eventually
) -> None:
    source = deployment.source()
    subscription = deployment.reader.subscribe("[Motion where room == 'hall'] ; [Motion where room == 'attic']")
    eventually(lambda: is_left_out(deployment, source, "nowhere"))
    publish(source, "hall")
    publish(source, "cellar")
    publish(source, "attic")
    # The promise of an event that is left out goes on with it: guaranteed detection is not held.
    publish(source, "cellar")
    (found,) = received(subscription, 1)
    assert len(found.constituents) == 2  # type: ignore[attr-defined]
    assert ("Motion", "hall") in deployment.seen and ("Motion", "cellar") not in deployment.seen
    # A later subscription gets every event from its answer on.
    later = deployment.reader.subscribe("[Motion where room == 'cellar']")
    sent = {publish(source, "cellar") for _ in range(20)}
    publish(source, "hall")
    assert {each.constituents[0][1] for each in received(later, 20)} == sent  # type: ignore[attr-defined]
    # A subscription that has ended is forgotten in a while.
    later.close()
    eventually(lambda: is_left_out(deployment, source, "cellar"))


def test_subscription_to_a_type_and_another_publisher_are_known(deployment: Deployment, eventually: Eventually) -> None:
    source = deployment.source()
    eventually(lambda: is_left_out(deployment, source, "nowhere"))
    subscription = deployment.reader.subscribe("Motion")
    sent = {publish(source, f"r{number}") for number in range(20)}
    assert {each.seq for each in received(subscription, 20)} == sent  # type: ignore[attr-defined]
    subscription.close()
    eventually(lambda: is_left_out(deployment, source, "x"))
    # One without a declaration, as of an older version: everything is sent.
    bus = deployment.stack.enter_context(Bus(deployment.url))
    bus.wait_connected()
    bus.publish(directory_topic("client", "old"), encode(ClientEntry(1)), qos=1, retain=True)
    eventually(lambda: not is_left_out(deployment, source, "y"))


def test_recorder_has_every_event_and_counts_while_it_is_away(
    deployment: Deployment, eventually: Eventually, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    from distced.middleware.history import History, events_of_history

    source = deployment.source()
    eventually(lambda: is_left_out(deployment, source, "nowhere"))
    recorder = LiveRecorder(deployment.url, tmp_path / "history", "r", types=["Motion"])
    with recorder:
        assert recorder.wait_announced(10)
        eventually(lambda: not is_left_out(deployment, source, "probe"))
        before = deployment.publisher.left_out["Motion"]
        sent = {publish(source, f"r{number}") for number in range(20)}
        assert deployment.publisher.left_out["Motion"] == before
        eventually(lambda: (recorder.status()["watermark"] or 0) >= source.watermark)
    found = {each.seq for each in events_of_history(History(tmp_path / "history"))}
    assert sent <= found
    # It stays away, and the server keeps its messages.
    assert not is_left_out(deployment, source, "while away")


def test_bridge_sends_what_is_read(deployment: Deployment, eventually: Eventually) -> None:
    mapping = parse_mapping(PLAIN, first_seq=10**15)
    bridge = deployment.stack.enter_context(LiveBridge(deployment.url, "bridge", [mapping], filters=True))
    subscription = deployment.reader.subscribe("[Temperature where celsius < 15]")
    devices = deployment.stack.enter_context(Bus(deployment.url))
    devices.wait_connected()

    def left_out() -> bool:
        devices.publish("home/hall/temperature", b"21", qos=1)
        return devices.flush() and bridge.statistics()["left_out"] > 0

    eventually(left_out)
    before = bridge.statistics()["events"]
    devices.publish("home/hall/temperature", b"12", qos=1)
    (found,) = received(subscription, 1)
    assert len(found.constituents) == 1  # type: ignore[attr-defined]
    assert bridge.statistics()["events"] == before + 1

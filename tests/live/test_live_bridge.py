"""The bridge with a real MQTT server: payloads that people have become events, live, and patterns are detected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from distced.brokers.live.bridge import LiveBridge
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.errors import BusError, TypeRegistryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import SourceEntry

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]

ZIGBEE = """
[defaults]
source = "{$device}"
time = { path = "last_seen", format = "iso", skew = "1min", otherwise = "arrival" }
[[rule]]
topic = "zigbee2mqtt/{device}"
when = [{ path = "occupancy" }]
type = "Motion"
[rule.attributes]
moving = { kind = "boolean", path = "occupancy" }
"""

TASMOTA = """
[defaults]
source = "{$device}"
[[rule]]
topic = "tele/{device}/STATE"
type = "Switch"
time = { path = "Time", format = "iso", clock = "zone", skew = "2min", otherwise = "arrival" }
[rule.attributes]
on = { kind = "boolean", path = "POWER" }
[[rule]]
topic = "stat/{device}/POWER"
format = "text"
type = "Switch"
[rule.attributes]
on = { kind = "boolean", path = "value" }
"""

PLAIN = """
[[rule]]
topic = "home/{room}/temperature"
format = "text"
type = "Temperature"
source = "{$room}"
[rule.attributes]
celsius = { kind = "number", path = "value" }
"""


class Home:
    """A server, a broker node, a bridge, a client, and devices."""

    def __init__(self, stack: ExitStack, url: str, mappings: list[str], **options: Any) -> None:
        self.url = url
        read = [parse_mapping(each, first_seq=(place << 54) + 10**15) for place, each in enumerate(mappings)]
        self.node = stack.enter_context(LiveNode(url, "node"))
        self.bridge = LiveBridge(url, "bridge", read, **options)
        stack.enter_context(self.bridge)
        self.client = stack.enter_context(Client(url))
        self.client.wait_for_nodes(1)
        self.devices = stack.enter_context(Bus(url))
        self.devices.wait_connected()

    def send(self, topic: str, payload: object, *, retain: bool = False) -> None:
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.devices.publish(topic, content, qos=1, retain=retain)
        assert self.devices.flush()


@pytest.fixture
def home(start_mosquitto: Callable[..., Server]) -> Iterator[Callable[..., Home]]:
    """Makes a home with these mappings; all of it ends with the test."""
    with ExitStack() as stack:
        yield lambda *mappings, **options: Home(stack, start_mosquitto().url, list(mappings), **options)


def ago(seconds: float, hours: float = 0.0) -> str:
    """ISO 8601, as a clock shows it in an unnamed zone `hours` ahead."""
    moment = datetime.now(UTC) + timedelta(hours=hours, seconds=-seconds)
    return moment.isoformat().replace("+00:00", "" if hours else "Z")


def test_pattern_over_three_kinds_of_devices_is_detected_out_of_order(
    home: Callable[..., Home], eventually: Eventually
) -> None:
    here = home(ZIGBEE, TASMOTA, PLAIN, lateness=1500 * MILLISECOND)
    pattern = "[Motion where moving] ; [Switch where on] ; [Temperature as t where celsius < 15] -> Cold(c = t.celsius)"
    with_constituents = QualityOfService(constituents=True)
    guaranteed = here.client.subscribe(pattern, quality=with_constituents)
    at_once = here.client.subscribe(pattern, quality=QualityOfService(detection="best-effort"))
    motion, switch = ago(0.2), ago(0.1, hours=5.5)
    # The time of this one is that of its arrival, so it is the last of the three.
    here.send("home/hall/temperature", b"14.5")
    # One by one: best effort puts events in order that arrive together.
    eventually(lambda: here.node.statistics()["events"] == 1)
    here.send("tele/lamp/STATE", {"Time": switch, "POWER": "ON"})
    eventually(lambda: here.node.statistics()["events"] == 2)
    here.send("zigbee2mqtt/pir", {"occupancy": True, "last_seen": motion})
    found = guaranteed.get(10)
    assert found is not None and found.type == "Cold" and found.attributes == {"c": 14.5}
    assert [(event.type, event.source) for event in found.events] == [
        ("Motion", "pir"),
        ("Switch", "lamp"),
        ("Temperature", "hall"),
    ]
    # In the order of their arrival they make no match.
    assert at_once.get(0.2) is None
    assert set(here.client.types) >= {"Motion", "Switch", "Temperature"}


def test_bad_payloads_go_to_the_dead_letters_and_the_rest_goes_on(home: Callable[..., Home], received: Any) -> None:
    here = home(TASMOTA, PLAIN, lateness=300 * MILLISECOND)
    here.devices.subscribe("ced/x/#", received.handler, qos=1, timeout=5)
    found = here.client.subscribe("[Switch where on] ; [Temperature]")
    here.send("stat/lamp/POWER", b"ON")
    here.send("stat/lamp/POWER", b"\xff\xfe")
    here.send("tele/lamp/STATE", b'{"POWER": "O')
    here.send("home/hall/temperature", b"warm")
    here.send("home/hall/temperature", b"12")
    assert found.get(10) is not None
    letters = [decode(payload, DeadLetter, where=topic) for topic, payload, _ in received.wait(3)]
    assert {topic for topic, _, _ in received} == {"ced/x/rejected/bridge"}
    assert [letter.topic for letter in letters] == ["stat/lamp/POWER", "tele/lamp/STATE", "home/hall/temperature"]
    assert letters[1].payload == b'{"POWER": "O'
    assert here.bridge.statistics() | {"messages": 5, "events": 2, "rejected": 3} == here.bridge.statistics()


def test_late_events_are_dead_letters_and_silent_devices_delay_nothing(
    home: Callable[..., Home], received: Any
) -> None:
    here = home(ZIGBEE, lateness=SECOND)
    here.devices.subscribe("ced/x/late/+", received.handler, qos=1, timeout=5)
    found = here.client.subscribe("[Motion as a] ; [Motion where moving != a.moving]")
    here.send("zigbee2mqtt/silent", {"occupancy": False, "last_seen": ago(0)})
    here.send("zigbee2mqtt/late", {"occupancy": False, "last_seen": ago(30)})
    letter = decode(received.wait(1)[0][1], DeadLetter, where="")
    assert letter.topic == "zigbee2mqtt/late" and "more than a lateness of 1s" in letter.message
    here.send("zigbee2mqtt/pir", {"occupancy": True, "last_seen": ago(0)})
    # The silent device says nothing any more; the bridge speaks for it.
    assert found.get(10) is not None


def test_unknown_device_is_not_late_behind_other_sources(home: Callable[..., Home]) -> None:
    here = home(ZIGBEE, lateness=1500 * MILLISECOND)
    here.client.register(event_type("Login"))
    desk = here.client.source("desk", ["Login"])
    found = here.client.subscribe("[Motion] ; [Login]")
    now = here.client.clock.now()
    desk.publish(desk.create("Login", now + 1), watermark=now + 1)
    here.send("zigbee2mqtt/pir", {"occupancy": True, "last_seen": ago(0.5)})
    desk.heartbeat(now + 5 * SECOND)
    assert found.get(10) is not None


def test_retained_messages_are_ignored_or_taken(start_mosquitto: Callable[..., Server], eventually: Eventually) -> None:
    server = start_mosquitto()
    with Bus(server.url) as devices:
        devices.wait_connected()
        devices.publish("home/hall/temperature", b"12", qos=1, retain=True)
        assert devices.flush()
        with LiveBridge(server.url, "bridge", [parse_mapping(PLAIN)]) as bridge:
            devices.publish("home/cellar/temperature", b"9", qos=1)
            eventually(lambda: bridge.statistics()["messages"] == 1)
            assert bridge.statistics()["retained"] == 1
            assert set(bridge.bridge.sources) == {"bridge", "cellar"}
        with LiveBridge(server.url, "bridge", [parse_mapping(PLAIN)], retained=True) as taking:
            eventually(lambda: set(taking.bridge.sources) == {"bridge", "hall"})


def test_bridge_reconnects_to_a_restarted_server(
    start_mosquitto: Callable[..., Server], received: Any, eventually: Eventually
) -> None:
    server = start_mosquitto()
    with LiveBridge(server.url, "bridge", [parse_mapping(PLAIN)], lateness=100 * MILLISECOND) as bridge:
        with Bus(server.url) as devices:
            devices.wait_connected()
            devices.publish("home/hall/temperature", b"12", qos=1)
            eventually(lambda: bridge.statistics()["events"] == 1)
        promised = bridge.bridge.watermark
        server.stop()
        start_mosquitto(port=server.port)
        with Bus(server.url) as devices:
            devices.subscribe("ced/d/source/+", received.handler, qos=1)
            devices.wait_connected()
            entries = {topic: decode(payload, SourceEntry, where=topic) for topic, payload, _ in received.wait(2)}
            assert set(entries) == {"ced/d/source/bridge", "ced/d/source/hall"}
            assert all(entry.watermark >= promised for entry in entries.values())
            devices.publish("home/hall/temperature", b"11", qos=1)
            eventually(lambda: bridge.statistics()["events"] == 2)


@pytest.mark.slow
def test_amqtt_will_do(amqtt: Server, root: str) -> None:
    # The topics of devices stand beside the root: what is below it is distced's own.
    mapping = parse_mapping(PLAIN.replace("home/", f"{root}-home/"))
    with (
        LiveNode(amqtt.url, "node", root=root),
        LiveBridge(amqtt.url, "bridge", [mapping], lateness=200 * MILLISECOND, root=root),
        Client(amqtt.url, root=root) as client,
        Bus(amqtt.url) as devices,
    ):
        client.wait_for_nodes(1)
        found = client.subscribe("[Temperature as a] ; [Temperature where celsius < a.celsius]")
        devices.wait_connected()
        for celsius in (b"12", b"9"):
            devices.publish(f"{root}-home/hall/temperature", celsius, qos=1)
        assert found.get(10) is not None


def test_type_with_other_attributes_is_an_error_at_the_start(start_mosquitto: Callable[..., Server]) -> None:
    server = start_mosquitto()
    with Client(server.url) as client:
        client.register(event_type("Temperature", {"kelvin": "number"}))
        with pytest.raises(TypeRegistryError, match="'Temperature' is registered already, and differs"):
            LiveBridge(server.url, "bridge", [parse_mapping(PLAIN)]).start()


def test_absent_server_is_an_error_at_the_start() -> None:
    with pytest.raises(BusError, match=r"nothing listens at 127\.0\.0\.1:9"):
        LiveBridge("mqtt://127.0.0.1:9", "bridge", [parse_mapping(PLAIN)]).start(0.5)

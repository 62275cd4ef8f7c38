"""The bus over real servers: MQTT 5 and 3.1.1 through mosquitto, 3.1.1 through the embedded amqtt."""

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.bus import Bus, BusState, Failure
from distced.middleware.model.errors import BusError

pytestmark = pytest.mark.mqtt

Collector = Any
Eventually = Callable[[Callable[[], bool]], None]
MakeBus = Callable[..., Bus]


# Messages


@pytest.mark.parametrize("qos", [0, 1])
def test_messages_arrive_in_order(any_bus: MakeBus, root: str, received: Collector, qos: int) -> None:
    publisher, subscriber = any_bus(), any_bus()
    subscriber.subscribe(f"{root}/+", received.handler, qos=qos, timeout=5)
    for number in range(300):
        publisher.publish(f"{root}/ä b", b"%d" % number, qos=qos)
    assert publisher.flush()
    assert received.wait(300) == [(f"{root}/ä b", b"%d" % number, False) for number in range(300)]
    assert subscriber.statistics.messages_in == 300
    assert subscriber.statistics.bytes_in == sum(len(payload) for payload in received.payloads)
    assert publisher.statistics.messages_out == 300


def test_large_and_empty_payloads(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus = any_bus()
    bus.subscribe(f"{root}/#", received.handler, timeout=5)
    payloads = [b"", os.urandom(200_000), b"x", bytearray(b"ab"), os.urandom(70_000)]
    for payload in payloads:
        bus.publish(f"{root}/a", payload)
    received.wait(5)
    assert received.payloads == payloads


def test_retained_messages_are_marked(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus = any_bus()
    bus.publish(f"{root}/state", b"kept", retain=True)
    assert bus.flush()
    other = any_bus()
    other.subscribe(f"{root}/#", received.handler, timeout=5)
    received.wait(1)
    bus.publish(f"{root}/state", b"live", retain=True)
    assert received.wait(2) == [(f"{root}/state", b"kept", True), (f"{root}/state", b"live", False)]
    bus.publish(f"{root}/state", b"", retain=True)
    assert received.wait(3)[2][1] == b""


def test_retained_messages_are_left_out_where_they_are_known(
    mosquitto: Server, make_bus: MakeBus, root: str, received: Collector
) -> None:
    bus = make_bus(mosquitto.url)
    bus.publish(f"{root}/state", b"kept", retain=True)
    assert bus.flush()
    other = make_bus(mosquitto.url)
    other.subscribe(f"{root}/#", received.handler, qos=1, timeout=5, retained=False)
    bus.publish(f"{root}/state", b"live", qos=1, retain=True)
    assert received.wait(1) == [(f"{root}/state", b"live", False)]


def test_each_handler_sees_a_message_once_though_filters_overlap(
    any_bus: MakeBus, root: str, received: Collector
) -> None:
    bus, other = any_bus(), any_bus()
    filters = [f"{root}/#", f"{root}/e/A/+", f"{root}/e/+/s", f"{root}/e/A/s", f"{root}/e/A/s", f"{root}/other"]
    for number, topic_filter in enumerate(filters):
        bus.subscribe(
            topic_filter,
            lambda topic, payload, retain, number=number: received.add((number, topic, payload)),
            qos=number % 2,
            timeout=5,
        )
    for payload in (b"1", b"2"):
        other.publish(f"{root}/e/A/s", payload)
    other.publish(f"{root}/e/A/t", b"3")
    other.publish(f"{root}/end", b"4")
    expected = [(number, f"{root}/e/A/s", payload) for payload in (b"1", b"2") for number in range(5)]
    expected += [(0, f"{root}/e/A/t", b"3"), (1, f"{root}/e/A/t", b"3"), (0, f"{root}/end", b"4")]
    received.wait(len(expected))
    bus.flush()
    assert sorted(received) == sorted(expected)


def test_unsubscribing_leaves_overlapping_filters_alone(
    any_bus: MakeBus, root: str, received: Collector, also_received: Collector
) -> None:
    bus, other = any_bus(), any_bus()
    bus.subscribe(f"{root}/#", received.handler, timeout=5)
    bus.subscribe(f"{root}/a", also_received.handler, timeout=5)
    bus.subscribe(f"{root}/b", also_received.handler, timeout=5)
    bus.unsubscribe(f"{root}/#")
    bus.unsubscribe(f"{root}/b", also_received.handler)
    bus.unsubscribe("never/subscribed/to")
    # The server has dealt with the above once it confirms this.
    bus.subscribe(f"{root}/end", also_received.handler, timeout=5)
    for level in ("a", "b", "c", "end"):
        other.publish(f"{root}/{level}", b"")
    also_received.wait(2)
    assert [topic for topic, _, _ in also_received] == [f"{root}/a", f"{root}/end"]
    assert not received


def test_message_published_by_a_handler_is_sent(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus = any_bus(max_queued=50)

    def answer(topic: str, payload: bytes, retain: bool) -> None:
        assert threading.current_thread() is not threading.main_thread()
        for number in range(1000):  # Far more than may wait.
            bus.publish(f"{root}/answer", b"%d" % number)

    bus.subscribe(f"{root}/answer", received.handler, timeout=5)
    bus.subscribe(f"{root}/question", answer, timeout=5)
    bus.publish(f"{root}/question", b"")
    received.wait(1000)
    assert received.payloads == [b"%d" % number for number in range(1000)]
    assert bus.statistics.handler_errors == 0


def test_threads_publish_at_once_and_each_keeps_its_order(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus = any_bus(max_queued=20)
    bus.subscribe(f"{root}/+", received.handler, qos=1, timeout=5)

    def publish(name: str) -> None:
        for number in range(150):
            bus.publish(f"{root}/{name}", b"%d" % number, qos=1)

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    received.wait(450)
    for thread in threads:
        thread.join()
    for name in "abc":
        assert [payload for topic, payload, _ in received if topic.endswith(name)] == [b"%d" % n for n in range(150)]


def test_properties_others_send_along_are_passed_over(
    mosquitto: Server, make_bus: MakeBus, root: str, received: Collector
) -> None:
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    bus = make_bus(mosquitto.url)
    bus.subscribe(f"{root}/#", received.handler, timeout=5)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect(mosquitto.host, mosquitto.port)
    client.loop_start()
    for number in range(3):
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = ("traceparent", "x" * 100 * number)  # One length of properties takes two bytes.
        properties.ContentType = "text"
        client.publish(f"{root}/a", b"%d" % number, qos=1, properties=properties).wait_for_publish(5)
    client.disconnect()
    client.loop_stop()
    assert received.wait(3) == [(f"{root}/a", b"%d" % number, False) for number in range(3)]
    assert bus.statistics.losses == 0


def test_small_packets_are_not_held_back(any_bus: MakeBus) -> None:
    connection = any_bus()._dispatch.connection
    assert connection is not None
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        assert same.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# Failures in handlers


def test_error_in_a_handler_stops_no_other(any_bus: MakeBus, root: str, received: Collector) -> None:
    failures: list[Failure] = []

    def fail(topic: str, payload: bytes, retain: bool) -> None:
        raise ValueError(payload.decode())

    def hook(failure: Failure) -> None:
        failures.append(failure)
        raise RuntimeError("the hook fails too")

    bus = any_bus(on_failure=hook)
    bus.subscribe(f"{root}/a", fail, timeout=5)
    bus.subscribe(f"{root}/a", received.handler, timeout=5)
    for payload in (b"1", b"2"):
        bus.publish(f"{root}/a", payload)
    received.wait(2)
    assert bus.statistics.handler_errors == 2
    assert [(str(one.error), one.topic, one.payload) for one in failures] == [
        ("1", f"{root}/a", b"1"),
        ("2", f"{root}/a", b"2"),
    ]
    assert failures[0].what.endswith("fail")
    assert bus.connected


def test_timers_and_calls_run_on_the_thread_of_the_bus(
    mosquitto: Server, make_bus: MakeBus, received: Collector, also_received: Collector
) -> None:
    failures: list[Failure] = []
    bus = make_bus(mosquitto.url, on_failure=failures.append)

    def note(name: str) -> Callable[[], None]:
        return lambda: received.add((name, threading.current_thread().name))

    ticks = bus.every(0.01, note("tick"))
    received.wait(3)
    ticks.cancel()
    bus.call_soon(lambda: also_received.add("cancelled"))
    also_received.wait(1)
    received.clear()
    bus.call_later(0.06, note("third"))
    bus.call_later(0.03, note("second"))
    bus.call_later(0.04, note("never")).cancel()
    bus.call_soon(note("first"))
    bus.call_soon(lambda: 1 / 0)
    name = f"bus-{bus.client_id}"
    assert received.wait(3) == [("first", name), ("second", name), ("third", name)]
    assert [type(one.error) for one in failures] == [ZeroDivisionError]
    with pytest.raises(BusError, match="more than 0"):
        bus.every(0, note("never"))


def test_timers_tick_without_a_server(make_bus: MakeBus, received: Collector) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False)
    bus.every(0.02, lambda: received.add(bus.state))
    received.wait(5)
    assert BusState.CONNECTED not in received


def test_bus_that_is_hurried_connects_without_its_delay(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    server = start_mosquitto()
    server.stop()
    bus = make_bus(server.url, wait=False, first_delay=600.0, longest_delay=600.0)
    eventually(lambda: bus.state is BusState.WAITING)
    start_mosquitto(port=server.port)
    bus.hurry()
    bus.wait_connected(20)
    # Where there is a connection, nothing happens.
    bus.hurry()
    assert bus.flush() and bus.connected and bus.statistics.connections == 1

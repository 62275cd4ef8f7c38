"""The bus over time: losses, sessions, held acknowledgements, wills and farewells."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.model.errors import BusError

pytestmark = pytest.mark.mqtt

Collector = Any
Eventually = Callable[[Callable[[], bool]], None]
MakeBus = Callable[..., Bus]


# Reconnecting


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_bus_reconnects_and_subscribes_again_after_a_loss(
    start_mosquitto: Callable[..., Server],
    make_bus: MakeBus,
    received: Collector,
    eventually: Eventually,
    protocol: str,
) -> None:
    server = start_mosquitto()
    states: list[tuple[BusState, BusError | None]] = []
    bus = make_bus(server.url, protocol=protocol, longest_delay=0.2, on_state=lambda *state: states.append(state))
    bus.subscribe("a/#", received.handler, qos=1, timeout=5)
    bus.subscribe("a/b", received.handler, qos=1, timeout=5)
    server.stop()
    eventually(lambda: bus.state is BusState.WAITING)
    bus.publish("a/b", b"while away", qos=1)
    bus.subscribe("c", received.handler)
    start_mosquitto(port=server.port)
    bus.wait_connected()
    bus.publish("c", b"again")
    received.wait(3)
    assert sorted(received.payloads) == [b"again", b"while away", b"while away"]
    assert bus.statistics.connections == 2
    assert bus.statistics.losses == 1
    assert [state for state, _ in states][:3] == [BusState.CONNECTING, BusState.CONNECTED, BusState.WAITING]
    assert f"the connection to 127.0.0.1:{server.port} is lost" in str(states[2][1])


def test_unacknowledged_messages_survive_a_loss(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, received: Collector, eventually: Eventually
) -> None:
    server = start_mosquitto()
    bus = make_bus(server.url, longest_delay=0.2)
    os.kill(server.pid, 19)  # SIGSTOP: the server is there and answers nothing.
    for number in range(20):
        bus.publish("a", b"%d" % number, qos=1)
    eventually(lambda: bus.statistics.messages_out == 20)
    assert not bus.flush(0.05)
    os.kill(server.pid, 9)
    server.stop()
    start_mosquitto(port=server.port)
    other = make_bus(server.url)
    other.subscribe("a", received.handler, qos=1, timeout=5)
    received.wait(20)
    assert received.payloads == [b"%d" % number for number in range(20)]
    assert bus.flush()
    assert bus.statistics.messages_out == 40


def test_another_client_of_the_same_name_is_reported(
    mosquitto: Server, make_bus: MakeBus, eventually: Eventually
) -> None:
    errors: list[str] = []
    make_bus(mosquitto.url, client_id="twin", on_state=lambda state, error: errors.append(str(error)), first_delay=5)
    make_bus(mosquitto.url, client_id="twin", first_delay=5)
    eventually(lambda: any("is lost: closed by" in one and "another client named twin" in one for one in errors))


# Sessions and acknowledgements


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_session_keeps_messages_for_an_absent_client(
    mosquitto: Server, make_bus: MakeBus, root: str, received: Collector, protocol: str
) -> None:
    session = {"client_id": root, "session_expiry": 60, "protocol": protocol}
    bus = make_bus(mosquitto.url, **session)
    bus.subscribe(f"{root}/a", received.handler, qos=1, timeout=5)
    bus.stop()
    other = make_bus(mosquitto.url)
    other.publish(f"{root}/a", b"missed", qos=1)
    assert other.flush()
    make_bus(mosquitto.url, before=lambda bus: bus.subscribe(f"{root}/a", received.handler, qos=1), **session)
    received.wait(1)
    assert received.payloads == [b"missed"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_held_acknowledgements_cover_a_prefix(
    mosquitto: Server,
    make_bus: MakeBus,
    root: str,
    received: Collector,
    also_received: Collector,
    eventually: Eventually,
    protocol: str,
) -> None:
    session = {"client_id": root, "session_expiry": 60, "protocol": protocol, "hold_acknowledgements": True}
    bus = make_bus(mosquitto.url, **session)
    marks: dict[bytes, int] = {}

    def handle(topic: str, payload: bytes, retain: bool) -> None:
        received.handler(topic, payload, retain)
        # The message under way counts only when it has been handled.
        bus.call_soon(lambda: marks.update({payload: bus.mark}))

    bus.subscribe(f"{root}/a", handle, qos=1, timeout=5)
    other = make_bus(mosquitto.url)
    for number in range(6):
        other.publish(f"{root}/a", b"%d" % number, qos=1)
        # Else the mark might cover the next message, too.
        eventually(lambda number=number: b"%d" % number in marks)
        other.flush()
    done = threading.Event()
    bus.call_soon(lambda: (bus.acknowledge(marks[b"3"]), done.set()))
    assert done.wait(5)
    # mosquitto reads a packet a round: a client that comes back at once takes over before the rest was read.
    bus.publish(f"{root}/read", b"", qos=1)
    assert bus.flush()
    bus.stop()
    make_bus(mosquitto.url, before=lambda bus: bus.subscribe(f"{root}/a", also_received.handler, qos=1), **session)
    also_received.wait(2)
    assert also_received.payloads == [b"4", b"5"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_filter_unsubscribed_while_away_is_unsubscribed_on_return(
    start_mosquitto: Callable[..., Server],
    make_bus: MakeBus,
    received: Collector,
    eventually: Eventually,
    protocol: str,
    open_folder: Path,
) -> None:
    open_folder.chmod(0o777)  # The server remembers sessions here over its own restart.
    settings = ["persistence true", f"persistence_location {open_folder}/"]
    server = start_mosquitto(settings=settings)
    bus = make_bus(server.url, client_id="me", session_expiry=60, protocol=protocol, longest_delay=0.2)
    for topic_filter in ("a", "b", "c/#", "c/+"):
        bus.subscribe(topic_filter, received.handler, qos=1, timeout=5)
    server.stop()
    eventually(lambda: bus.state is BusState.WAITING)
    bus.unsubscribe("a")
    bus.unsubscribe("c/#")
    start_mosquitto(port=server.port, settings=settings)
    bus.wait_connected()
    bus.subscribe("d", received.handler, qos=1, timeout=5)  # Confirmed after all that was asked before.
    for topic in ("a", "c/d/e", "b", "c/d", "d"):
        bus.publish(topic, topic.encode(), qos=1)
    received.wait(3)
    assert received.payloads == [b"b", b"c/d", b"d"]
    assert bus.statistics.unrouted == 0
    assert bus.statistics.reconnections == 1


def test_session_needs_a_name() -> None:
    with pytest.raises(BusError, match="without a client id"):
        Bus("mqtt://127.0.0.1", session_expiry=60)


# The will, and the farewell

DIES = """
import os, sys
from distced.middleware.bus import Bus, Message
bus = Bus(sys.argv[1], will=Message(sys.argv[2], b"gone", retain=True), protocol=sys.argv[3])
bus.start(); bus.wait_connected(); os._exit(0)
"""


@pytest.mark.parametrize("kind", ["mosquitto 5", "mosquitto 3.1.1", "amqtt 3.1.1"])
def test_will_of_a_killed_client_is_published(
    request: pytest.FixtureRequest, make_bus: MakeBus, root: str, received: Collector, kind: str
) -> None:
    name, protocol = kind.split()
    server: Server = request.getfixturevalue(name)
    bus = make_bus(server.url)
    bus.subscribe(f"{root}/will", received.handler, timeout=5)
    subprocess.run([sys.executable, "-c", DIES, server.url, f"{root}/will", protocol], check=True, timeout=60)
    received.wait(1)
    assert received.payloads == [b"gone"]


def test_stopped_bus_leaves_no_will_and_loses_nothing(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus = any_bus()
    bus.subscribe(f"{root}/#", received.handler, qos=1, timeout=5)
    leaving = any_bus(will=Message(f"{root}/will", b"gone"))
    for number in range(200):
        leaving.publish(f"{root}/a", b"%d" % number, qos=1)
    leaving.stop()
    bus.publish(f"{root}/end", b"end")
    received.wait(201)
    assert received.payloads == [b"%d" % number for number in range(200)] + [b"end"]
    assert leaving.state is BusState.STOPPED
    assert leaving.statistics.dropped == 0
    leaving.stop()
    with pytest.raises(BusError, match="the bus is stopped"):
        leaving.publish(f"{root}/a", b"")
    with pytest.raises(BusError, match="the bus is stopped"):
        leaving.wait_connected()
    with pytest.raises(BusError, match="started once"):
        leaving.start()


def test_bus_may_be_stopped_by_its_own_handler(any_bus: MakeBus, root: str, received: Collector) -> None:
    bus, other = any_bus(), any_bus()
    other.subscribe(f"{root}/last", received.handler, timeout=5)

    def stop(topic: str, payload: bytes, retain: bool) -> None:
        for _ in range(100):
            bus.publish(f"{root}/last", b"words")
        bus.stop()

    bus.subscribe(f"{root}/stop", stop, timeout=5)
    other.publish(f"{root}/stop", b"")
    received.wait(100)
    bus.stop()
    assert bus.state is BusState.STOPPED
    assert bus.statistics.dropped == 0


def test_bus_that_never_ran_is_stopped_all_the_same() -> None:
    bus = Bus("mqtt://127.0.0.1:9")
    bus.stop()
    assert bus.state is BusState.STOPPED

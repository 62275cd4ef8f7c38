"""The bus over real servers: MQTT 5 and 3.1.1 through mosquitto, 3.1.1 through the embedded amqtt."""

import itertools
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from brokers.server import Server
from middleware.bus import Bus, BusState, Failure, Message
from middleware.errors import BusError

pytestmark = pytest.mark.live

Collector = Any
Eventually = Callable[[Callable[[], bool]], None]
MakeBus = Callable[..., Bus]


@pytest.fixture(params=["mosquitto 5", "mosquitto 3.1.1", "amqtt auto"])
def any_bus(request: pytest.FixtureRequest, make_bus: MakeBus) -> MakeBus:
    """Makes buses to each kind of server, in each version of MQTT."""
    kind, protocol = request.param.split()
    server: Server = request.getfixturevalue(kind)
    return lambda **arguments: make_bus(server.url, **({"protocol": protocol} | arguments))


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, the test's own, since tests share servers."""
    return f"test{abs(hash(request.node.nodeid)):x}"


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


def test_what_a_handler_publishes_is_sent(any_bus: MakeBus, root: str, received: Collector) -> None:
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


# Failures in handlers


def test_what_a_handler_raises_goes_no_further(any_bus: MakeBus, root: str, received: Collector) -> None:
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

    def tell(name: str) -> Callable[[], None]:
        return lambda: received.add((name, threading.current_thread().name))

    ticks = bus.every(0.01, tell("tick"))
    received.wait(3)
    ticks.cancel()
    bus.call_soon(lambda: also_received.add("cancelled"))
    also_received.wait(1)
    received.clear()
    bus.call_later(0.06, tell("third"))
    bus.call_later(0.03, tell("second"))
    bus.call_later(0.04, tell("never")).cancel()
    bus.call_soon(tell("first"))
    bus.call_soon(lambda: 1 / 0)
    name = f"bus-{bus.client_id}"
    assert received.wait(3) == [("first", name), ("second", name), ("third", name)]
    assert [type(one.error) for one in failures] == [ZeroDivisionError]
    with pytest.raises(BusError, match="more than 0"):
        bus.every(0, tell("never"))


def test_timers_tick_without_a_server(make_bus: MakeBus, received: Collector) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False)
    bus.every(0.02, lambda: received.add(bus.state))
    received.wait(5)
    assert BusState.CONNECTED not in received


# Reconnecting


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_after_a_loss_it_reconnects_and_subscribes_again(
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


def test_another_client_of_the_same_name_is_told_of(
    mosquitto: Server, make_bus: MakeBus, eventually: Eventually
) -> None:
    errors: list[str] = []
    make_bus(mosquitto.url, client_id="twin", on_state=lambda state, error: errors.append(str(error)), first_delay=5)
    make_bus(mosquitto.url, client_id="twin", first_delay=5)
    eventually(lambda: any("is lost: closed by" in one and "another client named twin" in one for one in errors))


# Sessions and acknowledgements


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_session_keeps_messages_for_an_absent_client(
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
    mosquitto: Server, make_bus: MakeBus, root: str, received: Collector, also_received: Collector, protocol: str
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
        received.wait(number + 1)
        other.flush()
    done = threading.Event()
    bus.call_soon(lambda: (bus.acknowledge(marks[b"3"]), done.set()))
    assert done.wait(5)
    bus.stop()
    make_bus(mosquitto.url, before=lambda bus: bus.subscribe(f"{root}/a", also_received.handler, qos=1), **session)
    also_received.wait(2)
    assert also_received.payloads == [b"4", b"5"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_what_was_unsubscribed_while_away_is_unsubscribed_on_return(
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


def test_a_session_needs_a_name() -> None:
    with pytest.raises(BusError, match="without a client id"):
        Bus("mqtt://127.0.0.1", session_expiry=60)


# The will, and the farewell

DIES = """
import os, sys
from middleware.bus import Bus, Message
bus = Bus(sys.argv[1], will=Message(sys.argv[2], b"gone", retain=True), protocol=sys.argv[3])
bus.start(); bus.wait_connected(); os._exit(0)
"""


@pytest.mark.parametrize("kind", ["mosquitto 5", "mosquitto 3.1.1", "amqtt 3.1.1"])
def test_the_will_is_published_for_who_dies(
    request: pytest.FixtureRequest, make_bus: MakeBus, root: str, received: Collector, kind: str
) -> None:
    name, protocol = kind.split()
    server: Server = request.getfixturevalue(name)
    bus = make_bus(server.url)
    bus.subscribe(f"{root}/will", received.handler, timeout=5)
    subprocess.run([sys.executable, "-c", DIES, server.url, f"{root}/will", protocol], check=True, timeout=60)
    received.wait(1)
    assert received.payloads == [b"gone"]


def test_who_stops_leaves_no_will_and_loses_nothing(any_bus: MakeBus, root: str, received: Collector) -> None:
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


def test_a_bus_stopped_by_its_own_handler(any_bus: MakeBus, root: str, received: Collector) -> None:
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


def test_a_bus_that_never_ran_is_stopped_all_the_same() -> None:
    bus = Bus("mqtt://127.0.0.1:9")
    bus.stop()
    assert bus.state is BusState.STOPPED


# Refusals


def test_the_embedded_server_is_spoken_to_in_its_own_version(amqtt: Server, make_bus: MakeBus) -> None:
    states: list[BusState] = []
    bus = make_bus(amqtt.url, on_state=lambda state, error: states.append(state))
    assert bus.protocol == "3.1.1"
    assert bus.statistics.attempts_failed == 0
    assert BusState.WAITING not in states
    other = make_bus(amqtt.url, protocol="5", wait=False)
    with pytest.raises(BusError, match="Unsupported protocol version"):
        other.wait_connected(0.5)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_passwords(start_mosquitto: Callable[..., Server], make_bus: MakeBus, open_folder: Path, protocol: str) -> None:
    passwords = open_folder / "passwords"
    done = subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "ada", "l@ve"], check=False, timeout=20)
    if done.returncode:
        pytest.skip("mosquitto_passwd does not work here")
    passwords.chmod(0o644)
    server = start_mosquitto(settings=[f"password_file {passwords}"])
    bus = make_bus(f"mqtt://ada:wrong@{server.host}:{server.port}", protocol=protocol, wait=False)
    start = time.monotonic()
    with pytest.raises(BusError, match=r"refuses: .*user:password@127\.0\.0\.1") as caught:
        bus.wait_connected(30)
    assert time.monotonic() - start < 25  # A refusal that will not change is not waited for.
    assert "wrong" not in str(caught.value)
    assert make_bus(f"mqtt://ada:l%40ve@{server.host}:{server.port}", protocol=protocol).connected


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_what_the_server_does_not_accept_is_reported(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, open_folder: Path, received: Collector, protocol: str
) -> None:
    rights = open_folder / "rights"
    rights.write_text("topic readwrite open/#\n")
    rights.chmod(0o644)
    server = start_mosquitto(settings=[f"acl_file {rights}"])
    failures: list[Failure] = []
    bus = make_bus(server.url, protocol=protocol, on_failure=failures.append)
    bus.subscribe("open/a", received.handler, timeout=5)
    if protocol == "5":
        bus.publish("closed/a", b"x", qos=1)
        assert bus.flush()
        assert bus.statistics.dropped == 1
        (failure,) = failures
        assert (failure.topic, failure.payload) == ("closed/a", b"x")
        assert "Not authorized" in str(failure.error)
    bus.publish("open/a", b"y", qos=1)
    received.wait(1)
    assert bus.statistics.losses == 0


def test_a_message_larger_than_the_server_takes_is_given_up(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, received: Collector
) -> None:
    server = start_mosquitto(settings=["max_packet_size 2000"])
    failures: list[Failure] = []
    bus = make_bus(server.url, on_failure=failures.append)
    bus.subscribe("a", received.handler, timeout=5)
    for payload in (b"1", b"x" * 3000, b"2"):
        bus.publish("a", payload, qos=1)
    received.wait(2)
    assert received.payloads == [b"1", b"2"]
    assert bus.flush()
    assert bus.statistics.dropped == 1
    assert bus.statistics.losses == 0
    assert failures[0].payload == b"x" * 3000


def test_the_window_of_the_server_is_kept(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, received: Collector
) -> None:
    server = start_mosquitto(settings=["max_inflight_messages 3"])
    bus = make_bus(server.url)
    bus.subscribe("a", received.handler, qos=1, timeout=5)
    for number in range(100):
        bus.publish("a", b"%d" % number, qos=1)
    received.wait(100)
    assert bus.flush()
    assert bus.statistics.losses == 0


# Encryption


@pytest.fixture
def encrypted(start_mosquitto: Callable[..., Server], open_folder: Path) -> tuple[Server, str]:
    """A mosquitto with TLS, and the certificate to check it by."""
    key, certificate = open_folder / "key.pem", open_folder / "cert.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl makes no certificate here: {error}")
    key.chmod(0o644)
    return start_mosquitto(settings=[f"certfile {certificate}", f"keyfile {key}"]), str(certificate)


def test_encrypted_connections(encrypted: tuple[Server, str], make_bus: MakeBus, received: Collector) -> None:
    server, certificate = encrypted
    url = f"mqtts://{server.host}:{server.port}"
    bus = make_bus(url, tls=ssl.create_default_context(cafile=certificate))
    bus.subscribe("a", received.handler, timeout=5)
    payloads = [os.urandom(size) for size in (10, 100_000, 20, 50_000, 30)] * 10
    for payload in payloads:
        bus.publish("a", payload)
    received.wait(len(payloads))
    assert received.payloads == payloads
    stranger = make_bus(url, wait=False)
    with pytest.raises(BusError, match=r"no encrypted connection.*check the certificate"):
        stranger.wait_connected(0.5)


# Servers that are none, or misbehave


def test_where_nothing_listens_the_error_says_what_to_do(make_bus: MakeBus) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False)
    with pytest.raises(BusError) as caught:
        bus.wait_connected(0.3)
    assert str(caught.value) == (
        "nothing listens at 127.0.0.1:9; start one with `distced broker` or name another with --server"
    )
    assert bus.statistics.attempts_failed >= 1


class Impostor:
    """A server on loopback that does with each connection what a test says."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listening.getsockname()[1]}"
        self._serve = serve
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True)]
        self._threads[0].start()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    self._serve(connection)
                except OSError:
                    continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join(10)


ACCEPT_5 = b"\x20\x03\x00\x00\x00"


def accept(connection: socket.socket) -> None:
    """Read the greeting of a client of MQTT 5, and accept."""
    connection.recv(1000)
    connection.sendall(ACCEPT_5)


def test_a_server_that_hangs_up_is_tried_in_both_versions(make_bus: MakeBus, eventually: Eventually) -> None:
    greetings: list[int] = []

    def serve(connection: socket.socket) -> None:
        greetings.append(connection.recv(1000)[8])

    with Impostor(serve) as impostor:
        bus = make_bus(impostor.url, wait=False, longest_delay=0.1)
        with pytest.raises(BusError, match="hung up on a client of MQTT"):
            bus.wait_connected(0.3)
        eventually(lambda: greetings[:3] == [5, 4, 5])
        bus.stop()


def test_a_server_that_never_answers_is_given_up(make_bus: MakeBus) -> None:
    with Impostor(lambda connection: connection.recv(1000) and connection.recv(1000)) as impostor:
        bus = make_bus(impostor.url, wait=False, connect_timeout=0.2)
        with pytest.raises(BusError, match="does not answer"):
            bus.wait_connected(0.6)
        bus.stop()


def test_what_the_server_says_when_it_leaves_is_passed_on(make_bus: MakeBus, received: Collector) -> None:
    def serve(connection: socket.socket) -> None:
        accept(connection)
        connection.sendall(b"\xe0\x01\x8e")

    with Impostor(serve) as impostor:
        make_bus(
            impostor.url, wait=False, first_delay=5, on_state=lambda state, error: received.add((state, str(error)))
        )
        states = received.wait(3)
    assert [state for state, _ in states] == [BusState.CONNECTING, BusState.CONNECTED, BusState.WAITING]
    assert "the server says: Session taken over" in states[2][1]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 50,
        b"\xff" * 50,
        b"\x30\x01a",
        b"\x30\x05\x00\x90abc",
        b"\x30\x09\x00\x01a\xff\xff\xff\xff\xff\x01",
        b"\x30\x06\x00\x01a\x02\x0b\x00",
        b"\x30\xff\xff\xff\xff\xff",
        b"\x90\x01\x00",
        b"\x40\x01\x00",
        b"\x20\x03\x00\x00\x00",
    ],
    ids=repr,
)
def test_garbage_costs_the_connection_and_nothing_else(make_bus: MakeBus, received: Collector, garbage: bytes) -> None:
    count = itertools.count()

    def serve(connection: socket.socket) -> None:
        accept(connection)
        if next(count) == 0:
            connection.sendall(garbage)
        else:
            connection.sendall(b"\x30\x05\x00\x01a\x00x")
        connection.recv(1000)

    with Impostor(serve) as impostor:
        bus = make_bus(
            impostor.url, wait=False, first_delay=0.01, before=lambda bus: bus.subscribe("a", received.handler)
        )
        # The impostor hangs up after the first packet it gets, so each connection ends soon.
        assert received.wait(1) == [("a", b"x", False)]
        assert bus.statistics.handler_errors == 0
        bus.stop(0)


# Too much


def test_without_a_server_publishing_is_bounded(make_bus: MakeBus, received: Collector) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False, max_queued=10)
    for number in range(10):
        bus.publish("a", b"%d" % number, timeout=0)
    with pytest.raises(
        BusError, match=r"too many messages wait to be sent: 10 messages.*allowed: 10.*raise max_queued"
    ):
        bus.publish("a", b"x", timeout=0.05)

    def publish() -> None:
        try:
            bus.publish("a", b"x", timeout=60)
        except BusError as error:
            received.add(str(error))

    bus.call_soon(publish)
    assert "too many messages" in received.wait(1)[0]
    waiting = threading.Thread(target=publish)
    waiting.start()
    bus.stop()
    waiting.join(5)
    assert not waiting.is_alive()
    assert "the bus is stopped" in received.wait(2)[1]
    assert bus.statistics.refused == 2
    assert bus.statistics.dropped == 10


def test_a_server_that_stops_reading_holds_up_publishers_and_timers_go_on(
    make_bus: MakeBus, received: Collector, also_received: Collector
) -> None:
    release = threading.Event()

    def serve(connection: socket.socket) -> None:
        accept(connection)
        release.wait(20)

    with Impostor(serve) as impostor:
        bus = make_bus(impostor.url, max_queued=20)
        payload = bytes(1_000_000)
        with pytest.raises(BusError, match="too many messages"):
            for _ in range(100):
                bus.publish("a", payload, timeout=0.1)
        bus.every(0.01, lambda: received.add(1))
        received.wait(3)

        def publish() -> None:
            try:
                bus.publish("a", payload, timeout=0.1)
            except BusError as error:
                also_received.add(str(error))

        for _ in range(20):  # The network may have taken a few meanwhile.
            bus.call_soon(publish)
        assert "too many messages" in also_received.wait(1)[0]
        bus.stop(0)
        release.set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "", "payload": b""}, "not a topic"),
        ({"topic": "a/+", "payload": b""}, "not a topic"),
        ({"topic": "a/#", "payload": b""}, "not a topic"),
        ({"topic": "a\0", "payload": b""}, "not a topic"),
        ({"topic": "\ud800", "payload": b""}, "not a topic"),
        ({"topic": "x" * 70_000, "payload": b""}, "not a topic"),
        ({"topic": "a", "payload": "text"}, "not a payload"),
        ({"topic": "a", "payload": b"", "qos": 2}, "quality of service"),
    ],
)
def test_messages_that_cannot_be(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BusError, match=said):
        Bus("mqtt://127.0.0.1:9").publish(**arguments)


def test_subscriptions_that_cannot_be(make_bus: MakeBus) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False)
    for topic_filter in ("", "a/#/b", "a+/b", "a#", "$share/g", "\ud800", "a\0"):
        with pytest.raises(BusError, match="not a topic filter"):
            bus.subscribe(topic_filter, print)
    with pytest.raises(BusError, match="quality of service"):
        bus.subscribe("a", print, qos=2)
    with pytest.raises(BusError, match="has not confirmed"):
        bus.subscribe("a", print, timeout=0.05)


def test_a_refused_subscription_is_raised_and_reported(make_bus: MakeBus, eventually: Eventually) -> None:
    def serve(connection: socket.socket) -> None:
        accept(connection)
        asked = connection.recv(1000)
        connection.sendall(b"\x90\x04" + asked[2:4] + b"\x00\x87")
        connection.recv(1000)

    failures: list[Failure] = []
    with Impostor(serve) as impostor:
        bus = make_bus(impostor.url, on_failure=failures.append)
        with pytest.raises(BusError, match="refuses a subscription: secret; it says: Not authorized"):
            bus.subscribe("secret", print, timeout=5)
        eventually(lambda: [one.what for one in failures] == ["subscribe"])
        bus.stop(0)

"""The bus and servers that refuse, misbehave or cannot keep up; and what cannot be asked of a bus."""

import itertools
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.bus import Bus, BusState, Failure
from distced.middleware.bus.user_properties import UserProperties, pack
from distced.middleware.model.errors import BusError

pytestmark = pytest.mark.mqtt

Collector = Any
Eventually = Callable[[Callable[[], bool]], None]
MakeBus = Callable[..., Bus]
MakeImpostor = Callable[[Callable[[socket.socket], object]], Any]

ACCEPT_5 = b"\x20\x03\x00\x00\x00"


def accept(connection: socket.socket) -> None:
    """Read the greeting of a client of MQTT 5, and accept."""
    connection.recv(1000)
    connection.sendall(ACCEPT_5)


# Refusals


def test_bus_uses_the_protocol_version_of_the_embedded_server(amqtt: Server, make_bus: MakeBus) -> None:
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
    with pytest.raises(BusError, match=r"refuses: .*check the password of the user ada") as caught:
        bus.wait_connected(30)
    assert time.monotonic() - start < 25  # A refusal that will not change is not waited for.
    assert "wrong" not in str(caught.value)
    assert make_bus(f"mqtt://ada:l%40ve@{server.host}:{server.port}", protocol=protocol).connected


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_refused_messages_are_reported(
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


def test_message_larger_than_the_server_takes_is_given_up(
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


def test_properties_are_left_out_where_the_server_takes_no_more(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, received: Collector
) -> None:
    server = start_mosquitto(settings=["max_packet_size 2000"])
    seen: list[UserProperties] = []
    bus = make_bus(server.url, reads_properties=True)

    def handle(*message: Any) -> None:
        seen.append(bus.arriving)
        received.handler(*message)

    bus.subscribe("a", handle, timeout=5)
    for payload in (b"1", b"x" * 1500):
        bus.publish("a", payload, qos=1, properties=pack([("name", "value" * 90)]))
    received.wait(2)
    assert received.payloads == [b"1", b"x" * 1500]
    assert seen == [(("name", "value" * 90),), ()]
    assert bus.arriving == ()
    assert bus.statistics.dropped == bus.statistics.losses == 0


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
    with pytest.raises(BusError, match=r"(?s)no encrypted connection.*the certificates of its authority with --ca"):
        stranger.wait_connected(0.5)


# Servers that are none, or misbehave


def test_error_of_an_absent_server_has_advice(make_bus: MakeBus) -> None:
    bus = make_bus("mqtt://127.0.0.1:9", wait=False)
    with pytest.raises(BusError) as caught:
        bus.wait_connected(0.3)
    assert str(caught.value) == (
        "nothing listens at 127.0.0.1:9; start one with `distced broker` or name another with --server"
    )
    assert bus.statistics.attempts_failed >= 1


def test_server_that_hangs_up_is_tried_in_both_versions(
    make_bus: MakeBus, impostor: MakeImpostor, eventually: Eventually
) -> None:
    greetings: list[int] = []

    def serve(connection: socket.socket) -> None:
        if greeting := connection.recv(1000):  # Empty where the bus was stopped meanwhile.
            greetings.append(greeting[8])

    with impostor(serve) as server:
        bus = make_bus(server.url, wait=False, longest_delay=0.1)
        with pytest.raises(BusError, match="hung up on a client of MQTT"):
            bus.wait_connected(0.3)
        eventually(lambda: greetings[:3] == [5, 4, 5])
        bus.stop()


def test_server_that_never_answers_is_given_up(make_bus: MakeBus, impostor: MakeImpostor) -> None:
    with impostor(lambda connection: connection.recv(1000) and connection.recv(1000)) as server:
        bus = make_bus(server.url, wait=False, connect_timeout=0.2)
        with pytest.raises(BusError, match="does not answer"):
            bus.wait_connected(0.6)
        bus.stop()


def test_reason_of_the_server_for_its_end_is_reported(
    make_bus: MakeBus, impostor: MakeImpostor, received: Collector
) -> None:
    def serve(connection: socket.socket) -> None:
        accept(connection)
        connection.sendall(b"\xe0\x02\x8e\x00")

    with impostor(serve) as server:
        make_bus(server.url, wait=False, first_delay=5, on_state=lambda state, error: received.add((state, str(error))))
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
def test_malformed_packet_ends_the_connection_only(
    make_bus: MakeBus, impostor: MakeImpostor, received: Collector, garbage: bytes
) -> None:
    count = itertools.count()

    def serve(connection: socket.socket) -> None:
        accept(connection)
        if next(count) == 0:
            connection.sendall(garbage)
        else:
            connection.sendall(b"\x30\x05\x00\x01a\x00x")
        connection.recv(1000)

    with impostor(serve) as server:
        bus = make_bus(
            server.url, wait=False, first_delay=0.01, before=lambda bus: bus.subscribe("a", received.handler)
        )
        # The impostor hangs up after the first packet it gets, so each connection ends soon.
        assert received.wait(1) == [("a", b"x", False)]
        assert bus.statistics.handler_errors == 0
        bus.stop(0)


# Too much


def test_publishing_without_a_server_is_bounded(make_bus: MakeBus, received: Collector) -> None:
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


def test_server_that_stops_reading_holds_up_publishers_and_timers_go_on(
    make_bus: MakeBus, impostor: MakeImpostor, received: Collector, also_received: Collector
) -> None:
    release = threading.Event()

    def serve(connection: socket.socket) -> None:
        accept(connection)
        release.wait(20)

    with impostor(serve) as server:
        bus = make_bus(server.url, max_queued=20)
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


def test_bus_keeps_the_window_of_the_server(make_bus: MakeBus, impostor: MakeImpostor) -> None:
    in_progress: list[int] = []

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"\x20\x06\x00\x00\x03\x21\x00\x03")  # Receive Maximum 3
        connection.settimeout(0.2)
        while sum(in_progress) < 10:
            packets = b""
            try:
                while piece := connection.recv(1000):
                    packets += piece
            except TimeoutError:
                numbers = [packets[at + 5 : at + 7] for at in range(0, len(packets), 9)]
                assert all(packets[at] == 0x32 for at in range(0, len(packets), 9))
                in_progress.append(len(numbers))
                connection.sendall(b"".join(b"\x40\x02" + number for number in numbers))
        connection.settimeout(5)
        connection.recv(1000)

    with impostor(serve) as server:
        bus = make_bus(server.url)
        for number in range(10):
            bus.publish("a", b"%d" % number, qos=1)  # 9 bytes each.
        assert bus.flush(10)
        bus.stop(0)
    assert [count for count in in_progress if count] == [3, 3, 3, 1]


def test_refused_subscription_is_raised_and_reported(
    make_bus: MakeBus, impostor: MakeImpostor, eventually: Eventually
) -> None:
    def serve(connection: socket.socket) -> None:
        accept(connection)
        asked = connection.recv(1000)
        connection.sendall(b"\x90\x04" + asked[2:4] + b"\x00\x87")
        connection.recv(1000)

    failures: list[Failure] = []
    with impostor(serve) as server:
        bus = make_bus(server.url, on_failure=failures.append)
        with pytest.raises(BusError, match="refuses a subscription: secret; it says: Not authorized"):
            bus.subscribe("secret", print, timeout=5)
        eventually(lambda: [one.what for one in failures] == ["subscribe"])
        bus.stop(0)

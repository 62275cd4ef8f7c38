"""The MQTT server for first steps: started, noticed when dead, stopped, and clear about what keeps it from starting."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest

from distced.brokers.live import mqtt_server as server_module
from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.middleware.model.errors import BusError

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

KINDS = ["mosquitto", "amqtt"]


def connects(server: Server) -> bool:
    """Whether a client other than ours can connect."""
    reasons = []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, userdata, flags, reason, properties: reasons.append(reason)
    client.connect(server.host, server.port)
    end = time.monotonic() + 5
    while not reasons and time.monotonic() < end:
        client.loop(0.1)
    client.disconnect()
    return bool(reasons) and not reasons[0].is_failure


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_server_starts_serves_and_stops(kind: str, host: str) -> None:
    needs(kind)
    with start_server(kind, host) as server:  # type: ignore[arg-type]
        assert server.kind == kind
        assert server.alive
        assert server.port > 0
        assert server.url == f"mqtt://{'[::1]' if host == '::1' else host}:{server.port}"
        assert connects(server)
        folder = server._log.parent
        assert folder.exists()
    assert not server.alive
    assert not folder.exists()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, server.port), timeout=1)


@pytest.mark.parametrize("kind", KINDS)
def test_end_of_the_server_is_noticed(kind: str) -> None:
    needs(kind)
    with start_server(kind) as server:  # type: ignore[arg-type]
        assert not server.wait(0.01)
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(5)
        assert not server.alive
        assert "ended" in repr(server)


def test_auto_takes_mosquitto_where_it_is_and_amqtt_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mosquitto")
    needs("amqtt")
    with start_server() as server:
        assert server.kind == "mosquitto"
    monkeypatch.setattr(server_module, "find_mosquitto", lambda: None)
    with start_server() as server:
        assert server.kind == "amqtt"
    with pytest.raises(BusError, match="install the package mosquitto"):
        start_server("mosquitto")


def test_mosquitto_is_found_on_the_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mosquitto"
    program.write_text("#!/bin/sh\necho this one cannot >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_mosquitto() == str(program)
    with pytest.raises(BusError, match="ended with code 7") as caught:
        start_server("mosquitto")
    assert "this one cannot" in str(caught.value)


def test_settings_reach_mosquitto_and_a_wrong_one_is_quoted(start_mosquitto: Callable[..., Server]) -> None:
    start_mosquitto(settings=["max_keepalive 100"])
    with pytest.raises(BusError, match='Unknown configuration variable "nonsense"'):
        start_mosquitto(settings=["nonsense 1"])


def test_port_that_is_taken_is_named(mosquitto: Server) -> None:
    with pytest.raises(BusError, match=f"127.0.0.1:{mosquitto.port}.*in use.*another port"):
        start_server(port=mosquitto.port)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"host": "0.0.0.0"}, "loopback only"),
        ({"host": "example.org"}, "loopback only"),
        ({"port": 70_000}, "no server can listen"),
        ({"kind": "hivemq"}, "auto, mosquitto, amqtt"),
        ({"kind": "amqtt", "settings": ["x 1"]}, "takes none"),
    ],
)
def test_impossible_settings_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(BusError) as caught:
        start_server(**arguments)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_many_servers_at_once_have_ports_of_their_own() -> None:
    needs("mosquitto")
    servers = [start_server("mosquitto") for _ in range(5)]
    assert len({server.port for server in servers}) == 5
    assert all(connects(server) for server in servers)
    for server in servers:
        server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_server_ends_with_the_interpreter_that_started_it(kind: str) -> None:
    needs(kind)
    code = (
        "from distced.brokers.live.mqtt_server import start_server\n"
        f"server = start_server({kind!r}); print(server.pid, server.port)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    pid, port = map(int, done.stdout.split())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def needs(kind: str) -> None:
    if kind == "mosquitto" and find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    if kind == "amqtt":
        pytest.importorskip("amqtt")

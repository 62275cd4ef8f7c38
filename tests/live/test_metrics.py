"""Metrics over HTTP, of nodes, bridges and recorders on a real MQTT server; hostile clients harm nothing."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra distced[metrics]")

from prometheus_client.parser import text_string_to_metric_families

from distced.brokers.core.metrics import METRICS, MetricsReading
from distced.brokers.live.bridge import LiveBridge
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.metrics_server import LONGEST, WITHIN, MetricsAddress, MetricsServer
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.topics import event_topic

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

LOOPBACK = MetricsAddress("127.0.0.1", 0)

PLAIN = """
[[rule]]
topic = "home/{room}/temperature"
format = "text"
type = "Temperature"
source = "{$room}"
[rule.attributes]
celsius = { kind = "number", path = "value" }
"""


@pytest.fixture
def served() -> Iterator[MetricsServer]:
    with MetricsServer(LOOPBACK, MetricsBoard()) as server:
        yield server


def scrape(server: MetricsServer) -> Samples:
    with urlopen(server.url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def health(server: MetricsServer) -> tuple[int, str]:
    try:
        with urlopen(server.url.replace("/metrics", "/healthz"), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_counters_of_a_node_agree_with_what_was_published(
    mosquitto: Server, root: str, served: MetricsServer, eventually: Eventually, tmp_path: Path
) -> None:
    assert health(served) == (503, "no participant runs\n")
    board = served.board
    with (
        LiveNode(mosquitto.url, f"{root}-n", root=root, board=board, checkpoints=str(tmp_path / "store")) as node,
        Client(mosquitto.url, name=f"{root}-app", root=root) as client,
        Bus(mosquitto.url) as stranger,
    ):
        client.wait_for_nodes(1)
        client.register(event_type("A", {"k": "number"}), event_type("B", {"k": "number"}))
        source = client.source("s", ["A", "B"], watermark=0)
        found: list[object] = []
        client.subscribe("[A] ; [B]", found.append, quality=QualityOfService())
        now = time.time_ns()
        for number in range(50):
            source.publish(source.create("AB"[number % 2], now + number, k=number), watermark=now + number)
        stranger.wait_connected()
        stranger.publish(event_topic("A", "s", root=root), b"nonsense")
        eventually(lambda: len(found) > 0 and node.node.dead_letters.counts["malformed"] == 1)
        name = f"{root}-n"
        eventually(lambda: value(scrape(served), "distced_events_total", node=name) == node.node.counts["events"])
        eventually(lambda: value(scrape(served), "distced_checkpoints_saved_total", node=name) > 0)
        eventually(lambda: value(scrape(served), "distced_composite_events_total", node=name) == len(found))
        samples = scrape(served)
        assert value(samples, "distced_events_total", node=name) == 50
        assert value(samples, "distced_composite_delay_seconds_count", node=name) == len(found)
        assert value(samples, "distced_dead_letters_total", node=name, reason="malformed") == 1
        assert value(samples, "distced_detectors", node=name, role="primary") == 1
        assert value(samples, "distced_subscriptions", node=name) == 1
        assert value(samples, "distced_connected", node=name, home="directory") == 1
        received = [each for (metric, _), each in samples.items() if metric == "distced_received_bytes_total"]
        assert len(received) == 2 and all(each > 0 for each in received)
        assert ("distced_watermark_lag_seconds", frozenset({("node", name), ("source", "s")})) in samples
        assert health(served) == (200, "ok\n")
        own = {each.name for each in METRICS}
        assert all(metric in own or metric.startswith(("process_", "distced_composite_delay")) for metric, _ in samples)
    assert health(served)[0] == 503


def test_node_without_its_server_is_not_healthy(
    start_mosquitto: Callable[..., Server], root: str, served: MetricsServer, eventually: Eventually
) -> None:
    server = start_mosquitto()
    with LiveNode(server.url, "n", root=root, board=served.board):
        eventually(lambda: health(served)[0] == 200)
        server.stop()
        eventually(lambda: health(served) == (503, "node n: no connection to the server of the directory\n"))
        assert value(scrape(served), "distced_connected", node="n", home="directory") == 0


def test_metrics_of_a_bridge(mosquitto: Server, root: str, served: MetricsServer, eventually: Eventually) -> None:
    mapping = parse_mapping(PLAIN.replace("home/", f"{root}-home/"), name="plain")
    with (
        LiveBridge(mosquitto.url, f"{root}-b", [mapping], root=root, board=served.board),
        Bus(mosquitto.url) as device,
    ):
        device.wait_connected()
        device.publish(f"{root}-home/attic/temperature", b"21.5")
        device.publish(f"{root}-home/attic/temperature", b"warm")
        eventually(lambda: value(scrape(served), "distced_bridge_messages_total", bridge=f"{root}-b") == 2)
        samples = scrape(served)
        assert value(samples, "distced_bridge_events_total", bridge=f"{root}-b") == 1
        assert value(samples, "distced_dead_letters_total", bridge=f"{root}-b", reason="rejected") == 1
        assert health(served)[0] == 200


def test_metrics_of_a_recorder(
    mosquitto: Server, root: str, served: MetricsServer, eventually: Eventually, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    from distced.brokers.live.recorder import LiveRecorder

    recorder = LiveRecorder(
        mosquitto.url, tmp_path / "history", "r", types=["A"], root=root, flush_every=10**8, board=served.board
    )
    with recorder, Client(mosquitto.url, name=f"{root}-app", root=root) as client:
        assert recorder.wait_announced(10)
        client.register(event_type("A", {"k": "number"}))
        source, now = client.source("s", ["A"], watermark=0), time.time_ns()
        for number in range(20):
            source.publish(source.create("A", now + number, k=number), watermark=now + number)
        eventually(lambda: value(scrape(served), "distced_recorder_written_events_total", recorder="r") == 20)
        samples = scrape(served)
        assert value(samples, "distced_recorder_events_total", recorder="r") == 20
        assert value(samples, "distced_recorder_failing", recorder="r") == 0
        assert 0 <= value(samples, "distced_recorder_lag_seconds", recorder="r") < 60


def test_port_in_use_is_an_error_that_says_so(served: MetricsServer, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DistcedError, match="the port for metrics is in use"):
        MetricsServer(served.address, MetricsBoard())
    assert main(["broker", "--no-ray", "--port", "0", "--metrics", str(served.address.port)]) == 2
    assert f"the port for metrics is in use: {served.address.port}" in capsys.readouterr().err.replace("\n", " ")


HOSTILE = {
    "nothing": b"",
    "not HTTP": b"\x00\xff" * 50 + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "another method": b"DELETE /metrics HTTP/1.1\r\n\r\n",
    "a body": b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nabc",
    "a long path": b"GET /" + b"a" * (LONGEST + 1) + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    "no end": b"GET /metrics HTTP/1.1\r\nA: b\r\n",
    "a path of files": b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
    "a strange version": b"GET /metrics HTTP/9.9999999999999\r\n\r\n",
    "a strange accept": b"GET /metrics HTTP/1.1\r\nAccept: \xff;q=nan,;;,text/x;version=x\r\n\r\n",
    "expectation": b"GET /nowhere HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
}


@pytest.fixture
def answering(served: MetricsServer) -> MetricsServer:
    served.board.put(MetricsReading("node", "n", time.monotonic() + 60, True, {"distced_events_total": {(): 1.0}}))
    return served


@pytest.mark.parametrize("request_", HOSTILE.values(), ids=HOSTILE)
def test_hostile_request_is_answered_or_cut_off_and_the_next_is_served(
    answering: MetricsServer, request_: bytes
) -> None:
    with socket.create_connection(answering.address, timeout=3 * WITHIN) as stream:
        stream.sendall(request_)
        answer = b""
        try:
            while piece := stream.recv(65_536):
                answer += piece
        except ConnectionResetError:
            pass
    status = answer.split(b" ", 2)[1:2]
    assert b"root:" not in answer and (not answer or status != [b"200"] or b"distced_events_total" in answer)
    assert value(scrape(answering), "distced_events_total", node="n") == 1


def test_slow_and_idle_clients_are_cut_off(answering: MetricsServer) -> None:
    done = threading.Event()

    def drip(stream: socket.socket) -> None:
        # A byte now and then, for as long as the server takes it.
        try:
            for _ in range(1000):
                stream.sendall(b"G")
                if done.wait(0.05):
                    return
        except OSError:
            return

    idle = socket.create_connection(answering.address)
    slow = socket.create_connection(answering.address)
    dripping = threading.Thread(target=drip, args=(slow,))
    dripping.start()
    try:
        assert value(scrape(answering), "distced_events_total", node="n") == 1
    finally:
        done.set()
        dripping.join()
        idle.close()
        slow.close()


def test_only_two_paths_are_answered(answering: MetricsServer) -> None:
    for path, status in [("/metrics", 200), ("/metrics?x=1", 200), ("/healthz", 200), ("/", 404), ("/metrics/", 404)]:
        connection = http.client.HTTPConnection(*answering.address, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == status and answer.read(), path
        connection.close()

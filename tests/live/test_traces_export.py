"""Traces that leave several processes for a collector, as the verbs and Ray actors are asked for them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="traces need the extra distced[traces]")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import Server
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from tests.support.verbs import load_verbs

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

CODE = """
import sys
from distced.middleware.cli.command import main
from tests.support.verbs import load_verbs
load_verbs()
sys.exit(main())
"""
Eventually = Callable[[Callable[[], bool]], None]


class Collector(ThreadingHTTPServer):
    """Collector of traces over HTTP, on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taken)
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self, service: str = "") -> list[Span]:
        """Spans, of one service or of all."""
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            if not service
            or any(
                each.key == "service.name" and each.value.string_value == service
                for each in resource.resource.attributes
            )
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Taken(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield server
        server.shutdown()


def attribute(span: Span, name: str) -> str:
    return next((each.value.string_value for each in span.attributes if each.key == name), "")


def names_up(spans: list[Span], span: Span) -> list[str]:
    names, by_id = [span.name], {each.span_id: each for each in spans}
    while span.parent_span_id:
        span = by_id[span.parent_span_id]
        names.append(span.name)
    return names


def test_verbs_make_one_trace(mosquitto: Server, collector: Collector, eventually: Eventually) -> None:
    load_verbs()
    command = [
        *(sys.executable, "-c", CODE, "broker", "--no-ray", "--server", mosquitto.url, "--name", "traced"),
        *("--traces", "--checkpoints", "none"),
    ]
    with subprocess.Popen(command, env={**os.environ, "OTEL_SERVICE_NAME": "nodes"}) as broker:
        try:
            with Client(mosquitto.url, name="traces-app") as client:
                client.wait_for_nodes(1)
                client.register(event_type("Traced", {"k": "number"}))
            subscriber = subprocess.Popen(
                [
                    *(sys.executable, "-c", CODE, "subscribe", "[Traced] -> Exported()", "--server", mosquitto.url),
                    *("--detection", "best-effort", "--count", "1", "--timeout", "30s", "--traces"),
                ]
            )
            with Client(mosquitto.url, name="traces-look") as client, subscriber:
                eventually(lambda: len(client.detectors) == 1)
                assert main(["publish", "Traced", "k=1", "--server", mosquitto.url, "--traces"]) == 0
                assert subscriber.wait(30) == 0
        finally:
            broker.send_signal(signal.SIGINT)
            assert broker.wait(20) == 0
    eventually(lambda: any(each.name == "deliver" for each in collector.spans("distced")))
    everything = collector.spans()
    (delivered,) = [each for each in everything if each.name == "deliver"]
    assert names_up(everything, delivered) == ["deliver", "composite Exported", "publish Traced"]
    assert {each.name for each in collector.spans("nodes")} == {"detect", "composite Exported"}
    assert {each.trace_id for each in everything} == {delivered.trace_id}


@pytest.mark.ray
@pytest.mark.slow
def test_nodes_as_actors_are_asked_for_traces(mosquitto: Server, collector: Collector, eventually: Eventually) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra distced[ray]")
    from distced.brokers.ray.nodes import RayNodes

    own = (("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url), ("OTEL_SERVICE_NAME", "actors"))
    traced = NodeLocation(checkpoints="none", traces=own)
    with (
        RayNodes(mosquitto.url, {"traced-1": traced, "plain-1": NodeLocation(checkpoints="none")}),
        Client(mosquitto.url, name="traces-ray", traces=True) as client,
    ):
        client.wait_for_nodes(2)
        client.register(event_type("Acted", {"k": "number"}))
        source = client.source("acted", ["Acted"], watermark=0)
        hosts = set()
        for number in range(20):
            hosts.add(client.subscribe(f"[Acted where k > {number}] -> Done()").node)
        assert hosts == {"traced-1", "plain-1"}
        source.publish(source.create("Acted", 1, k=100), watermark=2)
        eventually(lambda: any(each.name == "composite Done" for each in collector.spans("actors")))
    found = [each for each in collector.spans("actors") if each.name == "composite Done"]
    assert {attribute(each, "distced.node") for each in found} == {"traced-1"}
    assert {names_up(collector.spans(), each)[-1] for each in found} == {"publish Acted"}


def test_collector_that_is_not_there_holds_nothing_up(mosquitto: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    load_verbs()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert main(["publish", "Alone", "k=1", "--register", "k:number", "--server", mosquitto.url, "--traces"]) == 0


def test_errors_say_what_to_do(mosquitto: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(DistcedError, match=r"not a protocol for traces: grpc.*http/protobuf"):
        Client(mosquitto.url, traces=True)
    for name in [each for each in sys.modules if each.startswith("opentelemetry")] + [
        "distced.middleware.bus.traces",
        "distced.middleware.client.client_traces",
    ]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(DistcedError, match=r"this needs opentelemetry.*distced\[traces\]"):
        Client(mosquitto.url, traces=True)

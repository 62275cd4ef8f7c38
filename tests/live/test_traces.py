"""Traces of events over a real MQTT server: from publisher to application, through the nodes of a cut pattern."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("opentelemetry.sdk", reason="traces need the extra distced[traces]")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.recorder import LiveRecorder
from distced.middleware.bus import Bus
from distced.middleware.bus.traces import of_provider
from distced.middleware.bus.user_properties import pack
from distced.middleware.client.aio import AsyncClient
from distced.middleware.client.client import Client
from distced.middleware.client.quality import Decomposition, QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.frames import encode
from distced.middleware.wire.topics import event_topic

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]

KINDS = [event_type(name, {"v": "number"}) for name in "ABC"]
HOSTILE = {
    "no context": [("traceparent", "certainly not")],
    "nothing": [("traceparent", "")],
    "zeros": [("traceparent", f"00-{'0' * 32}-{'0' * 16}-01")],
    "a forbidden version": [("traceparent", f"ff-{'1' * 32}-{'1' * 16}-01")],
    "capitals": [("traceparent", f"00-{'A' * 32}-{'1' * 16}-01")],
    "huge": [("traceparent", "00-" + "1" * 60_000), ("tracestate", "x" * 60_000)],
    "many": [(f"name-{number}", "value") for number in range(5_000)],
    "two parents": [("traceparent", f"00-{number * 32}-{number * 16}-01") for number in "12"],
    "a wild state": [("traceparent", f"00-{'3' * 32}-{'3' * 16}-01"), ("tracestate", "a=\u2028ä,,,=")],
    "a long state": [("traceparent", f"00-{'4' * 32}-{'4' * 16}-01"), ("tracestate", "a=" + "b" * 900)],
}


@dataclass
class Collected:
    """Spans of everything that a test starts, as one process sees them."""

    provider: TracerProvider = field(default_factory=TracerProvider)
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == name]

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        """Span that is the parent of another; None for the first of a trace."""
        if span.parent is None:
            return None
        found = [each for each in self.spans if each.context.span_id == span.parent.span_id]
        assert len(found) == 1, f"parent of {span.name}"
        return found[0]


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.provider.shutdown()


def names_up(collected: Collected, span: ReadableSpan) -> list[str]:
    """Names from a span up to the first one of its trace."""
    names: list[str] = []
    at: ReadableSpan | None = span
    while at is not None:
        names.append(at.name)
        at = collected.parent(at)
    return names


def started_nodes(
    stack: ExitStack, server: Server, root: str, number: int, collected: Collected | None
) -> list[LiveNode]:
    traces = None if collected is None else of_provider(collected.provider)
    nodes = [LiveNode(server.url, f"{root}-n{each}", root=root, traces=traces) for each in range(number)]
    for node in nodes:
        stack.enter_context(node)
    return nodes


def hosts(nodes: list[LiveNode]) -> dict[str, str]:
    """Node of each detector."""
    return {each: node.node.name for node in nodes for each in node.node.hosted}


def apart(client: Client, nodes: list[LiveNode]) -> tuple[object, str, str]:
    """Subscription to a cut pattern whose part is on another node; with the detector of the part and its own."""
    for number in range(50):
        pattern = f"[A as a where v >= {-number}] ; ([B] ; [C where v > 0] within 1s) -> Out(v = a.v)"
        subscription = client.subscribe(pattern, quality=QualityOfService(decomposition="full"))
        host = next(node for node in nodes if subscription.detector in node.node.hosted)
        parts = host.node.hosted[subscription.detector].parts
        where = hosts(nodes)
        away = [each for each in parts if where[each] != where[subscription.detector]]
        if away:
            return subscription, away[0], subscription.detector
        subscription.close()
    raise AssertionError("no part on another node")


def test_trace_goes_from_publisher_through_two_nodes_to_the_application(
    mosquitto: Server, root: str, collected: Collected, eventually: Eventually
) -> None:
    with ExitStack() as stack:
        nodes = started_nodes(stack, mosquitto, root, 2, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider))
        client.wait_for_nodes(2)
        client.register(*KINDS)
        source = client.source("s", ["A", "B", "C"], watermark=0)
        subscription, part, detector = apart(client, nodes)
        where = hosts(nodes)
        for number, name in enumerate("ABC"):
            source.publish(Event(name, 100 + number, 100 + number, "s", number, {"v": 1}))
        # The promise comes later, and releases all of it.
        time.sleep(0.2)
        before = time.time_ns()
        assert not collected.named("composite Out")
        source.heartbeat(1_000)
        found = subscription.get(timeout=10.0)  # type: ignore[attr-defined]
        assert isinstance(found, CompositeEvent) and len(found.constituents) == 3
        eventually(lambda: any("Out" in " ".join(names_up(collected, each)) for each in collected.named("deliver")))
        (whole,) = collected.named("composite Out")
        (first,) = [each for each in collected.spans if (each.attributes or {}).get("distced.detector") == part]
        (delivered,) = [each for each in collected.named("deliver") if collected.parent(each) is whole]
        # Of the last constituent, by the part, to the application.
        assert names_up(collected, delivered) == ["deliver", "composite Out", first.name, "publish C"]
        assert first.name.startswith("composite ")
        assert {each.context.trace_id for each in (whole, first, delivered)} == {
            collected.named("publish C")[0].context.trace_id
        }
        linked = {link.context.span_id for link in whole.links}
        assert {collected.named("publish A")[0].context.span_id} <= linked
        assert {link.context.span_id for link in first.links} == {collected.named("publish B")[0].context.span_id}
        assert (whole.attributes or {})["distced.node"] == where[detector]
        assert (first.attributes or {})["distced.node"] == where[part] != where[detector]
        assert (whole.attributes or {})["distced.detection"] == "guaranteed"
        assert (whole.attributes or {})["distced.constituents"] == 3
        # Held for stability: it begins at the arrival of its last constituent, and ends behind the promise.
        assert first.start_time is not None and first.start_time < before < (first.end_time or 0)
        held = (first.attributes or {})["distced.held_seconds"]
        assert isinstance(held, float) and held >= 0.2
        detected = [each for each in collected.named("detect") if collected.parent(each) is first]
        assert [(each.attributes or {})["distced.node"] for each in detected] == [where[detector]]
        subscription.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("decomposition", "detection"), [("none", "guaranteed"), ("full", "guaranteed"), ("none", "best-effort")]
)
def test_composite_events_are_the_same_with_traces(
    decomposition: Decomposition, detection: str, mosquitto: Server, root: str, collected: Collected
) -> None:
    random = Random(5)
    events = [
        Event(random.choice("ABC"), 10 * at, 10 * at + 5, "s", at, {"v": random.randrange(3)}) for at in range(1, 80)
    ]
    found = {}
    for traced in (None, collected):
        own = f"{root}-{'t' if traced else 'p'}"
        with ExitStack() as stack:
            started_nodes(stack, mosquitto, own, 2, traced)
            traces = False if traced is None else traced.provider
            client = stack.enter_context(Client(mosquitto.url, name=f"{own}-app", root=own, traces=traces))
            client.wait_for_nodes(2)
            client.register(*KINDS)
            source = client.source("s", ["A", "B", "C"], watermark=0)
            quality = QualityOfService(decomposition=decomposition, detection=detection)
            subscription = client.subscribe("[A as x] ; ([B where v >= x.v] ; [C]) -> Out(v = x.v)", quality=quality)
            for event in events:
                source.publish(event, watermark=event.hi)
            source.heartbeat(10_000)
            assert subscription.wait_watermark(1_000, 10.0) or detection == "best-effort"
            got = []
            while (event := subscription.get(timeout=1.0)) is not None:
                got.append(event)
            found[traced is None] = sorted((each.id, each.lo, each.hi, str(each.attributes)) for each in got)
    assert found[True] == found[False] != []
    assert collected.named("composite Out")


def test_messages_without_traces_have_no_properties(mosquitto: Server, root: str, eventually: Eventually) -> None:
    seen = []
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, None)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root))
        witness = stack.enter_context(Bus(mosquitto.url, reads_properties=True))
        witness.wait_connected()
        witness.subscribe(f"{root}/#", lambda *message: seen.append((message[0], witness.arriving)), timeout=5.0)
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A", "B"], watermark=0)
        subscription = client.subscribe("[A] ; [B]")
        source.publish(source.create("A", 1, v=1), source.create("A", 2, v=1))
        source.publish(source.create("B", 3, v=1), watermark=9)
        assert subscription.get(timeout=10.0) is not None
        eventually(lambda: any("/c/" in topic for topic, _ in seen))
    assert all(properties == () for _, properties in seen)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_properties_are_ignored(
    name: str, mosquitto: Server, root: str, collected: Collected, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider))
        stranger = stack.enter_context(Bus(mosquitto.url))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        client.source("s", ["A", "B"], watermark=0)
        subscription = client.subscribe("[A] ; [B]", quality=QualityOfService(detection="best-effort"))
        stranger.wait_connected()
        for number, kind in enumerate("AB"):
            payload = encode([Event(kind, number, number, "s", number, {"v": 1})], type=kind, source="s")
            stranger.publish(event_topic(kind, "s", root=root), payload, qos=1, properties=pack(HOSTILE[name]))
        found = subscription.get(timeout=10.0)
        assert isinstance(found, CompositeEvent) and found.constituents == (("s", 0), ("s", 1))
    carried = name in ("a wild state", "a long state")
    (composite,) = [each for each in collected.spans if each.name.startswith("composite")]
    # Without a usable context a trace of its own begins.
    assert (composite.parent is not None) == carried
    assert len(collected.named("detect")) == (2 if carried else 0)
    assert all(not each.context.trace_state for each in collected.spans)
    said = capsys.readouterr()
    assert "traces end" not in said.out + said.err
    assert all(value[:20] not in said.out + said.err for _, value in HOSTILE[name] if len(value) > 5)


def test_foreign_publisher_begins_a_trace(
    mosquitto: Server, root: str, collected: Collected, eventually: Eventually
) -> None:
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root))
        device = stack.enter_context(Bus(mosquitto.url))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        subscription = client.subscribe("[A] -> Out()", quality=QualityOfService(detection="best-effort"))
        device.wait_connected()
        properties = pack([("traceparent", f"00-{'6' * 32}-{'7' * 16}-01"), ("tracestate", "vendor=1")])
        event = b'{"seq": 3, "time": "2026-11-21T08:00:00Z", "attributes": {"v": 1}}'
        device.publish(event_topic("A", "device", root=root), event, qos=1, properties=properties)
        found = subscription.get(timeout=10.0)
        assert isinstance(found, CompositeEvent) and found.constituents == (("device", 3),)
        eventually(lambda: len(collected.spans) == 2)
    for span in collected.spans:
        assert span.parent is not None and span.parent.span_id == int("7" * 16, 16)
        assert span.context.trace_state.get("vendor") == "1"
        assert (span.start_time or 0) > found.hi


def test_composite_events_of_one_message_belong_to_their_own_traces(
    mosquitto: Server, root: str, collected: Collected, eventually: Eventually
) -> None:
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("[A] -> Out()")
        for number in range(1, 4):
            source.publish(source.create("A", number, v=1))
        source.heartbeat(9)
        assert all(subscription.get(timeout=10.0) for _ in range(3))
        eventually(lambda: bool(collected.named("deliver")))
    composites, published = collected.named("composite Out"), collected.named("publish A")
    assert [collected.parent(each) for each in composites] == published
    assert len({each.context.trace_id for each in composites}) == 3
    assert {(each.attributes or {})["distced.events"] for each in composites} == {3}
    (delivered,) = collected.named("deliver")
    assert collected.parent(delivered) is composites[0]


def test_publisher_decides_on_sampling(mosquitto: Server, root: str, collected: Collected) -> None:
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        off = TracerProvider(sampler=ALWAYS_OFF)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=off))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("[A] -> Out()")
        source.publish(source.create("A", 1, v=1), watermark=9)
        assert subscription.get(timeout=10.0) is not None
    assert collected.spans == []


class Broken(SpanProcessor):
    """Processor of an application that fails."""

    def on_start(self, span: object, parent_context: object = None) -> None:
        raise RuntimeError("\x1b[31m a processor that fails")


def test_failing_traces_harm_nothing(
    mosquitto: Server, root: str, collected: Collected, capsys: pytest.CaptureFixture[str]
) -> None:
    collected.provider.add_span_processor(Broken())
    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider))
        stranger = stack.enter_context(Bus(mosquitto.url))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A", "B"], watermark=0)
        subscription = client.subscribe("[A] ; [B]")
        first, last = source.create("A", 1, v=1), source.create("B", 3, v=1)
        source.publish(first)
        stranger.wait_connected()
        payload = encode([Event("A", 2, 2, "s", 9, {"v": 1})], type="A", source="s")
        properties = pack([("traceparent", f"00-{'5' * 32}-{'5' * 16}-01")])
        stranger.publish(event_topic("A", "s", root=root), payload, qos=1, properties=properties)
        assert stranger.flush()
        source.publish(last, watermark=9)
        found = [subscription.get(timeout=10.0), subscription.get(timeout=10.0)]
        assert {each.constituents for each in found if isinstance(each, CompositeEvent)} == {
            (first.id, last.id),
            (("s", 9), last.id),
        }
    said = capsys.readouterr()
    assert "trace failed" in said.out + said.err
    assert "a processor that fails" not in said.out + said.err


def test_trace_of_an_application_goes_on(
    mosquitto: Server, root: str, collected: Collected, eventually: Eventually, tmp_path: Path
) -> None:
    recorder = LiveRecorder(
        mosquitto.url,
        tmp_path / "h",
        f"{root}-r",
        types=None,
        keep=0,
        root=root,
        traces=of_provider(collected.provider),
    )
    with ExitStack() as stack:
        stack.enter_context(recorder)
        started_nodes(stack, mosquitto, root, 1, collected)
        client = stack.enter_context(Client(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("A")
        with collected.provider.get_tracer("application").start_as_current_span("work") as work:
            source.publish(source.create("A", 1, v=1), watermark=1)
            assert trace.get_current_span() is work
        assert subscription.get(timeout=10.0) is not None
        eventually(lambda: bool(collected.named("deliver") and collected.named("record")))
        assert names_up(collected, collected.named("deliver")[0]) == ["deliver", "publish A", "work"]
        assert names_up(collected, collected.named("record")[0]) == ["record", "publish A", "work"]


def test_traces_on_asyncio(mosquitto: Server, root: str, collected: Collected) -> None:
    async def run() -> None:
        async with AsyncClient(mosquitto.url, name=f"{root}-app", root=root, traces=collected.provider) as client:
            await client.wait_for_nodes(1)
            await client.register(*KINDS)
            source = await client.source("s", ["A", "B"], watermark=0)
            subscription = await client.subscribe("[A] ; [B] -> Out()")
            await source.publish(source.create("A", 1, v=1), source.create("B", 2, v=1), watermark=9)
            assert await subscription.get(timeout=10.0) is not None

    with ExitStack() as stack:
        started_nodes(stack, mosquitto, root, 1, collected)
        asyncio.run(run())
    assert names_up(collected, collected.named("deliver")[0]) == ["deliver", "composite Out", "publish B"]


def test_traces_end_at_a_server_of_mqtt_3(
    amqtt: Server, root: str, collected: Collected, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        started_nodes(stack, amqtt, root, 1, collected)
        client = stack.enter_context(Client(amqtt.url, name=f"{root}-app", root=root, traces=collected.provider))
        client.wait_for_nodes(1)
        client.register(*KINDS)
        source = client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("A")
        source.publish(source.create("A", 1, v=1), watermark=1)
        assert subscription.get(timeout=10.0) is not None
    assert [each.name for each in collected.spans] == ["publish A"]
    said = capsys.readouterr()
    assert (said.out + said.err).count("traces end") == 3  # the client, and two connections of the node


PROGRAM = """
import json, sys
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
url, root, traced = sys.argv[1:]
with LiveNode(url, f"{root}-n", root=root), Client(url, name=f"{root}-c", root=root, traces=bool(traced)) as client:
    client.wait_for_nodes(1)
    client.register(event_type("A"))
    source = client.source("s", ["A"], watermark=0)
    subscription = client.subscribe("[A]")
    source.publish(source.create("A", 1), watermark=1)
    assert subscription.get(timeout=10.0) is not None
print(json.dumps([each for each in sys.modules if each.startswith("opentelemetry")]))
"""


@pytest.mark.spawn
@pytest.mark.parametrize("traced", [False, True])
def test_opentelemetry_is_imported_on_request_only(traced: bool, mosquitto: Server, root: str) -> None:
    own = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mosquitto.url, f"{root}{traced}", "yes" * traced],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **own},
        check=True,
    )
    assert bool(json.loads(done.stdout.splitlines()[-1])) == traced

"""Figures of nodes for metrics, of virtual nodes: counters agree with what was published, moved and refused."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced import brokers
from distced.brokers.core.dead_letters import REASONS
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.metrics import BOUNDS, METRICS, SOURCES, DelayHistogram, Values
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node import node_metrics
from distced.brokers.node.node_metrics import NodeMetrics
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import ClientEntry
from distced.middleware.wire.topics import administration_topic, directory_topic, event_topic
from tests.brokers.test_node import event, prepared, subscribed
from tests.support.virtual_nodes import Network, VirtualClient

LABELS = {each.name: each.labels for each in METRICS}


def one(values: Values, name: str, *labels: str) -> float:
    return values[name][labels]


def total(name: str, *labels: str, of: list[Values]) -> float:
    return sum(one(values, name, *labels) for values in of)


def happen(network: Network, client: VirtualClient) -> None:
    """An A and a B, beyond which the source has promised all."""
    client.publish(event("A", network.now + 1))
    client.publish(event("B", network.now + 2), watermark=network.now + 3)
    network.run()


def test_counters_agree_with_events_moves_refusals_and_dead_letters() -> None:
    network, client = prepared(nodes=2, limits=SubscriptionLimits(of_client=3))
    metrics = [NodeMetrics(each.node) for each in network.nodes]

    def read() -> list[Values]:
        return [each.read(network.now) for each in metrics]

    before = read()
    counters = [name for name in LABELS if name.endswith("_total")]
    assert not any(figure for values in before for name in counters for figure in values.get(name, {}).values())
    detector = subscribed(network, client, "q", "[A] ; [B]")
    client.subscribe("bad", "[A ; ]")
    client.subscribe("more", "[B]")
    client.subscribe("beyond", "[B] ; [A]")
    network.pass_time(3 * SECOND)
    happen(network, client)
    network.publish(event_topic("A", "s"), b"nonsense")
    network.run()
    host = network.hosts(detector)[0]
    other = next(each.name for each in network.nodes if each.name != host)
    network.publish(administration_topic("move", detector), encode(MoveRequest(other)))
    network.pass_time(3 * SECOND)
    assert network.hosts(detector) == [other]
    network.publish(administration_topic("move", detector), encode(MoveRequest("nowhere")))
    network.pass_time(3 * SECOND)
    after = read()
    counts = [each.node.counts for each in network.nodes]
    for values, counted in zip(after, counts, strict=True):
        assert one(values, "distced_events_total") == counted["events"]
        assert one(values, "distced_composite_events_total") == counted["composite events"]
    assert total("distced_composite_events_total", of=after) == sum(each.delays().number for each in metrics) > 0
    assert total("distced_dead_letters_total", "malformed", of=after) == len(network.letters) > 0
    assert total("distced_refusals_total", "unusable", of=after) == 1
    assert total("distced_refusals_total", "of_client", of=after) == 1
    assert total("distced_migrations_begun_total", "move", of=after) == 1
    assert total("distced_migrations_ended_total", "move", "completed", of=after) == 1
    assert total("distced_migrations_in_progress", of=after) == 0
    assert total("distced_subscriptions", of=after) == 2
    assert total("distced_detectors", "primary", of=after) == 2
    for values in after:
        for name, figures in values.items():
            assert all(len(labels) == len(LABELS[name]) for labels in figures), name


def reasons_in_code() -> set[object]:
    """First arguments of all calls that make or count dead letters, names resolved in their modules."""
    found: set[object] = set()
    for path in (Path(brokers.__file__).parent).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            owner = ast.unparse(call.func.value)
            if not (owner.endswith("letters") and call.func.attr in ("message", "event", "events", "count")):
                continue
            match call.args[0]:
                case ast.Constant(value=reason):
                    found.add(reason)
                case ast.Name(id=name):
                    module = ".".join(path.relative_to(Path(brokers.__file__).parent).with_suffix("").parts)
                    found.add(getattr(import_module(f"distced.brokers.{module}"), name))
                case other:
                    raise AssertionError(f"{path}: {ast.unparse(other)}")
    return found


def test_every_reason_of_dead_letters_is_exported_from_the_start() -> None:
    assert reasons_in_code() == set(REASONS)
    network, _ = prepared(nodes=1)
    values = NodeMetrics(network.nodes[0].node).read(network.now)
    assert {reason for (reason,) in values["distced_dead_letters_total"]} == set(REASONS)


def test_what_is_beyond_a_limit_is_exported() -> None:
    network, client = prepared(
        nodes=1,
        limits=SubscriptionLimits(states=4, kept_bytes=2_000),
        message_limits=MessageLimits(rate=5, letters=1, entries=4),
    )
    node = network.nodes[0].node
    metrics = NodeMetrics(node)
    names = ("entries_refused", "patterns_refused", "delayed_messages", "unpublished_dead_letters")
    before = metrics.read(network.now)
    assert [one(before, f"distced_{name}_total") for name in (*names, "durable_events_dropped")] == [0] * 5
    client.subscribe("large", "[A] ; [B] ; [A] ; [B] ; [A]")
    for number in range(6):
        network.publish(directory_topic("client", f"c{number}"), encode(ClientEntry(1)), retain=True)
    network.run()
    for _ in range(20):
        network.nodes[0].do(node.receive(event_topic("A", "s"), b"nonsense", network.now))
    network.run()
    after = metrics.read(network.now)
    assert all(one(after, f"distced_{name}_total") > 0 for name in names), {name: after.get(name) for name in names}
    assert one(after, "distced_delayed_messages_total") == node.counts["events delayed"]


@given(st.lists(st.integers(-10 * SECOND, 1_000 * SECOND), max_size=30))
def test_histogram_counts_each_delay_once_at_its_bound(delays: list[int]) -> None:
    histogram, now = DelayHistogram(), 10**18
    for delay in delays:
        histogram.add([Event("C", now - delay, now - delay, "c", 1, {})], now)
    read = histogram.read()
    assert read.number == len(delays)
    assert read.up_to == tuple(sum(each <= bound for each in delays) for bound in BOUNDS)
    assert read.total == pytest.approx(sum(max(each, 0) for each in delays) / SECOND)


@pytest.mark.parametrize("most", [5_000, 3], ids=["all watermarks", "the least of each input"])
def test_slowest_sources_have_a_lag_of_their_own(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(node_metrics, "MOST_WATERMARKS", most)
    network, client = prepared(nodes=1)
    (virtual,) = network.nodes
    metrics = NodeMetrics(virtual.node)
    subscribed(network, client, "q", "[A] ; [B]")
    network.now = 1_000 * SECOND
    for number in range(SOURCES + 10):
        client.source(f"s{number}", ["A"], watermark=network.now - number * SECOND)
    network.run()
    values = metrics.read(network.now)
    lags = {source: lag for (source,), lag in values["distced_watermark_lag_seconds"].items()}
    # The source that was there before has promised least.
    assert len(lags) == (SOURCES if most > 100 else 1) and max(lags.values()) <= 1_000
    assert one(values, "distced_sources") == len(virtual.node.directory.sources)
    if most > 100:
        assert lags[f"s{SOURCES + 9}"] == SOURCES + 9 and "s0" not in lags


@pytest.mark.parametrize("at_once", [1_000, 2], ids=["at once", "in rounds"])
def test_instances_are_those_of_all_detectors(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(node_metrics, "AT_ONCE", at_once)
    network, client = prepared(nodes=1)
    metrics = NodeMetrics(network.nodes[0].node)
    for number in range(5):
        subscribed(network, client, f"q{number}", f"[A where k >= {number}] ; [B where k > {number}]")
    client.publish(event("A", network.now + 1, k=9), watermark=network.now + 2)
    network.run()
    hosted = network.nodes[0].node.hosted.values()
    live = sum(each.detector.live for each in hosted)
    reads = [metrics.read(network.now) for _ in range(4)]
    assert one(reads[-1], "distced_instances") == live >= 5
    assert one(reads[-1], "distced_detectors", "primary") == 5
    if at_once == 2:
        assert one(reads[0], "distced_instances") == 0


def test_node_without_metrics_counts_no_delays() -> None:
    network, client = prepared(nodes=1)
    subscribed(network, client, "q", "[A] ; [B]")
    happen(network, client)
    assert network.nodes[0].node.counts["composite events"] and network.nodes[0].node.event_path.delays is None


def test_names_units_and_help_of_metrics_follow_the_conventions() -> None:
    assert len(LABELS) == len(METRICS)
    for each in METRICS:
        assert each.name.startswith("distced_") and each.name.replace("_", "").isalnum() and each.help.endswith(".")
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name
    units = {each.unit for each in METRICS}
    assert units == {"", "seconds", "bytes"} and MILLISECOND in BOUNDS and sorted(BOUNDS) == list(BOUNDS)

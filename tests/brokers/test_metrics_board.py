"""Board of metrics: exposition of readings as data, health, and addresses."""

from __future__ import annotations

import sys
from dataclasses import FrozenInstanceError

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra distced[metrics]")

from prometheus_client.parser import text_string_to_metric_families

from distced.brokers.cli.metrics_option import metrics_address, of_processes
from distced.brokers.core.metrics import METRICS, DelayHistogram, MetricsReading, put
from distced.brokers.live.metrics_board import EVERY, RECENT, MetricsBoard, collected
from distced.brokers.live.metrics_server import MetricsAddress, exposition, parse_metrics_address, with_free_port
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND


def reading(name: str, at: float = 0.0, *, connected: bool = True) -> MetricsReading:
    delays = DelayHistogram()
    delays.add([Event("C", 0, 0, "c", 1, {})], 3 * MILLISECOND)
    values: dict[str, dict[tuple[str, ...], float]] = {}
    put(values, "distced_events_total", 7)
    put(values, "distced_received_bytes_total", 100, 'mqtt://[::1]:1883 "\\\n')
    return MetricsReading("node", name, at, connected, values, delays.read())


def test_exposition_is_that_of_all_snapshots() -> None:
    board = MetricsBoard()
    board.put(reading("n1"))
    board.put(reading("n2"))
    text, kind = exposition(board)
    assert kind.startswith("text/plain")
    families = {each.name: each for each in text_string_to_metric_families(text.decode())}
    events = families["distced_events"]
    assert events.type == "counter" and events.documentation
    assert {each.labels["node"]: each.value for each in events.samples} == {"n1": 7, "n2": 7}
    (received, _) = families["distced_received_bytes"].samples
    assert received.labels["home"] == 'mqtt://[::1]:1883 "\\\n'
    delays = {each.labels.get("le"): each.value for each in families["distced_composite_delay_seconds"].samples}
    assert delays["0.002"] == 0 and delays["0.005"] == 1 and delays["+Inf"] == 1
    assert "process_resident_memory_bytes" in families
    # OpenMetrics, which Prometheus asks for, has units.
    text, kind = exposition(board, "application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in kind and b"# UNIT distced_composite_delay_seconds seconds" in text


def test_snapshot_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        reading("n").at = 1.0  # type: ignore[misc]


def test_families_without_samples_are_left_out() -> None:
    assert list(collected([])) == []
    assert {each.name for each in collected([reading("n")])} == {
        "distced_events", "distced_received_bytes", "distced_composite_delay_seconds",
    }  # fmt: skip
    assert all(each.help for each in METRICS)


def test_health_is_that_of_every_participant() -> None:
    board = MetricsBoard()
    assert board.problems(0.0) == ["no participant runs"]
    board.put(reading("n1", at=10.0))
    assert board.problems(10.0 + RECENT) == []
    assert board.problems(11.0 + RECENT) == [f"node n1: it has not run for {RECENT + 1:.0f} s"]
    board.put(reading("n2", at=10.0, connected=False))
    assert board.problems(10.0) == ["node n2: no connection to the server of the directory"]
    board.remove("node", "n2")
    assert board.problems(10.0) == []


def test_snapshots_are_due_once_a_second() -> None:
    board = MetricsBoard()
    assert board.is_due("node", "n", 0.0)
    board.put(reading("n", at=1.0))
    assert not board.is_due("node", "n", 1.0 + EVERY / 2) and board.is_due("node", "n", 1.0 + EVERY)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", MetricsAddress("127.0.0.1", 9464)),
        ("0", MetricsAddress("127.0.0.1", 0)),
        ("0.0.0.0:9464", MetricsAddress("0.0.0.0", 9464)),
        ("localhost:1", MetricsAddress("localhost", 1)),
        ("[::1]:9464", MetricsAddress("::1", 9464)),
    ],
)
def test_address_is_a_port_perhaps_with_a_host(text: str, address: MetricsAddress) -> None:
    assert parse_metrics_address(text) == address == metrics_address(text)
    assert parse_metrics_address(str(address)) == address


@pytest.mark.parametrize("text", ["x", "65536", "-1", ":9464", "host:", "::1:9464", "a b:1", "1.5", "²"])
def test_other_addresses_are_errors(text: str) -> None:
    with pytest.raises(DistcedError, match="not an address for metrics"):
        parse_metrics_address(text)


def test_processes_have_consecutive_ports() -> None:
    nodes, own = of_processes(MetricsAddress("127.0.0.1", 9464), ["a", "b"])
    assert nodes == {"a": "127.0.0.1:9464", "b": "127.0.0.1:9465"} and own.port == 9466
    nodes, own = of_processes(MetricsAddress("::1", 0), ["a", "b"])
    assert nodes == {"a": "[::1]:0", "b": "[::1]:0"} and own.port == 0
    assert with_free_port("10.0.0.1:9464") == "10.0.0.1:0" and with_free_port("") == "" and metrics_address("") is None
    with pytest.raises(DistcedError, match="no room for a port of each node"):
        of_processes(MetricsAddress("127.0.0.1", 65_534), ["a", "b"])


def test_metrics_without_the_library_are_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(DistcedError, match=r"distced\[metrics\]"):
        metrics_address("9464")
    assert metrics_address("") is None

"""`distced broker` as operators run it: metrics and health by HTTP, a log in JSON with the cause of each action."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra distced[metrics]")

from prometheus_client.parser import text_string_to_metric_families

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import Server
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

CODE = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture
def process(mosquitto: Server) -> Iterator[subprocess.Popen[str]]:
    command = [
        *(sys.executable, "-c", CODE, "broker", "--no-ray", "--server", mosquitto.url, "--name", "ops", "--nodes", "2"),
        *("--metrics", "0", "--log-format", "json", "--log-level", "info", "--checkpoints", "none"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def test_broker_has_metrics_for_all_nodes_and_a_log_with_causes(
    mosquitto: Server, process: subprocess.Popen[str], eventually: Eventually
) -> None:
    assert process.stderr is not None
    first: dict[str, Any] = json.loads(process.stderr.readline())
    assert first["event"] == "metrics served" and first["url"].startswith("http://127.0.0.1:")

    def samples(name: str) -> list[Any]:
        with urlopen(first["url"], timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return [each for family in families for each in family.samples if each.name == name]

    eventually(lambda: {each.labels["node"] for each in samples("distced_events_total")} == {"ops-1", "ops-2"})
    with urlopen(first["url"].replace("metrics", "healthz"), timeout=10) as answer:
        assert answer.read() == b"ok\n"
    with Client(mosquitto.url, name="ops-app") as client:
        client.wait_for_nodes(2)
        client.register(event_type("Ops", {"k": "number"}))
        detector = client.subscribe("[Ops] ; [Ops]").detector
        host = client.detectors[detector].node
        other = "ops-1" if host == "ops-2" else "ops-2"
        assert main(["move", detector, other, "--server", mosquitto.url]) == 0
        eventually(lambda: sum(each.value for each in samples("distced_migrations_ended_total")) == 1)
    process.send_signal(signal.SIGINT)
    log = [json.loads(line) for line in process.stderr if line.strip()]
    assert process.wait(20) == 0
    moved = [each for each in log if each["event"] == "detector moved"]
    assert [each["node"] for each in moved] == [host] and moved[0]["detector"] == detector
    assert all(
        each["cause"].startswith("#")
        for each in [*moved, *(each for each in log if each["event"] == "detector arrived")]
    )


@pytest.mark.ray
def test_nodes_as_actors_have_metrics_of_their_own(mosquitto: Server, eventually: Eventually) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra distced[ray]")
    from distced.brokers.ray.nodes import RayNodes

    location = NodeLocation(metrics="127.0.0.1:0", json_log=True, checkpoints="none")
    with RayNodes(mosquitto.url, {"actor-1": location, "actor-2": location}) as nodes:
        urls = nodes.metrics_urls()
        assert len(set(urls.values())) == 2

        def seen(url: str) -> set[str]:
            with urlopen(url, timeout=10) as answer:
                families = text_string_to_metric_families(answer.read().decode())
                return {
                    each.labels["node"]
                    for family in families
                    if family.name == "distced_events"
                    for each in family.samples
                }

        for name, url in urls.items():
            eventually(lambda name=name, url=url: seen(url) == {name})

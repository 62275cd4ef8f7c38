"""The verbs `nodes` and `detectors` on a real MQTT server, with nodes that have cut a pattern between them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distced.brokers.core.directory import Directory
from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.bus import Bus
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.event_types import event_type

pytestmark = pytest.mark.mqtt

PATTERN = "[A as x] ; [B where v >= x.v] ; ([C] & [A] ; [B]) by k within 1s -> Out(v = x.v)"
FULL = QualityOfService(decomposition="full")


class System:
    """Two nodes, and a client with a subscription to a pattern that is cut."""

    def __init__(self, url: str, client: Client, subscription: Subscription) -> None:
        self.url = url
        self.client = client
        self.subscription = subscription


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with (
        start_server("mosquitto") as server,
        LiveNode(server.url, "attic"),
        LiveNode(server.url, "cellar"),
        Client(server.url, name="app") as client,
    ):
        client.wait_for_nodes(2)
        client.register(*(event_type(name, {"k": "number", "v": "number"}) for name in "ABC"))
        client.source("s", ["A", "B", "C"], watermark=0)
        yield System(server.url, client, client.subscribe(PATTERN, quality=FULL))


@pytest.fixture
def printed(system: System, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a verb: its exit code, and what it has printed."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--server", system.url])
        return code, capsys.readouterr().out

    return run


def test_nodes_are_shown_and_looking_leaves_no_trace(system: System, printed: Callable[..., tuple[int, str]]) -> None:
    code, out = printed("nodes", "--json")
    assert code == 0
    document = json.loads(out)
    assert [each["node"] for each in document["nodes"]] == ["attic", "cellar"]
    hosted = {name for each in document["nodes"] for name in each["detectors"]}
    assert hosted == system.client.detectors.keys()
    assert document["totals"]["detectors"] == len(hosted) > 1
    assert (document["left_over"], document["unreadable"]) == ([], [])
    assert all(each["since"] <= document["at"] for each in document["nodes"])
    assert all(each["at"] == {"home": "", "site": None} for each in document["nodes"])

    code, out = printed("nodes")
    assert code == 0
    words = [line.split() for line in out.splitlines()]
    assert [line[0] for line in words] == ["node", "attic", "cellar", "2"]
    totals = [word for word in words[-1] if not word.endswith("/s")]
    if "waiting" in words[0]:
        # On a busy machine a message may wait.
        del totals[3]
    assert totals == ["2", "nodes", str(len(hosted)), "0", "0", "0", "0"]

    with LiveDirectory(system.url) as reading:
        clients, _ = reading.look(lambda directory: set(directory.clients))
    assert clients == {"app"}


def test_detectors_are_shown_with_their_parts(system: System, printed: Callable[..., tuple[int, str]]) -> None:
    code, out = printed("detectors", "--json")
    assert code == 0
    document = json.loads(out)
    reports = {each["id"]: each for each in document["detectors"]}
    assert reports.keys() == system.client.detectors.keys()
    whole = reports[system.subscription.detector]
    assert (whole["pattern"], whole["publishes"], whole["policy"]) == (PATTERN, "Out", "guaranteed")
    assert (whole["node"], whole["subscriptions"], whole["readers"]) == (system.subscription.node, 1, 0)
    assert (whole["at"], whole["replicas"], whole["distribution"]) == ({"home": "", "site": None}, [], "min-latency")
    assert whole["listening"] == [{"at": {"home": "", "site": None}, "connections": 1}]
    assert whole["expected"]["load"] >= 0
    assert whole["parts"]
    for part in whole["parts"]:
        # It serves the node of its reader, and nobody else.
        report = reports[part["id"]]
        assert (report["node"], report["subscriptions"], report["readers"]) == (part["node"], 1, 1)
        assert [each["id"] for each in report["part_of"]] == [whole["id"]]

    code, out = printed("detectors")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{whole['short']} on {whole['node']}, guaranteed, publishes Out, serves 1 subscription"
    assert lines[1].strip() == PATTERN
    for part in whole["parts"]:
        assert any(f"── {part['short']} on {part['node']}, guaranteed, serves 1" in line for line in lines)
    assert lines[-1].endswith("1 subscription of a client")


def test_detectors_are_shown_by_id_and_by_node(system: System, printed: Callable[..., tuple[int, str]]) -> None:
    known = system.client.detectors
    whole = system.subscription.detector
    part = known[whole].parts[0]
    code, out = printed("detectors", part[:10])
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["detector", part]
    assert any(line.split() == ["distribution", "min-latency"] for line in lines)
    assert lines[lines.index("is read by") + 1].startswith(whole[:6])

    for node in ("attic", "cellar"):
        there = {name for name, entry in known.items() if entry.node == node}
        code, out = printed("detectors", "--node", node, "--json")
        assert {each["id"] for each in json.loads(out)["detectors"]} == there
        assert code == (0 if there else 1)


WRONG = [
    (("detectors", "nonsense"), "no detector with this id prefix"),
    (("detectors", ""), "several detectors whose ids begin so"),
    (("detectors", "--node", "celar"), "no broker node of this name"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG)
def test_unknown_detector_or_node_is_an_error(
    printed: Callable[..., tuple[int, str]], arguments: tuple[str, ...], problem: str
) -> None:
    code, out = printed(*arguments, "--json")
    assert (code, json.loads(out)["problem"]) == (2, problem)


def test_nodes_at_several_sites(
    start_mosquitto: Callable[..., Server], capsys: pytest.CaptureFixture[str], eventually: Callable[..., None]
) -> None:
    here, there = start_mosquitto(), start_mosquitto()
    with (
        LiveNode(here.url, "cellar", capacity=1000.0),
        LiveNode(here.url, "attic", home=there.url),
        Client(here.url, name="app", home=there.url) as client,
    ):
        client.wait_for_nodes(2)
        client.register(event_type("A", {"k": "number"}))
        client.source("s", ["A"], watermark=0)
        found = client.subscribe("[A] ; [A]", quality=QualityOfService(distribution="max-reliability"))
        eventually(lambda: len(client.detectors[found.detector].replicas) == 1)
        with LiveDirectory(here.url) as reading:
            homes, _ = reading.look(lambda directory: {name: each.home for name, each in directory.nodes.items()})

        def printed(*arguments: str) -> str:
            # Without what the nodes have logged before.
            capsys.readouterr()
            assert main([*arguments, "--server", here.url]) == 0
            return capsys.readouterr().out

        attic, cellar = json.loads(printed("nodes", "--json"))["nodes"]
        assert (attic["at"]["home"], cellar["at"]["home"]) == (homes["attic"], "")
        assert (attic["capacity"], cellar["capacity"]) == (None, 1000.0)
        assert sorted([*attic["detectors"], *attic["replicas"]]) == [found.detector]
        assert sorted([*cellar["detectors"], *cellar["replicas"]]) == [found.detector]
        lines = printed("nodes").splitlines()
        assert lines[0].split()[:2] == ["node", "site"]
        assert [line.split()[1] for line in lines[1:3]] == [f"127.0.0.1:{there.port}", "directory"]

        report = json.loads(printed("detectors", found.detector, "--json"))["detectors"][0]
        assert report["distribution"] == "max-reliability"
        assert {report["at"]["home"], report["replicas"][0]["at"]["home"]} == {"", homes["attic"]}
        assert {report["node"], report["replicas"][0]["node"]} == {"attic", "cellar"}


def test_server_without_nodes_shows_none(mosquitto: Server, capsys: pytest.CaptureFixture[str]) -> None:
    # The tests that share this server have roots of their own.
    assert main(["nodes", "--server", mosquitto.url]) == 1
    assert "no broker nodes: start one with `distced broker`" in capsys.readouterr().out
    assert main(["detectors", "--server", mosquitto.url]) == 1
    assert "no detectors" in capsys.readouterr().out


@pytest.mark.slow
def test_absent_server_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "--server", "mqtt://127.0.0.1:9"]) == 2
    assert "nothing listens at 127.0.0.1:9" in capsys.readouterr().err


def test_watching_shows_changes_until_an_interrupt(system: System) -> None:
    code = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
    arguments = ["detectors", "--watch", "--json", "--server", system.url]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    given_up = threading.Timer(30, process.kill)
    given_up.start()
    try:
        assert process.stdout is not None

        def wait_for(patterns: set[str]) -> None:
            shown: list[dict[str, Any]] = []
            assert process.stdout is not None
            for line in process.stdout:
                shown = json.loads(line)["detectors"]
                if {each["pattern"] for each in shown if each["subscriptions"] > each["readers"]} == patterns:
                    return
            pytest.fail(f"it has ended with {shown}")

        wait_for({PATTERN})
        another = system.client.subscribe("[A] ; [C] -> Another()")
        wait_for({PATTERN, "[A] ; [C] -> Another()"})
        system.client.unsubscribe(another)
        wait_for({PATTERN})
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        given_up.cancel()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("kind", ["mosquitto", "amqtt"])
def test_malformed_entry_is_shown(
    kind: str, request: pytest.FixtureRequest, root: str, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    server: Server = request.getfixturevalue(kind)
    topic = f"{root}/d/node/bad"
    with Bus(server.url) as bus:
        bus.wait_connected()
        bus.publish(f"{root}/d/node/good", b'{"since": 1}', qos=1, retain=True)
        bus.publish(topic, b"{", qos=1, retain=True)
        bus.flush()
        with LiveDirectory(server.url, root=root) as reading:
            nodes, state = reading.look(names)
            assert nodes == {"good"}
            assert len(state.unreadable) == 1
            assert f"at {topic}" in state.unreadable[0]
            bus.publish(topic, b'{"since": 2}', qos=1, retain=True)
            eventually(lambda: reading.look(names)[0] == {"good", "bad"})
            assert not reading.look(names)[1].unreadable


def test_directory_is_read_again_after_a_lost_connection(
    start_mosquitto: Callable[..., Server], eventually: Callable[[Callable[[], bool]], None]
) -> None:
    server = start_mosquitto()
    with Bus(server.url) as bus:
        bus.wait_connected()
        bus.publish("ced/d/node/old", b'{"since": 1}', qos=1, retain=True)
        bus.flush()
    with LiveDirectory(server.url) as reading:
        server.stop()
        eventually(lambda: bool(reading.look(names)[1].lost))
        assert reading.look(names)[0] == {"old"}
        # It comes back without a memory.
        start_mosquitto(port=server.port)
        eventually(lambda: not reading.look(names)[1].lost)
        assert reading.look(names)[0] == set()


def names(directory: Directory) -> set[str]:
    """The nodes that a directory knows."""
    return set(directory.nodes)

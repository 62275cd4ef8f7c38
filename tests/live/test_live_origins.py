"""Subscriptions that begin with recorded events, on a real MQTT server with a recorder's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.brokers.live.mqtt_server import Server, start_server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.recorder import LiveRecorder
from distced.brokers.node import origins
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND

pytestmark = pytest.mark.mqtt

A = event_type("A", {"k": "number"})
Eventually = Callable[[Callable[[], bool]], None]
PAIRS = "[A as a] [A as b where k == a.k + 1] -> Next(k = b.k)"


@pytest.fixture
def client(mosquitto: Server, root: str) -> Iterator[Client]:
    with Client(mosquitto.url, name=f"{root}-app", root=root) as client:
        client.register(A)
        yield client


def test_recorded_events_come_first_and_live_ones_behind_them(
    mosquitto: Server,
    root: str,
    client: Client,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(origins, "CLOCKS", SECOND // 2)
    history = tmp_path / "history"
    with LiveRecorder(mosquitto.url, history, "r", types=["A"], root=root, flush_every=SECOND // 10) as recorder:
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"])
        for k in range(5_000):
            source.publish(source.create("A", client.clock.now(), k=k))
        source.heartbeat(client.clock.now())
        eventually(lambda: recorder.status()["written"] == 5_000)
        with LiveNode(mosquitto.url, f"{root}-n", root=root, history=history) as node:
            client.wait_for_nodes(1, 10)
            with pytest.raises(SubscriptionError, match="the recording begins later"):
                client.subscribe(PAIRS, quality=QualityOfService(since="-1d"))
            subscription = client.subscribe(PAIRS, quality=QualityOfService(since="beginning"))
            found = [subscription.get(10.0) for _ in range(4_000)]
            for k in range(5_000, 5_100):
                source.publish(source.create("A", client.clock.now(), k=k))
            source.heartbeat(client.clock.now())
            found += [subscription.get(10.0) for _ in range(1_099)]
            assert [event and event.attributes["k"] for event in found] == list(range(1, 5_100))

            def live() -> bool:
                source.heartbeat(client.clock.now())
                return not node.node.hosting.origins.readings

            eventually(live)
            for k in range(5_100, 5_110):
                source.publish(source.create("A", client.clock.now(), k=k))
            source.heartbeat(client.clock.now())
            found = [subscription.get(10.0) for _ in range(10)]
            assert [event and event.attributes["k"] for event in found] == list(range(5_100, 5_110))
            assert subscription.statistics.losses == subscription.statistics.duplicates == 0


def test_verb_begins_with_recorded_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], eventually: Eventually
) -> None:
    history, file = tmp_path / "history", tmp_path / "chain.pattern"
    file.write_text("[A as a] -> First(k = a.k)\n[First] -> Second()\n", encoding="utf-8")
    with (
        start_server() as server,
        Client(server.url, name="app") as client,
        LiveRecorder(server.url, history, "r", types=["A"], flush_every=SECOND // 10) as recorder,
        LiveNode(server.url, "n", history=history),
    ):
        client.register(A)
        assert recorder.wait_announced(10)
        source = client.source("s", ["A"])
        for k in range(3):
            source.publish(source.create("A", client.clock.now(), k=k))
        source.heartbeat(client.clock.now())
        eventually(lambda: recorder.status()["written"] == 3)
        options = ["--server", server.url, "--count", "2", "--json"]
        assert main(["subscribe", PAIRS, "--since", "beginning", *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["attributes"] for line in lines] == [{"k": 1}, {"k": 2}]
        assert main(["subscribe", str(file), "--since", "-1h", *options]) == 2
        error = json.loads(capsys.readouterr().out)
        assert (error["given"], error["advice"][:25]) == ("First", "make what is read private")


def test_folder_without_a_history_is_refused(mosquitto: Server, root: str, tmp_path: Path) -> None:
    with pytest.raises(DistcedError, match="history"):
        LiveNode(mosquitto.url, f"{root}-n", root=root, history=tmp_path / "none")

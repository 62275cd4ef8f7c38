"""Durable subscriptions with a real server: applications that are killed and start again, and a node that is killed
meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.live.checkpoint_store import CheckpointStore
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import HOUR
from tests.support.node_process import NodeProcess
from tests.support.verbs import load_verbs

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

PATTERN = "[A as a] ; [B where k == a.k] -> Pair(k = a.k)"
QUALITY = QualityOfService(durable="pairs")

APPLICATION = """
import sys
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
url, root, pattern = sys.argv[1:]
with Client(url, root=root) as client:
    subscription = client.subscribe(pattern, quality=QualityOfService(durable="pairs"))
    print("ready", flush=True)
    for event in subscription:
        print(event.attributes["k"], flush=True)
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


class World:
    """Two nodes in processes, and a source of pairs."""

    def __init__(self, url: str, root: str, stack: ExitStack, store: Path) -> None:
        self.url, self.root, self.store = url, root, store
        self.nodes = {
            f"{root}-n{number}": stack.enter_context(NodeProcess(url, f"{root}-n{number}", root, store))
            for number in range(2)
        }
        self.client: Client = stack.enter_context(Client(url, name=f"{root}-p", root=root))
        self.client.register(*(event_type(name, {"k": "number"}) for name in "AB"))
        self.client.wait_for_nodes(2)
        self.source: Source = self.client.source("s", ["A", "B"], watermark=0)
        self.number = 0

    def publish(self, pairs: int) -> None:
        for _ in range(pairs):
            self.number += 1
            for place, kind in enumerate("AB"):
                at = 2 * self.number + place
                self.source.publish(self.source.create(kind, at, k=self.number), watermark=at)

    def wait_for_checkpoint(self, detector: str) -> None:
        while not CheckpointStore(str(self.store), self.root, "none", 0).load([detector])[detector]:
            time.sleep(0.05)

    def application(self) -> Client:
        return Client(self.url, root=self.root)


@pytest.fixture
def world(mosquitto: Server, root: str, stack: ExitStack, tmp_path: Path) -> World:
    return World(mosquitto.url, root, stack, tmp_path)


def test_application_resumes_behind_what_it_has_taken_although_its_node_was_killed(world: World) -> None:
    got: list[object] = []
    with world.application() as first:
        subscription = first.subscribe(PATTERN, quality=QUALITY)
        world.publish(30)
        while len(got) < 10 and (event := subscription.get(20.0)) is not None:
            got.append(event.attributes["k"])
        host = subscription.node
        world.wait_for_checkpoint(subscription.detector)
    world.publish(50)
    world.nodes[host].kill()
    world.publish(20)
    world.nodes[host].start_again()
    with world.application() as second:
        subscription = second.subscribe(PATTERN, quality=QUALITY)
        world.publish(10)
        while len(got) < 110 and (event := subscription.get(30.0)) is not None:
            got.append(event.attributes["k"])
        assert subscription.statistics.losses == 0
        subscription.close(forget=True)
    assert got == list(range(1, 111))


def test_killed_application_loses_nothing(world: World) -> None:
    times: Counter[int] = Counter()
    for life in range(3):
        arguments = [sys.executable, "-c", APPLICATION, world.url, world.root, PATTERN]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            world.publish(100)
            due = 100 * (life + 1)
            while (life == 2 and len(times) < due) or (life < 2 and len(times) < due - 50):
                times[int(process.stdout.readline())] += 1
        finally:
            process.kill()
            rest, _ = process.communicate()
        # What it had printed until then.
        times.update(map(int, rest.split()))
    assert sorted(times) == list(range(1, 301))
    assert max(times.values()) <= 3
    world.client.forget("pairs")


def test_verbs_show_resume_and_end_a_durable_subscription(
    start_mosquitto: Callable[..., Server], capsys: pytest.CaptureFixture[str]
) -> None:
    load_verbs()
    server = start_mosquitto()

    def run(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--server", server.url])
        return code, capsys.readouterr().out

    with LiveNode(server.url, "attic"), Client(server.url) as client:
        client.register(event_type("A", {"k": "number"}))
        source = client.source("s", ["A"], watermark=0)
        asked = ("subscribe", "[A as a] -> Each(k = a.k)", "--durable", "each", "--keep-for", "1h", "--json")
        assert run("subscriptions", "ls")[0] == 1
        assert run(*asked, "--timeout", "1ms")[0] == 1
        for number in range(1, 6):
            source.publish(source.create("A", number, k=number), watermark=number)
        code, out = run(*asked, "--count", "2", "--timeout", "20s")
        assert code == 0 and [json.loads(line)["attributes"]["k"] for line in out.splitlines()] == [1, 2]
        shown: dict[str, Any] = {}
        while not shown.get("events"):
            code, out = run("subscriptions", "ls", "--json")
            (shown,) = json.loads(out)["subscriptions"]
        # Of a message that is taken in part all are kept.
        assert 3 <= shown["events"] <= 5
        assert (shown["name"], shown["node"], shown["keep_for"]) == ("each", "attic", HOUR) and shown["away"]
        assert "away for" in run("subscriptions", "ls")[1]
        code, out = run(*asked, "--count", "3", "--timeout", "20s")
        assert [json.loads(line)["attributes"]["k"] for line in out.splitlines()] == [3, 4, 5]
        assert run("subscriptions", "rm", "other")[0] == 2
        assert run("subscriptions", "rm", "each")[0] == 0
        assert run("subscriptions", "ls")[0] == 1

"""`distced drill --live`: trees of composite events that nodes detect."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import structlog

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.detectors.batch_run.drill_down import id_text
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client, Source
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent
from tests.support.verbs import load_verbs

pytestmark = pytest.mark.mqtt

PAIR = "[DrillA as a] ; [DrillB where k == a.k] -> DrillPair(k = a.k)"
THREE = "[DrillPair as p] ; [DrillC where k == p.k] -> DrillThree(k = p.k)"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    load_verbs()
    yield
    structlog.reset_defaults()


def in_background(source: Source, node: LiveNode, subscriptions: int, *names: str) -> None:
    """Publish one event of each type as soon as a node serves this number of subscriptions."""

    def publish() -> None:
        while sum(len(each.ready_subscriptions()) for each in list(node.node.hosted.values())) < subscriptions:
            time.sleep(0.02)
        for at, name in enumerate(names, 10):
            source.publish(source.create(name, at, k=1), watermark=at)
        source.heartbeat(100)

    Thread(target=publish, daemon=True).start()


def drilled(capsys: pytest.CaptureFixture[str], server: Server, *arguments: str, code: int) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["drill", *arguments, "--live", "--server", server.url, "--timeout", "30s"]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_composite_events_are_drilled_down_as_they_are_detected(
    mosquitto: Server, root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "three.pattern"
    file.write_text(f"{PAIR}\n{THREE}\n")
    node = LiveNode(mosquitto.url, f"{root}-n0")
    node.start()
    try:
        with Client(mosquitto.url, name=f"{root}-app") as client:
            client.wait_for_nodes(1)
            client.register(*(event_type(f"Drill{each}", {"k": "number"}) for each in "ABC"))
            source = client.source(f"{root}-s", ["DrillA", "DrillB", "DrillC"], watermark=0)

            # All patterns of a file, each with its constituents.
            in_background(source, node, 2, "DrillA", "DrillB", "DrillC")
            out, _ = drilled(capsys, mosquitto, "--pattern", str(file), "--count", "2", "--json", code=0)
            trees = [[each["type"] for each in json.loads(line)["events"]] for line in out.splitlines()]
            pair_tree = ["DrillPair", "DrillA", "DrillB"]
            assert sorted(trees) == [pair_tree, ["DrillThree", *pair_tree, "DrillC"]]
            for each in "ABC":
                client.unregister(f"Drill{each}")
    finally:
        node.stop()


def test_publishers_that_come_later_are_followed_and_losses_shown(
    mosquitto: Server, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = LiveNode(mosquitto.url, f"{root}-n0")
    node.start()
    try:
        with Client(mosquitto.url, name=f"{root}-app") as client, Client(mosquitto.url, name=f"{root}-late") as late:
            client.wait_for_nodes(1)
            client.register(*(event_type(f"Drill{each}", {"k": "number"}) for each in "ABC"))
            source = client.source(f"{root}-s", ["DrillA", "DrillB", "DrillC"], watermark=0)
            best_effort = QualityOfService(detection="best-effort")
            client.register(event_type("DrillPair", {"k": "number"}), awaited={"DrillPair"})
            three = client.subscribe(THREE, quality=best_effort)

            def publish() -> None:
                def ready(pattern: str) -> int:
                    """Subscriptions that are served."""
                    hosted = list(node.node.hosted.values())
                    return sum(len(each.ready_subscriptions()) for each in hosted if each.publishes == pattern)

                while ready("DrillThree") < 2:
                    time.sleep(0.02)
                late.subscribe(PAIR, quality=best_effort)
                while ready("DrillPair") < 2:
                    time.sleep(0.02)
                # Pairs that are late: before a tree, and after it.
                source.publish(source.create("DrillC", 30, k=1))
                for at, losses in ((20, 1), (25, 2)):
                    source.publish(source.create("DrillA", at, k=1))
                    source.publish(source.create("DrillB", at + 1, k=1))
                    while three.statistics.losses < losses:
                        time.sleep(0.02)
                    source.publish(source.create("DrillC", 30 + at, k=1))
                    three.get(20.0)

            Thread(target=publish, daemon=True).start()
            given = ["--pattern", "DrillThree", "--detection", "best-effort", "--count", "2", "--json"]
            out, err = drilled(capsys, mosquitto, *given, code=0)
            first, second = map(json.loads, out.splitlines())
            types = ["DrillThree", "DrillPair", "DrillA", "DrillB", "DrillC"]
            assert [each["type"] for each in first["events"]] == [each["type"] for each in second["events"]] == types
            assert "and to what they read: DrillPair" in err
            losses = [[(loss["since"], loss["until"]) for loss in each["losses"]] for each in (first, second)]
            assert losses == [[(20, 21)], [(25, 26)]]
            assert f"{first['text']} may be wrong: events lost from" in err
            assert "0 constituents not received, 2 losses" in err
            for each in "ABC":
                client.unregister(f"Drill{each}")
    finally:
        node.stop()


def test_constituents_of_a_composite_event_from_before_are_counted(
    mosquitto: Server, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = LiveNode(mosquitto.url, f"{root}-n0")
    node.start()
    try:
        with Client(mosquitto.url, name=f"{root}-app") as client:
            client.wait_for_nodes(1)
            client.register(*(event_type(f"Drill{each}", {"k": "number"}) for each in "ABC"))
            source = client.source(f"{root}-s", ["DrillA", "DrillB", "DrillC"], watermark=0)
            pair = client.subscribe(PAIR)
            three = client.subscribe(THREE)
            made = [source.create(name, at, k=1) for at, name in enumerate(("DrillA", "DrillB"), 1)]
            source.publish(*made, watermark=2)
            found = pair.get(timeout=20.0)
            assert isinstance(found, CompositeEvent)

            # By the type; what it reads of another application is subscribed to by itself.
            in_background(source, node, 4, "DrillC", "DrillA")
            given = [three.detector[:8], "--pattern", "DrillThree", "--wait", "50ms"]
            out, err = drilled(capsys, mosquitto, *given, code=1)
            lines = out.splitlines()
            assert [line.split()[-1] for line in lines if "DrillPair" in line] == [id_text(found.id)]
            missing = [f"{id_text(each.id)}  not received" for each in made]
            assert [line[-len(missing[0]) :] for line in lines[2:4]] == missing
            assert "DrillC" in lines[4] and len(lines) == 5
            assert "and to what they read: DrillPair" in err
            assert "1 composite event, 2 constituents not received" in err
            assert main(["drill", "--live", "--pattern", "DrillA", "--server", mosquitto.url]) == 2
            assert "a type that no detector publishes: DrillA" in capsys.readouterr().err
            for each in "ABC":
                client.unregister(f"Drill{each}")
    finally:
        node.stop()

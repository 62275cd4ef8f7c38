"""`distced story` on a real MQTT server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from distced.brokers.live.mqtt_server import find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type

pytestmark = pytest.mark.mqtt


@pytest.fixture
def url() -> Iterator[str]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with start_server("mosquitto") as server, LiveNode(server.url, "attic"), LiveNode(server.url, "cellar"):
        yield server.url


def test_story_of_a_detector_that_has_moved(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(url, name="app") as client:
        client.wait_for_nodes(2)
        client.register(event_type("A", {}))
        client.source("s", ["A"], watermark=0)
        subscription = client.subscribe("[A]")
        target = "cellar" if subscription.node == "attic" else "attic"
        assert main(["move", subscription.detector, target, "--server", url]) == 0
        capsys.readouterr()
        assert main(["story", subscription.detector[:8], "--server", url, "--json"]) == 0
        printed = capsys.readouterr().out
        # The nodes of this process log to the same place.
        report, _ = json.JSONDecoder().raw_decode(printed[printed.index('{\n  "stories"') :])
        assert report["silent"] == []
        lines = report["stories"][f"detector {subscription.detector}"]
        assert {each["node"] for each in lines} == {"attic", "cellar"}
        assert [each["at"] for each in lines] == sorted(each["at"] for each in lines)
        happened = " ".join(each["happened"] for each in lines)
        assert "detector created" in happened and "detector arrived" in happened and "detector moved" in happened
        for id_, word in ((subscription.id, "client listens"), ("s", "acknowledged")):
            assert main(["story", id_, "--server", url]) == 0
            assert word in capsys.readouterr().out
        assert main(["story", "nothing-of-this-name", "--server", url]) == 2
        problem = capsys.readouterr().err
        assert subscription.detector in problem and "no node knows" in problem

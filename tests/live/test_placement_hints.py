"""Hints on a real server: put into the directory, and gone by when a detector is placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.brokers.cli.broker import BrokerOptions, host
from distced.brokers.cli.node_locations import publish_hints
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.observers import LiveDirectory
from distced.detectors.compiler import compile_pattern
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.directory_entries import Foreseen, HintEntry, OutputTraffic
from distced.policies.distribution.hint_files import read_hint_file, write_hints

pytestmark = pytest.mark.mqtt

PATTERN = "[Hinted] ; [Hinted where x > 3] within 5s"


def test_hints_in_the_directory(mosquitto: Server, tmp_path: Path) -> None:
    name = compile_pattern(PATTERN).automaton.canonical_id
    foreseen = Foreseen(2.0, OutputTraffic(100.0, 1.0), OutputTraffic(300.0, 4.0), OutputTraffic(500.0, 4.0), {"": 7.0})
    hints = {name: HintEntry(("second",), (), foreseen)}
    write_hints(tmp_path / "hints.json", "bandwidth", {name: PATTERN}, hints)
    publish_hints(mosquitto.url, read_hint_file(tmp_path / "hints.json"))
    with LiveDirectory(mosquitto.url) as reading:
        found, _ = reading.look(lambda directory: directory.hints.get(name))
    assert found == hints[name]
    with (
        LiveNode(mosquitto.url, "first"),
        LiveNode(mosquitto.url, "second"),
        LiveNode(mosquitto.url, "third"),
        Client(mosquitto.url) as client,
    ):
        client.wait_for_nodes(3)
        client.register(event_type("Hinted", {"x": "number"}))
        assert client.subscribe(PATTERN).node == "second"


def test_malformed_hint_file_is_refused_before_the_start(tmp_path: Path) -> None:
    wanted = BrokerOptions(name="n", ray=False, hints=tmp_path / "none.json")
    with pytest.raises(DistcedError, match="cannot read the hints"):
        host(wanted, None)

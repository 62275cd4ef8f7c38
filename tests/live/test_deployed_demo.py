"""Demonstration by participants of a deployment, at a real mosquitto with the users and access list of docker/."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the extra init is not installed")

from distced.brokers.deployment.deployment_file import read_deployment
from distced.brokers.live.mqtt_server import find_mosquitto
from distced.brokers.live.node import LiveNode
from distced.middleware.model.errors import BusError
from distced.simulations.demo.cli import demo
from tests.support.deployed_site import DeployedSite
from tests.support.docker_engine import FOLDER

pytestmark = [pytest.mark.mqtt, pytest.mark.slow]

OFFICES = ("office-cellar", "office-attic", "office-street")


@pytest.fixture(scope="module")
def site() -> Iterator[DeployedSite]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    with tempfile.TemporaryDirectory(prefix="distced-test-") as name:
        made = DeployedSite(Path(name), read_deployment(FOLDER / "deployment.toml").participants)
        made.apply()
        made.start()
        yield made
        made.stop()


def configuration(site: DeployedSite, name: str) -> Path:
    return site.folder / "participants" / name / "distced.toml"


def test_participants_of_the_deployment_run_the_demo(site: DeployedSite, capsys: pytest.CaptureFixture[str]) -> None:
    files = [configuration(site, name) for name in OFFICES]
    with LiveNode(site.url("cellar"), "cellar-1"), LiveNode(site.url("street"), "street-1"):
        assert demo(speed=600, minutes=30, nodes=0, configurations=files, as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["check"]["holds"]
    assert figures["check"]["same"] > 20
    assert set(figures["nodes"]) == {"cellar-1", "street-1"}


def test_configurations_that_make_no_sense_are_refused(site: DeployedSite, tmp_path: Path) -> None:
    office = configuration(site, OFFICES[0])
    for given, problem in {
        "two of one name": ({"configurations": [office, office]}, "two configurations of one name: office-cellar"),
        "a server beside": ({"configurations": [office], "server": "mqtt://127.0.0.1"}, "--config beside --server"),
        "a home beside": ({"configurations": [office], "homes": ["mqtt://127.0.0.1"]}, "--config beside --server"),
        "nodes to start": ({"configurations": [office], "nodes": 3}, "broker nodes to start"),
    }.values():
        with pytest.raises(BusError, match=problem):
            demo(**({"nodes": 0} | given))  # type: ignore[arg-type]
    for text, problem in {"": "without a server", 'server = "mqtt://127.0.0.1"': "without a name"}.items():
        file = tmp_path / "distced.toml"
        file.write_text(text)
        with pytest.raises(BusError, match=problem):
            demo(nodes=0, configurations=[file])

"""The multi-site deployment of docker/: its compose file, and its application on servers of this machine."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from distced.brokers.cli.broker import broker as broker_verb
from distced.brokers.live.mqtt_server import find_mosquitto
from distced.brokers.ray.local_sites import LocalSites
from distced.brokers.ray.nodes import LocalNodes

FOLDER = Path(__file__).parents[2] / "docker"
SITES = ("cellar", "attic", "street")


@pytest.fixture
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; Ray brings it")
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return services


def test_each_site_has_a_server_and_a_node(services: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(services) == {f"server-{site}" for site in SITES} | {f"node-{site}" for site in SITES} | {"application"}
    wanted: list[Any] = []
    monkeypatch.setattr("distced.brokers.cli.broker.host", lambda given, log: wanted.append(given) or 0)
    monkeypatch.setattr("distced.brokers.cli.broker.configure_logging", lambda **_: None)
    app = _application(broker_verb)
    for site in SITES:
        # What the container is told is what the verb understands.
        verb, *arguments = shlex.split(services[f"node-{site}"]["command"])
        assert verb == "broker"
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert wanted[-1].node_names == [site]
        assert wanted[-1].server == "mqtt://server-cellar"
        assert (wanted[-1].home or "") == ("" if site == "cellar" else f"mqtt://server-{site}")
    for name, service in services.items():
        for waited_for in service.get("depends_on", {}):
            assert "healthcheck" in services[waited_for], name
        for volume in service.get("volumes", []):
            assert (FOLDER / volume.split(":")[0]).exists()


def _application(verb: Any) -> Any:
    import typer

    app = typer.Typer()
    app.command()(verb)
    return app


@pytest.mark.mqtt
@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin")
def test_application_runs_in_containers() -> None:
    with LocalSites(SITES, ray=False) as sites:
        nodes = {site: sites.location(site) for site in SITES}
        with LocalNodes(sites.url, nodes):
            command = [sys.executable, FOLDER / "application.py", sites.url, sites.servers["street"].url]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            try:
                assert [process.stdout.readline() for _ in range(3)] == [
                    "detected by street\n",
                    "Entered room 0\n",
                    "Entered room 1\n",
                ]
            finally:
                process.terminate()
                process.wait(10)


def test_docker_reads_the_compose_file() -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    compose = ["docker", "compose"]
    if subprocess.run([*compose, "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose here")
    report = subprocess.run(
        [*compose, "-f", str(FOLDER / "compose.yaml"), "config", "--services"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(report.stdout.split()) == 7

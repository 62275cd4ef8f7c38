"""The compose file: what it says fits the images, the topology and the verbs; read without an engine."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from distced.brokers.cli.broker import broker as broker_verb
from distced.brokers.deployment.deployment_file import read_deployment
from distced.brokers.deployment.folder import apply
from distced.middleware.model.server_address import server_name
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology
from distced.simulations.demo.feed import office_feed
from tests.support.docker_engine import FOLDER, run

SITES = ("cellar", "attic", "street")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; Ray brings it")
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return services


@pytest.fixture(scope="module")
def topology() -> Topology:
    return load_topology(FOLDER / "topology.toml")


def networks(service: dict[str, Any]) -> dict[str, list[str]]:
    """Names of a service beside its own, by network."""
    given = service.get("networks", [])
    return {name: given[name].get("aliases", []) if isinstance(given, dict) else [] for name in given}


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of the participants."""
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("deployment")
    apply(read_deployment(FOLDER / "deployment.toml"), folder, datetime.now(UTC))
    return folder / "participants"


def test_each_site_has_a_server_and_nodes(
    services: dict[str, Any], topology: Topology, access: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[Any] = []
    monkeypatch.setattr("distced.brokers.cli.broker.host", lambda given, log: wanted.append(given) or 0)
    monkeypatch.setattr("distced.brokers.cli.broker.configure_logging", lambda **_: None)
    monkeypatch.chdir(FOLDER)
    verb = typer.Typer()
    verb.command()(broker_verb)
    assert set(topology.sites) == set(SITES)
    for site in SITES:
        assert networks(services[f"mosquitto-{site}"]) == {site: [f"server-{site}"]}
        assert topology.sites[site].url == f"mqtts://server-{site}"
        service = services[f"nodes-{site}"]
        assert networks(service) == {site: [], "cluster": []}
        assert service["environment"]["SITE"] == site
        # The arguments are those of the verb; nodes.sh adds the rest.
        arguments = [
            each.removeprefix("/docker/").replace("/access", str(access / site)) for each in service["command"]
        ]
        done = CliRunner().invoke(verb, [*arguments, "--site", site, "--name", site])
        assert done.exit_code == 0, done.output
        assert server_name(wanted[-1].server) == "mqtts://server-cellar:8883"
        assert not wanted[-1].home
        assert set(wanted[-1].node_names) == {node.name for node in topology.nodes_at(site)}


def test_links_are_those_of_the_topology(services: dict[str, Any], topology: Topology) -> None:
    links = {name: service for name, service in services.items() if name.startswith("link-")}
    assert {frozenset(service["command"]) for service in links.values()} == {
        frozenset(link.between) for link in topology.links
    }
    for service in links.values():
        one, other = service["command"]
        assert networks(service) == {one: [f"server-{other}"], other: [f"server-{one}"]}


def test_what_is_waited_for_has_a_health_check(services: dict[str, Any]) -> None:
    for name, service in services.items():
        waited = service.get("depends_on", [])
        for other in waited:
            assert other in services, name
            # That of the MQTT server is in its image.
            if not other.startswith("mosquitto-") and isinstance(waited, dict):
                healthy = waited[other]["condition"] == "service_healthy"
                assert healthy == ("healthcheck" in services[other]), (name, other)


def test_each_party_has_its_own_files_alone(services: dict[str, Any], access: Path) -> None:
    made = {
        name for volume in services["init"]["volumes"] for name, where, *_ in [volume.split(":")] if where != "/docker"
    }
    handed: dict[str, set[str]] = {name: set() for name in made}
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source, where, *mode = volume.split(":")
            if source == ".":
                assert mode == ["ro"]
            elif name != "init" and source != "checkpoints":
                assert mode == ([] if where == "/server" else ["ro"]), volume
                handed[source].add(name)
    assert {each.name for each in access.iterdir()} == {
        name.removeprefix("access-") for name in made if name.startswith("access-")
    }
    # Ray's head has the token of its cluster from a site of it.
    assert handed.pop("access-cellar") == {"nodes-cellar", "ray-head"}
    assert handed.pop("deployment") == set()
    assert all(len(given) == 1 for given in handed.values()), handed


def test_publisher_is_allowed_the_sources_of_the_office() -> None:
    deployed = read_deployment(FOLDER / "deployment.toml").participants
    feed = office_feed(41, 1)
    for place, site in enumerate(SITES):
        office = deployed[f"office-{site}"]
        assert office.sources == tuple(feed.sources)[place::3]
        assert office.types == tuple(each.name for each in feed.types)


def test_nothing_is_reached_from_outside(services: dict[str, Any]) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; Ray brings it")
    text = (FOLDER / "compose.yaml").read_text()
    assert all(network == {"internal": True} for network in yaml.safe_load(text)["networks"].values())
    for name, service in services.items():
        assert not {"ports", "privileged", "cap_add"} & set(service), name
        assert service.get("network_mode", "none") == "none"
        # It hands files to the users of the others, and reaches no network.
        assert ("user" in service) == (name == "init")


def test_compose_tool_reads_the_file(services: dict[str, Any]) -> None:
    if shutil.which("docker") is None or run(FOLDER / "compose.sh", "version").returncode:
        pytest.skip("the Compose tool of docker is not installed")
    done = run(FOLDER / "compose.sh", "config", "--services")
    assert done.returncode == 0, done.stderr
    # Some versions leave out those of a profile.
    assert set(services) - {"tools"} <= set(done.stdout.split()) <= set(services)

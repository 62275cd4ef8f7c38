"""The verbs where there are several sites: `broker`, `publish` and `subscribe` with homes, sites and topologies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli.command import main
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
from distced.policies.topology.topology_file import parse_topology

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

TOPOLOGY = """
[sites.floor-1]
url = "{directory}"

[sites.floor-2]
url = "{site}"

[sites.street]

[nodes.attic]
site = "floor-2"
capacity = 20

[[links]]
between = ["floor-1", "floor-2"]
latency = "1ms"

[[links]]
between = ["floor-1", "street"]
latency = "1ms"
"""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def urls(start_mosquitto: Callable[..., Server]) -> tuple[str, str]:
    """The server of the directory, and that of another site."""
    return start_mosquitto().url, start_mosquitto().url


@pytest.fixture
def topology(urls: tuple[str, str], tmp_path: Path) -> Path:
    path = tmp_path / "building.toml"
    path.write_text(TOPOLOGY.format(directory=urls[0], site=urls[1].replace("mqtt://", "mqtt://ada:secret@")))
    return path


@contextmanager
def broker(*arguments: str) -> Iterator[dict[str, Any]]:
    """A broker in a process of its own; what it says when it is ready."""
    code = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
    environment = {name: value for name, value in os.environ.items() if name != "DISTCED_SERVER"}
    command = [sys.executable, "-c", code, "broker", "--no-ray", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            lines = (json.loads(line) for line in process.stdout if line.startswith("{"))
            yield next(line for line in lines if line["event"] == "ready")
        finally:
            process.terminate()
            process.stdout.read()
            process.wait(20)


def test_broker_publishes_the_topology_and_takes_its_location(
    urls: tuple[str, str], topology: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, site = urls
    server = ("--server", directory)
    with (
        broker(*server, "--name", "attic", "--topology", str(topology)) as first,
        # The topology is in the directory by now.
        broker(*server, "--name", "shed", "--site", "floor-2", "--capacity", "5") as second,
        broker(*server, "--name", "cellar", "--site", "floor-1") as third,
        Client(directory) as client,
    ):
        assert (first["homes"], second["homes"]) == ({"attic": site}, {"shed": site})
        assert third["homes"] == {"cellar": ""}
        locations = {name: (entry.home, entry.capacity) for name, entry in client.nodes.items()}
        assert locations == {"attic": (site, 20.0), "shed": (site, 5.0), "cellar": ("", 0.0)}
        text = client._session.entries.topologies["overlay"].text
        assert "secret" not in text
        published = parse_topology(text)
        assert published.site_of_home(site).name == "floor-2"
        assert published.nodes["attic"].capacity == 20
        for more, problem in {
            ("--site", "flor-2"): "there is no site of this name: flor-2",
            ("--site", "street"): "a site whose server is not known: street",
        }.items():
            assert main(["broker", "--no-ray", *server, "--name", "x", *more]) == 2
            assert f"error: {problem}" in capsys.readouterr().err


def test_site_option_needs_a_topology(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", urls[0])
    assert main(["broker", "--no-ray", *server, "--site", "floor-1"]) == 2
    assert "error: there is no topology in the directory" in capsys.readouterr().err
    assert main(["broker", "--no-ray", *server, "--topology", "nowhere.toml"]) == 2
    assert "error: cannot read the topology: nowhere.toml" in capsys.readouterr().err


def test_publishing_and_subscribing_at_another_site(urls: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    directory, site = urls
    # Both nodes are there, and the subscriber is at the site of the second.
    with LiveNode(directory, "cellar"), LiveNode(directory, "attic", home=site), Client(directory) as client:
        client.wait_for_nodes(2)
        client.register(event_type("Motion", {"room": "string"}))
        published: list[int] = []

        def publish() -> None:
            # Time and again: the subscription comes when it comes.
            while not done.wait(0.3):
                published.append(main(["publish", "Motion", "room=hall", "--server", directory, "--home", site]))

        done = threading.Event()
        publishing = threading.Thread(target=publish)
        publishing.start()
        try:
            hints = ("--rate", "Motion=2", "--avoid", "cellar", "--policy", "min-latency", "--near", "attic")
            code = main(
                ["subscribe", "[Motion] -> Seen()", "--server", directory, *hints, "--first", "--timeout", "20s"]
            )
        finally:
            done.set()
            publishing.join()
    assert code == 0
    assert set(published) == {0}
    assert "Seen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--policy", "min-latnecy"], "no distribution policy of this name: min-latnecy"),
        (["--rate", "Motion=often"], "not a rate: Motion=often"),
        (["--selectivity", "-1"], "not a selectivity: -1.0"),
        (["--on", "a", "--avoid", "a"], "to avoid: a"),
        (["--home", "mqtt://127.0.0.1:9", "--near", "attic"], "both --home and --near"),
        (["--near", "attic"], "no broker node of this name: attic"),
        (["--home", "mqtt://127.0.0.1:9"], "nothing listens at 127.0.0.1:9"),
    ],
)
def test_impossible_options_are_refused(
    mosquitto: Server, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["subscribe", "[A]", "--server", mosquitto.url, *options]) == 2
    assert problem in capsys.readouterr().err

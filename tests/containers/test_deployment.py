"""Three sites in containers, with links between them: composite events are those of one process, whatever fails, and
whoever may not is refused.

The longest delay of a composite event is that of the recovery; the summary of the tests has it for each fault.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.timestamps import HOUR
from distced.simulations.demo.feed import office_feed
from distced.simulations.demo.session import questions
from tests.support.docker_engine import RECOVERIES, Deployment, Engine, run

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

SITES = ("cellar", "attic", "street")
DEMO = ("demo", "--nodes", "0", "--json", *(p for s in SITES for p in ("--config", f"/office/{s}/distced.toml")))

EXPIRED = """
from datetime import UTC, datetime, timedelta
from pathlib import Path
from distced.brokers.deployment.certificates import CertificatePair, issue
authority = CertificatePair(*(Path("/deployment/authority", name).read_bytes() for name in ("ca.pem", "ca.key")))
made = issue(authority, "server-attic", ["server-attic"], datetime.now(UTC) - timedelta(days=10), days=1)
for name, content in (("server.pem", made.certificate), ("server.key", made.key)):
    Path("/servers/attic", name).write_bytes(content)
"""
"""Puts a certificate that has expired into the folder of a server."""

KILL = """
import os, signal, sys
from pathlib import Path
for process in Path("/proc").glob("[0-9]*"):
    if sys.argv[1].encode() in (process / "cmdline").read_bytes().partition(b"\\0")[0]:
        os.kill(int(process.name), signal.SIGKILL)
        print("killed")
        break
"""
"""Kills the first process of a name, without warning."""


@cache
def in_one_process() -> int:
    """Number of composite events of the demonstration, by one engine over all events."""
    feed = office_feed(41, 60)
    asked, _ = questions(feed.types, [])
    engine = StepwiseEngine([each.compiled for each in asked])
    steps = list(feed.steps)
    events = sorted((event for step in steps for event in step.events), key=lambda event: event.key)
    return len(engine.feed(events)) + len(engine.advance(steps[-1].now + HOUR))


def finished(engine: Engine, deployment: Deployment, service: str) -> int:
    """Exit code of a service that ends."""
    return int(engine("wait", deployment.container(service)))


def healthy(engine: Engine, deployment: Deployment, service: str) -> None:
    """Wait until a service has passed its check."""
    for _ in range(120):
        (described,) = json.loads(engine("inspect", deployment.container(service)))
        if described["State"].get("Health", {}).get("Status") == "healthy":
            return
        time.sleep(1)
    pytest.fail(f"{service} is not healthy: {engine.logs(deployment.container(service))[-2000:]}")


@pytest.fixture
def running(deployment: Deployment, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Context of a demonstration, at the end of which its composite events are compared; it ends with the delay."""

    @contextmanager
    def demonstration(speed: int = 240) -> Iterator[None]:
        # The office starts at one instant: detectors that are beyond it, of subscribers, would find it late.
        deployment.stop_services("subscriber-attic", "subscriber-street")
        process = deployment.run("publisher", *DEMO, "--speed", str(speed))
        time.sleep(6)
        yield
        out, errors = process.communicate(timeout=600)
        assert out, errors
        figures: dict[str, Any] = json.loads(out[out.index("{") :])
        expected = in_one_process()
        assert expected > 200
        assert figures.get("check", figures) == {
            "holds": True,
            "same": expected,
            "only_live": 0,
            "only_run": 0,
            "complete": True,
        }
        request.config.stash[RECOVERIES][request.node.name] = figures["delay_ms"]["most"] / 1000

    return demonstration


def shell(deployment: Deployment, service: str, command: str) -> tuple[int, str]:
    """Exit code and output of a shell command in a container of a service."""
    process = deployment.run(service, "-c", command, entrypoint="sh")
    out, errors = process.communicate(timeout=120)
    return process.returncode, out + errors


def test_three_sites_detect_what_one_process_does(deployment: Deployment, engine: Engine) -> None:
    assert finished(engine, deployment, "publisher") == 0
    said = engine("logs", deployment.container("publisher"))
    assert f"live = run: the same {in_one_process()} composite events" in said
    assert all(f"{site}-{number}" in said for site in SITES for number in (1, 2))
    for site, type_ in (("attic", "Draught"), ("street", "Cold")):
        assert type_ in engine("logs", deployment.container(f"subscriber-{site}"))


@pytest.mark.slow
def test_server_of_another_site_is_reached_by_the_link(deployment: Deployment, engine: Engine) -> None:
    def addresses(service: str) -> dict[str, str]:
        """Address of a service in the network of each site."""
        (described,) = json.loads(engine("inspect", deployment.container(service)))
        networks = described["NetworkSettings"]["Networks"]
        return {name.rpartition("_")[2]: network["IPAddress"] for name, network in networks.items()}

    for site in SITES:
        assert set(addresses(f"nodes-{site}")) == {site, "cluster"}
        for other in SITES:
            code = f"import socket; print(socket.gethostbyname('server-{other}'))"
            found = deployment.exec_in_container(["python", "-c", code], f"nodes-{site}")[0].strip()
            one, two = sorted((site, other), key=SITES.index)
            assert found == addresses(f"mosquitto-{site}" if site == other else f"link-{one}-{two}")[site]


@pytest.mark.slow
def test_site_that_is_cut_off_loses_nothing(
    deployment: Deployment, engine: Engine, running: Callable[..., Any]
) -> None:
    links = [deployment.container(f"link-{other}-street") for other in ("cellar", "attic")]
    with running():
        engine("kill", *links)
        time.sleep(2)
        engine("start", *links)


@pytest.mark.slow
def test_site_whose_nodes_are_killed_loses_nothing(
    deployment: Deployment, engine: Engine, running: Callable[..., Any]
) -> None:
    nodes = deployment.container("nodes-cellar")
    with running():
        engine("kill", nodes)
        time.sleep(2)
        engine("start", nodes)
    healthy(engine, deployment, "nodes-cellar")


@pytest.mark.slow
def test_node_that_is_killed_is_started_by_the_cluster(
    deployment: Deployment, engine: Engine, running: Callable[..., Any]
) -> None:
    with running():
        before = time.time()
        assert "killed" in deployment.exec_in_container(["python", "-c", KILL, "ray::NodeActor"], "nodes-cellar")[0]
    healthy(engine, deployment, "nodes-cellar")
    said = engine.logs(deployment.container("nodes-attic"), before)
    assert "node left" in said, said[-2000:]


@pytest.mark.slow
def test_container_whose_ray_node_has_ended_starts_again(deployment: Deployment, engine: Engine) -> None:
    container = deployment.container("nodes-street")
    before = time.time()
    assert "killed" in deployment.exec_in_container(["python", "-c", KILL, "/raylet/raylet"], "nodes-street")[0]
    while "nodes lost" not in engine.logs(container, before):
        assert time.time() < before + 150, engine.logs(container, before)[-2000:]
        time.sleep(2)
    healthy(engine, deployment, "nodes-street")
    (described,) = json.loads(engine("inspect", container))
    assert described["RestartCount"] == 1


@pytest.mark.slow
def test_server_that_is_killed_loses_nothing(
    deployment: Deployment, engine: Engine, running: Callable[..., Any]
) -> None:
    server = deployment.container("mosquitto-attic")
    with running():
        engine("kill", server)
        time.sleep(1)
        engine("start", server)


@pytest.mark.slow
def test_nodes_are_upgraded_one_site_after_the_other(
    deployment: Deployment, engine: Engine, running: Callable[..., Any], images: tuple[str, str]
) -> None:
    """The image is another one with the same content; detectors move away from its nodes before they are stopped."""
    with running(speed=20):
        for site in SITES:
            for node in (f"{site}-1", f"{site}-2"):
                out, errors = deployment.run("tools", "drain", node).communicate(timeout=120)
                assert "is drained" in out, out + errors
            deployment.upgrade(f"nodes-{site}")
            healthy(engine, deployment, f"nodes-{site}")
    for site in SITES:
        (described,) = json.loads(engine("inspect", deployment.container(f"nodes-{site}")))
        assert described["Config"]["Image"] == f"{images[0]}-next"


PROBE = """
import http.client, json, sys
found = {}
for place in sys.argv[1:]:
    connection = http.client.HTTPConnection(*place.rsplit(":", 1), timeout=3)
    try:
        connection.request("GET", "/metrics")
        found[place] = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        found[place] = type(error).__name__
print(json.dumps(found))
"""
"""Requests a page from each place (address:port), and prints the answers."""

ANONYMOUS = """
import socket, ssl, sys
context = ssl._create_unverified_context()
with context.wrap_socket(socket.create_connection((sys.argv[1], 8883), 3)) as server:
    server.sendall(bytes.fromhex("101000044d5154540402003c000473747267"))
    print(server.recv(100).hex())
"""
"""Connects without a user, and prints the answer."""

LISTENING = "cat /proc/net/tcp /proc/net/tcp6"


def listening(engine: Engine, container: str) -> set[int]:
    """Ports of a container that are reached from outside."""
    rows = [line.split() for line in engine("exec", container, "sh", "-c", LISTENING).splitlines()]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    # The embedded resolver of the engine is on loopback.
    return {int(port, 16) for address, port in local if not address.endswith("7F")}


@pytest.mark.slow
def test_stranger_on_the_networks_learns_nothing(
    deployment: Deployment, engine: Engine, images: tuple[str, str]
) -> None:
    """Port by port: each one of each container, from each network, without credentials."""
    places: dict[str, list[str]] = {}
    for service in ("ray-head", *(f"{kind}-{site}" for kind in ("nodes", "mosquitto") for site in SITES)):
        container = deployment.container(service)
        ports = listening(engine, container)
        assert ports if service == "ray-head" or service.startswith("nodes") else ports == {8883}
        (described,) = json.loads(engine("inspect", container))
        for name, network in described["NetworkSettings"]["Networks"].items():
            places.setdefault(name, []).extend(f"{network['IPAddress']}:{port}" for port in sorted(ports))
    for link in ("cellar-attic", "cellar-street", "attic-street"):
        assert listening(engine, deployment.container(f"link-{link}")) == {8883}
    for network, reached in places.items():
        stranger = ("run", "--rm", "--network", network, "--entrypoint")
        answers = json.loads(engine(*stranger, "python", images[0], "-c", PROBE, *reached))
        assert set(answers) == set(reached)
        # No page without Ray's token; what is no HTTP ends the connection or answers with bytes of its own.
        allowed = {401, "BadStatusLine", "RemoteDisconnected", "ConnectionResetError", "ConnectionRefusedError"}
        assert set(answers.values()) <= allowed, answers
        site = network.rpartition("_")[2]
        for scheme in ("mqtt", "mqtts") if site in SITES else ():
            asked = ("distced", images[0], "nodes", "--server", f"{scheme}://server-{site}:8883")
            assert run(engine.command, *stranger, *asked).returncode == 2
        if site in SITES:
            options = (
                "-h",
                f"server-{site}",
                "-p",
                "8883",
                "--capath",
                "/none",
                "--insecure",
                "-t",
                "#",
                "-W",
                "2",
                "-C",
                "1",
            )
            assert run(engine.command, *stranger, "mosquitto_sub", images[0], *options).returncode != 0
        else:
            status = run(engine.command, *stranger, "ray", images[0], "status", "--address", "ray-head:6379")
            assert status.returncode != 0
            assert "AuthenticationError" in status.stdout + status.stderr


def test_wrong_password_is_refused(deployment: Deployment) -> None:
    command = "cp -r /access /tmp/a && echo wrong >/tmp/a/password && exec distced nodes --config /tmp/a/distced.toml"
    code, said = shell(deployment, "tools", command)
    assert code == 2
    assert "check the password of the user operator" in said, said


def test_topic_of_others_is_refused(deployment: Deployment) -> None:
    login = "-u ada -P $(cat /access/password)"
    publish = f"mosquitto_pub -h server-attic -p 8883 --cafile /access/ca.pem -V 5 -q 1 {login} -m x -d"
    code, said = shell(deployment, "subscriber-attic", f"{publish} -t ced/e/Temp/thermometer-FE02")
    # Reason code 135 of a PUBACK: not authorised.
    assert "RC:135" in said, said
    code, said = shell(deployment, "subscriber-attic", f"{publish} -t ced/d/subscription/ada/none")
    assert "RC:135" not in said, said
    assert code == 0, said


@pytest.mark.slow
def test_expired_certificate_is_refused_until_it_is_renewed(
    deployment: Deployment, engine: Engine, running: Callable[..., Any]
) -> None:
    server = deployment.container("mosquitto-attic")
    with running():
        made = deployment.run("init", "-c", EXPIRED, entrypoint="python").communicate(timeout=60)
        engine("restart", "--time", "5", server)
        code, said = shell(
            deployment,
            "subscriber-attic",
            "exec distced nodes --config /access/distced.toml --server mqtts://server-attic",
        )
        assert code == 2, (made, said)
        assert "expired" in said, said
        deployment.run("init", "--renew", "attic").communicate(timeout=60)
        engine("restart", "--time", "5", server)


@pytest.mark.slow
def test_password_that_is_renewed_is_the_only_one(deployment: Deployment, engine: Engine) -> None:
    process = deployment.run("tools", "-c", KEPT_PASSWORD, entrypoint="sh")
    time.sleep(3)
    deployment.run("init", "--renew", "operator").communicate(timeout=60)
    engine("kill", "--signal", "HUP", *(deployment.container(f"mosquitto-{site}") for site in SITES))
    out, errors = process.communicate(timeout=60)
    assert "old 2" in out, out + errors
    assert "new 0" in out, out + errors


KEPT_PASSWORD = """
cp -r /access /tmp/old
sleep 10
distced nodes --config /tmp/old/distced.toml; echo old $?
distced nodes; echo new $?
"""
"""Reads the directory with the password of before, and with that of the folder as it is after a while."""

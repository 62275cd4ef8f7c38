"""Three sites in containers, with links between them: composite events are those of one process, whatever fails."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import pytest

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.timestamps import HOUR
from distced.simulations.demo.feed import office_feed
from distced.simulations.demo.session import questions
from tests.support.docker_engine import Deployment, Engine

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

SITES = ("cellar", "attic", "street")
DEMO = ["demo", "--server", "mqtt://server-cellar", "--nodes", "0", "--speed", "240", "--json"]
HOMES = [part for site in SITES for part in ("--home", f"mqtt://server-{site}")]


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


def demo(deployment: Deployment, engine: Engine, *faults: list[str]) -> dict[str, Any]:
    """Figures of a demonstration, with commands of the engine given two seconds apart meanwhile."""
    # The office starts at one instant: detectors that are beyond it, of subscribers, would find it late.
    deployment.stop_services("subscriber-attic", "subscriber-street")
    process = deployment.run("tools", *DEMO, *HOMES)
    time.sleep(6)
    for fault in faults:
        engine(*fault)
        time.sleep(2)
    out, errors = process.communicate(timeout=300)
    assert out, errors
    figures: dict[str, Any] = json.loads(out[out.index("{") :])
    return figures


def assert_same(figures: dict[str, Any]) -> None:
    expected = in_one_process()
    assert expected > 200
    assert figures.get("check", figures) == {
        "holds": True,
        "same": expected,
        "only_live": 0,
        "only_run": 0,
        "complete": True,
    }


def test_three_sites_detect_what_one_process_does(deployment: Deployment, engine: Engine) -> None:
    assert finished(engine, deployment, "publisher") == 0
    said = engine("logs", deployment.container("publisher"))
    assert f"live = run: the same {in_one_process()} composite events" in said
    assert all(f"{site}-{number}" in said for site in SITES for number in (1, 2))
    for site, type_ in (("attic", "Draught"), ("street", "Cold")):
        assert type_ in engine("logs", deployment.container(f"subscriber-{site}"))


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


def test_site_that_is_cut_off_loses_nothing(deployment: Deployment, engine: Engine) -> None:
    links = [deployment.container(f"link-{other}-street") for other in ("cellar", "attic")]
    assert_same(demo(deployment, engine, ["kill", *links], ["start", *links]))


def test_site_whose_nodes_are_killed_loses_nothing(deployment: Deployment, engine: Engine) -> None:
    nodes = deployment.container("nodes-cellar")
    assert_same(demo(deployment, engine, ["kill", nodes], ["start", nodes]))

"""Deployment of `distced init` at a real mosquitto: participants do what they are for, and nothing else."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the extra init is not installed")

from distced.brokers.deployment.access_list import DeployedUser
from distced.brokers.deployment.deployment_file import Deployment
from distced.brokers.doctor.checks.findings import State, is_bad
from distced.brokers.doctor.examination import HERE, Wanted, examine
from distced.brokers.live.mqtt_server import find_mosquitto
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus, BusState, Failure
from distced.middleware.client.client import Client
from distced.middleware.model.errors import BusError
from distced.middleware.model.event_types import event_type
from tests.support.deployed_site import DeployedSite

pytestmark = [pytest.mark.mqtt, pytest.mark.slow]

PARTICIPANTS = {
    "cellar": DeployedUser(("node",)),
    "badges": DeployedUser(("publisher",), sources=("hall", "door"), types=("Motion", "Login")),
    "other": DeployedUser(("publisher",), sources=("roof",), types=("Rain",)),
    "ada": DeployedUser(("client",), durable=("night",)),
    "bob": DeployedUser(("client",)),
    "root": DeployedUser(("operator",)),
    "history": DeployedUser(("recorder",)),
    "gate": DeployedUser(("bridge",), topics=("zigbee2mqtt/#",)),
}


@pytest.fixture(scope="module")
def site() -> Iterator[DeployedSite]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    with tempfile.TemporaryDirectory(prefix="distced-test-") as name:
        made = DeployedSite(Path(name), PARTICIPANTS)
        made.apply()
        made.start()
        yield made
        made.stop()


@contextmanager
def connected(url: str) -> Iterator[Bus]:
    with Bus(url) as bus:
        bus.wait_connected(5)
        yield bus


def test_events_are_detected_across_roles(site: DeployedSite) -> None:
    with (
        LiveNode(site.url("cellar"), "cellar"),
        Client(site.url("badges")) as publisher,
        Client(site.url("ada")) as client,
    ):
        publisher.wait_for_nodes(1, 5)
        publisher.register(event_type("Motion", {"room": "string"}), event_type("Login", {"room": "string"}))
        hall = publisher.source("hall", ["Motion", "Login"])
        found = client.subscribe("[Motion as m] ; [Login where room == m.room]")
        for each in ("Motion", "Login"):
            now = time.time_ns()
            hall.publish(hall.create(each, now, room="a"), watermark=now)
        assert found.get(10).attributes == {}


@pytest.mark.parametrize(("name", "state"), [("root", State.OK), ("ada", State.NOT_CHECKED)])
def test_doctor_of_a_deployment(site: DeployedSite, name: str, state: State) -> None:
    with LiveNode(site.url("cellar"), "cellar"):
        wanted = Wanted(site.url(name), seconds=1.5, checkpoints="none")
        findings = [each for each in examine(wanted) if each.subject != HERE]
    assert not is_bad(findings), [each for each in findings if is_bad([each])]
    found = {each.check: each.state for each in findings}
    assert found["nodes"] is state and (found.get("clock") is State.OK) == (name == "root")
    for check in ("certificate", "login", "anonymous", "persistence", "secrets"):
        assert found[check] is State.OK
    # What the server says is for operators.
    assert (found["server version"] is State.NOT_CHECKED) == (name == "ada")


def test_wrong_password_and_no_user_are_refused(site: DeployedSite) -> None:
    ca = f"{site.folder}/authority/ca.pem"
    for each in (f"mqtts://127.0.0.1:{site.port}?ca={ca}", f"mqtts://ada:wrong@127.0.0.1:{site.port}?ca={ca}"):
        with Bus(each) as bus, pytest.raises(BusError, match="refuses"):
            bus.wait_connected(5)


# What each role may do, of every topic there is.

ANSWERS = ("again", "lost")
ASKING = ("ada", "bob", "recorder:history")
NAMES = ("cellar", "badges", "other", "ada", "bob", "root", "history", "gate", "gate-bridge")
TOPICS = [
    *(f"ced/e/{name}/{source}" for name in ("Motion", "Login", "Rain") for source in ("hall", "door", "roof")),
    "ced/c/c0ffee",
    *(f"ced/d/type/{name}" for name in ("Motion", "Rain", "New")),
    *(f"ced/d/{kind}/{name}" for kind in ("node", "client", "recorder") for name in NAMES),
    *(f"ced/d/source/{name}" for name in ("hall", "roof", "new")),
    *(f"ced/d/subscription/{name}/1" for name in NAMES),
    *(f"ced/d/{kind}/durable:{name}" for kind in ("subscription", "durable", "position") for name in ("night", "x")),
    *(f"ced/d/{each}" for each in ("detector/c0ffee", "detector/Motion/c0ffee", "topology/overlay", "hint/c0ffee")),
    "ced/d/exclusion/c0ffee",
    *(f"ced/a/{kind}/{name}" for kind in ("heartbeat", "covered", "answer", "ready", "progress") for name in NAMES),
    *(f"ced/a/{kind}/{name}" for kind in ("known", "story") for name in NAMES),
    *(f"ced/a/known/{name}/further" for name in NAMES),
    *(f"ced/a/story-of/{name}/cellar" for name in NAMES),
    *(f"ced/a/ack/{source}/{by}" for source in ("hall", "roof") for by in ("cellar", "recorder:history", "recorder:x")),
    *(f"ced/a/known/recorder:{name}" for name in ("history", "x")),
    *(f"ced/a/missing/source/{name}" for name in NAMES),
    "ced/a/missing/detector",
    *(f"ced/a/{kind}/{name}/{of}" for kind in ANSWERS for name in ASKING for of in ("e/hall", "e/roof", "c/x")),
    *(f"ced/a/alive/client/{name}" for name in NAMES),
    *(f"ced/a/alive/node/{name}" for name in ("cellar", "bob")),
    *(f"ced/a/alive/recorder/{name}" for name in ("history", "bob")),
    *(f"ced/a/node/cellar/{kind}" for kind in ("since", "state/c0ffee", "serve/1", "identify/root")),
    "ced/a/identity/root/cellar",
    *(f"ced/a/{each}" for each in ("fence/hall", "policy/default", "move/c0ffee", "directory")),
    *(f"ced/x/rejected/{name}" for name in ("cellar", "gate-bridge", "recorder:history", "recorder:x")),
    "home/alarms",
    "zigbee2mqtt/door",
]
"""One of each topic in the tables of topics, for each name that it may be of."""

OWN = {"ced/d/client/{}", "ced/a/alive/client/{}", "ced/a/known/{}", "ced/a/known/{}/further"}


def answers(source: str) -> set[str]:
    return {f"ced/a/{kind}/{name}/e/{source}" for kind in ANSWERS for name in ASKING}


def of(name: str, *further: str) -> set[str]:
    return {each.format(name) for each in (*OWN, *further)}


def below(*begins: str) -> set[str]:
    return {each for each in TOPICS if each.startswith(begins)}


MISSING = below("ced/a/missing/")
DURABLE = {f"ced/d/{kind}/durable:night" for kind in ("subscription", "durable", "position")}
WRITES = {
    "badges": of("badges", "ced/a/heartbeat/{}")
    | {f"ced/e/{name}/{source}" for name in ("Motion", "Login") for source in ("hall", "door")}
    | {"ced/d/type/Motion", "ced/d/source/hall"}
    | answers("hall"),
    "other": of("other", "ced/a/heartbeat/{}")
    | {"ced/e/Rain/roof", "ced/d/type/Rain", "ced/d/source/roof"}
    | answers("roof"),
    "ada": of("ada", "ced/d/subscription/{}/1", "ced/a/ready/{}") | MISSING | DURABLE,
    "bob": of("bob", "ced/d/subscription/{}/1", "ced/a/ready/{}") | MISSING,
    "cellar": below("ced/c/", "ced/d/", "ced/a/", "ced/x/"),
    "history": {"ced/d/recorder/history", "ced/a/alive/recorder/history", "ced/x/rejected/recorder:history"}
    | {"ced/a/known/history", "ced/a/known/history/further", "ced/a/known/recorder:history"}
    | {f"ced/a/ack/{source}/recorder:history" for source in ("hall", "roof")}
    | MISSING,
    "gate": of("gate", "ced/a/heartbeat/{}")
    | of("gate-bridge", "ced/a/heartbeat/{}", "ced/x/rejected/{}")
    | below("ced/e/", "ced/d/type/", "ced/d/source/", "ced/a/again/", "ced/a/lost/"),
    "root": below(
        "ced/d/", *(f"ced/a/{each}" for each in ("policy", "move", "drain", "fence", "story/", "known", "alive"))
    )
    | {"ced/a/directory", "ced/a/node/cellar/identify/root"},
}
KINDS = ("type", "client", "source", "node", "recorder", "topology", "detector")
DIRECTORY = below(*(f"ced/d/{each}/" for each in KINDS))
READS = {
    "badges": DIRECTORY
    | {"ced/a/directory", "ced/a/known/badges", "ced/a/known/badges/further"}
    | below("ced/a/ack/hall/")
    | {"ced/a/covered/badges", "ced/a/missing/source/badges"},
    "ada": DIRECTORY
    | DURABLE
    | below("ced/e/", "ced/c/", "ced/a/again/ada/", "ced/a/lost/ada/", "ced/a/known/ada")
    | {"ced/a/directory", "ced/d/subscription/ada/1", "ced/a/answer/ada", "ced/a/progress/ada"},
    "cellar": below("ced/"),
    "root": below("ced/"),
    "history": below("ced/e/", "ced/c/", "ced/d/", "ced/a/heartbeat/", "ced/a/fence/")
    | below("ced/a/again/recorder:history/", "ced/a/lost/recorder:history/")
    | {"ced/a/directory", "ced/a/known/history", "ced/a/known/history/further", "ced/a/known/recorder:history"},
}


FORGED, END = b"forged", b"end"


def arrived(reader: Bus, ends: str, publish: Any) -> set[str]:
    """Topics of what arrives at a reader of everything, up to a last message that it may read."""
    came: list[str] = []

    def take(topic: str, payload: bytes, retain: bool) -> None:
        if payload in (FORGED, END):
            came.append(topic)

    reader.subscribe("#", take, qos=1, timeout=5)
    publish()
    deadline = time.monotonic() + 10
    while ends not in came and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ends in came
    return {each for each in came if each != ends}


@pytest.mark.parametrize("name", WRITES)
def test_each_role_writes_its_own_topics_alone(site: DeployedSite, name: str) -> None:
    # The node and the operator read all of distced's topics.
    end = f"ced/a/known/{name}/end"
    refused: list[Failure] = []
    with connected(site.url("cellar")) as reader, Bus(site.url(name), on_failure=refused.append) as writer:
        writer.wait_connected(5)

        def publish() -> None:
            for topic in TOPICS:
                writer.publish(topic, FORGED, qos=1)
            writer.publish(end, END, qos=1)

        assert arrived(reader, end, publish) == WRITES[name]
        writer.flush(5)
        # The server has said so for each of the others.
        assert len(refused) == len(TOPICS) - len(WRITES[name])


@pytest.mark.parametrize("name", READS)
def test_each_role_reads_its_own_topics_alone(site: DeployedSite, name: str) -> None:
    end = f"ced/a/known/{name}/end"
    with (
        connected(site.url(name)) as reader,
        connected(site.url("cellar")) as node,
        connected(site.url("badges")) as own,
        connected(site.url("other")) as other,
    ):

        def publish() -> None:
            for topic in TOPICS:
                for writer in (node, own, other):
                    writer.publish(topic, FORGED, qos=1)
            for writer in (own, other, node):
                writer.flush(5)
            node.publish(end, END, qos=1)

        written = WRITES["badges"] | WRITES["other"] | WRITES["cellar"]
        assert arrived(reader, end, publish) == READS[name] & written


def test_client_without_a_user_learns_nothing(site: DeployedSite) -> None:
    with Bus(f"mqtts://127.0.0.1:{site.port}?ca={site.folder}/authority/ca.pem", protocol="5") as bus:
        with pytest.raises(BusError, match="refuses"):
            bus.wait_connected(5)
        assert bus.state is not BusState.CONNECTED
    with Bus(f"mqtt://127.0.0.1:{site.port}") as plain, pytest.raises(BusError):
        plain.wait_connected(2)


def test_participant_that_is_removed_or_renewed_is_refused_after_a_reload(site: DeployedSite) -> None:
    before = site.deployment
    url = site.url("bob")
    with connected(url):
        pass
    old = (site.folder / "participants" / "bob" / "password").read_text().strip()
    site.apply(renew=["bob"])
    assert site.process is not None
    site.process.send_signal(signal.SIGHUP)
    ca = f"{site.folder}/authority/ca.pem"
    with Bus(f"mqtts://bob:{old}@127.0.0.1:{site.port}?ca={ca}") as bus, pytest.raises(BusError, match="refuses"):
        bus.wait_connected(5)
    with connected(url):
        pass
    try:
        others = {name: each for name, each in PARTICIPANTS.items() if name != "bob"}
        site.deployment = Deployment(before.servers, others)
        password = (site.folder / "participants" / "bob" / "password").read_text().strip()
        site.apply()
        site.process.send_signal(signal.SIGHUP)
        url = f"mqtts://bob:{password}@127.0.0.1:{site.port}?ca={ca}"
        with Bus(url) as bus, pytest.raises(BusError, match="refuses"):
            bus.wait_connected(5)
    finally:
        site.deployment = before
        site.apply()
        site.process.send_signal(signal.SIGHUP)

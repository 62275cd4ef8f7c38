"""A client that asks for more than the limits of a node, beside another, over a real server."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from distced.brokers.core import directory
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.live.node import LiveNode
from distced.brokers.node import quarantine
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client
from distced.middleware.model.errors import SubscriptionsError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer, Answers
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.topics import administration_topic, directory_topic
from tests.live.conftest import Server

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]

A = event_type("A", {"k": "number"})


def test_client_beyond_the_limit_has_its_refusals_while_another_is_served(mosquitto: Server) -> None:
    root = "hostile"
    with (
        LiveNode(mosquitto.url, "limited", root=root, limits=SubscriptionLimits(50)) as node,
        Client(mosquitto.url, name="greedy", root=root) as greedy,
        Client(mosquitto.url, name="other", root=root) as other,
    ):
        greedy.register(A)
        caught: list[SubscriptionsError] = []

        def ask() -> None:
            with pytest.raises(SubscriptionsError) as error:
                greedy.subscribe_many([f"[A where k == {number}]" for number in range(1_000)])
            caught.append(error.value)

        asking = threading.Thread(target=ask)
        asking.start()
        made = [other.subscribe(f"[A where k > {number}]") for number in range(10)]
        asking.join(30)
        (error,) = caught
        assert len(error.errors) == 950 and len(error.subscriptions) == 50
        reasons = {str(each) for each in error.errors.values()}
        (reason,) = reasons
        assert reason.startswith("too many subscriptions of one client: greedy (allowed: 50); end some")
        # The rest of the bulk was not requested.
        assert 0 < node.statistics()["subscriptions refused"] < 200
        # Those that end leave their places to others.
        greedy.unsubscribe_many(error.subscriptions[:10])
        assert len(greedy.subscribe_many([f"[A where k < {number}]" for number in range(10)])) == 10
        assert not any(each.ended for each in made)


def test_client_that_floods_the_directory_is_not_read_while_another_is_served(
    mosquitto: Server,
    monkeypatch: pytest.MonkeyPatch,
    make_bus: Callable[..., Bus],
    eventually: Callable[[Callable[[], bool]], None],
) -> None:
    root = "flooded"
    monkeypatch.setattr(quarantine, "EARLIEST", SECOND)
    monkeypatch.setattr(directory, "CONFIRM_WITHIN", 3 * SECOND)
    with (
        LiveNode(mosquitto.url, "limited", root=root, limits=SubscriptionLimits(50)) as node,
        Client(mosquitto.url, name="other", root=root) as other,
    ):
        other.register(A)
        heard: list[bytes] = []
        flood = make_bus(mosquitto.url)
        flood.subscribe(
            administration_topic("answer", "hostile", root=root), lambda _t, payload, _r: heard.append(payload)
        )
        flood.publish(directory_topic("client", "hostile", root=root), encode(ClientEntry(0)), qos=1, retain=True)
        topics = [directory_topic("subscription", f"hostile.{number}", root=root) for number in range(5_000)]
        for number, topic in enumerate(topics):
            entry = SubscriptionEntry("hostile", f"[A where k == {number}]")
            flood.publish(topic, encode(entry), qos=1, retain=True)
        made = [other.subscribe(f"[A where k > {number}]") for number in range(10)]
        eventually(lambda: node.statistics().get("clients quarantined") == 1)
        eventually(lambda: any(not each.subscription for payload in heard for each in answers(payload)))
        eventually(lambda: not node.node.waiting)
        assert len(node.node.hosted) == 60
        # What it publishes is not read, and others are served.
        read = node.node.directory.by_client["hostile"].keys()
        flood.publish(topics[0], b"", qos=1, retain=True)
        made += other.subscribe_many([f"[A where k < {number}]" for number in range(10)])
        assert len(node.node.hosted) == 70 and node.node.directory.by_client["hostile"].keys() == read
        # It ends, and its subscriptions with it.
        for topic in topics[1:]:
            flood.publish(topic, b"", qos=1, retain=True)
        flood.publish(directory_topic("client", "hostile", root=root), b"", qos=1, retain=True)
        eventually(lambda: len(node.node.hosted) == 20)
        assert not any(each.ended for each in made)


def test_client_id_of_another_is_not_to_be_made_up(
    start_mosquitto: Callable[..., Server], make_bus: Callable[..., Bus], open_folder: Path
) -> None:
    passwords = open_folder / "passwords"
    for flag, name in (("-c", "ada"), ("-b", "eve")):
        flags = ["-b", "-c"] if flag == "-c" else ["-b"]
        done = subprocess.run(["mosquitto_passwd", *flags, str(passwords), name, f"of {name}"], check=False, timeout=20)
        if done.returncode:
            pytest.skip("mosquitto_passwd does not work here")
    passwords.chmod(0o644)
    server = start_mosquitto(settings=[f"password_file {passwords}"])
    ada, eve = (f"mqtt://{name}:of%20{name}@{server.host}:{server.port}" for name in ("ada", "eve"))
    bus = make_bus(ada, client_id="distced-node-x")
    # Both by a bus and by a client that says just what it wants.
    make_bus(eve, client_id="distced-node-x")
    raw = paho.Client(CallbackAPIVersion.VERSION2, client_id="distced-node-x", protocol=paho.MQTTv5)
    raw.username_pw_set("eve", "of eve")
    raw.connect(server.host, server.port)
    raw.loop_start()
    heard: list[bytes] = []
    bus.subscribe("t", lambda _topic, payload, _retained: heard.append(payload))
    end = time.monotonic() + 5
    while not heard and time.monotonic() < end:
        bus.publish("t", b"x")
        time.sleep(0.05)
    raw.disconnect()
    raw.loop_stop()
    assert heard and bus.statistics.losses == 0


def answers(payload: bytes) -> tuple[Answer, ...]:
    return decode(payload, Answers, where="answer").answers

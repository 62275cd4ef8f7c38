"""Participants without signs of life leave the directory as by their last will; others stay, whatever delays them."""

from __future__ import annotations

import pytest

from distced.brokers.node.absent_clients import ABSENCE
from distced.brokers.node.renewals import MISSED
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.wire.administration import METERED_EVERY, METERED_WATERMARKS, RENEW_EVERY
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import RecorderEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import directory_topic, parse_topic
from tests.brokers.test_node import event, prepared, subscribed
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

SILENCE = (MISSED + 3) * RENEW_EVERY
"""Time within which a dead participant is found, ns."""


def node_of(network: Network, detector: str) -> VirtualNode:
    (name,) = network.hosts(detector)
    return next(each for each in network.nodes if each.name == name)


def entries(network: Network, kind: str) -> set[str]:
    levels = [parse_topic(each).levels for each in network.retained if each.startswith("ced/d/")]
    return {each[-1] for each in levels if each[0] == kind}


def reconnect(network: Network) -> None:
    for each in network.participants:
        each.connect()
    network.run()


def goes_on(network: Network, client: VirtualClient, identity: str, start: int) -> None:
    """Composite events of `[A] ; [B]` come, each once."""
    before = len(client.composites(identity))
    client.publish(event("A", start))
    client.publish(event("B", start + 1))
    client.heartbeat(start + 1, "s")
    network.run()
    assert [each.hi for each in client.composites(identity)[before:]] == [start + 1]


@pytest.mark.parametrize("seed", range(6))
def test_power_cut_of_server_node_client_and_recorder_ends_them_as_by_a_will(seed: int) -> None:
    network, client = prepared(seed, nodes=3)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    other = network.client("other")
    subscribed(network, other, "r", "[A] ; [A]")
    network.publish(directory_topic("recorder", "rec"), encode(RecorderEntry(0)), retain=True)
    network.pass_time(5 * SECOND)
    dead = node_of(network, detector)
    network.restart(remembers=True, killed=(dead, other))
    reconnect(network)
    assert dead.name in entries(network, "node") and "other" in entries(network, "client")

    network.pass_time(SILENCE)
    assert entries(network, "node") == {each.name for each in network.nodes} and len(network.nodes) == 2
    assert entries(network, "client") == {"c"} and entries(network, "recorder") == set()
    assert dead.name not in entries(network, "load")
    notes = [each.fields for each in network.notes if each.event == "participant dead"]
    assert {(each["kind"], each["name"]) for each in notes} == {
        ("node", dead.name), ("client", "other"), ("recorder", "rec"),
    }  # fmt: skip
    # What it hosted is elsewhere, what the client had asked for is gone, and new ones are served.
    network.pass_time(ABSENCE + RENEW_EVERY)
    assert entries(network, "subscription") == {"q"}
    assert network.hosts(detector) != [] and dead.name not in network.hosts(detector)
    goes_on(network, client, "q", 100)
    subscribed(network, network.client("third"), "t", "[B]")
    client.source("u", ["A"])
    network.run()
    assert set(client.acknowledged["u"]) == {each.name for each in network.nodes}


def test_participants_that_are_there_stay_for_ever() -> None:
    network, client = prepared(nodes=2)
    subscribed(network, client, "q", "[A] ; [B]")
    for _ in range(2):
        network.pass_time(3 * SILENCE, every=2 * SECOND)
        network.restart(remembers=True)
        reconnect(network)
    assert entries(network, "node") == {"n1", "n2"} and entries(network, "client") == {"c"}
    assert not [each for each in network.notes if each.event == "participant dead"]
    # Some messages over the new connections are requested again.
    network.pass_time(10 * SECOND)
    goes_on(network, client, "q", 100)


@pytest.mark.parametrize("stalled", ["n1", "n2", "c"])
def test_participant_that_is_stopped_for_a_minute_stays(stalled: str) -> None:
    network, client = prepared(nodes=2)
    subscribed(network, client, "q", "[A] ; [B]")
    (one,) = (each for each in network.participants if getattr(each, "name", "") == stalled)
    one.stalled = True
    network.pass_time(MINUTE)
    one.stalled = False
    network.pass_time(MINUTE)
    assert not [each for each in network.notes if each.event == "participant dead"]
    goes_on(network, client, "q", 100)


@pytest.mark.parametrize("lost", [False, True])
def test_node_that_hears_nothing_itself_ends_nobody(lost: bool) -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    (one,) = (each for each in network.nodes if each.name not in network.hosts(detector))
    if lost:
        one.connected = False
    one.stalled = not lost
    # The others take it for dead.
    network.pass_time(SILENCE)
    one.stalled = False
    if lost:
        one.filters.clear()
        one.into.clear()
        one.connect()
    network.pass_time(SILENCE)
    dead = [each.fields["name"] for each in network.notes if each.event == "participant dead"]
    assert dead == [one.name] and entries(network, "node") == {"n1", "n2"}
    goes_on(network, client, "q", 100)


@pytest.mark.parametrize("seed", range(6))
def test_node_that_comes_back_after_it_was_taken_for_dead_gives_up_what_others_host(seed: int) -> None:
    network, client = prepared(seed, nodes=3)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    one = node_of(network, detector)
    one.stalled = True
    network.pass_time(SILENCE)
    assert one.name not in entries(network, "node")
    one.stalled = False
    network.pass_time(40 * SECOND)
    assert entries(network, "node") == {"n1", "n2", "n3"}
    assert len(network.hosts(detector)) == 1
    goes_on(network, client, "q", 100)


def test_client_that_comes_back_after_it_was_taken_for_dead_is_there_again() -> None:
    network, _ = prepared(nodes=2)
    other = network.client("other")
    subscribed(network, other, "r", "[A] ; [B]")
    other.stalled = True
    network.pass_time(SILENCE + 30 * SECOND)
    assert entries(network, "client") == {"c"} and entries(network, "subscription") == set()
    other.stalled = False
    network.pass_time(10 * SECOND)
    assert entries(network, "client") == {"c", "other"}


def test_metered_client_renews_rarely_and_is_found_dead_that_much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = prepared(nodes=2)
    far = network.client("far", metered=True)
    subscribed(network, far, "q", "[A] ; [B]")
    renewals: list[str] = []
    publish = network._publish

    def heard(message: Publish) -> None:
        if message.topic == "ced/a/alive/client/far":
            renewals.append(message.topic)
        publish(message)

    monkeypatch.setattr(network, "_publish", heard)
    network.pass_time(3 * METERED_EVERY, every=2 * SECOND)
    assert 2 <= len(renewals) <= 4
    assert not [each for each in network.notes if each.event == "participant dead"]
    # Its server has not noticed that it is gone.
    far.stalled = True
    rounds = METERED_EVERY // RENEW_EVERY
    network.pass_time((MISSED - 1) * METERED_EVERY, every=2 * SECOND)
    assert entries(network, "client") == {"c", "far"}
    network.pass_time((rounds + 3) * RENEW_EVERY, every=2 * SECOND)
    assert entries(network, "client") == {"c"}


@pytest.mark.parametrize(("others", "most"), [(False, 3), (True, 200)], ids=["alone", "shared with another client"])
def test_watermarks_to_metered_clients_are_few_unless_others_share_the_detector(others: bool, most: int) -> None:
    network, client = prepared(nodes=1)
    far = network.client("far", metered=True)
    detector = subscribed(network, far, "q", "[A] ; [B]")
    if others:
        assert subscribed(network, client, "r", "[A] ; [B]") == detector
    heard = 0
    before = far.watermarks.get("q")
    seconds = 2 * METERED_WATERMARKS // SECOND
    for second in range(seconds):
        client.heartbeat(100 + second, "s")
        network.pass_time(SECOND)
        heard += far.watermarks.get("q") != before
        before = far.watermarks.get("q")
    assert 1 <= heard <= most and (not others or heard > seconds // 2)
    # What is found comes at once.
    client.publish(event("A", 2_000))
    client.publish(event("B", 2_001))
    client.heartbeat(2_001, "s")
    network.run()
    assert far.composites("q")[-1].hi == 2_001

"""Detectors with replicas: they find the same, and go on when a node is lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from distced.brokers.core.directory import CONFIRM_WITHIN
from distced.brokers.node.policy_settings import EVERYBODY
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest, SetPolicy
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry, SubscriptionEntry
from distced.middleware.wire.node_messages import Hosting
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import CHAIN, Scene
from tests.support.virtual_nodes import Network, VirtualNode

AB = "[A] ; [B] -> Out()"
RELIABLE = "max-reliability"


def entry_of(network: Network, detector: str) -> DetectorEntry:
    return decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="")


def reliable(seed: int = 0, nodes: int = 3, pattern: str = AB, **quality: object) -> tuple[Scene, str]:
    """A detector with a replica, and its id."""
    scene = Scene(nodes, seed)
    scene.subscribe("q", pattern, distribution=RELIABLE, **quality)
    scene.network.pass_time(3 * SECOND)
    return scene, scene.app.detector("q")


def test_reliable_subscription_has_two_replicas_that_publish_the_same() -> None:
    scene, identity = reliable()
    entry = entry_of(scene.network, identity)
    assert len(entry.replicas) == 1
    assert entry.distribution == RELIABLE
    assert set(scene.network.hosts(identity)) == {entry.node, *entry.replicas}
    scene.happen("ABAB")
    assert scene.found("q") == 2
    scene.app.clear("subscription", "q")
    scene.network.run()
    assert scene.entries("detector") == []
    assert scene.network.hosts(identity) == []


def test_replica_has_the_matches_begun_by_its_primary() -> None:
    scene = Scene(3)
    scene.subscribe("q", AB)
    scene.happen("A")
    second = scene.network.client("second")
    scene.network.run()
    scene.subscribe("r", AB, app=second, distribution=RELIABLE)
    scene.network.pass_time(3 * SECOND)
    identity = scene.app.detector("q")
    entry = entry_of(scene.network, identity)
    scene.network.lose(next(each for each in scene.nodes if each.name == entry.node), for_good=True)
    scene.network.run()
    scene.happen("B")
    assert scene.found("q") == scene.found("r", second) == 1


@pytest.mark.parametrize("which", ["primary", "replica"])
@pytest.mark.parametrize("how", ["lost", "stopped"])
@pytest.mark.parametrize("pattern", [AB, CHAIN])
def test_replicas_lose_nothing_with_a_node(which: str, how: str, pattern: str, at_length: bool) -> None:
    """At any moment, with what is under way; afterwards there are two again."""
    for seed in range(200 if at_length else 8):
        scene, identity = reliable(seed, 4, pattern)
        entry = entry_of(scene.network, identity)
        name = entry.node if which == "primary" else next(iter(entry.replicas))
        gone = next(each for each in scene.nodes if each.name == name)
        scene.happen("ABC", run=False)
        scene.network.some(scene.network.random.randrange(40))
        if how == "lost":
            scene.network.lose(gone, for_good=True)
        else:
            gone.stop()
        scene.network.some(scene.network.random.randrange(40))
        scene.happen("DAB")
        scene.happen("CD")
        assert scene.found("q") == 2, seed
        scene.network.pass_time(5 * SECOND)
        again = entry_of(scene.network, identity)
        assert len(again.replicas) == 1 and name not in {again.node, *again.replicas}, seed
        assert set(scene.network.hosts(identity)) == {again.node, *again.replicas}
        scene.happen("ABCD")
        assert scene.found("q") == 3, seed


def test_detector_is_moved_to_the_node_of_its_copy() -> None:
    scene, identity = reliable()
    entry = entry_of(scene.network, identity)
    (host,) = entry.replicas
    scene.happen("A")
    scene.network.publish(administration_topic("move", identity), encode(MoveRequest(host)))
    scene.network.run()
    again = entry_of(scene.network, identity)
    assert again.node == host and set(again.replicas) == {entry.node}
    scene.happen("BAB")
    assert scene.found("q") == 2
    assert scene.network.letters == []


def test_detector_with_a_replica_moves_elsewhere() -> None:
    scene, identity = reliable()
    entry = entry_of(scene.network, identity)
    free = next(each.name for each in scene.nodes if each.name not in {entry.node, *entry.replicas})
    scene.happen("A")
    scene.network.publish(administration_topic("move", identity), encode(MoveRequest(free)))
    scene.network.run()
    again = entry_of(scene.network, identity)
    assert again.node == free and again.replicas == entry.replicas
    scene.happen("BAB")
    assert scene.found("q") == 2


def test_entry_of_an_earlier_primary_changes_no_role() -> None:
    """Handed over, and back at once: entries of both are on their way."""
    scene, identity = reliable()
    first = entry_of(scene.network, identity)
    (second,) = first.replicas
    scene.happen("A")
    for host in (second, first.node):
        scene.network.publish(administration_topic("move", identity), encode(MoveRequest(host)))
        scene.network.run()
    assert entry_of(scene.network, identity).generation == first.generation + 2
    other = replace(first, node=second, replicas={first.node: first.home}, home=first.replicas[second], generation=1)
    for late in (other, first):
        scene.network.publish(scene.network.detector_topic(identity), encode(late), retain=True)
        scene.network.run()
        entry = entry_of(scene.network, identity)
        assert (entry.node, set(entry.replicas), entry.generation) == (first.node, {second}, first.generation + 2)
    scene.happen("BAB")
    assert scene.found("q") == 2


def test_of_two_primaries_with_one_number_one_remains() -> None:
    """Two nodes have missed the primary at the same time."""
    scene, identity = reliable()
    entry = entry_of(scene.network, identity)
    (second,) = entry.replicas
    scene.happen("A")
    promoted = replace(entry, node=second, replicas={}, home=entry.replicas[second])
    scene.network.publish(scene.network.detector_topic(identity), encode(promoted), retain=True)
    scene.network.pass_time(5 * SECOND)
    again = entry_of(scene.network, identity)
    assert set(scene.network.hosts(identity)) == {again.node, *again.replicas} and len(again.replicas) == 1
    scene.happen("BAB")
    assert scene.found("q") == 2


def test_replicas_follow_the_policy() -> None:
    scene = Scene(3)
    scene.subscribe("q", AB)
    identity = scene.app.detector("q")
    for key in (EVERYBODY, identity):
        topic = administration_topic("policy", key)
        scene.network.publish(topic, encode(SetPolicy(RELIABLE)), retain=True)
        scene.network.pass_time(3 * SECOND)
        assert len(entry_of(scene.network, identity).replicas) == 1
        assert entry_of(scene.network, identity).distribution == RELIABLE
        scene.network.publish(topic, b"", retain=True)
        scene.network.pass_time(3 * SECOND)
        assert entry_of(scene.network, identity).replicas == {}
        assert len(scene.network.hosts(identity)) == 1
    scene.happen("AB")
    assert scene.found("q") == 1


def test_malformed_policy_is_reported_and_changes_nothing() -> None:
    scene = Scene(2)
    scene.network.publish(administration_topic("policy", EVERYBODY), encode(SetPolicy("min-latenzy")), retain=True)
    scene.network.publish(administration_topic("policy", EVERYBODY), b"{", retain=True)
    scene.network.run()
    assert scene.network.reasons() == ["malformed"] * 4
    scene.subscribe("q", AB)
    scene.app.subscribe("r", AB, distribution="min-latenzy")
    scene.network.run()
    assert scene.app.states("r") == ["refused"]
    assert "min-latency" in scene.app.answers["r"][0].message


def test_node_comes_back_to_a_replica_that_serves() -> None:
    for seed in range(20):
        scene, identity = reliable(seed)
        entry = entry_of(scene.network, identity)
        away = next(each for each in scene.nodes if each.name == entry.node)
        scene.network.lose(away)
        scene.network.some(scene.network.random.randrange(30))
        scene.happen("A")
        away.connect()
        scene.network.pass_time(5 * SECOND)
        again = entry_of(scene.network, identity)
        assert set(scene.network.hosts(identity)) == {again.node, *again.replicas}, seed
        assert len(again.replicas) == 1
        scene.happen("BAB")
        assert scene.found("q") == 2, seed


def without_memory(scene: Scene, first: VirtualNode) -> None:
    """The server starts again without a memory, and one node is back before the others."""
    scene.network.restart()
    first.connect()
    scene.network.pass_time(3 * SECOND)


def test_replica_stays_while_its_primary_has_not_published_the_entry_again() -> None:
    for seed in range(20):
        scene, identity = reliable(seed)
        entry = entry_of(scene.network, identity)
        (host,) = entry.replicas
        scene.happen("A")
        replica = next(each for each in scene.nodes if each.name == host)
        without_memory(scene, replica)
        assert identity in replica.node.hosted, seed
        for each in scene.network.participants:
            if not each.connected:
                each.connect()
        scene.network.pass_time(5 * SECOND)
        assert set(entry_of(scene.network, identity).replicas) == {host}, seed
        scene.network.publish(administration_topic("move", identity), encode(MoveRequest(host)))
        scene.network.run()
        assert entry_of(scene.network, identity).node == host, seed
        scene.happen("BAB")
        assert scene.found("q") == 2, seed


def left_behind(seed: int) -> tuple[Scene, str, VirtualNode]:
    """A replica whose detector was destroyed while it was away, and is back: the detector's id, the replica's node."""
    scene, identity = reliable(seed, nodes=2)
    (host,) = entry_of(scene.network, identity).replicas
    replica = next(each for each in scene.nodes if each.name == host)
    scene.network.lose(replica)
    scene.app.clear("subscription", "q")
    scene.network.run()
    replica.connect()
    scene.network.run()
    return scene, identity, replica


def test_replica_goes_when_its_detector_was_destroyed_meanwhile() -> None:
    for seed in range(20):
        scene, identity, _ = left_behind(seed)
        scene.network.pass_time(CONFIRM_WITHIN + SECOND)
        assert scene.network.hosts(identity) == [], seed


def test_detector_begins_where_a_replica_of_a_destroyed_one_was_left_behind() -> None:
    for seed in range(20):
        scene, identity, replica = left_behind(seed)
        assert scene.network.hosts(identity) == [replica.name], seed
        scene.app.subscribe("r", AB)
        entry = SubscriptionEntry("app", AB)
        topic = administration_topic("node", replica.name, "host", "r")
        scene.network.run()
        scene.network.publish(topic, encode(Hosting(entry)))
        scene.network.run()
        assert scene.app.states("r")[-1] == "active", seed
        scene.happen("AB")
        assert scene.found("r") == 1, seed
        scene.network.pass_time(CONFIRM_WITHIN + 5 * SECOND)
        assert scene.network.hosts(identity) == [replica.name], seed


def test_new_subscription_is_served_soon_where_a_replica_of_a_destroyed_one_was_left_behind() -> None:
    for seed in range(20):
        scene, _, _ = left_behind(seed)
        scene.app.subscribe("r", AB)
        scene.network.pass_time(5 * SECOND)
        assert scene.app.states("r")[-1] == "active", seed
        scene.happen("AB")
        assert scene.found("r") == 1, seed


def test_primary_makes_a_replica_again_that_was_given_up_unnoticed() -> None:
    for seed in range(20):
        scene, identity = reliable(seed)
        (host,) = entry_of(scene.network, identity).replicas
        replica = next(each for each in scene.nodes if each.name == host)
        without_memory(scene, replica)
        scene.network.pass_time(CONFIRM_WITHIN)
        assert scene.network.hosts(identity).count(host) == 0, seed
        # With fewer nodes than replicas the subscription, new to the server, would be refused.
        for each in (*scene.nodes, *scene.network.participants):
            if not each.connected:
                each.connect()
                scene.network.run()
        scene.network.pass_time(20 * SECOND)
        entry = entry_of(scene.network, identity)
        assert len(entry.replicas) == 1
        assert set(scene.network.hosts(identity)) == {entry.node, *entry.replicas}, seed


def test_offer_after_a_change_of_replicas_is_repeated_until_the_client_listens() -> None:
    """The first one may be lost, as those to a client without a connection."""
    scene, identity = reliable()
    (host,) = entry_of(scene.network, identity).replicas
    scene.app.accepts = False
    scene.network.lose(next(each for each in scene.nodes if each.name == host), for_good=True)
    scene.network.pass_time(3 * SECOND)
    (other,) = entry_of(scene.network, identity).replicas
    assert other != host
    scene.app.accepts = True
    before = len(scene.app.states("q"))
    scene.network.pass_time(10 * SECOND)
    assert scene.app.states("q")[before:] == ["offered", "active"]

"""Nodes that are drained: their detectors move away with their state, and come back to nodes that start again."""

from __future__ import annotations

from typing import Any

import pytest

from distced.brokers.node.draining import AGAIN
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Drain
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry, Hints, NodeEntry
from distced.middleware.wire.topics import administration_topic, directory_topic
from tests.brokers.test_node import event, prepared, subscribed
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode


def drain(network: Network, node: str, *, active: bool = True) -> None:
    network.publish(administration_topic("drain", node), encode(Drain(active)))
    network.pass_time(3 * SECOND)


def node_of(network: Network, name: str) -> VirtualNode:
    return next(each for each in network.nodes if each.name == name)


def entry_of(network: Network, detector: str) -> DetectorEntry:
    return decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="")


def happen(network: Network, client: VirtualClient, name: str, at: int) -> None:
    client.publish(event(name, at, k=20), watermark=at)
    network.run()


def test_detectors_of_a_draining_node_move_away_with_their_state() -> None:
    network, client = prepared(nodes=3)
    patterns = [
        "[A] ; [B]",
        "[A as a] ; [B where k == a.k]",
        "[Fast] ; [B]",
        "[A]+ ; [B]",
        "[A] ; [A] ; [B]",
        "[B] ; [B]",
    ]
    detectors = [subscribed(network, client, f"q{number}", each) for number, each in enumerate(patterns)]
    happen(network, client, "A", 1)
    busiest = max(network.nodes, key=lambda each: len(each.node.hosted)).name
    before = network.nodes[0].node.counts["events"]
    assert before >= 0 and node_of(network, busiest).node.hosted
    drain(network, busiest)
    assert not node_of(network, busiest).node.hosted
    entry = decode(network.retained[directory_topic("node", busiest)], NodeEntry, where="")
    assert entry.draining and not entry.common
    # New ones go elsewhere, also where the coordinator was this node.
    for number in range(6):
        new = subscribed(network, client, f"new{number}", f"[A] ; [B] within {number + 1}s")
        assert entry_of(network, new).node != busiest
    # And nothing is lost with it.
    node_of(network, busiest).stop()
    network.run()
    happen(network, client, "B", 2)
    for number, detector in enumerate(detectors):
        expected = {"q4": 0, "q5": 0}.get(f"q{number}", 1)
        assert len(client.composites(f"q{number}")) == expected, (patterns[number], detector)
    assert not client.losses


def test_replicas_leave_a_draining_node_and_others_take_their_place() -> None:
    network, client = prepared(nodes=3)
    detector = subscribed(network, client, "q", "[A] ; [B]", distribution="max-reliability")
    network.pass_time(3 * SECOND)
    hosts = network.hosts(detector)
    assert len(hosts) == 2
    happen(network, client, "A", 1)
    for each in hosts:
        drain(network, each)
        network.pass_time(3 * AGAIN)
        assert each not in network.hosts(detector)
        if each == hosts[0]:
            assert len(network.hosts(detector)) == 2
    # Of three nodes two drain: one is left, and it has the state.
    assert len(network.hosts(detector)) == 1
    happen(network, client, "B", 2)
    assert len(client.composites("q")) == 1 and not client.losses


def test_last_node_is_not_drained() -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    drain(network, "n1")
    drain(network, "n2")
    assert network.hosts(detector) == ["n2"]
    (note,) = [each for each in network.notes if each.event == "node not drained"]
    assert "no other node" in str(note.fields["reason"])
    # The first one takes part again, and the second one may go.
    drain(network, "n1", active=False)
    drain(network, "n2")
    assert network.hosts(detector) == ["n1"]


def test_detector_that_hints_tie_to_a_node_stays_and_is_logged_once() -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]", hints=Hints(nodes=("n1",)))
    drain(network, "n1")
    network.pass_time(4 * AGAIN)
    assert network.hosts(detector) == ["n1"]
    (note,) = [each for each in network.notes if each.event == "detector not drained"]
    assert note.fields["detector"] == detector


def test_node_that_starts_again_takes_part() -> None:
    network, client = prepared(nodes=2)
    drain(network, "n1")
    node_of(network, "n1").stop()
    network.run()
    network.now += SECOND
    network.node("n1")
    network.pass_time(SECOND)
    drain(network, "n2")
    assert network.hosts(subscribed(network, client, "q", "[A] ; [B]")) == ["n1"]


@pytest.mark.parametrize("seed", range(12))
def test_composite_events_do_not_depend_on_draining(seed: int) -> None:
    """Rolling restart of all nodes amid a stream."""
    network, client = prepared(seed, nodes=3)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("[A] ; [B]", {}),
        ("([A] ; [B]) ; [A]", {"decomposition": "full"}),
        ("[Fast] -> Out()", {"distribution": "max-reliability"}),
        ("[A as a] ; [B where k == a.k]", {}),
    ]
    for number, (pattern, quality) in enumerate(asked):
        subscribed(network, client, f"q{number}", pattern, **quality)
    at = 0
    for name in ("n1", "n2", "n3"):
        for step in range(6):
            at += 1
            happen(network, client, "AB"[at % 2], at)
            if step == 1:
                network.publish(administration_topic("drain", name), encode(Drain()))
            network.pass_time(network.random.choice((SECOND // 2, SECOND, 2 * SECOND)))
        network.pass_time(2 * AGAIN)
        assert not node_of(network, name).node.hosted, name
        node_of(network, name).stop()
        network.run()
        network.now += SECOND
        network.node(name)
        network.pass_time(SECOND)
    client.heartbeat(at + 1, "s")
    network.pass_time(5 * SECOND)
    found = [len(client.composites(f"q{number}")) for number in range(len(asked))]
    # 18 events, B first and A last: 9 of each in turn.
    assert found == FOUND and not client.losses


FOUND = [8, 8, 9, 8]

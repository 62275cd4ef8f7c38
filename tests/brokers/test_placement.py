"""Who hosts a detector: one node, the same while it lives, else another; and what nobody needs is cleared."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distced.brokers.core.directory import CONFIRM_WITHIN
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.membership import TAKE_OVER_AFTER
from distced.brokers.node.upstream import HELD_FOR
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Counters
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory import Change
from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry, NodeEntry
from distced.policies.distribution.choose.reconsider import DWELL
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

TYPES = [event_type("A", {"k": "number"}), event_type("B", {"k": "number"})]
PATTERNS = [f"[A where k == {number}] ; [B]" for number in range(12)]


# The choice.


def test_every_node_chooses_alike_and_the_loss_of_one_moves_only_what_it_hosted() -> None:
    names = [f"detector {number}" for number in range(600)]
    nodes = ["n1", "n2", "n3"]
    before = {name: chosen(name, nodes) for name in names}
    assert before == {name: chosen(name, reversed(nodes)) for name in names}
    assert min(Counter(before.values()).values()) > 150
    after = {name: chosen(name, ["n1", "n3"]) for name in names}
    assert {name for name in names if before[name] != after[name]} == {name for name in names if before[name] == "n2"}
    assert chosen("detector", []) is None
    assert chosen("detector", ["alone"]) == "alone"


# Nodes that come and go.


def prepared(seed: int, nodes: int = 3, patterns: int = 12) -> tuple[Network, VirtualClient]:
    network = Network(seed)
    for number in range(nodes):
        network.node(f"n{number + 1}")
    client = network.client("c")
    client.register(*TYPES)
    client.source("s", ["A", "B"])
    network.run()
    for number, pattern in enumerate(PATTERNS[:patterns]):
        client.subscribe(f"q{number}", pattern)
    network.run()
    return network, client


def test_detector_that_stays_is_considered_again_when_the_situation_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    network, client = prepared(1, patterns=1)
    ((_, name),) = placed(network, client).items()
    node = next(each.node for each in network.nodes if each.name == name)
    (hosted,) = node.hosted.values()
    considered: list[str] = []

    def stays(*arguments: object) -> None:
        considered.append(str(arguments[2]))

    monkeypatch.setattr("distced.brokers.node.placement.reconsider", stays)
    at = hosted.since + 2 * DWELL
    for _ in range(3):
        assert node.placement.reconsider(hosted, at) is None
    assert considered == [hosted.id]
    # Missing replicas alone are another question.
    node.placement.reconsider(hosted, at, replicas_only=True)
    assert considered == [hosted.id] * 2
    node.placement.changed(Change("load", "n1", LoadEntry(7.0), None))
    for _ in range(2):
        node.placement.reconsider(hosted, at, replicas_only=True)
    assert considered == [hosted.id] * 3


def placed(network: Network, client: VirtualClient) -> dict[str, str]:
    """The node of each subscription; every one has exactly one, which the directory names."""
    found = {}
    for identity in client.answers:
        detector = client.detector(identity)
        (host,) = network.hosts(detector)
        entry = decode(network.retained[network.detector_topic(detector)], DetectorEntry, where="")
        assert entry.node == host
        hosting = next(each.node for each in network.nodes if each.name == host)
        assert hosting.hosted[detector].running
        assert hosting.hosting.by_subscription[identity] == detector
        found[identity] = host
    entries = [topic for topic in network.retained if "/detector/" in topic]
    assert len(entries) == len({client.detector(identity) for identity in client.answers})
    return found


def works(network: Network, client: VirtualClient, at: int) -> None:
    """Whether everything is detected."""
    for number in range(len(client.answers)):
        client.do([])
        client.publish(Event("A", at, at, "s", 1000 * at + number, {"k": number}))
    client.publish(Event("B", at + 1, at + 1, "s", 1000 * at + 999, {"k": 0}))
    client.heartbeat(at + 1, "s")
    # Readers ask for the last messages of a lost node before they go on.
    network.pass_time(2 * SECOND)
    for identity in client.answers:
        assert any(each.hi == at + 1 for each in client.composites(identity)), identity


def named(network: Network, name: str) -> VirtualNode:
    return next(each for each in network.nodes if each.name == name)


@pytest.mark.parametrize("seed", range(5))
def test_subscription_is_hosted_by_one_node_and_stays_when_others_join(seed: int) -> None:
    network, client = prepared(seed)
    before = placed(network, client)
    assert set(before.values()) == {"n1", "n2", "n3"}
    network.node("n4")
    network.node("n5")
    network.pass_time(5 * SECOND)
    assert placed(network, client) == before
    works(network, client, 10)
    assert network.letters == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["lost", "stopped"])
def test_other_nodes_take_over_when_a_node_is_lost(seed: int, how: str) -> None:
    network, client = prepared(seed)
    before = placed(network, client)
    gone = named(network, "n2")
    if how == "lost":
        network.lose(gone, for_good=True)
        network.pass_time(2 * SECOND)
    else:
        gone.stop()
    after = placed(network, client)
    assert {name for name in before if before[name] != after[name]} == {n for n in before if before[n] == "n2"}
    assert "n2" not in after.values()
    works(network, client, 10)


@pytest.mark.parametrize("seed", range(10))
def test_last_node_comes_back_under_its_name_and_takes_up_its_detectors(seed: int) -> None:
    network, client = prepared(seed, nodes=1)
    network.lose(named(network, "n1"), for_good=True)
    # Some subscriptions end meanwhile: their detectors' entries are left over.
    for number in range(4):
        client.clear("subscription", f"q{number}")
        del client.answers[f"q{number}"]
    network.run()
    assert len([topic for topic in network.retained if "/detector/" in topic]) == 12
    network.node("n1")
    network.run()
    assert set(placed(network, client).values()) == {"n1"}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("will", [True, False])
def test_node_that_starts_again_under_its_name_finds_its_old_entries(seed: int, will: bool) -> None:
    """With the will the others have taken over meanwhile; without it nobody has noticed."""
    network, client = prepared(seed)
    old = named(network, "n2")
    if not will:
        old.will = None
    network.lose(old, for_good=True)
    network.some(network.random.randrange(60))
    network.node("n2")
    network.pass_time(3 * SECOND)
    after = placed(network, client)
    assert will or "n2" in after.values()
    works(network, client, 10)


@pytest.mark.parametrize("seed", range(36))
def test_subscription_is_hosted_once_after_any_coming_and_going(seed: int) -> None:
    random = Random(seed)
    network, client = prepared(seed, patterns=6)
    for _ in range(8):
        nodes = network.nodes
        match random.randrange(5):
            case 0 if len(nodes) > 1:
                network.lose(random.choice(nodes), for_good=True)
            case 1 if len(nodes) > 1:
                nodes[-1].do(nodes[-1].node.stop())
                network.run()
                network.participants.remove(nodes[-1])
            case 2:
                network.node(random.choice([f"n{n}" for n in range(9) if f"n{n}" not in [e.name for e in nodes]]))
            case 3:
                # A connection is lost, and comes back before or after the others have noticed.
                blinking = random.choice(nodes)
                network.lose(blinking)
                if random.random() < 0.5:
                    # Also what it was about to say.
                    blinking.out.clear()
                network.some(random.randrange(40))
                blinking.connect()
            case _:
                identity = f"x{len(client.answers)}"
                client.subscribe(identity, f"[B where k == {len(client.answers)}] ; [B]")
        network.some(random.randrange(80))
    # Who was away may have missed that another has gone.
    network.pass_time(CONFIRM_WITHIN + 5 * SECOND)
    placed(network, client)


@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_host_one_detector_agree_on_a_host(seed: int) -> None:
    network, client = prepared(seed, nodes=2, patterns=4)
    before = placed(network, client)
    split = named(network, "n1")
    # Cut off without the other noticing that it is back: both host everything for a moment.
    network.lose(split)
    network.pass_time(2 * SECOND)
    assert set(placed_elsewhere(network, client)) == {"n2"}
    assert {name for name, host in before.items() if host == "n1"}
    split.connect()
    network.run()
    # Which one it is depends on what arrives first.
    assert set(placed(network, client)) == set(before)
    works(network, client, 10)


def placed_elsewhere(network: Network, client: VirtualClient) -> list[str]:
    entries = [network.retained[network.detector_topic(client.detector(each))] for each in client.answers]
    return [decode(each, DetectorEntry, where="").node for each in entries]


# Entries nobody stands behind.


def stale(node: str) -> bytes:
    return encode(DetectorEntry(node, "[A] -> Ghost()", "guaranteed", ("A",), "Ghost", {}))


def test_unneeded_entries_of_lost_nodes_are_cleared() -> None:
    network = Network()
    network.publish("ced/d/detector/Ghost/c1", stale("lost"), retain=True)
    network.publish("ced/d/detector/Ghost/c2", stale("n1"), retain=True)
    for name in ("n1", "n2"):
        network.node(name)
    network.run()
    assert [topic for topic in network.retained if "/detector/" in topic] == []


def test_reader_waits_for_a_detector_of_a_lost_node_for_a_while() -> None:
    network, client = prepared(1, nodes=1, patterns=0)
    client.register(event_type("Ghost"))
    for number in range(6):
        client.subscribe(f"q{number}", f"[Ghost] | [A where k == {number}]")
    network.run()
    here = list(placed_by(client))
    network.publish("ced/d/node/other", encode(NodeEntry(0)), retain=True)
    network.publish("ced/d/detector/Ghost/c1", stale("other"), retain=True)
    network.run()
    client.heartbeat(5, "s")
    network.run()
    assert not any(client.watermarks.get(each) == 5 for each in here)
    network.publish("ced/d/node/other", b"", retain=True)
    network.pass_time(2 * SECOND)
    # Another node may take it over.
    assert not any(client.watermarks.get(each) == 5 for each in here)
    network.pass_time(HELD_FOR)
    assert [client.watermarks[each] for each in here] == [5] * len(here)


def placed_by(client: VirtualClient) -> dict[str, str]:
    """The node that has served each subscription last, by its answers."""
    return {identity: answers[-1].node for identity, answers in client.answers.items()}


def test_entry_cleared_by_mistake_is_published_again() -> None:
    network, client = prepared(0, nodes=2, patterns=2)
    before = placed(network, client)
    for identity in client.answers:
        network.publish(network.detector_topic(client.detector(identity)), b"", retain=True)
    network.publish("ced/d/node/n1", b"", retain=True)
    network.run()
    assert "ced/d/node/n1" in network.retained
    after = placed(network, client)
    assert set(after) == set(before)


# Connections and servers that are lost.


def test_node_that_was_away_forgets_what_was_cleared_meanwhile() -> None:
    network, client = prepared(0, nodes=1, patterns=2)
    client.source("t", ["A", "B"])
    network.run()
    node = named(network, "n1")
    node.will = None
    network.lose(node)
    client.clear("subscription", "q0")
    client.clear("source", "t")
    del client.answers["q0"]
    network.run()
    node.connect()
    network.run()
    assert len(node.node.hosted) == 2
    network.pass_time(CONFIRM_WITHIN + 3 * SECOND)
    assert len(node.node.hosted) == 1
    client.heartbeat(9, "s")
    network.run()
    assert client.watermarks["q1"] == 9
    placed(network, client)


@pytest.mark.parametrize("seed", range(10))
def test_nodes_continue_after_the_server_forgets(seed: int) -> None:
    network, client = prepared(seed, patterns=4)
    before = placed(network, client)
    client.publish(Event("A", 1, 1, "s", 1, {"k": 0}))
    network.run()
    network.restart()
    participants = list(network.participants)
    network.random.shuffle(participants)
    for each in participants:
        each.connect()
        network.some(network.random.randrange(30))
        network.pass_time(SECOND)
    client.publish(Event("B", 2, 2, "s", 2, {"k": 0}))
    client.heartbeat(2, "s")
    network.run()
    # What had been matched before goes on.
    assert [(each.lo, each.hi) for each in client.composites("q0")] == [(1, 2)]
    network.pass_time(2 * CONFIRM_WITHIN)
    assert placed(network, client) == before
    assert {topic for topic in network.retained if "/type/" in topic} == {"ced/d/type/A", "ced/d/type/B"}
    works(network, client, 10)


def test_node_compares_its_detectors_with_the_directory() -> None:
    network, client = prepared(0, nodes=2, patterns=6)
    moved = [client.detector(each) for each, host in placed(network, client).items() if host == "n1"]
    network.lose(named(network, "n1"), for_good=True)
    survivor = named(network, "n2")
    network.run()
    network.now += TAKE_OVER_AFTER
    survivor.tick()
    while not all(each in survivor.node.hosted for each in moved):
        assert network.step()
    # It has taken over, and nobody gets to know.
    survivor.out.clear()
    network.lose(survivor)
    survivor.connect()
    network.run()
    assert set(placed_elsewhere(network, client)) == {"n2"}
    network.restart()
    for each in network.participants:
        each.connect()
    network.run()
    assert set(placed_elsewhere(network, client)) == {"n2"}


@pytest.mark.parametrize("seed", range(20))
def test_server_may_take_messages_before_subscriptions(seed: int) -> None:
    network = Network(seed, hasty=True)
    client = network.client("c")
    client.register(*TYPES)
    network.run()
    for number, pattern in enumerate(PATTERNS[:4]):
        client.subscribe(f"q{number}", pattern)
    network.node("n1")
    network.node("n2")
    network.pass_time(5 * SECOND)
    placed(network, client)


def test_node_publishes_its_entry_when_it_changes() -> None:
    network, client = prepared(0, nodes=1, patterns=1)
    network.pass_time(3 * SECOND)
    entry = decode(network.retained["ced/d/node/n1"], NodeEntry, where="")
    counts = decode(network.retained["ced/a/counters/n1"], Counters, where="").counts
    assert (entry.detectors, entry.counts, counts["events"]) == (1, {}, 0)
    works(network, client, 5)
    network.pass_time(3 * SECOND)
    assert decode(network.retained["ced/d/node/n1"], NodeEntry, where="") == entry
    counts = decode(network.retained["ced/a/counters/n1"], Counters, where="").counts
    assert (counts["events"], counts["composite events"]) == (2, 1)

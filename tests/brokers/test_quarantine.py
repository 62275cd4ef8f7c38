"""Quarantine: a node does not read the entries of a client that floods the directory, and others notice nothing."""

from __future__ import annotations

import pytest

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node import quarantine
from distced.brokers.node.node import Node
from distced.brokers.node.quarantine import EARLIEST, LONGEST, SHORTEST
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answers
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.topics import directory_topic
from tests.support.virtual_nodes import Network, VirtualClient, VirtualNode

A = event_type("A", {"k": "number"})
ALL = "ced/d/#"
OF_HOSTILE = "ced/d/subscription/hostile/+"


def filters(effects: list[Effect]) -> list[tuple[bool, str, bool]]:
    """Filters subscribed to (with those retained or not) and unsubscribed from."""
    return [
        (isinstance(each, Subscribe), each.topic_filter, isinstance(each, Subscribe) and each.retained)
        for each in effects
        if isinstance(each, Subscribe | Unsubscribe)
    ]


def entry(name: str, pattern: str = "[A]") -> tuple[str, bytes]:
    return directory_topic("subscription", name), encode(SubscriptionEntry(name.rpartition(".")[0], pattern))


def entries(client: str, count: int, start: int = 0) -> list[tuple[str, bytes]]:
    return [entry(f"{client}.{number}", f"[A where k == {number}]") for number in range(start, start + count)]


def settled_node(limit: int) -> Node:
    node = Node("n", 0, limits=SubscriptionLimits(limit), validate=True)
    effects = node.start(0)
    while own := [
        (each.topic, each.payload)
        for each in effects
        if isinstance(each, Publish) and each.topic.startswith(("ced/d/", "ced/a/known/n"))
    ]:
        effects = node.receive_all(own, 0)
    node.receive_all([(directory_topic("type", "A"), encode(A)), *entries("other", 1)], 0)
    return node


# A crowd.


def test_client_with_a_crowd_beyond_its_limit_is_not_read_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "EXCESS", 10)
    node = settled_node(20)
    # The first of a crowd wait among the messages of all.
    assert not filters(node.receive_all(entries("hostile", 16 + 30), 1, at_once=0))
    effects = node.receive_all(entries("hostile", 1, 46), 1, at_once=0)
    added = [topic_filter for subscribed, topic_filter, _ in filters(effects) if subscribed]
    assert filters(effects) == [*((True, each, False) for each in added), (False, ALL, False)]
    assert "ced/d/subscription/other/+" in added and "ced/d/subscription/+" in added and "ced/d/client/#" in added
    assert OF_HOSTILE not in added and not any(each.startswith("ced/d/subscription/#") for each in added)
    (note,) = [each for each in effects if isinstance(each, Note) and each.event == "client quarantined"]
    assert (note.fields["client"], note.fields["seconds"]) == ("hostile", 60)
    (payload,) = [each.payload for each in effects if isinstance(each, Publish) and "answer" in each.topic]
    (answer,) = decode(payload, Answers, where="answer").answers
    assert (answer.subscription, answer.state, answer.limited) == ("", "refused", True)
    assert "it is read again in 60 s" in answer.message
    # What is on its way still is not kept; what others ask for is, and the client's own entry.
    waiting = node.waiting
    itself = (directory_topic("client", "hostile"), encode(ClientEntry(0)))
    node.receive_all([*entries("hostile", 500, 100), entry("other.1"), itself], 2, at_once=0)
    assert node.waiting == waiting + 2
    while node.waiting:
        node.serve(3)
    known = node.directory.subscriptions
    assert sum(name.startswith("hostile.") for name in known) == 20 and "other.1" in known
    assert node.counts["clients quarantined"] == 1 and node.counts["subscriptions refused"] == 27


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([*entries("c", 16), *entries("c", 30)], id="as many as the limit and the excess"),
        pytest.param([*entries("c", 16), *((topic, b"") for topic, _ in entries("c", 200))], id="ends"),
        pytest.param([each for client in "cdef" for each in entries(client, 40)], id="four clients"),
    ],
)
def test_client_within_its_limit_is_read(messages: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "EXCESS", 10)
    assert not filters(settled_node(20).receive_all(messages, 1, at_once=0))


def test_crowds_that_have_passed_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "EXCESS", 10)
    node = settled_node(20)
    for begin in range(0, 200, 40):
        assert not filters(node.receive_all(entries("c", 40, begin), 1, at_once=0))
        while node.waiting:
            node.serve(2)
    assert node.counts["subscriptions refused"] == 180


def test_what_the_server_has_retained_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "EXCESS", 10)
    node = settled_node(20)
    node.start(1)
    assert not filters(node.receive_all(entries("c", 500), 2, at_once=0))


# Others, and the end.


class System:
    """Two nodes, a client in quarantine at both, and another."""

    def __init__(self, seed: int = 0) -> None:
        self.network = Network(seed)
        self.nodes: list[VirtualNode] = [self.network.node("one"), self.network.node("two.b")]
        self.hostile, self.other = self.network.client("hostile"), self.network.client("other")
        self.other.register(A)
        self.network.run()
        for number in range(4):
            self.subscribe(self.hostile, number)
            self.subscribe(self.other, number)
        self.network.run()
        assert self.active(self.hostile) == self.active(self.other) == [0, 1, 2, 3]

    def subscribe(self, client: VirtualClient, number: int) -> None:
        client.subscribe(f"{client.name}.{number}", f"[A where k == {number}] ; [A]")

    def end(self, client: VirtualClient, number: int) -> None:
        client.clear("subscription", f"{client.name}.{number}")

    def quarantine(self, *nodes: VirtualNode) -> None:
        for each in nodes or self.nodes:
            each.do(each.node.quarantine_all(["hostile"], self.network.now))
        self.network.run()

    def active(self, client: VirtualClient) -> list[int]:
        """Numbers of its subscriptions that nodes serve."""
        names = {name for each in self.nodes for name in each.node.hosting.by_subscription}
        return [number for number in range(10) if f"{client.name}.{number}" in names]

    def read_by(self, node: VirtualNode) -> set[str]:
        return {each for each in node.filters if each.startswith("ced/d/")}


@pytest.mark.parametrize("seed", range(5))
def test_others_begin_end_and_change_while_a_client_is_quarantined(seed: int) -> None:
    system = System(seed)
    system.quarantine()
    assert all(ALL not in each.filters and OF_HOSTILE not in each.filters for each in system.nodes)
    system.subscribe(system.other, 4)
    system.end(system.other, 0)
    new = system.network.client("new.one")
    system.network.run()
    system.subscribe(new, 5)
    system.subscribe(system.hostile, 6)
    system.end(system.hostile, 1)
    system.network.run()
    system.network.pass_time(5 * SECOND)
    assert system.active(system.other) == [1, 2, 3, 4] and system.active(new) == [5]
    # Its served subscriptions go on.
    assert system.active(system.hostile) == [0, 1, 2, 3]
    new.clear("subscription", "new.one.5")
    system.network.run()
    system.network.lose(new, for_good=True)
    system.network.run()
    # Its filter goes with the client.
    assert system.active(new) == []
    assert all("ced/d/subscription/new.one/+" not in each.filters for each in system.nodes)


@pytest.mark.parametrize("seed", range(5))
def test_entries_of_the_time_between_are_read_at_the_end(seed: int) -> None:
    system = System(seed)
    system.quarantine()
    system.subscribe(system.hostile, 6)
    system.end(system.hostile, 1)
    system.network.run()
    system.network.pass_time(SHORTEST - SECOND)
    assert system.active(system.hostile) == [0, 1, 2, 3]
    system.network.pass_time(3 * SECOND)
    assert system.active(system.hostile) == [0, 1, 2, 3, 6]
    assert [each.event for each in system.network.notes].count("client readmitted") == 2
    assert all(system.read_by(each) == {ALL} for each in system.nodes)
    # An entry that was cleared is known by not coming back.
    system.network.pass_time(40 * SECOND)
    assert system.active(system.hostile) == [0, 2, 3, 6] and len(system.active(system.other)) == 4


def test_nodes_read_the_parts_of_others_during_a_quarantine() -> None:
    system = System()
    system.quarantine()
    # Of a pattern that is cut, also at a node with a dot in its name.
    for number in range(6):
        name = f"other.cut{number}"
        pattern = f"([A where k == {number}] ; [A where k == {number + 1}]) ; [A where k == {number + 2}]"
        system.other.subscribe(name, pattern, decomposition="full")
    system.network.run()
    system.network.pass_time(5 * SECOND)
    assert all(system.other.states(f"other.cut{number}")[-1] == "active" for number in range(6))
    parts = {name for each in system.nodes for name in each.node.directory.subscriptions if " " in name}
    assert parts and {name.rpartition(" ")[2] for name in parts} == {"one", "two%2Eb"}


def test_quarantine_ends_early_when_its_client_ends() -> None:
    system = System()
    system.quarantine()
    for number in range(4):
        system.end(system.hostile, number)
    system.network.run()
    system.network.lose(system.hostile, for_good=True)
    system.network.run()
    system.network.pass_time(EARLIEST - SECOND)
    assert len(system.active(system.hostile)) == 4
    system.network.pass_time(40 * SECOND)
    assert system.active(system.hostile) == [] and all(system.read_by(each) == {ALL} for each in system.nodes)


def test_further_quarantines_are_longer_up_to_a_limit() -> None:
    node = settled_node(20)
    lengths, now = [], 0
    for _ in range(9):
        effects = node.quarantine_all(["hostile"], now)
        assert node.quarantine_all(["hostile"], now) == []
        lengths += [each.fields["seconds"] for each in effects if isinstance(each, Note)]
        now += LONGEST
        node.tick(now)
    assert lengths == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    # It is forgotten after a while.
    now += LONGEST + SECOND
    node.tick(now)
    (note,) = [each for each in node.quarantine_all(["hostile"], now) if isinstance(each, Note)]
    assert note.fields["seconds"] == 60


def test_two_clients_in_quarantine_are_readmitted_one_by_one() -> None:
    node = settled_node(20)
    node.quarantine_all(["hostile"], 0)
    effects = node.quarantine_all(["other"], SECOND)
    assert filters(effects) == [(False, "ced/d/subscription/other/+", False)]
    assert filters(node.tick(SHORTEST)) == [(True, OF_HOSTILE, True)]
    last = filters(node.tick(SHORTEST + SECOND))
    assert last[:2] == [(True, "ced/d/subscription/other/+", True), (True, ALL, False)]
    assert {(False, "ced/d/subscription/other/+", False), (False, OF_HOSTILE, False)} <= set(last[2:])


def test_new_connection_reads_everything() -> None:
    system = System()
    system.quarantine()
    system.subscribe(system.hostile, 6)
    system.network.run()
    for each in system.nodes:
        system.network.lose(each)
        each.connect()
    system.network.run()
    system.network.pass_time(10 * SECOND)
    assert all(system.read_by(each) == {ALL} for each in system.nodes)
    assert system.active(system.hostile) == [0, 1, 2, 3, 6]

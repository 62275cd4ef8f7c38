"""Quarantine: a node does not read the entries of a client that floods the directory, and others notice nothing."""

from __future__ import annotations

from random import Random

import pytest

from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node import quarantine
from distced.brokers.node.node import Node
from distced.brokers.node.quarantine import EARLIEST, LINGERING, LONGEST, SHORTEST
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answers
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.topics import client_of, directory_topic, parse_topic
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
        # An answer may come before its client knows the subscription; it is repeated.
        self.network.pass_time(4 * SECOND)
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
    # Its filter goes with the client, after a moment.
    assert system.active(new) == []
    assert all("ced/d/subscription/new.one/+" in each.filters for each in system.nodes)
    system.network.pass_time(LINGERING)
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


def test_filter_of_a_client_stays_while_it_returns() -> None:
    node = settled_node(20)
    topic = directory_topic("client", "other")
    node.receive_all([(topic, encode(ClientEntry(0))), (entry("other.0")[0], b"")], 0)
    while node.waiting:
        node.serve(0)
    node.quarantine_all(["hostile"], 0)
    for now in (1, 2):
        # What it has published before its end, or behind its return, may be under way.
        assert not filters(node.receive_all([(topic, b"")], now * SECOND))
        assert not filters(node.tick(now * SECOND))
        assert not filters(node.receive_all([(topic, encode(ClientEntry(now)))], now * SECOND))
    assert not filters(node.tick(2 * LINGERING))
    node.receive_all([(topic, b"")], 2 * LINGERING)
    assert filters(node.tick(3 * LINGERING)) == [(False, "ced/d/subscription/other/+", False)]
    # Where it returns later, all that the server has is new.
    returns = filters(node.receive_all([(topic, encode(ClientEntry(3)))], 3 * LINGERING))
    assert returns == [(True, "ced/d/subscription/other/+", True)]


def test_subscriptions_whose_names_have_no_client_are_read_on() -> None:
    node = settled_node(20)
    alarm, same = directory_topic("subscription", "alarm"), directory_topic("subscription", "hostile")
    of_hostile = encode(SubscriptionEntry("hostile", "[A]"))
    node.receive_all([*entries("hostile", 2), (alarm, of_hostile)], 0)
    node.quarantine_all(["hostile"], 0)
    # Also one whose name is the client's; and they are not awaited with the entries of the client afterwards.
    node.receive_all([entry("hostile.7"), (same, of_hostile)], 1, at_once=0)
    node.serve(1)
    assert node.directory.subscriptions.keys() == {"other.0", "hostile.0", "hostile.1", "alarm", "hostile"}
    node.tick(SHORTEST)
    node.receive_all(entries("hostile", 1), SHORTEST)
    node.tick(SHORTEST + 40 * SECOND)
    assert node.directory.subscriptions.keys() == {"other.0", "hostile.0", "alarm", "hostile"}


def test_entries_that_wait_after_a_quarantine_are_not_cleared() -> None:
    node = settled_node(20)
    node.receive_all(entries("hostile", 2), 0)
    node.quarantine_all(["hostile"], 0)
    node.tick(SHORTEST)
    node.receive_all(entries("hostile", 2), SHORTEST, at_once=0)
    for late in (31, 60):
        node.tick(SHORTEST + late * SECOND)
    assert node.directory.by_client["hostile"].keys() == {"hostile.0", "hostile.1"}


LONG = "$" * 60_000
"""Name of a client that fits no filter once it is encoded, nor the topic of an answer."""


@pytest.mark.parametrize(
    "message",
    [
        pytest.param((f"ced/d/client/{LONG}", encode(ClientEntry(0))), id="client"),
        pytest.param(
            (f"ced/d/subscription/{LONG}/1", encode(SubscriptionEntry("other", "[A]"))), id="name of a subscription"
        ),
        pytest.param(
            (directory_topic("subscription", "other.1"), encode(SubscriptionEntry(LONG, "[A]"))), id="subscription"
        ),
    ],
)
def test_names_that_fit_no_topic_prevent_no_quarantine(message: tuple[str, bytes]) -> None:
    node = settled_node(20)
    node.receive_all([message], 0)
    assert node.quarantine_all([LONG], 0) == []
    begun = filters(node.quarantine_all(["hostile"], 0))
    assert (True, "ced/d/subscription/other/+", False) in begun and begun[-1] == (False, ALL, False)
    node.receive_all([(message[0], b""), message], 1)
    assert (True, ALL, False) in filters(node.tick(SHORTEST))


class Disorder:
    """A system in which clients, nodes, quarantines and lost connections interleave at random."""

    def __init__(self, seed: int) -> None:
        self.network = Network(seed, hasty=seed % 4 == 0)
        self.random = self.network.random
        for name in ("one", "two.b"):
            self.network.node(name)
        self.clients = {name: self.network.client(name) for name in ("hostile", "other", "new.one")}
        self.clients["other"].register(A)
        self.network.run()
        self.own: set[str] = set()
        self.made = 0

    def subscribe(self) -> None:
        client = self.random.choice(list(self.clients.values()))
        self.made += 1
        identity = f"{client.name}.{self.made}"
        cut = {"decomposition": "full"} if self.random.random() < 0.2 else {}
        client.subscribe(identity, f"[A where k == {self.made % 7}] ; [A]", **cut)
        self.own.add(identity)

    def end(self) -> None:
        if known := sorted(each for each in self.own if each.rpartition(".")[0] in self.clients):
            identity = self.random.choice(known)
            self.own.discard(identity)
            self.clients[identity.rpartition(".")[0]].clear("subscription", identity)

    def administer(self) -> None:
        """Somebody else publishes or clears an entry."""
        if self.random.random() < 0.5 and (known := sorted(self.retained("subscription"))):
            self.network.publish(directory_topic("subscription", self.random.choice(known)), b"", retain=True)
        else:
            topic = directory_topic("subscription", self.random.choice(("hostile", "alarm")))
            self.network.publish(topic, encode(SubscriptionEntry("administrator", "[A]")), retain=True)

    def leave(self) -> None:
        if len(self.clients) > 1:
            name = self.random.choice(sorted(self.clients))
            self.network.lose(self.clients.pop(name), for_good=True)
            self.own = {each for each in self.own if each.rpartition(".")[0] != name}

    def arrive(self) -> None:
        name = self.random.choice(("hostile", "other", "new.one", "x y", "a/b"))
        if name not in self.clients:
            self.clients[name] = self.network.client(name)

    def replace_node(self) -> None:
        nodes = self.network.nodes
        if len(nodes) > 2:
            self.network.lose(self.random.choice(nodes), for_good=True)
        else:
            self.made += 1
            self.network.node(f"n{self.made}")

    def reconnect(self) -> None:
        lost = self.random.choice(self.network.participants)
        self.network.lose(lost)
        self.network.some(self.random.randrange(20))
        lost.connect()

    def quarantine(self) -> None:
        client = self.random.choice(("hostile", "hostile", "other", "a/b"))
        for each in self.network.nodes:
            if self.random.random() < 0.7:
                each.do(each.node.quarantine_all([client], self.network.now))

    def pass_time(self) -> None:
        self.network.pass_time(self.random.choice((1, 3, 10, 31)) * SECOND)

    def retained(self, kind: str) -> set[str]:
        topics = [each for each in self.network.retained if each.startswith(f"ced/d/{kind}/")]
        return {parse_topic(each).levels[1] for each in topics}

    def check(self) -> None:
        """Nodes know what the server retains, but of clients in quarantine, and what is still to be delivered again."""
        for each in self.network.nodes:
            node = each.node
            for kind in ("type", "client", "node", "detector", "subscription"):
                for name in self.retained(kind) ^ set(node.directory.table(kind)):
                    unread = kind == "subscription" and client_of(name) in node.quarantine
                    assert unread or (kind, name) in node.directory.unconfirmed, (each.name, kind, name)


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(each, marks=pytest.mark.properties) for each in range(25, 1000, 25))]
)
def test_no_entry_is_missed_whatever_interleaves(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "EARLIEST", SECOND)
    monkeypatch.setattr(quarantine, "LONGEST", 20 * SECOND)
    for seed in range(start, start + 25):
        monkeypatch.setattr(quarantine, "SHORTEST", Random(seed).choice((2, 5, 20)) * SECOND)
        system = Disorder(seed)
        steps = [
            *(system.subscribe,) * 3,
            *(system.end, system.quarantine) * 2,
            *(system.administer, system.leave, system.arrive, system.replace_node, system.reconnect, system.pass_time),
        ]
        for _ in range(system.random.randrange(10, 40)):
            system.random.choice(steps)()
            if system.random.random() < 0.6:
                system.network.some(system.random.randrange(30))
            else:
                system.network.run()
                system.check()
        system.network.run()
        system.network.pass_time(100 * SECOND)
        assert all(
            {name for name in each.filters if name.startswith("ced/d/")} == {ALL} for each in system.network.nodes
        )
        system.check()
        served = {name for each in system.network.nodes for name in each.node.hosting.by_subscription}
        assert served == system.retained("subscription") and not system.network.letters


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

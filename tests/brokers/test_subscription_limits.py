"""Limits of subscriptions, and the queue of requests at a node: one client leaves room and time for the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node.node import Node
from distced.brokers.node.refusals import CLIENTS_LOGGED, LOGGED_EVERY
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer, Answers, Listening
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import SubscriptionEntry
from distced.middleware.wire.topics import directory_topic
from tests.support.virtual_nodes import Network

A = event_type("A", {"k": "number", "v": "string"})
B = event_type("B", {"k": "number"})


class Alone:
    """A node with a server that delivers what it publishes about itself; messages come in batches.

    Attributes:
        effects: those of the last call that are no messages to itself.
    """

    def __init__(self, limit: int, of_all: int = 1000, pattern_length: int = 1000) -> None:
        self.node = Node("n", 0, limits=SubscriptionLimits(limit, of_all, pattern_length), validate=True)
        self.now = 0
        self.effects: list[Effect] = []
        self._take(self.node.start(0))
        self.receive(("ced/d/type/A", encode(A)))

    def _take(self, effects: Iterable[Effect]) -> None:
        self.effects = []
        waiting = list(effects)
        while waiting:
            self.effects += waiting
            own = [
                (each.topic, each.payload)
                for each in waiting
                if isinstance(each, Publish) and each.topic.startswith(("ced/d/", "ced/a/known/n", "ced/a/node/n"))
            ]
            waiting = self.node.receive_all(own, self.now) if own else []

    def receive(self, *messages: tuple[str, bytes]) -> None:
        self._take(self.node.receive_all(messages, self.now))

    def serve(self, count: int = 1) -> None:
        """Serve some requests."""
        for _ in range(count):
            self._take(self.node.serve(self.now, lambda: False))

    def serve_all(self) -> None:
        self._take(self.node.serve(self.now))

    def pass_time(self, duration: int) -> None:
        self.now += duration
        self._take(self.node.tick(self.now))

    def answers(self, client: str) -> list[Answer]:
        payloads = [
            each.payload
            for each in self.effects
            if isinstance(each, Publish) and each.topic == f"ced/a/answer/{client}"
        ]
        return [answer for each in payloads for answer in decode(each, Answers, where=client).answers]

    def cleared(self) -> list[str]:
        return [each.topic for each in self.effects if isinstance(each, Publish) and each.retain and not each.payload]

    def logged(self) -> list[tuple[object, object]]:
        """Clients and numbers of the refusals that were logged."""
        found = [each for each in self.effects if isinstance(each, Note) and each.event == "subscriptions refused"]
        return [(each.fields["client"], each.fields["number"]) for each in found]


def asked(client: str, numbers: Iterable[int], pattern: str = "[A where k == {}]") -> list[tuple[str, bytes]]:
    """Entries of subscriptions, with their topics."""
    return [
        (directory_topic("subscription", f"{client}.{each}"), encode(SubscriptionEntry(client, pattern.format(each))))
        for each in numbers
    ]


def ended(client: str, numbers: Iterable[int]) -> list[tuple[str, bytes]]:
    return [(topic, b"") for topic, _ in asked(client, numbers)]


# Refusals.


def test_refusals_of_a_batch_go_in_one_answer_before_the_entries_are_cleared() -> None:
    alone = Alone(limit=3)
    # Not even the pattern of those beyond is read.
    alone.receive(*asked("greedy", range(3)), *asked("greedy", range(3, 10), "[A where"), *asked("other", [9]))
    (answer,) = alone.answers("greedy")
    assert (answer.state, answer.node) == ("refused", "n")
    assert [answer.subscription, *answer.others] == [f"greedy.{number}" for number in range(3, 10)]
    assert answer.message == (
        "too many subscriptions of one client: greedy (allowed: 3); end some, subscribe to patterns that find what "
        "several do, or start nodes with --max-subscriptions"
    )
    assert answer.error["allowed"] == "3" and not alone.cleared()
    assert alone.logged() == [("greedy", 7)]
    assert sorted(alone.node.directory.subscriptions) == ["greedy.0", "greedy.1", "greedy.2", "other.9"]
    assert alone.node.counts["subscriptions refused"] == 7
    alone.serve()
    assert not alone.cleared()
    alone.pass_time(1)
    assert alone.cleared() == [topic for topic, _ in asked("greedy", range(3, 10))]
    alone.serve_all()
    assert not alone.node.waiting and len(alone.node.hosted) == 4
    assert not alone.node.story("greedy.5") and alone.node.story("greedy.1")


@pytest.mark.parametrize("client", ["", "c" * 70_000])
def test_client_without_a_topic_for_answers_is_malformed_beyond_the_limit_too(client: str) -> None:
    alone = Alone(limit=1)
    alone.receive(*asked("greedy", [0]))
    entry = encode(SubscriptionEntry(client, "[A where " + "k < 1 and " * 200 + "k < 2]"))
    alone.receive((directory_topic("subscription", "greedy.1"), entry), *asked("greedy", [2]))
    # Others are refused and served, now and later.
    assert [each.subscription for each in alone.answers("greedy")] == ["greedy.2"]
    assert alone.node.dead_letters.counts == {"malformed": 1}
    alone.pass_time(1)
    assert alone.cleared() == [directory_topic("subscription", "greedy.2")]


def test_queued_subscriptions_count_and_those_that_end_free_their_places() -> None:
    alone = Alone(limit=3)
    alone.receive(*asked("greedy", range(3)), *ended("greedy", [1]), *asked("greedy", [3, 4]))
    assert [each.subscription for each in alone.answers("greedy")] == ["greedy.4"]
    # One that was not served needs no request to end.
    assert len(alone.node.admission.queue) == 3
    alone.serve_all()
    assert len(alone.node.hosted) == 3
    alone.receive(*ended("greedy", [0, 2, 3]), *asked("greedy", [5]))
    assert not alone.answers("greedy")
    assert list(alone.node.directory.subscriptions) == ["greedy.5"] and len(alone.node.hosted) == 3
    alone.serve_all()
    assert alone.node.hosting.by_subscription.keys() == {"greedy.5"} and len(alone.node.hosted) == 1


def test_entry_that_is_refused_and_comes_again_is_not_cleared() -> None:
    alone = Alone(limit=1)
    alone.receive(*asked("greedy", [0, 1]))
    alone.receive(*ended("greedy", [0]), *asked("greedy", [1]))
    alone.serve_all()
    assert not alone.cleared() and alone.node.hosting.by_subscription.keys() == {"greedy.1"}
    # So is one that its client clears itself.
    alone.receive(*asked("greedy", [2, 3]), *ended("greedy", [2]))
    alone.serve_all()
    alone.pass_time(1)
    assert alone.cleared() == [topic for topic, _ in asked("greedy", [3])]


def test_refused_entry_is_cleared_at_the_topic_where_it_is() -> None:
    alone = Alone(limit=1)
    ((_, entry),) = asked("greedy", [1])
    alone.receive(*asked("greedy", [0]), ("ced/d/subscription/gr%65edy/1", entry))
    alone.pass_time(1)
    assert alone.cleared() == ["ced/d/subscription/gr%65edy/1"]


def test_refusals_are_logged_seldom_with_their_number() -> None:
    alone = Alone(limit=1)
    reported: list[tuple[object, object]] = []
    for number in range(5):
        alone.receive(*asked("greedy", range(10 * number, 10 * number + 10)))
        reported += alone.logged()
        alone.pass_time(SECOND)
        reported += alone.logged()
    assert reported == [("greedy", 9)]
    alone.pass_time(LOGGED_EVERY)
    assert alone.logged() == [("greedy", 40)]
    alone.pass_time(LOGGED_EVERY)
    assert alone.logged() == []
    # However many names a client takes.
    alone = Alone(limit=1)
    names = [f"greedy{number}" for number in range(CLIENTS_LOGGED + 20)]
    alone.receive(*(each for name in names for each in asked(name, [1, 2])))
    reported = alone.logged()
    alone.pass_time(2 * LOGGED_EVERY)
    reported += alone.logged()
    assert reported == [*((name, 1) for name in names[:CLIENTS_LOGGED]), ("several others", 20)]


def test_client_with_the_name_of_an_absent_node_has_the_limit_of_a_client() -> None:
    alone = Alone(limit=2)
    alone.receive(*asked("node:x", range(5)), *asked("node:n", range(5, 10)))
    assert [each.subscription for each in alone.answers("node:x")] == ["node:x.2"]
    assert len(alone.node.directory.subscriptions) == 2 + 5


# The queue.


def test_others_are_served_between_the_requests_of_a_client_with_many() -> None:
    alone = Alone(limit=100)
    alone.receive(*asked("greedy", range(50)), *asked("other", range(2)), *asked("third", [0]))
    alone.serve(6)
    assert list(alone.node.hosting.by_subscription) == [
        "greedy.0", "other.0", "third.0", "greedy.1", "other.1", "greedy.2",
    ]  # fmt: skip
    alone.receive(("ced/a/ready/other", encode(Listening(("other.0", "nobody.1")))), *asked("other", [9]))
    alone.serve(2)
    assert alone.node.hosted[alone.node.hosting.by_subscription["other.0"]].running
    alone.serve_all()
    assert [each for each in alone.node.hosting.by_subscription if each.startswith("greedy")] == [
        f"greedy.{number}" for number in range(50)
    ]


@pytest.mark.parametrize("again", [False, True])
def test_subscription_that_ends_while_requests_wait_leaves_nothing(again: bool) -> None:
    alone = Alone(limit=100)
    alone.receive(*asked("c", [1]))
    alone.serve_all()
    before = alone.node.hosting.by_subscription["c.1"]
    detector = alone.node.hosted[before]
    alone.receive(("ced/a/ready/c", encode(Listening(("c.1",)))), *ended("c", [1]), *(asked("c", [1]) if again else ()))
    alone.serve_all()
    # Its matches so far are gone, as it had ended.
    assert alone.node.hosted.get(before) is not detector
    assert alone.node.hosting.by_subscription == ({"c.1": before} if again else {})


def test_offers_of_a_client_that_never_listens_are_repeated_in_its_turn() -> None:
    alone = Alone(limit=100)
    alone.receive(*asked("deaf", range(20)), *asked("other", [30]))
    alone.serve_all()
    alone.receive(("ced/a/ready/other", encode(Listening(("other.30",)))))
    alone.serve_all()
    alone.pass_time(3 * SECOND)
    assert not alone.answers("deaf") and len(alone.node.admission.queue) == 20
    alone.receive(("ced/a/ready/deaf", encode(Listening(("deaf.1",)))), *asked("other", [31]))
    alone.serve()
    # What it has taken is dealt with first.
    assert [(each.subscription, each.state) for each in alone.answers("deaf")] == [("deaf.1", "active")]
    alone.serve()
    assert "other.31" in alone.node.hosting.by_subscription
    alone.serve_all()
    states = [(each.subscription, each.state) for each in alone.answers("deaf")]
    # All have arrived in one instant.
    assert sorted(states) == sorted((f"deaf.{number}", "offered") for number in range(20) if number != 1)


def test_offers_are_not_repeated_to_a_client_whose_requests_wait() -> None:
    alone = Alone(limit=100)
    alone.receive(*asked("deaf", range(3)))
    alone.serve_all()
    alone.receive(*asked("deaf", [3]))
    alone.pass_time(3 * SECOND)
    assert len(alone.node.admission.queue) == 1


def test_requests_are_ignored_by_a_node_that_has_stopped() -> None:
    alone = Alone(limit=100)
    alone.receive(*asked("c", range(3)))
    alone.node.stop()
    assert not alone.node.waiting and alone.node.serve(0) == []


def test_a_pattern_that_is_too_long_is_refused_before_it_is_read() -> None:
    alone = Alone(limit=10, pattern_length=20)
    allowed, longer = "[A where k == 1]".ljust(20), "[A where".ljust(21)
    alone.receive(*asked("c", [0], allowed), *asked("c", [1], longer))
    (answer,) = alone.answers("c")
    # Others of the client are not concerned.
    assert (answer.subscription, answer.state, answer.limited) == ("c.1", "refused", False)
    assert answer.message == (
        "a pattern longer than nodes accept: one of c (allowed: 20 characters); name its parts by patterns of their "
        "own, or start nodes with --max-pattern-length"
    )
    alone.serve_all()
    assert alone.node.hosting.by_subscription.keys() == {"c.0"}
    # In place of one that is accepted, too, which ends when the entry is cleared.
    alone.receive(*asked("c", [0], longer))
    assert [(each.subscription, each.state) for each in alone.answers("c")] == [("c.0", "refused")]
    alone.pass_time(1)
    alone.serve_all()
    assert not alone.node.hosting.by_subscription and not alone.node.directory.subscriptions


def test_definitions_count_with_the_pattern_that_names_them() -> None:
    alone = Alone(limit=10, pattern_length=20)
    for name, definition in (("q", "[A]"), ("r", "[A]".ljust(20))):
        entry = SubscriptionEntry("c", "D", {"D": definition})
        alone.receive((directory_topic("subscription", f"c/{name}"), encode(entry)))
    (answer,) = alone.answers("c")
    assert (answer.subscription, answer.state) == ("c/r", "refused")
    assert answer.error["problem"] == "a pattern longer than nodes accept"


@pytest.mark.parametrize("of", ["language", "query"])
def test_names_of_language_and_query_count_with_the_text(of: str) -> None:
    alone = Alone(limit=10, pattern_length=20)
    alone.receive((directory_topic("subscription", "c/q"), encode(SubscriptionEntry("c", "[A]", **{of: "x" * 20}))))
    (answer,) = alone.answers("c")
    assert (answer.subscription, answer.state) == ("c/q", "refused")
    assert answer.error["problem"] == "a pattern longer than nodes accept"


def test_a_pattern_that_is_too_long_is_refused_where_it_came_while_no_node_was_there() -> None:
    node = Node("n", 0, limits=SubscriptionLimits(10, 10, 20), validate=True)
    begun = [each for each in node.start(0) if isinstance(each, Publish)]
    own = [(each.topic, each.payload) for each in begun if each.topic.startswith(("ced/d/", "ced/a/known/n"))]
    effects = node.receive_all([*asked("c", [0], "[A]".ljust(21)), *asked("c", [1]), *own], 0)
    answers = [each for each in effects if isinstance(each, Publish) and each.topic == "ced/a/answer/c"]
    (answer,) = decode(answers[0].payload, Answers, where="c").answers
    assert (answer.subscription, answer.state) == ("c.0", "refused") and answer.error["allowed"] == "20 characters"
    assert node.directory.subscriptions.keys() == {"c.1"}


# Around a server.


def test_client_with_too_many_subscriptions_leaves_room_for_others() -> None:
    network = Network()
    node = network.node("n", limits=SubscriptionLimits(10))
    greedy, other = network.client("greedy"), network.client("other")
    other.register(A, B)
    network.run()
    for number in range(25):
        greedy.subscribe(f"q{number}", f"[A where k == {number}]")
    network.run()
    other.subscribe("mine", "[A] ; [B]")
    network.run()
    assert other.states("mine")[-1] == "active"
    assert [greedy.states(f"q{number}")[-1] for number in range(25)] == ["active"] * 10 + ["refused"] * 15
    assert len(node.node.directory.subscriptions) == 11 and len(node.node.hosted) == 11
    (note,) = [each for each in network.notes if each.event == "subscriptions refused"]
    assert "too many subscriptions of one client: greedy (allowed: 10)" in str(note.fields["reason"])
    # With one less there is room for another.
    greedy.clear("subscription", "q0")
    network.run()
    greedy.subscribe("again", "[B]")
    network.run()
    assert greedy.states("again")[-1] == "active"
    assert node.node.counts["subscriptions refused"] == 15


def test_clients_of_many_names_leave_room_for_nodes() -> None:
    network = Network()
    node = network.node("n", limits=SubscriptionLimits(10, of_all=25))
    names = [network.client(f"greedy{number}") for number in range(5)]
    names[0].register(A, B)
    network.run()
    for number in range(40):
        names[number % 5].subscribe(f"q{number}", f"[A where k == {number}]")
        network.run()
    states = [names[number % 5].states(f"q{number}")[-1] for number in range(40)]
    assert states == ["active"] * 25 + ["refused"] * 15
    (note, *_) = [each for each in network.notes if each.event == "subscriptions refused"]
    reason = str(note.fields["reason"])
    assert "too many subscriptions of all clients together: one more of greedy0 (allowed: 25)" in reason
    assert node.node.counts["subscriptions refused"] == 15


def test_limit_holds_for_what_came_while_no_node_was_there() -> None:
    network = Network()
    greedy = network.client("greedy")
    greedy.register(A, B)
    for number in range(25):
        greedy.subscribe(f"q{number}", f"[A where k == {number}]")
    network.run()
    node = network.node("n", limits=SubscriptionLimits(10))
    network.run()
    network.pass_time(4 * SECOND)
    assert len(node.node.hosted) == len(node.node.directory.subscriptions) == 10


@pytest.mark.parametrize("seed", range(3))
def test_nodes_refuse_the_same_of_what_came_while_none_was_there(seed: int) -> None:
    network = Network(seed)
    greedy = network.client("greedy")
    greedy.register(A, B)
    for number in range(25):
        greedy.subscribe(f"greedy.{number}", f"[A where k == {number}]")
    network.run()
    nodes = [network.node(f"n{number}", limits=SubscriptionLimits(10)) for number in range(3)]
    network.run()
    network.pass_time(6 * SECOND)
    expected = {f"greedy.{number}" for number in range(10)}
    assert {name for each in nodes for name in each.node.hosting.by_subscription} == expected
    assert all(each.node.directory.subscriptions.keys() == expected for each in nodes)
    states = [greedy.states(f"greedy.{number}")[-1] for number in range(25)]
    assert states == ["active"] * 10 + ["refused"] * 15


def test_node_that_starts_again_keeps_what_it_had_accepted() -> None:
    network = Network()
    node = network.node("n", limits=SubscriptionLimits(10))
    greedy, other = network.client("greedy"), network.client("other")
    greedy.register(A, B)
    network.run()
    for number in range(15):
        greedy.subscribe(f"greedy.{number}", f"[A where k == {number}]")
    other.subscribe("other.0", "[B]")
    network.run()
    accepted = dict(node.node.hosting.by_subscription)
    network.pass_time(SECOND)
    network.lose(node, for_good=True)
    again = network.node("n", limits=SubscriptionLimits(10))
    network.pass_time(4 * SECOND)
    assert again.node.hosting.by_subscription == accepted and len(accepted) == 11
    assert not again.node.counts.get("subscriptions refused")

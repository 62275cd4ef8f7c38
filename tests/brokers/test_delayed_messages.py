"""Events of a node that pass messages about the directory, where many of these arrive together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distced.brokers.core.directory import CONFIRM_WITHIN
from distced.brokers.core.effects import Effect, Publish
from distced.brokers.core.node_location import LIMITS, SubscriptionLimits
from distced.brokers.node import delayed_messages, refusals
from distced.brokers.node.delayed_messages import DelayedMessages
from distced.brokers.node.node import Node
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import SubscriptionEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import administration_topic, directory_topic, event_topic

A = event_type("A", {"k": "number"})
B = event_type("B", {})


def subscription(number: int, client: str = "c") -> tuple[str, bytes]:
    entry = SubscriptionEntry(client, f"[A where k == {number}]", policy="best-effort")
    return directory_topic("subscription", f"{client}.{number}"), encode(entry)


ENTRIES = {subscription(number)[0] for number in range(10)}


def event(name: str, number: int) -> tuple[str, bytes]:
    made = Event(name, number, number, "s", number, {"k": 0} if name == "A" else {})
    return event_topic(name, "s"), encode_frame([made], type=name, source="s", watermark=number)


def settled_node(limits: SubscriptionLimits = LIMITS) -> Node:
    """A node alone that has read the directory, with one type and a detector of every event of it."""
    node = Node("n", 0, limits=limits, validate=True)
    _answer(node, node.start(0))
    every = SubscriptionEntry("d", "[A]", policy="best-effort")
    entries = [(directory_topic("type", "A"), encode(A)), (directory_topic("subscription", "d.0"), encode(every))]
    _answer(node, node.receive_all(entries, 0))
    while node.waiting:
        _answer(node, node.serve(0))
    assert len(node.hosted) == 1
    return node


def _answer(node: Node, effects: Iterable[Effect]) -> None:
    """Deliver to the node what it publishes about the directory, and to itself."""
    own = ("ced/d/", administration_topic("known", "n"))
    while messages := [
        (each.topic, each.payload) for each in effects if isinstance(each, Publish) and each.topic.startswith(own)
    ]:
        effects = node.receive_all(messages, 0)


def test_events_pass_entries_which_keep_their_order() -> None:
    node = settled_node()
    node.receive_all([*map(subscription, range(4)), event("A", 1)], 1, at_once=1)
    assert node.counts["events"] == 1
    assert [name for name in node.directory.subscriptions if name != "d.0"] == ["c.0"]
    # Further ones wait behind them, however few.
    node.receive_all([subscription(4), event("A", 2)], 2, at_once=1)
    assert node.counts["events"] == 2 and "c.4" not in node.directory.subscriptions
    node.serve(3, lambda: False)
    assert [name for name in node.directory.subscriptions if name != "d.0"] == ["c.0", "c.1"]
    node.serve(4)
    assert list(node.directory.subscriptions) == ["d.0", *(f"c.{number}" for number in range(5))]


def test_delayed_entries_are_refused_before_they_are_cleared() -> None:
    node = settled_node(SubscriptionLimits(1))
    node.receive_all(map(subscription, range(2)), 1, at_once=0)
    clearing = Publish(subscription(1)[0], b"", qos=0, retain=True)
    # The client takes a cleared entry for the end, and its answers of one slice go out behind all else.
    answered = [(each.topic, each.payload) for each in node.serve(2) if isinstance(each, Publish)]
    assert any(topic == administration_topic("answer", "c") and b"refused" in payload for topic, payload in answered)
    assert (clearing.topic, b"") not in answered
    assert not node.waiting
    assert (clearing.topic, b"") in [(each.topic, each.payload) for each in node.tick(3) if isinstance(each, Publish)]


def test_refused_entries_are_cleared_some_with_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "CLEARED", 2)
    node = settled_node(SubscriptionLimits(1))
    node.receive_all(map(subscription, range(6)), 1)
    cleared: list[list[str]] = []
    for now in range(2, 6):
        effects = node.tick(now)
        cleared.append([each.topic for each in effects if isinstance(each, Publish) and each.topic in ENTRIES])
    assert [len(each) for each in cleared] == [2, 2, 1, 0]
    assert [topic for each in cleared for topic in each] == [subscription(number)[0] for number in range(1, 6)]


def test_a_type_passes_with_the_events_that_it_describes() -> None:
    node = settled_node()
    node.receive_all([subscription(0), (directory_topic("type", "B"), encode(B)), event("B", 1)], 1, at_once=0)
    assert node.counts["events"] == 1 and not node.dead_letters.counts
    assert "c.0" not in node.directory.subscriptions


def test_messages_of_other_servers_do_not_wait() -> None:
    node = settled_node()
    node.receive_all([subscription(0)], 1, at_once=0)
    node.receive_all([subscription(1)], 1, "mqtt://other:1883", at_once=0)
    assert "c.0" not in node.directory.subscriptions and "c.1" in node.directory.subscriptions


def test_messages_of_a_lost_connection_are_consumed_before_the_next_begins() -> None:
    node = settled_node()
    node.receive_all([subscription(0)], 1, at_once=0)
    node.start(2)
    assert "c.0" in node.directory.subscriptions
    assert ("subscription", "c.0") in node.directory.unconfirmed


def test_entries_that_wait_are_not_cleared_as_undelivered() -> None:
    node = settled_node()
    node.receive_all([subscription(0)], 1)
    late = CONFIRM_WITHIN + 2
    # Read once more, over a new connection, but behind much else.
    node.start(2)
    node.receive_all([subscription(0)], 3, at_once=0)
    node.tick(late + 1)
    assert "c.0" in node.directory.subscriptions
    node.serve(late + 2)
    assert ("subscription", "c.0") not in node.directory.unconfirmed


def test_events_wait_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_messages, "ROOM", 1_000)
    node = settled_node()
    node.receive_all(map(subscription, range(10)), 1, at_once=0)
    assert len(node.directory.subscriptions) == 11


def test_a_node_that_has_stopped_waits_for_nothing() -> None:
    node = settled_node()
    node.receive_all([subscription(0)], 1, at_once=0)
    node.stop()
    assert not node.waiting and node.serve(2) == []


def in_turn(*messages: tuple[str, bytes], mark: str = "") -> list[tuple[str, bytes]]:
    """Messages in the order in which they are taken."""
    delayed = DelayedMessages(mark=mark)
    for each in messages:
        delayed.put(*each)
    taken = [delayed.take() for _ in range(len(delayed))]
    assert not delayed and not delayed.full
    return taken


def test_entries_of_a_crowding_client_wait_behind_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_messages, "CROWD", 2)
    c, d = ([subscription(number, client) for number in range(5)] for client in ("c", "d"))
    node, itself = (directory_topic("node", "n"), b"{}"), (directory_topic("client", "c"), b"")
    # Those of one client keep their order, an entry of the client itself among them; crowds are taken in turn.
    taken = in_turn(*c[:4], node, itself, *d[:4], subscription(0, "e"))
    assert taken == [*c[:2], node, *d[:2], subscription(0, "e"), c[2], d[2], c[3], d[3], itself]
    # An entry that is cleared stays so.
    cleared = (c[0][0], b"")
    assert in_turn(*c[:3], cleared, c[3])[-3:] == [c[2], cleared, c[3]]


def test_a_client_crowds_no_more_once_all_of_its_entries_were_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_messages, "CROWD", 1)
    delayed = DelayedMessages()
    for number in range(3):
        delayed.put(*subscription(number))
    assert [delayed.take(), delayed.take()] == [subscription(0), subscription(1)]
    for each in (subscription(3), subscription(0, "d")):
        delayed.put(*each)
    assert delayed.take() == subscription(0, "d")
    assert [delayed.take(), delayed.take()] == [subscription(2), subscription(3)]
    for each in (subscription(4), subscription(1, "d")):
        delayed.put(*each)
    assert [delayed.take(), delayed.take()] == [subscription(4), subscription(1, "d")]


def test_the_mark_of_the_directory_comes_behind_all_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_messages, "CROWD", 1)
    mark = (administration_topic("known", "n"), b"1")
    c = [subscription(number) for number in range(4)]
    d = subscription(0, "d")
    assert in_turn(*c[:3], mark, c[3], d, mark=mark[0]) == [*c[:3], mark, d, c[3]]


def test_a_request_is_served_while_messages_wait() -> None:
    node = settled_node()
    node.receive_all([subscription(0, "e")], 1)
    node.receive_all(map(subscription, range(4)), 1, at_once=0)
    assert len(node.hosted) == 1 and len(node.admission.queue) == 1
    node.serve(2, lambda: False)
    assert len(node.hosted) == 2 and "c.1" not in node.directory.subscriptions


@pytest.mark.parametrize(
    ("topic", "waits"),
    [
        ("ced/d/subscription/c/1", True),
        ("ced/d/detector/x", True),
        ("ced/a/known/n", True),
        ("ced/a/ready/c", True),
        ("ced/d/type/A", False),
        ("ced/a/heartbeat/c", False),
        ("ced/e/A/s", False),
        ("ced/c/x", False),
        ("home/alarms", False),
    ],
)
def test_what_waits_is_neither_an_event_nor_needed_to_read_one(topic: str, waits: bool) -> None:
    assert DelayedMessages().takes(topic) is waits

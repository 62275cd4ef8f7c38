"""Events of a node that pass messages about the directory, where many of these arrive together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distced.brokers.core.effects import Effect, Publish
from distced.brokers.core.node_location import LIMITS, SubscriptionLimits
from distced.brokers.node import delayed_messages
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


def subscription(number: int) -> tuple[str, bytes]:
    entry = SubscriptionEntry("c", f"[A where k == {number}]", policy="best-effort")
    return directory_topic("subscription", f"c.{number}"), encode(entry)


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
    assert (clearing.topic, b"") in [(each.topic, each.payload) for each in node.serve(3) if isinstance(each, Publish)]


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

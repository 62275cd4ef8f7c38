"""A second connection of a node to the server of the directory, for events, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distced.brokers.core.effects import Effect, Publish, Subscribe
from distced.brokers.node.node import Node
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answers, Listening
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import SourceEntry, SubscriptionEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import administration_topic, directory_topic, event_topic

OVER = "mqtt://directory:1883"
BARRIER = "ced/a/known/n/events"
A = event_type("A", {"k": "number"})


class Scene:
    """A node whose server delivers what it publishes about the directory at once, and barriers when they are due.

    Attributes:
        effects: all so far.
        barriers: those on their way over the connection of events.
    """

    def __init__(self, over: str = OVER) -> None:
        self.node = Node("n", 0, events_over=over, inspects=False, validate=True)
        self.effects: list[Effect] = []
        self.barriers: list[Publish] = []
        self.take(self.node.start(0))

    def take(self, effects: Iterable[Effect]) -> None:
        waiting = list(effects)
        while waiting:
            self.effects += waiting
            published = [each for each in waiting if isinstance(each, Publish)]
            self.barriers += [each for each in published if each.topic == BARRIER]
            own = ("ced/d/", administration_topic("known", "n"))
            messages = [
                (each.topic, each.payload) for each in published if each.topic.startswith(own) and each.topic != BARRIER
            ]
            waiting = self.node.receive_all(messages, 1) if messages else []
            while self.node.waiting:
                waiting += self.node.serve(1)

    def receive(self, topic: str, payload: bytes, over: str = "") -> None:
        self.take([*self.node.receive_all([(topic, payload)], 1, over), *self.node.serve(1)])

    def subscribe(self, name: str = "c.0", policy: str = "best-effort") -> None:
        entry = SubscriptionEntry("c", "[A]", policy=policy)
        self.receive(directory_topic("subscription", name), encode(entry))
        self.receive(administration_topic("ready", "c"), encode(Listening((name,))))

    def pass_barriers(self) -> None:
        barriers, self.barriers = self.barriers, []
        for each in barriers:
            assert each.home == OVER
            self.receive(each.topic, each.payload, OVER)

    def filters(self, home: str) -> set[str]:
        return {each.topic_filter for each in self.effects if isinstance(each, Subscribe) and each.home == home}

    def published(self, start: str) -> list[Publish]:
        return [each for each in self.effects if isinstance(each, Publish) and each.topic.startswith(start)]

    def states(self) -> list[str]:
        payloads = [each.payload for each in self.published("ced/a/answer/c")]
        return [answer.state for each in payloads for answer in decode(each, Answers, where="c").answers]


def frame(number: int) -> bytes:
    made = Event("A", number, number, "s", number, {"k": 0})
    return encode_frame([made], type="A", source="s", watermark=number)


BESIDE = "ced/a/heartbeat/#", "ced/a/again/n/#", "ced/a/lost/n/#", "ced/a/missing/detector"


def test_events_and_what_describes_them_come_over_it_and_the_directory_does_not() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe()
    assert scene.filters(OVER) == {"ced/d/type/#", BARRIER, "ced/e/A/+", *BESIDE}
    assert "ced/d/#" in scene.filters("") and not scene.filters("") & {"ced/e/A/+", *BESIDE}


def test_composite_events_go_over_it_and_answers_do_not() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe()
    scene.pass_barriers()
    scene.receive(event_topic("A", "s"), frame(5), OVER)
    assert scene.node.counts["events"] == 1
    assert {each.home for each in scene.published("ced/c/")} == {OVER}
    assert {each.home for each in scene.published("ced/a/answer/")} == {""}


@pytest.mark.parametrize("policy", ["best-effort", "guaranteed"])
def test_a_client_is_answered_once_its_events_are_subscribed_to(policy: str) -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe(policy=policy)
    assert scene.states() == ["offered"] and len(scene.barriers) == 1
    # One barrier serves for all that wait for the same filters.
    scene.subscribe("c.1", policy)
    assert scene.states() == ["offered", "offered"] and len(scene.barriers) == 1
    scene.pass_barriers()
    assert scene.states()[2:] == ["active", "active"]
    # Nothing is waited for where no filter is new.
    scene.subscribe("c.2", policy)
    assert scene.states()[4:] == ["offered", "active"] and not scene.barriers


def test_a_source_is_acknowledged_once_its_events_are_subscribed_to() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe()
    scene.receive(directory_topic("source", "s"), encode(SourceEntry(("A",), 0, publisher="p")))
    assert not scene.published("ced/a/ack/")
    scene.pass_barriers()
    (ack,) = scene.published("ced/a/ack/")
    assert ack.home == ""


def test_the_last_events_of_a_source_come_before_its_end() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe(policy="guaranteed")
    source = directory_topic("source", "s")
    scene.receive(source, encode(SourceEntry(("A",), 0, publisher="p")))
    scene.pass_barriers()
    scene.receive(source, b"")
    assert list(scene.node.holding().values()) == [["s"]]
    scene.receive(event_topic("A", "s"), frame(5), OVER)
    scene.pass_barriers()
    assert list(scene.node.holding().values()) == [[]]


def test_events_before_a_fence_are_consumed_before_it() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe(policy="guaranteed")
    scene.receive(directory_topic("source", "s"), encode(SourceEntry(("A",), 0, publisher="p")))
    scene.pass_barriers()
    scene.receive("ced/a/fence/s", b"")
    assert list(scene.node.holding().values()) == [["s"]]
    scene.pass_barriers()
    assert list(scene.node.holding().values()) == [[]]


def test_a_type_is_known_to_events_behind_it_on_either_connection() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A), OVER)
    scene.subscribe()
    scene.receive(event_topic("A", "s"), frame(5), OVER)
    assert scene.node.counts["events"] == 1 and not scene.node.dead_letters.counts


def test_barriers_are_repeated_over_the_next_connection() -> None:
    scene = Scene()
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe()
    lost, scene.barriers = scene.barriers, []
    scene.take(scene.node.linked(OVER, 2))
    assert [each.payload for each in scene.barriers] == [each.payload for each in lost]
    scene.pass_barriers()
    assert scene.states() == ["offered", "active"]
    scene.take(scene.node.tick(10 * SECOND))
    assert not scene.barriers


def test_a_node_with_one_connection_waits_for_nothing() -> None:
    scene = Scene("")
    scene.receive("ced/d/type/A", encode(A))
    scene.subscribe()
    assert scene.states() == ["offered", "active"] and not scene.barriers
    assert {"ced/e/A/+", "ced/d/#"} <= scene.filters("") and BARRIER not in scene.filters("")

"""Messages of publishers beyond their rate wait, in their order, and others pass."""

from __future__ import annotations

from random import Random

import pytest

from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.node.waiting_frames import TOGETHER, WaitingFrame, WaitingFrames
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from tests.brokers.test_coordinated import Scene
from tests.support.virtual_nodes import Network


def frame(name: str, size: int = 10) -> WaitingFrame:
    return WaitingFrame(name, bytes(size), "")


def test_publishers_take_turns_and_keep_their_order() -> None:
    waiting = WaitingFrames()
    for number in range(3):
        for publisher in "ab":
            assert waiting.put(publisher, frame(f"{publisher}{number}", TOGETHER))
    assert len(waiting) == 6 and "a" in waiting
    taken = [each.topic for _ in range(6) for each in waiting.take()]
    assert taken == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert not waiting.take() and "a" not in waiting and not len(waiting)


def test_small_messages_go_together_and_there_is_room_again() -> None:
    waiting = WaitingFrames(most=3_000)
    assert [waiting.put("a", frame(str(number), 100)) for number in range(10)] == [True] * 8 + [False] * 2
    assert waiting.put("b", frame("other"))
    assert [each.topic for each in waiting.take()] == list("01234567")
    assert waiting.put("a", frame("later"))


def composites(rate: int, seed: int) -> tuple[list[tuple[int, int]], int]:
    """Composite events of two publishers, of which one publishes more than the rate; number of messages that waited."""
    random = Random(seed)
    network = Network(seed)
    scene = Scene(0, seed, network)
    node = network.node("n0", message_limits=MessageLimits(rate=rate))
    scene.nodes = [node]
    other = network.client("other")
    other.source("t", "B")
    network.run()
    scene.subscribe("q", "[A as a] ; [B where k > a.k]")
    scene.subscribe("r", "[A] [A]+ [B]")
    at = 0
    for number in range(60):
        at += random.randrange(1, 5)
        if random.random() < 0.8:
            scene.source.publish(Event("A", at, at, "s", number + 1, {"k": number % 7, "v": 0}), watermark=at)
        else:
            other.publish(Event("B", at, at, "t", number + 1, {"k": number % 7, "v": 0}), watermark=at)
        if random.random() < 0.3:
            scene.source.heartbeat(at, "s")
        if random.random() < 0.2:
            network.some(random.randrange(20))
        if random.random() < 0.1:
            network.pass_time(SECOND // 2)
    for publisher, name in ((scene.source, "s"), (other, "t")):
        publisher.heartbeat(at + 1, name)
    network.run()
    network.pass_time(2 * SECOND)
    assert not scene.app.losses and not node.node.event_path.waiting
    assert not node.node.dead_letters.counts
    found = [(each.lo, each.hi) for name in "qr" for each in scene.app.composites(name)]
    return sorted(found), node.node.counts.get("events delayed", 0)


@pytest.mark.parametrize("seed", range(10))
def test_guaranteed_detection_is_the_same_whatever_waits(seed: int) -> None:
    expected, none = composites(1_000_000, seed)
    found, waited = composites(3, seed)
    assert found == expected and expected and not none and waited > 10


def test_source_ends_behind_its_waiting_events() -> None:
    network = Network(1)
    scene = Scene(0, 1, network)
    scene.nodes = [network.node("n0", message_limits=MessageLimits(rate=1))]
    network.run()
    scene.subscribe("q", "[A]")
    for number in range(20):
        scene.source.publish(
            Event("A", number + 1, number + 1, "s", number + 1, {"k": 1, "v": 2}), watermark=number + 1
        )
    scene.source.clear("source", "s")
    network.run()
    assert len(scene.app.composites("q")) == 20

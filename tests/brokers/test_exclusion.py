"""Detectors beyond the limits of a node: excluded everywhere with a reason, while others go on where they are."""

from __future__ import annotations

import pytest

from distced.brokers.core.exclusions import EXCLUDED_FOR
from distced.brokers.node.absent_clients import ABSENCE
from distced.detectors.limits import Limits
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.pass_choice import ForcedPass
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import ExclusionEntry
from tests.brokers.test_coordinated import Scene
from tests.support.engine_switches import AtOnce
from tests.support.virtual_nodes import Network

DOUBLING = "init x = 0 : ([A set x = 2 * x] | [A set x = 2 * x + 1])+ [C]"
TEXT = "init s = 'x' : [A set s = s + s]+ [C]"
OPEN = "[A as a] ; [B where k > a.k + 5]"
LIMITS = Limits(instances=1000, work=500, memory=2**20, text=200)
REASONS = {
    DOUBLING: "one event concerns more instances of a pattern than nodes look at",
    TEXT: "a longer text in a register of a pattern than nodes hold",
    OPEN: "one event concerns more instances of a pattern than nodes look at",
}
NEIGHBOUR = "[A as a] ; [B where v == a.v] within 15ns"


def limited(nodes: int, seed: int = 1, engines: Engines | None = None) -> Scene:
    scene = Scene(0, seed, Network(seed))
    scene.nodes = [scene.network.node(f"n{each}", detector_limits=LIMITS, engines=engines) for each in range(nodes)]
    scene.network.run()
    return scene


def go_beyond(scene: Scene, pattern: str) -> None:
    """Publish events that take the pattern beyond a limit."""
    scene.happen("A" * 12 if pattern is not OPEN else "A" * 600 + "B", v=7, k=1)


def last(scene: Scene, name: str) -> tuple[str, str]:
    answer = scene.app.answers[name][-1]
    return answer.state, answer.message


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pattern", REASONS)
def test_detector_beyond_a_limit_is_excluded_and_others_go_on(pattern: str, seed: int) -> None:
    scene = limited(3, seed)
    scene.subscribe("poison", pattern)
    scene.subscribe("neighbour", NEIGHBOUR)
    detector, before = scene.app.detector("poison"), scene.network.hosts(scene.app.detector("neighbour"))
    scene.happen("AB")
    assert scene.found("neighbour") == 1
    go_beyond(scene, pattern)
    scene.network.pass_time(20 * SECOND)
    state, message = last(scene, "poison")
    assert state == "refused" and message.startswith(REASONS[pattern]) and "; " in message
    assert "at pattern" in message and "(allowed: " in message
    assert not scene.network.hosts(detector)
    assert not [topic for topic in scene.network.retained if "poison" in topic or f"detector/{detector}" in topic]
    found = scene.found("neighbour")
    scene.happen("AB")
    assert scene.found("neighbour") == found + 1 and last(scene, "neighbour")[0] == "active"
    assert scene.network.hosts(scene.app.detector("neighbour")) == before
    assert [each.event for each in scene.network.notes].count("detector excluded") == 1


def test_excluded_detector_is_refused_on_every_node_for_a_time() -> None:
    scene = limited(2)
    scene.subscribe("poison", DOUBLING)
    go_beyond(scene, DOUBLING)
    (topic,) = scene.entries("exclusion")
    entry = decode(scene.network.retained[topic], ExclusionEntry, where=topic)
    assert entry.pattern and entry.reason == last(scene, "poison")[1]
    late = scene.network.node("n9", detector_limits=LIMITS)
    scene.network.run()
    for each in list(scene.nodes):
        each.stop()
    # Written in another way, on a node that has seen nothing of it.
    scene.app.subscribe("again", f"({DOUBLING})")
    scene.network.run()
    assert last(scene, "again") == ("refused", entry.reason)
    assert late.node.counts.get("detectors excluded", 0) == 0
    scene.network.pass_time(EXCLUDED_FOR, every=600 * SECOND)
    assert not scene.entries("exclusion")
    scene.subscribe("later", DOUBLING)


def test_subscription_of_an_absent_client_is_not_served_elsewhere() -> None:
    scene = limited(3)
    scene.subscribe("poison", DOUBLING)
    detector = scene.app.detector("poison")
    scene.network.lose(scene.app)
    go_beyond(scene, DOUBLING)
    assert not scene.network.hosts(detector) and scene.entries("subscription")
    scene.network.pass_time(ABSENCE + 30 * SECOND)
    assert not scene.network.hosts(detector) and not scene.entries("subscription")


@pytest.mark.parametrize("seed", range(4))
def test_reader_of_an_excluded_part_is_excluded_too(seed: int) -> None:
    scene = limited(3, seed)
    whole = "[D] & (init x = 0 : ([A set x = 2 * x] | [A set x = 2 * x + 1])+ [C])"
    scene.subscribe("whole", whole, decomposition="full")
    scene.subscribe("neighbour", NEIGHBOUR)
    parts = [each for node in scene.nodes for each in node.node.hosted.values() if each.parts]
    assert [len(each.parts) for each in parts] == [1]
    go_beyond(scene, DOUBLING)
    scene.network.pass_time(20 * SECOND)
    state, message = last(scene, "whole")
    assert state == "refused" and message.startswith("a part of the pattern is excluded: one event concerns more")
    assert [len(node.node.hosted) for node in scene.nodes].count(1) == 1
    # The same cut again, and its part alone.
    scene.app.subscribe("again", whole.replace("[D]", "[B]"), decomposition="full")
    scene.network.run()
    assert last(scene, "again")[0] == "refused"
    assert last(scene, "neighbour")[0] == "active"


def test_reader_of_the_type_of_an_excluded_detector_is_notified() -> None:
    scene = limited(2)
    scene.subscribe("poison", f"{DOUBLING} -> Big(n = 1)")
    scene.subscribe("reader", "[Big] ; [B]")
    go_beyond(scene, DOUBLING)
    scene.network.pass_time(5 * SECOND)
    assert last(scene, "reader") == ("waiting", "the type Big has no publisher any more")


def test_replica_beyond_a_limit_is_excluded_with_its_primary() -> None:
    scene = limited(3)
    scene.subscribe("poison", DOUBLING, distribution="max-reliability")
    scene.network.pass_time(10 * SECOND)
    detector = scene.app.detector("poison")
    assert len(scene.network.hosts(detector)) == 2
    go_beyond(scene, DOUBLING)
    scene.network.pass_time(10 * SECOND)
    assert last(scene, "poison")[0] == "refused" and not scene.network.hosts(detector)


def test_member_of_a_shared_pass_is_excluded_alone() -> None:
    scene = limited(1, engines=Engines(AtOnce(), shared=ForcedPass))
    scene.subscribe("one", NEIGHBOUR)
    scene.subscribe("two", "[A as a] ; [B where v > a.v]")
    scene.subscribe("poison", DOUBLING.replace("C", "B"))
    scene.happen("A")
    assert {each.detector.at_work for each in scene.nodes[0].node.hosted.values()} == {"columnar"}
    scene.happen("A" * 14)
    assert last(scene, "poison")[0] == "refused"
    assert "more instances of a pattern than nodes hold" in last(scene, "poison")[1]
    scene.happen("B")
    assert scene.found("one") == 1 and scene.found("two") == 0

"""Readers of a type whose publisher has left wait for it, are told so, and go on when it is back and suits them."""

from __future__ import annotations

import pytest

from distced.middleware.model.event_types import Derivation, EventType, event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene
from tests.brokers.test_replicas import entry_of

FIRST = "[A as x] -> First(v = x.v)"
READER = "[First as f] ; [B where v == f.v] -> Second(v = f.v)"


def reading(nodes: int = 2, seed: int = 1, reader: str = READER, **quality: object) -> Scene:
    """A reader of a type that another application has found."""
    scene = Scene(nodes, seed)
    other = scene.network.client("other")
    scene.network.run()
    scene.subscribe("first", FIRST, app=other)
    scene.subscribe("second", reader, **quality)
    return scene


def leave(scene: Scene) -> None:
    other = next(each for each in scene.network.participants if getattr(each, "name", "") == "other")
    other.clear("subscription", "first")
    scene.network.run()


def come_back(scene: Scene, pattern: str = FIRST) -> None:
    other = next(each for each in scene.network.participants if getattr(each, "name", "") == "other")
    scene.subscribe("first", pattern, app=other)
    scene.network.pass_time(3 * SECOND)


def waits(scene: Scene, name: str = "second") -> str:
    return scene.app._subscriptions[name].waits


def logged(scene: Scene) -> list[str]:
    """What the application was told of its subscriptions, in order."""
    return [each.event for each in scene.network.notes if each.event.startswith("subscription ")]


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("decomposition", ["none", "full"])
def test_reader_waits_for_its_type_and_goes_on(nodes: int, decomposition: str) -> None:
    scene = reading(nodes, reader=READER + " ", decomposition=decomposition)
    scene.happen("AB")
    assert scene.found("second") == 1
    leave(scene)
    assert waits(scene) == "", "a publisher may be back in a moment"
    scene.network.pass_time(3 * SECOND)
    assert waits(scene) == "the type First has no publisher any more"
    scene.happen("AB")
    scene.network.pass_time(10 * SECOND)
    assert scene.found("second") == 1
    assert entry_of(scene.network, scene.app.detector("second")).waits == waits(scene)
    come_back(scene)
    assert waits(scene) == ""
    scene.happen("AB")
    assert scene.found("second") == 2
    assert logged(scene) == ["subscription suspended", "subscription resumed"]
    assert scene.app._subscriptions["second"].statistics.waits == 1
    assert entry_of(scene.network, scene.app.detector("second")).waits == ""


@pytest.mark.parametrize(
    ("back", "reason"),
    [
        ("[A] -> First(v = 'text')", "cannot be compared"),
        ("[A as x] -> First(w = x.v)", "no attribute"),
    ],
)
def test_type_that_comes_back_with_other_attributes_is_checked_again(back: str, reason: str) -> None:
    scene = reading()
    leave(scene)
    come_back(scene, back)
    assert "has other attributes than before" in waits(scene)
    scene.happen("AB")
    assert scene.found("second") == 0
    leave(scene)
    scene.network.pass_time(3 * SECOND)
    assert waits(scene) == "the type First has no publisher any more"
    come_back(scene)
    assert waits(scene) == ""
    scene.happen("AB")
    assert scene.found("second") == 1


def test_type_that_comes_back_with_more_attributes_is_read() -> None:
    scene = reading()
    leave(scene)
    come_back(scene, "[A as x] -> First(v = x.v, w = 'more')")
    assert waits(scene) == ""
    scene.happen("AB")
    assert scene.found("second") == 1


def test_reader_whose_own_attributes_would_change_waits() -> None:
    scene = reading(reader="[First as f] -> Second(v = f.v)")
    scene.subscribe("third", "[Second as s where v > 0] -> Third()")
    leave(scene)
    come_back(scene, "[A] -> First(v = 'text')")
    assert "its own type Second would have other attributes" in waits(scene)
    scene.network.pass_time(3 * SECOND)
    assert "Second is not available" in waits(scene, "third")
    leave(scene)
    come_back(scene)
    scene.network.pass_time(3 * SECOND)
    assert waits(scene) == waits(scene, "third") == ""
    scene.happen("A")
    assert scene.found("third") == 1


def test_readers_of_readers_are_notified() -> None:
    scene = reading()
    scene.subscribe("third", "[Second] -> Third()")
    leave(scene)
    scene.network.pass_time(6 * SECOND)
    assert waits(scene, "third") == ("the type Second is not available: the type First has no publisher any more")
    come_back(scene)
    scene.network.pass_time(6 * SECOND)
    assert waits(scene, "third") == ""


def test_new_reader_of_a_type_that_is_gone_is_refused() -> None:
    scene = reading()
    leave(scene)
    scene.network.pass_time(3 * SECOND)
    scene.app.subscribe("new", "[First] -> New()")
    scene.network.run()
    assert scene.app.states("new") == ["refused"]
    assert "unknown event type: First" in scene.app.answers["new"][-1].message


def test_reader_waits_where_its_node_is_lost_while_the_type_is_gone() -> None:
    """It used to end for good, with one line in the log."""
    for seed in range(6):
        scene = reading(3, seed)
        leave(scene)
        scene.network.pass_time(3 * SECOND)
        host = entry_of(scene.network, scene.app.detector("second")).node
        lost = next(each for each in scene.network.nodes if each.name == host)
        scene.network.lose(lost, for_good=True)
        scene.network.pass_time(5 * SECOND)
        assert waits(scene), seed
        assert scene.app.states("second")[-1] == "waiting"
        come_back(scene)
        scene.network.pass_time(5 * SECOND)
        assert waits(scene) == "", seed
        scene.happen("AB")
        assert scene.found("second") == 1, seed


def test_reader_that_moves_while_its_type_comes_back_is_notified() -> None:
    for seed in range(8):
        scene = reading(3, seed)
        identity = scene.app.detector("second")
        host = entry_of(scene.network, identity).node
        target = next(each for each in ("n0", "n1", "n2") if each != host)
        leave(scene)
        scene.network.publish(administration_topic("move", identity), encode(MoveRequest(target)))
        scene.network.some(scene.network.random.randrange(60))
        scene.network.pass_time(scene.network.random.choice((0, 3)) * SECOND)
        come_back(scene)
        scene.network.pass_time(3 * SECOND)
        assert waits(scene) == "", seed
        scene.happen("AB")
        assert scene.found("second") == 1, seed


def test_publisher_that_is_taken_over_is_no_news() -> None:
    for seed in range(6):
        scene = reading(3, seed)
        other = next(each for each in scene.network.participants if getattr(each, "name", "") == "other")
        host = entry_of(scene.network, other.detector("first")).node
        if host == entry_of(scene.network, scene.app.detector("second")).node:
            continue
        scene.network.lose(next(each for each in scene.network.nodes if each.name == host), for_good=True)
        scene.network.pass_time(6 * SECOND)
        assert logged(scene) == [], seed
        scene.happen("AB")
        assert scene.found("second") == 1, seed


@pytest.mark.parametrize("often", ["every", "quiet"])
def test_reader_by_a_derived_type_waits_and_goes_on(often: str) -> None:
    scene = reading(reader="[A]")
    scene.app.put("type", "Once", EventType("Once", {}, Derivation("First", by=("v",), **{often: 1})))
    scene.network.run()
    scene.subscribe("third", "[Once as f where v >= 0] -> Third(v = f.v)")
    scene.happen("A")
    assert scene.found("third") == 1
    leave(scene)
    scene.network.pass_time(3 * SECOND)
    assert waits(scene, "third") == "the type First has no publisher any more"
    come_back(scene)
    assert waits(scene, "third") == ""
    scene.happen("A")
    assert scene.found("third") == 2


OPEN = "[C, E as x] -> First(v = x.v)"


def of_several_kinds(before: str, after: str, reader: str) -> Scene:
    """A reader of a type that two applications publish, one before it and one after it."""
    scene = Scene(2)
    scene.app.register(event_type("E", {"k": "number", "v": "string"}))
    scene.network.client("other")
    scene.network.run()
    scene.source.source("s", "ABCDE")
    scene.network.run()
    scene.subscribe("before", before)
    scene.subscribe("second", reader)
    come_back(scene, after)
    return scene


@pytest.mark.parametrize(("before", "after"), [(FIRST, OPEN), (OPEN, FIRST)])
def test_reader_reads_publishers_that_know_a_kind_and_leave_it_open(before: str, after: str) -> None:
    scene = of_several_kinds(before, after, "[First where v > 1] -> Second()")
    assert waits(scene) == ""
    scene.happen("AC")
    scene.happen("E", v="2")
    scene.happen("A")
    assert scene.found("second") == 3, "text is not greater than a number"
    assert scene.found("before") == 2
    assert entry_of(scene.network, scene.app.detector("second")).waits == ""


def test_reader_goes_on_when_the_publisher_that_knows_the_kind_leaves() -> None:
    scene = of_several_kinds(OPEN, FIRST, "[First as f where v > 1] -> Second(v = f.v)")
    leave(scene)
    scene.network.pass_time(6 * SECOND)
    assert waits(scene) == ""
    scene.happen("C")
    assert scene.found("second") == 1


def test_two_known_kinds_are_refused_beside_an_open_one() -> None:
    scene = of_several_kinds(OPEN, FIRST, "[First] -> Second()")
    scene.app.subscribe("third", "[E as x] -> First(v = x.v)")
    scene.network.run()
    refused = scene.app.answers["third"][-1]
    assert refused.state == "refused" and "'v' is a number there, and a string here" in str(refused.error)

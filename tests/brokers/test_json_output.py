"""Composite events leave as JSON on a topic of the user's choice, each once, whatever happens to their detector."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from distced.brokers.node.json_output import MOST, JsonOutput
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.json_events import encode_json
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import CHAIN, Scene
from tests.brokers.test_replicas import RELIABLE, entry_of

AB = "[A] ; [B] -> Out()"
TOPIC = "home/alarms"


def ids(scene: Scene, topic: str = TOPIC) -> Counter[str]:
    return Counter(json.loads(payload)["id"] for at, payload in scene.network.json if at == topic)


def test_composite_event_as_json() -> None:
    scene = Scene(1)
    scene.subscribe("q", "[A as x] ; [B] -> Alarm(v = x.v, text = 'x', none = null)", publish_json=TOPIC)
    scene.happen("AB", v=2**60)
    ((topic, payload),) = scene.network.json
    assert topic == TOPIC
    report = json.loads(payload)
    assert report.pop("id").startswith(scene.app.detector("q")[:8])
    assert report == {
        "type": "Alarm",
        "start": "1970-01-01T00:00:00.00000001Z",
        "end": "1970-01-01T00:00:00.00000002Z",
        "attributes": {"v": 2**60, "text": "x", "none": None},
    }


def test_each_subscription_has_its_topic_and_equal_ones_share_it() -> None:
    scene = Scene(2)
    scene.subscribe("q", AB, publish_json="a")
    scene.subscribe("r", "[A] ; [B] -> Out() publish_json = 'b'")
    scene.subscribe("s", AB, publish_json="a")
    scene.subscribe("t", AB)
    assert len({scene.app.detector(each) for each in "qrst"}) == 1
    assert entry_of(scene.network, scene.app.detector("q")).json == (("", "a"), ("", "b"))
    scene.happen("AB")
    assert sorted(topic for topic, _ in scene.network.json) == ["a", "b"]
    for each in "qs":
        scene.app.clear("subscription", each)
    scene.network.run()
    scene.happen("AB")
    assert sorted(topic for topic, _ in scene.network.json) == ["a", "b", "b"]
    assert scene.found("t") == 2


def test_own_topic_of_a_subscription_comes_before_that_in_the_pattern() -> None:
    scene = Scene(1)
    scene.subscribe("q", "[A] -> Out() publish_json = 'b'", publish_json="a")
    scene.happen("A")
    assert [topic for topic, _ in scene.network.json] == ["a"]
    assert "publish_json" not in entry_of(scene.network, scene.app.detector("q")).pattern


def test_topic_of_distced_is_refused_by_nodes_too() -> None:
    scene = Scene(1)
    scene.app.subscribe("q", AB, publish_json="ced/d/type/A")
    scene.network.run()
    assert scene.app.states("q") == ["refused"]
    assert "among distced's own" in scene.app.answers["q"][0].message


def test_events_of_a_type_are_not_published_again() -> None:
    scene = Scene(1)
    state = SubscriptionState("q", "A", QualityOfService(publish_json="a"))
    with pytest.raises(DistcedError, match=r"subscribe to \[A\]"):
        scene.app.session.subscribe(state, {}, None)


@pytest.mark.parametrize("pattern", [AB, CHAIN])
def test_moved_detector_publishes_json_once(pattern: str) -> None:
    for seed in range(12):
        scene = Scene(3, seed)
        scene.subscribe("q", pattern, publish_json=TOPIC, decomposition="full")
        identity = scene.app.detector("q")
        for _ in range(3):
            others = [each for each in ("n0", "n1", "n2") if each not in scene.network.hosts(identity)]
            scene.network.publish(administration_topic("move", identity), encode(MoveRequest(others[0])))
            scene.network.some(scene.network.random.randrange(30))
            scene.happen("ABCD", run=False)
            scene.network.some(scene.network.random.randrange(30))
        scene.network.pass_time(5 * SECOND)
        assert scene.found("q") == 3
        assert sorted(ids(scene).values()) == [1, 1, 1], seed


@pytest.mark.parametrize("how", ["primary lost", "primary stopped", "replica lost", "handed over"])
def test_replicas_publish_json_once(how: str) -> None:
    """At any moment, with what is under way."""
    for seed in range(12):
        scene = Scene(4, seed)
        scene.subscribe("q", AB, distribution=RELIABLE, publish_json=TOPIC)
        scene.network.pass_time(3 * SECOND)
        identity = scene.app.detector("q")
        for _ in range(2):
            entry = entry_of(scene.network, identity)
            name = next(iter(entry.replicas)) if how == "replica lost" else entry.node
            node = next(each for each in scene.network.nodes if each.name == name)
            scene.happen("AB", run=False)
            scene.network.some(scene.network.random.randrange(40))
            if how == "handed over":
                request = encode(MoveRequest(next(iter(entry.replicas))))
                scene.network.publish(administration_topic("move", identity), request)
            elif how == "primary stopped":
                node.stop()
            else:
                scene.network.lose(node, for_good=True)
            scene.network.some(scene.network.random.randrange(40))
            scene.happen("AB")
            scene.network.pass_time(6 * SECOND)
        assert scene.found("q") == 4
        assert sorted(ids(scene).values()) == [1, 1, 1, 1], seed


def test_replica_keeps_what_it_has_not_heard_for_a_minute() -> None:
    events = [CompositeEvent("Out", at, at, "c", at, {}, constituents=()) for at in range(3)]
    output = JsonOutput("c", publishes=False)
    output.leave_at([("", "a")])
    assert output.found(events[:2], 0) == []
    output.heard(("", "a"), encode_json(events[0]))
    for foreign in (b"", b"{}", b"[1]", b'{"id": 3}', b"on"):
        output.heard(("", "a"), foreign)
    output.heard(("", "a"), encode_json(events[2]))
    (kept,) = output.publish(0)
    assert kept.payload == encode_json(events[1])
    # The primary before was ahead with it.
    assert output.found([events[2]], 0) == []
    output.keep()
    output.found([events[0]], 0)
    output.found([events[1]], 61 * SECOND)
    assert [each.payload for each in output.publish(62 * SECOND)] == [encode_json(events[1])]
    output.keep()
    output.found([events[0]], 0)
    assert output.publish(61 * SECOND) == []


@pytest.mark.parametrize("payload", [b'{"id": "\xff"}', b'{"x": ' + b"[" * 100_000], ids=["text", "depth"])
def test_foreign_message_on_a_json_topic_harms_nothing(payload: bytes) -> None:
    output = JsonOutput("c", publishes=False)
    output.leave_at([("", "a")])
    event = CompositeEvent("Out", 1, 1, "c", 1, {}, constituents=())
    output.found([event], 0)
    output.heard(("", "a"), payload)
    assert [each.payload for each in output.publish(0)] == [encode_json(event)]


def test_ids_of_others_on_the_topic_take_no_room() -> None:
    output = JsonOutput("c", publishes=False)
    output.leave_at([("", "a")])
    ahead = CompositeEvent("Out", 1, 1, "c", 1, {}, constituents=())
    output.heard(("", "a"), encode_json(ahead))
    for at in range(MOST + 1):
        output.heard(("", "a"), encode_json(CompositeEvent("Out", at, at, "d", at, {}, constituents=())))
    output.publish(0)
    assert output.found([ahead], 0) == []

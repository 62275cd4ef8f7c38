"""Broker nodes around a virtual server: subscriptions, what reaches their detectors, and what does not."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec
import pytest

from distced.brokers.node.absent_clients import ABSENCE
from distced.detectors.shapes import ShapedPattern
from distced.middleware.model.event_types import Derivation, EventType, derive, event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, INSTANT_MAX, SECOND
from distced.middleware.wire.administration import RENEW_EVERY, Counters
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.frames import encode as encode_frame
from tests.support.virtual_nodes import Network, VirtualClient

A = event_type("A", {"k": "number", "v": "string"})
B = event_type("B", {"k": "number"})
FAST = derive(A, "Fast", where="k > 10")


def event(name: str, hi: int, seq: int | None = None, source: str = "s", **attributes: Any) -> Event:
    given = {"k": 1, "v": "x"} if name == "A" else {"k": 1}
    return Event(name, hi, hi, source, hi if seq is None else seq, given | attributes)


def prepared(seed: int = 0, nodes: int = 1, **arguments: Any) -> tuple[Network, VirtualClient]:
    """A network with nodes, and a client that has registered types and is the source `s`."""
    network = Network(seed)
    for number in range(nodes):
        network.node(f"n{number + 1}", **arguments)
    client = network.client("c")
    client.register(A, B, FAST)
    client.source("s", ["A", "B"])
    network.run()
    return network, client


def subscribed(network: Network, client: VirtualClient, identity: str, pattern: str, **quality: Any) -> str:
    """A subscription that is active; its detector."""
    client.subscribe(identity, pattern, **quality)
    network.run()
    assert client.states(identity)[-1] == "active", client.answers[identity]
    return client.detector(identity)


def letters(network: Network) -> Counter[str]:
    return Counter(each.reason for each in network.letters)


# The life of a subscription.


def test_patterns_of_a_known_shape_are_not_compiled_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each keeps its tree, and a subscription takes twice its time."""
    network, client = prepared(nodes=2)
    subscribed(network, client, "q", "[A where v == 'x0' and k > 1] ; [B] within 1min -> X(k = 1)")
    compiled: list[str] = []
    monkeypatch.setattr(ShapedPattern, "_full", property(lambda each: compiled.append(each.written)))
    for number, policy in enumerate(["guaranteed", "best-effort"] * 4, start=1):
        pattern = f"[A where v == 'x{number}' and k > 1] ; [B] within 1min -> X(k = 1)"
        subscribed(network, client, f"q{number}", pattern, detection=policy)
    client.publish(event("A", 1, k=20, v="x3"), watermark=1)
    client.publish(event("B", 2), watermark=3)
    network.pass_time(3 * SECOND)
    assert len(client.composites("q3")) == 1 and not client.composites("q4")
    assert not compiled


def test_subscription_is_offered_made_ready_served_and_cleared() -> None:
    network, client = prepared()
    (node,) = network.nodes
    client.accepts = False
    client.subscribe("q", "[A] ; [B]")
    network.run()
    (offer,) = client.answers["q"]
    assert (offer.state, offer.node) == ("offered", "n1")
    hosted = node.node.hosted[offer.detector]
    assert not hosted.running
    assert not any(each.startswith("ced/e/A") for each in node.filters)

    client.accepts = True
    network.pass_time(3 * SECOND)
    assert client.states("q") == ["offered", "offered", "active"]
    assert hosted.running
    client.publish(event("A", 1))
    client.publish(event("B", 2), watermark=2)
    network.run()
    client.heartbeat(2, "s")
    network.run()
    assert [(each.lo, each.hi) for each in client.composites("q")] == [(1, 2)]
    assert client.watermarks["q"] == 2

    client.clear("subscription", "q")
    network.run()
    assert node.node.hosted == {}
    assert not any("/detector/" in topic for topic in network.retained)
    network.pass_time(5 * SECOND)
    assert {each.event for each in network.notes} == {"detector placed", "detector created", "detector destroyed"}


def test_equal_patterns_in_different_spellings_share_a_detector() -> None:
    network, client = prepared()
    other = network.client("other")
    first = subscribed(network, client, "q", "[A as x] ; [B where k == x.k] -> Out(k = x.k)")
    second = subscribed(network, other, "r", "[A as first];[B where k==first.k]->Out(k=first.k)")
    assert first == second
    entry = decode(network.retained[network.detector_topic(first)], DetectorEntry, where="")
    assert (entry.subscriptions, entry.publishes, entry.attributes) == (2, "Out", {"k": "number"})
    client.publish(event("A", 1))
    client.publish(event("B", 2))
    client.heartbeat(2, "s")
    network.run()
    assert client.composites("q") == other.composites("r") != []
    client.clear("subscription", "q")
    network.run()
    assert network.hosts(first) == ["n1"]
    other.clear("subscription", "r")
    network.run()
    assert network.hosts(first) == []


def test_consumption_and_policy_make_detectors_of_their_own() -> None:
    network, client = prepared()
    names = {
        subscribed(network, client, "q", "[A] ; [B]"),
        subscribed(network, client, "r", "[A] ; [B]", consumption="epoch"),
        subscribed(network, client, "t", "[A] ; [B]", policy="best-effort"),
    }
    assert len(names) == 3
    # The text says the same, and wins.
    epochs = subscribed(network, client, "u", "[A] ; [B] consumed epoch")
    assert epochs in names
    assert subscribed(network, client, "v", "[A] ; [B] consumed epoch", consumption="ordered") == epochs
    assert subscribed(network, client, "w", "[A] ; [B] consumed ordered", consumption="epoch") in names - {epochs}
    client.publish(event("A", 1))
    client.publish(event("B", 2))
    network.run()
    assert [len(client.found[each]) for each in ("q", "r", "t")] == [0, 0, 1]
    client.heartbeat(2, "s")
    network.run()
    assert [len(client.found[each]) for each in ("q", "r", "t")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("pattern", "quality", "problem"),
    [
        ("[A] ; [X]", {}, r"unknown event type: X \(allowed: A, B, Fast\), at line 1, column 8"),
        ("[A] ;", {}, "line 1"),
        ("[A where w > 1]", {}, "w"),
        ("[A] -> B(other = 1)", {}, "known with other attributes"),
        ("[A as a] -> Fast(k = a.k, v = a.v)", {}, "derived"),
        (
            "[A]",
            {"policy": "probabilistic"},
            "unknown detection policy: probabilistic .allowed: guaranteed, best-effort",
        ),
        ("[A]", {"consumption": "epochs"}, "unknown kind of consumption: epochs .allowed: ordered, epoch"),
        ("[C]", {"definitions": {"C": "[A"}}, "line 1"),
        ("[B as b] -> B(k = b.k)", {}, "reads what it publishes itself: B"),
    ],
)
@pytest.mark.parametrize("nodes", [1, 3])
def test_faulty_pattern_is_refused_by_one_node_with_the_reason(
    pattern: str, quality: dict[str, Any], problem: str, nodes: int
) -> None:
    network, client = prepared(nodes=nodes)
    client.subscribe("q", pattern, **quality)
    network.run()
    (answer,) = client.answers["q"]
    assert answer.state == "refused"
    assert answer.error["problem"]
    assert re.search(problem, answer.message), answer.message
    assert all(not each.node.hosted for each in network.nodes)
    assert subscribed(network, client, "r", "[A]")


def test_patterns_that_would_read_each_other_in_a_circle_are_refused() -> None:
    network, client = prepared()
    client.register(event_type("One", {}), event_type("Two", {}))
    network.run()
    subscribed(network, client, "q", "[One] -> Two()")
    client.subscribe("r", "[Two] ; [A] -> One()")
    network.run()
    assert "One <- Two <- One" in client.answers["r"][-1].message


def test_composite_events_found_by_best_effort_are_no_ground_for_a_guarantee() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A] -> Out()", policy="best-effort")
    client.subscribe("r", "[Out] ; [B]")
    network.run()
    assert "found by best effort" in client.answers["r"][-1].message
    subscribed(network, client, "t", "[Out] ; [B]", policy="best-effort")
    # With both kinds of detectors there, each reads its own; the guarantee does not wait for best effort.
    subscribed(network, client, "u", "[A] -> Out()")
    subscribed(network, client, "v", "[Out] ; [B]")
    client.publish(event("A", 1))
    network.run()
    client.publish(event("B", 2))
    network.run()
    assert [len(client.found[each]) for each in ("t", "v")] == [1, 0]
    client.heartbeat(2, "s")
    network.run()
    assert [len(client.found[each]) for each in ("t", "v")] == [1, 1]


def test_constituents_are_sent_along_while_a_subscription_wants_them() -> None:
    network, client = prepared()
    detector = subscribed(network, client, "q", "[A] ; [B]")
    subscribed(network, client, "r", "[A] ; [B]", constituents=True)
    for place in range(2):
        client.publish(event("A", 10 * place + 1))
        client.publish(event("B", 10 * place + 2))
        client.heartbeat(10 * place + 2, "s")
        network.run()
        if place == 0:
            client.clear("subscription", "r")
            network.run()
    sent = sorted(client.composites("q"), key=lambda each: each.hi)
    assert [tuple(inner.id for inner in each.events) for each in sent] == [sent[0].constituents, ()]
    assert network.hosts(detector) == ["n1"]


def test_changed_subscription_is_served_again() -> None:
    network, client = prepared()
    before = subscribed(network, client, "q", "[A] ; [B]")
    after = subscribed(network, client, "q", "[B] ; [A]")
    assert before != after
    assert (network.hosts(before), network.hosts(after)) == ([], ["n1"])


# Composite events read by others.


@pytest.mark.parametrize("seed", range(10))
def test_composite_events_and_watermarks_reach_their_readers(seed: int) -> None:
    network, client = prepared(seed, nodes=3)
    subscribed(network, client, "q", "[A as a] ; [B] -> AB(k = a.k)")
    subscribed(network, client, "r", "[AB as x] ; [AB where k == x.k]")
    for number in range(4):
        client.publish(event("A", 10 * number + 1))
        client.publish(event("B", 10 * number + 2))
    client.heartbeat(100, "s")
    network.run()
    assert sorted((each.lo, each.hi) for each in client.composites("r")) == [(1, 12), (11, 22), (21, 32)]
    assert client.watermarks == {"q": 100, "r": 100}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("nodes", [1, 3])
def test_reader_follows_publishers_that_come_and_go(seed: int, nodes: int) -> None:
    network, client = prepared(seed, nodes=nodes)
    client.register(event_type("AB", {"k": "number"}))
    network.run()
    subscribed(network, client, "reader", "[AB]")
    subscribed(network, client, "writer", "[A as a] -> AB(k = a.k)")
    client.publish(event("A", 1))
    network.run()
    assert client.composites("reader") == []
    client.heartbeat(5, "s")
    network.run()
    assert [each.hi for each in client.composites("reader")] == [1]
    client.clear("subscription", "writer")
    network.run()
    # Nobody publishes it as a composite event any more; the reader waits for nobody.
    assert not any(each.startswith("ced/c/") for node in network.nodes for each in node.filters)
    client.source("ab", ["AB"])
    network.run()
    client.publish(Event("AB", 7, 7, "ab", 0, {"k": 2}))
    client.heartbeat(8, "ab")
    network.run()
    assert [each.hi for each in client.composites("reader")] == [1, 7]
    subscribed(network, client, "again", "[A as a] -> AB(k = a.k)")
    client.publish(event("A", 12))
    client.heartbeat(12, "s", "ab")
    network.run()
    assert [each.hi for each in client.composites("reader")] == [1, 7, 12]


def test_late_reader_receives_the_watermark_of_its_publisher() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A] -> Out()")
    client.heartbeat(50, "s")
    network.run()
    subscribed(network, client, "r", "[Out] ; [Out]")
    # The writer has nothing new to say, and its source neither.
    network.pass_time(3 * SECOND)
    assert client.watermarks["r"] == 50


def test_any_is_every_primitive_event_and_the_composite_ones_that_are_named() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A] -> Out()")
    subscribed(network, client, "all", "[any]")
    subscribed(network, client, "both", "[Out] ; [any]")
    client.publish(event("A", 1))
    client.publish(event("B", 2))
    client.publish(event("A", 3))
    client.heartbeat(9, "s")
    network.run()
    assert sorted(each.hi for each in client.composites("all")) == [1, 2, 3]
    assert [(each.lo, each.hi) for each in client.composites("both")] == [(1, 2)]
    assert client.watermarks == {"q": 9, "all": 9, "both": 9}


# What arrives.


def frame(*events: Event, name: str = "A", source: str = "s", kind: Any = None) -> bytes:
    return encode_frame(events, type=name, source=source, kind=kind)


COMPOSITE = CompositeEvent("A", 1, 1, "s", 5, {"k": 1, "v": "x"}, constituents=(("s", 1),))


@pytest.mark.parametrize(
    ("topic", "payload", "reasons", "consumed"),
    [
        ("ced/e/A/s", b"garbage", ["malformed"], 0),
        ("ced/e/A/s", b"", ["malformed"], 0),
        ("ced/e/A/s", b"{", ["malformed"], 0),
        ("ced/e/A/s", frame(event("B", 1), name="B"), ["malformed"], 0),
        ("ced/e/A/s", frame(COMPOSITE), ["malformed"], 0),
        ("ced/e/A/s", frame(event("A", 1), event("A", 2, k="no"), event("A", 3)), ["mistyped"], 2),
        ("ced/e/A/s", frame(event("A", 1, more=1), event("A", 2)), ["mistyped"], 1),
        ("ced/e/A/s", frame(Event("A", 1, 1, "s", 1, {"k": 1})), ["mistyped"], 0),
        ("ced/e/A/s", frame(event("A", 1, k=None)), [], 1),
        (
            "ced/e/A/s",
            msgspec.msgpack.encode(["e", 1, "A", "s", None, [[5, 4, 0, {}], [6, 6, 1, {"k": 1, "v": "x"}], 7]]),
            ["malformed", "malformed"],
            1,
        ),
        ("ced/e/Zork/s", frame(event("B", 1), event("B", 2), name="B"), ["malformed"], 0),
        ("ced/e/B/s", b'{"type": "Zork", "source": "s", "time": 3}', ["malformed"], 0),
        (
            "ced/e/Zork/s",
            encode_frame([Event("Zork", n, n, "s", n, {}) for n in range(2)], type="Zork", source="s"),
            ["unknown-type", "unknown-type"],
            0,
        ),
        ("ced/e/Fast/s", encode_frame([], type="Fast", source="s", watermark=4), [], 0),
        ("ced/e/Fast/s", b'{"time": 3, "attributes": {"k": 1, "v": "x"}}', ["unknown-type"], 0),
        ("ced/e/A/s", b'{"time": 3, "attributes": {"k": 1, "v": "x"}}', [], 1),
        (
            "ced/e/A/s",
            b'{"specversion": "1.0", "type": "A", "source": "/x", "id": "7", "data": {"k": 1, "v": "x"}}',
            [],
            1,
        ),
        ("ced/d/source/s", b"garbage", ["malformed"], 0),
        ("ced/d/source/s", b'{"types": ["A"], "watermark": 1e30}', ["malformed"], 0),
        ("ced/d/source/s", b'{"types": ["A"], "watermark": 99999999999999999999}', ["malformed"], 0),
        ("ced/d/source/s", b'{"types": ["A"], "watermark": 0, "lease": -1}', ["malformed"], 0),
        ("ced/d/type/A", b"[]", ["malformed"], 0),
        ("ced/d/type/C", b'{"name": "D", "attributes": {}}', ["malformed"], 0),
        ("ced/d/type/C", b'{"name": "C", "attributes": {"x": "integer"}}', ["malformed"], 0),
        ("ced/d/type/C", b'{"name": "C", "attributes": {"no name": "number"}}', ["malformed"], 0),
        ("ced/d/planet/C", b"{}", ["malformed"], 0),
        ("ced/d/type", b"{}", ["malformed"], 0),
        ("ced/d/type/a/b", b"{}", ["malformed"], 0),
        ("ced/d/node/%ff", b"{}", ["malformed"], 0),
        ("ced/d/load/n1", b'{"load": "much"}', ["malformed"], 0),
        ("ced/d/topology/net", b'{"text": "[sites"}', ["malformed"], 0),
        ("ced/d/topology/net", b'{"text": "[sites.a]\\n[nodes.b]\\nsite = \\"c\\""}', ["malformed"], 0),
        ("ced/a/policy/default", b'{"policy": "cheapest"}', ["malformed"], 0),
        ("ced/a/policy/default", b"{", ["malformed"], 0),
        ("ced/a/node/n1/host/x", b"{", ["malformed"], 0),
        ("ced/a/node/n1/served/x", b"{", ["malformed"], 0),
        ("ced/a/node/n1/serve/x", b"garbage", [], 0),
        ("ced/a/node/n1/replicated/x", b"garbage", [], 0),
        ("ced/a/node/n1/called-off/x", b"garbage", [], 0),
        ("ced/a/node/n1/lacking/x", b"garbage", ["malformed"], 0),
        ("ced/a/node/n1/since", b"garbage", ["malformed"], 0),
        ("ced/d/detector/c1", b'{"node": 5}', ["malformed"], 0),
        ("ced/d/subscription/x", b'{"client": "c", "pattern": null}', ["malformed"], 0),
        ("ced/d/subscription/gone", b"", [], 0),
        ("ced/d/detector/gone", b"", [], 0),
        ("ced/d/source/gone", b"", [], 0),
        ("ced/d/client/c2", b"no", ["malformed"], 0),
        ("ced/a/heartbeat/c", b"garbage", ["malformed"], 0),
        ("ced/a/heartbeat/c", b'{"sources": ["s"], "watermark": 9223372036854775808}', ["malformed"], 0),
        ("ced/a/heartbeat/c", b'{"sources": ["nobody"], "watermark": 7}', [], 0),
        ("ced/a/heartbeat", b"", [], 0),
        ("ced/a/heartbeat/c/d", b"", [], 0),
        ("ced/a/ready/unknown", b"", ["malformed"], 0),
        ("ced/a/ready/c", b'{"subscriptions": ["unknown"]}', [], 0),
        ("ced/a/fence/unknown", b"", [], 0),
    ],
)
def test_unusable_message_is_a_dead_letter_and_others_are_used(
    topic: str, payload: bytes, reasons: list[str], consumed: int
) -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A]")
    for _ in range(2):
        network.publish(topic, payload)
        network.run()
    assert network.reasons() == reasons * 2
    (node,) = network.nodes
    assert sum(node.node.dead_letters.counts.values()) == len(reasons) * 2
    for letter in network.letters:
        assert letter.topic == topic
        assert letter.message
    assert len(network.notes) <= 4
    client.publish(event("A", 100, seq=100))
    client.heartbeat(200, "s", "/x")
    network.run()
    statistics = [each.detector.statistics for each in node.node.hosted.values()]
    assert [each.consumed for each in statistics] == [consumed + 1]
    network.pass_time(3 * SECOND)
    counters = decode(network.retained["ced/a/counters/n1"], Counters, where="")
    assert sum(count for name, count in counters.counts.items() if name.startswith("dead letters")) == len(reasons) * 2


def test_on_the_topic_of_a_detector_only_frames_of_composite_events_count() -> None:
    network, client = prepared()
    detector = subscribed(network, client, "q", "[A] -> Out()")
    subscribed(network, client, "r", "[Out]")
    network.publish(f"ced/c/{detector}", encode_frame([Event("Out", 1, 1, "s", 1, {})], type="Out", source="s"))
    network.publish(f"ced/c/{detector}", encode_frame([], type="Other", source="s", kind="c", watermark=5))
    network.run()
    assert network.reasons() == ["malformed", "malformed"]
    assert client.watermarks.get("r") != 5


def test_late_events_are_dead_letters_with_the_detector_that_is_beyond_them() -> None:
    network, client = prepared()
    detector = subscribed(network, client, "q", "[A]")
    client.heartbeat(10, "s")
    client.publish(event("A", 5), event("A", 15))
    client.heartbeat(20, "s")
    network.run()
    assert [(each.reason, each.topic) for each in network.letters] == [("late", detector)]
    assert network.nodes[0].node.counts["late"] == 1
    assert [each.hi for each in client.composites("q")] == [15]


def test_best_effort_counts_disorder_without_dead_letters() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A]", policy="best-effort")
    client.publish(event("A", 5))
    client.publish(event("A", 3))
    network.run()
    assert network.letters == []
    assert network.nodes[0].node.counts["late"] == 1


@pytest.mark.parametrize("members", [1, 3])
def test_late_events_by_best_effort_are_reported_at_most_once_a_second(members: int) -> None:
    network, client = prepared()
    names = [f"q{number}" for number in range(members)]
    for number, name in enumerate(names):
        subscribed(network, client, name, f"[A] ; [B where k < {number + 2}]", policy="best-effort")
    network.pass_time(2 * SECOND)
    client.publish(event("A", 100))
    for hi in range(50, 90, 2):
        client.publish(event("B", hi))
        network.run()
    assert not client.losses
    network.pass_time(SECOND)
    for name in names:
        assert [(each.since, each.until) for each in client.losses[name]] == [(49, 88)]
    network.pass_time(2 * SECOND)
    client.publish(event("B", 95))
    network.run()
    network.pass_time(SECOND)
    for name in names:
        assert [(each.since, each.until) for each in client.losses[name][1:]] == [(94, 95)]
        assert client.losses[name][1].reason == "s: an event of type B late"
    # Nothing is left to say.
    network.pass_time(5 * SECOND)
    assert [len(client.losses[name]) for name in names] == [2] * members


def test_faulty_type_in_the_directory_leaves_others_usable() -> None:
    network, client = prepared()
    client.register(
        EventType("Orphan", {}, Derivation("Nobody")),
        EventType("Odd", {"other": "string"}, Derivation("A")),
        EventType("Ring1", {}, Derivation("Ring2")),
        EventType("Ring2", {}, Derivation("Ring1")),
    )
    network.run()
    subscribed(network, client, "q", "[A]")
    for name in ("Orphan", "Odd", "Ring1"):
        client.subscribe(name, f"[{name}]")
        network.run()
        assert "unknown event type" in client.answers[name][-1].message
    # A base that comes later completes what is derived from it.
    client.register(EventType("Nobody", {}))
    network.run()
    subscribed(network, client, "r", "[Orphan]")


def test_filtered_types_are_read_from_the_types_they_are_derived_from() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[Fast]")
    client.publish(event("A", 1, k=5), event("A", 2, k=50))
    client.heartbeat(9, "s")
    network.run()
    assert [each.hi for each in client.composites("q")] == [2]


@pytest.mark.parametrize("nodes", [1, 3])
def test_one_node_inspects_all_events_for_unknown_types(nodes: int) -> None:
    network, _ = prepared(nodes=nodes)
    stray = encode_frame([Event("Zork", 1, 1, "s", 1, {})], type="Zork", source="s")

    def inspecting() -> list[str]:
        return [each.name for each in network.nodes if "ced/e/+/+" in each.filters]

    network.publish("ced/e/Zork/s", stray)
    network.run()
    assert letters(network) == {"unknown-type": 1}
    (first,) = inspecting()
    if nodes > 1:
        network.lose(next(each for each in network.nodes if each.name == first), for_good=True)
        network.run()
        (second,) = inspecting()
        assert second != first
        network.publish("ced/e/Zork/s", stray)
        network.run()
        assert letters(network) == {"unknown-type": 2}


def test_nodes_that_do_not_inspect_receive_their_inputs_only() -> None:
    network, client = prepared(inspects=False)
    subscribed(network, client, "q", "[A]")
    (node,) = network.nodes
    assert {each for each in node.filters if each.startswith("ced/e")} == {"ced/e/A/+"}


# Sources.


def test_every_node_acknowledges_a_source_also_again() -> None:
    network, client = prepared(nodes=3)
    assert set(client.acknowledged["s"]) == {"n1", "n2", "n3"}
    client.source("s", ["A", "B"])
    network.run()
    assert set(client.acknowledged["s"]) == {"n1", "n2", "n3"}


def test_source_receives_the_watermark_of_the_detectors() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A]")
    client.heartbeat(40, "s")
    client.source("t", ["A"], watermark=3)
    client.source("u", ["B"], watermark=3)
    network.run()
    reported = {name: msgspec.json.decode(client.acknowledged[name]["n1"])["watermark"] for name in ("t", "u")}
    assert reported == {"t": 40, "u": 3}


def test_source_that_leaves_or_changes_its_types_is_not_waited_for() -> None:
    network, client = prepared()
    client.source("t", ["A"])
    subscribed(network, client, "q", "[A]")
    client.heartbeat(10, "s")
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == -100
    assert network.nodes[0].node.holding() == {client.detector("q"): ["t"]}
    client.source("t", ["B"])
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 10
    client.source("t", ["A", "B"], watermark=15)
    client.heartbeat(20, "s")
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 15
    client.clear("source", "t")
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 20


def test_source_that_was_fenced_off_is_not_waited_for_by_detectors_there_and_to_come() -> None:
    network, client = prepared()
    client.source("t", ["A"])
    subscribed(network, client, "q", "[A]")
    client.heartbeat(10, "s")
    network.publish("ced/a/fence/t", b"")
    client.clear("source", "t")
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 10
    subscribed(network, client, "r", "[A] ; [A]")
    client.heartbeat(20, "s")
    network.pass_time(2 * SECOND)
    assert client.watermarks == {"q": 20, "r": 20}
    client.publish(event("A", 30, source="t"))
    client.heartbeat(40, "s")
    network.run()
    assert letters(network) == {"late": 1}
    assert client.watermarks["q"] == 40


def test_expired_lease_is_logged() -> None:
    network, client = prepared()
    client.source("t", ["A"], lease=5 * SECOND)
    subscribed(network, client, "q", "[A]")
    client.heartbeat(10, "s")
    network.pass_time(4 * SECOND)
    assert client.watermarks["q"] == -100
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 10
    (note,) = [each for each in network.notes if each.event == "source fenced off"]
    assert (note.fields["source"], note.fields["reason"]) == ("t", "its lease has run out")


def test_source_may_use_the_last_instants() -> None:
    network, client = prepared(max_ahead=INSTANT_MAX)
    subscribed(network, client, "q", "([A], [T]) @ T = 5ns")
    client.publish(event("A", INSTANT_MAX - 5))
    client.heartbeat(INSTANT_MAX, "s")
    network.run()
    assert [each.hi for each in client.composites("q")] == [INSTANT_MAX]
    assert client.watermarks["q"] == INSTANT_MAX


def test_event_and_promise_far_beyond_the_clock_are_rejected_and_delay_nobody() -> None:
    network, client = prepared(max_ahead=HOUR)
    network.pass_time(SECOND)
    subscribed(network, client, "q", "[A]")
    subscribed(network, client, "r", "[A] ; [B]", policy="best-effort")
    limit = network.now + HOUR
    client.publish(event("A", limit + 1, seq=1), event("A", 5, seq=2), watermark=limit + 1)
    client.heartbeat(limit + 1, "s")
    client.source("t", ["A"], watermark=limit + 1)
    network.run()
    assert network.reasons() == ["ahead"] * 4
    (node,) = network.nodes
    assert node.node.dead_letters.counts["ahead"] == 4
    assert all("--max-ahead" in each.message for each in network.letters)
    client.heartbeat(5, "s", "t")
    client.clear("source", "t")
    network.run()
    assert [each.hi for each in client.composites("q")] == [5]
    client.publish(event("A", 6), event("A", limit, seq=7), watermark=limit)
    network.run()
    assert [each.hi for each in client.composites("q")] == [5, 6, limit]
    assert network.reasons() == ["ahead"] * 4


def test_the_past_is_never_rejected() -> None:
    network, client = prepared()
    network.pass_time(2 * HOUR, every=HOUR)
    subscribed(network, client, "q", "[A]")
    client.publish(event("A", -50, seq=1), event("A", 1, seq=2), watermark=1)
    network.run()
    assert [each.hi for each in client.composites("q")] == [-50, 1] and network.letters == []


def test_unannounced_source_is_heard() -> None:
    network, client = prepared()
    client.clear("source", "s")
    subscribed(network, client, "q", "[A]")
    client.publish(event("A", 5))
    network.run()
    assert client.composites("q") == []
    client.heartbeat(5, "s")
    network.run()
    assert [each.hi for each in client.composites("q")] == [5]
    assert network.letters == []


# Clients.


def test_subscriptions_of_an_absent_client_are_cleared() -> None:
    network, client = prepared(nodes=2)
    other = network.client("other")
    detector = subscribed(network, other, "q", "[A] ; [B]")
    subscribed(network, client, "r", "[B] ; [A]")
    network.lose(other, for_good=True)
    network.pass_time(ABSENCE - SECOND)
    assert network.hosts(detector)
    network.pass_time(RENEW_EVERY + 5 * SECOND)
    assert network.hosts(detector) == []
    assert [topic for topic in network.retained if "/subscription/" in topic] == ["ced/d/subscription/r"]
    assert {each.fields["client"] for each in network.notes if each.event == "subscription cleared"} == {"other"}


def test_client_that_comes_back_in_time_keeps_its_subscriptions() -> None:
    network, client = prepared()
    detector = subscribed(network, client, "q", "[A] ; [B]")
    client.publish(event("A", 1))
    network.run()
    network.lose(client)
    network.pass_time(ABSENCE - 3 * SECOND)
    client.connect()
    network.pass_time(3 * ABSENCE)
    assert network.hosts(detector) == ["n1"]
    client.publish(event("B", 2))
    client.heartbeat(2, "s")
    network.run()
    assert len(client.composites("q")) == 1


def test_node_that_is_cut_off_clears_no_subscriptions() -> None:
    network, client = prepared(nodes=2)
    detector = subscribed(network, client, "q", "[A] ; [B]")
    network.lose(client)
    network.run()
    # Both nodes are cut off; the client is back before them.
    for node in network.nodes:
        network.lose(node)
    network.pass_time(ABSENCE + RENEW_EVERY)
    client.connect()
    network.pass_time(SECOND)
    for node in network.nodes:
        node.connect()
    network.pass_time(2 * RENEW_EVERY)
    assert len(network.hosts(detector)) == 1 and "ced/d/subscription/q" in network.retained
    assert "subscription cleared" not in {each.event for each in network.notes}


def test_client_that_is_never_ready_blocks_no_other() -> None:
    network, client = prepared()
    deaf = network.client("deaf")
    deaf.accepts = False
    deaf.subscribe("q", "[A]")
    network.run()
    subscribed(network, client, "r", "[A]")
    client.publish(event("A", 1))
    client.heartbeat(2, "s")
    network.pass_time(5 * SECOND)
    assert len(client.composites("r")) == 1
    assert set(deaf.states("q")) == {"offered"}
    network.lose(deaf, for_good=True)
    network.pass_time(ABSENCE + RENEW_EVERY + 5 * SECOND)
    (entry,) = [
        decode(value, DetectorEntry, where="") for topic, value in network.retained.items() if "/detector/" in topic
    ]
    assert entry.subscriptions == 1


def test_sources_of_a_lost_client_are_logged_by_one_node() -> None:
    network, client = prepared(nodes=3)
    network.lose(client, for_good=True)
    network.run()
    (note,) = [each for each in network.notes if each.event == "client lost"]
    assert (note.fields["client"], note.fields["sources"]) == ("c", "s")


def test_watermarks_that_no_detector_waits_for_are_published_seldom() -> None:
    network, client = prepared()
    subscribed(network, client, "q", "[A]")
    for watermark in (9, 10):
        client.heartbeat(watermark, "s")
        network.run()
        assert client.watermarks["q"] == 9
    client.publish(event("A", 11), watermark=12)
    network.run()
    # With what is found it is told at once, and else in a while.
    assert client.watermarks["q"] == 12
    client.heartbeat(20, "s")
    network.pass_time(2 * SECOND)
    assert client.watermarks["q"] == 20

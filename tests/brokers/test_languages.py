"""Subscriptions in other languages: nodes translate them, and hand the core text on."""

from __future__ import annotations

from distced.detectors.compiler import compile_file
from distced.middleware.model.event_types import EventType
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import Scene

QUERY = "SELECT k_1 AS a, k AS b FROM A NEXT{$1.k = $2.k} B PUBLISH Pair"
CORE = "[A as x] ; [B where x.k == k as y] -> Pair(a = x.k, b = y.k) consumed epoch"


def scene() -> Scene:
    made = Scene()
    for name in "AB":
        made.app.register(EventType(name, {"k": "number", "v": "number"}))
    made.network.run()
    return made


def test_text_is_translated_by_nodes_and_its_detector_moves() -> None:
    made = scene()
    made.subscribe("q", QUERY, language="cel")
    (texts,) = (texts for texts in made.hosted.values() if texts)
    (text,) = texts
    assert compile_file(text)[0].canonical_id == compile_file(CORE)[0].canonical_id
    made.happen("A")
    origin = made.host_of(text)
    target = next(each for each in made.nodes if each is not origin)
    made.network.publish(administration_topic("move", made.app.detector("q")), encode(MoveRequest(target.name)))
    made.network.run()
    assert made.host_of(text) is target
    made.happen("B")
    assert [each.constituents for each in made.app.composites("q")] == [(("s", 1), ("s", 2))]


def test_one_detector_serves_users_of_two_languages() -> None:
    made = scene()
    other = made.network.client("other")
    made.subscribe("q", QUERY, language="cel")
    made.subscribe("r", CORE, app=other)
    assert sum(len(texts) for texts in made.hosted.values()) == 1


def test_refusal_has_the_place_in_the_text() -> None:
    made = scene()
    made.app.subscribe("q", "SELECT w FROM A", language="cel")
    made.network.run()
    (answer,) = made.app.answers["q"]
    assert answer.state == "refused"
    assert "no attribute w" in str(answer)
    assert "column 8" in str(answer)


def test_query_of_several_is_named() -> None:
    made = scene()
    two = f"{QUERY} SELECT a FROM Pair PUBLISH Again"
    made.subscribe("q", two, language="cel", query="Pair")
    made.subscribe("r", two, language="cel", query="Again")
    made.happen("AB")
    assert (made.found("q"), made.found("r")) == (1, 1)
    made.app.subscribe("s", two, language="cel")
    made.network.run()
    assert "several queries" in str(made.app.answers["s"])


def test_unknown_language_is_refused() -> None:
    made = scene()
    made.app.subscribe("q", QUERY, language="cobol")
    made.network.run()
    assert "unknown language of a pattern" in str(made.app.answers["q"])


def test_text_is_translated_again_when_types_change() -> None:
    made = scene()
    made.app.subscribe("q", "SELECT w FROM A", language="cel")
    made.network.run()
    assert made.app.states("q")[-1] == "refused"
    made.app.register(EventType("A", {"k": "number", "v": "number", "w": "number"}))
    made.network.run()
    made.subscribe("r", "SELECT w FROM A", language="cel")


def test_lifespan_and_selection_go_along_with_a_detector_that_moves() -> None:
    made = scene()
    text = """
        LIFESPAN Shift INITIATOR A i WHERE k = 9 TERMINATOR A e WHERE k = i.k + 1
        Q: Out EVENT_PATTERN SEQUENCE(A x, NOT(A n), B y) WHERE x.k < 5 AND n.k < 5
        LIFETIME LIFESPAN Shift NOTIFY Last x AS (k = x.k)
    """
    made.subscribe("q", text, language="cedr")
    made.happen("A", k=1)
    made.happen("A", k=9)
    made.happen("A", k=2)
    (hosted,) = (texts for texts in made.hosted.values() if texts)
    (core,) = hosted
    origin = made.host_of(core)
    target = next(each for each in made.nodes if each is not origin)
    made.network.publish(administration_topic("move", made.app.detector("q")), encode(MoveRequest(target.name)))
    made.network.run()
    assert made.host_of(core) is target
    made.happen("B", k=0)
    made.happen("A", k=10)
    made.happen("A", k=3)
    made.happen("B", k=0)
    assert [each.attributes for each in made.app.composites("q")] == [{"k": 2}]


def test_state_of_a_text_is_kept_by_nodes() -> None:
    made = scene()
    made.subscribe("q", "Q: Out EVENT_PATTERN SEQUENCE(NOT(A n, WITHIN 1 d), B y) NOTIFY AS (k = y.k)", language="cedr")
    made.happen("B", k=1)
    made.happen("A", k=1)
    made.happen("B", k=2)
    assert [each.attributes for each in made.app.composites("q")] == [{"k": 1}]


def test_pattern_that_is_longer_than_its_text_moves() -> None:
    made = scene()
    made.app.register(*(EventType(name, {"k": "number", "v": "number"}) for name in "CDE"))
    made.network.run()
    text = "Q: Out EVENT_PATTERN ALL(A a, B b, C c, D d, E e) WHERE CorrelationKey(k, Unique) LIFETIME 1 d"
    made.subscribe("q", text, language="cedr")
    assert [len(core) > 10_000 for texts in made.hosted.values() for core in texts] == [True]
    (core,) = (core for texts in made.hosted.values() for core in texts)
    target = next(each for each in made.nodes if each is not made.host_of(core))
    made.network.publish(administration_topic("move", made.app.detector("q")), encode(MoveRequest(target.name)))
    made.network.run()
    assert made.host_of(core) is target


def test_reader_of_a_query_waits_until_that_is_subscribed_to() -> None:
    made = scene()
    two = f"{QUERY} SELECT a FROM Pair PUBLISH Again"
    made.subscribe("r", two, language="cel", query="Again")
    made.network.pass_time(3 * SECOND)
    assert made.app._subscriptions["r"].waits == "the type Pair has no publisher: subscribe to its query, too"
    made.subscribe("q", two, language="cel", query="Pair")
    made.network.pass_time(3 * SECOND)
    assert made.app._subscriptions["r"].waits == ""
    made.happen("AB")
    assert (made.found("q"), made.found("r")) == (1, 1)

"""Patterns are checked once per node, as long as the types they look up stay the same."""

from __future__ import annotations

import pytest

from distced.brokers.core.directory import Directory
from distced.brokers.node.planning import CACHED, PatternCache, Planner
from distced.detectors.compiler import compile_pattern
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry, derive, event_type
from distced.middleware.wire.directory_entries import SubscriptionEntry
from tests.support.virtual_nodes import Network

A, B = event_type("A", {"v": "number"}), event_type("B", {"v": "number"})


def registry(*types: EventType) -> TypeRegistry:
    return TypeRegistry(types)


def test_pattern_is_checked_once_per_text_definitions_and_consumption() -> None:
    cache = PatternCache()
    first = cache.check("[A] ; [B]", {}, "ordered", registry(A, B))
    assert cache.check("[A] ; [B]", {}, "ordered", registry(A, B)) is first
    assert cache.check("[A] ; [B]", {}, "epoch", registry(A, B)) is not first
    assert cache.check("[X]", {"X": "[A]"}, "ordered", registry(A, B)) is not cache.check(
        "[X]", {"X": "[B]"}, "ordered", registry(A, B)
    )
    assert cache.checked == 4
    assert first == compile_pattern("[A] ; [B]", registry(A, B))


def test_pattern_is_checked_again_when_a_type_it_reads_changes() -> None:
    cache = PatternCache()
    first = cache.check("[A] ; [B]", {}, "ordered", registry(A, B))
    assert cache.check("[A] ; [B]", {}, "ordered", registry(A, B, event_type("C"))) is first
    other = event_type("B", {"v": "number", "w": "string"})
    assert cache.check("[A] ; [B]", {}, "ordered", registry(A, other)) is not first
    with pytest.raises(DistcedError, match="unknown event type"):
        cache.check("[A] ; [B]", {}, "ordered", registry(A))
    hot = derive(A, "Hot", where="v > 1")
    kept = cache.check("[Hot]", {}, "ordered", registry(A, hot))
    hotter = derive(A, "Hot", where="v > 2")
    assert cache.check("[Hot]", {}, "ordered", registry(A, hotter)) != kept


def test_pattern_whose_timer_becomes_a_type_is_refused() -> None:
    cache = PatternCache()
    text = "([A], [T <= {T, B}]) @ T = 1h"
    cache.check(text, {}, "ordered", registry(A, B))
    with pytest.raises(DistcedError):
        cache.check(text, {}, "ordered", registry(A, B, event_type("T")))


def test_cache_is_bounded() -> None:
    cache = PatternCache()
    for number in range(CACHED + 1):
        cache.check(f"[A] within {number + 1}s", {}, "ordered", registry(A))
    cache.check("[A] within 2s", {}, "ordered", registry(A))
    assert cache.checked == CACHED + 1
    cache.check("[A] within 1s", {}, "ordered", registry(A))
    assert cache.checked == CACHED + 2


def test_node_checks_a_pattern_once_between_a_subscription_and_its_detector() -> None:
    network = Network()
    node = network.node("n")
    app = network.client("app")
    app.register(A, B)
    app.source("s", ("A", "B"))
    network.run()
    app.subscribe("q", "[A] ; [B]")
    network.run()
    app.subscribe("q2", "[A] ; [B]")
    network.run()
    assert app.states("q2")[-1] == "active"
    assert node.node.hosting.planner.patterns.checked == 1


@pytest.mark.parametrize("text", ["[A as a] ; [B where v > a.v]", "[A] ; [any]", "[A where v > 1] -> Out(n = 1)"])
@pytest.mark.parametrize("consumption", ["ordered", "epoch"])
def test_node_identifies_a_detector_without_its_automaton(text: str, consumption: str) -> None:
    entry = SubscriptionEntry("app", text, consumption=consumption)
    found = Planner("n", Directory()).identify(entry, registry(A, B))
    assert "automaton" not in vars(found.compiled)
    assert found.id == compile_pattern(text, registry(A, B), consumption=consumption).canonical_id  # type: ignore[arg-type]


def test_pattern_that_cannot_match_is_refused_by_the_coordinator_of_its_detector() -> None:
    network = Network()
    for name in ("n1", "n2", "n3"):
        network.node(name)
    app = network.client("app")
    app.register(A, B)
    network.run()
    for number in range(5):
        app.subscribe(f"q{number}", f"[A] ; [B where v > {number} <= A]")
    network.run()
    for number in range(5):
        assert app.states(f"q{number}")[-1] == "refused"
        assert "can never match" in app.answers[f"q{number}"][-1].message

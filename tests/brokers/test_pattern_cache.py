"""Patterns are compiled once per node, as long as the types they look up stay the same."""

from __future__ import annotations

import pytest

from distced.brokers.node.pattern_cache import SIZE, PatternCache
from distced.detectors.compiler import compile_pattern
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry, derive, event_type
from tests.support.virtual_nodes import Network

A, B = event_type("A", {"v": "number"}), event_type("B", {"v": "number"})


def registry(*types: EventType) -> TypeRegistry:
    return TypeRegistry(types)


def test_pattern_is_compiled_once_per_text_definitions_and_consumption() -> None:
    cache = PatternCache()
    first = cache.compile("[A] ; [B]", {}, "ordered", registry(A, B))
    assert cache.compile("[A] ; [B]", {}, "ordered", registry(A, B)) is first
    assert cache.compile("[A] ; [B]", {}, "epoch", registry(A, B)) is not first
    assert cache.compile("[X]", {"X": "[A]"}, "ordered", registry(A, B)) is not cache.compile(
        "[X]", {"X": "[B]"}, "ordered", registry(A, B)
    )
    assert cache.compiled == 4
    assert first == compile_pattern("[A] ; [B]", registry(A, B))


def test_pattern_is_compiled_again_when_a_type_it_reads_changes() -> None:
    cache = PatternCache()
    first = cache.compile("[A] ; [B]", {}, "ordered", registry(A, B))
    assert cache.compile("[A] ; [B]", {}, "ordered", registry(A, B, event_type("C"))) is first
    other = event_type("B", {"v": "number", "w": "string"})
    assert cache.compile("[A] ; [B]", {}, "ordered", registry(A, other)) is not first
    with pytest.raises(DistcedError, match="unknown event type"):
        cache.compile("[A] ; [B]", {}, "ordered", registry(A))
    hot = derive(A, "Hot", where="v > 1")
    kept = cache.compile("[Hot]", {}, "ordered", registry(A, hot))
    hotter = derive(A, "Hot", where="v > 2")
    assert cache.compile("[Hot]", {}, "ordered", registry(A, hotter)) != kept


def test_pattern_whose_timer_becomes_a_type_is_refused() -> None:
    cache = PatternCache()
    text = "([A], [T <= {T, B}]) @ T = 1h"
    cache.compile(text, {}, "ordered", registry(A, B))
    with pytest.raises(DistcedError):
        cache.compile(text, {}, "ordered", registry(A, B, event_type("T")))


def test_cache_is_bounded() -> None:
    cache = PatternCache()
    for number in range(SIZE + 1):
        cache.compile(f"[A where v > {number}]", {}, "ordered", registry(A))
    cache.compile("[A where v > 1]", {}, "ordered", registry(A))
    assert cache.compiled == SIZE + 1
    cache.compile("[A where v > 0]", {}, "ordered", registry(A))
    assert cache.compiled == SIZE + 2


def test_node_compiles_a_pattern_once_between_a_subscription_and_its_detector() -> None:
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
    assert node.node.hosting.planner.patterns.compiled == 1

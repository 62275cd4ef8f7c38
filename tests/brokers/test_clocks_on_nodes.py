"""Clocks on nodes: their types are entries of the directory, nobody waits for them, and detectors move between two
instants."""

from __future__ import annotations

import pytest

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.event_types import Derivation, EventType, TypeRegistry, clock_type
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import administration_topic
from tests.brokers.test_coordinated import KINDS, Scene

CLOCKS = (clock_type("Tick", "%every 7ns"), clock_type("Seven", "%every 7ns"))
ODD = EventType("Odd", {}, Derivation("Tick", "hi() % 2 == 1"))


def scene() -> Scene:
    made = Scene()
    made.app.register(*CLOCKS, ODD)
    made.network.run()
    return made


def test_clock_comes_with_the_watermarks_of_sources() -> None:
    made = scene()
    made.subscribe("q", "[A] [Tick]")
    made.happen("A")
    assert [each.hi for each in made.app.composites("q")] == [14]
    made.happen("B")
    made.happen("A")
    assert [each.hi for each in made.app.composites("q")] == [14, 35]
    assert made.network.letters == []


def test_readers_of_one_rule_share_a_detector() -> None:
    made = scene()
    other = made.network.client("other")
    made.subscribe("q", "[A] [Tick] -> X()")
    made.subscribe("r", "[A] [Seven] -> X()", app=other)
    assert sum(map(len, made.hosted.values())) == 1
    made.happen("AB")
    assert (made.found("q"), made.found("r", other)) == (1, 1)


def test_derived_clocks_and_keys() -> None:
    made = scene()
    made.subscribe("q", "[A] [Odd <= {Odd, B}] by k")
    made.happen("ACB")
    assert [(each.lo, each.hi) for each in made.app.composites("q")] == [(10, 21)]


@pytest.mark.parametrize("policy", ["guaranteed", "best-effort"])
def test_detector_moves_between_two_instants(policy: str) -> None:
    made = scene()
    text = "[A] [Tick]{4}"
    made.subscribe("q", text, detection=policy)
    made.happen("AC")
    origin = made.host_of(text)
    target = next(each for each in made.nodes if each is not origin)
    topic = administration_topic("move", made.app.detector("q"))
    made.network.publish(topic, encode(MoveRequest(target.name)))
    made.network.run()
    made.happen("CCC")
    assert made.host_of(text) is target
    assert [each.hi for each in made.app.composites("q")] == [35]


@pytest.mark.parametrize("pattern", ["[Tick] [A]", "[A] & [Tick]", "once ([A]* [Tick])+", "[A] [Tick where v == 1]"])
def test_nodes_refuse_what_the_compiler_refuses(pattern: str) -> None:
    made = scene()
    made.app.subscribe("q", pattern)
    made.network.run()
    assert made.app.states("q") == ["refused"]


def test_text_of_the_detector_needs_no_entry() -> None:
    made = Scene()
    registry = TypeRegistry((*KINDS, *CLOCKS))
    made.subscribe("q", compile_pattern("[A] [Tick]", registry).plain_text)
    made.happen("A")
    assert made.found("q") == 1

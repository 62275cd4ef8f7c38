"""Figures of detectors expected from a history: they count until hosts have measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import compile_pattern
from distced.middleware.wire.directory_entries import Foreseen, HintEntry, LoadEntry, Measured, OutputTraffic, parts_key
from distced.policies.distribution.choose.place_all import place
from distced.policies.distribution.policy import NAMED
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.rates import flow_of
from distced.policies.distribution.situation.readers import Stream
from tests.policies.test_suggest import EAST, LINE, WEST
from tests.support.deployments import patterns, random_situation, seeds, situation_of, subscriber_of

FORESEEN = Foreseen(3.0, OutputTraffic(100.0, 1.0), OutputTraffic(400.0, 5.0), OutputTraffic(900.0, 5.0), {"": 50.0})


@settings(max_examples=30, deadline=None)
@given(seeds, patterns, st.floats(0.1, 50), st.floats(1, 5000))
def test_foreseen_detector_adds_its_estimate(seed: int, pattern: str, often: float, size: float) -> None:
    """With figures of a history as with those that are expected."""
    situation = random_situation(seed)
    name = compile_pattern(pattern).automaton.canonical_id
    traffic = OutputTraffic(size, often)
    situation.changed("hint", name, HintEntry(foreseen=Foreseen(often, traffic, traffic, traffic, {"": size})))
    before, known = situation.bytes_over_links, name in situation.detectors
    for policy in ("min-latency", "min-bandwidth"):
        placement = place(pattern, replace(NAMED[policy], decomposition="none"), situation,
                          subscriber_of(situation.topology))  # fmt: skip
        found = placement.root.suggestion
        if known or found.action != "create":
            continue
        assert found.chosen.load == pytest.approx(size)
        assert placement.situation.bytes_over_links - before == pytest.approx(found.chosen.bytes, abs=1e-6)


def test_foreseen_output_depends_on_readers() -> None:
    """Quiet as long as applications alone listen; as a part once it is read as one, to whoever listens."""
    situation = situation_of(LINE)
    part = compile_pattern("[A] ; [B]").automaton.canonical_id
    situation.changed("hint", part, HintEntry(foreseen=FORESEEN))
    alone = place("[A] ; [B]", NAMED["min-bandwidth"], situation, WEST).situation
    stream = Stream("composite", "", part)
    assert alone.measures.of(part).rate == 3.0
    assert alone.measures.flow(stream) == flow_of(FORESEEN.quiet) == 100.0 + message_sizes.MESSAGE
    assert alone.measures.louder(part) == flow_of(FORESEEN.part) - flow_of(FORESEEN.quiet)
    read = place("[A] ; [B] ; [C]", NAMED["min-load"], alone, EAST).situation
    assert any(part in entry.parts for entry in read.detectors.values())
    assert read.measures.flow(stream) == flow_of(FORESEEN.part)
    assert read.measures.louder(part) == 0.0


def test_foreseen_output_read_by_type() -> None:
    situation = situation_of(LINE)
    name = compile_pattern("[A] ; [B] -> Pair()").automaton.canonical_id
    situation.changed("hint", name, HintEntry(foreseen=FORESEEN))
    alone = place("[A] ; [B] -> Pair()", NAMED["min-bandwidth"], situation, WEST).situation
    stream = Stream("composite", "", name)
    assert alone.measures.flow(stream) == flow_of(FORESEEN.quiet)
    read = place("[Pair] ; [C]", NAMED["min-bandwidth"], alone, EAST).situation
    assert read.measures.flow(stream) == flow_of(FORESEEN.loud)


def test_measurement_precedes_foreseen_load() -> None:
    situation = situation_of(LINE)
    name = compile_pattern("[A] ; [B]").automaton.canonical_id
    situation.changed("hint", name, HintEntry(foreseen=FORESEEN))
    placed = place("[A] ; [B]", NAMED["min-bandwidth"], situation, WEST).situation
    node = placed.detectors[name].node
    assert placed.load(node) == 50.0
    placed.changed("load", node, LoadEntry(7.0, {name: Measured(load=7.0, rate=1.0, size=10.0)}))
    assert placed.load(node) == 7.0
    assert placed.measures.of(name).rate == 1.0
    placed.changed("load", node, None)
    assert placed.load(node) == 50.0
    # The entry is cleared, and what was expected by it is forgotten: as if there had been none.
    placed.changed("hint", name, None)
    placed.expect(name, None)
    assert placed.load(node) != 50.0


def test_foreseen_load_depends_on_parts() -> None:
    assert parts_key(("c2", "c1")) == parts_key(("c1", "c2")) == "c1 c2"
    foreseen = Foreseen(1.0, OutputTraffic(), OutputTraffic(), OutputTraffic(), {"": 9.0, "c1 c2": 2.0})
    assert foreseen.load(("c2", "c1")) == 2.0
    assert foreseen.load(()) == 9.0
    assert foreseen.load(("c3",)) is None

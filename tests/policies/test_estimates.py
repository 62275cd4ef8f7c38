"""Estimates of detectors, against their measured figures."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from distced.brokers.node.value_samples import ValueSamples
from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.cut import cut, none
from distced.detectors.shapes import Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Hints, LoadEntry, Measured, SampleEntry, SourceEntry
from distced.policies.distribution.estimate.busiest_node import ESTIMATED, INFORMED
from distced.policies.distribution.estimate.costs import CostEstimate
from distced.policies.distribution.estimate.delays import Input, waited
from distced.policies.distribution.estimate.detector_estimate import expected
from distced.policies.distribution.estimate.selectivity import Selectivity
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.situation import Situation

RATES = {"A": 4.0, "B": 2.0, "C": 1.0}


def estimated(pattern: str, hints: Hints | None = None, **more: bool) -> Measured:
    situation = Situation()
    for name in RATES:
        situation.changed("source", f"s{name}", SourceEntry((name,), 0))
    graph = cut([compile_pattern(pattern)], none)
    return expected(graph.plans[graph.roots[0]], situation, hints or Hints(rates=RATES), **more)


@pytest.mark.parametrize(
    ("pattern", "rate", "load"),
    [
        ("[A]", 4, 4),
        # Every A begins an instance, which the next B completes.
        ("[A] ; [B]", 4, 4 + 4),
        ("[B] ; [A]", 2, 2 + 2),
        ("[A] ; [B] ; [C]", 4, 4 + 4 + 4),
        # Of what follows an A, two in three are B's.
        ("[A] ; [B <= {B, C}]", 4 * 2 / 3, 4 + 4),
        ("[A] | [B]", 6, 6),
        # A tenth of the B's will do; the others are settled by one test for all instances.
        ("[A] ; [B where x == 1]", 4, 4 + 4),
        # A third of them, by a condition on the instance.
        ("[A as a] ; [B where x > a.x]", 4, 4 + 4 * 3),
        ("[A where x == 1] ; [B]", 0.4, 0.4 + 0.4),
        # Each that waits is touched once: by a B in time, or by one that comes too late and ends it.
        ("[A] ; [B] within 1s", 4 * (1 - exp(-2)), 4 + 4),
        # The time event comes once a second for each that waits, the B twice.
        ("([A], [B <= {B, T}]) @ T = 1s", 4 * 2 / 3, 4 + 4 * 2 / 3),
        ("[X] ; [A]", 0, 0),
    ],
)
def test_estimates_match_hand_calculation(pattern: str, rate: float, load: float) -> None:
    found = estimated(pattern)
    assert found.rate == pytest.approx(rate)
    assert found.load == pytest.approx(load)


def test_values_of_events_decide_on_constants_and_keys() -> None:
    """With 2,000 events of the stream, by one engine, within a third; and the error of the load is smaller then."""
    random = Random(5)
    events = []
    for name, rate in RATES.items():
        instant = 0.0
        while (instant := instant + random.expovariate(rate)) < 400:
            at = int(instant * SECOND)
            events.append(
                Event(name, at, at, f"s{name}", len(events), {"v": random.randrange(10), "k": random.choice("abcde")})
            )
    events.sort(key=lambda each: each.key)
    samples = ValueSamples(20)
    for event in events:
        samples.take(event, event.hi)
    while samples.tick(events[-1].hi):
        pass
    situation = Situation()
    for name in RATES:
        situation.changed("source", f"s{name}", SourceEntry((name,), 0))
    hints = Hints(rates=RATES)
    shapes, registry = Shapes(), TypeRegistry(event_type(name, {"v": "number", "k": "string"}) for name in RATES)
    for pattern in ("[A where v > 8] ; [B where v > 8] within 2s", "[A where v > 1] ; [B where v > 1] within 2s",
                    "[A as a where v > 6] ; [B where k == a.k and v > 2] within 3s",
                    "[A where v > 3] ; [A where v > 3] within 2s by k"):  # fmt: skip
        compiled = shapes.find(pattern, registry)
        graph = cut([compiled], none)
        engine = StepwiseEngine([compile_pattern(pattern, registry)])
        engine.feed(events)
        costs = {}
        for values in ({}, samples.published):
            situation.changed("sample", "n", SampleEntry(values))
            costs[bool(values)] = CostEstimate.of_new(
                situation, graph, graph.roots[0], hints, derivations=False, constituents=False, guaranteed=True
            )
        assert costs[True].load == pytest.approx(engine.touched / 400, rel=1 / 3), pattern
        assert costs[True].error == INFORMED * costs[True].load and costs[False].error == ESTIMATED * costs[False].load


def test_start_is_touched_alike_by_a_part() -> None:
    assert estimated("[A where x == 1] ; [B]", derivations=True).load == pytest.approx(0.4 + 0.4)


@pytest.mark.parametrize(
    "pattern",
    ["[A] ; [B]", "[B] ; [A] ; [C]", "[A] ; [B <= {B, C}]", "[A] | [C]", "[A] ; [B] within 1s", "[A][B <= {A, B}]*[C]",
     "([B] ; [C]) & [A]", "[A] ; ([B] | [C])"],
)  # fmt: skip
def test_estimates_are_near_detection(pattern: str) -> None:
    """A long random stream at these rates; within a factor of two, which is as much as placing needs."""
    random = Random(1)
    events = []
    for name, rate in RATES.items():
        at = 0.0
        while (at := at + random.expovariate(rate)) < 400:
            events.append((at, name))
    compiled = compile_pattern(pattern)
    engine = StepwiseEngine([compiled])
    found = len(engine.feed(
        Event(name, round(at * SECOND), round(at * SECOND), f"s{name}", number, {})
        for number, (at, name) in enumerate(sorted(events))
    ))  # fmt: skip
    found += len(engine.finish())
    guess = estimated(pattern)
    assert found / 2 < guess.rate * 400 < found * 2
    assert engine.touched / 2 < guess.load * 400 < engine.touched * 2


def test_endless_iteration_has_estimate() -> None:
    found = estimated("([A]+ [A]+)+")
    assert 0 < found.rate < float("inf")
    assert 0 < found.load < float("inf")


def test_hints_and_derivations_change_estimate() -> None:
    assert estimated("[A] ; [B]", Hints(rates=RATES, selectivity=0.5)).rate == 3
    plain, part = estimated("[A] ; [B]"), estimated("[A] ; [B]", derivations=True, constituents=True)
    more = message_sizes.DERIVATION + 2 * message_sizes.INSIDE
    # Two sources, the slower of them heard six times a second; whoever reads it hears of each step.
    quiet = (2 * (2 + message_sizes.HEARTBEATS) - message_sizes.QUIET) * message_sizes.FRAME
    assert part.size - plain.size == pytest.approx(4 * more + quiet)
    assert estimated("[A]", Hints()).events == message_sizes.RATE
    # What was measured counts before a hint.
    situation = Situation()
    situation.changed("source", "sA", SourceEntry(("A",), 0))
    graph = cut([compile_pattern("[A]")], none)
    plan = graph.plans[graph.roots[0]]
    from distced.middleware.wire.directory_entries import DetectorEntry

    situation.changed("detector", "d", DetectorEntry("n", "[A]", "guaranteed", ("A",)))
    situation.changed("load", "n", LoadEntry(0.0, {"d": Measured(inputs={"sA": 700.0}, events=7)}))
    assert expected(plan, situation, Hints(rates={"A": 3.0})).events == 7


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("x == 1", 0.1),
        ("x != 1", 0.9),
        ("x > 1", 1 / 3),
        ("not x > 1", 2 / 3),
        ("x > 1 and y == 2", 1 / 30),
        ("x > 1 or y == 2", 1 / 3 + 0.1 - 1 / 30),
        ("x", 0.5),
    ],
)
def test_conditions_have_shares(condition: str, share: float) -> None:
    position = compile_pattern(f"[A where {condition}]").automaton.positions[0]
    assert Selectivity({}).share(position.label.condition("A")) == pytest.approx(share)


# Waiting.


def test_wait_for_one_input_is_its_latency() -> None:
    assert waited([Input(5e6, 1, 4)]) == 5e6
    assert waited([]) == 0


def test_wait_for_several_inputs_matches_sampling() -> None:
    inputs = [Input(20e6, 1, 5), Input(5e6, 1, 5), Input(60e6, 1, 20), Input(20e6, 1, 5)]
    random = Random(3)
    drawn = [max(each.latency + random.random() * SECOND / each.heard for each in inputs) for _ in range(20_000)]
    assert waited(inputs) == pytest.approx(sum(drawn) / len(drawn), rel=0.02)


def test_best_effort_waits_for_no_input() -> None:
    assert waited([Input(10e6, 3, 4), Input(50e6, 1, 4)], guaranteed=False) == 20e6
    assert waited([Input(10e6, 0, 4), Input(50e6, 0, 4)], guaranteed=False) == 30e6


def test_wait_for_unreachable_input_is_infinite() -> None:
    assert waited([Input(float("inf"), 1, 4), Input(1e6, 1, 4)]) == float("inf")

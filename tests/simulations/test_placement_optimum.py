"""The optimum against every placement there is, on networks small enough for that."""

from __future__ import annotations

import ctypes
import io
from dataclasses import replace
from random import Random

import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import Foreseen, OutputTraffic
from distced.policies.distribution.policy import NAMED
from distced.policies.distribution.situation.rates import hosting
from distced.policies.topology.model import BrokerNode, Place
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology
from distced.simulations.benchmarks.placement import random_instance
from distced.simulations.placement import analysis_report
from distced.simulations.placement.analysis import analyse
from distced.simulations.placement.by_policy import place_all, replan, settle
from distced.simulations.placement.evaluation import METRICS, Cost, Metric, evaluate, gap, parse_metrics
from distced.simulations.placement.history_figures.counting import HistoryCounts
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.programme import OutOfTimeError
from distced.simulations.placement.optimum.search_space import PatternRequest, space_of
from distced.simulations.placement.problem import PlacementProblem, expected_figures
from tests.support.random_placements import all_placements, instance_of_texts, small_instance

seeds = st.integers(0, 10_000)


@pytest.mark.slow
@settings(max_examples=16, deadline=None)
@given(seeds)
def test_optimum_is_the_best_of_all_placements(seed: int) -> None:
    """Of all placements, the one with the least bytes has as many as the programme says; so with load and latency."""
    instance = small_instance(seed)
    costs = [evaluate(instance, each) for each in all_placements(instance)]
    for metric in ("bandwidth", "load"):
        best = optimum(instance, metric)
        least = min(cost.by(metric) for cost in costs)
        # A pattern may have several hosts, each of which serves who is near: that is none of these placements.
        several = any(entry.replicas for entry in best.detectors.values())
        assert best.proven
        assert best.cost.by(metric) <= least * (1 + 1e-3)
        if not several:
            assert best.cost.by(metric) == pytest.approx(least, rel=1e-3)
        assert best.bound <= best.cost.by(metric) * (1 + 1e-6)
    # A pattern that is cut is found no sooner than one that is whole.
    whole = [evaluate(instance, each) for each in all_placements(_whole(instance))]
    best = optimum(instance, "latency")
    assert best.cost.delay == pytest.approx(min(cost.delay for cost in whole), rel=1e-3)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_detector_with_two_hosts_outlives_any_node(seed: int) -> None:
    instance = small_instance(seed)
    best = optimum(instance, "reliability")
    assert best.cost.lost == 0
    sites = {node.site for node in instance.topology.nodes.values()}
    apart = [each for each in all_placements(instance, 2) if _apart(instance, each)] if len(sites) > 1 else []
    fewest = min((evaluate(instance, each).bytes for each in apart), default=None)
    if fewest is not None:
        assert best.cost.bytes == pytest.approx(fewest, rel=1e-3)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seeds)
def test_optimum_respects_capacities(seed: int) -> None:
    """With as much as the patterns need if each has a node of its own, and hardly more."""
    instance = small_instance(seed, nodes=3)
    whole = [instance.foreseen[root].loads[""] for root in dict.fromkeys(instance.space.roots)]
    limited = _limited(instance, max(whole) * 1.05)
    costs = [evaluate(limited, each) for each in all_placements(limited)]
    possible = [cost.bytes for cost in costs if not cost.overloaded]
    if not possible:
        with pytest.raises(DistcedError, match="the nodes are too small for the patterns"):
            optimum(limited, "bandwidth")
        return
    best = optimum(limited, "bandwidth")
    assert not best.cost.overloaded
    assert best.cost.bytes <= min(possible) * (1 + 1e-3)
    if not any(entry.replicas for entry in best.detectors.values()):
        assert best.cost.bytes == pytest.approx(min(possible), rel=1e-3)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 15, deadline=None)
@given(seeds)
def test_optimum_is_as_good_as_every_policy(seed: int) -> None:
    instance = random_instance(seed, 10)
    placed = {}
    for name, policy in NAMED.items():
        placed[name] = place_all(instance, policy)
        instance = instance.with_alternatives(placed[name].plans)
    costs = {name: evaluate(instance, each.detectors) for name, each in placed.items()}
    for metric in METRICS:
        best = optimum(instance, metric, seconds=2)  # The bound holds after any time.
        for name, cost in costs.items():
            if not cost.overloaded:
                assert cost.by(metric) >= best.bound * (1 - 1e-3) - 1e-9, name


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 15, deadline=None)
@given(seeds)
def test_settling_and_replanning_improve_a_placement(seed: int) -> None:
    """What was replanned is no worse, and every pattern is still there."""
    instance = random_instance(seed, 10)
    for name, metric in (("min-bandwidth", "bandwidth"), ("min-load", "load")):
        placed = settle(instance, place_all(instance, NAMED[name]))
        replanned = replan(instance, placed, metric)
        known = instance.with_alternatives(placed.plans).with_alternatives(replanned.plans)
        before, after = evaluate(known, placed.detectors), evaluate(known, replanned.detectors)
        assert (len(after.overloaded), after.by(metric)) <= (len(before.overloaded), before.by(metric) * (1 + 1e-9))
        for entries in (placed.detectors, replanned.detectors):
            assert set(instance.space.roots) <= entries.keys()
            assert all(set(entry.parts) <= entries.keys() for entry in entries.values())


def test_optimum_counts_reads_by_type() -> None:
    """A pattern that reads what another publishes: its composite events cross links, too."""
    instance = small_instance(3, patterns=1)
    texts = ["[A where v > 8] ; [B where v > 8] -> Rare()", "[Rare] ; [A where v > 8]"]
    named = instance_of_texts(texts, instance.topology, Random(1))
    costs = [evaluate(named, each) for each in all_placements(named)]
    best = optimum(named, "bandwidth")
    assert best.cost.bytes == pytest.approx(min(cost.bytes for cost in costs), rel=1e-3)


@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from([0.0, 1.05, 1.6]))
def test_optimum_counts_delays_of_reads_by_type(seed: int, room: float) -> None:
    """It stands where its readers hear it the soonest, as far as there is room; several subscribers each."""
    topology = small_instance(seed, patterns=1).topology
    texts = ["[A where v > 8] ; [B where v > 8] -> Rare()", "[Rare] ; [A where v > 8]"]
    everybody = tuple(each.place for each in topology.subscribers.values())
    space = space_of([PatternRequest(text, compile_pattern(text), everybody) for text in texts])
    instance = PlacementProblem(topology, space, expected_figures(topology, space), {})
    if room:
        instance = _limited(instance, room * max(instance.foreseen[root].loads[""] for root in space.roots))
    each_whole = _whole(instance)
    costs = [evaluate(instance, each) for hosts in (1, 2) for each in all_placements(each_whole, hosts)]
    # With one more host of each than any of these placements has it may be better still.
    least = min(cost.delay for cost in costs if not room or not cost.overloaded)
    best = optimum(instance, "latency")
    assert best.proven
    assert not (room and best.cost.overloaded)
    assert best.bound * (1 - 1e-3) <= best.cost.delay <= least * (1 + 1e-3)


def test_detector_has_two_hosts_at_one_site_where_others_are_full() -> None:
    """Better than none."""
    topology = parse_topology(
        """
        [sites.here]
        [sites.there]
        [nodes.a]
        site = "here"
        capacity = 10
        [nodes.b]
        site = "here"
        capacity = 10
        [nodes.c]
        site = "there"
        capacity = 0.01
        [publishers.p]
        site = "here"
        types = ["A", "B"]
        rates = { A = 1, B = 1 }
        [[links]]
        between = ["here", "there"]
        latency = "1ms"
        """
    )
    space = space_of([PatternRequest("q", compile_pattern("[A] ; [B]"), (Place("site", "here"),))])
    instance = PlacementProblem(topology, space, expected_figures(topology, space), {})
    best = optimum(instance, "reliability")
    assert best.cost.lost == 0
    assert set(hosting(best.detectors[space.roots[0]])) == {"a", "b"}


def test_solver_writes_nothing_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """HiGHS does now and then, past Python, and what follows may be JSON."""

    def talking(*given: object, **more: object) -> object:
        ctypes.CDLL(None).puts(b"HighsMipSolverData")
        return milp(*given, **more)

    milp = scipy.optimize.milp
    monkeypatch.setattr(scipy.optimize, "milp", talking)
    assert optimum(small_instance(3), "bandwidth").proven
    ctypes.CDLL(None).fflush(None)
    print("result")
    assert capfd.readouterr().out == "result\n"


def test_listeners_receive_from_the_nearest_host() -> None:
    """Nearest by latency, over more links than to another one: the programme computes with those bytes."""
    text = """
        [sites.one]
        [sites.two]
        [sites.three]
        [sites.four]
        [nodes.a]
        site = "one"
        [nodes.b]
        site = "two"
        [publishers.p]
        site = "one"
        types = ["A", "B"]
        [[links]]
        between = ["one", "two"]
        latency = "200ms"
        [[links]]
        between = ["one", "three"]
        latency = "50ms"
        [[links]]
        between = ["two", "four"]
        latency = "1ms"
        [[links]]
        between = ["four", "three"]
        latency = "1ms"
    """
    topology = parse_topology(text)
    asked = [
        PatternRequest(
            "q", compile_pattern("[A] ; [B]"), tuple(Place("site", each) for each in ("one", "two", "three"))
        )
    ]
    space = space_of(asked)
    much = OutputTraffic(10_000.0, 1.0)
    foreseen = {space.roots[0]: Foreseen(1.0, much, much, much, {"": 1.0})}
    instance = PlacementProblem(topology, space, foreseen, {})
    costs = [evaluate(instance, each).bytes for hosts in (1, 2) for each in all_placements(instance, hosts)]
    best = optimum(instance, "bandwidth")
    assert best.proven
    assert best.cost.bytes <= min(costs) * (1 + 1e-3)
    assert best.bound == pytest.approx(best.cost.bytes, rel=1e-3)


def test_patterns_that_fit_only_cut_are_cut() -> None:
    """By latency they would stay whole; what policies have made of them counts then."""
    small = small_instance(3, patterns=1)
    # Once it is cut, most of what there is to do is done by the part.
    texts = ["[A where v > 8] ; [B] ; [A] ; [B where v > 8]"]
    instance = instance_of_texts(texts, small.topology, Random(0))
    loads = instance.foreseen[instance.space.roots[0]].loads
    cut = [each for each in all_placements(instance) if any(entry.parts for entry in each.values())]
    least = min(max(evaluate(instance, each).loads.values()) for each in cut)
    assert least < loads[""]
    limited = _limited(instance, (least + loads[""]) / 2)
    found = analyse(limited, "latency")
    assert not found.best.proven
    assert not found.best.cost.overloaded
    assert any(entry.parts for entry in found.best.detectors.values())
    with pytest.raises(DistcedError, match="by another metric patterns may be cut"):
        optimum(limited, "latency")


def test_solver_out_of_time_falls_back_to_policies() -> None:
    """What policies have found counts then, so none is better than what is taken for the optimum."""
    instance = random_instance(5, 50)
    with pytest.raises(OutOfTimeError, match="no placement was found in time"):
        optimum(instance, "bandwidth", seconds=1e-6)
    found = analyse(instance, "bandwidth", seconds=1e-6)
    assert not found.best.proven
    assert min(each.gap for each in found.options) == 0.0
    assert found.best.cost.by("bandwidth") == min(each.cost.bytes for each in found.options)
    console = Console(file=io.StringIO(), width=200)
    analysis_report.show(console, found, HistoryCounts())
    assert "not proven: none is below" in console.file.getvalue()  # type: ignore[attr-defined]


PARTED = """
allow_partitions = true
[sites.here]
[sites.near]
[sites.there]
[nodes.a]
site = "here"
[nodes.b]
site = "near"
[nodes.far]
site = "there"
[publishers.p]
site = "here"
types = ["A", "B"]
rates = { A = 1, B = 1 }
[publishers.q]
site = "there"
types = ["C"]
rates = { C = 1 }
[[links]]
between = ["here", "near"]
latency = "1ms"
"""


@pytest.mark.parametrize("metric", METRICS)
def test_optimum_respects_unreachable_sites(metric: Metric) -> None:
    """Each pattern where it hears its sources and is heard, by policies, replanned, and the optimum."""
    topology = parse_topology(PARTED)
    here, near, there = (Place("site", name) for name in ("here", "near", "there"))
    asked = [
        PatternRequest("left", compile_pattern("[A] ; [B] -> Left()"), (near,)),
        PatternRequest("more", compile_pattern("[Left] ; [A]"), (here, near)),
        PatternRequest("right", compile_pattern("[C] ; [C]"), (there,)),
    ]
    space = space_of(asked)
    instance = PlacementProblem(topology, space, expected_figures(topology, space), {})
    found = analyse(instance, metric)
    # Of one pattern there is no second node; so the policy of two hosts can do nothing for it.
    assert set(found.refused) == {"max-reliability"}
    for option in found.options:
        assert option.gap >= -1e-9
        for name, root in zip(("left", "more", "right"), space.roots, strict=True):
            nodes = set(hosting(option.detectors[root]))
            assert nodes <= ({"far"} if name == "right" else {"a", "b"}), option.name
    left = set(hosting(found.best.detectors[space.roots[0]]))
    assert left == {"a", "b"} if metric == "reliability" else left
    assert found.best.proven
    # What neither side has both of.
    space = space_of([PatternRequest("both", compile_pattern("[A] ; [C]"), (near,))])
    with pytest.raises(DistcedError, match="no node reaches all sources and subscribers"):
        optimum(PlacementProblem(topology, space, expected_figures(topology, space), {}), metric)


def test_gap_is_relative_except_of_reliability() -> None:
    cost = Cost({("a", "b"): 30.0, ("b", "a"): 12.0}, (4.0, 8.0), {"n": 5.0}, {"n": 0.5}, 0.25, ())
    assert (cost.by("bandwidth"), cost.by("latency"), cost.by("load"), cost.by("reliability")) == (42.0, 6.0, 0.5, 0.25)
    assert gap(12.0, 10.0, "bandwidth") == pytest.approx(0.2)
    assert gap(0.25, 0.1, "reliability") == pytest.approx(0.15)
    assert gap(0.0, 0.0, "load") == 0.0
    assert gap(1.0, 0.0, "load") == float("inf")
    assert parse_metrics("load, bandwidth") == ("bandwidth", "load")
    with pytest.raises(DistcedError, match="not a metric"):
        parse_metrics("impact")


def _whole(instance: PlacementProblem) -> PlacementProblem:
    """Without cuts."""
    space = replace(
        instance.space,
        alternatives={name: {"": alternatives[""]} for name, alternatives in instance.space.alternatives.items()},
    )
    return replace(instance, space=space)


def _apart(instance: PlacementProblem, detectors: object) -> bool:
    assert isinstance(detectors, dict)
    site = {node.name: node.site for node in instance.topology.nodes.values()}
    return all(len({site[node] for node in (each.node, *each.replicas)}) == 2 for each in detectors.values())


def _limited(instance: PlacementProblem, capacity: float) -> PlacementProblem:
    topology = instance.topology
    nodes = [BrokerNode(each.name, each.site, capacity) for each in topology.nodes.values()]
    limited = Topology(
        topology.sites.values(), nodes, topology.publishers.values(), topology.subscribers.values(), topology.links
    )
    return PlacementProblem(limited, instance.space, instance.foreseen, instance.streams)

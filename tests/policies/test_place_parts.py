"""A pattern placed with its parts, one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from distced.policies.distribution.candidate import Candidate
from distced.policies.distribution.choose.place_all import place
from distced.policies.distribution.policy import NAMED, DistributionPolicy, parse_policy
from tests.policies.test_suggest import EAST, LINE, WEST
from tests.support.deployments import patterns, random_situation, seeds, situation_of, subscriber_of


@settings(max_examples=40, deadline=None)
@given(seeds, patterns)
def test_placed_detector_adds_its_estimate(seed: int, pattern: str) -> None:
    """The figures of a suggestion, and those of everything before and after, are computed in different ways."""
    situation = random_situation(seed)
    before, loads = situation.bytes_by_link, {node: situation.load(node) for node in situation.nodes}
    for name in ("min-latency", "min-bandwidth", "max-reliability"):
        policy = replace(NAMED[name], decomposition="none")
        placement = place(pattern, policy, situation, subscriber_of(situation.topology))
        found = placement.root.suggestion
        if found.action == "replicate" or len(situation.hosts(placement.root.id)) > 1:
            # Where there are replicas, who listens to which is not in the directory, and is taken as usual.
            continue
        after = placement.situation
        assert after.bytes_over_links - situation.bytes_over_links == pytest.approx(found.chosen.bytes, abs=1e-6)
        added = {link: amount - before.get(link, 0.0) for link, amount in after.bytes_by_link.items()}
        assert {link: amount for link, amount in found.links.items() if amount} == pytest.approx(
            {link: amount for link, amount in added.items() if amount > 1e-6}, abs=1e-6
        )
        assert after.busiest[1] == pytest.approx(found.chosen.peak)
        more = sum(after.load(node) - loads[node] for node in loads)
        assert more == pytest.approx(found.chosen.load)


@settings(max_examples=25, deadline=None)
@given(seeds, patterns)
def test_parts_are_placed_for_their_readers(seed: int, pattern: str) -> None:
    situation = random_situation(seed)
    for policy in NAMED.values():
        placement = place(pattern, policy, situation, subscriber_of(situation.topology))
        again = place(pattern, policy, situation, subscriber_of(situation.topology))
        assert [each.suggestion.reason for each in placement.placed] == [
            each.suggestion.reason for each in again.placed
        ]
        there = placement.situation.detectors
        for each in placement.placed:
            assert each.id in there
            if each.reader:
                assert each.id in there[each.reader].parts
        for entry in there.values():
            assert set(entry.parts) <= there.keys()
            assert {entry.node, *entry.replicas} <= situation.nodes.keys()
        assert set(situation.detectors) <= set(there)


def test_decomposition_decides_parts() -> None:
    situation = situation_of(LINE)
    pattern = "[A] ; [B] ; [C]"
    assert len(place(pattern, NAMED["min-latency"], situation, EAST).placed) == 1
    first = place("[A] ; [B]", NAMED["min-bandwidth"], situation, WEST).situation
    reused = place(pattern, NAMED["min-impact"], first, WEST)
    assert [each.suggestion.action for each in reused.placed] == ["create", "reuse"]
    full = place(pattern, NAMED["min-load"], situation, EAST)
    assert [each.suggestion.action for each in full.placed] == ["create", "create"]
    assert full.root.suggestion.node != full.placed[1].suggestion.node
    # A second one like it shares everything.
    again = place(pattern, NAMED["min-load"], full.situation, WEST)
    assert [each.suggestion.action for each in again.placed] == ["reuse"]


def test_reuse_that_costs_more_than_it_saves_is_not_taken() -> None:
    """A detector far away whose composite events are as many as the events they are made of, which are close by."""
    situation = situation_of(LINE)
    policy = parse_policy("none maximum subscribers")
    far = place("[A] ; [B]", replace(policy, objective=_on("e")), situation, EAST).situation
    assert far.detectors[place("[A] ; [B]", policy, far, EAST).root.id].node == "e"
    found = place("[A] ; [B] ; [A where x > 1]", NAMED["min-bandwidth"], far, WEST)
    assert [each.suggestion.node for each in found.placed] == ["w"]
    near = place("[A] ; [B]", replace(policy, objective=_on("w")), situation, EAST).situation
    found = place("[A] ; [B] ; [C]", NAMED["min-bandwidth"], near, EAST)
    parts = found.situation.detectors[found.root.id].parts
    fewest = found.root.suggestion.chosen.bytes
    assert all(fewest <= each.bytes for each in found.root.suggestion.alternatives)
    assert bool(parts) == (found.root.suggestion.chosen.alternative > 0)


def _on(node: str):  # type: ignore[no-untyped-def]
    def objective(candidate: Candidate) -> tuple[float, ...]:
        return (float(candidate.node != node),)

    return objective


def test_own_policy_places_detector() -> None:
    cheapest = DistributionPolicy("least-cost", "none", "none", "publishers", objective=lambda each: (each.cost,))
    situation = situation_of(LINE)
    found = place("[A] ; [C]", cheapest, situation, EAST).root.suggestion
    assert found.chosen.cost == min(each.cost for each in (found.chosen, *found.alternatives))
    assert found.reason.startswith("least-cost: ")


# The named policies, each by what it is called after.


@settings(max_examples=25, deadline=None)
@given(seeds, patterns)
def test_each_named_policy_is_best_at_its_own(seed: int, pattern: str) -> None:
    situation = random_situation(seed)
    subscribers = subscriber_of(situation.topology)
    placed = {name: place(pattern, policy, situation, subscribers) for name, policy in NAMED.items()}
    if any(each.suggestion.action == "replicate" for placement in placed.values() for each in placement.placed):
        # Replicas change what others hear.
        return
    chosen = {name: each.root.suggestion.chosen for name, each in placed.items()}
    assert chosen["min-latency"].delay <= min(each.delay for each in chosen.values()) * (1 + 1e-9)
    after = {name: each.situation.bytes_over_links for name, each in placed.items()}
    assert after["min-bandwidth"] <= min(after.values()) * (1 + 1e-9)
    busiest = {name: each.situation.busiest[1] for name, each in placed.items()}
    assert busiest["min-load"] <= min(busiest.values()) * (1 + 1e-9)
    hosts = placed["max-reliability"].situation.hosts(placed["max-reliability"].root.id)
    assert len(hosts) >= 2

"""Placement of all patterns by a policy, one subscription after the other, as by nodes.

composite-event-framework-2004, "Distribution Policies". The decisions are those that nodes make
(`policies.distribution.choose.place_all`), in a situation with expected figures of detectors. Earlier decisions do not
know later subscriptions, so afterwards detectors may *settle*: each is asked, again and again, whether it would not
rather be elsewhere, as the nodes that host them do (`policies.distribution.choose.reconsider`), until none would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as replace_entry

from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.graph import DetectorPlan
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.directory_entries import NO_HINTS, NODE_CLIENT, DetectorEntry
from distced.policies.distribution.choose.place_all import Placement, place
from distced.policies.distribution.choose.reconsider import DWELL, reconsider
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.simulations.placement.optimum.search_space import PatternRequest
from distced.simulations.placement.problem import PlacementProblem

ROUNDS: Final = 20
"""Greatest number of rounds in which all detectors are checked for a better place."""


@dataclass(frozen=True, slots=True)
class PolicyPlacement:
    """The patterns of an instance, placed by a policy.

    Attributes:
        detectors: the entries, by id, with who listens.
        plans: cuts of each.
        reasons: for the place of each pattern's detector, in the order of the patterns; empty where it was moved
            later.
        moves: number of moves since the placement.
    """

    policy: Policy
    detectors: Mapping[str, DetectorEntry]
    plans: Mapping[str, DetectorPlan]
    reasons: tuple[str, ...] = ()
    moves: int = 0


def place_all(instance: PlacementProblem, policy: Policy, *, registry: TypeRegistry | None = None) -> PolicyPlacement:
    """Place the detectors of all patterns under a policy.

    Raises:
        DistcedError: where the policy has no placement.
    """
    # Publishers of a type come before its readers.
    space = instance.space
    places = sorted(range(len(space.asked)), key=lambda place: space.depth(space.roots[place]))
    asked = tuple(space.asked[place] for place in places)
    placed = place_more(instance, PolicyPlacement(policy, {}, {}), asked, registry=registry)
    reasons = dict(zip(places, placed.reasons, strict=True))
    return replace(placed, reasons=tuple(reasons[place] for place in range(len(places))))


def place_more(
    instance: PlacementProblem,
    there: PolicyPlacement,
    asked: tuple[PatternRequest, ...],
    *,
    registry: TypeRegistry | None = None,
) -> PolicyPlacement:
    """Place the detectors of further patterns beside those present."""
    situation, catalogue = instance.situation(there.detectors), Catalogue()
    plans = dict(there.plans)
    for plan in plans.values():
        if plan.compiled.automaton.output is None and not plan.compiled.throttlings:
            catalogue.add(plan)
    reasons = []
    for each in asked:
        placement = place(
            each.compiled, there.policy, situation, each.subscribers, registry=registry, catalogue=catalogue
        )
        situation = placement.situation
        reasons.append(placement.root.suggestion.reason)
        plans.update(_made(placement))
    detectors = instance.with_ways(plans).heard(situation.detectors)
    return PolicyPlacement(there.policy, detectors, plans, tuple(reasons))


def settle(instance: PlacementProblem, placed: PolicyPlacement) -> PolicyPlacement:
    """Move detectors until none is better off elsewhere."""
    situation, moves = instance.situation(placed.detectors), 0
    for _ in range(ROUNDS):
        before = moves
        for name in sorted(situation.detectors):
            listeners = _listeners(instance, situation, name)
            move = reconsider(placed.policy, situation, name, listeners, NO_HINTS, 0, DWELL)
            if move is None:
                continue
            entry = situation.detectors[name]
            if move.kind == "move":
                # The home of its topic stays.
                entry = replace_entry(entry, node=move.node)
            elif move.kind == "replicate":
                entry = replace_entry(entry, replicas={**entry.replicas, move.node: situation.home_of_node(move.node)})
            else:
                replicas = {node: home for node, home in entry.replicas.items() if node != move.node}
                entry = replace_entry(entry, replicas=replicas)
            situation.changed("detector", name, entry)
            for each, heard in instance.heard(situation.detectors).items():
                if heard.readers != situation.detectors[each].readers:
                    situation.changed("detector", each, heard)
            moves += 1
        if moves == before:
            break
    return PolicyPlacement(placed.policy, dict(situation.detectors), placed.plans, placed.reasons, moves)


def _made(placement: Placement) -> dict[str, DetectorPlan]:
    return {
        each.id: each.suggestion.graph.plans[each.suggestion.graph.roots[0]]
        for each in placement.placed
        if each.suggestion.action == "create"
    }


def _listeners(instance: PlacementProblem, situation: Situation, name: str) -> list[Place]:
    """The subscribers of a detector, and the nodes that read it."""
    nodes = situation.reading.readers().get(Stream("composite", "", name), ())
    return [*instance.subscribers(name), *(situation.place_of(NODE_CLIENT + node) for node in sorted(nodes))]

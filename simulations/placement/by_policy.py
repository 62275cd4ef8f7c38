"""Placement of all patterns by a policy, one subscription after the other, as by nodes; and replanning.

composite-event-framework-2004, "Distribution Policies". The decisions are those of nodes
(`policies.distribution.choose.place_all`), in a situation with expected figures of detectors. Earlier decisions do not
know later subscriptions, so afterwards detectors may *settle*: each is reconsidered as by the nodes that host them.

*Replanning* knows all patterns: each in turn is removed, and placed again by the same policy beside all the others;
then the detectors of a node are moved to another one together, since two that read the same are each better off with
the other; and detectors of the busiest node are moved to idle ones, as long as the metric improves. It needs no solver,
so it serves large networks; and it shows the share of a policy's gap due to the order of subscriptions. Simulated
annealing was rejected: it needs tuning, and where this ends short of the optimum a solver is available.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from msgspec.structs import replace as replace_entry

from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.directory_entries import NO_HINTS, NODE_CLIENT, DetectorEntry
from distced.policies.distribution.choose.place_all import Placement, place
from distced.policies.distribution.choose.reconsider import DWELL, reconsider
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.rates import hosting
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.simulations.placement.evaluation import Metric, evaluate
from distced.simulations.placement.optimum.search_space import PatternRequest
from distced.simulations.placement.problem import PlacementProblem

ROUNDS: Final = 20
"""Most rounds of settling."""


@dataclass(frozen=True, slots=True)
class PolicyPlacement:
    """The patterns of an instance, placed by a policy.

    Attributes:
        reasons: for the place of each pattern's detector, in the order of the patterns; empty where it was moved later.
        moves: number of moves since the placement.
    """

    policy: Policy
    detectors: Mapping[str, DetectorEntry]
    plans: Mapping[str, DetectorPlan]
    reasons: tuple[str, ...] = ()
    moves: int = 0


def place_all(instance: PlacementProblem, policy: Policy, *, registry: TypeRegistry | None = None) -> PolicyPlacement:
    """Place the detectors of all patterns under a policy. Raises `DistcedError` where the policy has no placement."""
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
    """Place further patterns beside those present."""
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
    detectors = instance.with_alternatives(plans).heard(situation.detectors)
    return PolicyPlacement(there.policy, detectors, plans, tuple(reasons))


def settle(instance: PlacementProblem, placed: PolicyPlacement) -> PolicyPlacement:
    """Move detectors until none is better off elsewhere."""
    situation, moves = instance.situation(placed.detectors), 0
    for _ in range(ROUNDS):
        before = moves
        for name in sorted(situation.detectors):
            listeners = _listeners(instance, situation, name)
            beside = {
                other: _listeners(instance, situation, other)
                for other, entry in situation.detectors.items()
                if other != name and entry.node == situation.detectors[name].node and not entry.replicas
            }
            move = reconsider(placed.policy, situation, name, listeners, NO_HINTS, 0, DWELL, beside)
            if move is None:
                continue
            entry = situation.detectors[name]
            if move.kind == "move":
                entry = replace_entry(entry, node=move.node, home=situation.home_of_node(move.node))
            elif move.kind == "replicate":
                entry = replace_entry(entry, replicas={**entry.replicas, move.node: situation.home_of_node(move.node)})
            else:
                replicas = {node: home for node, home in entry.replicas.items() if node != move.node}
                entry = replace_entry(entry, replicas=replicas)
            situation.changed("detector", name, entry)
            for other, node in move.together:
                moved = replace_entry(situation.detectors[other], node=node, home=situation.home_of_node(node))
                situation.changed("detector", other, moved)
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
    """Subscribers of a detector, and nodes that read it."""
    nodes = situation.reading.readers().get(Stream("composite", "", name), ())
    return [*instance.subscribers(name), *(situation.place_of(NODE_CLIENT + node) for node in sorted(nodes))]


REPLANNING_ROUNDS: Final = 10
"""Most rounds of replanning over all patterns."""

LEAST: Final = 1e-6
"""Least relative improvement of a placement."""


def replan(instance: PlacementProblem, placed: PolicyPlacement, metric: Metric) -> PolicyPlacement:
    """A placement that is as good or better by the metric."""
    instance = instance.with_alternatives(placed.plans)
    best, worth = placed, _worth(instance, placed, metric)
    for _ in range(REPLANNING_ROUNDS if any(worth[:2]) else 0):
        before = worth
        for root in (*dict.fromkeys(instance.space.roots), ""):
            for other in _again(instance, best, root) if root else _moves(instance, best):
                known = instance.with_alternatives(other.plans)
                found = _worth(known, other, metric)
                if found < _better(worth):
                    instance, best, worth = known, replace(other, moves=best.moves + 1), found
        if worth == before:
            break
    return best


def _worth(instance: PlacementProblem, placed: PolicyPlacement, metric: Metric) -> tuple[int, float, float]:
    """Patterns not received plus overloaded nodes, the figure of the metric, bytes."""
    cost = evaluate(instance, placed.detectors)
    return cost.unheard + len(cost.overloaded), cost.by(metric), cost.bytes


def _better(worth: tuple[int, float, float]) -> tuple[int, float, float]:
    overloaded, figure, amount = worth
    return overloaded, figure * (1 - LEAST), amount * (1 - LEAST)


def _again(instance: PlacementProblem, placed: PolicyPlacement, root: str) -> Iterator[PolicyPlacement]:
    """Remove one pattern, and place it again beside the others."""
    space = instance.space
    used: set[str] = set()
    waiting = [name for name in space.roots if name != root]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += [*placed.detectors[name].parts, *space.named(space.whole(name))]
    if root in used:
        # Others read it: it would be placed as before.
        return
    left = {name: entry for name, entry in placed.detectors.items() if name in used}
    there = replace(placed, detectors=instance.heard(left, but=root))
    asked = tuple(each for name, each in zip(space.roots, space.asked, strict=True) if name == root)
    try:
        yield replace(place_more(instance, there, asked), reasons=(), moves=placed.moves)
    except DistcedError:
        return


def _moves(instance: PlacementProblem, placed: PolicyPlacement) -> Iterator[PolicyPlacement]:
    yield from _together(instance, placed)
    yield from _relieving(instance, placed)


def _relieving(instance: PlacementProblem, placed: PolicyPlacement) -> Iterator[PolicyPlacement]:
    """Move one detector of the busiest node; among nodes of equal capacity to the idlest."""
    situation = instance.situation(placed.detectors)
    busiest = situation.busiest[0]
    idlest: dict[float, str] = {}
    for node in sorted(situation.nodes, key=lambda each: (situation.load(each), each)):
        idlest.setdefault(situation.capacity(node), node)
    for name, entry in placed.detectors.items():
        if busiest in hosting(entry):
            for target in idlest.values():
                moved = {**placed.detectors, name: _moved(instance, entry, busiest, target)}
                yield replace(placed, detectors=instance.heard(moved), reasons=())


def _together(instance: PlacementProblem, placed: PolicyPlacement) -> Iterator[PolicyPlacement]:
    """Move all detectors of one node; among nodes of a site to the busiest."""
    situation = instance.situation(placed.detectors)
    hosting_nodes = {node for entry in placed.detectors.values() for node in hosting(entry)}
    targets: dict[str, str] = {}
    for node in sorted(situation.nodes, key=lambda each: (-situation.load(each), each)):
        targets.setdefault(situation.site_of_node(node), node)
    for origin in sorted(hosting_nodes):
        for target in sorted(targets.values()):
            if target != origin:
                moved = {name: _moved(instance, entry, origin, target) for name, entry in placed.detectors.items()}
                yield replace(placed, detectors=instance.heard(moved), reasons=())


def _moved(instance: PlacementProblem, entry: DetectorEntry, origin: str, target: str) -> DetectorEntry:
    hosts = list(hosting(entry))
    if origin not in hosts or target in hosts:
        return entry
    home = instance.empty.home_of_node
    nodes = [target if node == origin else node for node in hosts]
    return replace_entry(entry, node=nodes[0], home=home(nodes[0]), replicas={node: home(node) for node in nodes[1:]})

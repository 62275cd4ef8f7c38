"""Improvement of a placement with all patterns known, by the decisions of a policy alone.

Policies place one subscription after the other (composite-event-framework-2004, "Distribution Policies"), so earlier
decisions do not know later subscriptions. Here each pattern in turn is taken out, and placed again by the same policy
beside all the others; then all that stands on one node is moved to another one together, for two detectors that read
the same are each better off where the other is; and detectors of the busiest node are moved to idle ones. What makes
the placement better by the metric is kept, until nothing does. It needs no solver, so it is what there is for networks
that are too large for one; and it shows the share of a policy's gap due to the order of subscriptions. Simulated
annealing was rejected: it has to be tuned, and where this ends short of the optimum a solver is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as replace_entry

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.situation.rates import hosting
from distced.simulations.placement.by_policy import PolicyPlacement, place_more
from distced.simulations.placement.evaluation import Metric, evaluate
from distced.simulations.placement.problem import PlacementProblem

ROUNDS: Final = 10
"""Greatest number of rounds over all patterns."""

LEAST: Final = 1e-6
"""Least relative improvement of a placement."""


def replan(instance: PlacementProblem, placed: PolicyPlacement, metric: Metric) -> PolicyPlacement:
    """A placement that is as good or better by the metric."""
    instance = instance.with_ways(placed.plans)
    best, worth = placed, _worth(instance, placed, metric)
    for _ in range(ROUNDS if any(worth[:2]) else 0):
        before = worth
        for root in (*dict.fromkeys(instance.space.roots), ""):
            for other in _again(instance, best, root) if root else _moves(instance, best):
                known = instance.with_ways(other.plans)
                found = _worth(known, other, metric)
                if found < _better(worth):
                    instance, best, worth = known, replace(other, moves=best.moves + 1), found
        if worth == before:
            break
    return best


def _worth(instance: PlacementProblem, placed: PolicyPlacement, metric: Metric) -> tuple[int, float, float]:
    """Patterns not received, nodes over capacity, the figure of the metric, and bytes."""
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
        # Others read it; it would come back as it was.
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
    """Move one detector of the busiest node to another one; among nodes of equal capacity to the idlest."""
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
    """Move all detectors of one node to another one; of nodes at one site to the busiest."""
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

"""New patterns over what is detected already: cut for reuse one after the other, and put together in one graph.

Design, section 3, "for reuse". What is planned for a pattern runs before the next is planned, as it does where patterns
are subscribed to one by one; so new patterns reuse one another's detectors, too. What a running pattern publishes under
a name is reused where a new one reads it by this name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cover import for_reuse
from distced.detectors.cutting.decomposition import full
from distced.detectors.cutting.graph import DetectorGraph, DetectorPlan, cut
from distced.middleware.sets.expressions import FALSE


def catalogue_of(patterns: Sequence[Compiled]) -> Catalogue:
    """The catalogue where these patterns run, fully decomposed."""
    catalogue = Catalogue()
    for plan in cut(patterns, full).plans.values():
        catalogue.add(plan)
    return catalogue


def plan_for_reuse(patterns: Sequence[Compiled], catalogue: Catalogue) -> DetectorGraph:
    """The detectors that new patterns need, those among them that ran before being marked as reused.

    Args:
        catalogue: what runs; new detectors are added to it.
    """
    before = frozenset(catalogue.plans)
    graph = DetectorGraph()
    for compiled in patterns:
        one = cut([compiled], for_reuse(catalogue), running=catalogue.plans)
        graph.roots += one.roots
        for plan in one.plans.values():
            graph.plans.setdefault(plan.id, plan)
            catalogue.add(plan)
    _add_publishers(graph, catalogue)
    graph.reused = {each for each in graph.plans if each in before}
    return graph


def _add_publishers(graph: DetectorGraph, catalogue: Catalogue) -> None:
    """Put into the graph who publishes what is read by its name in it, and what these read in their turn."""
    publishers: dict[str, list[DetectorPlan]] = {}
    for plan in catalogue.plans.values():
        if plan.compiled.automaton.output is not None:
            publishers.setdefault(plan.compiled.automaton.output.type_name, []).append(plan)
    waiting = list(graph.plans.values())
    while waiting:
        for name in sorted(set(_read_by_name(waiting.pop().compiled.automaton))):
            for publisher in publishers.get(name, ()):
                waiting += _add(graph, catalogue, publisher)


def _add(graph: DetectorGraph, catalogue: Catalogue, plan: DetectorPlan) -> Iterator[DetectorPlan]:
    """Put a running detector into the graph, behind those it reads; those that were not there."""
    if plan.id not in graph.plans:
        for part in plan.parts:
            yield from _add(graph, catalogue, catalogue.plans[part])
        graph.plans[plan.id] = plan
        yield plan


def _read_by_name(automaton: Automaton) -> Iterator[str]:
    """The types an automaton names and reads itself, not through its parts."""
    for position in automaton.positions:
        for name, condition in position.domain.by_type.items():
            if name[0] not in (TIMER_PREFIX, PART_PREFIX) and condition != FALSE:
                yield name
    for side in automaton.inner:
        yield from _read_by_name(side)

"""A pattern whole and cut, on the same events: what transparency is tested with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from distced.detectors.automata.properties import recurs
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.cut import Choose, DetectorGraph, cut, full, randomly
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.patterns.tree import Publication
from distced.policies.local_runner import LocalHost, LocalMessage, LocalRunner, spread
from tests.support.comparison import Composite, as_case, compiled, composites
from tests.support.shrinking import shrink

NOTHING: frozenset[str] = frozenset()


class Outcome(NamedTuple):
    """What was found: composite events as they are compared, and their ids."""

    composites: list[Composite]
    ids: list[EventId]


def whole(patterns: Sequence[Compiled], events: Sequence[Event]) -> dict[str, Outcome]:
    """What patterns find by themselves, by canonical id."""
    engine = StepwiseEngine(patterns)
    found = [*engine.feed(events), *engine.advance(end_of(patterns, events))]
    names = [each.automaton.canonical_id for each in patterns]
    return {name: outcome([each for each in found if each.source == name]) for name in names}


def end_of(patterns: Iterable[Compiled], events: Sequence[Event]) -> int:
    """End of a run: of time, or soon after the last event where time events recur."""
    if any(recurs(each.automaton) for each in patterns):
        return max((each.hi for each in events), default=0) + 12
    return INSTANT_MAX


class RestlessRunner(LocalRunner):
    """Puts detectors away now and then, and goes on with fresh ones from their snapshots."""

    def _deliver(self, host: LocalHost, message: LocalMessage) -> None:
        if self.random.random() < 0.2:
            state = host.detector.snapshot()
            host.detector = self.detector(host.plan)
            host.detector.resume(state)
        super()._deliver(host, message)


def in_parts(graph: DetectorGraph, events: Sequence[Event], seed: int) -> dict[str, Outcome]:
    """What a graph of detectors finds, with delays and an order that chance says."""
    random = Random(seed)
    kind = RestlessRunner if random.random() < 0.3 else LocalRunner
    runner = kind(graph, random, over_wire=random.random() < 0.5)
    runner.run(spread(events, random), end_of((each.compiled for each in graph.plans.values()), events))
    return {root: outcome(runner.composites(root)) for root in graph.roots}


def outcome(found: Sequence[CompositeEvent]) -> Outcome:
    """Composite events in a form that can be compared."""
    return Outcome(composites(found), sorted(each.id for each in found))


def chosen(seed: int, *, without: frozenset[str] = NOTHING) -> Choose:
    """A random cut: mostly of some parts, now and then the full decomposition."""
    random = Random(seed)
    if not without and random.random() < 0.2:
        return full
    return randomly(random, share=random.choice((0.2, 0.5, 0.9)), without=without)


def differ(
    publication: Publication, events: Sequence[Event], seed: int, *, without: frozenset[str] = NOTHING
) -> tuple[DetectorGraph, Outcome, Outcome] | None:
    """The cut, and what is found without and with it, where these differ."""
    pattern = compiled(publication)
    graph = cut_by(publication, seed, without)
    (expected,) = whole([pattern], events).values()
    (found,) = in_parts(graph, events, seed).values()
    return None if expected == found else (graph, expected, found)


@lru_cache(maxsize=64)
def cut_by(publication: Publication, seed: int, without: frozenset[str] = NOTHING) -> DetectorGraph:
    """The graph of a pattern for a seed."""
    return cut([compiled(publication)], chosen(seed, without=without))


def assert_transparent(publication: Publication, events: Sequence[Event], seed: int) -> bool:
    """Hold a cut pattern to the whole; False where it is refused, or where the cut leaves it whole.

    A difference is made small before it is told.
    """
    try:
        compiled(publication)
    except PatternError:
        return False
    if len(cut_by(publication, seed).plans) == 1:
        return False
    difference = differ(publication, events, seed)
    if difference is not None:
        publication, events, seed = _small(publication, events, seed)
        graph, expected, found = differ(publication, events, seed) or difference
        raise AssertionError(
            f"{as_case(publication, events, expected.composites)}\n# seed {seed}\n{described(graph)}\n"
            f"missing    {[each for each in expected.composites if each not in found.composites]}\n"
            f"unexpected {[each for each in found.composites if each not in expected.composites]}"
        )
    return True


def described(graph: DetectorGraph) -> str:
    """A graph of detectors in lines."""
    return "\n".join(f"# {plan.id} reads {plan.parts}: {plan.compiled.text}" for plan in graph.plans.values())


def _small(publication: Publication, events: Sequence[Event], seed: int) -> tuple[Publication, Sequence[Event], int]:
    seeds = (seed, *range(20))

    def failing(smaller: Publication, fewer: Sequence[Event]) -> int | None:
        for each in seeds:
            try:
                if differ(smaller, fewer, each) is not None:
                    return each
            except PatternError:
                return None
        return None

    publication, events = shrink(publication, events, lambda p, e: failing(p, e) is not None)
    found = failing(publication, events)
    return publication, events, seed if found is None else found

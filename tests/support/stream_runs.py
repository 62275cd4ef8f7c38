"""Random patterns and events for streams: what takes nanoseconds elsewhere is longer, as Spark's watermarks have
milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

from distced.detectors.compiler import Compiled
from distced.detectors.stepwise.engine import in_order
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.tree import Calculated, Instant, Recurring, Relative, Window
from distced.middleware.sets.expressions import Binary, Literal
from tests.support.comparison import compiled
from tests.support.random_patterns import TYPES, PatternMaker, make_events

UNIT = 400_700
"""Nanoseconds for one: several instants fall into a millisecond, and between two microseconds."""

START = SECOND
"""Where time begins; for Spark it begins in 1970."""


def at(instant: int) -> int:
    """An instant of the generated events and patterns, as it is in a stream."""
    return START + instant * UNIT


def longer(tree: Any) -> Any:
    """A pattern with the times of streams."""
    if isinstance(tree, Recurring):
        return replace(tree, first=longer(tree.first))
    if isinstance(tree, Relative):
        return replace(tree, delay=tree.delay * UNIT)
    if isinstance(tree, Calculated):
        return Calculated(Binary("*", tree.delay, Literal(UNIT)))
    if isinstance(tree, Instant):
        return replace(tree, instant=at(tree.instant))
    if isinstance(tree, tuple):
        return tuple(map(longer, tree))
    if is_dataclass(tree):
        tree = replace(tree, **{each.name: longer(getattr(tree, each.name)) for each in fields(tree) if each.init})
        if isinstance(tree, Window):
            return replace(tree, length=tree.length * UNIT)
    return tree


def stream_patterns(random: Random) -> list[Compiled]:
    """Some patterns; one may read what another publishes."""
    made: dict[str, Compiled] = {}
    keyed = random.random() < 0.4
    for _ in range(random.choice((1, 1, 2, 3))):
        publication = longer(PatternMaker(random).publication(random.randrange(1, 8)))
        if publication.output is not None and random.random() < 0.9:
            publication = replace(publication, output=replace(publication.output, type_name=random.choice(TYPES)))
        try:
            pattern = compiled(publication, epochs=random.random() < 0.1)
            if keyed and not pattern.automaton.key:
                continue
            in_order([*made.values(), pattern])
        except (PatternError, ValueError):
            continue
        made.setdefault(pattern.automaton.canonical_id, pattern)
    return list(made.values())


def stream_events(random: Random, count: int, *, span: int) -> list[Event]:
    """Random events at such times."""
    return [
        Event(each.type, at(each.lo), at(each.hi), each.source, each.seq, each.attributes)
        for each in make_events(random, count, span=span)
    ]


def arriving(random: Random, events: Sequence[Event], delay: int, batches: int) -> list[list[Event]]:
    """The events in micro-batches, none of them `delay`, ns, behind the greatest `hi`; some of them twice."""
    later = [(event.hi + random.randrange(delay), event) for event in events]
    later += [(each + random.randrange(delay // 4), event) for each, event in later if random.random() < 0.1]
    later = [(min(each, event.hi + delay - 1), event) for each, event in later]
    later.sort(key=lambda each: each[0])
    ends = sorted(random.randrange(len(later) + 1) for _ in range(batches - 1))
    arrived = [event for _, event in later]
    return [arrived[start:end] for start, end in zip([0, *ends], [*ends, len(arrived)], strict=True)]

"""Which patterns belong together, and by which attributes their events can be told apart.

Patterns that read one another are replayed together. They can be replayed key by key where all of them are keyed by an
attribute, and what one publishes for another carries it: then no instance ever sees events of two values of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from distced.detectors.compiler import Compiled
from distced.middleware.sets.expressions import Field


def groups_of(patterns: Sequence[Compiled]) -> list[list[int]]:
    """The places of the patterns, those together that have to do with one another."""
    group = list(range(len(patterns)))
    for reader, one in enumerate(patterns):
        for writer, other in enumerate(patterns):
            output = other.automaton.output
            if output is not None and output.type_name in one.names():
                joined, kept = group[writer], group[reader]
                group = [kept if each == joined else each for each in group]
    return [[place for place, each in enumerate(group) if each == number] for number in dict.fromkeys(group)]


def key_of_group(patterns: Sequence[Compiled]) -> tuple[tuple[str, ...], str]:
    """The attributes by which the events of these patterns fall apart, and where there are none, why."""
    common = [name for name in patterns[0].automaton.key if all(name in each.automaton.key for each in patterns)]
    if not common:
        return (), "the pattern has no key" if len(patterns) == 1 else "the patterns have no key in common"
    kept = []
    for name in common:
        hindrance = _hindrance(patterns, name)
        if hindrance is None:
            kept.append(name)
    return tuple(kept), "" if kept else str(hindrance)


def _hindrance(patterns: Sequence[Compiled], name: str) -> str | None:
    """Why events of two values of an attribute may have to do with one another; None if they have not."""
    # Several patterns may publish one type.
    outputs = [each.automaton.output for each in patterns if each.automaton.output is not None]
    for each in patterns:
        for thinning in each.thinnings:
            if name not in thinning.by:
                return f"{thinning.type_name} is thinned, and not by {name}"
        for output in outputs:
            value = dict(output.attributes).get(name)
            carried = isinstance(value, Field) and value.variable is not None and value.attribute == name
            if output.type_name in each.names() and not carried:
                return f"{output.type_name} does not carry {name}"
    return None

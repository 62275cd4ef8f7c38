"""Events internal to an engine: fired timers, and composite events of the parts of a pattern."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from distced.middleware.model.events import TIME, Attribute, CompositeEvent, Derivation, Event, EventId, OrderKey
from distced.middleware.patterns.tree import Delegated

_V = TypeVar("_V")

Carried: TypeAlias = tuple[tuple[tuple[str, EventId], ...], tuple[tuple[str, str], ...]]
"""Ids of the bound events by variable, and values by register, in a comparable form."""


class TimeEvent(Event, frozen=True, gc=False):
    """A fired timer: instantaneous, and after every other event with the same `hi`."""

    rank = TIME


class PartEvent(CompositeEvent, frozen=True, gc=False, kw_only=True):
    """A composite event of a side of a `&`, with the bindings and register values read outside; or of a private
    publication, with its attributes."""

    bound: dict[str, Event]
    counted: dict[str, Attribute]

    def carried(self) -> Carried:
        """The values handed on, in a comparable form."""
        bound = sorted([(name, event.id) for name, event in self.bound.items()])
        return tuple(bound), tuple(sorted([(name, repr(value)) for name, value in self.counted.items()]))


class PartMatch(PartEvent, frozen=True, gc=False, kw_only=True):
    """One derivation of a delegated part: a whole match of a sub-pattern, in the place of its last event."""

    derivation: Derivation

    @property
    def key(self) -> OrderKey:
        """The place of the last event matched, behind which the enclosing pattern goes on; not that of the union."""
        return self.derivation.last

    def follows(self, last: Event | None, *, strong: bool) -> bool:
        """Whether this match began with the first start event after `last` (design, section 2)."""
        if last is None:
            return True
        first, gap = self.derivation.first, self.derivation.gap
        if strong:
            return (gap.greatest_lo is None or gap.greatest_lo <= last.hi) and last.hi < first[1]
        place = last.key
        return (gap.previous is None or gap.previous <= place) and place < first


def part_match(composite: CompositeEvent, derivation: Derivation, type_name: str, part: Delegated) -> PartMatch:
    """A derivation of a delegated part in the form of the automaton that waits for it."""
    return PartMatch(
        type_name,
        derivation.lo,
        derivation.last[0],
        part.source,
        composite.seq,
        dict(zip(part.key, derivation.key, strict=True)),
        constituents=composite.constituents,
        events=composite.events,
        bound=_renamed(derivation.bound, part.bound),
        counted=_renamed(derivation.counted, part.counted),
        derivation=derivation,
    )


def part_events(composite: CompositeEvent, type_name: str, part: Delegated) -> list[PartEvent]:
    """The composite events of a delegated side of a `&`: one for each set of values handed on, at its first moment."""
    moment = composite.derivations[0].last
    alternatives = [
        _side(composite, derivation, type_name, part)
        for derivation in composite.derivations
        if derivation.last == moment
    ]
    return list({alternative.carried(): alternative for alternative in alternatives}.values())


def private_event(composite: CompositeEvent, type_name: str) -> PartEvent:
    """A composite event of a private publication as the automaton sees it that reads it."""
    return PartEvent(
        type_name,
        composite.lo,
        composite.hi,
        composite.source,
        composite.seq,
        composite.attributes,
        constituents=composite.constituents,
        events=composite.events,
        bound={},
        counted={},
    )


def _side(composite: CompositeEvent, derivation: Derivation, type_name: str, part: Delegated) -> PartEvent:
    return PartEvent(
        type_name,
        composite.lo,
        composite.hi,
        part.source,
        composite.seq,
        dict(zip(part.key, derivation.key, strict=True)),
        constituents=composite.constituents,
        events=composite.events,
        bound=_renamed(derivation.bound, part.bound),
        counted=_renamed(derivation.counted, part.counted),
    )


def _renamed(values: dict[str, _V], names: tuple[tuple[str, str], ...]) -> dict[str, _V]:
    return {name: values[canonical] for canonical, name in names if canonical in values}

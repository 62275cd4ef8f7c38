"""Index of patterns: event type, then equalities of attributes with constants.

Cayuga's index of conditions (cayuga-algebra-cesar, section 4.1), for the stepwise engine: of ten thousand patterns that
each name a device, an event concerns those of its device. An event outside every label and input domain of an automaton
changes nothing there (design, section 1), so its engine need not see it. A condition without such an equality is found
by its type alone. Ranges are left to the engines: a tree of intervals pays only where few of them overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton
from distced.detectors.columnar.program.lookup_atoms import atoms_of
from distced.detectors.compiler import Compiled
from distced.detectors.shapes import ShapedPattern
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.expressions import FALSE, operands

M = TypeVar("M")

Equality: TypeAlias = tuple[str, Attribute]
"""Attribute and constant; an empty attribute for any event of the type."""

ANY_EVENT: Final[Equality] = ("", None)


@dataclass(slots=True)
class _Type(Generic[M]):
    """Members that look at events of a type: at all, and by attribute and constant; of most constants there is one."""

    every: dict[M, None] = field(default_factory=dict)
    equal: dict[str, dict[Attribute, M | dict[M, None]]] = field(default_factory=dict)


class PatternIndex(Generic[M]):
    """Members by the events that concern their patterns; `types`: those that any member looks at."""

    def __init__(self) -> None:
        self.types: dict[str, _Type[M]] = {}

    def add(self, member: M, concerns: dict[str, set[Equality]]) -> None:
        """Add a member with a result of `concerned`."""
        for name, equalities in concerns.items():
            known = self.types.setdefault(name, _Type())
            for attribute, value in equalities:
                if not attribute:
                    known.every[member] = None
                    continue
                values = known.equal.setdefault(attribute, {})
                there = values.get(value)
                if there is None:
                    values[value] = member
                elif isinstance(there, dict):
                    there[member] = None
                else:
                    values[value] = {there: None, member: None}

    def remove(self, member: M, concerns: dict[str, set[Equality]]) -> None:
        """Remove a member that was added with the same concerns."""
        for name, equalities in concerns.items():
            known = self.types[name]
            for attribute, value in equalities:
                if not attribute:
                    del known.every[member]
                    continue
                values = known.equal[attribute]
                there = values[value]
                if not isinstance(there, dict):
                    del values[value]
                else:
                    del there[member]
                    if len(there) == 1:
                        (values[value],) = there
                if not values:
                    del known.equal[attribute]
            if not known.every and not known.equal:
                del self.types[name]

    def concerned(self, event: Event) -> Iterator[M]:
        """Members that an event may concern; one may come several times."""
        known = self.types.get(event.type)
        if known is None:
            return
        yield from known.every
        for attribute, values in known.equal.items():
            found = values.get(event.attributes.get(attribute))
            if found.__class__ is dict:
                yield from found
            elif found is not None:
                yield found  # type: ignore[misc]


def concerns(compiled: Compiled) -> dict[str, set[Equality]] | None:
    """Events that a pattern looks at, as equalities by type; None where its engine has to see every event: it reads
    `any`, or counts the events of a throttled type."""
    if isinstance(compiled, ShapedPattern):
        described = compiled.shape.remembered(concerns)
        return described and {
            name: {(attribute, compiled.value(value)) for attribute, value in equalities}
            for name, equalities in described.items()
        }
    if compiled.throttlings:
        return None
    found: dict[str, set[Equality]] = {}
    return found if _note(found, compiled.automaton) else None


def _note(found: dict[str, set[Equality]], automaton: Automaton) -> bool:
    names = frozenset(each.name for each in automaton.registers) | frozenset(automaton.variables)
    for position in automaton.positions:
        for described in (position.label, position.domain):
            if described.others != FALSE:
                return False
            for name, condition in described.by_type.items():
                if name[0] in (TIMER_PREFIX, PART_PREFIX) or condition == FALSE:
                    continue
                equalities = found.setdefault(name, set())
                for each in operands(condition, "or"):
                    equal = atoms_of(each, names).equal
                    # One is enough, the same one for all positions.
                    equalities.add(min(equal.items()) if equal else ANY_EVENT)
                if ANY_EVENT in equalities:
                    found[name] = {ANY_EVENT}
    return all(_note(found, part) for part in automaton.inner)

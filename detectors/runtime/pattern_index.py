"""Index of patterns: event type, then equalities of attributes with constants.

Cayuga's index of conditions (cayuga-algebra-cesar, section 4.1), for the stepwise engine: of ten thousand patterns that
each name a device, an event concerns those of its device. An event outside every label and input domain of an automaton
changes nothing there (design, section 1), so its engine need not see it. A condition without such an equality is found
by its type alone; of several equalities one is enough, that of the fewest patterns. Ranges are left to the engines: a
tree of intervals pays only where few of them overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from distced.detectors.automata.automaton import INSIDE, Automaton
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.detectors.compiler import Compiled
from distced.detectors.shapes import ShapedPattern
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.expressions import FALSE, operands

M = TypeVar("M")

Equalities: TypeAlias = tuple[tuple[str, Attribute], ...]
"""Attributes and constants that all hold of an event, by attribute; empty for any event of the type."""

ANY_EVENT: Final[Equalities] = ()


@dataclass(slots=True)
class _Type(Generic[M]):
    """Members that look at events of a type: at all, and by attribute and constant; of most constants there is one."""

    every: dict[M, None] = field(default_factory=dict)
    equal: dict[str, dict[Attribute, M | dict[M, None]]] = field(default_factory=dict)

    def number(self, attribute: str, value: Attribute, member: M) -> int:
        """Number of members by an attribute and constant; -1 where this one is among them."""
        there = self.equal.get(attribute, {}).get(value)
        if isinstance(there, dict):
            return -1 if member in there else len(there)
        return 0 if there is None else -1 if there is member else 1


class PatternIndex(Generic[M]):
    """Members by the events that concern their patterns; `types`: those that any member looks at."""

    def __init__(self) -> None:
        self.types: dict[str, _Type[M]] = {}

    def add(self, member: M, concerns: dict[str, set[Equalities]]) -> None:
        """Add a member with a result of `concerns`, by the equality that fewest members are added by."""
        for name, alternatives in concerns.items():
            known = self.types.setdefault(name, _Type())
            if ANY_EVENT in alternatives:
                known.every[member] = None
                continue
            for equalities in alternatives:
                numbers = [known.number(*each, member) for each in equalities]
                least = min(numbers)
                if least < 0:
                    continue
                attribute, value = equalities[numbers.index(least)]
                values = known.equal.setdefault(attribute, {})
                there = values.get(value)
                if there is None:
                    values[value] = member
                elif isinstance(there, dict):
                    there[member] = None
                else:
                    values[value] = {there: None, member: None}

    def remove(self, member: M, concerns: dict[str, set[Equalities]]) -> None:
        """Remove a member that was added with the same concerns."""
        for name, alternatives in concerns.items():
            known = self.types[name]
            known.every.pop(member, None)
            for attribute, value in {each for equalities in alternatives for each in equalities}:
                if known.number(attribute, value, member) >= 0:
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

    def concerned(self, events: Iterable[Event]) -> Iterator[tuple[Event, M]]:
        """Pairs of an event, in order, and a member that it may concern; one may come several times."""
        types = self.types
        for event in events:
            known = types.get(event.type)
            if known is None:
                continue
            for member in known.every:
                yield event, member
            attributes = event.attributes
            for attribute, values in known.equal.items():
                found = values.get(attributes.get(attribute))
                if found is None:
                    continue
                if found.__class__ is dict:
                    for member in found:
                        yield event, member
                else:
                    yield event, found  # type: ignore[misc]


def concerns(compiled: Compiled) -> dict[str, set[Equalities]] | None:
    """Events that a pattern looks at, as equalities by type, of which any hold; None where its engine has to see every
    event: it reads `any`, or counts the events of a throttled type."""
    if isinstance(compiled, ShapedPattern):
        described = compiled.shape.remembered(concerns)
        return described and {
            name: {tuple([(attribute, compiled.value(value)) for attribute, value in each]) for each in alternatives}
            for name, alternatives in described.items()
        }
    if compiled.throttlings:
        return None
    found: dict[str, set[Equalities]] = {}
    return found if _note(found, compiled.automaton) else None


def _note(found: dict[str, set[Equalities]], automaton: Automaton) -> bool:
    names = frozenset(each.name for each in automaton.registers) | frozenset(automaton.variables)
    for position in automaton.positions:
        for described in (position.label, position.domain):
            if described.others != FALSE:
                return False
            for name, condition in described.by_type.items():
                if name[0] in INSIDE or condition == FALSE:
                    continue
                alternatives = found.setdefault(name, set())
                for each in operands(condition, "or"):
                    alternatives.add(tuple(sorted(atoms_of(each, names).equal.items())))
                if ANY_EVENT in alternatives:
                    found[name] = {ANY_EVENT}
    return all(_note(found, part) for part in automaton.inner)

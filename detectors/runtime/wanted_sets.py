"""Wanted sets of a pattern: the events that its automaton looks at, in the form that sources understand.

An event outside every label and input domain changes nothing in an automaton (design, section 1), so a source need not
send it. Of a condition the comparisons of attributes with constants are kept (`detectors.automata.lookup_atoms`), one
conjunction for each operand of an `or`; the rest is left out, which widens the set (`middleware.sets.wanted`).

A throttled type counts events before the pattern's own conditions, so all events of its base that the throttling
itself admits are wanted.
"""

from __future__ import annotations

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.detectors.automata.parameters import closed
from distced.detectors.compiler import Compiled
from distced.middleware.sets.expressions import FALSE, Expression, operands
from distced.middleware.sets.wanted import Conjunction, WantedSets, between, conjunction, one_of, widened


def wanted_sets(compiled: Compiled) -> WantedSets | None:
    """Events that a pattern looks at; None where it looks at all."""
    found: dict[str, list[Conjunction]] = {}
    if not _note(found, closed(compiled.automaton)):
        return None
    for throttling in compiled.throttlings:
        _note_condition(found, throttling.type_name, throttling.condition, frozenset())
    return {name: widened(each) for name, each in sorted(found.items())}


def _note(found: dict[str, list[Conjunction]], automaton: Automaton) -> bool:
    names = frozenset(each.name for each in automaton.registers) | frozenset(automaton.variables)
    for position in automaton.positions:
        for described in (position.label, position.domain):
            if described.others != FALSE:
                return False
            for name, condition in described.by_type.items():
                if name[0] not in (TIMER_PREFIX, PART_PREFIX):
                    _note_condition(found, name, condition, names)
    return all(_note(found, part) for part in automaton.inner)


def _note_condition(
    found: dict[str, list[Conjunction]], type_name: str, condition: Expression, names: frozenset[str]
) -> None:
    if condition == FALSE:
        return
    alternatives = found.setdefault(type_name, [])
    for each in operands(condition, "or"):
        atoms = atoms_of(each, names)
        tests = {name: between(*bounds) for name, bounds in atoms.ranges.items()}
        # Of an attribute with both the value says more; that no event has both is for the engine.
        tests |= {name: one_of([value]) for name, value in atoms.equal.items()}
        made = conjunction(tests)
        if made is not None:
            alternatives.append(made)

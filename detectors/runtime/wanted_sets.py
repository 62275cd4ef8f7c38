"""Wanted sets of a pattern: the events that its automaton looks at, in the form that sources understand.

An event outside every label and input domain changes nothing in an automaton (design, section 1), so a source need not
send it. Of a condition the comparisons of attributes with constants are kept (`detectors.automata.lookup_atoms`), and
choices among constants; one conjunction for each operand of an outermost `or`. The rest is left out, which widens the
set (`middleware.sets.wanted`).

A throttled type counts events before the pattern's own conditions, so all events of its base that the throttling
itself admits are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from distced.detectors.automata.automaton import INSIDE, Automaton
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.detectors.automata.parameters import closed
from distced.detectors.compiler import Compiled
from distced.middleware.model.events import Attribute
from distced.middleware.sets.expressions import FALSE, Call, Expression, Literal, Name, operands
from distced.middleware.sets.wanted import Conjunction, Test, WantedSets, between, conjunction, one_of, widened


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
                if name[0] not in INSIDE:
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
        # Of an attribute with several tests one is kept; that no event passes all is for the engine.
        tests |= dict(_choices(each, names))
        tests |= {name: one_of([value]) for name, value in atoms.equal.items()}
        # Marks are put beside the events where they are consumed.
        made = conjunction({name: test for name, test in tests.items() if " " not in name})
        if made is not None:
            alternatives.append(made)


def _choices(condition: Expression, names: frozenset[str]) -> Iterator[tuple[str, Test]]:
    """Attributes that have to be one of several constants: `v in (1, 2)`, `(v == 1 or v == 2)`."""
    for operand in operands(condition, "and"):
        match operand:
            case Call(function="in", arguments=(Name(name=attribute), *values)):
                stated = [each.value for each in values if isinstance(each, Literal)]
                found = {attribute: stated} if len(stated) == len(values) else {}
            case _:
                found = _one_attribute(operands(operand, "or"), names)
        for name, constants in found.items():
            # Null is equal to null, and passes no test.
            test = None if name in names or None in constants else one_of(constants)
            if test is not None:
                yield name, test


def _one_attribute(alternatives: list[Expression], names: frozenset[str]) -> dict[str, list[Attribute]]:
    """Constants by the attribute that all alternatives compare with one; none where they do not."""
    atoms = [atoms_of(each, names).equal for each in alternatives]
    common = set.intersection(*(set(each) for each in atoms)) if len(atoms) > 1 else set()
    return {name: [each[name] for each in atoms] for name in sorted(common)}

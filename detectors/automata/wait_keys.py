"""Wait keys: lookup of waiting instances by a value that they require of an attribute, beside the key of the pattern.

In `[A as a] ; [B where k == a.k]` an instance reads only events with the `k` of its `a`, in
`init n = 0 : [A set n = k] ; [B where k == n]` only those with its `n`: of a million instances an event meets those
with its value (cayuga-algebra-cesar, section 4.3, the AI index). The condition is evaluated nevertheless, so a bucket
may hold more: values that are equal in Python need not be in the language. Rejected: several attributes in one wait
key, as one leaves few instances; wait keys of states that read parts or enter inner keys; equalities with constants,
which one test of the event settles for all instances of a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from distced.detectors.automata.automaton import TIMER_PREFIX, Automaton, AutomatonState
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.expressions import FALSE, Binary, Expression, Name, operands


class Waiting(Protocol):
    """Instance, as far as its bucket goes."""

    key: object
    bindings: tuple[Event | None, ...]
    registers: tuple[Attribute, ...]


class WaitKey(NamedTuple):
    """Equality that holds of every event that a state reads.

    Attributes:
        attribute: of the event.
        place: index of the variable, or of the register.
        bound: attribute of the event bound to the variable, null where nothing is bound; None for the register.
    """

    attribute: str
    place: int
    bound: str | None

    def of_event(self, key: object, event: Event) -> object:
        """Bucket of the instances that may read an event; `key`: of the whole pattern, None without one."""
        value = event.attributes.get(self.attribute)
        return value if key is None else (key, value)

    def of_instance(self, instance: Waiting) -> object:
        """Bucket of an instance."""
        if self.bound is None:
            value = instance.registers[self.place]
        else:
            event = instance.bindings[self.place]
            value = None if event is None else event.attributes.get(self.bound)
        return value if instance.key is None else (instance.key, value)


WaitKeys = tuple[WaitKey | None, ...]
"""Wait key of each state; None where instances are looked up by the key of the whole pattern alone."""


def wait_keys(automaton: Automaton) -> WaitKeys | None:
    """Wait keys of an automaton; None where no state has one."""
    variables = {name: place for place, name in enumerate(automaton.variables)}
    registers = {register.name: place for place, register in enumerate(automaton.registers)}
    if not variables and not registers:
        return None
    found = tuple(_wait_key(automaton, state, variables, registers) for state in automaton.states)
    return found if any(found) else None


def _wait_key(
    automaton: Automaton, state: AutomatonState, variables: Mapping[str, int], registers: Mapping[str, int]
) -> WaitKey | None:
    positions = [automaton.positions[move.position] for move in state.moves]
    if any(each.part is not None or each.keys or each.domain.others != FALSE for each in positions):
        return None
    # A time event concerns the instance that has started it, without a lookup.
    forms = [item for each in positions for item in each.domain.by_type.items() if item[0][0] != TIMER_PREFIX]
    conditions = [each for _, each in forms if each != FALSE]
    if not conditions:
        return None
    first, *others = ([*_bound(each, variables, registers)] for each in conditions)
    # A register that begins again has another value by the time of the comparison.
    inits = any(move.inits for move in state.moves)
    usable = (each for each in first if each.bound is not None or not inits)
    return next((each for each in usable if all(each in found for found in others)), None)


def _bound(condition: Expression, variables: Mapping[str, int], registers: Mapping[str, int]) -> list[WaitKey]:
    """Equalities of an attribute with a value of the instance that a condition requires."""
    joined = atoms_of(condition, registers).joined
    found = [WaitKey(name, variables[to.variable], to.attribute) for name, to in joined.items()]
    for operand in operands(condition, "and"):
        match operand:
            case Binary(operator="==", left=Name(name=one), right=Name(name=other)):
                for name, register in ((one, other), (other, one)):
                    if register in registers and name not in registers:
                        found.append(WaitKey(name, registers[register], None))
    return found

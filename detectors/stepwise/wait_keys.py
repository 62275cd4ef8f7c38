"""Wait keys: lookup of waiting instances by an attribute of an earlier event, beside the key of the whole pattern.

In `[A as a] ; [B where k == a.k]` an instance reads only events with the `k` of its `a`: of a million instances an
event meets those with its value (cayuga-algebra-cesar, section 4.3, the AI index). Rejected: several attributes in one
wait key, as one leaves few instances; wait keys of states that read parts or enter inner keys, whose values are in
registers; equalities with constants, which one test of the event settles for all instances of a state.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from distced.detectors.automata.automaton import Automaton, AutomatonState
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.detectors.stepwise.instance import Instance
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.expressions import FALSE


class WaitKey(NamedTuple):
    """Equality that holds of every event that a state reads: an attribute of the event with one of the event bound to a
    variable, null where nothing is bound."""

    attribute: str
    variable: int
    bound: str

    def of_event(self, key: object, event: Event) -> tuple[object, Attribute]:
        """Bucket of the instances that may read an event; `key`: of the whole pattern."""
        return key, event.attributes.get(self.attribute)

    def of_instance(self, instance: Instance) -> tuple[object, Attribute]:
        """Bucket of an instance."""
        event = instance.bindings[self.variable]
        return instance.key, None if event is None else event.attributes.get(self.bound)


WaitKeys = tuple[WaitKey | None, ...]
"""Wait key of each state; None where instances are looked up by the key of the whole pattern alone."""


def wait_keys(automaton: Automaton, variables: Mapping[str, int]) -> WaitKeys | None:
    """Wait keys of an automaton with these places of variables; None where no state has one."""
    if not variables:
        return None
    registers = {register.name for register in automaton.registers}
    found = tuple(_wait_key(automaton, state, variables, registers) for state in automaton.states)
    return found if any(found) else None


def _wait_key(
    automaton: Automaton, state: AutomatonState, variables: Mapping[str, int], registers: Container[str]
) -> WaitKey | None:
    positions = [automaton.positions[move.position] for move in state.moves]
    if any(each.part is not None or each.keys or each.domain.others != FALSE for each in positions):
        return None
    conditions = [each for position in positions for each in position.domain.by_type.values() if each != FALSE]
    if not conditions:
        return None
    first, *others = (atoms_of(each, registers).joined for each in conditions)
    for attribute, bound in first.items():
        if bound.variable in variables and all(each.get(attribute) == bound for each in others):
            return WaitKey(attribute, variables[bound.variable], bound.attribute)
    return None

"""What an automaton says of events of one type.

An event's type settles most of a describable set, and what is left is a condition or nothing at all. So all is worked
out by type, when a type is first seen.
"""

from __future__ import annotations

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton, Move
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, Expression


def condition_of(form: ConditionByType, type_name: str, *, timer: bool = False) -> Expression:
    """What an event of a type has to fulfil; those that exist inside an engine only are none of the others."""
    return form.by_type.get(type_name, FALSE if timer or type_name[0] == PART_PREFIX else form.others)


def label_of(automaton: Automaton, move: Move, type_name: str) -> Expression:
    """The condition under which a move takes an event of a type."""
    return condition_of(automaton.positions[move.position].label, type_name)


def named(automaton: Automaton, place: int) -> frozenset[str]:
    """The types that the domain of a state speaks of."""
    forms = (automaton.positions[move.position].domain for move in automaton.states[place].moves)
    return frozenset(name for form in forms for name in form.by_type if name[0] != TIMER_PREFIX)


def others_asked(automaton: Automaton, place: int) -> bool:
    """Whether the domain of a state speaks of types it does not name."""
    return any(automaton.positions[move.position].domain.others != FALSE for move in automaton.states[place].moves)

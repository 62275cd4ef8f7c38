"""Whether an automaton can ever complete a match, as far as the types of events tell."""

from __future__ import annotations

from distced.detectors.automata.automaton import Automaton, State
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE


def can_match(automaton: Automaton) -> bool:
    """Whether a generative state can be reached by events that are in the domains on the way."""
    if not all(can_match(part) for part in automaton.inner):
        return False
    seen = set(automaton.starts)
    waiting = list(seen)
    while waiting:
        state = automaton.states[waiting.pop()]
        for place in _beyond(automaton, state):
            if automaton.states[place].accepting:
                return True
            if place not in seen:
                seen.add(place)
                waiting.append(place)
    return False


def _beyond(automaton: Automaton, state: State) -> list[int]:
    domain = automaton.domain(state)
    return [
        place
        for move in state.moves
        if _overlap(automaton.positions[move.position].label, domain)
        for place in automaton.arrivals[move.position]
    ]


def _overlap(label: ConditionByType, domain: ConditionByType) -> bool:
    names = {*label.by_type, *domain.by_type}
    if label.others != FALSE and domain.others != FALSE:
        return True
    return any(label.condition(name) != FALSE and domain.condition(name) != FALSE for name in names)

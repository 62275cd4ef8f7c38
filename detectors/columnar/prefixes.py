"""Patterns that begin alike share the states they begin with.

cayuga-algebra-cesar, section 4.2: automata are merged one by one, by equal prefixes. Here that may be done where
patterns are chains of single steps and nothing is kept but constituents: then instances of all of them in a state that
is reached alike are equal, and if the state looks at the same events, they have one fate. What the patterns do next may
differ; the shared state has the moves of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from distced.detectors.automata.automaton import Automaton
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE

Key: TypeAlias = tuple[object, ...]
"""What has to be equal for a step to lead to one state."""


@dataclass(slots=True)
class Node:
    """A state that patterns share.

    Attributes:
        state: its record.
        maker: the record of the pattern that was the first to have it.
        depth: how many of them come before it.
        key, siblings: what leads to it, among what else leads on from where it does.
        visits: what is done there by type.
        rooms: for how many moves there is room in each visit's list.
        ways: where in each visit's list a move stands, by what it leads to.
        patterns: the patterns that share it, with its number in each.
        children: the states its moves lead to.
    """

    state: int
    maker: int
    depth: int
    key: Key
    siblings: dict[Key, Node] = field(repr=False)
    visits: dict[str, int] = field(default_factory=dict)
    rooms: dict[int, int] = field(default_factory=dict)
    ways: dict[int, dict[int, int]] = field(default_factory=dict)
    patterns: dict[int, int] = field(default_factory=dict)
    children: dict[Key, Node] = field(default_factory=dict)


def chain_of(automaton: Automaton) -> list[tuple[Key, int]] | None:
    """For a chain of single steps what each asks for, with the state it leads to; None for any other automaton.

    The last step completes the match and leads nowhere.
    """
    kept = (automaton.variables, automaton.registers, automaton.windows, automaton.timers, automaton.inner_keys)
    if any(kept) or len(automaton.starts) != 1:
        return None
    (place,) = automaton.starts
    found: list[tuple[Key, int]] = []
    begins: Key = (automaton.whole_window, automaton.key)
    while True:
        moves = automaton.states[place].moves
        if len(moves) != 1 or len(automaton.arrivals[moves[0].position]) != 1:
            return None
        (move,) = moves
        position = automaton.positions[move.position]
        (place,) = automaton.arrivals[move.position]
        state = automaton.states[place]
        if position.hidden or position.domain.others != FALSE or state.accepting == bool(state.moves):
            return None
        asked = (_form(position.label), _form(position.domain), move.strong)
        if not state.moves:
            return [*found, ((*begins, *asked), place)]
        following = automaton.positions[state.moves[0].position].domain
        found.append(((*begins, *asked, _form(following), state.strong), place))
        begins = ()


def _form(condition: ConditionByType) -> tuple[object, ...]:
    return tuple(sorted(condition.by_type.items(), key=lambda item: item[0]))

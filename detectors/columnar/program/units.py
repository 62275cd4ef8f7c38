"""Units: automata in one program, the supported automata, and their conditions by event type.

The type settles most of a describable set; a unit is compiled type by type, at first sight of a type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distced.detectors.automata.automaton import (
    PART_PREFIX,
    TIMER_PREFIX,
    Automaton,
    AutomatonMove,
    AutomatonState,
    Position,
)
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.program.condition_code import Capture, captures_of, fits
from distced.middleware.patterns.tree import Calculated
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """The automaton of a pattern in a program.

    Attributes:
        address: of its record.
        states: records of its states, by number; 0 where nothing waits.
        captures: slot of each captured value of variables' events, from the start of the extra block.
        variables: word of the first variable, after timers and windows.
        registers, inner_keys: their slots in order; the word of the spent values follows the latter.
        shown: whether matches carry bindings and registers.
        kept: whether composite events, not only constituents, distinguish its matches.
        count: place of the count of instances touched in states of its own.
    """

    number: int
    automaton: Automaton
    address: int
    states: tuple[int, ...]
    captures: dict[Capture, int]
    variables: int
    registers: tuple[int, ...]
    inner_keys: tuple[int, ...]
    extra: int
    shown: bool
    kept: bool
    count: int

    def joint(self, position: Position) -> int:
        """The word of the bound of a position's joint."""
        return self.variables + len(self.automaton.variables) + (position.joint or 0)

    @property
    def spent(self) -> int | None:
        """The word of the closed values of inner keys; None without inner keys."""
        return self.extra - 1 if self.inner_keys else None


def supports(automaton: Automaton) -> bool:
    """Whether the loop supports an automaton and its parts: starts that are always active, matches that depend on no
    others and are emitted on arrival, no private publications, quiet times and clocks, and one inner key at a time, as
    several would split instances into as many ways as there are sets of keys."""
    if automaton.once or automaton.settled or automaton.selects or automaton.quiet or automaton.has_privates:
        return False
    if automaton.clocks:
        return False
    if not all(isinstance(part, Automaton) and supports(part) for part in automaton.parts):
        return False
    if any(len(keys) > 1 for state in automaton.states for keys in [frozenset().union(*_entered(state))]):
        return False
    kept = (automaton.windows, automaton.timers, automaton.variables, automaton.registers, automaton.inner_keys)
    slots = sum(map(len, kept)) + automaton.joints
    read = {each for expression in expressions_of(automaton) for each in captures_of(expression)}
    return slots + 2 * len(read) <= word_offsets.LARGEST // 2 and all(map(fits, expressions_of(automaton)))


def _entered(state: AutomatonState) -> Iterator[frozenset[int]]:
    """The inner keys entered by each way out of a state."""
    return (move.keys for move in state.moves)


def expressions_of(automaton: Automaton) -> Iterable[Expression]:
    """All the expressions of an automaton."""
    for position in automaton.positions:
        for form in (position.label, position.domain):
            yield from form.by_type.values()
            yield form.others
        yield from (value for _, value in position.updates)
    for register in automaton.registers:
        yield from (value for _, value in register.initials)
    yield from (timer.when.delay for timer in automaton.timers if isinstance(timer.when, Calculated))
    if automaton.output is not None:
        yield from (value for _, value in automaton.output.attributes)
        if automaton.output.condition is not None:
            yield automaton.output.condition


def condition_of(form: ConditionByType, type_name: str, *, timer: bool = False) -> Expression:
    """The condition on an event of a type; types internal to the engine are distinct from all others."""
    return form.by_type.get(type_name, FALSE if timer or type_name[0] == PART_PREFIX else form.others)


def label_of(automaton: Automaton, move: AutomatonMove, type_name: str) -> Expression:
    """The condition under which a move takes an event of a type."""
    return condition_of(automaton.positions[move.position].label, type_name)


def named(automaton: Automaton, place: int) -> frozenset[str]:
    """The types named in the domain of a state."""
    forms = (automaton.positions[move.position].domain for move in automaton.states[place].moves)
    return frozenset(name for form in forms for name in form.by_type if name[0] != TIMER_PREFIX)


def others_asked(automaton: Automaton, place: int) -> bool:
    """Whether the domain of a state covers types it does not name."""
    return any(automaton.positions[move.position].domain.others != FALSE for move in automaton.states[place].moves)

"""A pattern's automaton among others, and what an automaton has to be like to be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distced.detectors.automata.automaton import Automaton, Position, State
from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.program.condition_code import Capture, captures_of, fits
from distced.middleware.sets.expressions import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A pattern's automaton among others.

    Attributes:
        number: its number.
        address: of its record.
        states: the records of its states, by their number; 0 for those in which nothing waits.
        captures: the slot of what is kept of the events bound to variables, counted from the extra block's begin.
        variables: the word of the first variable; timers and windows stand before.
        registers: the slot of each register, in order.
        inner_keys: the slot of each inner key's value; behind them is the word of the values that are spent.
        shown: whether matches take along what was bound and counted.
        kept: whether its matches have to be told apart by what they become, not only by their constituents.
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

    def joint(self, position: Position) -> int:
        """The word of the bound of a position's joint."""
        return self.variables + len(self.automaton.variables) + (position.joint or 0)

    @property
    def spent(self) -> int | None:
        """The word of the values of inner keys that have gone their own way; None without inner keys."""
        return self.extra - 1 if self.inner_keys else None


def supports(automaton: Automaton) -> bool:
    """Whether the loop runs such an automaton, and its parts.

    Of inner keys one at a time may be entered: instances that stand for the values of several that no event has shown
    yet would split in as many ways as there are sets of keys.
    """
    if not all(isinstance(part, Automaton) and supports(part) for part in automaton.parts):
        return False
    if any(len(keys) > 1 for state in automaton.states for keys in [frozenset().union(*_entered(state))]):
        return False
    kept = (automaton.windows, automaton.timers, automaton.variables, automaton.registers, automaton.inner_keys)
    slots = sum(map(len, kept)) + automaton.joints
    read = {each for expression in expressions_of(automaton) for each in captures_of(expression)}
    return slots + 2 * len(read) <= layout.LARGEST // 2 and all(map(fits, expressions_of(automaton)))


def _entered(state: State) -> Iterator[frozenset[int]]:
    """The inner keys that each way out of a state enters."""
    return (move.keys for move in state.moves)


def may_merge(automaton: Automaton) -> bool:
    """Whether two instances may become equal, or complete with the same constituents: where what is matched is hidden
    or a time event, or an instance has several ways to go on."""
    if automaton.timers or automaton.inner_keys or any(position.hidden for position in automaton.positions):
        return True
    if len(automaton.starts) > 1 or any(len(arrival) > 1 for arrival in automaton.arrivals):
        return True
    return any(len(state.moves) > 1 for state in automaton.states)


def expressions_of(automaton: Automaton) -> Iterable[Expression]:
    """All the expressions of an automaton."""
    for position in automaton.positions:
        for form in (position.label, position.domain):
            yield from form.by_type.values()
            yield form.others
        yield from (value for _, value in position.updates)
    for register in automaton.registers:
        yield from (value for _, value in register.initials)
    if automaton.output is not None:
        yield from (value for _, value in automaton.output.attributes)
        if automaton.output.condition is not None:
            yield automaton.output.condition

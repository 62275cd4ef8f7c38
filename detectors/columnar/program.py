"""From automata to the program of the columnar engine: records in one memory, those of a further pattern at its end.

What an event of some type does in some state is worked out when the type is first seen, as in the stepwise engine: an
event's type settles most of a describable set, and what is left is a condition or nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from detectors.automata.automaton import Automaton, Move, Position, timer_type
from detectors.columnar import layout
from detectors.columnar.coding import Capture, Names, captures_of, fits
from detectors.columnar.memory import Program, Words
from detectors.columnar.values import Texts
from detectors.language.tree import Output, Relative, When
from detectors.stepwise.findings import may_repeat
from middleware.events import Attribute
from middleware.sets.describable import ConditionByType
from middleware.sets.expressions import FALSE, TRUE, Expression, Literal, Name, transform

FREE_NAMES: Final = 1
"""Addresses begin behind this, for 0 stands for nothing."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A pattern's automaton among others.

    Attributes:
        number: its number.
        address: of its record.
        first_state: the number of its first state among those of all.
        captures: the slot of what is kept of the events bound to variables, counted from the extra block's begin.
        variables: the word of the first variable; timers and windows stand before.
        registers: the slot of each register, in order.
        shown: whether matches take along what was bound and counted.
        kept: whether its matches have to be told apart by what they become, not only by their constituents.
    """

    number: int
    automaton: Automaton
    address: int
    first_state: int
    captures: dict[Capture, int]
    variables: int
    registers: tuple[int, ...]
    extra: int
    shown: bool
    kept: bool


@dataclass(slots=True)
class Columns:
    """The columns that programs read.

    Attributes:
        names: what each holds: an attribute, or the values of a key as numbers that are equal iff they are.
    """

    names: list[str | tuple[str, ...]] = field(default_factory=list)
    _places: dict[str | tuple[str, ...], int] = field(default_factory=dict)

    def place(self, name: str | tuple[str, ...]) -> int:
        """The column of an attribute, or of a key's."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.names)
            self.names.append(name)
        return found


class Assembler:
    """Puts automata together to one program.

    Attributes:
        columns: what is read of events.
        whens: when the time events are due that are not set off by a delay, by number.
        units: by number.
        states: how many states there are in all.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.columns = Columns()
        self.whens: list[When] = []
        self.units: list[Unit] = []
        self.states = 0
        self._memory: list[int] = [0] * FREE_NAMES
        self._wide: list[int] = []
        self._wides: dict[int, int] = {}
        self._constants: list[tuple[int, int]] = []
        self._places: dict[tuple[int, int], int] = {}
        self._lists: dict[str, tuple[int, int]] = {}
        self._names: dict[int, Names] = {}
        self._program: Program | None = None

    def add(self, automaton: Automaton) -> Unit:
        """Add an automaton; `supports` says whether that can be."""
        unit = self._unit(automaton)
        self.units.append(unit)
        self.states += len(automaton.states)
        self._lists.clear()
        self._fill_timers(unit)
        return unit

    def program(self) -> Program:
        """The program as it is now."""
        if self._program is None or len(self._program.memory) != len(self._memory):
            constants = np.array(self._constants or [(0, 0)], np.int64)
            wide: Words = np.array(self._wide or [0], np.int64)
            self._program = Program(np.array(self._memory, np.int32), wide, constants)
        return self._program

    def lists(self, type_name: str) -> tuple[int, int]:
        """The lists of what events of a type do: to what waits for them, and to begin with; 0 for nothing."""
        found = self._lists.get(type_name)
        if found is None:
            waiting: list[int] = []
            starting: list[int] = []
            for unit in self.units:
                reached = {state for arrival in unit.automaton.arrivals for state in arrival}
                waiting += [each for state in sorted(reached) if (each := self._visit(unit, state, type_name))]
                starts = unit.automaton.starts
                starting += [each for state in starts if (each := self._visit(unit, state, type_name, start=True))]
            found = self._lists[type_name] = (self._list(waiting), self._list(starting))
        return found

    # Records.

    def _unit(self, automaton: Automaton) -> Unit:
        windows, timers, variables = len(automaton.windows), len(automaton.timers), len(automaton.variables)
        slots = windows + timers + variables
        read: set[Capture] = set()
        for expression in _expressions(automaton):
            read |= captures_of(expression)
        captures = {each: slots + 2 * place for place, each in enumerate(sorted(read))}
        first = slots + 2 * len(captures)
        registers = tuple(first + 2 * place for place in range(len(automaton.registers)))
        extra = first + 2 * len(registers)
        names = Names(
            {register.name: slot for register, slot in zip(automaton.registers, registers, strict=True)},
            captures,
            self.columns.place,
            self._constant,
            self._code,
        )
        number = len(self.units)
        self._names[number] = names
        output = automaton.output
        # Those that may come again, or merge with others, become objects at once.
        repeats, merges = may_repeat(automaton), _may_merge(automaton)
        attributes = output is not None and bool(output.attributes)
        kept = repeats or (merges and attributes)
        shown = attributes or kept
        flags = (layout.KEYED if automaton.key else 0) | (layout.MERGES if merges else 0)
        flags |= (layout.SHOWN if shown else 0) | (layout.CHOSEN if not kept else 0)
        window = -1 if automaton.whole_window is None else self._in_pool(automaton.whole_window)
        record = [0] * layout.UNIT
        record[layout.U_NUMBER] = number
        record[layout.U_FLAGS] = flags
        record[layout.U_WINDOW] = window
        record[layout.U_WINDOWS] = windows
        record[layout.U_TIMERS] = timers
        record[layout.U_VARIABLES] = variables
        record[layout.U_EXTRA] = extra
        record[layout.U_FILTER] = self._filter(output, names)
        record[layout.U_KEYS] = self.columns.place(automaton.key) if automaton.key else 0
        record[layout.U_FIRST_STATE] = self.states
        address = self._place(record)
        return Unit(
            number,
            automaton,
            address,
            self.states,
            captures,
            windows + timers,
            registers,
            extra,
            shown,
            kept,
        )

    def _fill_timers(self, unit: Unit) -> None:
        timers = len(unit.automaton.timers)
        if not timers:
            return
        table = [
            self._visit(unit, state, timer_type(timer), timer=True)
            for state in range(len(unit.automaton.states))
            for timer in range(timers)
        ]
        self._memory[unit.address + layout.U_TIMER_VISITS] = self._place(table)

    def _visit(self, unit: Unit, place: int, type_name: str, *, start: bool = False, timer: bool = False) -> int:
        """What events of a type do in a state; 0 where it does not look at them."""
        automaton = unit.automaton
        state = automaton.states[place]
        names = self._names[unit.number]
        tests: list[tuple[int, int]] = []
        moves: list[int] = []
        loops: list[int] = []
        need = 0
        everything, alike, plain = False, True, True
        simple = not automaton.timers and not automaton.windows and not automaton.variables and not automaton.registers
        for move in state.moves:
            position = automaton.positions[move.position]
            inits = self._inits(unit, move)
            domain = _condition(position.domain, type_name, timer=timer)
            label = _condition(position.label, type_name, timer=timer)
            alike = alike and label == domain
            if domain != FALSE:
                everything = everything or domain == TRUE
                tests.append((0 if domain == TRUE else names.condition(domain), inits))
            if label != FALSE:
                targets = automaton.arrivals[move.position]
                need += len(targets)
                plain = plain and label == TRUE
                address = self._move(unit, move, position, label, inits, timer=timer)
                moves.append(address)
                (first, *others) = targets
                at = automaton.states[first]
                if position.hidden and not move.strong and not others and first == place and not at.accepting:
                    loops.append(address)
        if not tests:
            return 0
        flags = (layout.STRONG if state.strong and not timer else 0) | (layout.EVERYTHING if everything else 0)
        flags |= layout.ALIKE if alike else 0
        record = [0] * layout.VISIT
        record[layout.V_STATE] = -1 if start else unit.first_state + place
        record[layout.V_FLAGS] = flags
        record[layout.V_UNIT] = unit.address
        record[layout.V_NEED] = need
        record[layout.V_TESTS] = self._list([word for test in tests for word in test], len(tests))
        record[layout.V_MOVES] = self._list(moves)
        in_place = simple and everything and plain and len(loops) == 1 and not start
        record[layout.V_LOOP] = loops[0] if in_place else 0
        return self._place(record)

    def _move(self, unit: Unit, move: Move, position: Position, label: Expression, inits: int, *, timer: bool) -> int:
        automaton, names = unit.automaton, self._names[unit.number]
        record = [0] * layout.MOVE
        record[layout.M_LABEL] = 0 if label == TRUE else names.condition(label)
        windows = [
            word
            for window in position.windows
            for word in (window, self._in_pool(automaton.windows[window]), int(window in move.windows))
        ]
        captures: list[int] = []
        updated = names
        variable = -1
        if position.variable is not None:
            bound = automaton.variables[position.variable]
            variable = unit.variables + position.variable
            for (name, what), slot in unit.captures.items():
                if name == bound:
                    column = {"lo()": -1, "hi()": -2}.get(what)
                    captures += [slot, self.columns.place(what) if column is None else column]
        updates = [word for place, value in position.updates for word in (unit.registers[place], updated.value(value))]
        simple = not (windows or inits or captures or updates) and variable < 0
        flags = (layout.STRONG if move.strong and not timer else 0) | (layout.HIDDEN if position.hidden else 0)
        record[layout.M_FLAGS] = flags | (layout.SIMPLE if simple else 0)
        record[layout.M_VARIABLE] = variable
        record[layout.M_CAPTURES] = self._list(captures, len(captures) // 2) if captures else 0
        record[layout.M_INITS] = inits
        record[layout.M_UPDATES] = self._list(updates, len(updates) // 2) if updates else 0
        record[layout.M_WINDOWS] = self._list(windows, len(windows) // 3) if windows else 0
        record[layout.M_TARGETS] = self._list([self._target(unit, each) for each in automaton.arrivals[move.position]])
        return self._place(record)

    def _target(self, unit: Unit, place: int) -> int:
        automaton = unit.automaton
        state = automaton.states[place]
        windows, timers = len(automaton.windows), len(automaton.timers)
        over = [word for window in range(windows) if window not in state.windows for word in (window, 0)]
        over += [word for timer in range(timers) if timer not in state.timers for word in (windows + timer, 1)]
        arms: list[int] = []
        for timer in sorted(state.arms):
            when = automaton.timers[timer].when
            if isinstance(when, Relative):
                arms += [windows + timer, timer, self._in_pool(when.delay)]
            else:
                arms += [windows + timer, timer, -1 - len(self.whens)]
                self.whens.append(when)
        record = [0] * layout.TARGET
        record[layout.T_STATE] = unit.first_state + place
        record[layout.T_FLAGS] = (layout.ACCEPTING if state.accepting else 0) | (layout.GOES_ON if state.moves else 0)
        record[layout.T_CLEARS] = self._list(over, len(over) // 2) if over else 0
        record[layout.T_ARMS] = self._list(arms, len(arms) // 3) if arms else 0
        return self._place(record)

    def _inits(self, unit: Unit, move: Move) -> int:
        names = self._names[unit.number]
        entered = [
            (init, place, initial)
            for place, register in enumerate(unit.automaton.registers)
            for init, initial in register.initials
            if init in move.inits
        ]
        # Outer ones first, for an inner one may build on them.
        entered.sort(key=lambda each: each[:2])
        words = [word for _, place, value in entered for word in (unit.registers[place], names.value(value))]
        return self._list(words, len(words) // 2) if words else 0

    def _filter(self, output: Output | None, names: Names) -> int:
        """The final filter, over what is bound and counted: output attributes written out."""
        if output is None or output.condition is None:
            return 0
        shown = {name: transform(value, lambda node: self._as_shown(node, names)) for name, value in output.attributes}

        def written_out(node: Expression) -> Expression:
            if isinstance(node, Name) and node.name not in names.registers:
                return shown.get(node.name, Literal(None))
            return node

        condition = transform(output.condition, written_out)
        return 0 if condition == TRUE else names.condition(condition)

    def _as_shown(self, node: Expression, names: Names) -> Expression:
        """A composite event has no attributes until they are worked out."""
        return Literal(None) if isinstance(node, Name) and node.name not in names.registers else node

    # Memory.

    def _place(self, words: Iterable[int]) -> int:
        address = len(self._memory)
        self._memory += words
        return address

    def _list(self, words: Sequence[int], length: int | None = None) -> int:
        return self._place([len(words) if length is None else length, *words])

    def _code(self, words: list[int], jumps: Sequence[int]) -> int:
        address = len(self._memory)
        for jump in jumps:
            words[jump] += address
        return self._place(words)

    def _in_pool(self, number: int) -> int:
        if number not in self._wides:
            self._wides[number] = len(self._wide)
            self._wide.append(number)
        return self._wides[number]

    def _constant(self, value: Attribute) -> int:
        packed = self.texts.packed(value)
        if packed not in self._places:
            self._places[packed] = len(self._constants)
            self._constants.append(packed)
        return self._places[packed]


def supports(automaton: Automaton) -> bool:
    """Whether the loop runs such an automaton."""
    if automaton.parts or automaton.inner_keys or automaton.epochs or automaton.joints:
        return False
    slots = sum(map(len, (automaton.windows, automaton.timers, automaton.variables, automaton.registers)))
    read = {each for expression in _expressions(automaton) for each in captures_of(expression)}
    return slots + 2 * len(read) <= layout.LARGEST // 2 and all(map(fits, _expressions(automaton)))


def _condition(form: ConditionByType, type_name: str, *, timer: bool) -> Expression:
    return form.by_type.get(type_name, FALSE if timer else form.others)


def _may_merge(automaton: Automaton) -> bool:
    """Whether two instances may become equal, or complete with the same constituents: where what is matched is hidden
    or a time event, or an instance has several ways to go on."""
    if automaton.timers or any(position.hidden for position in automaton.positions):
        return True
    if len(automaton.starts) > 1 or any(len(arrival) > 1 for arrival in automaton.arrivals):
        return True
    return any(len(state.moves) > 1 for state in automaton.states)


def _expressions(automaton: Automaton) -> Iterable[Expression]:
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


__all__ = ["Assembler", "Columns", "Unit", "supports"]

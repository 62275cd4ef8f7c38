"""Automata as records: visits of states by event type, moves, conditions, targets.

Every record, list and piece of code has one referrer, so a pattern is removed alone (`RecordRelease`). Rejected: code
shared between patterns; pieces would need counts, and the indexes evaluate most equal conditions without it
(cayuga-algebra-cesar, section 4.3; design, section 4, Engines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distced.detectors.automata.automaton import Automaton, AutomatonMove, Position, part_type
from distced.detectors.automata.properties import may_merge, may_repeat
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Handed
from distced.detectors.columnar.program.condition_code import Capture, NameSlots, captures_of
from distced.detectors.columnar.program.record_space import RecordSpace
from distced.detectors.columnar.program.units import Unit, condition_of, expressions_of
from distced.middleware.patterns.tree import Calculated, Output, Recurring, Relative, When
from distced.middleware.sets.expressions import FALSE, TRUE, Expression, Literal, Name, transform


class RecordWriter:
    """Writer of records of units, visits and moves; `names` are the resolved names by unit number."""

    def __init__(self, records: RecordSpace) -> None:
        self.records = records
        self.names: dict[int, NameSlots] = {}

    def forget(self, unit: Unit) -> None:
        """Forget the names and the final filter of a removed unit."""
        memory = self.records.memory
        self.records.release().code(int(memory[unit.address + word_offsets.U_FILTER]))
        memory[unit.address + word_offsets.U_FILTER] = 0
        del self.names[unit.number]
        self.records.counts.give(unit.count)

    def unit(
        self,
        automaton: Automaton,
        number: int,
        shared: Mapping[int, int] | None = None,
        *,
        shares: bool = False,
        kept: bool = False,
    ) -> Unit:
        windows, timers, variables = len(automaton.windows), len(automaton.timers), len(automaton.variables)
        slots = windows + timers + variables + automaton.joints
        read: set[Capture] = set()
        for expression in expressions_of(automaton) if variables else ():
            read |= captures_of(expression)
        captures = {each: slots + 2 * place for place, each in enumerate(sorted(read))}
        first = slots + 2 * len(captures)
        registers = tuple(first + 2 * place for place in range(len(automaton.registers)))
        behind = first + 2 * len(registers)
        inner_keys = tuple(behind + 2 * place for place in range(len(automaton.inner_keys)))
        extra = behind + (2 * len(inner_keys) + 1 if inner_keys else 0)
        names = NameSlots(
            {register.name: slot for register, slot in zip(automaton.registers, registers, strict=True)},
            captures,
            self.records.columns.place,
            self.records.constant,
            self.records.place_code,
            self.records.place_list,
        )
        self.names[number] = names
        output = automaton.output
        # Those that may come again, or merge with others, become objects at once.
        repeats, merges = may_repeat(automaton), may_merge(automaton)
        attributes = output is not None and bool(output.attributes)
        kept = kept or repeats or (merges and attributes)
        shown = attributes or kept
        flags = (word_offsets.KEYED if automaton.key else 0) | (word_offsets.MERGES if merges else 0)
        flags |= (
            (word_offsets.SHARES if shares else 0)
            | (word_offsets.SHOWN if shown else 0)
            | (word_offsets.CHOSEN if not kept else 0)
        )
        window = -1 if automaton.whole_window is None else self.records.wide(automaton.whole_window)
        record = [0] * word_offsets.UNIT
        record[word_offsets.U_NUMBER] = number
        record[word_offsets.U_FLAGS] = flags
        record[word_offsets.U_WINDOW] = window
        record[word_offsets.U_WINDOWS] = windows
        record[word_offsets.U_TIMERS] = timers
        record[word_offsets.U_VARIABLES] = variables
        record[word_offsets.U_JOINTS] = automaton.joints
        record[word_offsets.U_EXTRA] = extra
        record[word_offsets.U_SPENT] = extra if inner_keys else 0
        record[word_offsets.U_FILTER] = self._filter(output, names)
        record[word_offsets.U_KEYS] = self.records.columns.place(automaton.key) if automaton.key else 0
        address = self.records.place(record)
        reached = {state for arrival in automaton.arrivals for state in arrival if automaton.states[state].moves}
        places = range(len(automaton.states))
        return Unit(
            number,
            automaton,
            address,
            tuple((shared or {}).get(place) or self._state(place in reached) for place in places),
            captures,
            windows + timers,
            registers,
            inner_keys,
            extra,
            shown,
            kept,
            self.records.counts.take(),
        )

    def _state(self, waits: bool) -> int:
        return self.records.place([0] * word_offsets.STATE) if waits else 0

    def visit(
        self,
        unit: Unit,
        place: int,
        type_name: str,
        count: int | None = None,
        *,
        start: bool = False,
        timer: bool = False,
    ) -> int:
        """The visit of events of a type in a state; 0 where they are not read. `count`: of a shared state."""
        automaton = unit.automaton
        state = automaton.states[place]
        names = self.names[unit.number]
        tests: list[tuple[int, int, int]] = []
        moves: list[int] = []
        joint = 0
        loops: list[int] = []
        need = 0
        everything, alike, plain = False, True, True
        kept = (automaton.timers, automaton.windows, automaton.variables, automaton.registers, automaton.inner_keys)
        simple = not any(kept)
        opens: set[int] = set()
        conditions: list[tuple[AutomatonMove, Position, Expression, Expression, list[tuple[int, int]]]] = []
        for move in state.moves:
            position = automaton.positions[move.position]
            domain = condition_of(position.domain, type_name, timer=timer)
            label = condition_of(position.label, type_name, timer=timer)
            if position.after_first and position.part is not None and type_name == part_type(position.part):
                joint = 1 + unit.joint(position)
            within = [] if timer else self._within(unit, move, position)
            enters = bool(move.keys) and not timer and domain != FALSE
            alike = alike and not move.keys and (label is domain or label == domain)
            everything = everything or (domain == TRUE and not within and not enters)
            opens |= move.keys if enters or label != FALSE else frozenset()
            conditions.append((move, position, domain, label, within))
        if all(domain == FALSE for _, _, domain, _, _ in conditions):
            return 0
        for move, position, domain, label, within in conditions:
            if domain == FALSE and label == FALSE:
                continue
            inits = self._inits(unit, move)
            if domain != FALSE:
                # Where labels say the same it is not asked.
                asked = (domain != TRUE or within) and not (alike or everything)
                code = names.condition(domain, within) if asked else 0
                tests.append((code, inits, int(bool(move.keys) and not timer)))
            if label != FALSE:
                targets = automaton.arrivals[move.position]
                need += len(targets)
                plain = plain and label == TRUE
                address = self.move(unit, move, position, label, within, inits, timer=timer)
                moves.append(address)
                (first, *others) = targets
                at = automaton.states[first]
                if position.hidden and not move.strong and not others and first == place and not at.accepting:
                    loops.append(address)
        plain = plain and joint == 0
        flags = (word_offsets.STRONG if state.strong and not timer else 0) | (
            word_offsets.EVERYTHING if everything else 0
        )
        flags |= word_offsets.ALIKE if alike else 0
        record = [0] * word_offsets.VISIT
        record[word_offsets.V_FLAGS] = flags
        record[word_offsets.V_UNIT] = unit.address
        record[word_offsets.V_NEED] = need
        record[word_offsets.V_TESTS] = self.records.place_list([word for test in tests for word in test], len(tests))
        record[word_offsets.V_MOVES] = self.records.place_list(moves)
        merges = int(self.records.memory[unit.address + word_offsets.U_FLAGS]) & word_offsets.MERGES
        record[word_offsets.V_JOINT] = joint
        record[word_offsets.V_COUNT] = unit.count if count is None else count
        if opens:
            (inner,) = opens
            record[word_offsets.V_OPENS] = 1 + self.records.columns.place(automaton.inner_keys[inner])
            record[word_offsets.V_INNER] = inner
            # An event may be taken twice: by the instance of its value, and by the one that stands for all others.
            record[word_offsets.V_NEED] = 2 * need + 1
        if len(moves) == 1 and not merges and joint == 0 and (everything or alike):
            straight = int(self.records.memory[moves[0] + word_offsets.M_FLAGS]) & word_offsets.STRAIGHT
            # A state is strong iff its only move is.
            record[word_offsets.V_FLAGS] |= word_offsets.SINGLE_MOVE if straight and len(state.moves) == 1 else 0
        in_place = simple and everything and plain and len(loops) == 1 and not start
        record[word_offsets.V_LOOP] = loops[0] if in_place else 0
        return self.records.place(record)

    def _within(self, unit: Unit, move: AutomatonMove, position: Position) -> list[tuple[int, int]]:
        """The columns and slots of the entered inner keys against which an event is checked."""
        names = unit.automaton.inner_keys
        return [
            (self.records.columns.place(names[key]), unit.inner_keys[key])
            for key in position.keys
            if key not in move.keys
        ]

    def move(
        self,
        unit: Unit,
        move: AutomatonMove,
        position: Position,
        label: Expression,
        within: Sequence[tuple[int, int]],
        inits: int,
        *,
        timer: bool,
    ) -> int:
        automaton, names = unit.automaton, self.names[unit.number]
        record = [0] * word_offsets.MOVE
        record[word_offsets.M_LABEL] = 0 if label == TRUE and not within else names.condition(label, within)
        windows = [
            word
            for window in position.windows
            for word in (window, self.records.wide(automaton.windows[window]), int(window in move.windows))
        ]
        captures = [
            word
            for key in sorted(move.keys)
            for word in (unit.inner_keys[key], self.records.columns.place(automaton.inner_keys[key]))
        ]
        updated = names
        variable = -1
        if position.variable is not None:
            bound = automaton.variables[position.variable]
            variable = unit.variables + position.variable
            for (name, what), slot in unit.captures.items():
                if name == bound:
                    column = {"lo()": -1, "hi()": -2}.get(what)
                    captures += [slot, self.records.columns.place(what) if column is None else column]
        updates = [word for place, value in position.updates for word in (unit.registers[place], updated.value(value))]
        handed: list[int] = []
        if position.part is not None:
            handed, counted = self._handed(unit, position)
            captures += counted
        joint = 0
        if position.joint is not None:
            joint = -1 - unit.joint(position) if position.after_first else 1 + unit.joint(position)
        simple = not (windows or inits or captures or updates or handed or joint) and variable < 0
        arrivals = automaton.arrivals[move.position]
        state = automaton.states[arrivals[0]]
        straight = simple and not unit.extra and len(arrivals) == 1 and state.accepting != bool(state.moves)
        flags = (word_offsets.STRONG if move.strong and not timer else 0) | (
            word_offsets.HIDDEN if position.hidden else 0
        )
        flags |= (word_offsets.SIMPLE if simple else 0) | (word_offsets.STRAIGHT if straight else 0)
        flags |= word_offsets.ENTERS if move.keys else 0
        record[word_offsets.M_FLAGS] = flags
        record[word_offsets.M_UNIT] = unit.address
        record[word_offsets.M_STATE] = unit.states[arrivals[0]] if straight and state.moves else 0
        record[word_offsets.M_VARIABLE] = variable
        record[word_offsets.M_JOINT] = joint
        record[word_offsets.M_HANDED] = self.records.place_list(handed, len(handed) // 3) if handed else 0
        record[word_offsets.M_CAPTURES] = self.records.place_list(captures, len(captures) // 2) if captures else 0
        record[word_offsets.M_INITS] = inits
        record[word_offsets.M_UPDATES] = self.records.place_list(updates, len(updates) // 2) if updates else 0
        record[word_offsets.M_WINDOWS] = self.records.place_list(windows, len(windows) // 3) if windows else 0
        record[word_offsets.M_TARGETS] = self.records.place_list(
            [self._target(unit, each) for each in automaton.arrivals[move.position]]
        )
        return self.records.place(record)

    def _handed(self, unit: Unit, position: Position) -> tuple[list[int], list[int]]:
        """Values handed on by a part: its variables as triples of words, its registers as captures."""
        automaton = unit.automaton
        part = automaton.parts[position.part or 0]
        assert isinstance(part, Automaton)
        handed: list[int] = []
        for place, name in enumerate(automaton.variables):
            if name in part.exports and name in part.variables:
                slots = [
                    word
                    for (variable, what), slot in unit.captures.items()
                    if variable == name
                    for word in (slot, self.records.columns.place(Handed(name, what)))
                ]
                captures = self.records.place_list(slots, len(slots) // 2) if slots else 0
                handed += [self.records.columns.place(Handed(name)), unit.variables + place, captures]
        counted = {register.name for register in part.registers if register.name in part.exports}
        return handed, [
            word
            for slot, register in zip(unit.registers, automaton.registers, strict=True)
            if register.name in counted
            for word in (slot, self.records.columns.place(Handed(register.name, counted=True)))
        ]

    def _target(self, unit: Unit, place: int) -> int:
        automaton = unit.automaton
        state = automaton.states[place]
        windows, timers = len(automaton.windows), len(automaton.timers)
        over = [word for each in range(windows) if each not in state.windows for word in (each, word_offsets.OPENED)]
        over += [
            word
            for each in range(timers)
            if each not in state.timers
            for word in (windows + each, word_offsets.SET_OFF)
        ]
        over += [
            word
            for key, slot in enumerate(unit.inner_keys)
            if key not in state.keys
            for word in (slot, word_offsets.ENTERED)
        ]
        arms: list[int] = []
        recurs: list[int] = []
        delays: list[int] = []
        for timer in sorted(state.timers):
            when = automaton.timers[timer].when
            if timer in state.arms and isinstance(when, Calculated):
                delays += [windows + timer, self.names[unit.number].value(when.delay)]
            elif timer in state.arms:
                arms += [windows + timer, timer, self._when(when.first if isinstance(when, Recurring) else when)]
            if isinstance(when, Recurring):
                recurs += [windows + timer, timer, self._when(when)]
        record = [0] * word_offsets.TARGET
        record[word_offsets.T_STATE] = unit.states[place]
        record[word_offsets.T_FLAGS] = (word_offsets.ACCEPTING if state.accepting else 0) | (
            word_offsets.GOES_ON if state.moves else 0
        )
        record[word_offsets.T_CLEARS] = self.records.place_list(over, len(over) // 2) if over else 0
        record[word_offsets.T_ARMS] = self.records.place_list(arms, len(arms) // 3) if arms else 0
        record[word_offsets.T_RECURS] = self.records.place_list(recurs, len(recurs) // 3) if recurs else 0
        record[word_offsets.T_DELAYS] = self.records.place_list(delays, len(delays) // 2) if delays else 0
        return self.records.place(record)

    def _when(self, when: When) -> int:
        match when:
            case Relative(delay=delay) | Recurring(first=Relative(delay=delay)):
                return self.records.wide(delay)
        return -1 - self.records.when(when)

    def _inits(self, unit: Unit, move: AutomatonMove) -> int:
        names = self.names[unit.number]
        entered = [
            (init, place, initial)
            for place, register in enumerate(unit.automaton.registers)
            for init, initial in register.initials
            if init in move.inits
        ]
        # Outer ones first, for an inner one may build on them.
        entered.sort(key=lambda each: each[:2])
        words = [word for _, place, value in entered for word in (unit.registers[place], names.value(value))]
        return self.records.place_list(words, len(words) // 2) if words else 0

    def _filter(self, output: Output | None, names: NameSlots) -> int:
        """The final filter over bindings and registers: output attributes are expanded."""
        if output is None or output.condition is None:
            return 0
        shown = {name: transform(value, lambda node: self._as_shown(node, names)) for name, value in output.attributes}

        def written_out(node: Expression) -> Expression:
            if isinstance(node, Name) and node.name not in names.registers:
                return shown.get(node.name, Literal(None))
            return node

        condition = transform(output.condition, written_out)
        return 0 if condition == TRUE else names.condition(condition)

    def _as_shown(self, node: Expression, names: NameSlots) -> Expression:
        """Replace output attributes by their expressions: composite events have none before evaluation."""
        return Literal(None) if isinstance(node, Name) and node.name not in names.registers else node

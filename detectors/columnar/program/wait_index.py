"""Wait index: visits of states in which instances wait, and lookup of waiting instances by event.

Cayuga's AN and AI indexes (cayuga-algebra-cesar, section 4.3): instances of all patterns share buckets, by awaited
types and by a value that the domain requires of an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distced.detectors.automata.automaton import timer_type
from distced.detectors.automata.lookup_atoms import atoms_of
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.values import plain
from distced.detectors.columnar.program.record_space import RecordSpace
from distced.detectors.columnar.program.record_writer import RecordWriter
from distced.detectors.columnar.program.type_index import Open, TypeIndex
from distced.detectors.columnar.program.units import Unit, condition_of, named
from distced.middleware.sets import values
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE


class WaitIndex:
    """Maintains the visits of states and the buckets of their instances."""

    def __init__(self, records: RecordSpace, writer: RecordWriter, type_index: TypeIndex, *, indexed: bool) -> None:
        """Args: indexed: as for `Assembler`."""
        self.records = records
        self._writer = writer
        self._type_index = type_index
        self._indexed = indexed
        self._open: dict[int, list[Open]] = {}
        type_index.on_new.append(self._new_type)

    def forget(self, number: int) -> None:
        """Remove the states of a unit."""
        self._open.pop(number, None)

    def _new_type(self, name: str) -> None:
        for states in self._open.values():
            for each in states:
                if name not in each.named:
                    self._add_visit(each.unit, each.place, name)

    def fill(self, unit: Unit, place: int, count: int | None = None) -> dict[str, int]:
        """Fill in a state's visits by type and the group of its instances; the visits. `count`: of a shared state."""
        automaton = unit.automaton
        address = unit.states[place]
        forms = [automaton.positions[move.position].domain for move in automaton.states[place].moves]
        own = named(automaton, place)
        looked = [name for name in sorted(own) if any(condition_of(form, name) != FALSE for form in forms)]
        is_open = any(form.others != FALSE for form in forms)
        column, value = -1, self.records.nothing
        if automaton.key:
            column, value = self.records.columns.place(automaton.key), -1
        elif not is_open and looked and self._indexed:
            column, value = self._found_by(unit, forms, looked, column, value)
        types = None if is_open else frozenset(looked)
        records, type_index = self.records, self._type_index
        group = type_index.group(types, column)
        records.memory[address + word_offsets.S_LOCAL] = place
        records.memory[address + word_offsets.S_GROUP] = group
        records.memory[address + word_offsets.S_VALUE] = value
        visits = {name: self._writer.visit(unit, place, name, count) for name in looked}
        if is_open:
            self._open.setdefault(unit.number, []).append(Open(unit, place, own))
            visits |= {name: self._writer.visit(unit, place, name) for name in type_index.types if name not in own}
        words = [word for name, visit in visits.items() if visit for word in (type_index.known(name).number, visit)]
        pairs = records.place_list(words, len(words) // 2)
        records.memory[address + word_offsets.S_VISITS] = pairs
        timers = range(len(automaton.timers))
        if timers:
            table = records.place_list(
                [self._writer.visit(unit, place, timer_type(each), timer=True) for each in timers]
            )
            records.memory[address + word_offsets.S_TIMERS] = table + 1
        return visits

    def _found_by(
        self, unit: Unit, forms: Sequence[ConditionByType], looked: Sequence[str], column: int, value: int
    ) -> tuple[int, int]:
        """Attribute with one required value in all domain tests, earlier events before constants; None without."""
        registers = self._writer.names[unit.number].registers
        conditions = [condition_of(form, name) for form in forms for name in looked]
        first, *others = (atoms_of(each, registers) for each in conditions if each != FALSE)
        for attribute, known in first.joined.items():
            if all(each.joined.get(attribute) == known for each in others):
                slot = unit.captures[known.variable, known.attribute]
                return self.records.columns.place((attribute,)), -2 - slot
        for attribute, wanted in first.equal.items():
            if all(attribute in each.equal and values.same(each.equal[attribute], wanted) for each in others):
                return self.records.columns.place((attribute,)), self.records.constant(plain(wanted))
        return column, value

    def _add_visit(self, unit: Unit, place: int, name: str) -> None:
        """Add a type to a state that reads types it does not name."""
        visit = self._writer.visit(unit, place, name)
        if visit:
            pointer = unit.states[place] + word_offsets.S_VISITS
            visits = int(self.records.memory[pointer])
            count = int(self.records.memory[visits])
            words = self.records.memory[visits + 1 : visits + 1 + 2 * count].tolist()
            self.records.room.give(visits, 1 + 2 * count)
            address = self.records.place_list([*words, self._type_index.types[name].number, visit], count + 1)
            self.records.memory[pointer] = address

    def end(self, state: int, rooms: Mapping[int, int] | None = None) -> None:
        """Disable a state; its instances go with the next sweep. `rooms` as in `SharedState`."""
        self.records.release().visits(state, rooms or {})
        memory = self.records.memory
        self._type_index.leave(int(memory[state + word_offsets.S_GROUP]))
        value = int(memory[state + word_offsets.S_VALUE])
        if value >= 0 and value != self.records.nothing:
            self.records.constants.release(value)
        memory[state + word_offsets.S_LOCAL] = -1
        memory[state + word_offsets.S_VISITS] = 0
        timers = int(memory[state + word_offsets.S_TIMERS])
        if timers:
            memory[timers : timers + int(memory[timers - 1])] = 0

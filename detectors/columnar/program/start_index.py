"""The start index: start states of patterns in the start table, by required event values.

Each entry's place is noted for removal. Rejected: a search among all with the same value, linear in patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from distced.detectors.automata.lookup_atoms import Atoms, atoms_of
from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.values import plain
from distced.detectors.columnar.program.record_space import RecordSpace
from distced.detectors.columnar.program.record_writer import RecordWriter
from distced.detectors.columnar.program.start_table import StartTable
from distced.detectors.columnar.program.type_index import Open, TypeIndex
from distced.detectors.columnar.program.units import Unit, label_of, named, others_asked
from distced.middleware.sets.expressions import FALSE


class StartEntry(NamedTuple):
    """The place of a move in the start table."""

    name: int
    one: int
    other: int
    visit: int
    move: int


class SharedTarget(Protocol):
    """A state shared by patterns (`program.sharing`): its record, and the place of its count."""

    @property
    def state(self) -> int: ...

    @property
    def count(self) -> int: ...


class _StartKey(NamedTuple):
    """Lookup key of a start: signature, tags, two values, up to two attribute ranges; `whole` if nothing else."""

    name: int
    one: int
    other: int
    ranges: tuple[tuple[str, tuple[float, float]], ...]
    whole: bool


class StartIndex:
    """Start states of units in the start table; `begun`: start moves by record of a shared target, else of the unit."""

    def __init__(
        self, records: RecordSpace, writer: RecordWriter, type_index: TypeIndex, starts: StartTable, *, indexed: bool
    ) -> None:
        """Args: indexed: as for `Assembler`."""
        self.records = records
        self._writer = writer
        self._type_index = type_index
        self.starts = starts
        self._indexed = indexed
        self.begun: dict[int, list[StartEntry]] = {}
        self._open: dict[int, list[Open]] = {}
        type_index.on_new.append(self._new_type)

    def add(self, unit: Unit) -> None:
        """Add all start states of a unit."""
        for place in unit.automaton.starts:
            types = named(unit.automaton, place)
            for name in sorted(types):
                self.fill(unit, place, name)
            if others_asked(unit.automaton, place):
                self._open.setdefault(unit.number, []).append(Open(unit, place, types))
                for name in self._type_index.types.keys() - types:
                    self.fill(unit, place, name)

    def remove(self, unit: Unit) -> None:
        """Remove the start states of a unit."""
        self.forget(unit.address)
        self._open.pop(unit.number, None)

    def _new_type(self, name: str) -> None:
        for starts in self._open.values():
            for each in starts:
                if name not in each.named:
                    self.fill(each.unit, each.place, name)

    def fill(self, unit: Unit, place: int, name: str, shared: SharedTarget | None = None) -> None:
        """Add start moves for events of this type, by required values; `shared` is their shared target."""
        visit = self._writer.visit(unit, place, name, None if shared is None else shared.count, start=True)
        if not visit:
            return
        flags = int(self.records.memory[visit + word_offsets.V_FLAGS])
        looked_at = flags & (word_offsets.ALIKE | word_offsets.EVERYTHING) != 0
        addresses = int(self.records.memory[visit + word_offsets.V_MOVES])
        begun = self.begun.setdefault(unit.address if shared is None else shared.state, [])
        if not self.records.memory[addresses]:
            self.records.release().visit(visit)
            return
        for number, sought in enumerate(self._start_keys(unit, place, name)):
            ranges = [(self.records.columns.place(each), *bounds) for each, bounds in sought.ranges]
            ranges += [(-1, 0.0, 0.0)] * (2 - len(ranges))
            (first, least, most), (second, other_least, other_most) = ranges
            address = int(self.records.memory[addresses + 1 + number])
            enters = int(self.records.memory[address + word_offsets.M_FLAGS]) & word_offsets.ENTERS != 0
            entry = (visit, address, int(sought.whole and looked_at and not enters), first, second)
            bounds = (least, most, other_least, other_most)
            self.starts.add(sought.name, sought.one, sought.other, entry, bounds)
            begun.append(StartEntry(sought.name, sought.one, sought.other, visit, address))

    def forget(self, owner: int) -> None:
        """Remove the moves that lead to a state, or complete a pattern."""
        begun = self.begun.pop(owner, [])
        for each in begun:
            self.starts.remove(each.name, each.one, each.other, each.move)
        for visit in {each.visit for each in begun}:
            self.records.release().visit(visit)

    def _start_keys(self, unit: Unit, place: int, name: str) -> Iterator[_StartKey]:
        """The key of each move out of a start state."""
        for move in unit.automaton.states[place].moves:
            label = label_of(unit.automaton, move, name)
            if label == FALSE:
                continue
            atoms = Atoms(whole=False)
            if self._indexed:
                atoms = atoms_of(label, self._writer.names[unit.number].registers)
            signature, names = self._type_index.signature(name, sorted(atoms.equal)[:2])
            packed = [self.records.texts.packed(plain(atoms.equal[each])) for each in names] + [(0, 0), (0, 0)]
            (one_tag, one), (other_tag, other), *_ = packed
            tags = one_tag | other_tag << word_offsets.TAG_BITS
            ranges = [(each, atoms.ranges[each]) for each in sorted(atoms.ranges)[:2]]
            whole = atoms.whole and len(names) == len(atoms.equal) and len(ranges) == len(atoms.ranges)
            yield _StartKey((signature << 2 * word_offsets.TAG_BITS | tags) + 1, one, other, tuple(ranges), whole)

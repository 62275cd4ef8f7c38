"""What may begin a match, by what its condition asks of an event: what stands in the index of starts, and for whom.

Cayuga's FR index, for the first step (cayuga-algebra-cesar, section 4.3; `starts` is the index itself). Of each entry
it is noted where it stands, so that it is found again when its pattern goes: to look through all that begins with the
same value was rejected, for that may be as many as there are patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.batch.values import plain
from distced.detectors.columnar.by_type import label_of, named, others_asked
from distced.detectors.columnar.kernel.start_lookup import Starts
from distced.detectors.columnar.program.lookup_atoms import Atoms, atoms_of
from distced.detectors.columnar.program.record_writer import Writer
from distced.detectors.columnar.program.type_index import Interests, Open
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.records import Records
from distced.middleware.sets.expressions import FALSE


class Begun(NamedTuple):
    """Where something that may begin stands in the index of starts."""

    name: int
    one: int
    other: int
    visit: int
    move: int


class _Sought(NamedTuple):
    """By what a start is looked up.

    Attributes:
        name, one, other: signature and tags, and the two values.
        ranges: at most two attributes with their bounds.
        whole: whether that is all its condition asks for.
    """

    name: int
    one: int
    other: int
    ranges: tuple[tuple[str, tuple[float, float]], ...]
    whole: bool


class Beginnings:
    """Puts into the index of starts what may begin, and takes it out.

    Attributes:
        begun: what begins, by the record of the state it leads to, if that is shared, else by that of the unit.
    """

    def __init__(
        self, records: Records, writer: Writer, interests: Interests, starts: Starts, *, indexed: bool
    ) -> None:
        """
        Args:
            indexed: as `Assembler` has it.
        """
        self.records = records
        self._writer = writer
        self._interests = interests
        self.starts = starts
        self._indexed = indexed
        self.begun: dict[int, list[Begun]] = {}
        self._open: dict[int, list[Open]] = {}
        interests.on_new.append(self._new_type)

    def add(self, unit: Unit) -> None:
        """Have all start states of a unit found."""
        for place in unit.automaton.starts:
            types = named(unit.automaton, place)
            for name in sorted(types):
                self.fill(unit, place, name)
            if others_asked(unit.automaton, place):
                self._open.setdefault(unit.number, []).append(Open(unit, place, types))
                for name in self._interests.types.keys() - types:
                    self.fill(unit, place, name)

    def remove(self, unit: Unit) -> None:
        """Nothing begins any more in the start states of a unit."""
        self.forget(unit.address)
        self._open.pop(unit.number, None)

    def _new_type(self, name: str) -> None:
        for starts in self._open.values():
            for each in starts:
                if name not in each.named:
                    self.fill(each.unit, each.place, name)

    def fill(self, unit: Unit, place: int, name: str, shared: int = 0) -> None:
        """Have what may begin in a start state found by what it asks of an event of this type.

        Args:
            shared: the state that it leads to, where patterns share that.
        """
        visit = self._writer.visit(unit, place, name, start=True)
        if not visit:
            return
        flags = int(self.records.memory[visit + layout.V_FLAGS])
        looked_at = flags & (layout.ALIKE | layout.EVERYTHING) != 0
        addresses = int(self.records.memory[visit + layout.V_MOVES])
        begun = self.begun.setdefault(shared or unit.address, [])
        if not self.records.memory[addresses]:
            self.records.freeing().visit(visit)
            return
        for number, sought in enumerate(self._sought(unit, place, name)):
            ranges = [(self.records.columns.place(each), *bounds) for each, bounds in sought.ranges]
            ranges += [(-1, 0.0, 0.0)] * (2 - len(ranges))
            (first, least, most), (second, other_least, other_most) = ranges
            address = int(self.records.memory[addresses + 1 + number])
            enters = int(self.records.memory[address + layout.M_FLAGS]) & layout.ENTERS != 0
            entry = (visit, address, int(sought.whole and looked_at and not enters), first, second)
            bounds = (least, most, other_least, other_most)
            self.starts.add(sought.name, sought.one, sought.other, entry, bounds)
            begun.append(Begun(sought.name, sought.one, sought.other, visit, address))

    def forget(self, owner: int) -> None:
        """Nothing begins any more what leads to a state, or a pattern."""
        begun = self.begun.pop(owner, [])
        for each in begun:
            self.starts.remove(each.name, each.one, each.other, each.move)
        for visit in {each.visit for each in begun}:
            self.records.freeing().visit(visit)

    def _sought(self, unit: Unit, place: int, name: str) -> Iterator[_Sought]:
        """By what each way out of a start state is looked up."""
        for move in unit.automaton.states[place].moves:
            label = label_of(unit.automaton, move, name)
            if label == FALSE:
                continue
            atoms = Atoms(whole=False)
            if self._indexed:
                atoms = atoms_of(label, self._writer.names[unit.number].registers)
            signature, names = self._interests.signature(name, sorted(atoms.equal)[:2])
            packed = [self.records.texts.packed(plain(atoms.equal[each])) for each in names] + [(0, 0), (0, 0)]
            (one_tag, one), (other_tag, other), *_ = packed
            tags = one_tag | other_tag << layout.TAG_BITS
            ranges = [(each, atoms.ranges[each]) for each in sorted(atoms.ranges)[:2]]
            whole = atoms.whole and len(names) == len(atoms.equal) and len(ranges) == len(atoms.ranges)
            yield _Sought((signature << 2 * layout.TAG_BITS | tags) + 1, one, other, tuple(ranges), whole)

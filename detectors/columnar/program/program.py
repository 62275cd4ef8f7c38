"""Construction of the columnar engine's program from automata: patterns are added and removed during operation.

A program is records in one memory (`record_space`) with the effects of events by state and type (`record_writer`), and
indexes from events to waiting instances (`wait_index`, `type_index`) and start moves (`start_index`, `start_table`).
Patterns with a common prefix share states (`sharing`). FR, AN and AI indexes and merged automata of Cayuga
(cayuga-algebra-cesar, sections 4.3 and 4.2; design, section 4, Engines).

Removal frees records at once, except those of the pattern and its states, which wait until compaction finds no instance
of them. Rejected: a search for instances per removal, as no list holds them; periodic rebuilds, a pause that grows with
the patterns.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.program.record_space import ColumnNumbers, Left, RecordSpace
from distced.detectors.columnar.program.record_writer import RecordWriter
from distced.detectors.columnar.program.sharing import SharedState, Sharing, chain_of
from distced.detectors.columnar.program.start_index import StartIndex
from distced.detectors.columnar.program.start_table import StartTable
from distced.detectors.columnar.program.type_index import TypeIndex
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.program.wait_index import WaitIndex
from distced.detectors.columnar.state import Program
from distced.middleware.patterns.tree import When


class Sizes(NamedTuple):
    """Memory sizes of all patterns: program words, entries and names of the start index, groups of states with one
    wait, constants, 64-bit numbers, bound of pattern numbers."""

    words: int
    entries: int
    names: int
    groups: int
    values: int
    numbers: int


class Assembler:
    """Assembles automata into one program; its parts are as in their modules, `units` by number."""

    def __init__(self, texts: Texts, *, indexed: bool = True, shared: bool = True) -> None:
        """`shared`: share states of common prefixes; `indexed`: look up patterns by required values, else match every
        event against every pattern, the baseline of benchmarks."""
        self._shared = shared and indexed
        self.records = RecordSpace(texts)
        self.starts = StartTable()
        self.writer = RecordWriter(self.records)
        self.type_index = TypeIndex(self.records, self.starts)
        self.wait_index = WaitIndex(self.records, self.writer, self.type_index, indexed=indexed)
        self.start_index = StartIndex(self.records, self.writer, self.type_index, self.starts, indexed=indexed)
        self.sharing = Sharing(self.records, self.writer, self.wait_index, self.start_index)
        self.units: dict[int, Unit] = {}
        self._numbers = 0
        self._free_numbers: deque[int] = deque()
        self._program: Program | None = None
        # What instances may refer to, and what none refers to any more.
        self._left: list[Left] = []
        self._swept: deque[Left] = deque()

    def add(self, automaton: Automaton, *, kept: bool = False, apart: bool = False) -> Unit:
        """Add an automaton accepted by `supports`; `kept` if composite events distinguish its matches in any case;
        `apart` if it shares no states."""
        # At least as many as come are freed; all at once would be a pause.
        for _ in range(min(2, len(self._swept))):
            self._free(self._swept.popleft())
        number = self._number()
        chain = chain_of(automaton) if self._shared and not (kept or apart) else None
        if chain is not None:
            unit = self.sharing.add(automaton, chain, number)
        else:
            unit = self.writer.unit(automaton, number, kept=kept)
            for place, state in enumerate(unit.states):
                if state:
                    self.wait_index.fill(unit, place)
            self.start_index.add(unit)
        self.units[number] = unit
        return unit

    def remove(self, number: int) -> None:
        """Remove an automaton. Its instances are no longer offered events, and go with the next sweep."""
        unit = self.units.pop(number)
        if unit.address in self.sharing.made:
            self._left.append(self.sharing.remove(unit))
        else:
            self.start_index.remove(unit)
            self.wait_index.forget(number)
            states = tuple(filter(None, unit.states))
            for state in states:
                self.wait_index.end(state)
            self._left.append(Left(number, (unit.address,), states))
        self.writer.forget(unit)

    @property
    def removed(self) -> int:
        """Number of patterns removed since the last compaction."""
        return len(self._left)

    def swept(self) -> None:
        """Note that no instances of removed patterns are left."""
        self._swept.extend(self._left)
        self._left.clear()

    def sizes(self) -> Sizes:
        """Current memory sizes of all patterns."""
        records, starts = self.records, self.starts
        values = len(records.constants) + len(records.wides)
        return Sizes(records.words, starts.count, starts.names, len(self.type_index.groups), values, self._numbers)

    def program(self) -> Program:
        """The current program."""
        records, starts = self.records, self.starts
        arrays: dict[str, Any] = {
            "memory": records.memory,
            "wide": records.wides.rows,
            "constants": records.constants.rows,
            "lookup": starts.lookup,
            "entries": starts.entries,
            "bounds": starts.bounds,
        }
        if self._program is None or any(getattr(self._program, name) is not array for name, array in arrays.items()):
            self._program = Program(**arrays)
        return self._program

    def counts_of(self, unit: Unit) -> list[int]:
        """The places of the counts of instances touched for a pattern, those of shared states included."""
        nodes = self.sharing.nodes
        return [unit.count, *(nodes[state].count for state in unit.states if state in nodes)]

    def lists(self, type_name: str) -> tuple[int, int, int]:
        """The lists of states waiting for a type and of start moves, 0 for none; and the number of the type."""
        return self.type_index.lists(type_name)

    @property
    def columns(self) -> ColumnNumbers:
        """The columns read of events."""
        return self.records.columns

    @property
    def whens(self) -> list[When]:
        """The due rules of time events without a fixed delay, by number."""
        return self.records.whens

    @property
    def nodes(self) -> dict[int, SharedState]:
        """The states that several patterns may share, by record."""
        return self.sharing.nodes

    def _number(self) -> int:
        """A new number."""
        if self._free_numbers:
            return self._free_numbers.popleft()
        self._numbers += 1
        return self._numbers - 1

    def _free(self, left: Left) -> None:
        """Reuse the memory of a removed pattern."""
        self.records.release().left(left)
        self._free_numbers.append(left.number)

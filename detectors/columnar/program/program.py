"""From automata to the program of the columnar engine: patterns are added and removed while it runs.

A program is records in one memory (`records`), which say for each state what events of a type do there (`writing`), and
indexes by which an event finds what it concerns: instances that wait (`waiting`, `interests`) and what it begins
(`beginnings`, `starts`). Patterns that begin alike share states (`sharing`). These are the FR, AN and AI indexes and
the merging of automata of Cayuga (cayuga-algebra-cesar, sections 4.3 and 4.2; design, section 4, Engines).

When a pattern goes its records are taken apart at once, and what they took is used again (`freeing`, `stretches`,
`pools`); but for the records of states and of the pattern itself, to which its instances refer, which wait until it has
been looked for those. To look for them with every pattern that goes was rejected, for they are in no list of their own;
so was to make the whole program anew now and then, for that is a pause that grows with the number of patterns.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.kernel.start_lookup import Starts
from distced.detectors.columnar.prefixes import Node, chain_of
from distced.detectors.columnar.program.record_space import Left
from distced.detectors.columnar.program.record_writer import Writer
from distced.detectors.columnar.program.sharing import Sharing
from distced.detectors.columnar.program.start_index import Beginnings
from distced.detectors.columnar.program.type_index import Interests
from distced.detectors.columnar.program.units import Unit
from distced.detectors.columnar.program.wait_index import Waiting
from distced.detectors.columnar.records import Columns, Records
from distced.detectors.columnar.state import Program
from distced.middleware.patterns.tree import When


class Sizes(NamedTuple):
    """How large all is that patterns take.

    Attributes:
        words: of the program.
        entries, names: of the index of starts, and by how many values they are looked up.
        groups: of states that wait for the same.
        values: constants, and numbers of 64 bits.
        numbers: up to which patterns are numbered.
    """

    words: int
    entries: int
    names: int
    groups: int
    values: int
    numbers: int


class Assembler:
    """Puts automata together to one program.

    Attributes:
        records: what they are written into.
        writer, interests, starts, waiting, beginnings, sharing: the parts, as their modules have them.
        units: by number.
    """

    def __init__(self, texts: Texts, *, indexed: bool = True, shared: bool = True) -> None:
        """
        Args:
            shared: have patterns that begin alike share states.
            indexed: look up by what conditions ask for; without it every event is held to every pattern, which is what
                benchmarks compare with.
        """
        self._shared = shared and indexed
        self.records = Records(texts)
        self.starts = Starts()
        self.writer = Writer(self.records)
        self.interests = Interests(self.records, self.starts)
        self.waiting = Waiting(self.records, self.writer, self.interests, indexed=indexed)
        self.beginnings = Beginnings(self.records, self.writer, self.interests, self.starts, indexed=indexed)
        self.sharing = Sharing(self.records, self.writer, self.waiting, self.beginnings)
        self.units: dict[int, Unit] = {}
        self._numbers = 0
        self._free_numbers: deque[int] = deque()
        self._program: Program | None = None
        # What instances may refer to, and what none refers to any more.
        self._left: list[Left] = []
        self._swept: deque[Left] = deque()

    def add(self, automaton: Automaton, *, kept: bool = False) -> Unit:
        """Add an automaton; `supports` says whether that can be.

        Args:
            kept: tell its matches apart by what they become, whatever it is.
        """
        # At least as many as come are freed; all at once would be a pause.
        for _ in range(min(2, len(self._swept))):
            self._free(self._swept.popleft())
        number = self._number()
        chain = chain_of(automaton) if self._shared and not kept else None
        if chain is not None:
            unit = self.sharing.add(automaton, chain, number)
        else:
            unit = self.writer.unit(automaton, number, kept=kept)
            for place, state in enumerate(unit.states):
                if state:
                    self.waiting.fill(unit, place)
            self.beginnings.add(unit)
        self.units[number] = unit
        return unit

    def remove(self, number: int) -> None:
        """Remove an automaton. Its instances are no longer offered anything, and go when it is looked for such."""
        unit = self.units.pop(number)
        if unit.address in self.sharing.made:
            self._left.append(self.sharing.remove(unit))
        else:
            self.beginnings.remove(unit)
            self.waiting.forget(number)
            states = tuple(filter(None, unit.states))
            for state in states:
                self.waiting.end(state)
            self._left.append(Left(number, (unit.address,), states))
        self.writer.forget(unit)

    @property
    def removed(self) -> int:
        """How many patterns were removed since it was last looked for their instances."""
        return len(self._left)

    def swept(self) -> None:
        """There are no instances of removed patterns any more."""
        self._swept.extend(self._left)
        self._left.clear()

    def sizes(self) -> Sizes:
        """How large all is."""
        records, starts = self.records, self.starts
        values = len(records.constants) + len(records.wides)
        return Sizes(records.words, starts.count, starts.names, len(self.interests.groups), values, self._numbers)

    def program(self) -> Program:
        """The program as it is now."""
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

    def lists(self, type_name: str) -> tuple[int, int, int]:
        """The lists of what waits for a type and of what it begins; 0 for nothing; and the number of the type."""
        return self.interests.lists(type_name)

    @property
    def columns(self) -> Columns:
        """What is read of events."""
        return self.records.columns

    @property
    def whens(self) -> list[When]:
        """When the time events are due that are not set off by a delay, by number."""
        return self.records.whens

    @property
    def nodes(self) -> dict[int, Node]:
        """The states that several patterns may share, by their records."""
        return self.sharing.nodes

    def _number(self) -> int:
        """A number for one more."""
        if self._free_numbers:
            return self._free_numbers.popleft()
        self._numbers += 1
        return self._numbers - 1

    def _free(self, left: Left) -> None:
        """What a removed pattern has left is used again."""
        self.records.freeing().left(left)
        self._free_numbers.append(left.number)

"""Memory of a program: allocation of records, reference-counted values by number, release.

cayuga-algebra-cesar, section 4.3, has an object per state and edge; here all is words, so one loop serves every pattern
(design, section 4, Engines). `RecordRelease` takes records apart by their own description. Rejected: a list of places
per pattern, a third of the records' memory, without the owners of shared states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import ColumnName
from distced.detectors.columnar.batch.values import Texts
from distced.detectors.columnar.program.free_list import FreeList
from distced.detectors.columnar.state import Words, longer
from distced.middleware.model.events import Attribute
from distced.middleware.patterns.tree import When

Value = TypeVar("Value", int, tuple[int, int])


class Pool(Generic[Value]):
    """Reference-counted values by number, as rows for the loop; the number of an unreferenced value is reused."""

    def __init__(self, *shape: int) -> None:
        """Args: shape: shape of a value."""
        self.rows: Words = np.zeros((16, *shape), np.int64)
        self._numbers: dict[Value, int] = {}
        self._values: list[Value] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, value: Value) -> int:
        """The number of a value, with one reference more."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._counts.append(0)
                if number == len(self.rows):
                    self.rows = longer(self.rows, 2 * number)
            self._numbers[value] = number
            words: Any = value
            self.rows[number] = words
        self._counts[number] += 1
        return number

    def release(self, number: int) -> None:
        """Drop one reference."""
        self._counts[number] -= 1
        if self._counts[number] == 0:
            del self._numbers[self._values[number]]
            self._free.append(number)


@dataclass(slots=True)
class FreeNumbers:
    """Numbers from 0 on, reused when given back; `end` is beyond all of them."""

    end: int = 0
    _free: list[int] = field(default_factory=list)

    def take(self) -> int:
        """A number that is not in use."""
        if self._free:
            return self._free.pop()
        self.end += 1
        return self.end - 1

    def give(self, number: int) -> None:
        """Free a number."""
        self._free.append(number)


@dataclass(slots=True)
class ColumnNumbers:
    """Numbers of columns read: attributes, keys as numbers equal iff the values are, values handed on by parts."""

    names: list[ColumnName] = field(default_factory=list)
    _places: dict[ColumnName, int] = field(default_factory=dict)

    def place(self, name: ColumnName) -> int:
        """The number of a column."""
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = len(self.names)
            self.names.append(name)
        return found


class RecordSpace:
    """Words of all records, with the values, columns and instants they refer to.

    Attributes:
        memory: the words; replaced by a larger array on demand.
        room: allocation of the words.
        wides, constants: 64-bit numbers, and constants of expressions; `nothing` is the number of null.
        whens: due rules of time events without a fixed delay, by number; `free_whens` are unused numbers.
        counts: places of counts of touched instances.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.columns = ColumnNumbers()
        self.memory = np.zeros(1024, np.int32)
        # Address 0 stands for nothing, and for the empty list.
        self.room = FreeList(1)
        self.wides = Pool[int]()
        self.constants = Pool[tuple[int, int]](2)
        self.nothing = self.constant(None)
        self.whens: list[When] = []
        self.free_whens: list[int] = []
        self.counts = FreeNumbers()

    def place(self, words: Sequence[int]) -> int:
        """Place words; their address."""
        address = self.room.take(len(words))
        self._put(address, words)
        return address

    def place_list(self, words: Sequence[int], length: int | None = None) -> int:
        """Place a list, its length first (given where entries have several words); its address."""
        return self.place([len(words) if length is None else length, *words])

    def place_code(self, words: list[int], jumps: Sequence[int]) -> int:
        """Place code; its address. `jumps` are the words that are addresses, from the begin of the code."""
        address = self.room.take(len(words))
        for jump in jumps:
            words[jump] += address
        self._put(address, words)
        return address

    def _put(self, address: int, words: Sequence[int]) -> None:
        end = address + len(words)
        while end > len(self.memory):
            self.memory = longer(self.memory, 2 * len(self.memory))
        self.memory[address:end] = words

    def wide(self, number: int) -> int:
        """The number of a 64-bit value, with one reference more."""
        return self.wides.number(number)

    def constant(self, value: Attribute) -> int:
        """The number of a constant, with one reference more."""
        return self.constants.number(self.texts.packed(value))

    def when(self, when: When) -> int:
        """The number of the due rule of a time event."""
        if not self.free_whens:
            self.whens.append(when)
            return len(self.whens) - 1
        number = self.free_whens.pop()
        self.whens[number] = when
        return number

    def release(self) -> RecordRelease:
        """A release of records; nothing may be placed before it is complete."""
        return RecordRelease(self.memory, self.room, self.wides, self.constants, self.free_whens)

    @property
    def words(self) -> int:
        """Number of words used."""
        return self.room.end - sum(length for _, length in self.room.free())


class Left(NamedTuple):
    """Records of units and states left by a pattern (its number), to which instances may still refer."""

    number: int
    units: tuple[int, ...]
    states: tuple[int, ...]


class RecordRelease(NamedTuple):
    """Release of records and all they reach, without allocation meanwhile; `whens`: freed numbers of due rules."""

    memory: NDArray[np.int32]
    room: FreeList
    wides: Pool[int]
    constants: Pool[tuple[int, int]]
    whens: list[int]

    def left(self, left: Left) -> None:
        """Free the records of units and states to which no instance refers."""
        for state in left.states:
            timers = int(self.memory[state + word_offsets.S_TIMERS])
            if timers:
                self.room.give(timers - 1, 1 + int(self.memory[timers - 1]))
            self.room.give(state, word_offsets.STATE)
        for unit in left.units:
            window = int(self.memory[unit + word_offsets.U_WINDOW])
            if window >= 0:
                self.wides.release(window)
            self.room.give(unit, word_offsets.UNIT)

    def visits(self, state: int, rooms: Mapping[int, int]) -> None:
        """Free the visits of a state, not its record; `rooms`: capacity of visits' lists, if above the length."""
        visits = int(self.memory[state + word_offsets.S_VISITS])
        if visits:
            for _, visit in self._list(visits, 2):
                self.visit(visit, rooms.get(visit, 0))
        timers = int(self.memory[state + word_offsets.S_TIMERS])
        if timers:
            for visit in self._words(timers, int(self.memory[timers - 1])):
                if visit:
                    self.visit(visit)

    def visit(self, visit: int, room: int = 0) -> None:
        """Free a visit; `room` is the number of moves its list has room for, if more than it has."""
        record = self._words(visit, word_offsets.VISIT)
        moves = record[word_offsets.V_MOVES]
        count = int(self.memory[moves])
        # Reasons to be in the domain share them with moves.
        inits: set[int] = set()
        for move in self._words(moves + 1, count):
            inits |= self.move(move)
        self.room.give(moves, 1 + max(count, room))
        inits |= self.tests(record[word_offsets.V_TESTS])
        for each in inits:
            self._assignments(each)
        self.room.give(visit, word_offsets.VISIT)

    def tests(self, tests: int) -> set[int]:
        """Free the tests of a domain; their lists of reset registers are kept, to be freed once."""
        found = self._list(tests, word_offsets.TEST)
        for code, _, _ in found:
            self.code(code)
        return {inits for _, inits, _ in found if inits}

    def move(self, move: int) -> set[int]:
        """Free a move with its targets; its list of reset registers is kept."""
        record = self._words(move, word_offsets.MOVE)
        self.code(record[word_offsets.M_LABEL])
        self._list(record[word_offsets.M_CAPTURES], 2)
        self._assignments(record[word_offsets.M_UPDATES])
        for _, window, _ in self._list(record[word_offsets.M_WINDOWS], 3):
            self.wides.release(window)
        for _, _, captures in self._list(record[word_offsets.M_HANDED], 3):
            self._list(captures, 2)
        for (target,) in self._list(record[word_offsets.M_TARGETS], 1):
            self._target(target)
        self.room.give(move, word_offsets.MOVE)
        inits = record[word_offsets.M_INITS]
        return {inits} if inits else set()

    def code(self, code: int) -> None:
        """Free the code of an expression, and its constants; 0 for none."""
        if code == 0:
            return
        at = code
        while True:
            words = self._words(at, 32)
            for operation, argument in zip(words[::2], words[1::2], strict=False):
                at += 2
                if operation == word_offsets.OP_CONSTANT:
                    self.constants.release(argument)
                elif operation == word_offsets.OP_CALL and argument < 0:
                    self._list((-1 - argument) >> 2, 2)
                elif operation == word_offsets.OP_END:
                    self.room.give(code, at - code)
                    return

    def _target(self, target: int) -> None:
        record = self._words(target, word_offsets.TARGET)
        self._list(record[word_offsets.T_CLEARS], 2)
        started = (word_offsets.T_ARMS, word_offsets.T_RECURS)
        for _, _, when in chain.from_iterable(self._list(record[each], 3) for each in started):
            if when >= 0:
                self.wides.release(when)
            else:
                self.whens.append(-1 - when)
        self._assignments(record[word_offsets.T_DELAYS])
        self.room.give(target, word_offsets.TARGET)

    def _assignments(self, pairs: int) -> None:
        """Free a list of pairs of a slot and the code of its value."""
        for _, code in self._list(pairs, 2):
            self.code(code)

    def _list(self, address: int, width: int) -> list[list[int]]:
        """The items of a list, which is freed; address 0 stands for none."""
        if address == 0:
            return []
        words = self._words(address + 1, width * int(self.memory[address]))
        self.room.give(address, 1 + len(words))
        return [words[place : place + width] for place in range(0, len(words), width)]

    def _words(self, address: int, count: int) -> list[int]:
        words: list[int] = self.memory[address : address + count].tolist()
        return words

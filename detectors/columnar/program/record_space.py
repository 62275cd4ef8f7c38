"""Taking records apart when a pattern goes: they describe themselves, so nobody has to note what was placed for whom.

A note of all places for each pattern was rejected: it takes as much memory as a third of the records, and does not say
whose a record is where patterns share states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from numpy import int32
from numpy.typing import NDArray

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.pools import Pool
from distced.detectors.columnar.program.free_list import Stretches


class Left(NamedTuple):
    """What a pattern has left behind, as instances may still refer to it.

    Attributes:
        number: the pattern's.
        units, states: records.
    """

    number: int
    units: tuple[int, ...]
    states: tuple[int, ...]


class Freeing(NamedTuple):
    """What is needed to free records, with all that is reached through them.

    Attributes:
        memory: the words as they are now; nothing may be placed meanwhile.
        whens: the numbers of time events' instants that are free.
    """

    memory: NDArray[int32]
    room: Stretches
    wides: Pool[int]
    constants: Pool[tuple[int, int]]
    whens: list[int]

    def left(self, left: Left) -> None:
        """The records of units and states, when no instance refers to them."""
        for state in left.states:
            timers = int(self.memory[state + layout.S_TIMERS])
            if timers:
                self.room.give(timers - 1, 1 + int(self.memory[timers - 1]))
            self.room.give(state, layout.STATE)
        for unit in left.units:
            window = int(self.memory[unit + layout.U_WINDOW])
            if window >= 0:
                self.wides.release(window)
            self.room.give(unit, layout.UNIT)

    def visits(self, state: int, rooms: Mapping[int, int]) -> None:
        """What is done in a state; its record stays.

        Args:
            rooms: for how many moves there is room in a visit's list, where that is more than there are.
        """
        visits = int(self.memory[state + layout.S_VISITS])
        if visits:
            for _, visit in self._list(visits, 2):
                self.visit(visit, rooms.get(visit, 0))
        timers = int(self.memory[state + layout.S_TIMERS])
        if timers:
            for visit in self._words(timers, int(self.memory[timers - 1])):
                if visit:
                    self.visit(visit)

    def visit(self, visit: int, room: int = 0) -> None:
        """What events of one type do.

        Args:
            room: for how many moves there is room in its list, where that is more than there are.
        """
        record = self._words(visit, layout.VISIT)
        moves = record[layout.V_MOVES]
        count = int(self.memory[moves])
        # Reasons to be in the domain share them with moves.
        inits: set[int] = set()
        for move in self._words(moves + 1, count):
            inits |= self.move(move)
        self.room.give(moves, 1 + max(count, room))
        inits |= self.tests(record[layout.V_TESTS])
        for each in inits:
            self._assignments(each)
        self.room.give(visit, layout.VISIT)

    def tests(self, tests: int) -> set[int]:
        """Reasons to be in a domain; the lists of registers that begin anew are left, to be freed once."""
        found = self._list(tests, layout.TEST)
        for code, _, _ in found:
            self.code(code)
        return {inits for _, inits, _ in found if inits}

    def move(self, move: int) -> set[int]:
        """A move with its targets; its list of registers that begin anew is left."""
        record = self._words(move, layout.MOVE)
        self.code(record[layout.M_LABEL])
        self._list(record[layout.M_CAPTURES], 2)
        self._assignments(record[layout.M_UPDATES])
        for _, window, _ in self._list(record[layout.M_WINDOWS], 3):
            self.wides.release(window)
        for _, _, captures in self._list(record[layout.M_HANDED], 3):
            self._list(captures, 2)
        for (target,) in self._list(record[layout.M_TARGETS], 1):
            self._target(target)
        self.room.give(move, layout.MOVE)
        inits = record[layout.M_INITS]
        return {inits} if inits else set()

    def code(self, code: int) -> None:
        """The code of an expression, and the constants in it; 0 for none."""
        if code == 0:
            return
        at = code
        while True:
            words = self._words(at, 32)
            for operation, argument in zip(words[::2], words[1::2], strict=False):
                at += 2
                if operation == layout.OP_CONSTANT:
                    self.constants.release(argument)
                elif operation == layout.OP_END:
                    self.room.give(code, at - code)
                    return

    def _target(self, target: int) -> None:
        record = self._words(target, layout.TARGET)
        self._list(record[layout.T_CLEARS], 2)
        for _, _, when in self._list(record[layout.T_ARMS], 3):
            if when >= 0:
                self.wides.release(when)
            else:
                self.whens.append(-1 - when)
        self.room.give(target, layout.TARGET)

    def _assignments(self, pairs: int) -> None:
        """A list of pairs of a slot and the code of its value."""
        for _, code in self._list(pairs, 2):
            self.code(code)

    def _list(self, address: int, width: int) -> list[list[int]]:
        """What is in a list; it is free then. 0 for none."""
        if address == 0:
            return []
        words = self._words(address + 1, width * int(self.memory[address]))
        self.room.give(address, 1 + len(words))
        return [words[place : place + width] for place in range(0, len(words), width)]

    def _words(self, address: int, count: int) -> list[int]:
        words: list[int] = self.memory[address : address + count].tolist()
        return words

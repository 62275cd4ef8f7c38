"""What may begin a match, looked up by what its condition asks of attributes: Cayuga's FR index, for the first step.

cayuga-algebra-cesar, section 4.3. Of each condition up to two equalities are hashed together; conditions that ask for
the same two attributes are one *signature*, and an event is looked up once for each signature of its type. What is
found there stands side by side, with two ranges each, so that most of what does not match is passed over without a look
at its pattern. One equality by itself finds many times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from detectors.columnar.compiling import compiled, inlined
from detectors.columnar.hashing import mix
from detectors.columnar.layout import (
    E_EXACT,
    E_FIRST,
    E_MOVE,
    E_SECOND,
    E_VISIT,
    I_CAPACITY,
    I_FIRST,
    I_LENGTH,
    I_NAME,
    I_OFFSET,
    I_SECOND,
)
from detectors.columnar.values import FLOAT, INTEGER

EXACT = 2**53


class Starts:
    """The index, which grows with the patterns.

    Attributes:
        lookup: an open hash table: signature and tags, two values, and where the entries stand, how many, and for how
            many there is room.
        entries: visit, move, whether the ranges say all, and the columns of the two ranges; -1 for none.
        bounds: the least and the greatest of each.
        made_anew: how often the table has been made anew, so that all stands elsewhere.
    """

    def __init__(self) -> None:
        self.lookup = np.zeros((64, 6), np.int64)
        self.entries = np.zeros((64, 5), np.int32)
        self.bounds = np.zeros((64, 4), np.float64)
        self.made_anew = 0
        self._used = 0
        self._names = 0

    def add(self, name: int, first: int, second: int, entry: Any, bounds: Any) -> None:
        """Add what may begin where these values are found."""
        if 2 * (self._names + 1) > len(self.lookup):
            made = np.zeros((2 * len(self.lookup), 6), np.int64)
            moved(self.lookup, made)
            self.lookup = made
            self.made_anew += 1
        slot = int(slot_of(self.lookup, name, first, second))
        row = self.lookup[slot]
        if row[I_NAME] == 0:
            row[:] = (name, first, second, 0, 0, 0)
            self._names += 1
        length, capacity = int(row[I_LENGTH]), int(row[I_CAPACITY])
        if length == capacity:
            self._move(row, max(1, 2 * capacity))
        place = int(row[I_OFFSET]) + length
        self.entries[place] = entry
        self.bounds[place] = bounds
        row[I_LENGTH] = length + 1

    def remove(self, name: int, first: int, second: int, is_it: Callable[[int, int], bool]) -> None:
        """Remove what may begin where these values are found: those of which visit and move are the ones."""
        row = self.lookup[int(slot_of(self.lookup, name, first, second))]
        offset, length = int(row[I_OFFSET]), int(row[I_LENGTH])
        for place in range(offset + length - 1, offset - 1, -1):
            if is_it(int(self.entries[place, E_VISIT]), int(self.entries[place, E_MOVE])):
                last = offset + int(row[I_LENGTH]) - 1
                self.entries[place], self.bounds[place] = self.entries[last], self.bounds[last]
                row[I_LENGTH] -= 1

    def _move(self, row: Any, capacity: int) -> None:
        """Give what is found in one place more room, at the end."""
        while self._used + capacity > len(self.entries):
            self.entries = np.concatenate((self.entries, np.zeros_like(self.entries)))
            self.bounds = np.concatenate((self.bounds, np.zeros_like(self.bounds)))
        offset, length = int(row[I_OFFSET]), int(row[I_LENGTH])
        self.entries[self._used : self._used + length] = self.entries[offset : offset + length]
        self.bounds[self._used : self._used + length] = self.bounds[offset : offset + length]
        row[I_OFFSET], row[I_CAPACITY] = self._used, capacity
        self._used += capacity


@compiled
def slot_of(lookup, name, first, second):
    """Where a signature with these values stands, or where it would."""
    mask = len(lookup) - 1
    slot = mix(mix(name, first), second) & mask
    while lookup[slot, I_NAME] != 0:
        if lookup[slot, I_NAME] == name and lookup[slot, I_FIRST] == first and lookup[slot, I_SECOND] == second:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def moved(lookup, made):
    """Put all that stands in a table into a larger one."""
    for place in range(len(lookup)):
        if lookup[place, I_NAME] != 0:
            slot = slot_of(made, lookup[place, I_NAME], lookup[place, I_FIRST], lookup[place, I_SECOND])
            for word in range(6):
                made[slot, word] = lookup[place, word]


@inlined
def passes(program, events, entry, event):
    """What the ranges of an entry say of an event: 0 that it does not match, 1 that it may, 2 that it does."""
    entries, bounds = program.entries, program.bounds
    exact = entries[entry, E_EXACT]
    column = entries[entry, E_FIRST]
    if column >= 0:
        tag = events.tags[column, event]
        if tag == FLOAT:
            value = events.floats[column, event]
        elif tag == INTEGER:
            value = float(events.payload[column, event])
            if not -EXACT <= events.payload[column, event] <= EXACT:
                exact = 0
        else:
            return 0
        if not bounds[entry, 0] <= value <= bounds[entry, 1]:
            return 0
        column = entries[entry, E_SECOND]
        if column >= 0:
            tag = events.tags[column, event]
            if tag == FLOAT:
                value = events.floats[column, event]
            elif tag == INTEGER:
                value = float(events.payload[column, event])
                if not -EXACT <= events.payload[column, event] <= EXACT:
                    exact = 0
            else:
                return 0
            if not bounds[entry, 2] <= value <= bounds[entry, 3]:
                return 0
    return 2 if exact != 0 else 1

"""What may begin a match, looked up by what its condition asks of attributes: Cayuga's FR index, for the first step.

cayuga-algebra-cesar, section 4.3. Of each condition up to two equalities are hashed together; conditions that ask for
the same two attributes are one *signature*, and an event is looked up once for each signature of its type. What is
found there stands side by side, with two ranges each, so that most of what does not match is passed over without a look
at its pattern. One equality by itself finds many times as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distced.detectors.columnar.batch.values import FLOAT, INTEGER
from distced.detectors.columnar.kernel.hashing import mix
from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.program.free_list import Stretches
from distced.detectors.columnar.word_offsets import (
    E_EXACT,
    E_FIRST,
    E_MOVE,
    E_SECOND,
    I_CAPACITY,
    I_FIRST,
    I_LENGTH,
    I_NAME,
    I_OFFSET,
    I_SECOND,
    TAG_BITS,
)

EXACT = 2**53


class Starts:
    """The index, which is as large as the most patterns that were there at once.

    Attributes:
        lookup: an open hash table: signature and tags, two values, and where the entries stand, how many, and for how
            many there is room.
        entries: visit, move, whether the ranges say all, and the columns of the two ranges; -1 for none.
        bounds: the least and the greatest of each.
        made_anew: how often one that others know by its place in the table has come to stand elsewhere.
        names: how many there are in the table.
        count: how many entries there are.
    """

    def __init__(self) -> None:
        self.lookup = np.zeros((64, 6), np.int64)
        self.entries = np.zeros((64, 5), np.int32)
        self.bounds = np.zeros((64, 4), np.float64)
        self.made_anew = 0
        self.names = self.count = 0
        self.room = Stretches()
        # Of each move its place among those that are found together.
        self._places: dict[int, int] = {}

    def add(self, name: int, first: int, second: int, entry: Any, bounds: Any) -> None:
        """Add what may begin where these values are found."""
        if 2 * (self.names + 1) > len(self.lookup):
            made = np.zeros((2 * len(self.lookup), 6), np.int64)
            moved(self.lookup, made)
            self.lookup = made
            self.made_anew += 1
        slot = int(slot_of(self.lookup, name, first, second))
        row = self.lookup[slot]
        if row[I_NAME] == 0:
            row[:] = (name, first, second, 0, 0, 0)
            self.names += 1
        length, capacity = int(row[I_LENGTH]), int(row[I_CAPACITY])
        if length == capacity:
            self._move(row, max(1, 2 * capacity))
        place = int(row[I_OFFSET]) + length
        self.entries[place] = entry
        self.bounds[place] = bounds
        self._places[entry[E_MOVE]] = length
        row[I_LENGTH] = length + 1
        self.count += 1

    def remove(self, name: int, first: int, second: int, move: int) -> None:
        """Remove what begins with this move where these values are found."""
        slot = int(slot_of(self.lookup, name, first, second))
        row = self.lookup[slot]
        offset, last, capacity = int(row[I_OFFSET]), int(row[I_LENGTH]) - 1, int(row[I_CAPACITY])
        place = self._places.pop(move)
        if place < last:
            self.entries[offset + place], self.bounds[offset + place] = (
                self.entries[offset + last],
                self.bounds[offset + last],
            )
            self._places[int(self.entries[offset + place, E_MOVE])] = place
        row[I_LENGTH] = last
        self.count -= 1
        if last > 0:
            if 4 * last <= capacity:
                self._move(row, capacity // 2)
            return
        self.room.give(offset, capacity)
        row[I_CAPACITY] = 0
        if not is_general(name):
            self.names -= 1
            self.made_anew += int(taken_out(self.lookup, slot))

    def _move(self, row: Any, capacity: int) -> None:
        """Give what is found in one place more room, or less."""
        begin = self.room.take(capacity)
        while self.room.end > len(self.entries):
            self.entries = np.concatenate((self.entries, np.zeros_like(self.entries)))
            self.bounds = np.concatenate((self.bounds, np.zeros_like(self.bounds)))
        offset, length = int(row[I_OFFSET]), int(row[I_LENGTH])
        self.entries[begin : begin + length] = self.entries[offset : offset + length]
        self.bounds[begin : begin + length] = self.bounds[offset : offset + length]
        if row[I_CAPACITY]:
            self.room.give(offset, int(row[I_CAPACITY]))
        row[I_OFFSET], row[I_CAPACITY] = begin, capacity


@compiled
def is_general(name):
    """Whether a name is that of all events of a type, whatever their values: no tags. Such a one stays in the table,
    for the lists of types know its place."""
    return (name - 1) & ((1 << 2 * TAG_BITS) - 1) == 0


@compiled
def taken_out(lookup, slot):
    """Take a name out of a table, and have those that stand behind because of it move up; whether one of them was
    general.

    To leave it, and to put all others into a new table now and then, was rejected: that is a pause for all patterns.
    """
    mask = len(lookup) - 1
    hole = probe = slot
    general = False
    while True:
        probe = (probe + 1) & mask
        if lookup[probe, I_NAME] == 0:
            break
        home = mix(mix(lookup[probe, I_NAME], lookup[probe, I_FIRST]), lookup[probe, I_SECOND]) & mask
        if (probe - home) & mask >= (probe - hole) & mask:
            general = general or is_general(lookup[probe, I_NAME])
            for word in range(6):
                lookup[hole, word] = lookup[probe, word]
            hole = probe
    for word in range(6):
        lookup[hole, word] = 0
    return general


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

"""The start table: moves that may begin a match, hashed by the attribute values their conditions require.

Cayuga's FR index for the first step (cayuga-algebra-cesar, section 4.3). Up to two equalities are hashed together;
conditions on the same attributes share a *signature*, looked up once per event (`kernel.start_lookup`). Adjacent
entries with two ranges each reject most patterns unread. Rejected: one equality alone, many times the hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.kernel.start_lookup import is_general, moved, slot_of, taken_out
from distced.detectors.columnar.program.free_list import FreeList


class StartTable:
    """The start table, sized for the maximum of simultaneous patterns.

    Attributes:
        lookup: open hash table of signature and tags, two values, offset, count and capacity of the entries.
        entries: visit, move, whether the ranges are the whole condition, columns of the two ranges, -1 for none.
        bounds: least and greatest of each range.
        rebuilt: number of moves of entries whose place is known elsewhere.
        names, count: number of names and of entries.
    """

    def __init__(self) -> None:
        self.lookup = np.zeros((64, 6), np.int64)
        self.entries = np.zeros((64, 5), np.int32)
        self.bounds = np.zeros((64, 4), np.float64)
        self.rebuilt = 0
        self.names = self.count = 0
        self.room = FreeList()
        # Of each move its place among those that are found together.
        self._places: dict[int, int] = {}

    def add(self, name: int, first: int, second: int, entry: Any, bounds: Any) -> None:
        """Add a move under these values."""
        if 2 * (self.names + 1) > len(self.lookup):
            made = np.zeros((2 * len(self.lookup), 6), np.int64)
            moved(self.lookup, made)
            self.lookup = made
            self.rebuilt += 1
        slot = int(slot_of(self.lookup, name, first, second))
        row = self.lookup[slot]
        if row[word_offsets.I_NAME] == 0:
            row[:] = (name, first, second, 0, 0, 0)
            self.names += 1
        length, capacity = int(row[word_offsets.I_LENGTH]), int(row[word_offsets.I_CAPACITY])
        if length == capacity:
            self._move(row, max(1, 2 * capacity))
        place = int(row[word_offsets.I_OFFSET]) + length
        self.entries[place] = entry
        self.bounds[place] = bounds
        self._places[entry[word_offsets.E_MOVE]] = length
        row[word_offsets.I_LENGTH] = length + 1
        self.count += 1

    def remove(self, name: int, first: int, second: int, move: int) -> None:
        """Remove a move under these values."""
        slot = int(slot_of(self.lookup, name, first, second))
        row = self.lookup[slot]
        offset, last, capacity = (
            int(row[word_offsets.I_OFFSET]),
            int(row[word_offsets.I_LENGTH]) - 1,
            int(row[word_offsets.I_CAPACITY]),
        )
        place = self._places.pop(move)
        if place < last:
            self.entries[offset + place], self.bounds[offset + place] = (
                self.entries[offset + last],
                self.bounds[offset + last],
            )
            self._places[int(self.entries[offset + place, word_offsets.E_MOVE])] = place
        row[word_offsets.I_LENGTH] = last
        self.count -= 1
        if last > 0:
            if 4 * last <= capacity:
                self._move(row, capacity // 2)
            return
        self.room.give(offset, capacity)
        row[word_offsets.I_CAPACITY] = 0
        if not is_general(name):
            self.names -= 1
            self.rebuilt += int(taken_out(self.lookup, slot))

    def _move(self, row: Any, capacity: int) -> None:
        """Change the capacity of one slot's list."""
        begin = self.room.take(capacity)
        while self.room.end > len(self.entries):
            self.entries = np.concatenate((self.entries, np.zeros_like(self.entries)))
            self.bounds = np.concatenate((self.bounds, np.zeros_like(self.bounds)))
        offset, length = int(row[word_offsets.I_OFFSET]), int(row[word_offsets.I_LENGTH])
        self.entries[begin : begin + length] = self.entries[offset : offset + length]
        self.bounds[begin : begin + length] = self.bounds[offset : offset + length]
        if row[word_offsets.I_CAPACITY]:
            self.room.give(offset, int(row[word_offsets.I_CAPACITY]))
        row[word_offsets.I_OFFSET], row[word_offsets.I_CAPACITY] = begin, capacity

"""Free list of an array: freed ranges are reused, and merge with free neighbours.

An exact length goes first, else a cut of the longest range, so that joint allocations stand together. Rejected: lists
by length without merging; removal of 400,000 patterns leaves millions of pieces, useless for other shapes, whereas the
records of one pattern mostly stand side by side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class FreeList:
    """The used and the free ranges of an array; nothing is used from `end` on."""

    def __init__(self, begin: int = 0) -> None:
        """Args: begin: the range before is never allocated."""
        self.end = begin
        self._lengths_by_start: dict[int, int] = {}
        self._starts_by_end: dict[int, int] = {}
        self._starts: dict[int, set[int]] = {}
        # Those that there are, in order.
        self._lengths: list[int] = []
        # The range that is cut from, which is none of those.
        self._next = self._until = begin

    def take(self, length: int) -> int:
        """Allocate a free range of this length; its offset."""
        starts = self._starts.get(length)
        if starts:
            # A set finds any of its own in no time, where the first one may take long.
            start = starts.pop()
            self._cut(start, length)
            return start
        if self._until - self._next < length:
            if not self._lengths or self._lengths[-1] < length:
                start = self.end
                self.end += length
                return start
            self._cut_from_longest()
        start = self._next
        self._next += length
        return start

    def give(self, start: int, length: int) -> None:
        """Free a range."""
        before = self._starts_by_end.get(start)
        if before is not None:
            self._cut(before, start - before)
            start, length = before, length + start - before
        behind = self._lengths_by_start.get(start + length)
        if behind is not None:
            self._cut(start + length, behind)
            length += behind
        if start + length == self.end:
            self.end = start
        else:
            self._join(start, length)

    def free(self) -> Iterator[tuple[int, int]]:
        """All free ranges before the end: offset and length."""
        yield from self._lengths_by_start.items()
        if self._next < self._until:
            yield self._next, self._until - self._next

    def _cut_from_longest(self) -> None:
        rest, length = self._next, self._until - self._next
        start = self._starts[self._lengths[-1]].pop()
        self._next, self._until = start, start + self._lengths[-1]
        self._cut(start, self._lengths[-1])
        if length:
            self.give(rest, length)

    def _join(self, start: int, length: int) -> None:
        """Add a free range."""
        self._lengths_by_start[start] = length
        self._starts_by_end[start + length] = start
        starts = self._starts.get(length)
        if starts is None:
            starts = self._starts[length] = set()
            self._lengths.insert(bisect_left(self._lengths, length), length)
        starts.add(start)

    def _cut(self, start: int, length: int) -> None:
        """Remove a free range."""
        del self._lengths_by_start[start], self._starts_by_end[start + length]
        starts = self._starts[length]
        starts.discard(start)
        if not starts:
            del self._starts[length], self._lengths[bisect_left(self._lengths, length)]

"""Free stretches of an array: what was given back is taken again, and grows together with what is free beside it.

What has just the length that is asked for goes first; else it is cut off the longest one, and the next ones behind it,
so that what is taken together stands together. To keep what was given back by its length only was rejected: when
400,000 patterns go, that is millions of pieces to keep a record of, and patterns of another shape have no use for them.
What goes with one pattern mostly stands side by side, and is one stretch again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class Stretches:
    """What of an array is taken, and what is free.

    Attributes:
        end: from here on nothing is taken.
    """

    def __init__(self, begin: int = 0) -> None:
        """
        Args:
            begin: what stands before is never given.
        """
        self.end = begin
        self._lengths_by_start: dict[int, int] = {}
        self._starts_by_end: dict[int, int] = {}
        self._starts: dict[int, set[int]] = {}
        # Those that there are, in order.
        self._lengths: list[int] = []
        # The stretch that is cut from, which is none of those.
        self._next = self._until = begin

    def take(self, length: int) -> int:
        """Where a stretch of this length begins that is free until now."""
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
        """Give a stretch back."""
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
        """All that is free before the end: where it begins, and its length."""
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
        """One more that is free."""
        self._lengths_by_start[start] = length
        self._starts_by_end[start + length] = start
        starts = self._starts.get(length)
        if starts is None:
            starts = self._starts[length] = set()
            self._lengths.insert(bisect_left(self._lengths, length), length)
        starts.add(start)

    def _cut(self, start: int, length: int) -> None:
        """One that is free no more."""
        del self._lengths_by_start[start], self._starts_by_end[start + length]
        starts = self._starts[length]
        starts.discard(start)
        if not starts:
            del self._starts[length], self._lengths[bisect_left(self._lengths, length)]

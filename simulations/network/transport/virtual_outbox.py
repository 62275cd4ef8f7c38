"""Outbox of a simulated publisher, which outlives it: segments in memory, a disk that may be full, and power cuts.

The counterpart of `middleware.client.outbox_folder`; the log is the shipped one.
"""

from __future__ import annotations

from collections.abc import Iterator


class VirtualOutbox:
    """Segments of the outbox of a publisher (`middleware.wire.outbox_log.LogStore`).

    Attributes:
        segments: by number.
        whole: whether everything that was written is there.
        full: whether the disk takes nothing more.
        unreadable: number of segments that were set aside.
    """

    def __init__(self) -> None:
        self.segments: dict[int, bytearray] = {}
        self._forced = 0
        self.whole = True
        self.full = False
        self.unreadable = 0

    def read(self) -> Iterator[tuple[int, bytes]]:
        return ((number, bytes(self.segments[number])) for number in sorted(self.segments))

    def begin(self, segment: int, content: bytes) -> None:
        self.segments[segment] = bytearray()
        self.append(content)
        self.force()

    def append(self, content: bytes) -> None:
        if self.full:
            raise OSError("No space left on device")
        self.segments[max(self.segments)] += content

    def force(self) -> None:
        self._forced = len(self.segments[max(self.segments)])

    def delete(self, segment: int) -> None:
        self.segments.pop(segment, None)

    def set_aside(self, segment: int) -> None:
        self.unreadable += self.segments.pop(segment, None) is not None

    def mark(self, *, whole: bool) -> None:
        self.whole = whole

    def close(self, *, whole: bool) -> None:
        self.whole = whole

    def cut(self, size: int) -> None:
        """Lose bytes at the end, in a power cut; what was forced to the disk stays."""
        last = self.segments[max(self.segments)]
        del last[max(len(last) - size, self._forced) :]
        self.whole = False

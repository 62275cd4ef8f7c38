"""State of sources while a recording is read: sequence numbers seen, and clocks that went back."""

from __future__ import annotations

from typing import Any

import msgspec

from distced.middleware.model.events import CompositeEvent, Event


class SequenceState:
    """Ids seen, stored compactly where sources count one by one.

    A set of all ids was rejected: of a recording of ten million events it takes two gigabytes.
    """

    def __init__(self) -> None:
        # By source: the range of numbers seen without gaps, the end not included; and other numbers.
        self._runs: dict[str, list[int]] = {}
        self._besides: dict[str, set[int]] = {}

    def add(self, event: Event) -> bool:
        """Add the id of an event; False for a known id."""
        source, seq = event.source, event.seq
        run = self._runs.get(source)
        if run is None:
            self._runs[source] = [seq, seq + 1]
            return True
        if seq == run[1]:
            run[1] += 1
            besides = self._besides.get(source)
            while besides and run[1] in besides:
                besides.remove(run[1])
                run[1] += 1
            return True
        if run[0] <= seq < run[1]:
            return False
        besides = self._besides.setdefault(source, set())
        if seq in besides:
            return False
        besides.add(seq)
        return True


class ClockJump(msgspec.Struct, frozen=True):
    """A source whose time went back, beyond its uncertainty, while its numbers went on.

    Attributes:
        times: number of jumps.
        most: greatest jump, ns.
        seq: the number of the event that came after that.
        hi: its `hi`, ns.
    """

    source: str
    times: int
    most: int
    seq: int
    hi: int


class ClockWatch:
    """Detects clock jumps of sources while their events come in the order of their numbers."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, int, int]] = {}
        self._jumps: dict[str, list[Any]] = {}

    def see(self, event: Event) -> None:
        """Check an event; the number of a composite one is a digest, and gives no order."""
        if isinstance(event, CompositeEvent):
            return
        before = self._latest.get(event.source)
        if before is not None:
            seq, lo, hi = before
            if event.seq <= seq:
                return
            if event.hi < lo:
                back = hi - event.hi
                jump = self._jumps.setdefault(event.source, [0, 0, 0, 0])
                jump[0] += 1
                if back > jump[1]:
                    jump[1:] = back, event.seq, event.hi
        self._latest[event.source] = (event.seq, event.lo, event.hi)

    def jumps(self) -> tuple[ClockJump, ...]:
        """Sources whose time went back, the farthest first."""
        found = [ClockJump(source, *jump) for source, jump in self._jumps.items()]
        return tuple(sorted(found, key=lambda each: (-each.most, each.source)))

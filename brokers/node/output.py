"""Output of a hosted detector: the life of its host, the number of its next frame, losses that concern it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.replica_streams import life_from

MOST_LOSSES: Final = 16
"""Number of losses kept for later readers; the oldest become one."""


class EndedLife(NamedTuple):
    """Life of a host: number of its next frame, last watermark, and base, ns; None for none, or unknown."""

    number: int
    watermark: int | None
    base: int | None


_NONE_ENDED: Final[Mapping[int, EndedLife]] = MappingProxyType({})


class DetectorOutput:
    """Output of a detector by one host.

    Attributes:
        life: of this host, greater than those of earlier ones; 0 before it begins. It says whether it began empty
            (`middleware.wire.replica_streams`).
        planned: number that the life begins at, or just behind; 0 for that of the time.
        number: of the next frame with content.
        top: greatest `hi` of all composite events so far, ns; None for none.
        base: instant from which its composite events are complete, ns; None for unknown.
        ended: lives of earlier hosts whose frames are kept, in their order.
        found: number of composite events.
        losses: intervals in which events were lost that composite events to come may depend on.
    """

    __slots__ = ("base", "ended", "found", "life", "losses", "number", "planned", "top")

    def __init__(self) -> None:
        self.life = self.planned = 0
        self.number = 1
        self.found = 0
        self.top: int | None = None
        self.base: int | None = None
        self.ended: Mapping[int, EndedLife] = _NONE_ENDED
        self.losses: tuple[Loss, ...] = ()

    def plan(self, now: int, known: int) -> None:
        """Plan a life behind the last one known, whatever the clock says: that of a lost host may have been fast."""
        # The bit that says whether a life has begun empty is added to a planned number.
        self.planned = max(now // 1_000, known + 2)

    def begin(self, now: int, before: int = 0, base: int | None = None, *, empty: bool = True) -> None:
        """Begin a life, behind that of the host before, from a base where it is known, ns; `empty`: without the state
        of that host."""
        self.life = life_from(max(self.planned or now // 1_000, before + 1), empty=empty)
        self.number, self.top, self.base = 1, None, base
        self.ended = _NONE_ENDED

    def sent(self, hi: int | None) -> None:
        """Count a frame with content; `hi`: the greatest of its events, ns."""
        self.number += 1
        if hi is not None and (self.top is None or hi > self.top):
            self.top = hi

    def lose(self, losses: Iterable[Loss]) -> list[Loss]:
        """Add losses; those that are new."""
        new = [each for each in losses if each not in self.losses]
        if new:
            kept = [*self.losses, *new]
            while len(kept) > MOST_LOSSES:
                one, other = kept[:2]
                kept[:2] = [one.union(other)]
            self.losses = tuple(kept)
        return new

"""Bounded detection: an event is consumed once it is older than a bound on the disorder of the streams.

cayuga-system-2007, section 4.2: an event with timestamp t arrives while the local clock is at most t + T, so what is
older than T is in order; the event that comes later yet is ignored there, and is reported here
(`policies.detection.early_release`). It needs no heartbeats, and waits for nobody. What is stable is consumed at once.

The local clock counts from the event that was ahead of all others when it arrived: events of a recording, whose
timestamps are long past, are delayed by the bound, too. It is never ahead of the clock of the node, so that a source
whose clock is ahead makes nothing late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from distced.detectors.runtime.detection_policy import Positions, Released
from distced.middleware.model.events import Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.policies.detection.early_release import EarlyRelease


class Bounded(EarlyRelease):
    """Consume events that are older than a bound.

    Attributes:
        bound: T, ns.
    """

    def __init__(self, name: str, bound: int) -> None:
        super().__init__()
        self.name = name
        self.bound = bound
        # Greatest difference of an instant received and the clock at its arrival, ns, 0 at most; None for none yet.
        self._ahead: int | None = None

    def state(self) -> Any:
        """State as plain values."""
        return [*super().state(), self._ahead]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        *rest, self._ahead = state
        super().resume(rest)

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Released:
        sources = list(sources)
        if any(each in self.sources for each in sources):
            self._note(watermark, now)
        return super().heartbeat(sources, watermark, now, positions)

    def copy(self) -> Self:
        made = super().copy()
        made._ahead = self._ahead
        return made

    def _new(self) -> Self:
        return type(self)(self.name, self.bound)

    def _take(
        self, source: str, events: Sequence[Event], watermark: int | None, now: int, unstable: list[OrderKey]
    ) -> tuple[list[Event], int]:
        taken = super()._take(source, events, watermark, now, unstable)
        if events:
            self._note(max(each.hi for each in events), now)
        return taken

    def _note(self, instant: int, now: int) -> None:
        ahead = min(instant - now, 0)
        if self._ahead is None or ahead > self._ahead:
            self._ahead = ahead

    def _release_until(self, now: int) -> int:
        return INSTANT_MIN if self._ahead is None else now + self._ahead - self.bound

"""Release of events before they are stable: what is right is counted, and late events are reported.

Policies that do not wait for every source consume in order, too, up to an instant of their own. An event that arrives
behind it is *late*: it is not consumed, and the interval in which composite events may be wrong or missing for lack of
it is reported as a loss, behind what was found in it. Consumption of late events where they arrive was rejected: that
is best effort, and what is found depends on when they come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import Released, losses_of
from distced.middleware.model.events import Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.policies.detection.guaranteed import Guaranteed

CATCH_UP: Final = 10 * SECOND
"""Time for which a policy that continues from a state waits for what has been published since, ns."""

MOST_WATCHED: Final = 100_000
"""Number of released events that may still turn out unstable; the oldest count as stable beyond it."""


class EarlyRelease(Guaranteed):
    """Consume events up to an instant, whether they are stable or not.

    Attributes:
        released: number of events released.
        early: number of those that were not stable yet.
        unstable: number of those behind which an earlier event arrived.
        stable: instant up to which events are stable, ns; None for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.released = self.early = self.unstable = 0
        self.stable: int | None = None
        # `hi` of events that were released early, ascending, beyond `stable`.
        self._watched: deque[int] = deque()
        # Since when it has waited for what was published since its state, ns; None for not at all, 0 for the next call.
        self._catches_up: int | None = None

    def state(self) -> Any:
        """State as plain values."""
        return [*super().state(), [self.released, self.early, self.unstable, list(self._watched)]]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        *rest, own = state
        super().resume(rest)
        self.released, self.early, self.unstable, watched = own
        self._watched = deque(watched)
        self._catches_up = 0

    def copy(self) -> Self:
        made = super().copy()
        made.released, made.early, made.unstable = self.released, self.early, self.unstable
        made._watched = self._watched.copy()
        return made

    def _release_until(self, now: int) -> int:
        """Instant up to which events are released in any case, ns."""
        raise NotImplementedError

    def _mark(self, stable: int | None, now: int) -> int | None:
        self.stable = stable
        watched = self._watched
        while watched and stable is not None and watched[0] <= stable:
            watched.popleft()
        if not self.sources or self._is_catching_up(now):
            return stable
        until = self._release_until(now)
        if until == INSTANT_MIN:
            return stable
        return until if stable is None or until > stable else stable

    def _is_catching_up(self, now: int) -> bool:
        """Whether messages published since the state are still to come, in no order over the sources."""
        if self._catches_up is None:
            return False
        self._catches_up = self._catches_up or now
        if self.intake.complete or now - self._catches_up > CATCH_UP:
            self._catches_up = None
        return self._catches_up is not None

    def _released(
        self,
        now: int,
        late: list[Event] | None = None,
        duplicates: int = 0,
        fenced: list[str] | None = None,
        unstable: list[OrderKey] | None = None,
    ) -> Released:
        found = super()._released(now, late, duplicates, fenced, unstable)
        self.released += len(found.events)
        early = [each.hi for each in found.events if self.stable is None or each.hi > self.stable]
        self.early += len(early)
        self._watched += early
        for _ in range(len(self._watched) - MOST_WATCHED):
            self._watched.popleft()
        return found

    def lose_late(self, late: list[Event]) -> None:
        """As other late events (`_take`)."""

    def _take(
        self, source: str, events: Sequence[Event], watermark: int | None, now: int, unstable: list[OrderKey]
    ) -> tuple[list[Event], int]:
        fenced = source in self.fenced
        late, duplicates = super()._take(source, events, watermark, now, unstable)
        if late and not fenced:
            losses = losses_of(late)
            first = min(each.since for each in losses) + 1
            self._losses += losses
            while self._watched and self._watched[-1] >= first:
                self._watched.pop()
                self.unstable += 1
        return late, duplicates

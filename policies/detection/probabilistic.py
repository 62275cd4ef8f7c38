"""Probabilistic detection: an event is consumed once it is stable with a given probability.

composite-event-framework-2004, "Detection Policies", proposes a stability metric with a threshold in place of the wait
for every source; design, section 3. The metric is the probability that no source has an earlier event under way, the
product over the sources; each is learnt from what arrives (`policies.detection.arrival_gaps`). So a source that is
silent for good delays, and does not stop, the stream; one that has published little so far is waited for, as by
guaranteed detection.

The estimate is checked against what arrives: where more of the consumed events have turned out unstable than the
threshold allows, probabilities count for more until that is right again. Late events are reported
(`policies.detection.early_release`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, log, log1p
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import Positions, Released
from distced.middleware.model.events import Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND
from distced.middleware.wire.administration import Unavailable
from distced.policies.detection.arrival_gaps import EDGES, ArrivalGaps
from distced.policies.detection.early_release import EarlyRelease

COMPUTED_EVERY: Final = MILLISECOND
"""Least interval of computations of the metric, ns; with many sources it is `COMPUTED_FOR` each."""

COMPUTED_FOR: Final = MILLISECOND // 20

REVIEWED_EVERY: Final = 200
"""Number of events released early after which the estimate is checked."""

STEPS: Final = 10
"""Steps of the search for the instant."""

SEARCHED_EVERY: Final = 50 * MILLISECOND
"""Interval of searches where no event can be released, for time events, ns."""


class Probabilistic(EarlyRelease):
    """Consume events that are stable with a probability.

    Attributes:
        probability: threshold, between 0 and 1.
        caution: factor by which the probability of an event under way counts; 1 or more.
        gaps: of each source.
    """

    def __init__(self, name: str, probability: float) -> None:
        super().__init__()
        self.name = name
        self.probability = probability
        self.caution = 1.0
        self.gaps: dict[str, ArrivalGaps] = {}
        # Greatest sum of -log(1 - probability of an event under way) over the sources.
        self._most = -log(probability)
        # Greatest `hi` received, ns.
        self._last = INSTANT_MIN
        # Times of the last computation, and of the last search without events, ns.
        self._computed_at: int | None = None
        self._searched_at: int | None = None
        self._until = INSTANT_MIN
        # Counts of `early` and `unstable` at the last review, with half of those at the one before.
        self._reviewed = (0, 0)

    def state(self) -> Any:
        """State as plain values."""
        gaps = {source: each.state() for source, each in self.gaps.items()}
        return [*super().state(), [self.caution, self._until, self._last, list(self._reviewed), gaps]]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        *rest, own = state
        super().resume(rest)
        self.caution, self._until, self._last, reviewed, gaps = own
        self._reviewed = tuple(reviewed)
        self.gaps = {source: ArrivalGaps.of(each) for source, each in gaps.items()}

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Released:
        sources = list(sources)
        released = super().heartbeat(sources, watermark, now, positions)
        for source in sources:
            self._arrived(source, (), now)
        return released

    def unavailable(self, lost: Unavailable, now: int) -> Released:
        released = super().unavailable(lost, now)
        self._arrived(lost.source, (), now)
        return released

    def leave(self, source: str, now: int) -> Released:
        self.gaps.pop(source, None)
        return super().leave(source, now)

    def is_level_with(self, other: Self) -> bool:
        """Never: what each has learnt is its own."""
        return False

    def copy(self) -> Self:
        made = super().copy()
        made.caution, made._until, made._last = self.caution, self._until, self._last
        made._reviewed = self._reviewed
        made.gaps = {source: each.copy() for source, each in self.gaps.items()}
        return made

    def _new(self) -> Self:
        return type(self)(self.name, self.probability)

    def _fence(self, source: str) -> None:
        self.gaps.pop(source, None)
        super()._fence(source)

    def _take(
        self, source: str, events: Sequence[Event], watermark: int | None, now: int, unstable: list[OrderKey]
    ) -> tuple[list[Event], int]:
        taken = super()._take(source, events, watermark, now, unstable)
        self._arrived(source, events, now)
        return taken

    def _arrived(self, source: str, events: Sequence[Event], now: int) -> None:
        state = self.sources.get(source)
        if state is None:
            return
        gaps = self.gaps.get(source)
        if gaps is None:
            gaps = self.gaps[source] = ArrivalGaps()
        first = min((each.hi for each in events), default=None)
        self._last = max(self._last, *(each.hi for each in events)) if events else self._last
        gaps.arrived(first, None if state.watermark == INSTANT_MIN else state.watermark, now)

    # The metric.

    def stability(self, instant: int, now: int) -> float:
        """Probability that no event with `hi` up to an instant, ns, is under way."""
        probability = 1.0
        for source, state in self.sources.items():
            if state.watermark < instant:
                gaps = self.gaps.get(source)
                probability *= 0.0 if gaps is None else 1 - gaps.under_way(instant, now)
        return probability

    def _release_until(self, now: int) -> int:
        pause = max(COMPUTED_EVERY, COMPUTED_FOR * len(self.sources))
        if self._computed_at is None or not 0 <= now - self._computed_at < pause:
            self._computed_at = now
            self._review()
            self._until = max(self._until, self._greatest(now))
        return self._until

    def _greatest(self, now: int) -> int:
        """Greatest instant up to which the metric is at the threshold, as far as it is worth the search, ns."""
        lagging = sorted((state.watermark, source) for source, state in self.sources.items())
        low = max(lagging[0][0], self._until)
        if low == INSTANT_MIN or any(source not in self.gaps for _, source in lagging):
            return self._until
        # No instant beyond the greatest one heard of is waited for, but for time events.
        high = max(lagging[-1][0], self._last)
        heard = max(each.heard or 0 for each in self.gaps.values())
        high = min(max(high + max(now - heard, 0), low), lagging[0][0] + EDGES[-1])
        least = self._heap[0][0] if self._heap else None
        if least is not None and low < least <= high:
            if self._is_enough(least, lagging, now):
                low = least
            elif self._searched_at is not None and 0 <= now - self._searched_at < SEARCHED_EVERY:
                return low
            else:
                self._searched_at, high = now, least
        if low < high and self._is_enough(high, lagging, now):
            return high
        for _ in range(STEPS):
            middle = (low + high) // 2
            if middle in (low, high):
                break
            if self._is_enough(middle, lagging, now):
                low = middle
            else:
                high = middle
        return low

    def _is_enough(self, instant: int, lagging: list[tuple[int, str]], now: int) -> bool:
        """Whether the metric at an instant is at the threshold."""
        left = self._most / self.caution
        for watermark, source in lagging:
            if watermark >= instant:
                break
            under_way = self.gaps[source].under_way(instant, now)
            left -= inf if under_way >= 1 else -log1p(-under_way)
            if left < 0:
                return False
        return True

    def _review(self) -> None:
        """Adapt the caution to the share of events that have turned out unstable."""
        early, unstable = (
            now - before for now, before in zip((self.early, self.unstable), self._reviewed, strict=True)
        )
        if early < REVIEWED_EVERY:
            return
        if unstable > early * (1 - self.probability):
            self.caution = min(self.caution * 1.5, 1_000.0)
        else:
            self.caution = max(self.caution * 0.95, 1.0)
        self._reviewed = self.early - early // 2, self.unstable - unstable // 2

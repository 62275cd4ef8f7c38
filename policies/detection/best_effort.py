"""Best-effort detection: events are consumed on arrival, so a late one may make a detection wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from distced.detectors.runtime.detection_policy import Arrival, Released, in_order
from distced.detectors.snapshot_format import unpack_id
from distced.middleware.model.events import Event
from distced.policies.detection.recent_ids import RecentIds


class BestEffort:
    """Consume on arrival; simultaneous arrivals in the order of consumption.

    Attributes:
        sources: of relevant watermarks. Others may be of another time, such as a recording.
        watermark: the greatest of any source, clock of time events; None before the first.
    """

    name = "best-effort"

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.watermark: int | None = None
        self.recent = RecentIds()

    @property
    def held(self) -> int:
        """Number of ids kept."""
        return len(self.recent)

    def state(self) -> Any:
        """State as plain values."""
        return [self.watermark, sorted(self.sources), self.recent.ids()]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        self.watermark, sources, ids = state
        self.sources = set(sources)
        for each in ids:
            self.recent.add(unpack_id(each))

    def receive(self, source: str, events: Sequence[Event], watermark: int | None, now: int) -> Released:
        self.sources.add(source)
        kept = in_order(self.recent.unknown(events))
        return Released(kept, self._heard(watermark), duplicates=len(events) - len(kept))

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        kept: list[Event] = []
        received = 0
        for source, events, watermark in arrivals:
            self.sources.add(source)
            kept += self.recent.unknown(events)
            received += len(events)
            self._heard(watermark)
        return Released(in_order(kept), self.watermark, duplicates=received - len(kept))

    def heartbeat(self, sources: Iterable[str], watermark: int, now: int) -> Released:
        if self.sources.isdisjoint(sources):
            return Released([], self.watermark)
        return Released([], self._heard(watermark))

    def join(self, source: str, watermark: int, now: int, lease: int = 0) -> int:
        self.sources.add(source)
        return watermark

    def waits_for(self) -> set[str]:
        return set(self.sources)

    def leave(self, source: str, now: int) -> Released:
        self.sources.discard(source)
        return Released([], self.watermark)

    fence = leave

    def tick(self, now: int) -> Released:
        return Released([], self.watermark)

    def is_level_with(self, other: Self) -> bool:
        same = self.watermark == other.watermark and self.sources == other.sources
        # What only one has received may still arrive here.
        return same and self.recent <= other.recent

    def copy(self) -> Self:
        made = type(self)()
        made.watermark, made.sources, made.recent = self.watermark, set(self.sources), self.recent.copy()
        return made

    def _heard(self, watermark: int | None) -> int | None:
        if watermark is not None and (self.watermark is None or watermark > self.watermark):
            self.watermark = watermark
        return self.watermark

"""Best-effort detection: events are consumed on arrival, so a late one may make a detection wrong.

A late event is consumed where it still fits, and reported: it is behind a later event, or behind the clock of time
events. What it may concern is what the detectors know (`detectors.runtime.shared_input`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Self

from distced.detectors.runtime.detection_policy import Arrival, Begins, Positions, Released, in_order
from distced.detectors.snapshot_format import pack_key, unpack_key
from distced.middleware.model.events import Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss, StreamPosition
from distced.policies.detection.intake import Intake, ReadsStreams
from distced.policies.detection.recent_ids import RecentIds


class BestEffort(ReadsStreams):
    """Consume on arrival; simultaneous arrivals in the order of consumption.

    Attributes:
        sources: of relevant watermarks. Others may be of another time, such as a recording.
        watermark: the greatest of any source, clock of time events; None before the first.
        intake: numbered streams of the sources, for what is missing; nothing waits for that.
    """

    name = "best-effort"

    begins: Mapping[str, int] | None = None
    """Nothing is promised of what it is not beyond."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.watermark: int | None = None
        self.recent = RecentIds()
        self.intake = Intake()
        # Instant up to which all was consumed from a history, ns: what comes of it is no news.
        self._covered = INSTANT_MIN
        # Of the last event in the order of consumption.
        self._latest: OrderKey | None = None
        # Not released yet.
        self._losses: list[Loss] = []

    @property
    def size(self) -> int:
        """Approximate size of its state, bytes."""
        return self.recent.size()

    def state(self) -> Any:
        """State as plain values."""
        latest = None if self._latest is None else pack_key(self._latest)
        return [self.watermark, sorted(self.sources), self.recent.ids(), self.intake.state(), latest, self._covered]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        # States of earlier versions have no last event.
        self.watermark, sources, ids, intake, *latest = state
        self._latest = unpack_key(latest[0]) if latest and latest[0] is not None else None
        self._covered = latest[1] if len(latest) > 1 else INSTANT_MIN
        self.sources = set(sources)
        self.recent.resume(ids)
        self.intake.resume(intake)

    def begin_behind(self, reached: int) -> None:
        """Go on behind an instant up to which all was consumed from a history, ns."""
        self._covered = reached
        self._heard(reached)

    def receive(
        self,
        source: str,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        position: StreamPosition | None = None,
    ) -> Released:
        return self.receive_all(((source, events, watermark, position),), now)

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        kept: list[Event] = []
        received = 0
        clock, latest = self.watermark, self._latest
        for source, events, watermark, position in arrivals:
            self.sources.add(source)
            received += len(events)
            if position is None or self.intake.take(source, position, watermark, now)[0]:
                kept += self.recent.unknown(events)
            self._heard(watermark)
        if self._covered > INSTANT_MIN:
            kept = [each for each in kept if each.hi > self._covered]
        if not kept:
            return self._released([], received)
        in_order(kept)
        behind: list[Event] = []
        overdue: list[Event] = []
        if latest is not None and kept[0].key < latest:
            behind = [each for each in kept if each.key < latest]
        if clock is not None and kept[0].hi <= clock:
            overdue = [each for each in kept if each.hi <= clock]
        last = kept[-1].key
        if latest is None or last > latest:
            self._latest = last
        return self._released(kept, received - len(kept), behind, overdue)

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Released:
        heard = False
        for source, each in zip(sources, chain(positions, repeat(())), strict=False):
            if source in self.sources:
                heard = True
                if each:
                    self.intake.claim(source, each, watermark, now)
        if heard:
            self._heard(watermark)
        return self._released()

    def join(self, source: str, watermark: int, now: int, lease: int = 0, begins: Begins | None = None) -> int:
        if begins is not None:
            self._losses += self.intake.begin(source, begins, now)
        self.sources.add(source)
        return watermark

    def unavailable(self, lost: Unavailable, now: int) -> Released:
        loss, _ = self.intake.unavailable(lost, now)
        if loss is not None:
            self._losses.append(loss)
        return self._released()

    def read_from(self, detector: str, since: int) -> None:
        """It begins with whatever comes."""

    def unnumbered(self) -> Mapping[str, int | None]:
        return {name: None for name in self.sources if not self.intake.reads(name)}

    def waits_for(self) -> set[str]:
        return set(self.sources)

    def slowest(self) -> tuple[str, int] | None:
        return None

    def leave(self, source: str, now: int) -> Released:
        self.sources.discard(source)
        self._losses += self.intake.end(source, "it is not waited for any more, and messages of it are missing")
        return self._released()

    fence = leave

    def tick(self, now: int) -> Released:
        return self._released()

    def is_level_with(self, other: Self) -> bool:
        same = self.watermark == other.watermark and self.sources == other.sources
        # What only one has received may still arrive here.
        return same and self.recent <= other.recent and self.intake.is_level_with(other.intake)

    def copy(self) -> Self:
        made = type(self)()
        made.watermark, made.sources, made.recent = self.watermark, set(self.sources), self.recent.copy()
        made.intake, made._latest, made._covered = self.intake.copy(), self._latest, self._covered
        return made

    def _released(
        self,
        events: list[Event] | None = None,
        duplicates: int = 0,
        behind: list[Event] | None = None,
        overdue: list[Event] | None = None,
    ) -> Released:
        losses = self._losses
        if losses:
            self._losses = []
        return Released(
            events or [],
            self.watermark,
            duplicates=duplicates,
            losses=losses,
            behind=behind or [],
            overdue=overdue or [],
        )

    def _heard(self, watermark: int | None) -> int | None:
        if watermark is not None and (self.watermark is None or watermark > self.watermark):
            self.watermark = watermark
        return self.watermark

"""Releases of a detector that are put off, in the order of consumption (`detectors.runtime.work_shares`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distced.detectors.snapshot_format import pack_event, unpack_event
from distced.middleware.model.events import Event, held_bytes


@dataclass(slots=True)
class Release:
    """Events, then everything up to a watermark.

    Attributes:
        begin: number of the first event that is not consumed.
        watermark: behind the events, ns; None for none.
        clock: watermark before them, ns, as of `Detector.consume`.
    """

    events: Sequence[Event]
    watermark: int | None
    clock: int | None
    begin: int = 0

    def go_on_to(self, watermark: int | None) -> None:
        """Raise the watermark behind the events."""
        if watermark is not None and (self.watermark is None or watermark > self.watermark):
            self.watermark = watermark


class PutOff:
    """Releases that wait.

    Attributes:
        reached: watermark up to which everything is consumed, ns; None for unknown. Never falls.
        events: number of events that wait.
        size: memory that these take, bytes; estimated.
    """

    __slots__ = ("_releases", "events", "reached", "size")

    def __init__(self, reached: int | None) -> None:
        self.reached = reached
        self.events = self.size = 0
        self._releases: deque[Release] = deque()

    def __bool__(self) -> bool:
        return bool(self._releases)

    def add(self, events: Sequence[Event], watermark: int | None, clock: int | None) -> None:
        """Add a release behind the others."""
        self.events += len(events)
        self.size += sum(map(held_bytes, events))
        if self._releases:
            # Time has passed that was no release, as nothing was known to be due.
            self.go_on_to(clock)
            if not events:
                self.go_on_to(watermark)
                return
        self._releases.append(Release(events, watermark, clock))

    def go_on_to(self, watermark: int | None) -> None:
        """Raise the watermark behind the last release, where there is a later one."""
        self._releases[-1].go_on_to(watermark)

    @property
    def first(self) -> Release:
        """The release to be consumed next."""
        return self._releases[0]

    def take(self, most: int) -> Sequence[Event]:
        """Next events of the first release, n at most."""
        first = self._releases[0]
        some = first.events[first.begin : first.begin + most]
        first.begin += len(some)
        self.events -= len(some)
        self.size -= sum(map(held_bytes, some))
        return some

    def end_first(self) -> None:
        """Remove the first release, which is consumed."""
        first = self._releases.popleft()
        if first.watermark is not None:
            self.reached = first.watermark

    def state(self) -> Any:
        """State as plain values."""
        releases = [
            [[pack_event(event) for event in each.events[each.begin :]], each.watermark, each.clock]
            for each in self._releases
        ]
        return [self.reached, releases]

    @classmethod
    def of(cls, state: Any) -> PutOff:
        """The releases of a `state`."""
        reached, releases = state
        made = cls(reached)
        for events, watermark, clock in releases:
            made.events += len(events)
            restored = [unpack_event(each) for each in events]
            made.size += sum(map(held_bytes, restored))
            made._releases.append(Release(restored, watermark, clock))
        return made

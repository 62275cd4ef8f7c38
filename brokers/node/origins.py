"""Detectors with an origin in the past: recorded events first, then live ones (frontends, N9).

Such a detector stands on a node that reads a history, serves one subscription, and detects the whole pattern. It is
subscribed to its inputs before anything else; what comes live waits behind the recorded events
(`detectors.runtime.history_first`). A driver reads the history, in parts. The detector goes live once the history
reaches behind the instant at which the inputs were subscribed to, and behind what publishers had sent until then: all
later events come live, all before are recorded. From then on it is a detector as any other: it moves, is replicated and
saved. Until then it stays, and begins again where its node is lost; its client knows by the watermark what it has.

Rejected: recorders that answer with events over the bus (a second protocol with flow control, where files are there);
a snapshot made by the recorder (streams of sources have other positions there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from distced.brokers.core.effects import Effect, ReadHistory, info, warning
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.history.coverage import HistoryPart
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import MINUTE, SECOND

AGAIN: Final = SECOND
"""Interval of looks at a history that has to come further, ns."""

PAUSE: Final = SECOND // 10
"""Time without recorded events of a detector whose client has spent its share of the work, or is to keep up, ns."""

PACE: Final = 50_000
"""Time of a composite event, ns: what a client leaves for later, because its queue is full, is not kept for long."""

TRY_AGAIN: Final = 10 * SECOND
"""The same behind a failure, ns."""

CLOCKS: Final = 5 * SECOND
"""Time by which the clock of a source that has left may have been ahead of that of the node, ns."""

STANDS_STILL: Final = 2 * MINUTE
"""Time without progress of a history that is waited for, ns, after which it is logged."""


@dataclass(slots=True)
class _Reading:
    """Detector whose history is being read.

    Attributes:
        part: the first part, until the detector runs; None before and after.
        reached: instant up to which it was consumed, ns; None before the first part.
        asked: number of the request whose part is on its way; 0 for none.
        again_at: instant of the next look, ns.
        subscribed_at: instant at which its inputs were subscribed to, ns; None before.
        moved_at: instant of the last progress, ns.
        paced_until: instant up to which the composite events so far take, ns.
    """

    hosted: HostedDetector
    part: HistoryPart | None = None
    reached: int | None = None
    asked: int = 0
    again_at: int = 0
    subscribed_at: int | None = None
    moved_at: int = 0
    paced_until: int = 0


class Origins(NodePart):
    """Detectors of a node that consume recorded events first; `readings` by detector."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.readings: dict[str, _Reading] = {}
        self._number = 0

    def first_part(self, hosted: HostedDetector, now: int) -> tuple[HistoryPart | None, list[Effect]]:
        """The first part of a detector that is to run; effects that request it where it has not come."""
        reading = self._of(hosted)
        if reading is None:
            reading = self.readings[hosted.id] = _Reading(hosted, moved_at=now)
            self.happened("detector", hosted.id, "reads recorded events")
        if reading.part is not None:
            part, reading.part = reading.part, None
            return part, []
        return None, [] if reading.asked else [self._read(reading)]

    def subscribed(self, hosted: HostedDetector, now: int) -> None:
        """Its inputs are subscribed to."""
        reading = self._of(hosted)
        if reading is not None and reading.subscribed_at is None:
            reading.subscribed_at = now

    def arrived(self, request: ReadHistory, part: HistoryPart) -> HostedDetector | None:
        """Take a part: the detector that is to begin, as it is the first one, or to consume it; None where it is not
        wanted any more."""
        reading = self.readings.get(request.detector)
        if reading is None or self._of(reading.hosted) is None or reading.asked != request.number:
            return None
        reading.asked = 0
        if part.problem is None and not reading.hosted.running:
            reading.part = part
        return reading.hosted

    def consume(self, hosted: HostedDetector, part: HistoryPart, now: int) -> list[Effect]:
        """Consume a part of the history of a running detector, and go live behind the last one."""
        reading = self._of(hosted)
        if reading is None or not hosted.detector.in_history:
            return []
        effects = self.event_path.lose(hosted, part.losses, now) if part.losses else []
        detected = hosted.detector.recorded(part.events, part.reached, now)
        effects += self.event_path.detected(hosted, detected, now)
        reading.paced_until = max(reading.paced_until, now) + len(detected.events) * PACE
        if reading.reached is None or part.reached > reading.reached:
            reading.moved_at = now
        reading.reached = part.reached
        if hosted.id in self.event_path.excesses:
            self.forget(hosted.id)
        elif part.more:
            share = hosted.detector.share_of_work
            spent = share is not None and share.is_spent(now)
            if spent or reading.paced_until > now + PAUSE:
                # Others have their turn, and the client keeps up.
                reading.again_at = max(now + PAUSE, reading.paced_until)
            else:
                effects.append(self._read(reading))
        elif self._is_behind(reading):
            self.forget(hosted.id)
            self.happened("detector", hosted.id, "goes live behind its recorded events")
            effects.append(info("history consumed", detector=hosted.id, until=part.reached))
            effects += self.event_path.detected(hosted, hosted.detector.go_live(now), now)
        else:
            reading.again_at = now + AGAIN
        return effects

    def _is_behind(self, reading: _Reading) -> bool:
        """Whether the history reaches behind everything that was published before its inputs were read."""
        base, reached, at = reading.hosted.detector.policy.base, reading.reached, reading.subscribed_at
        return base is not None and at is not None and reached is not None and reached >= max(base, at + CLOCKS)

    def failed(self, detector: str, problem: DistcedError, now: int) -> list[Effect]:
        """A further part could not be read: it is tried again."""
        reading = self.readings.get(detector)
        if reading is None:
            return []
        reading.again_at = now + TRY_AGAIN
        return [warning("history not read", detector=detector, reason=str(problem))]

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: look whether histories have come further."""
        effects: list[Effect] = []
        for identity, reading in list(self.readings.items()):
            if self._of(reading.hosted) is None:
                self.forget(identity)
            elif reading.reached is not None and not reading.asked and now >= reading.again_at:
                effects.append(self._read(reading))
                if now - reading.moved_at > STANDS_STILL:
                    reading.moved_at = now
                    until = reading.reached
                    effects.append(warning("history stands still", detector=identity, until=until))
        return effects

    def forget(self, detector: str) -> None:
        """Read no further for a detector."""
        self.readings.pop(detector, None)

    def _read(self, reading: _Reading) -> ReadHistory:
        self._number += 1
        reading.asked = self._number
        hosted = reading.hosted
        origin = hosted.planned.asked.origin
        assert origin is not None, hosted.id
        return ReadHistory(hosted.id, reading.asked, tuple(sorted(hosted.reads or ())), origin.since, reading.reached)

    def _of(self, hosted: HostedDetector) -> _Reading | None:
        reading = self.readings.get(hosted.id)
        there = reading is not None and reading.hosted is hosted and self.event_path.hosted.get(hosted.id) is hosted
        return reading if there else None

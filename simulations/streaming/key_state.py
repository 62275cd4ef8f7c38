"""Detection for one key between two micro-batches: waiting events, the engine, and the next watermark to act on.

Events wait until the watermark of event time has passed them and are then consumed in order: guaranteed detection
(design, section 3), with Spark's watermark in the place of what sources promise. A detector with its policy was
rejected: it remembers ids to tell second deliveries from late events, for every key, and Spark drops both by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from distced.detectors.compiler import Compiled
from distced.detectors.snapshot_format import pack_event, unpack_event
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import MILLISECOND

_REST: Final = 999
"""Rest of a microsecond, ns: Spark's clock has microseconds, so an instant beyond a watermark is beyond the rest of its
first microsecond, too.
"""


def passed(watermark: int) -> int:
    """The last instant, ns, that a watermark in milliseconds has passed."""
    return watermark * MILLISECOND + _REST


def due_at(instant: int) -> int:
    """The least watermark, in milliseconds, that has passed an instant."""
    return -((_REST - instant) // MILLISECOND)


def pack_events(events: Iterable[Event]) -> bytes:
    """Waiting events as stored in the state."""
    return msgspec.msgpack.encode([pack_event(event) for event in events])


def unpack_events(content: bytes) -> list[Event]:
    """The inverse of `pack_events`."""
    packed: Any = msgspec.msgpack.decode(content)
    return [unpack_event(each) for each in packed]


class KeyDetection:
    """Detection for one key.

    Attributes:
        waiting: the events that the watermark has not passed.
    """

    def __init__(
        self, patterns: Sequence[Compiled], state: bytes | None, waiting: Iterable[Event], reach: int | None = None
    ) -> None:
        """
        Args:
            state: what `state` gave; None at first.
            waiting: in the order of arrival. Of several events with one id the first counts.
            reach: how long an event counts for what comes later, ns; None for ever.
        """
        self._engine = StepwiseEngine(patterns)
        self._reach = reach
        # The `hi` of the last event consumed, as far as it still counts.
        self._last: int | None = None
        if state is not None:
            self._last, engine = msgspec.msgpack.decode(state)
            restore(self._engine, engine)
        self.waiting: dict[EventId, Event] = {}
        for event in waiting:
            self.waiting.setdefault(event.id, event)

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Advance the watermark, in milliseconds; returns the composite events."""
        until = passed(watermark)
        ready = sorted((event for event in self.waiting.values() if event.hi <= until), key=_order)
        self.waiting = {identity: event for identity, event in self.waiting.items() if event.hi > until}
        if ready:
            self._last = ready[-1].hi
        found = self._engine.feed(ready) + self._engine.advance(until)
        if self._is_idle(until):
            self._last = None
        return found

    @property
    def next_due(self) -> int | None:
        """The least watermark to act on, in milliseconds; None where only new events cause actions."""
        instants = [event.hi for event in self.waiting.values()]
        timer = self._engine.next_due()
        if timer is not None:
            instants.append(timer)
        if self._last is not None and self._reach is not None:
            # Then the state can be forgotten.
            instants.append(self._last + self._reach + 1)
        return due_at(min(instants)) if instants else None

    def state(self) -> bytes | None:
        """The state of the engine; None where a fresh one would detect the same, so that a key may be forgotten."""
        return None if self._last is None else msgspec.msgpack.encode((self._last, snapshot(self._engine)))

    def _is_idle(self, until: int) -> bool:
        """Whether no consumed event counts any more."""
        if self._last is None or (self._reach is not None and self._last + self._reach < until):
            return True
        engine = self._engine
        return not (
            engine.live_instances()
            or engine.pending
            or any(throttler.passed for throttler in engine.throttlers)
            or any(unit.matcher.composites.reported for unit in engine.units)
        )


def _order(event: Event) -> tuple[int, int, int, str, int]:
    return event.key

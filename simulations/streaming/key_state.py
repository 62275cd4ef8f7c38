"""Key of a stream, and detection for one key between two micro-batches: waiting events, engine, next due watermark.

Events wait until the watermark of event time has passed them and are then consumed in order: guaranteed detection
(design, section 3), with Spark's watermark in the place of those of sources. A detector with its policy was rejected:
it keeps ids for every key to distinguish duplicates from late events, and Spark drops both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from distced.detectors.compiler import Compiled
from distced.detectors.snapshot_format import pack_event, unpack_event
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import MILLISECOND
from distced.simulations.replay.pattern_properties import key_of_group, may_lack_constituents, reach_of

_REST: Final = 999  # ns: Spark's clock has microseconds, of which a watermark has passed the whole


def passed(watermark: int) -> int:
    """The last instant, ns, passed by a watermark in milliseconds."""
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
    """Detection for one key; the watermark has not passed the events in `waiting`."""

    def __init__(
        self, patterns: Sequence[Compiled], state: bytes | None, waiting: Iterable[Event], reach: int | None = None
    ) -> None:
        """
        Args:
            state: of `state`; None at first.
            waiting: in the order of arrival. Of several events with one id the first counts.
            reach: time for which an event counts for later ones, ns; None for ever.
        """
        self._engine = StepwiseEngine(patterns)
        self._reach = reach
        self._last: int | None = None  # `hi` of the last consumed event that still counts
        if state is not None:
            self._last, engine = msgspec.msgpack.decode(state)
            restore(self._engine, engine)
        self.waiting: dict[EventId, Event] = {}
        for event in waiting:
            self.waiting.setdefault(event.id, event)

    def advance(self, watermark: int) -> list[CompositeEvent]:
        """Advance the watermark, in milliseconds; returns the composite events."""
        until = passed(watermark)
        ready = sorted((event for event in self.waiting.values() if event.hi <= until), key=lambda event: event.key)
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
        forgotten = None if self._last is None or self._reach is None else self._last + self._reach + 1
        instants = [event.hi for event in self.waiting.values()]
        instants += [each for each in (self._engine.next_due(), forgotten) if each is not None]
        return due_at(min(instants)) if instants else None

    def state(self) -> bytes | None:
        """The state of the engine; None where a fresh one would detect the same, so that a key may be forgotten."""
        return None if self._last is None else msgspec.msgpack.encode((self._last, snapshot(self._engine)))

    def _is_idle(self, until: int) -> bool:
        """Whether no consumed event counts any more."""
        if self._last is None or (self._reach is not None and self._last + self._reach < until):
            return True
        engine = self._engine
        matchers = [unit.matcher for unit in engine.units]
        return not (
            engine.live_instances()
            or engine.pending
            or any(throttler.passed for throttler in engine.throttlers)
            or any(each.composites.reported or each.begun for each in matchers)
            or any(each.quiet is not None and not each.quiet.sweep(until) for each in matchers)
        )


def stream_key(patterns: Sequence[Compiled], by: Sequence[str] | None = None) -> tuple[str, ...]:
    """The attributes of the key, or those of them in `by`; none where one task detects everything.

    Raises:
        DistcedError: where the patterns cannot be detected by one of `by`.
    """
    key, hindrance = key_of_group(patterns)
    if any(may_lack_constituents(each.plain) for each in patterns):
        # Ids come from constituents: without any, the composite events of two values of a key are one.
        key, hindrance = (), "a match may have nothing but hidden events and time events"
    if by is None:
        return key
    strange = [name for name in by if name not in key]
    if strange:
        raise DistcedError(
            "patterns that cannot be detected by this key", given=", ".join(strange),
            allowed=", ".join(key) or f"none: {hindrance}", advice="leave by out",
        )  # fmt: skip
    return tuple(by)


def stream_reach(patterns: Sequence[Compiled]) -> int | None:
    """Greatest time an event counts for later ones, ns, after which a key can be forgotten; None for ever."""
    # Ids without constituents repeat, and the first of them counts.
    return None if any(may_lack_constituents(each.plain) for each in patterns) else reach_of(patterns)

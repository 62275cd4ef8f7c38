"""Spark's processor for each key: events are stored as they come, and consumed when the watermark has passed them.

Only timers consume. Spark calls them after all rows of a micro-batch, with the watermark below which it drops rows; and
for keys without rows, whose pattern may be waiting for time to pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from distced.detectors.compiler import Compiled
from distced.middleware.event_files.tables import DIGITS, constituents_text
from distced.middleware.model.events import CompositeEvent
from distced.simulations.streaming.columns import EVENT, EventColumns
from distced.simulations.streaming.key_state import KeyDetection, due_at, pack_events, stream_reach, unpack_events

OUTPUT: Final = (
    f"type string, source string, seq decimal({DIGITS},0), lo bigint, hi bigint, attributes string, constituents string"
)
"""Columns of composite events: those of the native form, with the attributes as a JSON object."""


class Detection(StatefulProcessor):
    """Detection of patterns in the events of each key."""

    def __init__(self, patterns: Sequence[Compiled], columns: EventColumns) -> None:
        self._patterns = tuple(patterns)
        self._columns = columns
        self._reach = stream_reach(patterns)

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._engine = handle.getValueState("engine", "state binary")
        self._waiting = handle.getListState("waiting", "events binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        events = [self._columns.event(row[EVENT]) for row in rows]
        if events:
            self._waiting.appendValue((pack_events(events),))
            # A timer has to be later than the watermark: rows between the watermarks of the previous and of this
            # micro-batch are consumed with the next one.
            due = due_at(min(event.hi for event in events))
            self._wake(max(due, timerValues.getCurrentWatermarkInMs() + 1))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        state = self._engine.get()
        waiting = [event for (content,) in self._waiting.get() for event in unpack_events(content)]
        detection = KeyDetection(self._patterns, None if state is None else bytes(state[0]), waiting, self._reach)
        found = detection.advance(timerValues.getCurrentWatermarkInMs())
        kept = detection.state()
        if kept is not None:
            self._engine.update((kept,))
        elif state is not None:
            self._engine.clear()
        if detection.waiting:
            self._waiting.put([(pack_events(detection.waiting.values()),)])
        elif waiting:
            self._waiting.clear()
        due = detection.next_due
        if due is not None:
            self._handle.registerTimer(due)
        return map(row_of, found)

    def _wake(self, due: int) -> None:
        """Ensure a timer no later than this; one is enough."""
        timers = list(self._handle.listTimers())
        if not timers or due < min(timers):
            for each in timers:
                self._handle.deleteTimer(each)
            self._handle.registerTimer(due)


def row_of(event: CompositeEvent) -> Any:
    """A composite event as a row."""
    return Row(
        type=event.type,
        source=event.source,
        seq=Decimal(event.seq),
        lo=event.lo,
        hi=event.hi,
        # With Infinity, as in JSON lines.
        attributes=json.dumps(event.attributes, ensure_ascii=False, separators=(",", ":")),
        constituents=constituents_text(event),
    )

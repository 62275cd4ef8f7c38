"""Trace contexts of messages, and a bounded table of those that events came with.

W3C Trace Context: a message carries `traceparent`, the ids of a trace and of a span with a flag, and perhaps
`tracestate`, as MQTT 5 user properties of these names. Contexts in frames were rejected: every frame would be longer,
and those of foreign publishers have none. Anybody may send anything, so what is malformed is no context.

A participant that follows traces keeps the contexts of events until a composite event is made of them. What the table
has forgotten is only missing in a trace, so it is bounded by number and age, and neither moves nor is stored.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import MINUTE

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

LONGEST_STATE: Final = 512
"""Characters of `tracestate` that are carried on; a longer one is left out, as W3C allows."""

MOST: Final = 50_000
"""Events with a context that are kept at most; some 27 MB."""

OLDEST: Final = 15 * MINUTE
"""Time for which the context of an event is kept, ns."""

MOST_OF_MESSAGE: Final = 1_000
"""Ids of events of one message that are kept at most, so that one does not drive out all others."""

# Of version 00, and the beginning of that of later ones; the version ff, and ids of zeros only, are invalid.
_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(r"[\x20-\x7e]+")


class TraceContext(NamedTuple):
    """Context of a span, as text: `traceparent` and `tracestate`; an empty state for none."""

    parent: str
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the trace is recorded."""
        return int(self.parent[-2:], 16) & 1 == 1

    def properties(self) -> tuple[tuple[str, str], ...]:
        """User properties of a message with this context."""
        parent = (TRACEPARENT, self.parent)
        return (parent, (TRACESTATE, self.state)) if self.state else (parent,)


def read_context(properties: Iterable[tuple[str, str]]) -> TraceContext | None:
    """Trace context among the user properties of a message; None for none, or a malformed one."""
    parents = states = 0
    parent = state = ""
    for name, value in properties:
        if name == TRACEPARENT:
            parent, parents = value, parents + 1
        elif name == TRACESTATE:
            state, states = value, states + 1
    if parents != 1 or len(parent) != 55 or _PARENT.fullmatch(parent) is None:
        return None
    usable = states == 1 and len(state) <= LONGEST_STATE and _STATE.fullmatch(state) is not None
    return TraceContext(parent, state if usable else "")


class Arrived(NamedTuple):
    """Arrival of an event with its message: the context of the message, and the time, ns."""

    context: TraceContext
    at: int


_Key: TypeAlias = tuple[str, EventId]


class ContextTable:
    """Contexts that events came with, by the detector whose composite event brought them, and by id.

    A detector that reads the composite events of a part knows its constituents by those: their contexts are kept apart
    from those of the same events that another detector reads themselves.
    """

    def __init__(self, most: int = MOST, oldest: int = OLDEST) -> None:
        """Bounds: number of events, and time for which one is kept, ns."""
        self._most, self._oldest = most, oldest
        self._arrived: OrderedDict[_Key, Arrived] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrived)

    def put(self, events: Iterable[Event], context: TraceContext, now: int) -> None:
        """Keep the context of a message for its events; one that is known keeps its own."""
        arrived, known = Arrived(context, now), self._arrived
        left = MOST_OF_MESSAGE
        for event in events:
            if ("", event.id) in known:
                continue
            keys: list[_Key] = [("", event.id)]
            if isinstance(event, CompositeEvent):
                # Behind the others, so that they are the last ones to be dropped.
                keys += [(event.source, each) for each in event.constituents[-left:]]
            for key in keys:
                known[key] = arrived
                known.move_to_end(key)
            left -= len(keys)
            if left <= 0:
                break
        self._drop(now)

    def of(self, event: EventId, parts: Iterable[str]) -> Arrived | None:
        """Last arrival of an event, with a message of its own or with the composite events of detectors of parts; None
        for unknown."""
        found = self._arrived.get(("", event))
        for part in parts:
            by_part = self._arrived.get((part, event))
            if by_part is not None and (found is None or by_part.at >= found.at):
                found = by_part
        return found

    def _drop(self, now: int) -> None:
        known = self._arrived
        while len(known) > self._most:
            known.popitem(last=False)
        while known:
            first = next(iter(known.values()))
            # Those from before a clock was set back go, too.
            if abs(now - first.at) <= self._oldest:
                break
            known.popitem(last=False)

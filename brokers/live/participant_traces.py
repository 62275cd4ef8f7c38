"""Traces of a live participant: spans for messages that arrive and for events that it publishes, beside its decisions.

Participants decide without them: what arrives is looked at before, and effects behind, so that composite events are the
same with and without traces. A frame is decoded a second time for that.

    publish TYPE     source      a message of events, published by a client or a bridge
    detect           node        a message of events, from its arrival to the end of the decision on it
    composite TYPE   node        a composite event, from the arrival of its last constituent to its publication
    record           recorder    a message of events, from its arrival to the end of the decision on it
    deliver          client      a message of events, until it is in the queue of the application

The parent of a composite event's span is the message of its last constituent, of those whose message carried a context;
the others are links. Without any it begins a trace. Its message carries its context; where it has several composite
events, that of the first one that is recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from opentelemetry.trace import Span, SpanKind

from distced.brokers.core.effects import Publish
from distced.middleware.bus.traces import Traces, context_of, harmless
from distced.middleware.bus.user_properties import UserProperties, pack
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.topics import ROOT, Area, parse_topic
from distced.middleware.wire.trace_contexts import Arrived, ContextTable, TraceContext, read_context

LARGEST: Final = 2**20
"""Bytes of a message that is followed at most."""

SPANS: Final = 32
"""Composite events of a message with a span of their own at most."""

LINKS: Final = 100
"""Constituents of a composite event that are looked up at most, the last ones."""

_parse = lru_cache(maxsize=1_024)(parse_topic)


class Described(NamedTuple):
    """Detector of a composite event: its detection policy, and the detectors of parts that it reads."""

    policy: str
    parts: tuple[str, ...]


class Released(NamedTuple):
    """Message of events to be published, with its spans, which end then, and packed properties."""

    message: Publish
    spans: tuple[Span, ...]
    properties: bytes


class ParticipantTraces:
    """Spans of a participant; called on the threads of its buses."""

    def __init__(self, traces: Traces, role: str, name: str, clock: Clock, root: str = ROOT) -> None:
        self._traces, self._clock = traces, clock
        self._arrival = {"node": "detect", "recorder": "record"}.get(role, "receive")
        self._root = root
        self._identity = {f"distced.{role}": name}
        self._areas = (f"{root}/{Area.EVENTS}/", f"{root}/{Area.COMPOSITE_EVENTS}/")
        self._table = ContextTable()
        # Buses of several homes deliver at once.
        self._lock = threading.Lock()
        # Spans of messages that are not consumed yet, by home.
        self._open: dict[str, list[Span]] = {}

    def follows(self, topic: str) -> bool:
        """Whether messages of a topic are events."""
        return topic.startswith(self._areas)

    @harmless
    def arrived(self, home: str, topic: str, payload: bytes, properties: UserProperties) -> None:
        """Begin the span of a message of events that carries a context, and keep the context for its events."""
        context = read_context(properties)
        if context is None:
            return
        now = self._clock.now()
        frame = self._frame(payload, topic, now)
        if frame is None:
            return
        attributes = {**self._of_message(topic, frame.type, len(frame.events)), "distced.source": frame.source}
        span = self._traces.begin(self._arrival, SpanKind.CONSUMER, attributes, at=now, parent=context)
        with self._lock:
            self._table.put(frame.events, context, now)
            self._open.setdefault(home, []).append(span)

    @harmless
    def consumed(self, home: str) -> None:
        """End the spans of the messages that have arrived from a home."""
        if self._open.get(home):
            with self._lock:
                spans = self._open.pop(home, [])
            now = self._clock.now()
            for each in spans:
                each.end(now)

    @harmless
    def released(self, message: Publish, described: Callable[[str], Described | None]) -> Released | None:
        """Begin the spans of a message of events that is about to be published; None for one without events."""
        now = self._clock.now()
        frame = self._frame(message.payload, message.topic, now)
        if frame is None:
            return None
        if frame.kind == "e":
            attributes = self._of_message(message.topic, frame.type, len(frame.events))
            name = f"publish {frame.type}"
            spans: tuple[Span, ...] = (self._traces.begin(name, SpanKind.PRODUCER, attributes, at=now, current=True),)
        else:
            detector = described(frame.source)
            # Those that come again with further derivations were followed before.
            new = [each for each in frame.events if isinstance(each, CompositeEvent) and not each.again]
            spans = tuple([self._composite(each, message.topic, detector, len(new), now) for each in new[:SPANS]])
        contexts = [context for span in spans if (context := context_of(span)) is not None]
        chosen = next((each for each in contexts if each.sampled), contexts[0] if contexts else None)
        return Released(message, spans, b"" if chosen is None else pack(chosen.properties()))

    @harmless
    def published(self, released: Released) -> None:
        """End the spans of a message that was handed over."""
        now = self._clock.now()
        for each in released.spans:
            each.end(now)

    def _composite(self, event: CompositeEvent, topic: str, detector: Described | None, events: int, now: int) -> Span:
        attributes = {
            **self._of_message(topic, event.type, events),
            "distced.detector": event.source,
            "distced.constituents": len(event.constituents),
        }
        if detector is not None:
            attributes["distced.detection"] = detector.policy
        parts = () if detector is None else detector.parts
        with self._lock:
            looked_up = [self._table.of(each, parts) for each in event.constituents[-LINKS:]]
        known = [each for each in looked_up if each is not None]
        name = f"composite {event.type}"
        if not known:
            return self._traces.begin(name, SpanKind.PRODUCER, attributes, at=now)
        last = known[-1]
        attributes["distced.held_seconds"] = max(now - last.at, 0) / SECOND
        links = _others(known, last.context)
        begin = min(last.at, now)
        span = self._traces.begin(name, SpanKind.PRODUCER, attributes, at=begin, parent=last.context, links=links)
        span.add_event("released", timestamp=now)
        return span

    def _frame(self, payload: bytes, topic: str, now: int) -> Frame | None:
        """Frame with events in a message; None for one without, a large or a malformed one."""
        if len(payload) > LARGEST:
            return None
        try:
            levels = _parse(topic, root=self._root).levels
            # Type and source, in case of an event in JSON.
            event_type, source = levels if len(levels) == 2 else (None, None)
            frame = decode_any(payload, where=topic, type=event_type, source=source, now=now)
        except DistcedError:
            return None
        return frame if frame.events else None

    def _of_message(self, topic: str, event_type: str, events: int) -> dict[str, str | int | float]:
        return {
            "messaging.system": "mqtt",
            "messaging.destination.name": topic,
            **self._identity,
            "distced.type": event_type,
            "distced.events": events,
        }


def _others(known: Iterable[Arrived], last: TraceContext) -> list[TraceContext]:
    """Contexts of constituents beside that of the last one, each once."""
    return [each for each in dict.fromkeys(each.context for each in known) if each != last]

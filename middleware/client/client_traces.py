"""Traces of a client: the span in which an event is published, and the one in which a subscription receives it.

The first is a child of the application's own span on the thread, if there is one. Of a message that waits in the outbox
or for a server, the span begins when it leaves. Messages that are sent again on request are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import Span, SpanKind, TracerProvider

from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.bus.traces import Traces, context_of, failed, harmless, of_application, of_provider
from distced.middleware.bus.user_properties import UserProperties, pack
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.frames import decode_any
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import Area
from distced.middleware.wire.trace_contexts import read_context

_log = get_logger("distced.client")


class ClientTraces:
    """Spans of a client; any thread may call it."""

    def __init__(self, given: bool | TracerProvider, client: str, clock: Clock, root: str) -> None:
        """Spans by a provider of OpenTelemetry, or else by the one that the application has set, or by the environment.

        Raises:
            DistcedError: variables of the environment that cannot be followed.
        """
        self._traces: Traces = of_application() if isinstance(given, bool) else of_provider(given)
        self._client, self._clock = client, clock
        self._events = f"{root}/{Area.EVENTS}/"
        self._followed = (self._events, f"{root}/{Area.COMPOSITE_EVENTS}/")
        self._ended_at: set[str] = set()

    @contextmanager
    def publishing(self, message: Publish) -> Iterator[bytes]:
        """Span of a message that is published meanwhile; its properties, packed, and none for one without events."""
        begun = self._begin(message)
        if begun is None:
            yield b""
            return
        span, properties = begun
        try:
            yield properties
        except BaseException as error:
            # Cancelled, too.
            self._end(span, error)
            raise
        self._end(span)

    def delivering(self, handler: Handler, bus: Any, subscription: str) -> Handler:
        """Handler of messages of a subscription, in a span for each one that carries a context."""

        def handle(topic: str, payload: bytes, retain: bool) -> None:
            span = self._received(topic, bus.arriving, subscription) if bus.arriving else None
            try:
                handler(topic, payload, retain)
            finally:
                if span is not None:
                    self._end(span)

        return handle

    def connected(self, home: str, bus: Any) -> None:
        """Log, once for each server, that traces do not go beyond it."""
        if bus.protocol != "5" and home not in self._ended_at:
            self._ended_at.add(home)
            reason = "its MQTT 3.1.1 has no user properties"
            _log.warning("traces end", server=str(bus.address), reason=reason)

    def stop(self) -> None:
        """Export the last spans."""
        self._traces.stop()

    @harmless
    def _begin(self, message: Publish) -> tuple[Span, bytes] | None:
        if not message.topic.startswith(self._events) or message.retain:
            return None
        try:
            frame = decode_any(message.payload)
        except DistcedError:
            return None
        if not frame.events:
            return None
        attributes = {
            **self._of_message(message.topic),
            "distced.type": frame.type,
            "distced.source": frame.source,
            "distced.events": len(frame.events),
        }
        name = f"publish {frame.type}"
        span = self._traces.begin(name, SpanKind.PRODUCER, attributes, at=self._clock.now(), current=True)
        context = context_of(span)
        return span, b"" if context is None else pack(context.properties())

    @harmless
    def _received(self, topic: str, properties: UserProperties, subscription: str) -> Span | None:
        context = read_context(properties) if topic.startswith(self._followed) else None
        if context is None:
            return None
        attributes = {**self._of_message(topic), "distced.subscription": subscription}
        return self._traces.begin("deliver", SpanKind.CONSUMER, attributes, at=self._clock.now(), parent=context)

    @harmless
    def _end(self, span: Span, error: BaseException | None = None) -> None:
        if error is not None:
            failed(span, error)
        span.end(self._clock.now())

    def _of_message(self, topic: str) -> dict[str, str | int | float]:
        return {
            "messaging.system": "mqtt",
            "messaging.destination.name": topic,
            "distced.client": self._client,
        }

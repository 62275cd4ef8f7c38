"""Spans of OpenTelemetry for messages that carry a trace context; imported only where traces are asked for.

Where they are sent, under which name and which share of them is what OpenTelemetry's own variables say
(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...): options of our own for them were rejected.
Spans leave on a thread of OpenTelemetry's; beyond its queue they are dropped. The instrumentation of paho by others was
rejected: it knows nothing of what a composite event is made of.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Final, ParamSpec, TypeAlias, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from distced.middleware.bus.logger import get_logger
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.trace_contexts import TraceContext, read_context

P = ParamSpec("P")
R = TypeVar("R")
Attributes: TypeAlias = Mapping[str, str | int | float]

PATIENCE: Final = 5.0
"""Time for the last spans to leave at the end, s."""

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_log = get_logger("distced.traces")
_propagator: Final = TraceContextTextMapPropagator()


class Traces:
    """Spans of this process; any thread may call it.

    Attributes:
        provider: makes them, and has them exported.
    """

    def __init__(self, provider: trace.TracerProvider, *, owned: bool) -> None:
        """Spans by a provider, which is shut down with them where it is `owned`."""
        self.provider = provider
        self._owned = owned
        self._tracer = provider.get_tracer("distced")

    def begin(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        at: int,
        parent: TraceContext | None = None,
        links: Iterable[TraceContext] = (),
        current: bool = False,
    ) -> Span:
        """Begin a span at a time, ns.

        Args:
            parent: context of the message it is about; None for a new trace.
            links: further contexts.
            current: whether the application's span on this thread is the parent, if there is one.
        """
        linked = [Link(trace.get_current_span(_extracted(each)).get_span_context()) for each in links]
        # An empty context is no parent, None the one of the thread.
        context = None if current else _extracted(parent)
        return self._tracer.start_span(name, context, kind, attributes, linked, at)

    def stop(self) -> None:
        """Export the last spans, for some seconds, where the provider is owned."""
        shutdown = getattr(self.provider, "shutdown", None)
        if self._owned and shutdown is not None:
            # A collector that is not there is tried for longer.
            thread = threading.Thread(target=shutdown, name="distced-traces", daemon=True)
            thread.start()
            thread.join(PATIENCE)


def context_of(span: Span) -> TraceContext | None:
    """Context of a span for a message, as its readers take it; None for a provider that makes none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return read_context(carrier.items())


def failed(span: Span, error: BaseException) -> None:
    """Note in a span that its message was not published."""
    span.set_status(Status(StatusCode.ERROR, type(error).__name__))


def of_environment() -> Traces:
    """Traces by the variables of OpenTelemetry.

    Raises:
        DistcedError: another protocol than the one installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    for variable in _PROTOCOLS:
        given = os.environ.get(variable, "")
        if given not in ("", _PROTOCOL):
            advice = "collectors listen to it on port 4318"
            raise DistcedError(
                "not a protocol for traces", given=given, allowed=_PROTOCOL, where=variable, advice=advice
            )
    variables = os.environ.get("OTEL_SERVICE_NAME", "") + os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in variables
    provider = TracerProvider(
        resource=Resource.create(None if named else {"service.name": "distced"}), shutdown_on_exit=False
    )
    try:
        exporter = OTLPSpanExporter()
    except ValueError as error:
        where = "the variables OTEL_EXPORTER_OTLP_..."
        raise DistcedError("traces cannot be exported", given=str(error), where=where) from None
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Traces(provider, owned=True)


def of_provider(provider: trace.TracerProvider) -> Traces:
    """Traces by a provider of the application, who shuts it down."""
    return Traces(provider, owned=False)


def of_application() -> Traces:
    """Traces by the provider that the application has set, or else by the variables of OpenTelemetry."""
    found = trace.get_tracer_provider()
    return of_provider(found) if isinstance(found, TracerProvider) else of_environment()


def _extracted(context: TraceContext | None) -> Context:
    empty = Context()
    if context is None:
        return empty
    return _propagator.extract(dict(context.properties()), empty)


def harmless(run: Callable[P, R]) -> Callable[P, R | None]:
    """Function of traces that raises nothing, as events do not depend on it; None where it has failed, which is logged
    at each power of two."""
    failures = 0

    @wraps(run)
    def attempt(*given: P.args, **named: P.kwargs) -> R | None:
        nonlocal failures
        try:
            return run(*given, **named)
        except Exception as error:
            failures += 1
            if failures.bit_count() == 1:
                # Its text may be anybody's.
                _log.warning("trace failed", reason=type(error).__name__, so_far=failures)
            return None

    return attempt

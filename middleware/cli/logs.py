"""Logs of verbs: lines for people on standard error, or JSON lines for programs, in structlog's two forms."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any, Literal, TextIO, TypeAlias

import structlog
from typer import Option

from distced.middleware.bus.logger import Logger

Level: TypeAlias = Literal["info", "warning"]

Format: TypeAlias = Literal["text", "json"]

LogFormatOption: TypeAlias = Annotated[
    Format, Option("--log-format", help="Form of the log on standard error: lines for people, or JSON lines.")
]

LogLevelOption: TypeAlias = Annotated[
    Level,
    Option("--log-level", help="Least level of log events; info has moves, takeovers, and so on."),
]


def configure_logging(*, stream: TextIO | None = None, as_json: bool = False, level: Level = "warning") -> Logger:
    """Log from this level on to a stream, standard error where left out; the logger returned logs from `info` on."""
    target = stream or sys.stderr
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(20, colors=target.isatty(), sort_keys=False)
    )
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json, key="timestamp"),
        # Programs get a traceback as a field, people as text below the line.
        *([structlog.processors.format_exc_info] if as_json else []),
        renderer,
    ]
    factory = structlog.PrintLoggerFactory(target)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=factory,
    )
    return Logger(
        structlog.wrap_logger(
            factory(), processors=processors, wrapper_class=structlog.make_filtering_bound_logger(logging.INFO)
        )
    )

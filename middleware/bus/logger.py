"""Loggers of participants, over structlog: a log that cannot be written loses lines, and interrupts nothing.

The reader of a pipe ends, a disk is full, a stream is closed under the thread of a bus: an error of a log call would
lose the other effects of a decision, or end that thread. Outputs that raise nothing were rejected: applications
configure structlog with outputs of their own, and without a configuration it prints on standard output.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import structlog

from distced.middleware.model.server_address import without_logins


class UnwrittenLines:
    """Number of log lines of this process that could not be written and are not reported yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines = 0

    def add(self, lines: int) -> None:
        """Count lines."""
        with self._lock:
            self._lines += lines

    def take(self) -> int:
        """Return the number, and begin at zero again."""
        with self._lock:
            lines, self._lines = self._lines, 0
            return lines


UNWRITTEN: Final = UnwrittenLines()


class Logger:
    """Logger that raises no errors of its output.

    Before the next line that can be written there is one with the number of those that could not.
    """

    def __init__(self, logger: Any) -> None:
        """Wrap a logger of structlog."""
        self._logger = logger

    def info(self, event: str, **fields: Any) -> None:
        """Log an event."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a warning."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log an error."""
        self._log("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the exception that is being handled."""
        self._log("exception", event, fields)

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        unwritten = UNWRITTEN.take()
        # The buffer of a stream keeps some lines, and writes them once there is room.
        if unwritten and not self._is_written("warning", "log lines late or lost", {"lines": unwritten}):
            UNWRITTEN.add(unwritten)
        if not self._is_written(level, event, fields):
            UNWRITTEN.add(1)

    def _is_written(self, level: str, event: str, fields: dict[str, Any]) -> bool:
        try:
            shown = {name: without_logins(each) if isinstance(each, str) else each for name, each in fields.items()}
            getattr(self._logger, level)(event, **shown)
        except (OSError, ValueError):
            # ValueError: the stream is closed, or lacks a character.
            return False
        return True


def get_logger(name: str) -> Logger:
    """Logger of structlog, as it is configured when it logs."""
    return Logger(structlog.get_logger(name))

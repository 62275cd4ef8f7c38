"""Errors of distced: each names what was given, what is allowed, where, and what to do.

One base class, so that an application can catch everything the product raises on purpose; a subclass for each kind of
thing that can be wrong. The parts are kept as attributes for consoles and machines (`as_dict`). The text is made when
it is read: of the messages that a node rejects, thousands a second of a hostile client, it reads few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class DistcedError(Exception):
    """Error in something given to distced.

    Attributes:
        problem: what is wrong, one clause.
        given: the offending text or value, as given; None where there is none.
        allowed: what would have been accepted.
        where: line and column, topic, file and row.
        advice: what to do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        given: object = None,
        allowed: str | None = None,
        where: str | None = None,
        advice: str | None = None,
    ) -> None:
        self.problem = problem
        self.given = given
        self.allowed = allowed
        self.where = where
        self.advice = advice
        super().__init__(problem)

    def __str__(self) -> str:
        return self._message()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message()!r})"

    def _message(self) -> str:
        message = self.problem
        if self.given is not None:
            message += f": {_shorten(self.given)}"
        if self.allowed:
            message += f" (allowed: {self.allowed})"
        if self.where:
            message += f", at {self.where}"
        if self.advice:
            message += f"; {self.advice}"
        return message

    def as_dict(self) -> dict[str, str]:
        """Parts that are there, for `--json` and dead letters."""
        parts = {
            "error": type(self).__name__,
            "problem": self.problem,
            "given": None if self.given is None else _shorten(self.given),
            "allowed": self.allowed,
            "where": self.where,
            "advice": self.advice,
        }
        return {name: text for name, text in parts.items() if text is not None}


class EventError(DistcedError):
    """Malformed event: a timestamp with lo > hi, a missing or mistyped attribute."""


class TypeRegistryError(DistcedError):
    """Event type that is unknown, registered twice with different attributes, or wrongly described."""


class FrameError(DistcedError):
    """Bytes on the wire that are no frame of events."""


class MappingError(DistcedError):
    """Mapping file that is wrong, or a message or row it cannot turn into an event."""


class HistoryError(DistcedError):
    """Event history that cannot be read or written."""


class BusError(DistcedError):
    """MQTT server that cannot be reached, or refuses."""


class SubscriptionError(DistcedError):
    """Subscription that was refused."""


class SubscriptionsError(SubscriptionError):
    """Some of several subscriptions requested together that were refused; the others stand.

    Attributes:
        subscriptions: those that stand, in order.
        errors: the error of each that was refused, by its place among all.
    """

    def __init__(self, subscriptions: Sequence[Any], errors: Mapping[int, DistcedError]) -> None:
        self.subscriptions = list(subscriptions)
        self.errors = dict(errors)
        place, first = next(iter(errors.items()))
        count = len(self.subscriptions) + len(errors)
        super().__init__(
            f"{len(errors):,} of {count:,} subscriptions were refused; the first, pattern {place + 1}: {first.problem}",
            given=first.given,
            allowed=first.allowed,
            where=first.where,
            advice=first.advice or "the others stand, and are in `subscriptions` of this error",
        )


class LimitError(DistcedError):
    """Detector beyond one of the limits of its node, which names the limit, the value and the pattern."""


class SnapshotError(DistcedError):
    """Bytes that are no snapshot of this detector."""


class PatternError(DistcedError):
    """Pattern that cannot be read, or that could not mean anything.

    Attributes:
        line, column: place in the text, counted from 1; 0 where the pattern has no text.
        snippet: the offending line with a caret below, for people.
        language: of the text; empty for the core language.
    """

    def __init__(
        self,
        problem: str,
        *,
        given: object = None,
        allowed: str | None = None,
        line: int = 0,
        column: int = 0,
        snippet: str = "",
        advice: str | None = None,
    ) -> None:
        self.line = line
        self.column = column
        self.snippet = snippet
        self.language = ""
        where = f"line {line}, column {column}" if line else None
        super().__init__(problem, given=given, allowed=allowed, where=where, advice=advice)

    def _message(self) -> str:
        message = super()._message()
        return f"{message}\n{self.snippet}" if self.snippet else message


def _shorten(value: object, limit: int = 120) -> str:
    if isinstance(value, bytes):
        # Text as it stands in the file; other bytes as escapes.
        value = value[: 4 * limit].decode(errors="backslashreplace")
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

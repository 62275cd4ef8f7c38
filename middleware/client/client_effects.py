"""Effects of a client session beside those of MQTT, and its timers.

A driver carries effects out in their order and reports back: a timer that fired, a subscription that a server confirmed
or refused. It decides nothing, so that threads, asyncio and virtual time behave alike.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

import msgspec

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.mqtt_effects import Note, Publish, Subscribe


class SetTimer(msgspec.Struct, frozen=True):
    """Call `fired` with the number after a delay, ns."""

    delay: int
    number: int


class Flush(msgspec.Struct, frozen=True):
    """Call `fired` with the number once a server has taken everything published there, or after a timeout, ns."""

    home: str
    timeout: int
    number: int


class Listen(msgspec.Struct, frozen=True):
    """Subscribe at a server and route matching messages to a subscription, over lost connections too.

    The driver calls `confirmed` with the number when the server has confirmed it, `refused` when it cannot be.
    """

    subscription: str
    home: str
    topic_filter: str
    number: int


class Leave(msgspec.Struct, frozen=True):
    """Take back a `Listen`."""

    subscription: str
    home: str
    topic_filter: str


class Done(msgspec.Struct, frozen=True):
    """Completion of an operation, named by an object of the driver; `error` where it has failed."""

    operation: Any
    error: DistcedError | None = None


class Ended(msgspec.Struct, frozen=True):
    """End of a complete subscription by others."""

    subscription: str
    error: DistcedError


class Waits(msgspec.Struct, frozen=True):
    """Suspension of a subscription, with its reason; empty for the resumption."""

    subscription: str
    reason: str


class Redelivered(msgspec.Struct, frozen=True):
    """Message that a subscription has missed, from a home, with the topic on which it was published."""

    subscription: str
    home: str
    topic: str
    payload: bytes


class NotAvailable(msgspec.Struct, frozen=True):
    """Answer to a subscription about messages that it has missed, from a home."""

    subscription: str
    home: str
    lost: Unavailable


class LeftHome(msgspec.Struct, frozen=True):
    """Home where a subscription listens no longer."""

    subscription: str
    home: str


class DetectorEnded(msgspec.Struct, frozen=True):
    """Detector of a type that has ended; what is missing of it is lost to a subscription to the type."""

    subscription: str
    detector: str


ClientEffect: TypeAlias = (
    Publish
    | Subscribe
    | Note
    | SetTimer
    | Flush
    | Listen
    | Leave
    | Done
    | Ended
    | Waits
    | Redelivered
    | NotAvailable
    | LeftHome
    | DetectorEnded
)
Then: TypeAlias = Callable[[int], list[ClientEffect]]
"""Continuation that takes the time, ns, and returns effects."""


class SessionTimers:
    """Timers of a session, by number. A cancelled or unknown timer that fires is ignored."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, Then] = {}

    def set(self, delay: int, then: Then) -> SetTimer:
        """Timer that continues after a delay, ns."""
        return SetTimer(delay, self._add(then))

    def flush(self, home: str, timeout: int, then: Then) -> Flush:
        """Timer that continues once a server has taken everything, or after a timeout, ns."""
        return Flush(home, timeout, self._add(then))

    def waits(self, number: int) -> bool:
        """Whether a timer was neither cancelled nor has fired."""
        return number in self._waiting

    def cancel(self, number: int) -> None:
        self._waiting.pop(number, None)

    def fired(self, number: int, now: int) -> list[ClientEffect]:
        then = self._waiting.pop(number, None)
        return [] if then is None else then(now)

    def _add(self, then: Then) -> int:
        number = next(self._numbers)
        self._waiting[number] = then
        return number


class Operations:
    """Operations of the application that wait for a condition, each with a timeout."""

    def __init__(self, timers: SessionTimers) -> None:
        self._timers = timers
        # By timer: the operation, its condition, and the check of its result.
        self._open: dict[int, tuple[object, Callable[[], bool], Callable[[], DistcedError | None]]] = {}

    def begin(
        self,
        operation: object,
        holds: Callable[[], bool],
        timeout: int,
        failed: Callable[[], DistcedError | None],
        *,
        check: Callable[[], DistcedError | None] = lambda: None,
    ) -> list[ClientEffect]:
        """Complete an operation when a condition holds, or after a timeout, ns.

        Args:
            failed: the error after the timeout; None where the operation succeeds all the same.
            check: the error when the condition holds; None for success.
        """
        if holds():
            return [Done(operation, check())]
        timer = self._timers.set(timeout, lambda now: self._expired(timer.number, failed))
        self._open[timer.number] = operation, holds, check
        return [timer]

    def look(self) -> list[ClientEffect]:
        """Complete the operations whose conditions hold by now; after every change."""
        effects: list[ClientEffect] = []
        for number, (operation, holds, check) in list(self._open.items()):
            if holds():
                del self._open[number]
                self._timers.cancel(number)
                effects.append(Done(operation, check()))
        return effects

    def _expired(self, number: int, failed: Callable[[], DistcedError | None]) -> list[ClientEffect]:
        operation, _, _ = self._open.pop(number)
        return [Done(operation, failed())]

"""Loop of a bus: calls, timers and turns, while a thread of its own or asyncio waits for the network.

A turn runs the due calls and timers, then the work of the bus. Timers are kept in a heap of its own rather than
asyncio's: the clock of a bus is handed in and may be set back. Sockets are opened by the loops and handed to paho,
which would block (aiomqtt runs it on asyncio's executor); only a host name takes a thread, that of `loop.getaddrinfo`.
"""

from __future__ import annotations

import socket
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

from distced.middleware.model.clock import Clock
from distced.middleware.model.server_address import Address
from distced.middleware.model.timestamps import SECOND

LONGEST_WAIT: Final = 0.5  # s; the clock may be set, so no wait is longer
_FEW: Final = 64  # timers that are kept without a look at which are cancelled
Ready: TypeAlias = Callable[[int], None]
"""Called with the mask of `selectors` for which a socket is ready."""

Opened: TypeAlias = Callable[[socket.socket | None, Exception | None], None]
"""Called with an open socket, or with the error that kept it from opening."""


@dataclass(slots=True, eq=False)
class Timer:
    """Call due at an instant, or repeated at an interval, ns by the clock of the bus; 0 for once."""

    due: int
    interval: int
    run: Callable[[], Any]
    cancelled: bool = False

    def cancel(self) -> None:
        """Call it off; from any thread."""
        self.cancelled = True


class Timers:
    """Heap of timers by their instants; belongs to one loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        # Length of the heap at which cancelled timers are removed: most are cancelled long before they are due.
        self._most = _FEW
        self._numbers = count()
        self._now: int | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, timer: Timer) -> None:
        heappush(self._heap, (timer.due, next(self._numbers), timer))
        if len(self._heap) > self._most:
            self._heap = [each for each in self._heap if not each[2].cancelled]
            heapify(self._heap)
            self._most = 2 * len(self._heap) + _FEW

    def next_due(self) -> int | None:
        """Due time of the next timer; None without one."""
        while self._heap and self._heap[0][2].cancelled:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[Timer]:
        """Due timers, in order; repeating ones are set again, without making up for missed repetitions.

        All timers move with a clock that was set back: their remaining times stay.
        """
        if self._now is not None and now < self._now:
            self._shift(now - self._now)
        self._now = now
        due: list[Timer] = []
        while (first := self.next_due()) is not None and first <= now:
            timer = heappop(self._heap)[2]
            due.append(timer)
            if timer.interval:
                timer.due += timer.interval * ((now - timer.due) // timer.interval + 1)
                # Pushed at once: it is due after now, so this loop does not meet it again.
                self.add(timer)
        return due

    def _shift(self, difference: int) -> None:
        for _, _, timer in self._heap:
            timer.due += difference
        self._heap = [(timer.due, number, timer) for _, number, timer in self._heap]
        heapify(self._heap)


class Work(Protocol):
    """Work that a loop drives."""

    def work(self) -> None:
        """Do what can be done without waiting; called each turn."""

    def pending(self) -> bool:
        """Whether work is left, so that the loop does not wait."""

    def failed(self, error: Exception, run: Callable[..., Any]) -> None:
        """Report the exception of a call or a timer."""

    def end(self) -> None:
        """Clean up; the last call of a loop."""


class Loop(ABC):
    """Runner of calls and timers, and of `Work` in between; their exceptions go to the work's `failed`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: deque[Callable[[], Any]] = deque()
        self._timers = Timers()
        self._ending = False
        self._driven: Work | None = None

    # Calls and timers

    @property
    @abstractmethod
    def is_current(self) -> bool:
        """Whether the caller runs on this loop."""

    @abstractmethod
    def wake(self) -> None:
        """Have a turn run soon."""

    def call_soon(self, run: Callable[[], Any]) -> None:
        """Run a call on the loop, soon and in order."""
        self._calls.append(run)
        self.wake()

    def call_later(self, seconds: float, run: Callable[[], Any], *, repeat: bool = False) -> Timer:
        """Run a call on the loop after a delay in seconds, or repeatedly at this interval."""
        interval = round(seconds * SECOND)
        timer = Timer(self._clock.now() + interval, interval if repeat else 0, run)
        if self.is_current:
            self._timers.add(timer)
            self.wake()
        else:
            self.call_soon(lambda: self._timers.add(timer))
        return timer

    # Start and end

    @abstractmethod
    def start(self, driven: Work) -> None:
        """Begin to run turns."""

    @abstractmethod
    def end(self) -> None:
        """Run no further turn; the work's `end` follows the present one."""

    # Network

    @abstractmethod
    def open(self, address: Address, timeout: float, tls: ssl.SSLContext | None, opened: Opened) -> None:
        """Open a socket to a server in the background; `opened` runs on the loop, unless it has ended."""

    @abstractmethod
    def watch(self, descriptor: int, interest: int, ready: Ready) -> None:
        """Call `ready` whenever a socket is ready for the mask; mask 0 ends that."""

    # One turn

    def _run_due(self) -> None:
        # Only those there now: a call that calls again must not keep the network waiting.
        for _ in range(len(self._calls)):
            self._guarded(self._calls.popleft())
        for timer in self._timers.pop_due(self._clock.now()):
            if not timer.cancelled:
                self._guarded(timer.run)

    def _wait(self, driven: Work) -> float:
        """Seconds until the next turn."""
        if self._calls or self._ending or driven.pending():
            return 0.0
        due = self._timers.next_due()
        if due is None:
            return LONGEST_WAIT
        return min(max(due - self._clock.now(), 0) / SECOND, LONGEST_WAIT)

    def _guarded(self, run: Callable[[], Any]) -> None:
        try:
            run()
        except Exception as error:
            if self._driven is not None:
                self._driven.failed(error, run)


def prepared(stream: socket.socket) -> socket.socket:
    """Open socket that does not block and sends small frames at once, not behind an acknowledgement."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setblocking(False)
    return stream

"""The thread of a bus: waits for the network, timers and calls from other threads, and does one thing after another.

asyncio's loop was rejected for it: a bus is used from ordinary threads, and between two messages asyncio takes several
times as long. What is here is its core, a selector and a pair of sockets to wake it.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from distced.middleware.bus.timers import Timer, Timers
from distced.middleware.model.clock import Clock
from distced.middleware.model.timestamps import SECOND

_LONGEST_WAIT: Final = 0.5
"""Seconds; the clock may be set, so a wait is never trusted for longer."""


class Loop:
    """A thread that runs calls and timers, and `work` in between.

    `work` does what is to be done now; `pending` says whether anything of it is left, so that the loop does not wait.
    What calls and timers raise goes to `failed`, with the function, and no further.

    Attributes:
        selector: for file descriptors to wait for; their data is called with the mask. For the thread only.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        work: Callable[[], None],
        pending: Callable[[], bool],
        failed: Callable[[Exception, Callable[..., Any]], None],
        ended: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._work = work
        self._pending = pending
        self._failed = failed
        self._at_end = ended
        self._calls: deque[Callable[[], Any]] = deque()
        self._timers = Timers()
        self._asleep = False
        self._ending = False
        self.selector = selectors.DefaultSelector()
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)
        self._bell.setblocking(False)
        self.selector.register(self._ear, selectors.EVENT_READ, self._hear)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Let the thread end after what it is doing."""
        self._ending = True
        self.wake()

    def join(self, timeout: float) -> bool:
        """Wait up to so many seconds for the thread to end; whether it has. On the thread itself, do not wait."""
        if self._thread.ident is not None and not self.is_current:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Have `work` called soon; from any thread."""
        # The flag is set before the loop looks for work the last time, so what is added before reading it is seen.
        if self._asleep:
            self._asleep = False
            try:
                self._bell.send(b"\0")
            except BlockingIOError:
                pass  # The ear is full of rings already.
            except OSError:
                pass  # The loop has ended.

    def call_soon(self, run: Callable[[], Any]) -> None:
        """Run this on the thread, soon and in order."""
        self._calls.append(run)
        self.wake()

    def call_later(self, seconds: float, run: Callable[[], Any], *, repeat: bool = False) -> Timer:
        """Run this on the thread after so many seconds, or again and again with so many in between."""
        interval = round(seconds * SECOND)
        timer = Timer(self._clock.now() + interval, interval if repeat else 0, run)
        if self.is_current:
            self._timers.add(timer)
        else:
            self.call_soon(lambda: self._timers.add(timer))
        return timer

    def _run(self) -> None:
        try:
            while not self._ending:
                self._run_calls()
                for timer in self._timers.pop_due(self._clock.now()):
                    if not timer.cancelled:
                        self._guarded(timer.run)
                self._work()
                self._asleep = True
                ready = self.selector.select(self._wait())
                self._asleep = False
                for key, mask in ready:
                    key.data(mask)
        finally:
            self._ending = True
            self._at_end()
            self.selector.close()
            self._ear.close()
            self._bell.close()

    def _wait(self) -> float:
        """Seconds until there is something to do."""
        if self._calls or self._ending or self._pending():
            return 0.0
        due = self._timers.next_due()
        if due is None:
            return _LONGEST_WAIT
        return min(max(due - self._clock.now(), 0) / SECOND, _LONGEST_WAIT)

    def _run_calls(self) -> None:
        # Only those there now: a call that calls again must not keep the network waiting.
        for _ in range(len(self._calls)):
            self._guarded(self._calls.popleft())

    def _guarded(self, run: Callable[[], Any]) -> None:
        try:
            run()
        except Exception as error:
            self._failed(error, run)

    def _hear(self, mask: int) -> None:
        try:
            while self._ear.recv(4096):
                pass
        except BlockingIOError:
            pass

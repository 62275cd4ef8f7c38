"""asyncio's event loop that drives a bus: no thread, no selector of its own.

A turn runs at once when a socket is ready, so messages published by handlers leave in the same pass of the event loop.
Everything belongs to the thread of the event loop: no locks. Loops without `add_reader` (Windows' proactor) need a
`Bus` with its thread.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final

from distced.middleware.bus.loop import Loop, Opened, Ready, Work, prepared
from distced.middleware.model.clock import Clock
from distced.middleware.model.server_address import Address

_EARLY: Final = 0.001  # s by which a turn may come too early; a timer is not set again for less


class AsyncioLoop(Loop):
    """Loop on the event loop that runs when it is started."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: asyncio.Handle | None = None
        # The turn that no socket and no call brings about, and when, by the event loop's time.
        self._alarm: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._watched: dict[int, int] = {}
        self._busy = False
        self._finished = False

    @property
    def is_current(self) -> bool:
        return True

    def start(self, driven: Work) -> None:
        self._loop = asyncio.get_running_loop()
        self._driven = driven
        self.wake()

    def wake(self) -> None:
        # A turn that is under way looks for work at its end.
        if not self._busy:
            self._turn_soon()

    def end(self) -> None:
        self._ending = True
        if not self._busy:
            self._finish()

    def open(self, address: Address, timeout: float, tls: ssl.SSLContext | None, opened: Opened) -> None:
        assert self._loop is not None
        self._opening = self._loop.create_task(self._open(address, timeout, tls, opened))

    def watch(self, descriptor: int, interest: int, ready: Ready) -> None:
        loop = self._loop
        assert loop is not None
        if loop.is_closed():
            return  # The application ended without `stop`, and the socket is collected only now.
        before = self._watched.get(descriptor, 0)
        reading, writing = (loop.add_reader, loop.remove_reader), (loop.add_writer, loop.remove_writer)
        for mask, (add, remove) in ((EVENT_READ, reading), (EVENT_WRITE, writing)):
            if interest & mask and not before & mask:
                add(descriptor, self._socket_ready, ready, mask)
            elif before & mask and not interest & mask:
                remove(descriptor)
        if interest:
            self._watched[descriptor] = interest
        else:
            self._watched.pop(descriptor, None)

    def _socket_ready(self, ready: Ready, mask: int) -> None:
        self._guard_turn(lambda: ready(mask))
        self._turn()

    def _turn_soon(self) -> None:
        if self._loop is not None and self._soon is None and not self._finished:
            self._soon = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if not self._finished:
            self._guard_turn(self._work_once)

    def _work_once(self) -> None:
        driven, loop = self._driven, self._loop
        assert driven is not None
        assert loop is not None
        self._run_due()
        driven.work()
        wait = self._wait(driven)
        if wait <= 0:
            self._turn_soon()
            return
        at = loop.time() + wait
        if self._alarm is None or at < self._alarm.when() - _EARLY or self._alarm.when() <= loop.time():
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(at, self._turn)

    def _guard_turn(self, run: Callable[[], None]) -> None:
        """Run a part of a turn, and finish where it was ended meanwhile, or failed."""
        self._busy = True
        try:
            run()
        except BaseException:
            self._ending = True
            raise
        finally:
            self._busy = False
            if self._ending:
                self._finish()

    def _finish(self) -> None:
        if self._finished or self._driven is None:
            return
        self._finished = True
        for handle in (self._soon, self._alarm, self._opening):
            if handle is not None:
                handle.cancel()
        self._driven.end()

    async def _open(self, address: Address, timeout: float, tls: ssl.SSLContext | None, opened: Opened) -> None:
        stream: socket.socket | None = None
        error: Exception | None = None
        try:
            stream = await _open_on_loop(address, timeout, tls)
        except Exception as problem:
            error = problem
        # At once, not as a call: a call may never run, and the socket stay open.
        self._guard_turn(lambda: opened(stream, error))
        self._turn()


class AsyncioCondition:
    """`threading.Condition` for the tasks of one event loop: notified by calls, awaited by tasks, without a lock."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def notify_all(self) -> None:
        """Have all waiting tasks look again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait_for(self, holds: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds until the predicate holds; whether it does."""
        if holds():
            return True
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    waiting = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiting)
                    try:
                        await waiting
                    finally:
                        self._waiting.discard(waiting)
        except TimeoutError:
            pass
        return holds()


async def _open_on_loop(address: Address, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Socket opened as by `thread_loop`, on the running event loop; closed where the task is cancelled."""
    loop = asyncio.get_running_loop()
    stream = await _connected(loop, address, timeout)
    try:
        if tls is not None:
            stream = tls.wrap_socket(stream, server_hostname=address.host, do_handshake_on_connect=False)
            async with asyncio.timeout(timeout):
                await _shake_hands(loop, stream)
        return prepared(stream)
    except BaseException:
        stream.close()
        raise


async def _connected(loop: asyncio.AbstractEventLoop, address: Address, timeout: float) -> socket.socket:
    """First of the host's addresses that answers, each within the timeout."""
    problem: OSError | None = None
    for family, kind, protocol, _, target in await _resolved(loop, address, timeout):
        stream = socket.socket(family, kind, protocol)
        try:
            stream.setblocking(False)
            async with asyncio.timeout(timeout):
                await loop.sock_connect(stream, target)
            return stream
        except OSError as error:  # A TimeoutError is one.
            stream.close()
            problem = error
        except BaseException:
            stream.close()
            raise
    raise problem or OSError("the host has no address")


async def _resolved(loop: asyncio.AbstractEventLoop, address: Address, timeout: float) -> list[Any]:
    try:
        digits = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return list(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=digits))
    except socket.gaierror:
        async with asyncio.timeout(timeout):
            return list(await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))


async def _shake_hands(loop: asyncio.AbstractEventLoop, stream: ssl.SSLSocket) -> None:
    while True:
        try:
            return stream.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(stream.fileno(), loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(stream.fileno(), loop.add_writer, loop.remove_writer)


async def _ready(descriptor: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)

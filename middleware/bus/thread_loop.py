"""Thread that drives a bus: waits for the network, timers and calls from other threads in one selector.

asyncio's loop on a thread was rejected: between two messages it takes several times as long.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from distced.middleware.bus.loop import Loop, Opened, Ready, Work, prepared
from distced.middleware.model.clock import Clock
from distced.middleware.model.server_address import Address


class ThreadLoop(Loop):
    """Loop on a thread of its own. Every method may be called from any thread, except `watch` and `wait_writable`."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__(clock)
        self._asleep = False
        self._finished = False
        # Sockets on their way from the threads that open them. Each is taken off once: by the loop, or to be closed.
        self._arrived: deque[tuple[socket.socket | None, Exception | None, Opened]] = deque()
        self._selector = selectors.DefaultSelector()
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)
        self._bell.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ, self._hear)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def start(self, driven: Work) -> None:
        self._driven = driven
        self._thread.start()

    def end(self) -> None:
        self._ending = True
        self.wake()

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the thread to end; whether it has. On the thread itself, do not wait."""
        if self._thread.ident is not None and not self.is_current:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def wake(self) -> None:
        # The flag is set before the loop looks for work the last time, so what is added before reading it is seen.
        if self._asleep:
            self._asleep = False
            try:
                self._bell.send(b"\0")
            except BlockingIOError:
                pass  # The ear is full of rings already.
            except OSError:
                pass  # The loop has ended.

    def open(self, address: Address, timeout: float, tls: ssl.SSLContext | None, opened: Opened) -> None:
        arguments = (address, timeout, tls, opened)
        threading.Thread(target=self._open, args=arguments, name="bus-opening", daemon=True).start()

    def watch(self, descriptor: int, interest: int, ready: Ready) -> None:
        known = descriptor in self._selector.get_map()
        if known and interest:
            self._selector.modify(descriptor, interest, ready)
        elif known:
            self._selector.unregister(descriptor)
        elif interest:
            self._selector.register(descriptor, interest, ready)

    def wait_writable(self, descriptor: int, timeout: float) -> None:
        """Wait on the thread itself, up to `timeout` seconds, until a socket takes more."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_WRITE)
            selector.select(timeout)

    def _run(self) -> None:
        driven = self._driven
        assert driven is not None
        try:
            while not self._ending:
                self._run_due()
                driven.work()
                self._asleep = True
                ready = self._selector.select(self._wait(driven))
                self._asleep = False
                for key, mask in ready:
                    key.data(mask)
        finally:
            self._ending = True
            driven.end()
            self._finished = True
            self._close_arrived()
            self._selector.close()
            self._ear.close()
            self._bell.close()

    def _open(self, *arguments: Any) -> None:
        """Open a socket on a thread of its own: look-up, network and TLS may take seconds, while timers run on."""
        address, timeout, tls, opened = arguments
        stream: socket.socket | None = None
        error: Exception | None = None
        try:
            stream = _open_blocking(address, timeout, tls)
        except Exception as problem:
            error = problem
        self._arrived.append((stream, error, opened))
        self.call_soon(self._take_arrived)
        if self._finished:
            self._close_arrived()

    def _take_arrived(self) -> None:
        stream, error, opened = self._arrived.popleft()
        opened(stream, error)

    def _close_arrived(self) -> None:
        """Close sockets that arrive after the end, on the loop or on a thread that was late."""
        with suppress(IndexError):
            while True:
                stream, _, _ = self._arrived.popleft()
                if stream is not None:
                    stream.close()

    def _hear(self, mask: int) -> None:
        try:
            while self._ear.recv(4096):
                pass
        except BlockingIOError:
            pass


def _open_blocking(address: Address, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Socket after connection and TLS handshake, `timeout` seconds each; `OSError` of network, resolver or TLS."""
    stream = socket.create_connection((address.host, address.port), timeout)
    try:
        if tls is not None:
            stream = tls.wrap_socket(stream, server_hostname=address.host, do_handshake_on_connect=False)
            stream.settimeout(timeout)
            stream.do_handshake()
        return prepared(stream)
    except BaseException:
        stream.close()
        raise

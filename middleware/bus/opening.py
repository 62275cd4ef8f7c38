"""Opening of a socket to a server: name look-up, connection, TLS; on a thread that may block, or on asyncio.

paho opens its socket by blocking, so aiomqtt calls it on asyncio's executor. Here the socket is opened outside of paho
and handed in; only a host name takes a thread, that of `loop.getaddrinfo`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from distced.middleware.model.server_address import Address


def open_blocking(address: Address, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Socket connected to a server, after the handshake of TLS; each step waits up to `timeout` seconds.

    Raises:
        OSError: of the network, the resolver or TLS.
    """
    stream = socket.create_connection((address.host, address.port), timeout)
    try:
        if tls is not None:
            stream = tls.wrap_socket(stream, server_hostname=address.host, do_handshake_on_connect=False)
            stream.settimeout(timeout)
            stream.do_handshake()
        return _prepared(stream)
    except BaseException:
        stream.close()
        raise


async def open_on_loop(address: Address, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """Socket opened as by `open_blocking`, on the running event loop; closed where the task is cancelled."""
    loop = asyncio.get_running_loop()
    stream = await _connected(loop, address, timeout)
    try:
        if tls is not None:
            stream = tls.wrap_socket(stream, server_hostname=address.host, do_handshake_on_connect=False)
            async with asyncio.timeout(timeout):
                await _shake_hands(loop, stream)
        return _prepared(stream)
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


def _prepared(stream: socket.socket) -> socket.socket:
    # Unset, a small frame waits until the one before it is acknowledged.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setblocking(False)
    return stream

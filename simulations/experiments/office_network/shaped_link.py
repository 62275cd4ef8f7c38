"""Shaped link of a live run: a TCP proxy to the MQTT server, late and not too fast, as a wireless link.

All bytes of a direction share its bandwidth; a chunk leaves once those before it are sent, and arrives after the
latency and some jitter, in order. netem of the kernel was rejected: it needs a privilege that tests do not have.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from random import Random
from typing import Final

from distced.middleware.model.timestamps import SECOND
from distced.simulations.chaos.proxy import CHUNK, Proxies, Proxy

WAITING: Final = 64
"""Chunks of a direction that are under way at most."""


@dataclass
class Shape:
    """Delays of a direction.

    Attributes:
        latency, jitter: ns.
        bandwidth: bytes a second.
        free: time of the loop at which everything accepted so far is sent, s.
        last: time of the last arrival, s.
    """

    latency: int
    jitter: int
    bandwidth: int
    random: Random
    free: float = 0.0
    last: float = 0.0

    def arrival(self, size: int, now: float) -> float:
        """Time at which n bytes arrive that are sent now, s."""
        self.free = max(self.free, now) + size / self.bandwidth
        delay = (self.latency + self.random.random() * self.jitter) / SECOND
        self.last = max(self.last, self.free + delay)
        return self.last


class ShapedLink(Proxy):
    """Link of one participant to a server on this machine; `port` is its own."""

    def __init__(self, proxies: Proxies, target: int, latency: int, jitter: int, bandwidth: int, seed: int) -> None:
        super().__init__(proxies, target)
        random = Random(seed)
        self._there = Shape(latency, jitter, bandwidth, random)
        self._back = Shape(latency, jitter, bandwidth, random)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_server}
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(
                _carry(reader, to_server, self._there), _carry(from_server, writer, self._back)
            )  # fmt: skip
        self._writers -= {writer, to_server}


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, shape: Shape) -> None:
    """Carry all that is sent to the other end, until one of them is gone."""
    clock = asyncio.get_running_loop().time
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)

    async def accept() -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await under_way.put((shape.arrival(len(chunk), clock()), chunk))
        await under_way.put((clock(), b""))

    async def deliver() -> None:
        with contextlib.suppress(OSError):
            while True:
                due, chunk = await under_way.get()
                await asyncio.sleep(due - clock())
                if not chunk:
                    break
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()

    await asyncio.gather(accept(), deliver())

"""TCP proxy between a participant and its server, whose connections can be cut and stalled.

A participant has a proxy of its own, so a fault concerns it alone. A stalled connection stays open, and nothing passes,
as with a network that loses everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Final

CHUNK: Final = 64 * 1024
"""Bytes forwarded at once."""


class Proxies:
    """Event loop of all proxies, on a thread of its own; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def to(self, port: int) -> Proxy:
        """A proxy to a server on this machine."""
        made = Proxy(self, port)
        self.run(made.listen())
        return made

    def run(self, task: Coroutine[Any, Any, None]) -> None:
        """Run a task on the loop, and wait for its end."""
        asyncio.run_coroutine_threadsafe(task, self._loop).result(10)

    def __enter__(self) -> Proxies:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _cancel(self) -> None:
        """End all connections."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Proxy:
    """Proxy to a server; `port` is its own."""

    def __init__(self, proxies: Proxies, target: int) -> None:
        self.port = 0
        self._proxies = proxies
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def url(self) -> str:
        """URL for a participant."""
        return f"mqtt://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Cut all connections; new ones are accepted at once."""
        self._proxies.run(self._cut())

    def stall(self) -> None:
        """Let nothing pass, on new connections neither, until `flow`."""
        self._proxies.run(self._set(flows=False))

    def flow(self) -> None:
        """End a stall; what has waited passes."""
        self._proxies.run(self._set(flows=True))

    async def listen(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _set(self, *, flows: bool) -> None:
        if flows:
            self._flows.set()
        else:
            self._flows.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        # A cancelled handler of a server would be logged.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        self._writers -= {writer, back}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
        # One end is gone, and so is the other.
        writer.transport.abort()

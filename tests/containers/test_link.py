"""Wide-area links of the deployment: latency and bandwidth of a direction, and bytes that arrive as they were sent."""

from __future__ import annotations

import asyncio
import importlib.util
from types import ModuleType

import pytest

from tests.support.docker_engine import FOLDER


@pytest.fixture(scope="module")
def link() -> ModuleType:
    spec = importlib.util.spec_from_file_location("link", FOLDER / "link.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "link", module)
        spec.loader.exec_module(module)
    return module


def test_connections_share_the_bandwidth_of_a_direction(link: ModuleType) -> None:
    direction = link.Direction(latency=2.0, bandwidth=100)
    assert direction.arrival(50, now=10.0) == 12.5
    assert direction.arrival(100, now=10.0) == 13.5
    # The link is free again at 11.5.
    assert direction.arrival(10, now=20.0) == 22.1
    unlimited = link.Direction(latency=2.0, bandwidth=None)
    assert [unlimited.arrival(10**9, now=1.0) for _ in range(2)] == [3.0, 3.0]


def test_bytes_arrive_in_order_and_the_end_after_them(link: ModuleType) -> None:
    sent = bytes(range(256)) * 4096  # more than waits at once: the sender is held back meanwhile

    async def main() -> bytes:
        received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.set_result(await reader.read(-1))
            writer.close()

        async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            _, on = await asyncio.open_connection("127.0.0.1", target)
            on.write(b"")
            await link.Direction(0.005, 200e6).forward(reader, on)
            writer.close()

        async with (
            await asyncio.start_server(sink, "127.0.0.1", 0) as last,
            await asyncio.start_server(through, "127.0.0.1", 0) as middle,
        ):
            target = last.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", middle.sockets[0].getsockname()[1])
            writer.write(sent * 3)
            writer.write_eof()
            return await asyncio.wait_for(received, 30)

    assert asyncio.run(main()) == sent * 3


def test_reset_connection_ends_its_other_half(link: ModuleType) -> None:
    async def main() -> bytes:
        async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()
            await link.Direction(0.0, None).forward(reader, onward)
            done.set()

        async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sinks.append(reader)
            arrived.set()

        done, arrived = asyncio.Event(), asyncio.Event()
        sinks: list[asyncio.StreamReader] = []
        async with (
            await asyncio.start_server(sink, "127.0.0.1", 0) as last,
            await asyncio.start_server(through, "127.0.0.1", 0) as middle,
        ):
            _, onward = await asyncio.open_connection("127.0.0.1", last.sockets[0].getsockname()[1])
            await arrived.wait()
            _, writer = await asyncio.open_connection("127.0.0.1", middle.sockets[0].getsockname()[1])
            await asyncio.wait_for(done.wait(), 10)
            writer.close()
            try:
                return await asyncio.wait_for(sinks[0].read(1), 10)
            except ConnectionResetError:
                return b""

    assert asyncio.run(main()) == b""

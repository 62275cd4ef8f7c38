"""The bus on asyncio itself: no threads, waiting tasks and their cancellation, and a pool of connections."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.bus import AsyncBus, BusState, Failure, Message
from distced.middleware.bus.asyncio_loop import AsyncioCondition
from distced.middleware.bus.pool import AsyncConnections
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import BusError

pytestmark = pytest.mark.mqtt

MakeImpostor = Callable[[Callable[[socket.socket], object]], Any]
NOWHERE = "mqtt://127.0.0.1:9"


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on an event loop of its own, failing on exceptions that nothing took."""
    unhandled: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        async with asyncio.timeout(60):
            await test

    asyncio.run(watched())
    assert not unhandled


async def until(holds: Callable[[], bool], timeout: float = 10.0) -> None:
    async with asyncio.timeout(timeout):
        while not holds():
            await asyncio.sleep(0.005)


# Threads


def test_bus_on_asyncio_starts_no_thread(mosquitto: Server, root: str) -> None:
    async def test() -> None:
        before = threading.active_count()
        got: list[bytes] = []
        threads: set[int] = set()

        def handle(topic: str, payload: bytes, retain: bool) -> None:
            threads.add(threading.get_ident())
            got.append(payload)

        async with AsyncBus(mosquitto.url) as bus, AsyncBus(NOWHERE, first_delay=0.01) as other:
            await bus.wait_connected()
            await bus.subscribe(f"{root}/a", handle, qos=1)
            for number in range(300):
                await bus.publish(f"{root}/a", b"%d" % number, qos=1)
            assert await bus.flush()
            await until(lambda: len(got) == 300 and other.statistics.attempts_failed > 3)
            assert threading.active_count() == before
        assert got == [b"%d" % number for number in range(300)]
        assert threads == {threading.get_ident()}
        assert bus.state is other.state is BusState.STOPPED
        await until(lambda: len(asyncio.all_tasks()) == 1)

    run(test())


def test_host_names_are_looked_up(mosquitto: Server, root: str) -> None:
    async def test() -> None:
        async with AsyncBus(f"mqtt://localhost:{mosquitto.port}") as bus:
            await bus.wait_connected()
        async with AsyncBus("mqtt://no-such-host.invalid") as bus:
            with pytest.raises(BusError, match="no host of this name"):
                await bus.wait_connected(2)

    run(test())


def test_confirmation_comes_without_a_pause(mosquitto: Server, root: str) -> None:
    """What is handed over between two turns of the bus is written at once, not with the next timer."""

    async def test() -> None:
        async with AsyncBus(mosquitto.url) as bus:
            await bus.wait_connected()
            start = asyncio.get_running_loop().time()
            for number in range(20):
                await bus.subscribe(f"{root}/{number}", print)
            assert asyncio.get_running_loop().time() - start < 2.0

    run(test())


# Waiting and cancellation


def test_publisher_waits_for_room_and_can_be_cancelled() -> None:
    async def test() -> None:
        bus = AsyncBus(NOWHERE, max_queued=2)
        bus.start_nowait()
        for number in range(2):
            await bus.publish("a", b"%d" % number)
        with pytest.raises(BusError, match="too many messages"):
            bus.publish_nowait("a", b"2")
        with pytest.raises(BusError, match="too many messages"):
            await bus.publish("a", b"2", timeout=0.02)
        waiting = asyncio.create_task(bus.publish("a", b"3", timeout=60))
        stopped = asyncio.create_task(bus.publish("a", b"4", timeout=60))
        await asyncio.sleep(0.02)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not stopped.done()
        await bus.stop()
        with pytest.raises(BusError, match="the bus is stopped"):
            await stopped
        assert bus.statistics.dropped == 2
        assert bus.statistics.refused == 2

    run(test())


def test_publishers_share_a_small_outbox_and_keep_their_order(mosquitto: Server, root: str) -> None:
    async def test() -> None:
        got: list[tuple[str, bytes]] = []
        async with AsyncBus(mosquitto.url, max_queued=5) as bus:
            await bus.wait_connected()
            await bus.subscribe(f"{root}/+", lambda topic, payload, retain: got.append((topic[-1], payload)), qos=1)

            async def publish(name: str) -> None:
                for number in range(100):
                    await bus.publish(f"{root}/{name}", b"%d" % number, qos=1)

            await asyncio.gather(*(publish(name) for name in "abc"))
            await until(lambda: len(got) == 300)
        for name in "abc":
            assert [payload for topic, payload in got if topic == name] == [b"%d" % number for number in range(100)]

    run(test())


@pytest.mark.parametrize(
    "wait",
    [
        lambda bus: bus.wait_connected(60),
        lambda bus: bus.subscribe("a", print, timeout=60),
        lambda bus: bus.flush(60),
    ],
    ids=["wait_connected", "subscribe", "flush"],
)
def test_waiting_task_can_be_cancelled(wait: Callable[[AsyncBus], Awaitable[None]]) -> None:
    async def test() -> None:
        async with AsyncBus(NOWHERE, first_delay=0.01) as bus:
            await bus.publish("a", b"")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await wait(bus)
            assert bus.state in (BusState.CONNECTING, BusState.WAITING)

    run(test())


def test_subscription_stands_though_its_confirmation_was_not_awaited(impostor: MakeImpostor) -> None:
    """A confirmation and a refusal that come after the cancellation find no task, and do no harm."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"\x20\x03\x00\x00\x00")
        first = connection.recv(1000)
        threading.Event().wait(0.2)
        connection.sendall(b"\x90\x04" + first[2:4] + b"\x00\x87\x30\x05\x00\x01a\x00x")
        connection.recv(1000)

    async def test() -> None:
        failures: list[Failure] = []
        got: list[bytes] = []
        with impostor(serve) as server:
            async with AsyncBus(server.url, on_failure=failures.append) as bus:
                await bus.wait_connected()
                with pytest.raises(BusError, match="has not confirmed"):
                    await bus.subscribe("a", lambda topic, payload, retain: got.append(payload), timeout=0.05)
                await until(lambda: len(got) == 1)
                await until(lambda: [one.what for one in failures] == ["subscribe"])

    run(test())


def test_cancelled_stop_ends_the_bus(mosquitto: Server) -> None:
    async def test() -> None:
        bus = AsyncBus(mosquitto.url, max_inflight=1)
        await bus.start()
        for _ in range(50):
            bus.publish_nowait("a", bytes(1000), qos=1)
        stopping = asyncio.create_task(bus.stop(60))
        await asyncio.sleep(0)
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            await stopping
        assert bus.state is BusState.STOPPED
        assert bus.statistics.dropped > 0

    run(test())


def test_bus_that_never_ran_is_stopped() -> None:
    async def test() -> None:
        bus = AsyncBus(NOWHERE)
        await bus.stop()
        assert bus.state is BusState.STOPPED
        with pytest.raises(BusError, match="started once"):
            bus.start_nowait()

    run(test())


def test_opening_in_progress_is_closed_by_stop() -> None:
    async def test() -> None:
        # A server that never takes a connection off its full queue does not answer.
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
            bus = AsyncBus(f"mqtt://127.0.0.1:{full.getsockname()[1]}")
            bus.start_nowait()
            await until(lambda: len(asyncio.all_tasks()) == 2)
            await bus.stop()
            await until(lambda: len(asyncio.all_tasks()) == 1)

    run(test())


def test_condition_wakes_tasks_when_it_holds() -> None:
    async def test() -> None:
        condition, items = AsyncioCondition(), list[int]()
        assert not await condition.wait_for(lambda: bool(items), 0.01)
        waiting = [asyncio.create_task(condition.wait_for(lambda: len(items) > 1, 10)) for _ in range(3)]
        for number in range(2):
            await asyncio.sleep(0)
            items.append(number)
            condition.notify_all()
        assert await asyncio.gather(*waiting) == [True] * 3

    run(test())


# Reconnection


def test_bus_reconnects_and_other_sockets_of_the_event_loop_are_left_alone(
    start_mosquitto: Callable[..., Server],
) -> None:
    """A closed socket's number goes to the next one opened, which must not be mistaken for the old one."""

    async def test() -> None:
        server = start_mosquitto()
        got: list[bytes] = []
        bus = AsyncBus(server.url, longest_delay=0.1)
        bus.subscribe_nowait("a", lambda topic, payload, retain: got.append(payload), qos=1)
        await bus.start()
        echo = await asyncio.start_server(lambda reader, writer: writer.write(b"hello"), "127.0.0.1", 0)
        server.stop()
        await until(lambda: bus.state is BusState.WAITING)
        for _ in range(5):
            reader, writer = await asyncio.open_connection(*echo.sockets[0].getsockname())
            assert await reader.readexactly(5) == b"hello"
            writer.close()
        await bus.publish("a", b"while away", qos=1)
        start_mosquitto(port=server.port)
        await bus.wait_connected()
        await until(lambda: got == [b"while away"])
        assert bus.statistics.reconnections == 1
        echo.close()
        await bus.stop()

    run(test())


# The pool


def test_pool_on_asyncio_connects_to_homes_as_they_are_needed(
    mosquitto: Server, start_mosquitto: Callable[..., Server], root: str
) -> None:
    async def test() -> None:
        before = threading.active_count()
        other = start_mosquitto()
        states: list[tuple[str, BusState]] = []
        got: list[tuple[str, bytes]] = []
        pool = AsyncConnections(
            mosquitto.url,
            client_id=root,
            clock=SystemClock(),
            will=Message(f"{root}/will", b"gone"),
            on_state=lambda home, state, error: states.append((home, state)),
        )
        await pool.main.start()
        prepared: list[AsyncBus] = []
        far = pool.to(other.url, prepared.append)
        assert pool.to(other.url, prepared.append) is far
        assert prepared == [far]
        assert await pool.wait(other.url, 10) is None
        assert isinstance(await pool.wait(NOWHERE, 10), BusError)
        for home in ("", other.url):
            await pool.to(home).subscribe(f"{root}/a", lambda topic, payload, _, home=home: got.append((home, payload)))
        for home in ("", other.url):
            await pool.to(home).publish(f"{root}/a", home.encode())
        await until(lambda: len(got) == 2)
        assert sorted(got) == sorted((home, home.encode()) for home in ("", other.url))
        assert threading.active_count() == before
        await pool.stop(0.5)
        assert {bus.state for bus in pool.all().values()} == {BusState.STOPPED}
        assert states[-1] == ("", BusState.STOPPED)
        with pytest.raises(BusError, match="the connections are stopped"):
            pool.to("mqtt://127.0.0.1:10")

    run(test())

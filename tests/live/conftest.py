"""Real MQTT servers for tests: mosquitto on free loopback ports where it is installed, and the embedded amqtt."""

import asyncio
import importlib.util
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.middleware.bus import AsyncBus, Bus, Handler

R = TypeVar("R")

NO_MOSQUITTO = "mosquitto is neither on the PATH nor in /usr/sbin"
NO_AMQTT = "amqtt is not installed (extra: broker)"


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Server]:
    """A mosquitto in a temporary folder, shared by all tests that do not end it."""
    if find_mosquitto() is None:
        pytest.skip(NO_MOSQUITTO)
    with start_server("mosquitto") as server:
        yield server


@pytest.fixture
def start_mosquitto() -> Iterator[Callable[..., Server]]:
    """Starts a mosquitto of the test's own, with the arguments of `start_server`; ended with the test."""
    if find_mosquitto() is None:
        pytest.skip(NO_MOSQUITTO)
    started: list[Server] = []

    def start(**arguments: Any) -> Server:
        started.append(start_server("mosquitto", **arguments))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that mosquitto can read: it gives up the rights of root before it reads, and pytest's are private."""
    with tempfile.TemporaryDirectory(prefix="distced-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def amqtt() -> Iterator[Server]:
    """The embedded server, shared by all tests."""
    if importlib.util.find_spec("amqtt") is None:
        pytest.skip(NO_AMQTT)
    with start_server("amqtt") as server:
        yield server


class BusOnEventLoop:
    """An `AsyncBus` on an event loop of its own thread, with the methods of `Bus`: one test covers both loops."""

    def __init__(self, url: str, **arguments: Any) -> None:
        self._bus = AsyncBus(url, **arguments)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"bus-{self._bus.client_id}", daemon=True)
        self._stopping: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        """Properties of the bus."""
        return getattr(self._bus, name)

    def start(self) -> None:
        if not self._thread.is_alive() and self._thread.ident is None:
            self._thread.start()
        self._call(self._bus.start_nowait)

    def stop(self, timeout: float = 5.0) -> None:
        if self._here:
            self._stopping = self._loop.create_task(self._bus.stop(timeout))
        elif self._thread.is_alive():
            self._await(self._bus.stop(timeout))
        else:
            asyncio.run(self._bus.stop(timeout))

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        self._loop.close()

    def wait_connected(self, timeout: float = 10.0) -> None:
        self._await(self._bus.wait_connected(timeout))

    def publish(self, topic: str, payload: bytes, *, timeout: float = 5.0, **arguments: Any) -> None:
        if self._here:
            self._bus.publish_nowait(topic, payload, **arguments)
        else:
            self._await(self._bus.publish(topic, payload, timeout=timeout, **arguments))

    def flush(self, timeout: float = 5.0) -> bool:
        return self._await(self._bus.flush(timeout))

    def subscribe(
        self,
        topic_filter: str,
        handler: Handler,
        *,
        qos: int = 0,
        timeout: float | None = None,
        retained: bool = True,
    ) -> None:
        if timeout is None:
            self._call(lambda: self._bus.subscribe_nowait(topic_filter, handler, qos=qos))
        else:
            self._await(self._bus.subscribe(topic_filter, handler, qos=qos, timeout=timeout, retained=retained))

    def unsubscribe(self, *arguments: Any) -> None:
        self._call(lambda: self._bus.unsubscribe(*arguments))

    def acknowledge(self, mark: int) -> None:
        self._call(lambda: self._bus.acknowledge(mark))

    def call_soon(self, run: Callable[[], Any]) -> None:
        self._call(lambda: self._bus.call_soon(run))

    def call_later(self, seconds: float, run: Callable[[], Any]) -> Any:
        return self._call(lambda: self._bus.call_later(seconds, run))

    def every(self, seconds: float, run: Callable[[], Any]) -> Any:
        return self._call(lambda: self._bus.every(seconds, run))

    @property
    def _here(self) -> bool:
        return threading.current_thread() is self._thread

    def _call(self, run: Callable[[], R]) -> R:
        async def called() -> R:
            return run()

        return run() if self._here or not self._thread.is_alive() else self._await(called())

    def _await(self, coroutine: Coroutine[Any, Any, R]) -> R:
        if not self._thread.is_alive():
            return asyncio.run(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of the bus run on both loops."""
    if "bus_loop" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2].startswith("test_bus"):
        metafunc.parametrize("bus_loop", ["thread", "asyncio"], indirect=True)


@pytest.fixture
def bus_loop(request: pytest.FixtureRequest) -> str:
    """What drives the buses of a test: "thread" or "asyncio"."""
    return getattr(request, "param", "thread")


@pytest.fixture
def make_bus(bus_loop: str) -> Iterator[Callable[..., Bus]]:
    """Makes buses, prepared by `before`, connected unless `wait=False`; stopped with the test."""
    made: list[Any] = []

    def make(
        url: str, *, wait: bool = True, before: Callable[[Bus], object] = lambda bus: None, **arguments: Any
    ) -> Bus:
        bus: Any = Bus(url, **arguments) if bus_loop == "thread" else BusOnEventLoop(url, **arguments)
        made.append(bus)
        before(bus)
        bus.start()
        if wait:
            bus.wait_connected()
        return bus

    yield make
    for bus in made:
        bus.stop(timeout=0.5)
        if isinstance(bus, BusOnEventLoop):
            bus.close()


class Received(list[Any]):
    """Collects what handlers take, and waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def handler(self, topic: str, payload: bytes, retain: bool) -> None:
        """A handler that keeps topic, payload and the retain flag."""
        self.add((topic, payload, retain))

    def add(self, item: Any) -> None:
        with self._changed:
            self.append(item)
            self._changed.notify_all()

    def wait(self, count: int, timeout: float = 10.0) -> list[Any]:
        """The first items, as soon as there are `count`; fails where there are not in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self) >= count, timeout):
                pytest.fail(f"{len(self)} of {count} after {timeout} s: {self[-5:]}")
            return list(self[:count])

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload, _ in self]


@pytest.fixture
def received() -> Received:
    """A collector of messages."""
    return Received()


@pytest.fixture
def also_received() -> Received:
    """Another one."""
    return Received()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Waits until something holds, and fails the test where it does not in half a minute."""

    def wait(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not holds():
            if time.monotonic() > end:
                pytest.fail("it did not come about")
            time.sleep(0.005)

    return wait


@pytest.fixture(params=["mosquitto 5", "mosquitto 3.1.1", "amqtt auto"])
def any_bus(request: pytest.FixtureRequest, make_bus: Callable[..., Bus]) -> Callable[..., Bus]:
    """Makes buses to each kind of server, in each version of MQTT."""
    kind, protocol = request.param.split()
    server: Server = request.getfixturevalue(kind)
    return lambda **arguments: make_bus(server.url, **({"protocol": protocol} | arguments))


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, the test's own, since tests share servers."""
    return f"test{abs(hash(request.node.nodeid)):x}"


class Impostor:
    """A server on loopback that does with each connection what a test says."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listening.getsockname()[1]}"
        self._serve = serve
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    self._serve(connection)
                except OSError:
                    continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


@pytest.fixture
def impostor() -> type[Impostor]:
    """Makes servers that do what the test says; they are context managers."""
    return Impostor

"""Real MQTT servers for tests: mosquitto on free loopback ports where it is installed, and the embedded amqtt."""

import importlib.util
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.middleware.bus import Bus

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


@pytest.fixture
def make_bus() -> Iterator[Callable[..., Bus]]:
    """Makes buses, prepared by `before`, connected unless `wait=False`; stopped with the test."""
    made: list[Bus] = []

    def make(
        url: str, *, wait: bool = True, before: Callable[[Bus], object] = lambda bus: None, **arguments: Any
    ) -> Bus:
        bus = Bus(url, **arguments)
        made.append(bus)
        before(bus)
        bus.start()
        if wait:
            bus.wait_connected()
        return bus

    yield make
    for bus in made:
        bus.stop(timeout=0.5)


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
        """The first items, as soon as there are so many; fails where there are not in time."""
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
    """Waits until something holds, and fails the test where it does not in ten seconds."""

    def wait(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
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

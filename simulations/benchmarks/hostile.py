"""`distced bench hostile`: detections of honest clients beside one with valid rights and the worst intentions.

A mosquitto with the users and the access list of `distced init`, a broker node in a process of its own with the default
limits, an honest publisher and an honest subscriber, and a hostile client in a third process, which may publish events
of two types, any type, and subscribe. Each attack has a phase, before it one without an attack; events come at a steady
pace, and each is detected. The delay is from publishing to the callback. The difference of the p99 of a phase to that
of the phase before it is what the attack has cost. Every event is counted: one that is not detected is a fault, and so
is a node that does not answer.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from distced.brokers.deployment.access_list import DeployedUser
from distced.brokers.deployment.deployment_file import Deployment, ServerSite
from distced.brokers.deployment.folder import apply
from distced.brokers.live.mqtt_server import start_server
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.frames import decode
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import administration_topic, directory_topic, event_topic
from distced.simulations.benchmarks.live import PATIENCE, quieten
from distced.simulations.benchmarks.many_subscriptions import ask, host_node
from distced.simulations.plots import percentile
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

HONEST: Final = event_type("Reading", {"dev": "string", "v": "number"})
NOISE: Final = event_type("Noise", {"k": "number", "t": "string"})
PATTERN: Final = "[Reading as r] -> Seen(v = r.v)"
SOURCE, HOSTILE_SOURCE = "meter", "mallory"

WARM_UP: Final = 3.0
"""Time of events that are not measured: engines are compiled meanwhile, s."""

MOST: Final = 100.0
"""By how much the p99 of detections may exceed that without an attack, ms."""

USERS: Final = {
    "cellar": DeployedUser(("node",)),
    "badges": DeployedUser(("publisher",), sources=(SOURCE,), types=(HONEST.name,)),
    "ada": DeployedUser(("client",)),
    # A bridge may publish events of any source, and types.
    "mallory": DeployedUser(("client", "bridge")),
}


@dataclass
class Hostility:
    """Results of the benchmark.

    Attributes:
        delays: seconds from publishing to the callback, sorted, by attack: before it, and beside it.
        bare: seconds to a subscriber to the events themselves beside each attack, sorted: what server and machine
            take.
        missing: events that were not detected, by attack.
        memory: resident memory of the node after each attack, bytes.
        counts: counters of the node after each attack.
        failed: what has gone wrong.
    """

    delays: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    bare: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def difference(self, attack: str) -> float:
        """By how much the p99 beside an attack exceeds that before it, ms."""
        before, beside = self.delays[attack]
        return (percentile(beside or [0.0], 0.99) - percentile(before or [0.0], 0.99)) * 1000


class Assault:
    """Hostile client in its process: raw messages over connections that are made again when they end."""

    def __init__(self, url: str, over: Any, size: int) -> None:
        self.url = url
        self.size = size
        self._over = over
        self._client: Any = None
        self._seq = 0

    @property
    def goes_on(self) -> bool:
        return not self._over.is_set()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 0) -> None:
        if self._client is None or not self._client.is_connected():
            self._client = _raw_client(self.url)
        sent = self._client.publish(topic, payload, qos, retain=retain)
        with suppress(ValueError, RuntimeError):
            if len(payload) > 100_000:
                sent.wait_for_publish(2.0)

    def enter(self) -> None:
        """Make its entry as a client, and its types, as an honest one does."""
        self.publish(directory_topic("client", "mallory"), encode(ClientEntry(0)), retain=True, qos=1)
        self.publish(directory_topic("type", NOISE.name), encode(NOISE), retain=True, qos=1)

    def subscribe(self, number: int, pattern: str) -> None:
        entry = SubscriptionEntry("mallory", pattern, policy="best-effort")
        self.publish(directory_topic("subscription", f"mallory.{number}"), encode(entry), retain=True)

    def noise(self, count: int, text: str = "x") -> bytes:
        """Frame of n events."""
        now = time.time_ns()
        events = []
        for _ in range(count):
            self._seq += 1
            events.append(Event(NOISE.name, now, now, HOSTILE_SOURCE, self._seq, {"k": self._seq, "t": text}))
        return encode_frame(events, type=NOISE.name, source=HOSTILE_SOURCE, check=False)

    def end(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()


NOISE_TOPIC: Final = event_topic(NOISE.name, HOSTILE_SOURCE)

Attack = Callable[[Assault], None]

ATTACKS: Final[dict[str, Attack]] = {}


def attack(name: str) -> Callable[[Attack], Attack]:
    def note(function: Attack) -> Attack:
        ATTACKS[name] = function
        return function

    return note


@attack("exploding patterns")
def _exploding(assault: Assault) -> None:
    """Patterns whose instances double, pile up, and complete many matches; texts that double; long guards."""
    assault.enter()
    long = " and ".join(f"k != a.k + {each}" for each in range(300))
    kinds = (
        "init x = 0 : ([Noise set x = 2*x] | [Noise set x = 2*x + 1])+ [Reading where v < -{0}]",
        "[Noise as a] ; [Noise where k > a.k + 1000000{0}]",
        "init s = 'x{0}' : [Noise set s = s + s]+ [Reading where v < -1]",
        "[Noise as a] ; [Noise as b where b.k > {0}] -> Out(a = a.k, b = b.k)",
        "[Noise as a] ; [Noise where k < -{0} and " + long + "]",
    )
    number = 0
    while assault.goes_on:
        if number < assault.size // 1_000:
            assault.subscribe(number, kinds[number % len(kinds)].replace("{0}", str(number + 1)))
            number += 1
        assault.publish(NOISE_TOPIC, assault.noise(100))
        time.sleep(0.01)


@attack("subscriptions")
def _subscriptions(assault: Assault) -> None:
    """100,000 entries of subscriptions."""
    assault.enter()
    for number in range(assault.size):
        if not assault.goes_on:
            return
        assault.subscribe(number, f"[Reading where dev == 'h{number}' and v > 95] -> Out{number}()")


@attack("types")
def _types(assault: Assault) -> None:
    """10,000 types and more, again and again, and changed."""
    number = 0
    while assault.goes_on:
        number += 1
        made = event_type(f"T{number % (assault.size // 8)}", {f"a{each}": "number" for each in range(number % 20)})
        assault.publish(directory_topic("type", made.name), encode(made), retain=True)
        time.sleep(0.0002)


@attack("frames of 100 MB")
def _large(assault: Assault) -> None:
    assault.enter()
    payload = b"\x96\xa1e\x01" + bytes(assault.size * 1_000)
    while assault.goes_on:
        assault.publish(NOISE_TOPIC, payload)
        assault.publish(NOISE_TOPIC, payload[: 15 * 2**20])
        time.sleep(0.1)


def unpacking() -> list[bytes]:
    """Frames of up to a megabyte, which unpack to much more, or say so, or of which each event is unusable."""
    head = b"\x96\xa1e\x01\xa5Noise\xa7mallory\xc0"
    seq = iter(range(10**9))
    claims = [head + b"\xdd" + struct.pack(">I", each) + b"\x94\x01\x01\x01\x80" for each in (2**28, 2**32 - 1)]
    count = 2**20 // 8
    attributes = head + b"\x91\x94\x01\x01\x01\xdf" + struct.pack(">I", count)
    attributes += b"".join(b"\xa5%05x\xc0" % next(seq) for _ in range(count))
    rows = head + b"\xdd" + struct.pack(">I", 10_000) + b"\x94\x01\x01\x01\x80" * 10_000
    junk = head + b"\xdd" + struct.pack(">I", 10_000) + b"\x01" * 10_000
    nested = head + b"\x91\x94\x01\x01\x01\x81\xa1a" + b"\x91" * 500_000
    return [*claims, attributes[: 2**20], attributes, rows, junk, nested]


@attack("frames that unpack to much")
def _unpacking(assault: Assault) -> None:
    assault.enter()
    assault.subscribe(0, "[Noise]")
    frames = unpacking()
    while assault.goes_on:
        for each in frames:
            assault.publish(NOISE_TOPIC, each)


@attack("retained garbage")
def _garbage(assault: Assault) -> None:
    """Retained messages that make no sense, and entries of names without end."""
    number = 0
    while assault.goes_on:
        number += 1
        made = os.urandom(200) if number % 3 else b'{"types":["Noise"],"watermark":0,"publisher":"mallory"}'
        assault.publish(directory_topic("source", f"mallory-{number % assault.size}"), made, retain=True)
        if number % 50 == 0:
            time.sleep(0.005)


@attack("ids of others")
def _impostor(assault: Assault) -> None:
    """Events, promises and answers in the names of others, and their client ids."""
    assault.enter()
    now = time.time_ns()
    number = 0
    while assault.goes_on:
        number += 1
        forged = Event(HONEST.name, now, now, SOURCE, number, {"dev": "forged", "v": -1.0})
        # The access list lets a bridge publish events of any source: of a type that it has not, here.
        assault.publish(
            event_topic(NOISE.name, SOURCE),
            encode_frame([forged], type=HONEST.name, source=SOURCE, check=False),
        )
        beat = {"sources": [SOURCE], "watermark": time.time_ns() + 10**9}
        for name in ("mallory", "badges"):
            assault.publish(administration_topic("heartbeat", name), encode(beat))
        assault.publish(directory_topic("client", "ada"), b"", retain=True)
        if number % 100 == 0:
            with suppress(OSError, TimeoutError, ValueError):
                other = _raw_client(assault.url, client_id="distced-node-cellar")
                other.disconnect()
                other.loop_stop()
        time.sleep(0.002)


def measure(
    pace: int = 200,
    seconds: float = 10.0,
    size: int = 100_000,
    attacks: tuple[str, ...] = (),
    on_progress: OnProgress = no_progress,
) -> Hostility:
    """Run the benchmark on a server of its own. `size`: number of subscriptions, thousandths of the bytes of a frame,
    eight times the types, a thousand times the patterns that explode."""
    made = Hostility()
    chosen = attacks or tuple(ATTACKS)
    if unknown := [each for each in chosen if each not in ATTACKS]:
        raise DistcedError("not an attack", given=unknown[0], allowed=", ".join(ATTACKS), where="--attacks")
    for place, name in enumerate(chosen):
        on_progress(name, place, len(chosen))
        try:
            _measure(made, name, pace, seconds, size)
        except DistcedError as error:
            made.failed.append(f"{name}: {error.problem}")
    return made


def _measure(made: Hostility, name: str, pace: int, seconds: float, size: int) -> None:
    """Measure one attack, at a server and a node of its own."""
    with (
        _deployed() as urls,
        _node(urls["cellar"]) as asking,
        Client(urls["badges"], name="badges") as publisher,
        Client(urls["ada"], name="ada") as subscriber,
    ):
        subscriber.wait_for_nodes(1, PATIENCE)
        publisher.register(HONEST)
        honest = _Honest(publisher, subscriber, urls["ada"], pace, seconds)
        honest.phase(WARM_UP)
        before, missing = honest.phase()
        with _assaulting(urls["mallory"], name, size):
            beside, more = honest.phase()
            made.bare[name] = sorted(honest.bare)
        made.delays[name] = before, beside
        made.missing[name] = missing + more
        made.memory[name] = ask(asking, "memory")
        made.counts[name] = ask(asking, "counts")


@contextmanager
def _node(url: str) -> Iterator[Any]:
    """Broker node in a process of its own; asks it."""
    context = mp.get_context("spawn")
    asking, asked = context.Pipe()
    process: Any = context.Process(target=host_node, args=(url, None, asked, "cellar"), daemon=True)
    process.start()
    try:
        yield asking
    finally:
        if process.is_alive():
            asking.send("stop")
            process.join(PATIENCE)
        if process.is_alive():
            process.kill()


class _Honest:
    """Publisher at a steady pace, and subscriber."""

    def __init__(self, publisher: Client, subscriber: Client, url: str, pace: int, seconds: float) -> None:
        self.pace, self.count = pace, int(pace * seconds)
        self._source = publisher.source(SOURCE, [HONEST.name])
        self._found: dict[float, float] = {}
        self._number = 0
        # Of a subscriber to the events, without a node.
        self.bare: list[float] = []
        self._listener = _raw_client(url)
        self._listener.on_message = lambda _client, _data, message: self.bare.append(_age(message.payload))
        self._listener.subscribe(event_topic(HONEST.name, SOURCE), 0)
        subscriber.subscribe(PATTERN, lambda event: self._take(event.attributes["v"], event.hi))

    def _take(self, number: Any, at: int) -> None:
        self._found[number] = (time.time_ns() - at) / 1e9

    def phase(self, seconds: float | None = None) -> tuple[list[float], int]:
        """Delays of events, sorted, and how many were not detected."""
        self._found.clear()
        self.bare.clear()
        count = self.count if seconds is None else int(seconds * self.pace)
        began = time.perf_counter()
        for place in range(count):
            while (wait := began + place / self.pace - time.perf_counter()) > 0:
                time.sleep(wait)
            self._number += 1
            now = time.time_ns()
            event = self._source.create(HONEST.name, now, dev="meter", v=self._number)
            self._source.publish(event, watermark=now)
        end = time.perf_counter() + PATIENCE
        while len(self._found) < count and time.perf_counter() < end:
            time.sleep(0.01)
        return sorted(self._found.values()), count - len(self._found)


def _age(payload: bytes) -> float:
    return (time.time_ns() - decode(payload).events[0].hi) / 1e9


@contextmanager
def _assaulting(url: str, name: str, size: int) -> Iterator[None]:
    context = mp.get_context("spawn")
    ready, over = context.Event(), context.Event()
    process = context.Process(target=_assault, args=(url, name, size, ready, over), daemon=True)
    process.start()
    ready.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()


def _assault(url: str, name: str, size: int, ready: Any, over: Any) -> None:
    quieten()
    assault = Assault(url, over, size)
    ready.set()
    with suppress(OSError, TimeoutError):
        ATTACKS[name](assault)
    over.wait()
    assault.end()


@contextmanager
def _deployed() -> Iterator[dict[str, str]]:
    """Server with users and access list; URLs by user."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        apply(Deployment({"main": ServerSite(("127.0.0.1",))}, USERS), folder, datetime.now(UTC))
        server = folder / "servers" / "main"
        limits = [each for each in (server / "mosquitto.conf").read_text().splitlines() if "max_packet_size" in each]
        # As root, mosquitto gives up its rights otherwise, and with them those to the files.
        user = ["user root"] if os.geteuid() == 0 else []
        settings = [*user, *limits, f"password_file {server / 'users'}", f"acl_file {server / 'access'}"]
        with start_server("mosquitto", settings=settings) as running:
            yield {
                name: f"mqtt://{name}:{(folder / 'participants' / name / 'password').read_text().strip()}"
                f"@{running.host}:{running.port}"
                for name in USERS
            }


def _raw_client(url: str, client_id: str = "") -> Any:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    from distced.middleware.bus import parse_address

    address = parse_address(url)
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    client.username_pw_set(address.username, address.password)
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.connect(address.host, address.port)
    client.loop_start()
    if not connected.wait(PATIENCE):
        raise TimeoutError("no connection of the hostile client")
    return client


def report(figures: Hostility) -> Report:
    """The figures as a report."""
    rows: list[tuple[Any, ...]] = []
    faults = list(figures.failed)
    for name, (before, beside) in figures.delays.items():
        difference = figures.difference(name)
        delays = (before, beside, figures.bare[name])
        shares = [percentile(each or [0.0], share) * 1000 for each in delays for share in (0.5, 0.99)]
        rows.append((name, *shares, difference, figures.memory.get(name, 0) / 1e6))
        if figures.missing[name]:
            faults.append(f"{name}: {figures.missing[name]:,} events were not detected")
        if difference > MOST:
            faults.append(f"{name}: p99 is {difference:.0f} ms more, beyond {MOST:.0f} ms")
    columns = number_columns(
        ".1f", "before p50", "before p99", "beside p50", "beside p99", "bare p50", "bare p99", "p99 more", unit="ms"
    )
    return Report(
        "hostile",
        {"p99 more": {name: figures.difference(name) for name in figures.delays}, "counts": figures.counts},
        [ReportTable((Column("attack"), *columns, *number_columns(".0f", "memory", unit="MB")), rows, "delays")],
        [
            "delays of detections of honest clients, from publishing to the callback, before and beside each attack",
            "memory is resident memory of the node after the attack",
        ],
        faults,
    )

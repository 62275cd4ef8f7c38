"""Attacks of a client with valid rights and the worst intentions, for `distced bench hostile`.

Each is a function that goes on until it is over, in a process of its own: raw messages over connections that are made
again when they end, and, where an attack needs answers, a client as any other. The process gives way to others (nice),
as a hostile client has processors of its own: it takes what nodes, server and honest clients leave.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import ClientEntry, SubscriptionEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import administration_topic, directory_topic, event_topic
from distced.simulations.benchmarks.live import PATIENCE, quieten

HONEST: Final = event_type("Reading", {"dev": "string", "v": "number"})
NOISE: Final = event_type("Noise", {"k": "number", "t": "string"})
SOURCE, HOSTILE_SOURCE = "meter", "mallory"
NOISE_TOPIC: Final = event_topic(NOISE.name, HOSTILE_SOURCE)

GIVES_WAY: Final = 10
"""Niceness of the hostile process."""


class Assault:
    """Hostile client in its process."""

    def __init__(self, url: str, over: Any, size: int, sent: Any = None) -> None:
        """Args: sent: shared number of messages published."""
        self.url = url
        self.size = size
        self._over = over
        self._sent = sent
        self._client: Any = None
        self._seq = 0

    @property
    def goes_on(self) -> bool:
        return not self._over.is_set()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 0) -> None:
        if self._client is None or not self._client.is_connected():
            self._client = raw_client(self.url)
        sent = self._client.publish(topic, payload, qos, retain=retain)
        if self._sent is not None:
            self._sent.value += 1
        with suppress(ValueError, RuntimeError):
            if len(payload) > 100_000:
                sent.wait_for_publish(2.0)

    def enter(self) -> None:
        """Make its entry as a client, and its types, as an honest one does."""
        self.publish(directory_topic("client", "mallory"), encode(ClientEntry(0)), retain=True, qos=1)
        self.publish(directory_topic("type", NOISE.name), encode(NOISE), retain=True, qos=1)

    def subscribe(self, number: int, pattern: str) -> None:
        """Make an entry of a subscription, and await no answer: its detector is planned, and does not run."""
        entry = SubscriptionEntry("mallory", pattern, policy="best-effort")
        self.publish(directory_topic("subscription", f"mallory.{number}"), encode(entry), retain=True)

    @contextmanager
    def detecting(self, *patterns: str) -> Iterator[None]:
        """Have patterns detected, one after the other beside what follows, as an honest client does."""
        with Client(self.url, name="mallory") as client:
            client.register(NOISE)

            def ask() -> None:
                for each in patterns:
                    if not self.goes_on:
                        return
                    with suppress(DistcedError):
                        client.subscribe(each, lambda _: None, quality=QualityOfService(detection="best-effort"))

            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            yield

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
    long = " and ".join(f"k != a.k + {each}" for each in range(300))
    kinds = (
        "init x = 0 : ([Noise set x = 2*x] | [Noise set x = 2*x + 1])+ [Reading where v < -{0}]",
        "[Noise as a] ; [Noise where k > a.k + 1000000{0}]",
        "init s = 'x{0}' : [Noise set s = s + s]+ [Reading where v < -1]",
        "[Noise as a] ; [Noise as b where b.k > {0}] -> Out{0}(a = a.k, b = b.k)",
        "[Noise as a] ; [Noise where k < -{0} and " + long + "]",
    )
    numbers = range(assault.size // 1_000)
    with assault.detecting(*(kinds[each % len(kinds)].replace("{0}", str(each + 1)) for each in numbers)):
        while assault.goes_on:
            assault.publish(NOISE_TOPIC, assault.noise(100))
            time.sleep(0.01)


@attack("patterns on events of others")
def _piling_up(assault: Assault) -> None:
    """Patterns whose instances pile up with each event of the honest publisher."""
    numbers = range(assault.size // 1_000)
    with assault.detecting(*(f"[Reading as a] ; [Reading where v > a.v + {10**9 + each}]" for each in numbers)):
        while assault.goes_on:
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


@attack("frames with many events")
def _many_events(assault: Assault) -> None:
    """Frames below the limits, 25,000 events in 800 to 900 kB, of which a pattern looks at each."""
    with assault.detecting("[Noise where k < -1]", "[Noise where t == 'y']"):
        while assault.goes_on:
            assault.publish(NOISE_TOPIC, assault.noise(25_000))


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
                other = raw_client(assault.url, client_id="distced-node-cellar")
                other.disconnect()
                other.loop_stop()
        time.sleep(0.002)


def assail(url: str, name: str, size: int, sent: Any, ready: Any, over: Any) -> None:
    """Make an attack, in this process, from `ready` until it is `over`."""
    quieten()
    os.nice(GIVES_WAY)
    assault = Assault(url, over, size, sent)
    ready.set()
    with suppress(OSError, TimeoutError, DistcedError):
        ATTACKS[name](assault)
    over.wait()
    assault.end()


def raw_client(url: str, client_id: str = "") -> Any:
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

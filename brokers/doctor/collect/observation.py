"""Observation of a deployment for some seconds: its directory, entries that come and go, the clocks of its nodes, and
what the server says of itself.

Requests to nodes are repeated each second; each answer is a reading of a clock. Nothing is published but these, and the
barrier of a reader of the directory.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from distced.brokers.core.directory import Directory
from distced.brokers.core.identity import Identity, identify_topic
from distced.brokers.doctor.checks.clocks import RoundTrip
from distced.brokers.doctor.checks.namesakes import LifeSeen, taken_over
from distced.brokers.doctor.checks.running_deployment import DeploymentFacts
from distced.brokers.doctor.checks.server import DROPPED, VERSION, ServerSays
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.bus import Bus
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.server_address import server_name
from distced.middleware.wire.administration import COUNTERS
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory import KINDS
from distced.middleware.wire.topics import ROOT, Area, area_filter, directory_filter, parse_topic

ASK_EVERY: Final = 1.0
"""Interval of requests to nodes, s."""

LEAST: Final = 0.5
"""Least time for answers, s: no node is dead for having had none."""

SYS: Final = "$SYS/broker/"
_LOG: Final = f"{SYS}log/"
_LIVES: Final = ("node", "client", "recorder")


@dataclass
class Observed:
    """Facts of an observation.

    Attributes:
        lives: entries of participants as they were published, in order.
        taken: clients whose connections were taken over, by the log of the server; `logged` whether it publishes one.
        trips: round trips to nodes.
    """

    deployment: DeploymentFacts
    says: ServerSays
    lives: list[LifeSeen]
    taken: list[str]
    logged: bool
    trips: Mapping[str, list[RoundTrip]]


def observe(
    url: str,
    seconds: float,
    *,
    clock: Clock | None = None,
    root: str = ROOT,
    passed: Callable[[float], object] = lambda _: None,
) -> Observed:
    """Observe a deployment for some seconds; `passed` takes the time so far, s.

    Raises:
        BusError: no connection to its server, or a directory that cannot be read.
    """
    seconds = max(seconds, LEAST)
    taker = MessageTaker(clock or SystemClock(), root)
    with LiveDirectory(url, root=root) as reading, Bus(url) as bus:
        bus.wait_connected()
        for topic_filter in taker.filters(bus.client_id):
            # One that the user may not read gives no messages, which is a fact, too.
            with suppress(BusError):
                bus.subscribe(topic_filter, taker.take, timeout=seconds + LEAST)
        before, _ = reading.look(_counts)
        taker.begin()
        began = time.monotonic()
        while (gone := time.monotonic() - began) < seconds:
            for node in reading.look(lambda directory: sorted(directory.nodes))[0]:
                taker.asked(node)
                with suppress(DistcedError):
                    bus.publish(identify_topic(node, bus.client_id, root=root), b"")
            passed(gone)
            time.sleep(min(ASK_EVERY, max(seconds - gone, 0.0)))
        passed(seconds)
        directory, state = reading.look(lambda directory: directory)
    # Nothing changes it any more.
    return taker.observed(directory, server_name(url), before, state.unreadable, seconds)


def _counts(directory: Directory) -> dict[str, dict[str, int]]:
    return {name: dict(entry.counts) for name, entry in directory.nodes.items()}


class MessageTaker:
    """Taker of messages, on the thread of a bus."""

    def __init__(self, clock: Clock, root: str) -> None:
        self._clock, self._root = clock, root
        self._turn = threading.Lock()
        self._lives: list[LifeSeen] = []
        self._active: set[str] = set()
        self._observing = False
        self._sent: dict[str, int] = {}
        self._identities: dict[str, Identity] = {}
        self._trips: dict[str, list[RoundTrip]] = defaultdict(list)
        self._first: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._taken: list[str] = []
        self._logged = False

    def filters(self, asker: str) -> list[str]:
        """Filters of what is taken."""
        return [
            *(directory_filter(kind, root=self._root) for kind in (*_LIVES, "load")),
            area_filter(Area.ADMINISTRATION, "identity", asker, root=self._root),
            area_filter(Area.ADMINISTRATION, COUNTERS, root=self._root),
            *(f"{SYS}{each}" for each in (VERSION, DROPPED)),
            f"{_LOG}N",
            f"{_LOG}E",
        ]

    def begin(self) -> None:
        """Begin to observe: what came before was retained."""
        with self._turn:
            self._observing = True

    def asked(self, node: str) -> None:
        """Note a request to a node, which is sent now."""
        with self._turn:
            self._sent[node] = self._clock.now()

    def take(self, topic: str, payload: bytes, retain: bool) -> None:
        """Take a message; what makes no sense is left to the reader of the directory."""
        now = self._clock.now()
        with self._turn, suppress(DistcedError):
            if topic.startswith(SYS):
                self._said(topic.removeprefix(SYS), payload.decode(errors="replace"))
                return
            area, levels = parse_topic(topic, root=self._root)
            if area is Area.ADMINISTRATION and levels[0] == COUNTERS:
                self._says(levels[-1], payload, retained=retain)
            elif area is Area.ADMINISTRATION:
                self._identified(levels[-1], decode(payload, Identity, where=topic), now)
            elif len(levels) == 2:
                self._entry(*levels, payload, topic, retained=retain)

    def _said(self, topic: str, text: str) -> None:
        if topic.startswith("log/"):
            self._logged = True
            client = taken_over(text)
            if client is not None:
                self._taken.append(client)
            return
        self._first.setdefault(topic, text)
        self._last[topic] = text

    def _identified(self, node: str, identity: Identity, now: int) -> None:
        self._identities[node] = identity
        sent = self._sent.pop(node, None)
        if sent is not None:
            self._trips[node].append(RoundTrip(sent, identity.at, now))

    def _says(self, node: str, payload: bytes, *, retained: bool) -> None:
        """Note a sign of life of a node."""
        if self._observing and payload and not retained:
            self._active.add(node)

    def _entry(self, kind: str, name: str, payload: bytes, topic: str, *, retained: bool) -> None:
        if kind in ("node", "load"):
            self._says(name, payload, retained=retained)
        if kind in _LIVES:
            since = decode(payload, KINDS[kind], where=topic).since if payload else None  # type: ignore[attr-defined]
            self._lives.append(LifeSeen(kind, name, since))

    def observed(
        self,
        directory: Directory,
        server: str,
        before: Mapping[str, Mapping[str, int]],
        unreadable: tuple[str, ...],
        seconds: float,
    ) -> Observed:
        """Facts so far."""
        with self._turn:
            deployment = DeploymentFacts(
                directory, server, self._clock.now(), unreadable, before, dict(self._identities),
                frozenset(self._active), seconds,
            )  # fmt: skip
            says = ServerSays(dict(self._first), dict(self._last))
            trips = {node: list(each) for node, each in self._trips.items()}
            return Observed(deployment, says, list(self._lives), list(self._taken), self._logged, trips)

"""Live drivers of observers: the directory reader of verbs, and the activity log of `distced broker`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self, TypeVar

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect
from distced.brokers.inspect.activity import Watch
from distced.brokers.inspect.directory_reader import DirectoryReader, ViewState
from distced.brokers.live.participant import Participant
from distced.middleware.bus import Bus
from distced.middleware.bus.access import participant_name
from distced.middleware.bus.logger import Logger
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.wire.mqtt_effects import Note
from distced.middleware.wire.topics import ROOT

ANSWER_WITHIN: Final = 4.0
"""Time for a server to answer, s."""

T = TypeVar("T")


class LiveDirectory(Participant):
    """Directory of a server, read and kept up to date; its state shows a lost connection."""

    log = None

    def __init__(self, url: str, *, settings: Sequence[str] = (), root: str = ROOT) -> None:
        """Describe a view; nothing happens before `start`. `settings` are those of `DirectoryReader`."""
        name = _observer()
        self._reader = DirectoryReader(name, of=participant_name(url), settings=settings, root=root)
        super().__init__(url, name, client_id=name)
        self._changed = threading.Condition(self._turn)

    def start(self, timeout: float = ANSWER_WITHIN) -> Self:
        """Connect and read; raise `BusError` where that takes longer than `timeout` seconds."""
        return super().start(timeout)

    def look(self, see: Callable[[Directory], T]) -> tuple[T, ViewState]:
        """Result of a function of the present directory, and the state of the view."""
        with self._turn:
            return see(self._reader.directory), self._reader.state

    def settings(self) -> dict[tuple[str, ...], bytes]:
        """Retained messages of administration, by levels."""
        with self._turn:
            return dict(self._reader.settings)

    def wait(self, state: ViewState, timeout: float | None) -> None:
        """Wait for a change, up to `timeout` seconds; None for ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._reader.state.version != state.version, timeout)

    def publish(self, messages: Mapping[str, bytes], *, retain: bool = True) -> None:
        """Publish messages, by topic; raise `BusError` where the server does not acknowledge them."""
        publish_all(self.bus, messages, retain=retain)

    def _wait_ready(self, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._reader.known, timeout):
                where = str(self.bus.address)
                raise BusError("the directory could not be read", given=f"after {timeout} s", where=where)

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[Effect]:
        return self._reader.start(now)

    def _disconnected(self, home: str, now: int, error: BusError | None) -> None:
        self._reader.lost(str(error))
        self._changed.notify_all()

    def _message(self, home: str, topic: str, payload: bytes, now: int) -> list[Effect]:
        self._reader.receive(topic, payload)
        self._changed.notify_all()
        return []

    def _time(self, now: int) -> list[Effect]:
        return self._reader.tick(now) if self.bus.connected else []


class LiveWatch(Participant):
    """Log of the activity of a system; at the end it clears entries of nodes, which may have been killed."""

    role = ""
    tick_every = 1.0

    def __init__(self, url: str, nodes: Iterable[str], log: Logger, heard: Iterable[str] = ()) -> None:
        """Describe a log by `log`; the entries of `nodes` are cleared at the end. `heard`: nodes that log their
        detectors into the same stream."""
        self.watch = Watch(SystemClock().now(), heard=frozenset(heard))
        self.log = log
        self._nodes = tuple(nodes)
        super().__init__(url, "", client_id=_observer())

    def start(self, timeout: float = ANSWER_WITHIN) -> Self:
        """Connect; raise `BusError` where that takes longer than `timeout` seconds."""
        return super().start(timeout)

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[Effect]:
        return self.watch.start()

    def _message(self, home: str, topic: str, payload: bytes, now: int) -> list[Note]:
        return self.watch.receive(topic, payload)

    def _time(self, now: int) -> list[Note]:
        return self.watch.tick(now)

    def _end(self, now: int) -> list[Effect]:
        return self.watch.clear(self._nodes)


def publish_entries(url: str, entries: Mapping[str, bytes]) -> None:
    """Publish retained entries of the directory, by topic; raise `BusError` without an acknowledgement."""
    with Bus(url) as bus:
        bus.wait_connected(ANSWER_WITHIN)
        publish_all(bus, entries)


def publish_all(bus: Bus, messages: Mapping[str, bytes], *, retain: bool = True) -> None:
    """Publish messages, by topic; raise `BusError` where the server does not acknowledge them."""
    for topic, payload in messages.items():
        bus.publish(topic, payload, qos=1, retain=retain)
    if not bus.flush(ANSWER_WITHIN):
        raise BusError("the server has not acknowledged", given=", ".join(messages), where=str(bus.address))


def _observer() -> str:
    """Unique client id."""
    return f"distced-{uuid.uuid4().hex[:12]}"

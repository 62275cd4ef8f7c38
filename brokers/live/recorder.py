"""A recorder live: MQTT buses bring messages and time, and the journal and the history take what it says.

Nothing is decided here. A message is acknowledged when the journal that holds what it led to is on the disk; messages
that come together share that. The server keeps a session for the recorder, so that one that is started again under its
name, with its history, goes on where it was. Its id at the server is made up once and stands in the journal: another
recorder of the name, with another history, is another client.

Where the history cannot be written, the disk being full for example, nothing is given up: what was to be written is
tried again, and nothing is acknowledged that the journal has no room for.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import structlog

from distced.brokers.core.effects import Note, Publish, Subscribe, Unsubscribe
from distced.brokers.live.node import Outlet
from distced.brokers.live.recorder_journal import Journal, sync_path
from distced.brokers.recorder.effects import Append, Wish, Write
from distced.brokers.recorder.recorder import Recorder
from distced.brokers.recorder.state import Batch, Keeper, decode_operation
from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.bus.pool import Connections, home_name
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.late_events import write_late
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError, DistcedError, HistoryError
from distced.middleware.model.timestamps import DAY, MINUTE, SECOND, format_instant
from distced.middleware.wire.directory_entries import RECORDER
from distced.middleware.wire.topics import ROOT

TICK: Final = 0.1

LONGEST: Final = 2**32 - 1
"""The greatest number of seconds that MQTT has for a session: for ever."""

AGAIN_EVERY: Final = 10 * SECOND
"""How often it is tried again to write what could not be written, ns."""

_log = structlog.get_logger("distced.recorder")


class _Kept(msgspec.Struct, array_like=True):
    """What is in the journal.

    Attributes:
        client_id: who the recorder is to servers.
        state: what it remembers.
    """

    client_id: str
    state: bytes


class LiveRecorder:
    """A recorder with its connections and its history; a context manager, or `start` and `stop`.

    Attributes:
        recorder: the recorder.
        history: the folder of the history.
        problem: why something could not be written; None where all was.
        files: how many files were written.
        resumed: whether it goes on from what an earlier life remembered.
    """

    def __init__(
        self,
        url: str,
        history: Path | str,
        name: str,
        *,
        types: Iterable[str] | None,
        home: str = "",
        flush_every: int = MINUTE,
        flush_events: int = 100_000,
        keep: int = DAY,
        clock: Clock | None = None,
        root: str = ROOT,
    ) -> None:
        """Open the history and the journal; what the journal says is written and is not yet there is written now.

        Args:
            url: the MQTT server of the directory.
            history: a history, or a new or empty folder.
            name: unlike all other recorders; who goes on under it goes on with its journal.
            types: the types to record; None for all.
            home: the MQTT server of the recorder's site; empty where that is the same.
            keep: how long servers keep messages while the recorder is away, ns; 0 for not at all.

        Raises:
            HistoryError: for what is no history, another recorder of the name at work, a journal that cannot be read.
            BusError: for what is no URL of a server.
        """
        types = None if types is None else tuple(types)
        self.clock = clock or SystemClock()
        self.history = Path(history)
        self.problem: HistoryError | None = None
        self.files = 0
        self._name = name
        # The name is checked, and the folder made a history.
        HistoryWriter(self.history, name)
        home_name(home, url)
        self._journal = Journal(self.history, name)
        self.resumed = self._journal.state is not None
        self._unwritten: list[Batch] = []
        # Whether something was since the journal was renewed.
        self._wrote = False
        self._again_at = 0
        self._noted: tuple[Any, ...] | None = None
        try:
            keeper, self._earlier = self._remembered(types)
            self.recorder = Recorder(
                name,
                self.clock.now(),
                keeper,
                types=types,
                flush_every=flush_every,
                flush_events=flush_events,
                root=root,
                home=home_name(home, url),
            )
            will = self.recorder.will()
            self.connections = Connections(
                url,
                home,
                client_id=self._client_id,
                clock=self.clock,
                will=Message(will.topic, will.payload, will.qos, will.retain),
                on_state=self._state_changed,
                # Whole seconds, and not less than asked for.
                session_expiry=min(-(-keep // SECOND), LONGEST),
                hold_acknowledgements=True,
            )
        except DistcedError:
            self._journal.close()
            raise
        self.bus = self.connections.main
        # The buses take turns with the recorder.
        self._turn = threading.Lock()
        self._outlets: dict[str, Outlet] = {}
        self._settling: set[str] = set()
        # Of which nothing could be acknowledged, as the journal could not be written.
        self._unsettled: set[str] = set()
        self._unusable: set[str] = set()
        self._lost: set[str] = set()
        self._started = self._stopped = False

    def start(self, timeout: float = 10.0) -> None:
        """Connect and begin; raise `BusError` where that does not come about in so many seconds."""
        self._outlets[""] = Outlet("", self.bus, partial(self._receive, ""))
        # What the server has kept comes as soon as it accepts.
        with self._turn:
            self._hand_out(self.recorder.begin(self.clock.now(), *self._earlier))
        self._outlets[""].drain()
        self.bus.start()
        self._started = True
        try:
            self.bus.wait_connected(timeout)
        except BusError:
            self.connections.stop(0.0)
            self._journal.close()
            raise
        self.bus.every(TICK, self._tick)

    def stop(self) -> None:
        """Write what is stable, acknowledge what is kept, and disconnect."""
        if self._stopped:
            return
        self._stopped = True
        if not self._started:
            self._journal.close()
            return
        _wait_for(self.bus, lambda: self._decide("", lambda: self.recorder.stop(self.clock.now())), 60.0)
        for home, bus in self.connections.all().items():
            _wait_for(bus, partial(self._settle, home, bus), 5.0)
        self.connections.stop()
        self._journal.close()

    def wait_announced(self, timeout: float) -> bool:
        """Wait up to so many seconds until it is in the directory, and sources wait for it; whether it is."""
        end = time.monotonic() + timeout
        while not self.recorder.announced and time.monotonic() < end:
            time.sleep(0.01)
        return self.recorder.announced

    def status(self) -> dict[str, Any]:
        """How it goes."""
        with self._turn:
            status = self.recorder.status()
            # What was to be written and could not be waits on.
            waiting = sum(len(each.events) for each in self._unwritten)
            status["written"] -= waiting
            status["waiting"] += waiting
            problem = None if self.problem is None else str(self.problem)
            return {**status, "files": self.files, "connected": self.bus.connected, "problem": problem}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What is remembered.

    def _remembered(self, types: Iterable[str] | None) -> tuple[Keeper, tuple[int | None, RecorderNote | None]]:
        """What an earlier life remembered, done again. Where nothing is left of that: how far the history is, and what
        a recorder of this name has noted there."""
        keeper, journal = Keeper(), self._journal
        if journal.state is None:
            self._client_id = f"distced-{RECORDER}{self._name}-{uuid.uuid4().hex[:8]}"
            journal.renew(self._packed(keeper))
            history = History(self.history)
            until = history.until(types)
            if until is not None and until > self.clock.now():
                note = "the history is ahead of the clock: what happens until then is taken for late"
                _log.warning(note, history=str(self.history), until=format_instant(until))
            return keeper, (until, history.recorders.get(self._name))
        try:
            kept = msgspec.msgpack.decode(journal.state, type=_Kept)
            self._client_id = kept.client_id
            keeper.resume(kept.state)
            for each in journal.operations:
                batch = keeper.apply(decode_operation(each))
                if batch is not None:
                    # Perhaps again, which makes the same files.
                    self._write_batch(batch)
        except msgspec.DecodeError as error:
            raise HistoryError("a journal that cannot be read", given=str(journal.path), advice=str(error)) from None
        journal.operations.clear()
        if journal.cut_off:
            _log.warning("the end of the journal was not whole, and comes again", bytes=journal.cut_off)
        keeper.counts = dict.fromkeys(keeper.counts, 0)
        return keeper, (None, None)

    def _packed(self, keeper: Keeper) -> bytes:
        return msgspec.msgpack.encode(_Kept(self._client_id, keeper.state()))

    # Writing.

    def _write(self, batch: Batch) -> None:
        """Write a batch, behind those that could not be written before."""
        self._unwritten.append(batch)
        self._write_all()

    def _write_all(self) -> None:
        try:
            # That it is to be written has to be kept before anything of it is there.
            self._journal.sync()
            while self._unwritten:
                self._write_batch(self._unwritten[0])
                del self._unwritten[0]
            keeper = self.recorder.keeper
            if not keeper.stable and not keeper.late and (self._wrote or self._journal.grown):
                self._journal.renew(self._packed(keeper))
                self._wrote = False
            self.problem = None
        except HistoryError as error:
            self._failed(error)

    def _write_batch(self, batch: Batch) -> None:
        writer = HistoryWriter(self.history, self._name, batch.types)
        made = writer.write(batch.events, batch.watermark)
        self.files += len(made)
        late = write_late(self.history, self._name, batch.late)
        if late is not None:
            made.append(late)
        noted = (batch.names, batch.watermark, batch.since, batch.gaps)
        if noted != self._noted:
            made.append(writer.note(*noted))
            self._noted = noted
        try:
            for path in {*made, *(each.parent for each in made), *(each.parent.parent for each in made), self.history}:
                sync_path(path)
        except OSError as error:
            raise HistoryError("cannot write the history", given=str(self.history), advice=str(error)) from None
        self._wrote |= bool(batch.events or batch.late)

    def _failed(self, error: HistoryError) -> None:
        if self.problem is None:
            _log.error("what is recorded cannot be written, and is tried again", reason=str(error))
        self.problem = error
        self._again_at = self.clock.now() + AGAIN_EVERY

    # On the threads of the buses.

    def _state_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        where = {"home": home} if home else {}
        now = self.clock.now()
        if state is BusState.CONNECTED:
            if home in self._lost:
                self._lost.discard(home)
                _log.info("connected again", recorder=self._name, **where)
            resumed = self.connections.to(home).resumed
            if home:
                self._decide(home, lambda: self.recorder.linked(home, now, resumed=resumed))
            else:
                self._decide("", lambda: self.recorder.connected(now, resumed=resumed))
        elif state is BusState.WAITING:
            with self._turn:
                self.recorder.lost(home, now)
            if home not in self._lost and not self._stopped:
                self._lost.add(home)
                _log.warning("connection lost", recorder=self._name, reason=str(error), **where)

    def _receive(self, home: str, topic: str, payload: bytes, retain: bool) -> None:
        self._decide(home, lambda: self.recorder.receive(topic, payload, self.clock.now(), home))
        if home not in self._settling:
            self._settling.add(home)
            bus = self._outlets[home].bus
            # Behind all that has come together with it.
            bus.call_soon(lambda: self._settle(home, bus))

    def _settle(self, home: str, bus: Bus) -> None:
        """Acknowledge what was handled, when the journal has what it led to."""
        mark = bus.mark
        with self._turn:
            self._settling.discard(home)
            try:
                self._journal.sync()
            except HistoryError as error:
                self._failed(error)
                self._unsettled.add(home)
                return
            self._unsettled.discard(home)
        bus.acknowledge(mark)

    def _tick(self) -> None:
        if self._stopped:
            return
        self._decide("", lambda: self.recorder.tick(self.clock.now()))
        if self.problem is not None and self.clock.now() >= self._again_at:
            with self._turn:
                self._write_all()
        # The server may send nothing more before, so that nothing else would.
        if self.problem is None and self._unsettled:
            for home, bus in self.connections.all().items():
                bus.call_soon(partial(self._settle, home, bus))

    def _decide(self, here: str, decide: Callable[[], Iterable[Wish]]) -> None:
        """Let the recorder decide, on the thread of the bus to `here`, and have done what it says."""
        with self._turn:
            outlets = self._hand_out(decide())
        for home, outlet in outlets.items():
            if home == here:
                outlet.drain()
            else:
                outlet.bus.call_soon(outlet.drain)

    def _hand_out(self, wishes: Iterable[Wish]) -> dict[str, Outlet]:
        outlets: dict[str, Outlet] = {}
        for wish in wishes:
            match wish:
                case Append(operation=operation):
                    self._journal.append(operation)
                case Write(batch=batch):
                    self._write(batch)
                case Note():
                    getattr(_log, wish.level)(wish.event, recorder=self._name, **wish.fields)
                case Publish() | Subscribe() | Unsubscribe():
                    outlet = self._outlets.get(wish.home) or self._open(wish.home)
                    if outlet is not None:
                        outlet.waiting.append(wish)
                        outlets[wish.home] = outlet
        return outlets

    def _open(self, home: str) -> Outlet | None:
        """The outlet to a home that nothing was done at so far; None for one that is none."""
        made: list[Outlet] = []

        def prepare(bus: Bus) -> None:
            made.append(Outlet(home, bus, partial(self._receive, home)))
            self._outlets[home] = made[0]
            # What its server has kept comes as soon as it accepts.
            made[0].waiting.extend(Subscribe(topic, home=home) for topic in self.recorder.filters(home))
            made[0].drain()

        try:
            self.connections.to(home, prepare)
        except BusError as error:
            if home not in self._unusable:
                self._unusable.add(home)
                _log.warning("no server to speak to", recorder=self._name, home=home, reason=str(error))
            return None
        return made[0]


def _wait_for(bus: Bus, run: Callable[[], object], timeout: float) -> None:
    """Run something on the thread of a bus, and wait up to so many seconds until that is done."""
    done = threading.Event()

    def both() -> None:
        try:
            run()
        finally:
            done.set()

    bus.call_soon(both)
    done.wait(timeout)

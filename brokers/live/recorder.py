"""Live driver of a recorder: its journal and history beside the connections.

A message is acknowledged when the journal with its operations is on the disk; messages that arrive together share one
sync. The server keeps a session, so a recorder restarted under its name, with its history, continues; the random client
id in the journal distinguishes recorders of one name with other histories. A failed write (disk full) is repeated;
until then no message is acknowledged.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from distced.brokers.core.effects import Subscribe
from distced.brokers.core.metrics import Delays, Values, put
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.participant import Participant
from distced.brokers.live.recorder_journal import Journal, sync_path
from distced.brokers.recorder.recorder import Recorder
from distced.brokers.recorder.state import Append, Batch, RecorderEffect, RecorderState, Write, decode_operation
from distced.middleware.bus import Bus
from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.pool import home_name
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.late_events import write_late
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError, DistcedError, HistoryError
from distced.middleware.model.timestamps import DAY, MINUTE, SECOND, format_instant
from distced.middleware.wire.directory_entries import RECORDER
from distced.middleware.wire.topics import ROOT

if TYPE_CHECKING:
    from distced.middleware.bus.traces import Traces

LONGEST: Final = 2**32 - 1
"""Greatest expiry of a session in MQTT, s: it never expires."""

AGAIN_EVERY: Final = 10 * SECOND
"""Interval of attempts to write a batch after a failure, ns."""


class _Kept(msgspec.Struct, array_like=True):
    """Content of the journal: client id at servers, and packed state."""

    client_id: str
    state: bytes


_decoder: Final = msgspec.msgpack.Decoder(_Kept)


class LiveRecorder(Participant):
    """Recorder with its connections and its history.

    Attributes:
        history: folder of the history.
        problem: error of the last attempt to write; None for none.
        files: number of files written.
        resumed: whether it continues from the journal of an earlier life.
    """

    log = get_logger("distced.recorder")
    role = "recorder"
    # A batch may be large, and is written without a connection, too.
    end_within = 60.0
    ends_unconnected = True

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
        board: MetricsBoard | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Open the history and the journal; write batches of the journal that the history lacks.

        Args:
            url, home: MQTT servers of the directory and of the site; an empty home for the same.
            history: a history, or a new or empty folder.
            name: unique; a recorder of this name continues with its journal.
            types: the types to record; None for all.
            keep: time for which servers keep messages for an absent recorder, ns; 0 for none.
            board: takes its metrics; None for none.
            traces: takes the spans of events; None for none.

        Raises:
            HistoryError: folder without a history, second recorder of the name, unreadable journal.
            BusError: invalid URL of a server.
        """
        types = None if types is None else tuple(types)
        clock = self.clock = clock or SystemClock()
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
            state, self._earlier = self._remembered(types)
            self.recorder = Recorder(
                name,
                clock.now(),
                state,
                types=types,
                flush_every=flush_every,
                flush_events=flush_events,
                root=root,
                home=home_name(home, url),
            )
            # Whole seconds, rounded up.
            expiry = min(-(-keep // SECOND), LONGEST)
            super().__init__(
                url,
                name,
                home,
                client_id=self._client_id,
                clock=clock,
                will=self.recorder.will(),
                session_expiry=expiry,
                hold_acknowledgements=True,
                board=board,
                traces=traces,
                root=root,
            )
        except DistcedError:
            self._journal.close()
            raise
        self._settling: set[str] = set()
        # Homes with unacknowledged messages, as the journal could not be written.
        self._unsettled: set[str] = set()

    def wait_announced(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until it is in the directory, and sources wait for it; True where it is."""
        end = time.monotonic() + timeout
        while not self.recorder.announced and time.monotonic() < end:
            time.sleep(0.01)
        return self.recorder.announced

    def status(self) -> dict[str, Any]:
        """Counts, watermark, sources waited for, connection, and problem."""
        with self._turn:
            status = self.recorder.status()
            # What was to be written and could not be waits on.
            waiting = sum(len(each.events) for each in self._unwritten)
            status["written"] -= waiting
            status["waiting"] += waiting
            problem = None if self.problem is None else str(self.problem)
            return {**status, "files": self.files, "connected": self.bus.connected, "problem": problem}

    def _measured(self, now: int) -> tuple[Values, Delays | None]:
        values = self.recorder.measured(now)
        # What was to be written and could not be waits on.
        waiting = sum(len(each.events) for each in self._unwritten)
        put(values, "distced_recorder_written_events_total", self.recorder.state.counts["written"] - waiting)
        put(values, "distced_recorder_unwritten_events", len(self.recorder.state.stable) + waiting)
        put(values, "distced_recorder_written_files_total", self.files)
        put(values, "distced_recorder_failing", self.problem is not None)
        return values, None

    # The journal.

    def _remembered(self, types: Iterable[str] | None) -> tuple[RecorderState, tuple[int | None, RecorderNote | None]]:
        """State of the journal; of a new one also the watermark of the history, and an earlier note in it."""
        state, journal = RecorderState(), self._journal
        if journal.state is None:
            self._client_id = f"distced-{RECORDER}{self._name}-{uuid.uuid4().hex[:8]}"
            journal.renew(self._packed(state))
            history = History(self.history)
            until = history.until(types)
            if until is not None and until > self.clock.now():
                note = "history ahead of the clock: events until then are late"
                self.log.warning(note, history=str(self.history), until=format_instant(until))
            return state, (until, history.recorders.get(self._name))
        try:
            kept = _decoder.decode(journal.state)
            self._client_id = kept.client_id
            state.resume(kept.state)
            for each in journal.operations:
                batch = state.apply(decode_operation(each))
                if batch is not None:
                    # Perhaps again, which makes the same files.
                    self._write_batch(batch)
        except msgspec.DecodeError as error:
            raise HistoryError("a journal that cannot be read", given=str(journal.path), advice=str(error)) from None
        journal.operations.clear()
        if journal.cut_off:
            self.log.warning("journal truncated", bytes=journal.cut_off)
        state.counts = dict.fromkeys(state.counts, 0)
        return state, (None, None)

    def _packed(self, state: RecorderState) -> bytes:
        return msgspec.msgpack.encode(_Kept(self._client_id, state.packed()))

    # Writing.

    def _write(self, batch: Batch) -> None:
        """Write a batch, behind those whose writing failed."""
        self._unwritten.append(batch)
        self._write_all()

    def _write_all(self) -> None:
        try:
            # The operation precedes its files.
            self._journal.sync()
            while self._unwritten:
                self._write_batch(self._unwritten[0])
                del self._unwritten[0]
            state = self.recorder.state
            if not state.stable and not state.late and (self._wrote or self._journal.grown):
                self._journal.renew(self._packed(state))
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
        noted = (batch.names, batch.watermark, batch.since, batch.gaps, batch.losses)
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
            self.log.error("batch deferred", reason=str(error))
        self.problem = error
        self._again_at = self.clock.now() + AGAIN_EVERY

    # On the threads of the buses.

    def _before(self) -> Iterable[RecorderEffect]:
        # Kept messages come as soon as the server accepts.
        return self.recorder.begin(self.clock.now(), *self._earlier)

    def _first(self, home: str) -> Iterable[Subscribe]:
        return (Subscribe(topic, home=home) for topic in self.recorder.filters(home))

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[RecorderEffect]:
        if home:
            return self.recorder.linked(home, now, resumed=resumed)
        return self.recorder.connected(now, resumed=resumed)

    def _disconnected(self, home: str, now: int, error: BusError | None) -> None:
        self.recorder.lost(home, now)

    def _receive(self, home: str, topic: str, payload: bytes, retained: bool) -> None:
        super()._receive(home, topic, payload, retained)
        if home not in self._settling:
            self._settling.add(home)
            bus = self._outlets[home].bus
            # Behind all messages that have arrived together with it.
            bus.call_soon(lambda: self._settle(home, bus))

    def _message(self, home: str, topic: str, payload: bytes, now: int) -> Collection[RecorderEffect]:
        return self.recorder.receive(topic, payload, now, home)

    def _settle(self, home: str, bus: Bus) -> None:
        """Acknowledge the messages handled, once the journal with their operations is on the disk."""
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

    def _time(self, now: int) -> Iterable[RecorderEffect]:
        if self.problem is not None and now >= self._again_at:
            self._write_all()
        # The server may send nothing more before, so that nothing else would.
        if self.problem is None and self._unsettled:
            for home, bus in self.connections.all().items():
                bus.call_soon(partial(self._settle, home, bus))
        return self.recorder.tick(now)

    def _do(self, effect: RecorderEffect) -> None:
        match effect:
            case Append(operation=operation):
                self._journal.append(operation)
            case Write(batch=batch):
                self._write(batch)

    def _end(self, now: int) -> Iterable[RecorderEffect]:
        return self.recorder.stop(now)

    def _last(self, home: str, bus: Bus) -> None:
        self._settle(home, bus)

    def _close(self) -> None:
        self._journal.close()

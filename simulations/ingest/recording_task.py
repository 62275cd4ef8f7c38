"""Task that reads a recording into a history of its own, beside the target; tasks run in parallel.

Pieces of a recording would not be exact: mappings count the events of a source, or need growing numbers, and many keep
more state (second deliveries, the year, earlier readings of a clock); in the native form an attribute has the kind it
had first.

Duplicates are left out, and events with the id of another event rejected. Files note the least and greatest number of
each source, so that only those are read that may hold an id.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as Table
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from distced.detectors.batch_run.runner import declared_types
from distced.middleware.event_files import EventReader, json_line, read_events
from distced.middleware.event_files.event_chunks import EventChunk, chunk_of
from distced.middleware.event_files.reader import ReadingAgainError, in_order
from distced.middleware.event_files.row_blocks import batches_until_error
from distced.middleware.event_files.tables import ParquetRows
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.history.layout import write_whole
from distced.middleware.history.row_groups import read_table
from distced.middleware.mapping import Mapping, Rejected, load_mapping
from distced.middleware.mapping.reasons import Reasons
from distced.middleware.mapping.rules import rejected_line
from distced.middleware.model.errors import DistcedError, EventError, HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.simulations.ingest.recorded_tables import RecordedTables
from distced.simulations.ingest.recordings import Ingested, Recording, noted_reasons, reasons_of, writing


class DedupResult(NamedTuple):
    """Events compared with those of files.

    Attributes:
        fresh: those in none of the files.
        repeated: number of duplicates, equal in all parts.
        taken: those whose id another event has, with that event.
    """

    fresh: list[Event]
    repeated: int
    taken: list[tuple[Event, Event]]


def deduplicate(events: Sequence[Event], files: Iterable[HistoryFile]) -> DedupResult:
    """Compare events with those of files, in which the first of an id counts."""
    wanted = {event.id for event in events}
    known: dict[EventId, Event] = {}
    for file in files:
        if wanted - known.keys() & wanted and not wanted.isdisjoint(ids_of(file)):
            for event in events_of(file):
                if event.id in wanted:
                    known.setdefault(event.id, event)
    fresh, taken = [], []
    for event in events:
        other = known.get(event.id)
        if other is None:
            fresh.append(event)
        elif not alike(event, other):
            taken.append((event, other))
    return DedupResult(fresh, len(events) - len(fresh) - len(taken), taken)


def overlapping(sources: Table[str, tuple[int, int, int]], files: Iterable[HistoryFile]) -> list[HistoryFile]:
    """Files that may hold one of these ids.

    Args:
        sources: number of events, least and greatest sequence number, by source, as in a file's note.
    """
    return [each for each in files if _may_share(sources, each.note.sources)]


def _may_share(one: Table[str, tuple[int, int, int]], other: Table[str, tuple[int, int, int]]) -> bool:
    shared = one.keys() & other.keys()
    return any(one[each][1] <= other[each][2] and other[each][1] <= one[each][2] for each in shared)


def ids_of(file: HistoryFile) -> Iterator[EventId]:
    """Ids in a file."""
    with _of_history(file):
        table = read_table(file, ["source", "seq"])
    ids = zip(table["source"].to_pylist(), table["seq"].to_pylist(), strict=True)
    return ((source, int(seq)) for source, seq in ids if source is not None and seq is not None)


def events_of(file: HistoryFile) -> Iterator[Event]:
    """Events in a file."""
    with _of_history(file):
        yield from EventReader(ParquetRows(file.path), None)


@contextmanager
def _of_history(file: HistoryFile) -> Iterator[None]:
    try:
        yield
    except DistcedError as error:
        raise HistoryError(
            "a file of the history that cannot be read", given=str(file.path),
            advice=f"put it elsewhere, and give the same command again: {error.advice}",
        ) from None  # fmt: skip


def alike(one: Event, other: Event) -> bool:
    """Whether two events are the same in all parts; a missing attribute is null."""
    return _parts(one) == _parts(other)


def _parts(event: Event) -> tuple[object, ...]:
    # By their texts, for 3 is not 3.0 nor true.
    attributes = sorted((name, repr(value)) for name, value in event.attributes.items() if value is not None)
    made_of = event.constituents if isinstance(event, CompositeEvent) else None
    return event.type, event.lo, event.hi, event.id, attributes, made_of


def taken_id(event: Event, other: Event, recording: Recording) -> Rejected:
    """Rejection of an event whose id another event has."""
    where = f"{recording.path}, event {event.source} {event.seq}"
    error = EventError(
        "an id that another event has", given=f"{event.source} {event.seq}",
        allowed="a source counts each of its events once", where=where,
        advice=f"there it is {json_line(other).decode()[:300]}; where a mapping counts the events of several "
        "recordings, ingest them into a new history with --count-on, or give them sources that tell them apart",
    )  # fmt: skip
    return Rejected(where, "", "id", error, json_line(event).decode())


READ: Final = "read"
REJECTED: Final = "rejected.jsonl"
NOTE: Final = "read.json"
PROGRESS: Final = "progress"

CHUNK: Final = 500_000
"""Events held in memory, which become a file for each day and type."""

_ROWS: Final = 20_000
"""Events that are read row by row, and become columns at once."""


@dataclass(frozen=True, slots=True)
class RecordingTask:
    """Task that reads a recording, with `chunk` events held at once."""

    recording: Recording
    chunk: int = CHUNK

    @property
    def note(self) -> Path:
        """Path of its result, which shows that it is done."""
        return self.recording.work / NOTE

    @property
    def read(self) -> int:
        """Number of events read so far."""
        with suppress(OSError, ValueError):
            return int((self.recording.work / PROGRESS).read_text())
        return 0

    def perform(self, clock: Callable[[], float], watch: Callable[[int], None] = lambda _: None) -> None:
        """Perform the task, unless it is done; `watch` gets the number of events read."""
        with writing(self.recording.root):
            if not self.note.exists():
                self._perform(watch)

    def _perform(self, watch: Callable[[int], None]) -> None:
        work = self.recording.work
        # Partial work does not record its progress.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        with (work / REJECTED).open("wb") as rejected:
            pass_ = _Pass(self.recording, self.chunk, rejected)

            def report() -> None:
                (work / PROGRESS).write_text(str(pass_.events))
                watch(pass_.events)

            note = pass_.ingested(report)
        write_whole(self.note, msgspec.json.encode(note))
        report()


def _chunks(reader: EventReader) -> Iterator[EventChunk]:
    """Events of a recording as columns, however they are read."""
    return reader.chunks() if reader.has_columns else map(chunk_of, batches_until_error(iter(reader), _ROWS))


@dataclass(eq=False)
class _Pass:
    """One reading of a recording, with the number of events so far."""

    recording: Recording
    chunk: int
    rejected: IO[bytes]
    events: int = 0
    rejections: Counter[str] = field(default_factory=Counter)
    reasons: Reasons[str] = field(default_factory=reasons_of)
    trouble: str = ""

    def ingested(self, report: Callable[[], None]) -> Ingested:
        """Read the recording, and return the result."""
        recording = self.recording
        reader, types = self._opened()
        tables = self._read(reader, report)
        attributes = None if reader is None else reader.attributes
        tables.write(HistoryWriter(recording.work / READ, recording.recorder, types), attributes, self.chunk)
        taken = self._compare(tables.repeated(attributes))
        mapping = None if reader is None else reader.mapping
        return Ingested(
            str(recording.path),
            0 if reader is None else reader.counts["row"],
            self.events,
            tables.added,
            self.events - tables.added - taken,
            dict(sorted(self.rejections.items())),
            {} if mapping is None else mapping.remarks,
            () if mapping is None else tuple(map(str, mapping.missing_paths)),
            jumps=tables.clocks.jumps(),
            trouble=self.trouble,
            reasons=noted_reasons(self.reasons),
        )

    def _read(self, reader: EventReader | None, report: Callable[[], None]) -> RecordedTables:
        """Events of a recording, as far as it can be read."""
        while True:
            self.events = 0
            tables = RecordedTables(self.recording.work)
            try:
                for chunk in () if reader is None else _chunks(reader):
                    self.events += len(chunk)
                    tables.take(chunk)
                    report()
            except ReadingAgainError:
                continue
            except DistcedError as error:
                # Events read until then are valid.
                self.trouble = str(error)
            return tables

    def _opened(self) -> tuple[EventReader | None, tuple[EventType, ...]]:
        recording = self.recording
        try:
            mapping: Mapping | None = None if recording.mapping is None else load_mapping(recording.mapping)
            reader = read_events(recording.path, mapping)
            types = declared_types(recording.path, mapping)
        except DistcedError as error:
            self.trouble = str(error)
            return None, ()
        reader.on_rejected = self._reject
        return reader, types or ()

    def _reject(self, rejected: Rejected) -> None:
        self.rejections[rejected.reason] += 1
        self.reasons.add(rejected)
        self.rejected.write(rejected_line(rejected))

    def _compare(self, repeated: Iterator[tuple[Event, int]]) -> int:
        """Compare events with the first ones of their ids, and reject those that differ; returns their number."""
        found = 0
        files: Sequence[HistoryFile] | None = None
        while some := list(islice(repeated, self.chunk)):
            files = files or History(self.recording.work / READ).files
            times = {id(event): each for event, each in some}
            events = in_order(event for event, _ in some)
            for event, other in deduplicate(events, overlapping(_numbers(events), files)).taken:
                found += times[id(event)]
                for _ in range(times[id(event)]):
                    self._reject(taken_id(event, other, self.recording))
        return found


def _numbers(events: Iterable[Event]) -> dict[str, tuple[int, int, int]]:
    """Number of events, least and greatest sequence number, by source."""
    found: dict[str, tuple[int, int, int]] = {}
    for event in events:
        number, least, greatest = found.get(event.source, (0, event.seq, event.seq))
        found[event.source] = number + 1, min(least, event.seq), max(greatest, event.seq)
    return found

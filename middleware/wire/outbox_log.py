"""Log of an outbox: what a publisher that was killed needs to continue its streams (design, section 4).

A log is a sequence of segments. Each begins with a *head*, the state of all streams: life, next number, last promise,
acknowledgements. Behind it come the changes: a message before it is published, a life that begins, an acknowledgement.
So a segment is deleted once the outbox needs none of its messages, whatever else is in it. Where a few messages hold
many segments, everything needed is written again. A record is its length, two checksums, and its content.

After a crash the log ends with a whole record, or with a *torn* one, whose message was not published yet: numbers go on
where they were. Where the end of the log may be lost (a power cut, a full disk, damage), they go on at the microsecond
of the start instead: readers request what lies between, and have it as a loss, and no number is used twice.

A disk that fails stops no publisher: messages go on in memory, and everything needed is written once the disk has room.

Rejected: an SQLite database (a transaction for each message); one file that is renewed (64 MB at a time, while the
publisher waits); the queue of the bus in place of messages (the server has acknowledged what it may lose).
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.mqtt_effects import Note

VERSION: Final = 1

WRITE_AGAIN: Final = 5 * SECOND
"""Interval of attempts to write to a disk that has failed, ns."""

SEGMENTS: Final = 16
"""Number of segments for the limit of an outbox."""

SEGMENT_BYTES: Final = (64 * 1024, 4 * 1024 * 1024)
"""Least and greatest size of a segment, bytes."""

Stream: TypeAlias = tuple[str, str]
"""Source, and type of its events."""


class LogStore(Protocol):
    """Segments of a log, by number; writing raises `OSError`."""

    @property
    def whole(self) -> bool:
        """Whether everything that was written before the start is there."""
        ...

    def read(self) -> Iterable[tuple[int, bytes | None]]:
        """Segments in order; None for the content of one that cannot be read."""
        ...

    def begin(self, segment: int, content: bytes) -> None:
        """Begin the next segment."""
        ...

    def append(self, content: bytes) -> None:
        """Add to the last segment."""
        ...

    def force(self) -> None:
        """Force what was written to the disk, from any thread."""
        ...

    def delete(self, segment: int) -> None:
        """Delete a segment."""
        ...

    def set_aside(self, segment: int) -> None:
        """Rename a segment that cannot be read."""
        ...

    def mark(self, *, whole: bool) -> None:
        """Note whether everything is written."""
        ...

    def close(self, *, whole: bool) -> None:
        """End in order, with everything written or not."""
        ...


class SourceMark(msgspec.Struct, array_like=True):
    """Source in a log.

    Attributes:
        first: number with which its life begins.
        promised: its last promise, ns.
        seq: sequence number beyond those of its events.
    """

    first: int
    promised: int = INSTANT_MIN
    seq: int = 0


class _Head(msgspec.Struct, array_like=True, frozen=True, tag="h"):
    """State at the begin of a segment; `streams`: next number, and greatest `hi` so far; `acknowledged` by node; `gaps`
    as of `OutboxLog`."""

    version: int
    client: str
    sources: dict[str, SourceMark] = {}
    streams: list[tuple[Stream, int, int | None]] = []
    acknowledged: list[tuple[str, list[tuple[Stream, int]]]] = []
    gaps: list[tuple[Stream, tuple[int, int]]] = []


class _Begun(msgspec.Struct, array_like=True, frozen=True, tag="s"):
    source: str
    types: list[str]
    first: int


class _Message(msgspec.Struct, array_like=True, frozen=True, tag="m"):
    """Message; `least` and `greatest`: of the `hi` of its events; `seq`: the greatest of theirs."""

    stream: Stream
    number: int
    top: int | None
    least: int
    greatest: int
    seq: int
    watermark: int | None
    at: int
    payload: bytes


class _Withdrawn(msgspec.Struct, array_like=True, frozen=True, tag="w"):
    stream: Stream
    number: int
    top: int | None


class _Promised(msgspec.Struct, array_like=True, frozen=True, tag="p"):
    sources: list[str]
    watermark: int


class _Acknowledged(msgspec.Struct, array_like=True, frozen=True, tag="a"):
    node: str
    stream: Stream
    number: int


_Record: TypeAlias = _Head | _Begun | _Message | _Withdrawn | _Promised | _Acknowledged
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Record)
_FRAME: Final = struct.Struct("<III")
_LENGTH: Final = struct.Struct("<I")


def framed(record: msgspec.Struct) -> bytes:
    """A record as bytes of a segment."""
    content = _encode(record)
    length = len(content)
    return _FRAME.pack(length, zlib.crc32(_LENGTH.pack(length)), zlib.crc32(content)) + content


def read_records(content: bytes) -> tuple[list[_Record], str]:
    """Records of a segment up to the first that is not whole, and what is wrong with that: `torn`, `damaged`, or
    nothing."""
    found: list[_Record] = []
    place = 0
    while place < len(content):
        if len(content) - place < _FRAME.size:
            return found, "torn"
        length, check, checksum = _FRAME.unpack_from(content, place)
        if zlib.crc32(_LENGTH.pack(length)) != check:
            return found, "damaged"
        place += _FRAME.size
        if len(content) - place < length:
            return found, "torn"
        piece = content[place : place + length]
        place += length
        try:
            if zlib.crc32(piece) != checksum:
                return found, "damaged"
            found.append(_decoder.decode(piece))
        except msgspec.DecodeError:
            return found, "damaged"
    return found, ""


class KeptMessage(NamedTuple):
    """Message that the outbox needs."""

    stream: Stream
    number: int
    payload: bytes
    at: int
    top: int | None


class _State:
    """State of all streams, as records change it."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceMark] = {}
        self.streams: dict[Stream, tuple[int, int | None]] = {}
        self.acknowledged: dict[str, dict[Stream, int]] = {}
        self.gaps: dict[Stream, tuple[int, int]] = {}

    def apply(self, record: _Record) -> None:
        match record:
            case _Head():
                self.sources = {name: msgspec.structs.replace(each) for name, each in record.sources.items()}
                self.streams = {stream: (following, top) for stream, following, top in record.streams}
                self.acknowledged = {node: dict(numbers) for node, numbers in record.acknowledged}
                self.gaps = dict(record.gaps)
            case _Begun(source=source, types=types, first=first):
                first = self.sources.setdefault(source, SourceMark(first)).first
                for each in types:
                    self.streams.setdefault((source, each), (first, None))
            case _Message(stream=stream, number=number, top=top, greatest=hi):
                mark = self.sources.setdefault(stream[0], SourceMark(number))
                mark.seq = max(mark.seq, record.seq + 1)
                if record.watermark is not None:
                    mark.promised = max(mark.promised, record.watermark)
                if number >= self.streams.get(stream, (0, None))[0]:
                    self.streams[stream] = number + 1, hi if top is None else max(top, hi)
            case _Withdrawn(stream=stream, number=number, top=top):
                self.streams[stream] = number, top
            case _Promised(sources=sources, watermark=watermark):
                for mark in [self.sources[each] for each in sources if each in self.sources]:
                    mark.promised = max(mark.promised, watermark)
            case _Acknowledged(node=node, stream=stream, number=number):
                numbers = self.acknowledged.setdefault(node, {})
                if number:
                    numbers[stream] = number
                else:
                    numbers.pop(stream, None)

    def forget(self, source: str) -> None:
        del self.sources[source]
        for stream in [each for each in self.streams if each[0] == source]:
            del self.streams[stream]
            self.gaps.pop(stream, None)
        for node, numbers in list(self.acknowledged.items()):
            self.acknowledged[node] = {each: number for each, number in numbers.items() if each[0] != source}
            if not self.acknowledged[node]:
                del self.acknowledged[node]

    def head(self, client: str) -> _Head:
        streams = [(stream, following, top) for stream, (following, top) in self.streams.items()]
        acknowledged = [(node, list(numbers.items())) for node, numbers in self.acknowledged.items()]
        return _Head(VERSION, client, self.sources, streams, acknowledged, list(self.gaps.items()))

    def least(self, stream: Stream) -> int:
        """Number of the first message that some node has not acknowledged; 0 where none has acknowledged any."""
        return min((each[stream] for each in self.acknowledged.values() if stream in each), default=0)


class OutboxLog:
    """Log of one outbox; for one thread at a time.

    Attributes:
        sources, streams: of the log, in their present state; streams by next number, and greatest `hi`, ns.
        gaps: of streams that have gone on with numbers that were not used: the first without a message, and the first
            with one again.
        former: client that wrote the log; empty for a new one.
        messages: at the start, by source those that the outbox had, in order of publication.
        failed: why the disk cannot be written; empty where it can.
        unwritten: number of messages that were published while it could not.
        notes: for the log of the application.
    """

    def __init__(self, store: LogStore, client: str, most_bytes: int, now: int) -> None:
        """Continue the log in a store, within a limit of bytes for its messages."""
        self.failed = ""
        self.unwritten = 0
        self.notes: list[Note] = []
        self.former = ""
        self.messages: dict[str, list[KeptMessage]] = {}
        self.needed: Callable[[], Iterable[KeptMessage]] = tuple
        self._store = store
        self._client = client
        self._most = most_bytes
        least, greatest = SEGMENT_BYTES
        self._segment_bytes = max(least, min(greatest, most_bytes // SEGMENTS))
        self._state = _State()
        # By message its segment, 0 for none, and the least `hi` of its events.
        self._places: dict[tuple[Stream, int], tuple[int, int]] = {}
        # Number of messages needed, and bytes, by segment.
        self._live: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}
        self._current = self._head_bytes = 0
        self._at = self._again_at = now
        self._open: set[str] = set()
        self._idle: set[str] = set()
        self._read(now)
        self._attempt(self._begin)

    @property
    def sources(self) -> dict[str, SourceMark]:
        return self._state.sources

    @property
    def streams(self) -> dict[Stream, tuple[int, int | None]]:
        return self._state.streams

    @property
    def gaps(self) -> dict[Stream, tuple[int, int]]:
        return self._state.gaps

    @property
    def acknowledged(self) -> dict[str, dict[Stream, int]]:
        """By node the number of the first message that it has not acknowledged."""
        return self._state.acknowledged

    @property
    def total_bytes(self) -> int:
        """Size of all segments."""
        return sum(self._sizes.values())

    def again(self, source: str) -> list[KeptMessage]:
        """Messages of a source, by an earlier process, that are published again: not acknowledged by all nodes."""
        return [
            each
            for each in self.messages.get(source, ())
            if each.number >= self._state.least(each.stream) and (each.stream, each.number) in self._places
        ]

    def floor(self, source: str) -> int | None:
        """Least `hi` of the messages that are published again, ns; None for none."""
        return min((self._places[each.stream, each.number][1] for each in self.again(source)), default=None)

    # Changes, in their order.

    def begun(self, source: str, types: Sequence[str], first: int) -> None:
        """A source is open: it continues its life, or begins one with this number."""
        self._open.add(source)
        record = _Begun(source, list(types), first)
        self._write(record, self._at)

    def force(self) -> None:
        """Force what was written to the disk, from any thread: with a source on it the next process knows its life."""
        with suppress(OSError):
            self._store.force()

    def ended(self, source: str) -> None:
        """A source is closed; its messages may be needed still."""
        self._open.discard(source)

    def publishing(
        self,
        stream: Stream,
        number: int,
        top: int | None,
        events: Sequence[Event],
        watermark: int | None,
        at: int,
        payload: bytes,
    ) -> None:
        """A message is about to be published; arguments as of `KeptMessages.keep`, with its events."""
        instants = [each.hi for each in events]
        least, seq = min(instants), max([each.seq for each in events])
        record = _Message(stream, number, top, least, max(instants), seq, watermark, at, payload)
        written = self._write(record, at)
        if not written:
            self.unwritten += 1
        self._places[stream, number] = self._current if written else 0, least
        self._live[self._current] += written

    def withdrawn(self, stream: Stream, number: int, top: int | None) -> None:
        """The message was not published: the bus had no room."""
        record = _Withdrawn(stream, number, top)
        self._write(record, self._at)
        self.forget(stream, number)

    def promised(self, sources: Sequence[str], watermark: int) -> None:
        """A promise of sources, ns, is about to be published."""
        known = self._state.sources
        record = _Promised([each for each in sources if each in known and known[each].promised < watermark], watermark)
        if not record.sources:
            return
        self._write(record, self._at)

    def acknowledge(self, node: str, stream: Stream, number: int) -> None:
        """A durable acknowledgement; 0 where the node holds nothing any more."""
        record = _Acknowledged(node, stream, number)
        self._write(record, self._at)

    def forget(self, stream: Stream, number: int) -> None:
        """A message is not needed any more."""
        segment, _ = self._places.pop((stream, number), (0, 0))
        if segment:
            self._live[segment] -= 1
            self._tidy(segment)

    def close(self) -> None:
        """Close the log, as a publisher ends in order."""
        self._store.close(whole=not self.failed)

    # Segments.

    def _write(self, record: _Record, at: int) -> bool:
        """Apply a record, and append it to the last segment, or to a new one; whether that succeeds."""
        self._at = at
        ready = not self.failed or at >= self._again_at
        # A head that is written now is of the state before: the process may be killed before the record.
        ready = ready and self._attempt(self._rotate)
        self._state.apply(record)
        if not ready or not self._attempt(lambda: self._append(framed(record))):
            return False
        if self.failed:
            if not self._attempt(lambda: self._store.mark(whole=True)):
                return False
            self.failed = ""
            fields: dict[str, object] = {"client": self._client, "unwritten": self.unwritten}
            self.notes.append(Note("info", "outbox written again", fields))
        return True

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write; whether the disk has taken it."""
        try:
            write()
        except OSError as error:
            self._fail(str(error))
            return False
        return True

    def _rotate(self) -> None:
        """Begin a segment where there is none with room."""
        if self.failed or self.total_bytes > 2 * self._most + 2 * max(self._segment_bytes, self._head_bytes):
            self._write_again()
        elif self._ended:
            self._begin()

    @property
    def _ended(self) -> bool:
        """Whether the last segment is to end: with as much behind its head as in it at least."""
        return self._sizes.get(self._current, 0) - self._head_bytes >= max(self._segment_bytes, self._head_bytes)

    def _append(self, content: bytes) -> None:
        self._store.append(content)
        self._sizes[self._current] += len(content)

    def _fail(self, reason: str) -> None:
        self._again_at = self._at + WRITE_AGAIN
        if not self.failed:
            fields: dict[str, object] = {
                "client": self._client,
                "reason": reason,
                "advice": "the client goes on in memory, and loses what it holds if it ends now: make room on the disk",
            }
            self.notes.append(Note("warning", "outbox not written", fields))
        self.failed = reason
        with suppress(OSError):
            self._store.mark(whole=False)

    def _begin(self) -> None:
        """Begin a segment, without sources that have ended long ago."""
        with_messages = {name for (name, _), _ in self._places}
        idle = self._state.sources.keys() - self._open - with_messages
        for source in idle & self._idle:
            self._state.forget(source)
        self._idle = idle
        content = framed(self._state.head(self._client))
        before, self._current = self._current, self._current + 1
        self._sizes[self._current] = 0
        self._store.begin(self._current, content)
        self._sizes[self._current] = self._head_bytes = len(content)
        self._tidy(before)

    def _write_again(self) -> None:
        """Write everything that is needed to new segments, and delete the others."""
        first = self._current + 1
        self._begin()
        for each in self.needed():
            if self._ended:
                self._begin()
            key = each.stream, each.number
            segment, least = self._places.get(key, (0, INSTANT_MIN))
            # What it says of its stream, the head says already.
            record = _Message(each.stream, each.number, each.top, least, least, -1, None, each.at, each.payload)
            self._append(framed(record))
            self._live[segment] -= segment > 0
            self._live[self._current] += 1
            self._places[key] = self._current, least
        for segment in [each for each in self._sizes if each < first]:
            self._delete(segment)

    def _tidy(self, segment: int) -> None:
        if segment != self._current and self._live[segment] <= 0 and segment in self._sizes:
            self._delete(segment)

    def _delete(self, segment: int) -> None:
        with suppress(OSError):
            self._store.delete(segment)
        del self._sizes[segment]
        self._live.pop(segment, None)

    # The start.

    def _read(self, now: int) -> None:
        """Take over what the store holds."""
        state, problem, whole = self._state, "", self._store.whole
        found: dict[tuple[Stream, int], tuple[int, _Message]] = {}
        for segment, content in self._store.read():
            self._current = segment
            whole = whole and content is not None
            records, problem = ([], "damaged") if content is None else read_records(content)
            head = records[0] if records else None
            readable = isinstance(head, _Head) and head.version <= VERSION
            if not records and problem != "damaged":
                # It was begun, and nothing came behind.
                with suppress(OSError):
                    self._store.delete(segment)
                continue
            if problem or not readable:
                problem = problem if readable else "damaged"
                self._note_problem(segment, problem, len(records))
            if not isinstance(head, _Head) or not readable:
                with suppress(OSError):
                    self._store.set_aside(segment)
                continue
            self.former = head.client
            self._sizes[segment] = len(content or b"")
            for record in records:
                state.apply(record)
                if isinstance(record, _Message):
                    found[record.stream, record.number] = segment, record
                elif isinstance(record, _Withdrawn):
                    found.pop((record.stream, record.number), None)
        whole = whole and problem != "damaged"
        for segment, record in merge(*self._needed_of(found, whole=whole), key=lambda each: each[1].at):
            kept = KeptMessage(record.stream, record.number, record.payload, record.at, record.top)
            self.messages.setdefault(record.stream[0], []).append(kept)
            self._places[record.stream, record.number] = segment, record.least
            self._live[segment] += 1
        if state.sources and not whole:
            self._skip(now)

    def _needed_of(
        self, found: dict[tuple[Stream, int], tuple[int, _Message]], *, whole: bool
    ) -> Iterator[list[tuple[int, _Message]]]:
        """Of the messages found, the last ones of each stream without a gap but the known one, in order."""
        last = {stream: following - 1 for stream, (following, _) in self._state.streams.items()}
        if not whole:
            # A head may be ahead of the messages that could be written.
            greatest: dict[Stream, int] = {}
            for stream, number in found:
                greatest[stream] = max(number, greatest.get(stream, number))
            last = {stream: min(number, greatest.get(stream, number)) for stream, number in last.items()}
        for stream, number in last.items():
            run: list[tuple[int, _Message]] = []
            gap, behind = self._state.gaps.get(stream, (number, number))
            number = gap - 1 if number + 1 == behind else number
            while (stream, number) in found:
                run.append(found[stream, number])
                number = gap - 1 if number == behind else number - 1
            yield run[::-1]

    def _skip(self, now: int) -> None:
        """Go on with numbers that were not used, as the end of the log may be lost."""
        ends = {each.stream: each.number + 1 for messages in self.messages.values() for each in messages}
        for stream, (following, top) in self._state.streams.items():
            begin = max(following, now // 1_000)
            self._state.streams[stream] = begin, max(now, INSTANT_MIN if top is None else top)
            if stream in ends:
                self._state.gaps[stream] = ends[stream], begin
        fields: dict[str, object] = {
            "client": self._client,
            "reason": "the last messages before a power cut, a full disk or damage may not be in it",
            "advice": "readers that lack them are given a loss",
        }
        self.notes.append(Note("warning", "end of the outbox not found", fields))

    def _note_problem(self, segment: int, problem: str, records: int) -> None:
        level = "info" if problem == "torn" else "warning"
        fields: dict[str, object] = {"client": self._client, "segment": segment, "records": records}
        self.notes.append(Note(level, f"segment of the outbox {problem}", fields))

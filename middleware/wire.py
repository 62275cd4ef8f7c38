"""The wire format: one MQTT message is one msgpack frame of one or many events of one type from one source.

A frame is an array, in two kinds that its first element tells apart:

    ["e", 1, type, source, watermark, [row, ...]]   primitive events; row = [lo, hi, seq, attributes]
    ["c", 1, type, source, watermark, [row, ...]]   composite events; row = [lo, hi, digest, attributes, ids, events]

`lo`, `hi` and the watermark are nanoseconds since the Unix epoch in 64 bits, `digest` is the 96-bit sequence number of
a composite event as 12 bytes, big endian. `ids` are the constituents' `[source, seq]`, where `seq` is an integer or
such a digest, and `events` the constituents themselves where they travel along, each as
`[type, lo, hi, source, seq, attributes]`, a composite one with its own `ids` and `events` appended.
The watermark promises that no further event of this source has `hi <= watermark`; nil promises nothing. A frame without
rows is a heartbeat.

*How it grows.* Fields are only ever appended, to the frame or to a row: who reads an older format passes over what it
does not know, who reads a newer one fills in what is missing. The version is raised only when an old reader would
*misread* a frame, and a reader refuses versions it does not know.

Maps with field names were rejected: names would be half of each message. So were columns: most messages hold one event.
One bad row does not lose the others: a frame is decoded in one typed sweep by msgspec, and row by row only where that
has failed. Numbers have 64 bits and are never NaN; sequence numbers of primitive events stay below 2^63.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from middleware.errors import DistcedError, FrameError
from middleware.events import DIGEST_BYTES, TIME, Attribute, CompositeEvent, Event, EventId, check_event
from middleware.timestamps import INSTANT_MAX, INSTANT_MIN
from middleware.wire_json import SEQUENCE_MAX, decode_json

__all__ = ["SEQUENCE_MAX", "VERSION", "Frame", "Kind", "Rejected", "decode", "decode_any", "decode_json", "encode"]

VERSION: Final = 1

Kind: TypeAlias = Literal["e", "c"]
"""What a frame carries: primitive events or composite ones, as in their topics."""

_Instant = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
_Name = Annotated[str, Meta(min_length=1)]
_Sequence = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
_Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
_Id = tuple[_Name, _Sequence | _Digest]
# msgspec has no constraint against NaN, but NaN fails any bound. So does minus infinity, which is a number: the second
# look therefore reads attributes without bounds and leaves them to check_event.
_Number = Annotated[float, Meta(ge=-sys.float_info.max)]
_Checked = dict[str, _Instant | _Number | str | bool | None]
_Unchecked = dict[str, int | float | str | bool | None]
_A = TypeVar("_A")


class _Row(msgspec.Struct, Generic[_A], array_like=True, gc=False):
    lo: _Instant
    hi: _Instant
    seq: _Sequence
    attributes: _A


class _Constituent(msgspec.Struct, Generic[_A], array_like=True, gc=False):
    type: _Name
    lo: _Instant
    hi: _Instant
    source: _Name
    seq: _Sequence | _Digest
    attributes: _A
    ids: list[_Id] | None = None
    events: list[_Constituent[_A]] = []


class _CompositeRow(msgspec.Struct, Generic[_A], array_like=True, gc=False):
    lo: _Instant
    hi: _Instant
    seq: _Digest
    attributes: _A
    ids: list[_Id]
    events: list[_Constituent[_A]] = []


class _Frame(msgspec.Struct, array_like=True, gc=False, tag_field="kind", tag="e"):
    version: Literal[1]
    type: _Name
    source: _Name
    watermark: _Instant | None
    rows: list[_Row[_Checked]]


class _CompositeFrame(msgspec.Struct, array_like=True, gc=False, tag_field="kind", tag="c"):
    version: Literal[1]
    type: _Name
    source: _Name
    watermark: _Instant | None
    rows: list[_CompositeRow[_Checked]]


class _Version(msgspec.Struct, array_like=True, gc=False):
    kind: Literal["e", "c"]
    version: int


class _Head(msgspec.Struct, array_like=True, gc=False):
    kind: Literal["e", "c"]
    version: Literal[1]
    type: _Name
    source: _Name
    watermark: _Instant | None
    rows: list[msgspec.Raw]


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """An event of a frame that is none.

    Attributes:
        row: its position in the frame, from 0.
        reason: what is wrong with it.
        raw: its bytes, msgpack.
    """

    row: int
    reason: str
    raw: bytes


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What one message on the wire holds.

    Attributes:
        kind: "e" for primitive events, "c" for composite ones.
        type, source: the type of all its events, and where they come from.
        watermark: no further event of this source will have `hi <= watermark`; None promises nothing.
        events: the valid events in the order sent: `Event`, or `CompositeEvent` where the kind is "c".
        rejected: the invalid ones, for a dead letter.
    """

    kind: Kind
    type: str
    source: str
    watermark: int | None
    events: list[Event]
    rejected: tuple[Rejected, ...] = ()


def encode(
    events: Sequence[Event],
    *,
    type: str,  # noqa: A002
    source: str,
    watermark: int | None = None,
    kind: Kind | None = None,
    check: bool = True,
) -> bytes:
    """A frame of events of one type from one source; without events a heartbeat.

    Args:
        events: all `Event`, or all `CompositeEvent`, of this type and source.
        watermark: nanoseconds since the Unix epoch, or None.
        kind: tells what a heartbeat's source sends; "e" where left out. Events tell by themselves.
        check: look at each attribute; False saves half the time, for events that `EventType.create` made.

    Raises:
        FrameError: for an event that is none or does not belong here; it names the row.
    """
    if kind is None:
        kind = "c" if events and isinstance(events[0], CompositeEvent) else "e"
    if not type or not source:
        raise FrameError("a frame without type or source", given=f"type {type!r}, source {source!r}")
    if watermark is not None and not INSTANT_MIN <= watermark <= INSTANT_MAX:
        raise FrameError("a watermark beyond 64 bits", given=watermark, allowed="nanoseconds since the Unix epoch")
    pack: Callable[[Any], Any] = _pack if kind == "e" else _pack_composite
    rows: list[Any] = []
    try:
        for event in events:
            if event.type != type or event.source != source:
                raise FrameError("an event of another type or source", given=event, allowed=f"{type} from {source}")
            if check:
                check_event(event)
            rows.append(pack(event))
        return _encoder.encode((_Frame if kind == "e" else _CompositeFrame)(VERSION, type, source, watermark, rows))
    except DistcedError as error:
        raise FrameError(
            error.problem, given=error.given, allowed=error.allowed, where=f"row {len(rows)}", advice=error.advice
        ) from None
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise FrameError("not to be put in a frame", given=str(error), allowed="checked events of one kind") from None


def decode(payload: bytes, *, where: str | None = None) -> Frame:
    """What a message holds: its valid events, and its invalid ones with the reasons.

    Args:
        where: the topic it came on, for the error.

    Raises:
        FrameError: where the payload as a whole is no frame of a version this reads. Nothing else, whatever the bytes.
    """
    try:
        frame = _decoder.decode(payload)
        type_, source = frame.type, frame.source
        events: list[Event] = []
        if frame.__class__ is _Frame:
            for row in frame.rows:
                lo, hi = row.lo, row.hi
                if lo > hi:
                    return _sift(payload, where)
                events.append(Event(type_, lo, hi, source, row.seq, row.attributes))
            return Frame("e", type_, source, frame.watermark, events)
        events.extend([_unpack_composite(row, type_, source) for row in frame.rows])
        return Frame("c", type_, source, frame.watermark, events)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FrameError):
        return _sift(payload, where)


def decode_any(
    payload: bytes,
    *,
    where: str | None = None,
    type: str | None = None,  # noqa: A002
    source: str | None = None,
    now: int | None = None,
) -> Frame:
    """What a message at the edge holds: a frame, or an event in JSON as a frame of one without a watermark.

    JSON begins with a brace or with white space, a frame never does. The arguments are those of `decode_json`.
    """
    if payload[:1] in _JSON_STARTS:
        event = decode_json(payload, where=where, type=type, source=source, now=now)
        return Frame("e", event.type, event.source, None, [event])
    return decode(payload, where=where)


def _sift(payload: bytes, where: str | None) -> Frame:
    """The second look at a frame that is not entirely good: what is wrong with the whole, or else with which rows."""
    try:
        version = _version_decoder.decode(payload).version
        if version != VERSION:
            raise FrameError(
                "a frame of another version of the wire format", given=version, allowed=f"version {VERSION}",
                where=where, advice="upgrade the older side",
            )  # fmt: skip
        head = _head_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(
            "no frame of events",
            given=f"{len(payload)} bytes, {bytes(payload[:24])!r}",
            allowed='msgpack ["e" or "c", 1, type, source, watermark, rows]',
            where=where,
            advice=_reason(error),
        ) from None
    events: list[Event] = []
    rejected: list[Rejected] = []
    unpack = _sift_composite if head.kind == "c" else _sift_row
    for number, raw in enumerate(head.rows):
        try:
            events.append(unpack(raw, head.type, head.source))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DistcedError) as error:
            rejected.append(Rejected(number, _reason(error), bytes(raw)))
    return Frame(head.kind, head.type, head.source, head.watermark, events, tuple(rejected))


def _sift_row(raw: msgspec.Raw, type_: str, source: str) -> Event:
    row = _row_decoder.decode(raw)
    return check_event(Event(type_, row.lo, row.hi, source, row.seq, row.attributes))


def _sift_composite(raw: msgspec.Raw, type_: str, source: str) -> Event:
    event = _unpack_composite(_composite_row_decoder.decode(raw), type_, source)
    return _check_all(event)


def _check_all(event: Event) -> Event:
    for inner in event.events if isinstance(event, CompositeEvent) else ():
        _check_all(inner)
    return check_event(event)


def _pack(event: Event) -> _Row[dict[str, Attribute]]:
    if isinstance(event, CompositeEvent) or event.rank == TIME:
        raise FrameError("an event of another kind in a frame of primitive events", given=event)
    if event.lo > event.hi:
        raise FrameError("a timestamp with lo > hi", given=f"[{event.lo}, {event.hi}]", allowed="lo <= hi")
    if event.seq > SEQUENCE_MAX:
        raise FrameError("a sequence number beyond 63 bits", given=event.seq, allowed=f"up to {SEQUENCE_MAX}")
    return _Row(event.lo, event.hi, event.seq, event.attributes)


def _pack_composite(event: Event) -> _CompositeRow[dict[str, Attribute]]:
    if not isinstance(event, CompositeEvent):
        raise FrameError("a primitive event in a frame of composite ones", given=event)
    if event.lo > event.hi:
        raise FrameError("a timestamp with lo > hi", given=f"[{event.lo}, {event.hi}]", allowed="lo <= hi")
    return _CompositeRow(
        event.lo,
        event.hi,
        event.seq.to_bytes(DIGEST_BYTES, "big"),
        event.attributes,
        [_pack_id(one) for one in event.constituents],
        [_pack_constituent(one) for one in event.events],
    )


def _pack_constituent(event: Event) -> _Constituent[dict[str, Attribute]]:
    seq = event.seq.to_bytes(DIGEST_BYTES, "big") if isinstance(event, CompositeEvent) else event.seq
    packed = _Constituent(event.type, event.lo, event.hi, event.source, seq, event.attributes)
    check_event(event)
    if isinstance(event, CompositeEvent):
        packed.ids = [_pack_id(one) for one in event.constituents]
        packed.events = [_pack_constituent(one) for one in event.events]
    else:
        _pack(event)
    return packed


def _pack_id(identity: EventId) -> tuple[str, int | bytes]:
    source, seq = identity
    if not source or seq < 0:
        raise FrameError("not the id of an event", given=identity, allowed="a source and a number from 0")
    return source, seq if seq <= SEQUENCE_MAX else seq.to_bytes(DIGEST_BYTES, "big")


def _unpack_composite(row: _CompositeRow[dict[str, Attribute]], type_: str, source: str) -> CompositeEvent:
    return _composite(type_, row.lo, row.hi, source, row.seq, row.attributes, row.ids, row.events)


def _composite(
    type_: str,
    lo: int,
    hi: int,
    source: str,
    digest: bytes,
    attributes: dict[str, Attribute],
    ids: list[tuple[str, int | bytes]],
    events: list[_Constituent[dict[str, Attribute]]],
) -> CompositeEvent:
    if lo > hi:
        raise FrameError("a timestamp with lo > hi", given=f"[{lo}, {hi}]", allowed="lo <= hi")
    return CompositeEvent(
        type_,
        lo,
        hi,
        source,
        int.from_bytes(digest, "big"),
        attributes,
        constituents=tuple([(name, seq if isinstance(seq, int) else int.from_bytes(seq, "big")) for name, seq in ids]),
        events=tuple([_unpack_constituent(one) for one in events]) if events else (),
    )


def _unpack_constituent(row: _Constituent[dict[str, Attribute]]) -> Event:
    seq = row.seq
    if isinstance(seq, bytes):
        if row.ids is None:
            raise FrameError("a composite event among the constituents that does not name its own", given=row.source)
        return _composite(row.type, row.lo, row.hi, row.source, seq, row.attributes, row.ids, row.events)
    if row.lo > row.hi:
        raise FrameError("a timestamp with lo > hi", given=f"[{row.lo}, {row.hi}]", allowed="lo <= hi")
    return Event(row.type, row.lo, row.hi, row.source, seq, row.attributes)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "text that is no UTF-8"
    return str(error)


_JSON_STARTS: Final = (b"{", b" ", b"\t", b"\r", b"\n", b"\xef")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Frame | _CompositeFrame)
_version_decoder = msgspec.msgpack.Decoder(_Version)
_head_decoder = msgspec.msgpack.Decoder(_Head)
_row_decoder = msgspec.msgpack.Decoder(_Row[_Unchecked])
_composite_row_decoder = msgspec.msgpack.Decoder(_CompositeRow[_Unchecked])

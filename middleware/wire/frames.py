"""Wire format: one MQTT message is one msgpack frame of one or many events of one type from one source.

A frame is an array of one of two kinds, by its first element:

    ["e", 1, type, source, watermark, [row, ...], number, top, losses]                     primitive events
    ["c", 1, type, source, watermark, [row, ...], open, number, life, top, base, losses]   composite events

    [lo, hi, seq, attributes]                                   a row of primitive events
    [lo, hi, digest, attributes, ids, events, derivations, again]   a row of composite events

`lo`, `hi` and the watermark are nanoseconds since the Unix epoch in 64 bits, `digest` is the 96-bit sequence number of
a composite event as 12 bytes, big endian. `ids` are the constituents' `[source, seq]`, with an integer or such a digest
as `seq`, and `events` the constituents themselves if sent along (`event_encoding`). `derivations` are the ways the
event came about, `again` marks only these as new, and `open` is how far they are complete (`provenance`), all three
only where requested. The watermark promises that no further event of this source has `hi <= watermark`; nil promises
nothing. A frame without rows is a heartbeat. `number` and `top` are those of a numbered stream
(`middleware.wire.numbered_stream`), of a heartbeat the number of the next frame; `life` and `base` are those of the
host of a detector (`middleware.wire.replica_streams`); `losses` are intervals of event time in which events were lost
before they came to the publisher, `[since, until, reason]`.

Fields are only ever appended, to the frame or to a row: a reader of an older format ignores further fields, one of a
newer format fills in missing ones: a frame without a number is of a foreign publisher. The version is raised only when
an old reader would *misread* a frame; readers refuse unknown versions.

Rejected: maps with field names (half of each message); columns (most messages hold one event). A frame is decoded in
one typed sweep by msgspec, and row by row only where that has failed, so a bad row does not lose the others. Where
`open` is bad, the events stay, but neither it nor the watermark promises anything; nor where the position or the losses
are. Numbers have 64 bits and are never NaN; sequence numbers of primitive events stay below 2^63.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import intern
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias

import msgspec

from distced.middleware.model.errors import DistcedError, FrameError
from distced.middleware.model.events import DIGEST_BYTES, Attribute, CompositeEvent, Event, OpenGap, check_event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.bounded_values import Instant
from distced.middleware.wire.event_encoding import (
    Attributes,
    Checked,
    Digest,
    Id,
    Name,
    PackedConstituent,
    PackedDerivation,
    PackedEvent,
    PackedOpenGap,
    Unchecked,
    V,
    bad_span,
    check_all,
    check_derivation,
    check_open_gap,
    pack_constituent,
    pack_derivation,
    pack_event,
    pack_id,
    pack_open_gap,
    unpack_constituent,
    unpack_derivation,
    unpack_ids,
    unpack_open_gap,
)
from distced.middleware.wire.json_events import SEQUENCE_MAX, decode_json
from distced.middleware.wire.numbered_stream import Loss

__all__ = ["SEQUENCE_MAX", "VERSION", "Frame", "FrameKind", "Rejected", "decode", "decode_any", "decode_json", "encode"]

VERSION: Final = 1

MOST_ROWS: Final = 100_000
"""Primitive events of a frame at most, and rows of a malformed one: each is a hundred times its bytes as a dead letter.
A detector may find more composite events at once."""

MOST_REJECTED: Final = 1_000
"""Malformed events of a frame after which the rest of it is not read."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
"""Number of a message in its stream."""

FrameKind: TypeAlias = Literal["e", "c"]
"""What a frame carries: primitive events or composite ones, as in their topics."""


class _CompositeRow(msgspec.Struct, Generic[V], array_like=True, gc=False):
    lo: Instant
    hi: Instant
    seq: Digest
    attributes: Attributes[V]
    ids: list[Id]
    events: list[PackedConstituent[V]] = []
    derivations: tuple[PackedDerivation[V], ...] = ()
    again: bool = False


class _PackedLoss(msgspec.Struct, array_like=True, gc=False):
    since: Instant
    until: Instant
    reason: str


class _Frame(msgspec.Struct, array_like=True, gc=False, tag_field="kind", tag="e"):
    version: Literal[1]
    type: Name
    source: Name
    watermark: Instant | None
    rows: Annotated[list[PackedEvent[Checked]], msgspec.Meta(max_length=MOST_ROWS)]
    number: Number | None = None
    top: Instant | None = None
    losses: tuple[_PackedLoss, ...] = ()


class _CompositeFrame(msgspec.Struct, array_like=True, gc=False, tag_field="kind", tag="c"):
    version: Literal[1]
    type: Name
    source: Name
    watermark: Instant | None
    rows: list[_CompositeRow[Checked]]
    open: tuple[PackedOpenGap[Checked], ...] = ()
    number: Number | None = None
    life: Number = 0
    top: Instant | None = None
    base: Instant | None = None
    losses: tuple[_PackedLoss, ...] = ()


class _Version(msgspec.Struct, array_like=True, gc=False):
    kind: Literal["e", "c"]
    version: int


class _Head(msgspec.Struct, array_like=True, gc=False):
    kind: Literal["e", "c"]
    version: Literal[1]
    type: Name
    source: Name
    watermark: Instant | None
    rows: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MOST_ROWS)]
    # `open` of composite events, `number` of primitive ones; then the rest of the position.
    seventh: msgspec.Raw = msgspec.Raw()
    eighth: msgspec.Raw = msgspec.Raw()
    ninth: msgspec.Raw = msgspec.Raw()
    tenth: msgspec.Raw = msgspec.Raw()
    eleventh: msgspec.Raw = msgspec.Raw()
    twelfth: msgspec.Raw = msgspec.Raw()


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Invalid event of a frame, its bytes and the reason; `row` None for open gaps, position or losses of the frame, or
    its rest that is not read."""

    row: int | None
    reason: str
    raw: bytes


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Decoded message.

    Attributes:
        kind: "e" for primitive events, "c" for composite ones.
        watermark: no further event of this source has `hi <= watermark`; None promises nothing.
        events, rejected: valid `Event` or (kind "c") `CompositeEvent`, in the order sent; invalid ones, for a dead
            letter.
        open: how far the derivations of composite events are complete.
        number, top: position in a numbered stream, as of `StreamPosition`; None for none.
        life, base: of the host of a detector (`middleware.wire.replica_streams`); 0 and None for none.
        losses: intervals in which events were lost before they came to the publisher.
    """

    kind: FrameKind
    type: str
    source: str
    watermark: int | None
    events: list[Event]
    rejected: tuple[Rejected, ...] = ()
    open: tuple[OpenGap, ...] = ()
    number: int | None = None
    top: int | None = None
    losses: tuple[Loss, ...] = ()
    life: int = 0
    base: int | None = None


def encode(
    events: Sequence[Event],
    *,
    type: str,
    source: str,
    watermark: int | None = None,
    kind: FrameKind | None = None,
    check: bool = True,
    open: Sequence[OpenGap] = (),
    number: int | None = None,
    top: int | None = None,
    losses: Sequence[Loss] = (),
    life: int = 0,
    base: int | None = None,
) -> bytes:
    """Frame of events of one type from one source; without events a heartbeat.

    Args:
        watermark: ns since the Unix epoch, or None.
        kind: of a heartbeat, "e" by default; otherwise that of the events and open gaps.
        check: check each attribute; False saves half the time, for events that `EventType.create` made.
        open: how far the derivations are complete; of composite events only.
        number, top, losses, life, base: position in a numbered stream, and losses; the last two of composite events.

    Raises:
        FrameError: malformed or misplaced event; it names the row.
    """
    if kind is None:
        kind = "c" if open or (events and isinstance(events[0], CompositeEvent)) else "e"
    if open and kind == "e":
        raise FrameError("open gaps in a frame of primitive events", given=open, allowed="composite events")
    if not type or not source:
        raise FrameError("a frame without type or source", given=f"type {type!r}, source {source!r}")
    if watermark is not None and not INSTANT_MIN <= watermark <= INSTANT_MAX:
        raise FrameError("a watermark beyond 64 bits", given=watermark, allowed="nanoseconds since the Unix epoch")
    if kind == "e" and len(events) > MOST_ROWS:
        advice = "publish them as several messages"
        raise FrameError("too many events for a message", given=len(events), allowed=f"{MOST_ROWS:,}", advice=advice)
    pack: Callable[[Any], Any] = pack_event if kind == "e" else _pack_composite
    rows: list[Any] = []
    try:
        for event in events:
            if event.type != type or event.source != source:
                raise FrameError("an event of another type or source", given=event, allowed=f"{type} from {source}")
            if check:
                check_event(event)
            rows.append(pack(event))
        frame = [kind, VERSION, type, source, watermark, rows]
        if number is not None or open or losses:
            if kind == "c":
                frame.append([pack_open_gap(one) for one in open])
            if number is not None or losses:
                frame.append(number)
                if kind == "c":
                    frame.append(life)
                if top is not None or base is not None or losses:
                    frame.append(top)
            if kind == "c" and (base is not None or losses):
                frame.append(base)
            if losses:
                frame.append([[one.since, one.until, one.reason] for one in losses])
        return _encoder.encode(frame)
    except DistcedError as error:
        place = f"row {len(rows)}" if len(rows) < len(events) else "open gaps"
        raise FrameError(
            error.problem, given=error.given, allowed=error.allowed, where=place, advice=error.advice
        ) from None
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise FrameError("not to be put in a frame", given=str(error), allowed="checked events of one kind") from None


def decode(payload: bytes, *, where: str | None = None) -> Frame:
    """Frame in a message: valid events, and invalid ones with the reasons; `where` is the topic, for the error.

    Raises `FrameError` for no frame of a readable version, and nothing else, whatever the bytes.
    """
    try:
        frame = _decoder.decode(payload)
        # One object each: a kept event of a frame of its own would be a third larger.
        type_, source = intern(frame.type), intern(frame.source)
        events: list[Event] = []
        if isinstance(frame, _Frame):
            for row in frame.rows:
                lo, hi = row.lo, row.hi
                if lo >= hi:
                    if lo > hi:
                        return _sift(payload, where)
                    lo = hi  # One object: events are kept by the hundred thousand.
                events.append(Event(type_, lo, hi, source, row.seq, row.attributes))
            losses = tuple(map(_loss, frame.losses)) if frame.losses else ()
            return Frame("e", type_, source, frame.watermark, events, (), (), frame.number, frame.top, losses)
        events.extend([_unpack_composite(row, type_, source) for row in frame.rows])
        open_ = tuple([unpack_open_gap(one) for one in frame.open]) if frame.open else ()
        losses = tuple(map(_loss, frame.losses)) if frame.losses else ()
        position = frame.number, frame.top, losses, frame.life, frame.base
        return Frame("c", type_, source, frame.watermark, events, (), open_, *position)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FrameError):
        return _sift(payload, where)


def decode_any(
    payload: bytes,
    *,
    where: str | None = None,
    type: str | None = None,
    source: str | None = None,
    now: int | None = None,
) -> Frame:
    """Frame in a message at the edge, or an event in JSON as a frame of one without a watermark; see `decode_json`.

    JSON begins with a brace or white space, a frame never does.
    """
    if is_json(payload):
        event = decode_json(payload, where=where, type=type, source=source, now=now)
        return Frame("e", event.type, event.source, None, [event])
    return decode(payload, where=where)


def is_json(payload: bytes) -> bool:
    """Whether a message is an event in JSON, if anything."""
    return payload[:1] in _JSON_STARTS


def _sift(payload: bytes, where: str | None) -> Frame:
    """Decode a frame that is not entirely good: what is wrong with the whole, or else with which rows."""
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
            if len(rejected) == MOST_REJECTED and number + 1 < len(head.rows):
                left = f"{len(head.rows) - number - 1:,} further events are not read: {MOST_REJECTED:,} were malformed"
                rejected.append(Rejected(None, left, b""))
                break
    watermark = head.watermark
    open_: tuple[OpenGap, ...] = ()
    absent = msgspec.Raw()
    packed = head.seventh, absent, head.eighth, absent, head.ninth
    if head.kind == "c":
        packed = head.eighth, head.ninth, head.tenth, head.eleventh, head.twelfth
        try:
            open_ = _sift_open(head.seventh) if head.seventh else ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DistcedError) as error:
            rejected.append(Rejected(None, _reason(error), bytes(head.seventh)))
            watermark = None
    position: tuple[int | None, int | None, tuple[Loss, ...], int, int | None] = (None, None, (), 0, None)
    try:
        position = (
            _number_decoder.decode(packed[0]) if packed[0] else None,
            _top_decoder.decode(packed[2]) if packed[2] else None,
            tuple(map(_loss, _losses_decoder.decode(packed[4]))) if packed[4] else (),
            (_number_decoder.decode(packed[1]) if packed[1] else 0) or 0,
            _top_decoder.decode(packed[3]) if packed[3] else None,
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        rejected.append(Rejected(None, _reason(error), b"".join(map(bytes, packed))))
        watermark = None
    return Frame(head.kind, head.type, head.source, watermark, events, tuple(rejected), open_, *position)


def _sift_row(raw: msgspec.Raw, type_: str, source: str) -> Event:
    row = _row_decoder.decode(raw)
    return check_event(Event(type_, row.lo, row.hi, source, row.seq, row.attributes))


def _sift_composite(raw: msgspec.Raw, type_: str, source: str) -> Event:
    event = _unpack_composite(_composite_row_decoder.decode(raw), type_, source)
    for derivation in event.derivations:
        check_derivation(derivation)
    return check_all(event)


def _sift_open(raw: msgspec.Raw) -> tuple[OpenGap, ...]:
    gaps = tuple([unpack_open_gap(packed) for packed in _open_decoder.decode(raw)])
    for one in gaps:
        check_open_gap(one)
    return gaps


def _pack_composite(event: Event) -> list[Any]:
    if not isinstance(event, CompositeEvent):
        raise FrameError("a primitive event in a frame of composite ones", given=event)
    if event.lo > event.hi:
        raise bad_span(event.lo, event.hi)
    row: list[Any] = [
        event.lo,
        event.hi,
        event.seq.to_bytes(DIGEST_BYTES, "big"),
        event.attributes,
        [pack_id(one) for one in event.constituents],
        [pack_constituent(one) for one in event.events],
    ]
    if event.derivations or event.again:
        row.append([pack_derivation(one) for one in event.derivations])
        if event.again:
            row.append(True)
    return row


def _unpack_composite(row: _CompositeRow[Attribute], type_: str, source: str) -> CompositeEvent:
    lo, hi = row.lo, row.hi
    if lo > hi:
        raise bad_span(lo, hi)
    seq, ids = int.from_bytes(row.seq, "big"), unpack_ids(row.ids)
    events = tuple([unpack_constituent(one) for one in row.events]) if row.events else ()
    if row.derivations or row.again:
        derivations = tuple([unpack_derivation(one) for one in row.derivations])
        return CompositeEvent(
            type_, lo, hi, source, seq, row.attributes,
            constituents=ids, events=events, derivations=derivations, again=row.again,
        )  # fmt: skip
    return CompositeEvent(type_, lo, hi, source, seq, row.attributes, constituents=ids, events=events)


def _loss(packed: _PackedLoss) -> Loss:
    return Loss(packed.since, packed.until, packed.reason)


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
_row_decoder = msgspec.msgpack.Decoder(PackedEvent[Unchecked])
_composite_row_decoder = msgspec.msgpack.Decoder(_CompositeRow[Unchecked])
_number_decoder = msgspec.msgpack.Decoder(Number | None)
_top_decoder = msgspec.msgpack.Decoder(Instant | None)
_losses_decoder = msgspec.msgpack.Decoder(tuple[_PackedLoss, ...])
_open_decoder = msgspec.msgpack.Decoder(tuple[PackedOpenGap[Unchecked], ...])

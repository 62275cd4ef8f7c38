"""Snapshot format: events as plain values, and the envelope with format, version and checksum.

On the bus events travel as frames (`middleware.wire.frames`), many at a time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

import msgspec

from distced.middleware.model.errors import SnapshotError
from distced.middleware.model.events import DIGEST_BYTES, CompositeEvent, Derivation, Event, EventId, Gap, OrderKey

WIDE: Final = 2**63


class _Envelope(msgspec.Struct, array_like=True):
    format: str
    version: int
    checksum: bytes
    content: bytes


msgspec.msgpack.Decoder(_Envelope)  # resolves its annotations before there are threads, for `convert`


def seal(format_name: str, version: int, content: bytes) -> bytes:
    """Seal content in an envelope with format, version and checksum."""
    return msgspec.msgpack.encode(_Envelope(format_name, version, _checksum(content), content))


def _advice(given: list[object], version: int) -> str:
    """What to do about a snapshot of another version."""
    if given and isinstance(given[0], int) and given[0] < version:
        return "its detector begins without it; move detectors away before a node is upgraded, as by distced drain"
    return "upgrade this node"


def unseal(format_name: str, version: int, sealed: bytes) -> bytes:
    """The content of an envelope. Raises `SnapshotError` for another format, or damage."""
    try:
        head = msgspec.msgpack.decode(sealed)
        if not isinstance(head, list) or head[:1] != [format_name]:
            raise SnapshotError(f"bytes that are no snapshot, {format_name}", given=sealed[:24])
        if head[1:2] != [version]:
            raise SnapshotError(
                "a snapshot of another version",
                given=head[1:2],
                allowed=f"version {version}",
                advice=_advice(head[1:2], version),
            )
        envelope = msgspec.convert(head, _Envelope)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"bytes that are no snapshot, {format_name}", given=str(error)) from None
    if envelope.checksum != _checksum(envelope.content, len(envelope.checksum)):
        raise SnapshotError("a damaged snapshot: its checksum is wrong", advice="take an earlier one")
    return envelope.content


def _checksum(content: bytes, size: int = 4) -> bytes:
    """CRC-32, against damage, not forgery; earlier versions have a digest of 8 bytes, four times as slow."""
    return blake2b(content, digest_size=size).digest() if size == 8 else crc32(content).to_bytes(4, "big")


def pack_seq(seq: int) -> int | bytes:
    """A sequence number; that of a composite event exceeds the integers of msgpack."""
    return seq if seq < WIDE else seq.to_bytes(DIGEST_BYTES, "big")


def unpack_seq(seq: int | bytes) -> int:
    """The inverse of `pack_seq`."""
    return seq if isinstance(seq, int) else int.from_bytes(seq, "big")


def pack_id(identity: EventId) -> list[Any]:
    """An event's id as plain values."""
    return [identity[0], pack_seq(identity[1])]


def unpack_id(packed: Any) -> EventId:
    """The inverse of `pack_id`."""
    return packed[0], unpack_seq(packed[1])


def pack_key(key: OrderKey) -> list[Any]:
    """An order key as plain values."""
    return [*key[:4], pack_seq(key[4])]


def unpack_key(packed: Any) -> OrderKey:
    """The inverse of `pack_key`."""
    hi, lo, rank, source, seq = packed
    return hi, lo, rank, source, unpack_seq(seq)


def pack_event(event: Event) -> list[Any]:
    """A published event as plain values, constituents included."""
    packed: list[Any] = [event.type, event.lo, event.hi, event.source, pack_seq(event.seq), event.attributes]
    if isinstance(event, CompositeEvent):
        packed += [[pack_id(each) for each in event.constituents], [pack_event(each) for each in event.events]]
        if event.derivations:
            packed += [[_pack_derivation(each) for each in event.derivations], event.again]
    return packed


def unpack_event(packed: Any) -> Event:
    """The inverse of `pack_event`."""
    type_name, lo, hi, source, seq, attributes, *rest = packed
    if not rest:
        return Event(type_name, lo, hi, source, unpack_seq(seq), attributes)
    constituents = tuple(unpack_id(each) for each in rest[0])
    events = tuple(unpack_event(each) for each in rest[1])
    derivations, again = (tuple(map(_unpack_derivation, rest[2])), rest[3]) if len(rest) > 2 else ((), False)
    return CompositeEvent(
        type_name,
        lo,
        hi,
        source,
        unpack_seq(seq),
        attributes,
        constituents=constituents,
        events=events,
        derivations=derivations,
        again=again,
    )


def _pack_derivation(derivation: Derivation) -> list[Any]:
    gap = derivation.gap
    return [
        pack_key(derivation.first),
        pack_key(derivation.last),
        derivation.lo,
        [None if gap.previous is None else pack_key(gap.previous), gap.greatest_lo],
        list(derivation.key),
        {name: pack_event(event) for name, event in derivation.bound.items()},
        derivation.counted,
    ]


def _unpack_derivation(packed: Any) -> Derivation:
    first, last, lo, (previous, greatest_lo), key, bound, counted = packed
    return Derivation(
        unpack_key(first),
        unpack_key(last),
        lo,
        Gap(None if previous is None else unpack_key(previous), greatest_lo),
        tuple(key),
        {name: unpack_event(event) for name, event in bound.items()},
        counted,
    )

"""Events as plain values, for snapshots. On the bus they travel as frames (`middleware.wire`), many at a time."""

from __future__ import annotations

from typing import Any, Final

from middleware.events import DIGEST_BYTES, CompositeEvent, Event, EventId

WIDE: Final = 2**63


def pack_seq(seq: int) -> int | bytes:
    """A sequence number; that of a composite event exceeds the integers of msgpack."""
    return seq if seq < WIDE else seq.to_bytes(DIGEST_BYTES, "big")


def unpack_seq(seq: int | bytes) -> int:
    """The inverse of `pack_seq`."""
    return seq if isinstance(seq, int) else int.from_bytes(seq, "big")


def pack_id(identity: EventId) -> list[Any]:
    """An event's id."""
    return [identity[0], pack_seq(identity[1])]


def unpack_id(packed: Any) -> EventId:
    """The inverse of `pack_id`."""
    return packed[0], unpack_seq(packed[1])


def pack_event(event: Event) -> list[Any]:
    """An event as it was published, constituents included."""
    packed: list[Any] = [event.type, event.lo, event.hi, event.source, pack_seq(event.seq), event.attributes]
    if isinstance(event, CompositeEvent):
        packed += [[pack_id(each) for each in event.constituents], [pack_event(each) for each in event.events]]
    return packed


def unpack_event(packed: Any) -> Event:
    """The inverse of `pack_event`."""
    type_name, lo, hi, source, seq, attributes, *rest = packed
    if not rest:
        return Event(type_name, lo, hi, source, unpack_seq(seq), attributes)
    constituents = tuple(unpack_id(each) for each in rest[0])
    events = tuple(unpack_event(each) for each in rest[1])
    return CompositeEvent(
        type_name, lo, hi, source, unpack_seq(seq), attributes, constituents=constituents, events=events
    )

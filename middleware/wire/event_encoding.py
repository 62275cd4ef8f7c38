"""Events inside a frame: what numbers, names and ids are on the wire, and events that travel inside other ones.

An event that is sent inside another, a constituent or one bound to a variable, names its type and its source itself:

    [type, lo, hi, source, seq, attributes]                 a primitive event
    [type, lo, hi, source, digest, attributes, ids, events] a composite one, with its own constituents

The derivations of such an event stay at home: they are for the detectors that read the event as a part, not for those
who find it inside another. Sending them was rejected: an event would grow with every pattern it has gone through.
"""

from __future__ import annotations

import sys
from typing import Annotated, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import DIGEST_BYTES, TIME, Attribute, CompositeEvent, Event, EventId, check_event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.json_events import SEQUENCE_MAX

Instant = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
Name = Annotated[str, Meta(min_length=1)]
Sequence = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Id = tuple[Name, Sequence | Digest]
# msgspec has no constraint against NaN, but NaN fails any bound. So does minus infinity, which is a number: the second
# look therefore reads attributes without bounds and leaves them to check_event.
_Number = Annotated[float, Meta(ge=-sys.float_info.max)]
Checked: TypeAlias = Instant | _Number | str | bool | None
Unchecked: TypeAlias = int | float | str | bool | None
V = TypeVar("V")


class PackedEvent(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """A primitive event of a frame, which names its type and its source, on the wire."""

    lo: Instant
    hi: Instant
    seq: Sequence
    attributes: dict[str, V]


class PackedConstituent(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """An event inside another, on the wire."""

    type: Name
    lo: Instant
    hi: Instant
    source: Name
    seq: Sequence | Digest
    attributes: dict[str, V]
    ids: list[Id] | None = None
    events: list[PackedConstituent[V]] = []


def check_all(event: Event) -> Event:
    """Return the event, or raise `EventError` where it, or an event it is made of, is none."""
    for inner in event.events if isinstance(event, CompositeEvent) else ():
        check_all(inner)
    return check_event(event)


def pack_event(event: Event) -> PackedEvent[Attribute]:
    """A primitive event; its attributes are not looked at. Raises `FrameError` where it is none."""
    if isinstance(event, CompositeEvent) or event.rank == TIME:
        raise FrameError("an event of another kind in a frame of primitive events", given=event)
    if event.lo > event.hi:
        raise bad_span(event.lo, event.hi)
    if event.seq > SEQUENCE_MAX:
        raise FrameError("a sequence number beyond 63 bits", given=event.seq, allowed=f"up to {SEQUENCE_MAX}")
    return PackedEvent(event.lo, event.hi, event.seq, event.attributes)


def bad_span(lo: int, hi: int) -> FrameError:
    """What is said about a timestamp that ends before it begins."""
    return FrameError("a timestamp with lo > hi", given=f"[{lo}, {hi}]", allowed="lo <= hi")


def pack_constituent(event: Event) -> PackedConstituent[Attribute]:
    """An event that travels inside another. Raises `FrameError` or `EventError` where it is none."""
    if not event.type:
        raise FrameError("an event without a type inside another", given=event)
    seq = event.seq.to_bytes(DIGEST_BYTES, "big") if isinstance(event, CompositeEvent) else event.seq
    packed = PackedConstituent(event.type, event.lo, event.hi, event.source, seq, event.attributes)
    check_event(event)
    if isinstance(event, CompositeEvent):
        packed.ids = [pack_id(one) for one in event.constituents]
        packed.events = [pack_constituent(one) for one in event.events]
    else:
        pack_event(event)
    return packed


def unpack_constituent(packed: PackedConstituent[Attribute]) -> Event:
    """The event. Raises `FrameError` for what its fields one by one do not tell."""
    lo, hi, seq = packed.lo, packed.hi, packed.seq
    if lo > hi:
        raise bad_span(lo, hi)
    if isinstance(seq, bytes):
        if packed.ids is None:
            raise FrameError("a composite event among the constituents that does not name its own", given=packed.source)
        return CompositeEvent(
            packed.type,
            lo,
            hi,
            packed.source,
            int.from_bytes(seq, "big"),
            packed.attributes,
            constituents=unpack_ids(packed.ids),
            events=tuple([unpack_constituent(one) for one in packed.events]) if packed.events else (),
        )
    return Event(packed.type, lo, hi, packed.source, seq, packed.attributes)


def pack_id(identity: EventId) -> tuple[str, int | bytes]:
    """A constituent's id; numbers beyond 63 bits are digests. Raises `FrameError` where it is none."""
    source, seq = identity
    if not source or seq < 0:
        raise FrameError("not the id of an event", given=identity, allowed="a source and a number from 0")
    return source, seq if seq <= SEQUENCE_MAX else seq.to_bytes(DIGEST_BYTES, "big")


def unpack_ids(ids: list[tuple[str, int | bytes]]) -> tuple[EventId, ...]:
    """The constituents' ids."""
    # Most are numbers already, and the pair can be kept as it is.
    return tuple([one if type(one[1]) is int else (one[0], int.from_bytes(one[1], "big")) for one in ids])  # type: ignore[arg-type,misc]

"""Events, their derivations and gaps inside a frame.

An event inside another, a constituent or one bound to a variable, names its type and its source itself:

    [type, lo, hi, source, seq, attributes]                 a primitive event
    [type, lo, hi, source, digest, attributes, ids, events] a composite one, with its own constituents

Derivations and gaps are appended to composite events (frames and rows) only where requested (design, section 2,
"Cutting"); not to events inside others, which would grow with every pattern passed:

    [first, last, lo, [previous, greatest_lo], key, bound, counted]  a derivation: one way an event came about
    [key, previous, greatest_lo]                                     an open gap: how far answers are complete

`first`, `last` and `previous` are order keys, `[hi, lo, rank, source, seq]`: rank 0 with the sequence number of a
primitive event, 1 with the digest of a composite one, 2 for a time event, `[due, due, 2, "@", 0]`. `key` is an array of
attributes' values, `counted` a map of them by canonical name, `bound` a map of events in the form above. Nil or empty
ends of a derivation, a gap or an open gap are left out. Order keys without the rank were rejected: time events would be
ambiguous.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import (
    COMPOSITE,
    DIGEST_BYTES,
    PRIMITIVE,
    TIME,
    Attribute,
    CompositeEvent,
    Derivation,
    Event,
    EventId,
    Gap,
    OpenGap,
    OrderKey,
    check_attribute,
    check_event,
)
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.bounded_values import Instant
from distced.middleware.wire.json_events import SEQUENCE_MAX

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

MOST_ATTRIBUTES: Final = 10_000
"""Attributes of an event at most. msgspec looks at the number that a map says before it reads the map: a frame of a
megabyte with 100,000 names is rejected in microseconds, not decoded in a fiftieth of a second."""

Attributes: TypeAlias = Annotated[dict[str, V], Meta(max_length=MOST_ATTRIBUTES)]
"""Attributes of an event by name."""


class PackedEvent(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """Primitive event of a frame, which names its type and its source, on the wire."""

    lo: Instant
    hi: Instant
    seq: Sequence
    attributes: Attributes[V]


class PackedConstituent(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """Event inside another, on the wire."""

    type: Name
    lo: Instant
    hi: Instant
    source: Name
    seq: Sequence | Digest
    attributes: Attributes[V]
    ids: list[Id] | None = None
    events: list[PackedConstituent[V]] = []


def check_all(event: Event) -> Event:
    """Return the event, or raise `EventError` where it, or an event it is made of, is malformed."""
    for inner in event.events if isinstance(event, CompositeEvent) else ():
        check_all(inner)
    return check_event(event)


def pack_event(event: Event) -> PackedEvent[Attribute]:
    """Primitive event for a frame; its attributes are not checked. Raises `FrameError` for another kind."""
    if isinstance(event, CompositeEvent) or event.rank == TIME:
        raise FrameError("an event of another kind in a frame of primitive events", given=event)
    if event.lo > event.hi:
        raise bad_span(event.lo, event.hi)
    if event.seq > SEQUENCE_MAX:
        raise FrameError("a sequence number beyond 63 bits", given=event.seq, allowed=f"up to {SEQUENCE_MAX}")
    return PackedEvent(event.lo, event.hi, event.seq, event.attributes)


def bad_span(lo: int, hi: int) -> FrameError:
    """Error of a timestamp that ends before it begins."""
    return FrameError("a timestamp with lo > hi", given=f"[{lo}, {hi}]", allowed="lo <= hi")


def pack_constituent(event: Event) -> PackedConstituent[Attribute]:
    """Event for travel inside another. Raises `FrameError` or `EventError` where it is malformed."""
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
    """Event from its packed form. Raises `FrameError` for fields that do not fit together."""
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
    """Id of a constituent; numbers beyond 63 bits are digests. Raises `FrameError` where it is malformed."""
    source, seq = identity
    if not source or seq < 0:
        raise FrameError("not the id of an event", given=identity, allowed="a source and a number from 0")
    return source, seq if seq <= SEQUENCE_MAX else seq.to_bytes(DIGEST_BYTES, "big")


def unpack_ids(ids: list[tuple[str, int | bytes]]) -> tuple[EventId, ...]:
    """Ids of the constituents."""
    # Most are numbers already, and the pair can be kept as it is.
    return tuple([one if type(one[1]) is int else (one[0], int.from_bytes(one[1], "big")) for one in ids])  # type: ignore[arg-type,misc]


_Key = tuple[Instant, Instant, Annotated[int, Meta(ge=PRIMITIVE, le=TIME)], Name, Sequence | Digest]
_PlainKey = tuple[int, int, int, str, int | bytes]


class PackedGap(msgspec.Struct, array_like=True, gc=False):
    """Gap before a match, on the wire."""

    previous: _Key | None = None
    greatest_lo: Instant | None = None


class PackedDerivation(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """Derivation of a composite event, on the wire."""

    first: _Key
    last: _Key
    lo: Instant
    gap: PackedGap
    key: tuple[V, ...] = ()
    bound: dict[Name, PackedConstituent[V]] = {}
    counted: dict[Name, V] = {}


class PackedOpenGap(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """Open gap, on the wire."""

    key: tuple[V, ...]
    previous: _Key | None = None
    greatest_lo: Instant | None = None


def pack_derivation(derivation: Derivation) -> list[Any]:
    """Derivation for the wire, checked. Raises `FrameError` or `EventError` where it is malformed."""
    _check_instant("the lo of a derivation", derivation.lo)
    _check_values(derivation)
    packed = [
        _pack_key(derivation.first),
        _pack_key(derivation.last),
        derivation.lo,
        _pack_gap(derivation.gap),
        derivation.key,
        {name: pack_constituent(event) for name, event in derivation.bound.items()},
        derivation.counted,
    ]
    _check_order(derivation)
    while not packed[-1] and len(packed) > _SHORTEST_RECORD:
        packed.pop()
    return packed


def unpack_derivation(packed: PackedDerivation[Attribute]) -> Derivation:
    """Derivation from the wire. Raises `FrameError` where its order keys are malformed, or out of order."""
    derivation = Derivation(
        _unpack_key(packed.first),
        _unpack_key(packed.last),
        packed.lo,
        _unpack_gap(packed.gap.previous, packed.gap.greatest_lo),
        packed.key,
        {name: unpack_constituent(one) for name, one in packed.bound.items()} if packed.bound else {},
        packed.counted,
    )
    _check_order(derivation)
    return derivation


def check_derivation(derivation: Derivation) -> None:
    """Raise `EventError` for malformed values and bound events that were read without bounds."""
    _check_values(derivation)
    for event in derivation.bound.values():
        check_all(event)


def pack_open_gap(one: OpenGap) -> list[Any]:
    """Open gap for the wire, checked. Raises `FrameError` or `EventError` where it is malformed."""
    check_open_gap(one)
    return [one.key, *_pack_gap(one.gap)]


def unpack_open_gap(packed: PackedOpenGap[Attribute]) -> OpenGap:
    """Open gap from the wire. Raises `FrameError` where its order key is malformed."""
    return OpenGap(packed.key, _unpack_gap(packed.previous, packed.greatest_lo))


def check_open_gap(one: OpenGap) -> None:
    """Raise `EventError` for malformed values of a key that were read without bounds."""
    _check_key_values(one.key)


def _pack_gap(gap: Gap) -> list[Any]:
    if gap.greatest_lo is not None:
        _check_instant("the greatest lo of a gap", gap.greatest_lo)
        return [None if gap.previous is None else _pack_key(gap.previous), gap.greatest_lo]
    return [] if gap.previous is None else [_pack_key(gap.previous)]


def _unpack_gap(previous: _PlainKey | None, greatest_lo: int | None) -> Gap:
    return Gap(None if previous is None else _unpack_key(previous), greatest_lo)


def _pack_key(key: OrderKey) -> _PlainKey:
    hi, lo, rank, source, seq = key
    if type(hi) is not int or type(lo) is not int or type(rank) is not int or type(source) is not str:
        raise _no_key(key)
    if type(seq) is not int or lo < INSTANT_MIN or hi > INSTANT_MAX or seq < 0:
        raise _no_key(key)
    return _check_key((hi, lo, rank, source, seq.to_bytes(DIGEST_BYTES, "big") if rank == COMPOSITE else seq))


def _unpack_key(key: _PlainKey) -> OrderKey:
    hi, lo, rank, source, seq = _check_key(key)
    return (hi, lo, rank, source, seq if isinstance(seq, int) else int.from_bytes(seq, "big"))


def _check_key(key: _PlainKey) -> _PlainKey:
    """Check that the parts of an order key belong together, which neither msgspec nor their types tell."""
    hi, lo, rank, source, seq = key
    if isinstance(seq, bytes):
        good = rank == COMPOSITE
    elif rank == TIME:
        good = lo == hi and source == "@" and seq == 0
    else:
        good = rank == PRIMITIVE and seq <= SEQUENCE_MAX
    if not good or lo > hi or not source:
        raise _no_key(key)
    return key


def _no_key(key: tuple[object, ...]) -> FrameError:
    return FrameError(
        "not the order key of an event",
        given=key,
        allowed="(hi, lo, 0, source, sequence number), (hi, lo, 1, source, digest) or (due, due, 2, '@', 0)",
    )


def _check_order(derivation: Derivation) -> None:
    first, last, lo = derivation.first, derivation.last, derivation.lo
    if first > last:
        raise FrameError("a derivation whose last event is before its first", given=f"{first}, {last}")
    if lo > first[1] or lo > last[1]:
        raise FrameError(
            "a derivation that begins after its events",
            given=lo,
            allowed=f"up to {min(first[1], last[1])}, the least lo",
        )


def _check_instant(what: str, value: object) -> None:
    if type(value) is not int or not INSTANT_MIN <= value <= INSTANT_MAX:
        raise FrameError(f"{what} is no instant", given=value, allowed="integer nanoseconds since the Unix epoch")


def _check_values(derivation: Derivation) -> None:
    if not all(derivation.bound) or not all(derivation.counted):
        raise FrameError("a variable or register without a name in a derivation", given="''", allowed="canonical names")
    _check_key_values(derivation.key)
    for name, value in derivation.counted.items():
        check_attribute(name, value)


def _check_key_values(key: tuple[Attribute, ...]) -> None:
    for number, value in enumerate(key):
        check_attribute(f"key {number}", value)


_SHORTEST_RECORD: Final = 4

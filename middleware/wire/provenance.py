"""Derivations and gaps on the wire: what detectors tell the detectors of the patterns they are part of.

They are appended to composite events, to their frames as to their rows, and left out where nobody asked for them
(design, section 2, "Cutting"):

    [first, last, lo, [previous, greatest_lo], key, bound, counted]  a derivation: one way an event came about
    [key, previous, greatest_lo]                                     an open gap: how far answers are complete

`first`, `last` and `previous` are order keys, `[hi, lo, rank, source, seq]`: rank 0 with the sequence number of a
primitive event, 1 with the digest of a composite one, 2 for a time event, which is `[due, due, 2, "@", 0]` wherever it
was due. `key` is an array of attributes' values, `counted` a map of them by canonical name, `bound` a map of events as
they travel inside others. What is nil or empty at the end of a derivation, of a gap or of an open gap is left out.

An order key with the rank left out, to be told by its sequence number, was rejected: nothing would tell a time event.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic

import msgspec
from msgspec import Meta

from distced.middleware.model.errors import FrameError
from distced.middleware.model.events import (
    COMPOSITE,
    DIGEST_BYTES,
    PRIMITIVE,
    TIME,
    Attribute,
    Derivation,
    Gap,
    OpenGap,
    OrderKey,
    check_attribute,
)
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.event_encoding import (
    Digest,
    Instant,
    Name,
    PackedConstituent,
    Sequence,
    V,
    check_all,
    pack_constituent,
    unpack_constituent,
)
from distced.middleware.wire.json_events import SEQUENCE_MAX

_Key = tuple[Instant, Instant, Annotated[int, Meta(ge=PRIMITIVE, le=TIME)], Name, Sequence | Digest]
_PlainKey = tuple[int, int, int, str, int | bytes]


class PackedGap(msgspec.Struct, array_like=True, gc=False):
    """What went before a match, on the wire."""

    previous: _Key | None = None
    greatest_lo: Instant | None = None


class PackedDerivation(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """One way a composite event came about, on the wire."""

    first: _Key
    last: _Key
    lo: Instant
    gap: PackedGap
    key: tuple[V, ...] = ()
    bound: dict[Name, PackedConstituent[V]] = {}
    counted: dict[Name, V] = {}


class PackedOpenGap(msgspec.Struct, Generic[V], array_like=True, gc=False):
    """How far a detector's answers are complete, on the wire."""

    key: tuple[V, ...]
    previous: _Key | None = None
    greatest_lo: Instant | None = None


def pack_derivation(derivation: Derivation) -> list[Any]:
    """A derivation, checked. Raises `FrameError` or `EventError` where it is none."""
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
    """The derivation. Raises `FrameError` where its order keys are none, or out of order."""
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
    """Raise `EventError` for values and bound events that were read without bounds, and are none."""
    _check_values(derivation)
    for event in derivation.bound.values():
        check_all(event)


def pack_open_gap(one: OpenGap) -> list[Any]:
    """An open gap, checked. Raises `FrameError` or `EventError` where it is none."""
    check_open_gap(one)
    return [one.key, *_pack_gap(one.gap)]


def unpack_open_gap(packed: PackedOpenGap[Attribute]) -> OpenGap:
    """The open gap. Raises `FrameError` where its order key is none."""
    return OpenGap(packed.key, _unpack_gap(packed.previous, packed.greatest_lo))


def check_open_gap(one: OpenGap) -> None:
    """Raise `EventError` for the values of a key that were read without bounds, and are none."""
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
    """What neither msgspec nor a look at the types can tell: whether the parts belong together."""
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

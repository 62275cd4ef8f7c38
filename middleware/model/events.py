"""Events: primitive ones that were published, composite ones that were detected, and their order of consumption.

An event has a type, an interval timestamp, a unique id `(source, sequence number)` and attributes
(composite-event-framework-2004, "Event Model" and Appendix A, equations 6 and 7). To a reader a composite event is an
ordinary event. Both are msgspec structs, made by the hundred thousand a second, straight from the wire. Frozen
dataclasses were rejected: making one takes six times as long.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import ClassVar, Final, TypeAlias

import msgspec

from distced.middleware.model.errors import EventError
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, Timestamp

Attribute: TypeAlias = int | float | str | bool | None
"""What an attribute's value may be. Integers have 64 bits; a number is never NaN, whose place null takes."""

EventId: TypeAlias = tuple[str, int]
"""`(source, sequence number)`; of a composite event `(canonical id of its pattern, digest)`."""

OrderKey: TypeAlias = tuple[int, int, int, str, int]
"""`(hi, lo, rank, source, sequence number)`: the total order in which events are consumed."""

PRIMITIVE: Final = 0
COMPOSITE: Final = 1
TIME: Final = 2

DIGEST_BYTES: Final = 12
SEQ_END: Final = 256**DIGEST_BYTES  # bound of sequence numbers


class Event(msgspec.Struct, frozen=True, gc=False):
    """Primitive event.

    Attributes:
        type: name of its event type.
        lo, hi: its timestamp, ns since the Unix epoch, `lo <= hi`.
        source, seq: its unique id: the source that published it, and the source's sequence number.
        attributes: numbers, strings, booleans or None by name. A missing attribute reads as null. Not to be changed.
    """

    type: str
    lo: int
    hi: int
    source: str
    seq: int
    attributes: dict[str, Attribute]

    # Where timestamps tie, what was composed comes after what it may be composed of.
    rank: ClassVar[int] = PRIMITIVE

    @property
    def id(self) -> EventId:
        """Unique id."""
        return (self.source, self.seq)

    @property
    def timestamp(self) -> Timestamp:
        """Interval `[lo, hi]`."""
        return Timestamp(self.lo, self.hi)

    @property
    def key(self) -> OrderKey:
        """Place in the total order of consumption: `≺` on timestamps, ids where they are equal."""
        return (self.hi, self.lo, self.rank, self.source, self.seq)


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Gap before a match: tells whether it began with the first start event after some other one.

    Design, section 2, "Cutting". The earlier events in the domain of the start alternative count in which the match
    began: an alternation at its start has one for each branch, a key one for each value.

    Attributes:
        previous: order key of the previous one; None where there was none.
        greatest_lo: greatest `lo` of all of them, ns; None where there was none.
    """

    previous: OrderKey | None = None
    greatest_lo: int | None = None


class Derivation(msgspec.Struct, frozen=True, gc=False):
    """Way in which a composite event came about, for the detector of a pattern it is part of.

    Order keys are of events that were *matched*, hidden ones and time events included; that of a time event is
    `(due, due, TIME, "@", 0)`.

    Attributes:
        first, last: order keys of the first and the last event matched; they hold the timestamps.
        lo: least `lo` of all events matched, ns. The greatest `hi` is that of the last.
        gap: before the first.
        key: values of the detector's key, in the order of its attributes; empty without a key.
        bound, counted: events bound to the variables, and values of the registers, read outside, by canonical name.
    """

    first: OrderKey
    last: OrderKey
    lo: int
    gap: Gap
    key: tuple[Attribute, ...] = ()
    bound: dict[str, Event] = {}
    counted: dict[str, Attribute] = {}


class OpenGap(msgspec.Struct, frozen=True, gc=False):
    """Bound on a detector's answers for one value of its key: no derivation to come has a lesser gap, in either part.

    It travels with a watermark. A detector that waits for derivations may give up where every one to come would begin
    too late.

    Attributes:
        key: values of the detector's key, in the order of its attributes; empty without a key.
        gap: least `previous` and least `greatest_lo` of all that is still open; None for no bound.
    """

    key: tuple[Attribute, ...]
    gap: Gap


class CompositeEvent(Event, frozen=True, gc=False, kw_only=True):
    """Composite event, found by a detector.

    Its timestamp is the union over all events its instance matched, hidden ones and time events included, so `hi` is
    the moment of detection. Its `source` is the canonical id of the pattern, its `seq` the digest of the constituents'
    ids and the output attributes: the same detection made twice, anywhere, has the same id.

    Attributes:
        constituents: ids of the events it is made of, in order of consumption, each once.
        events: these events themselves where the subscription asked for them, else empty.
        derivations: the ways it came about, for the detectors that read it as part of a pattern of theirs; else empty.
        again: whether it was found before and comes again with further derivations. Subscribers see it once.
    """

    constituents: tuple[EventId, ...]
    events: tuple[Event, ...] = ()
    derivations: tuple[Derivation, ...] = ()
    again: bool = False

    rank: ClassVar[int] = COMPOSITE


def composite_digest(constituents: tuple[EventId, ...], attributes: dict[str, Attribute]) -> int:
    """Sequence number of a composite event: a digest of its constituents' ids and its output attributes.

    96 bits: among a thousand million composite events of one pattern two collide once in 10^11 trials.
    """
    pairs = sorted(attributes.items()) if attributes else ()
    try:
        content = _encode((constituents, pairs))
    except OverflowError:
        # Ids of composite events exceed the 64 bits of msgpack's integers.
        wide = [(source, seq if seq < _WIDE else seq.to_bytes(DIGEST_BYTES, "big")) for source, seq in constituents]
        content = _encode((wide, pairs))
    return int.from_bytes(blake2b(content, digest_size=DIGEST_BYTES).digest(), "big")


_WIDE: Final = 2**64
_encode: Final = msgspec.msgpack.Encoder().encode


def check_event(event: Event, *, where: str | None = None) -> Event:
    """Return the event, or raise `EventError` for a timestamp, an id or attributes out of range."""
    for name in ("lo", "hi"):
        value = getattr(event, name)
        if type(value) is not int or not INSTANT_MIN <= value <= INSTANT_MAX:
            raise EventError(
                f"{name} of a timestamp is no instant",
                given=value,
                allowed="integer nanoseconds since the Unix epoch, in 64 bits",
                where=where,
            )
    if event.lo > event.hi:
        raise EventError(
            "a timestamp with lo > hi",
            given=f"[{event.lo}, {event.hi}]",
            allowed="lo <= hi",
            where=where,
            advice="swap them, or mend the clock they come from",
        )
    if type(event.source) is not str or not event.source:
        raise EventError("an event without a source", given=event.source, allowed="a non-empty text", where=where)
    if type(event.seq) is not int or not 0 <= event.seq < SEQ_END:
        raise EventError(
            "not a sequence number", given=event.seq, allowed=f"an integer from 0, of {8 * DIGEST_BYTES} bits",
            where=where,
        )  # fmt: skip
    if isinstance(event, CompositeEvent) and not all(0 <= seq < SEQ_END for _, seq in event.constituents):
        raise EventError(
            "not a sequence number of a constituent", given=event.constituents,
            allowed=f"an integer from 0, of {8 * DIGEST_BYTES} bits", where=where,
        )  # fmt: skip
    for name, value in event.attributes.items():
        check_attribute(name, value, where=where)
    return event


def check_attribute(name: str, value: object, *, where: str | None = None) -> None:
    """Raise `EventError` for a value that no attribute can have."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if kind is int and INSTANT_MIN <= value <= INSTANT_MAX:  # type: ignore[operator]
        return
    if kind is float and not math.isnan(value):  # type: ignore[arg-type]
        return
    raise EventError(
        f"not a value for the attribute {name!r}",
        given=value,
        allowed="an integer of 64 bits, a float that is not NaN, a text, true, false or null",
        where=where,
    )


_BYTES: Final = 400
_ATTRIBUTE_BYTES: Final = 60
_ID_BYTES: Final = 100
"""Bytes of an event without attributes, of an attribute but for its text, and of the id of a constituent."""


def held_bytes(event: Event) -> int:
    """Memory that an event takes while it is kept, bytes: estimated from what it has."""
    size = _BYTES + _ATTRIBUTE_BYTES * len(event.attributes)
    size += sum(len(each) for each in event.attributes.values() if each.__class__ is str)
    if isinstance(event, CompositeEvent):
        size += _ID_BYTES * (len(event.constituents) + 2 * len(event.derivations)) + sum(map(held_bytes, event.events))
    return size

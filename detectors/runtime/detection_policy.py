"""The interface between a detector and its detection policy: arrivals in, events to consume out.

Policies stand above detectors (design, section 4), so a detector is handed one and knows this protocol only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import lt
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct, field

from distced.middleware.model.events import CompositeEvent, Event, EventId, OrderKey
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss, StreamPosition

Arrival: TypeAlias = tuple[str, Sequence[Event], int | None, StreamPosition | None]
"""Content of a frame: source, events, the source's watermark if given, and the position of the message, None where the
source does not number its messages, or they were looked at before."""

Positions: TypeAlias = Sequence[tuple[str, int, int | None]]
"""Of a heartbeat of a source: by stream (type) the number of the next message, and the greatest `hi` of all earlier
ones, None where it is not beyond the watermark, ns."""


class Begins(Struct, frozen=True):
    """Beginning of a source's streams.

    Attributes:
        streams: names of those that are read.
        first: number of the first message of each, in this life of the publisher; 0 where it does not number them.
        running: whether the source may have published already, so that the stream is read from its middle.
    """

    streams: Sequence[str]
    first: int
    running: bool = False


class Released(Struct, frozen=True):
    """Events released for consumption.

    Attributes:
        events: in the order of consumption.
        watermark: no event with `hi` at or before it will be released any more, ns; None if unknown.
        late: unconsumed events from behind the watermark, or of a fenced source.
        duplicates: number of repeated events.
        fenced: sources whose leases have run out, which are not waited for any more.
        losses: intervals in which events were lost for good; they come before what is released here.
        behind: events released behind later ones, by best effort.
        overdue: events released behind the clock of time events, by best effort.
    """

    events: list[Event]
    watermark: int | None
    late: list[Event] = field(default_factory=list)
    duplicates: int = 0
    fenced: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    behind: list[Event] = field(default_factory=list)
    overdue: list[Event] = field(default_factory=list)


def losses_of(late: Iterable[Event], *, open_end: bool = False) -> list[Loss]:
    """Intervals in which composite events may be wrong or missing for late events, one for each source; `open_end`
    where an event makes a difference to all later ones."""
    by_source: dict[str, list[Event]] = {}
    for each in late:
        by_source.setdefault(each.source, []).append(each)
    losses: list[Loss] = []
    for source, events in by_source.items():
        first, last = min(each.hi for each in events), max(each.hi for each in events)
        number = f"{len(events)} events" if len(events) > 1 else f"an event of type {events[0].type}"
        losses.append(Loss(first - 1, INSTANT_MAX if open_end else last, f"{source}: {number} late"))
    return losses


def delivery_id(event: Event) -> EventId:
    """The id shared by deliveries of one event. A repeated detection with further derivations is another delivery."""
    if isinstance(event, CompositeEvent) and event.again:
        return (f"{event.source} again {event.hi}", event.seq)
    return event.id


def in_order(events: list[Event]) -> list[Event]:
    """The events in the order of consumption; this list, sorted where it is not."""
    instants = [event.hi for event in events]
    if not all(map(lt, instants, islice(instants, 1, None))):
        events.sort(key=_order)
    return events


def _order(event: Event) -> OrderKey:
    return event.key


class DetectionPolicy(Protocol):
    """Decides when the events that reach a detector are consumed.

    `watermark`: no event with `hi` at or before it is released any more, ns; None if unknown. Never decreases.
    """

    name: str
    watermark: int | None

    def receive(
        self,
        source: str,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        position: StreamPosition | None = None,
    ) -> Released:
        """Receive events of a source, with its watermark and the position of the message if given."""
        ...

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        """Receive what has arrived together, in the order of arrival."""
        ...

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Released:
        """Receive watermarks of sources without events, with the positions of each, if given."""
        ...

    def join(self, source: str, watermark: int, now: int, lease: int = 0, begins: Begins | None = None) -> int:
        """Add a source, which promises events beyond a watermark only; the watermark it has to keep."""
        ...

    @property
    def begins(self) -> Mapping[str, int] | None:
        """Instants up to which detectors that are read may have published before, ns; None once it has begun."""
        ...

    def read_from(self, detector: str, since: int) -> None:
        """A detector is read from an instant on, ns; what it had published before has not come."""
        ...

    def missing(self, now: int) -> list[tuple[str, str, int, int]]:
        """Missing messages to be requested now: source, stream, and numbers from and to, the latter exclusive."""
        ...

    def unavailable(self, lost: Unavailable, now: int) -> Released:
        """Take the answer of a source to a request for missing messages."""
        ...

    def unnumbered(self) -> Mapping[str, int | None]:
        """Sources whose messages have no numbers, with their watermarks, ns; None for unknown."""
        ...

    def waits_for(self) -> set[str]:
        """The sources whose watermarks count."""
        ...

    def slowest(self) -> tuple[str, int] | None:
        """Source with the least watermark, which holds the stream back, and its last arrival, ns; None for none."""
        ...

    def leave(self, source: str, now: int) -> Released:
        """Remove a source that has finished."""
        ...

    def fence(self, source: str, now: int) -> Released:
        """Stop waiting for a source; its later events are late."""
        ...

    def tick(self, now: int) -> Released:
        """Advance the time; leases may expire."""
        ...

    @property
    def base(self) -> int | None:
        """Instant up to which sources may have published before they were read, ns; None for unknown as yet."""
        ...

    def streams(self) -> list[tuple[str, str]]:
        """Numbered streams that are read: source and name."""
        ...

    @property
    def messages(self) -> int:
        """Number of messages with numbers taken so far, here."""
        ...

    def received(self) -> dict[tuple[str, str], int]:
        """Of each numbered stream the number of the first message that has not come; only where it is known."""
        ...

    @property
    def size(self) -> int:
        """Approximate size of its state, bytes: estimated from its events and ids."""
        ...

    def state(self) -> Any:
        """The persistent state, as plain values."""
        ...

    def resume(self, state: Any) -> None:
        """Resume from a result of `state`."""
        ...

    def is_level_with(self, other: Self) -> bool:
        """Whether another policy releases the same events from now on, if both receive the same."""
        ...

    def copy(self) -> Self:
        """An independent policy that continues from here."""
        ...


@runtime_checkable
class FollowsHistory(Protocol):
    """Detection policy of a detector that has consumed recorded events first."""

    def begin_behind(self, reached: int) -> None:
        """Go on behind an instant up to which all was consumed from a history, ns."""
        ...

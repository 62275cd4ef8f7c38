"""The interface between a detector and its detection policy: arrivals in, events to consume out.

Policies stand above detectors (design, section 4), so a detector is handed one and knows this protocol only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Any, Protocol, Self, TypeAlias

from msgspec import Struct, field

from distced.middleware.model.events import CompositeEvent, Event, EventId, OrderKey

Arrival: TypeAlias = tuple[str, Sequence[Event], int | None]
"""Content of a frame: source, events, and the source's watermark if given."""


class Released(Struct, frozen=True):
    """Events released for consumption.

    Attributes:
        events: in the order of consumption.
        watermark: no event with `hi` at or before it will be released any more, ns; None if unknown.
        late: unconsumed events from behind the watermark, or of a fenced source.
        duplicates: number of repeated events.
        fenced: sources whose leases have run out, which are not waited for any more.
    """

    events: list[Event]
    watermark: int | None
    late: list[Event] = field(default_factory=list)
    duplicates: int = 0
    fenced: list[str] = field(default_factory=list)


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

    def receive(self, source: str, events: Sequence[Event], watermark: int | None, now: int) -> Released:
        """Receive events of a source, with its watermark if given."""
        ...

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        """Receive what has arrived together, in the order of arrival."""
        ...

    def heartbeat(self, sources: Iterable[str], watermark: int, now: int) -> Released:
        """Receive watermarks of sources without events."""
        ...

    def join(self, source: str, watermark: int, now: int, lease: int = 0) -> int:
        """Add a source, which promises events beyond a watermark only; the watermark it has to keep."""
        ...

    def waits_for(self) -> set[str]:
        """The sources whose watermarks count."""
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
    def held(self) -> int:
        """Number of events and ids held."""
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

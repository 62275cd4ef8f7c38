"""The seam between a detector and its detection policy: what is told, and what may be consumed.

Policies stand above detectors (design, section 4), so a detector is handed one and knows this protocol only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from distced.middleware.model.events import CompositeEvent, Event, EventId


@dataclass(frozen=True, slots=True)
class Released:
    """What may be consumed now.

    Attributes:
        events: in the order of consumption.
        watermark: no event with `hi` at or before it will be released any more; None where nothing can be said yet.
        late: events that came behind the watermark, or from a source that was fenced off: they are not consumed.
        duplicates: how many events had come before.
        fenced: sources that are not waited for any more, because their leases have run out.
    """

    events: list[Event]
    watermark: int | None
    late: list[Event] = field(default_factory=list)
    duplicates: int = 0
    fenced: list[str] = field(default_factory=list)


def delivery_id(event: Event) -> EventId:
    """What tells a second delivery of an event. Found again with further records, it is no second delivery."""
    if isinstance(event, CompositeEvent) and event.again:
        return (f"{event.source} again {event.hi}", event.seq)
    return event.id


class DetectionPolicy(Protocol):
    """Decides when the events that reach a detector are consumed."""

    name: str

    def receive(self, source: str, events: Sequence[Event], watermark: int | None, now: int) -> Released:
        """Events of a source have arrived, with its watermark if it gave one."""
        ...

    def heartbeat(self, sources: Iterable[str], watermark: int, now: int) -> Released:
        """Sources have been heard beyond a watermark, without events."""
        ...

    def join(self, source: str, watermark: int, now: int, lease: int = 0) -> int:
        """A source joins, and promises events beyond a watermark only; the watermark it has to keep."""
        ...

    def waits_for(self) -> set[str]:
        """The sources that count."""
        ...

    def leave(self, source: str, now: int) -> Released:
        """A source has said that it is done."""
        ...

    def fence(self, source: str, now: int) -> Released:
        """A source is not waited for any more; what it sends from now on is late."""
        ...

    def tick(self, now: int) -> Released:
        """Time has passed; leases may have run out."""
        ...

    @property
    def held(self) -> int:
        """How many events and ids it remembers."""
        ...

    def state(self) -> Any:
        """Everything to remember, as plain values."""
        ...

    def resume(self, state: Any) -> None:
        """Go on from what `state` gave."""
        ...

"""Feeds of the demonstration: the Active Office, or a recording, in steps of virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Protocol

from distced.middleware.event_files import in_order, read_events
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.office import ActiveOffice, OfficeStep
from distced.simulations.office.sensors import TYPES


class DemoFeed(Protocol):
    """Source of the events of a demonstration.

    Attributes:
        title: what it is, for people.
        start: no event has `hi` at or before this, ns.
        types: the event types, bases before those derived from them.
        sources: the types each source publishes, by name.
    """

    title: str
    start: int
    types: list[EventType]
    sources: Mapping[str, tuple[str, ...]]

    def steps(self) -> Iterator[OfficeStep]:
        """Steps of virtual time, each with its published events."""
        ...

    def places(self) -> dict[str, str]:
        """Present place of each person; empty where unknown."""
        ...


class OfficeFeed:
    """The Active Office, for a number of minutes of virtual time."""

    def __init__(self, seed: int, minutes: float) -> None:
        self.office = ActiveOffice(Random(seed))
        self.title = f"Active Office, seed {seed}, {minutes:g} minutes"
        self.start = self.office.now - MINUTE
        self.types = self.office.types
        self.sources = self.office.sources
        self._duration = round(minutes * MINUTE)

    def steps(self) -> Iterator[OfficeStep]:
        return self.office.run(self._duration)

    def places(self) -> dict[str, str]:
        return self.office.people


class RecordedFeed:
    """A recording, replayed in the order of consumption; gaps without events are skipped."""

    def __init__(self, path: Path, mapping: Path | None, tick: int = SECOND) -> None:
        reader = read_events(path, load_mapping(mapping) if mapping is not None else None)
        self.events = in_order(reader)
        if not self.events:
            raise DistcedError("a recording without events", given=str(path), advice="does it need a --mapping?")
        self.rejected = reader.counts["rejected"]
        self.title = f"{path.name}, {len(self.events):,} events, {self.rejected:,} rows set aside"
        self.start = self.events[0].hi - 1
        self.types = _with_office_types(list(reader.types))
        published: dict[str, dict[str, None]] = {}
        for event in self.events:
            published.setdefault(event.source, {})[event.type] = None
        self.sources = {source: tuple(types) for source, types in published.items()}
        self._tick = tick

    def steps(self) -> Iterator[OfficeStep]:
        events: list[Event] = []
        end = self.start + self._tick
        for event in self.events:
            if event.hi > end:
                if events:
                    yield OfficeStep(end, events)
                events = []
                end = event.hi + self._tick - (event.hi - self.start) % self._tick
            events.append(event)
        yield OfficeStep(end, events)

    def places(self) -> dict[str, str]:
        return {}


def _with_office_types(types: list[EventType]) -> list[EventType]:
    """Types of a recording; where they are the office's, all office types, because patterns name more than has
    happened.
    """
    office = {each.name: each for each in TYPES}
    if all(each.name in office and each.same_as(office[each.name]) for each in types):
        return list(TYPES)
    return types

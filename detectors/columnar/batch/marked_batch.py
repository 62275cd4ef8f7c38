"""A batch with further columns: marks of throttled types, values of aggregates and of computed keys.

Its events have these values among their attributes, as those that the stepwise engine marks; so what is bound, kept in
a snapshot or handed to another engine is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from distced.detectors.columnar.batch.columns import Batch, Column, Handed, Ints
from distced.middleware.model.events import Attribute, Event


class MarkedBatch(Batch):
    """The events of a batch with the values of columns that are not null as attributes."""

    def __init__(self, batch: Batch, marks: Mapping[str, Column]) -> None:
        super().__init__(batch.types, batch.type_names, batch.lo, batch.hi)
        self._batch = batch
        self._marks = marks
        # What is part of one match is often part of others; they share it.
        self._made: dict[int, Event] = {}

    def column(self, name: str | Handed) -> Column | None:
        mark = self._marks.get(name) if isinstance(name, str) else None
        return self._batch.column(name) if mark is None else mark

    def event(self, place: int) -> Event:
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = self._event(place)
        return made

    def _event(self, place: int) -> Event:
        event = self._batch.event(place)
        values: dict[str, Attribute] = {}
        for name, column in self._marks.items():
            value = column.value(place)
            if value is not None:
                values[name] = value
        return with_attributes(event, values) if values else event

    def select(self, places: Ints) -> Batch:
        marks = {name: column.select(places) for name, column in self._marks.items()}
        return MarkedBatch(self._batch.select(places), marks)


def with_attributes(event: Event, values: Mapping[str, Attribute]) -> Event:
    """The event with further attributes."""
    attributes = {**event.attributes, **values}
    if event.__class__ is Event:
        # In a third of the time.
        return Event(event.type, event.lo, event.hi, event.source, event.seq, attributes)
    return replace(event, attributes=attributes)

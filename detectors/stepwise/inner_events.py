"""Events that exist inside an engine only: timers that fired, and what the sides of a `&` found."""

from __future__ import annotations

from middleware.events import TIME, Attribute, CompositeEvent, Event, EventId


class TimeEvent(Event, frozen=True, gc=False):
    """A timer that fired: instantaneous, and after every other event with the same `hi`."""

    rank = TIME


class PartEvent(CompositeEvent, frozen=True, gc=False, kw_only=True):
    """A composite event of a side of a `&`, with what it hands on to the pattern around it.

    Attributes:
        bound: the events bound to the variables that are read outside the side.
        counted: the values of the registers that are read outside.
    """

    bound: dict[str, Event]
    counted: dict[str, Attribute]

    def carried(self) -> tuple[list[tuple[str, EventId]], list[tuple[str, str]]]:
        """What it hands on, in a form that can be ordered."""
        bound = sorted((name, event.id) for name, event in self.bound.items())
        return bound, sorted((name, repr(value)) for name, value in self.counted.items())

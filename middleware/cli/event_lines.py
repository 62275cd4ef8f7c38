"""Events for people to read, one a line, in columns that stay where they are."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, format_instant

COLOURS: Final = ("cyan", "yellow", "magenta", "green", "blue", "red")


class EventLines:
    """Makes lines of events. Each type has a colour; the column of types grows with the widest so far.

    Attributes:
        colours: by type, in the order of coming.
        width: of the column of types.
    """

    def __init__(self) -> None:
        self.colours: dict[str, str] = {}
        self.width = 0

    def line(self, event: Event, delay: int | None = None) -> Text:
        """An event on a line.

        Args:
            delay: from its `hi` to its arrival, ns; None where that says nothing.
        """
        colour = self.colours.setdefault(event.type, COLOURS[len(self.colours) % len(COLOURS)])
        self.width = max(self.width, len(event.type))
        attributes = "  ".join(f"{name}={_value(value)}" for name, value in event.attributes.items())
        parts: list[str | tuple[str, str]] = [
            (clock(event.hi), "dim"),
            "  ",
            (f"{event.type:<{self.width}}", f"bold {colour}"),
        ]
        if attributes:
            parts.append(f"  {attributes}")
        said = [] if event.lo == event.hi else [f"over {span(event.hi - event.lo)}"]
        if isinstance(event, CompositeEvent):
            said.append(f"{len(event.constituents)} constituent{'s' * (len(event.constituents) != 1)}")
        else:
            said.append(f"from {event.source}")
        if delay is not None:
            said.append(f"after {span(delay)}")
        return Text.assemble(*parts, ("  " + ", ".join(said), "dim"))

    def lines(self, event: Event, delay: int | None = None) -> list[Text]:
        """An event, and indented below it the constituents that were sent along."""
        lines = [self.line(event, delay)]
        for each in event.events if isinstance(event, CompositeEvent) else ():
            lines += [Text("    ") + line for line in self.lines(each)]
        return lines


def clock(instant: int) -> str:
    """An instant to the millisecond, always equally long."""
    head = format_instant(instant - instant % SECOND)[:-1]
    return f"{head}.{instant % SECOND // MILLISECOND:03}Z"


def span(nanoseconds: int) -> str:
    """A duration for people, to three digits or so."""
    for unit, size in (("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", MILLISECOND)):
        if nanoseconds >= size:
            return (
                f"{nanoseconds / size:.3g} {unit}" if nanoseconds < 1000 * size else f"{nanoseconds / size:,.0f} {unit}"
            )
    return f"{nanoseconds / MICROSECOND:.3g} µs"


def _value(value: Attribute) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.10g}" if isinstance(value, float) else str(value)

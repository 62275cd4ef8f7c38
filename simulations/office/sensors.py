"""Sensors: event types of the building, its sources, their clocks, and readings yet to be published.

composite-event-framework-2004, "Motivation": workers wear Active Bats that announce their movements at least once a
minute, "other sensors monitor doors, office temperatures, electronic whiteboard usage, and lighting". A reading at the
physical instant t is published as [t - u, t + u] with the uncertainty u of the sensor's clock, once t + u has passed.
`Seen` is the article's prefilter of scenario 1, repeat notifications limited to one a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from distced.middleware.model.event_types import EventType, derive, event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MILLISECOND, MINUTE
from distced.simulations.office.building import Building

PERS: Final = event_type("Pers", {"person": "string", "room": "string"})
SEEN: Final = derive(PERS, "Seen", every=MINUTE, by=("person", "room"))
DOOR: Final = event_type("Door", {"room": "string", "open": "boolean"})
TEMP: Final = event_type("Temp", {"room": "string", "temp": "number"})
BOARD_ON: Final = event_type("BoardOn", {"room": "string"})
BOARD_OFF: Final = event_type("BoardOff", {"room": "string"})
BOARD_PAGE: Final = event_type("BoardPage", {"room": "string", "page": "number"})
LIGHT: Final = event_type("Light", {"room": "string", "on": "boolean"})
LOGIN: Final = event_type("Login", {"person": "string", "room": "string"})
LOGOUT: Final = event_type("Logout", {"person": "string", "room": "string"})

TYPES: Final = (PERS, SEEN, DOOR, TEMP, BOARD_ON, BOARD_OFF, BOARD_PAGE, LIGHT, LOGIN, LOGOUT)
"""In the order of registration: a derived type after its base."""

PUBLISHES: Final[dict[str, tuple[EventType, ...]]] = {
    "badge": (PERS,),
    "door": (DOOR,),
    "thermometer": (TEMP,),
    "light": (LIGHT,),
    "board": (BOARD_ON, BOARD_OFF, BOARD_PAGE),
    "workstation": (LOGIN, LOGOUT),
}
"""Types by kind of sensor, with which the names of its sources begin."""

UNCERTAINTY: Final = {
    "badge": 50 * MILLISECOND,
    "door": 20 * MILLISECOND,
    "thermometer": 500 * MILLISECOND,
    "light": 50 * MILLISECOND,
    "board": 80 * MILLISECOND,
    "workstation": 100 * MILLISECOND,
}
"""Uncertainty of the clock by kind of sensor, ns."""


def source_name(sensor: str, what: str) -> str:
    """Source name of a kind of sensor at a room or for a person: `badge-FE02`, `board-Meeting-Room-1`."""
    return f"{sensor}-{what.replace(' ', '-')}"


class Sensors:
    """All sensors of a building; `sources` are the names of the event types of each source."""

    def __init__(self, building: Building, residents: Iterable[str]) -> None:
        places = {sensor: tuple(building.rooms) for sensor in ("badge", "door", "thermometer", "light")}
        places |= {"board": building.of_kind("meeting room"), "workstation": tuple(residents)}
        self.sources: dict[str, tuple[str, ...]] = {
            source_name(sensor, place): tuple(each.name for each in PUBLISHES[sensor])
            for sensor in places
            for place in places[sensor]
        }
        # By source, the next sequence number, and the instant of the last event, ns: `hi` of a source increases.
        self._sensed: dict[str, int] = dict.fromkeys(self.sources, 0)
        self._last: dict[str, int] = {}
        # Events to be published: a heap of (hi, number of the reading, instant, event).
        self._waiting: list[tuple[int, int, int, Event]] = []
        self._number = 0

    def sense(self, instant: int, sensor: str, what: str, event_type: EventType, **attributes: Attribute) -> None:
        """Take a reading of the sensor at a room, or of a person, at a physical instant in nanoseconds."""
        source = source_name(sensor, what)
        instant = max(instant, self._last.get(source, instant - 1) + 1)
        self._last[source] = instant
        uncertainty = UNCERTAINTY[sensor]
        seq = self._sensed[source]
        self._sensed[source] = seq + 1
        event = Event(event_type.name, instant - uncertainty, instant + uncertainty, source, seq, attributes)
        event_type.check(event)
        heappush(self._waiting, (event.hi, self._number, instant, event))
        self._number += 1

    def publish(self, now: int) -> list[Event]:
        """Events whose `hi` has passed at `now`, each once, in the order of sensing."""
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(heappop(self._waiting))
        return [event for *_, event in sorted(due, key=lambda waiting: (waiting[2], waiting[1]))]

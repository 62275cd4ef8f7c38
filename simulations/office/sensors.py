"""Sensors: event types of the building, its sources, their clocks, and readings yet to be published.

composite-event-framework-2004, "Motivation": workers wear Active Bats that tell of their movements at least once a
minute, "other sensors monitor doors, office temperatures, electronic whiteboard usage, and lighting". A sensor that
noticed something at the physical instant t cannot tell it better than its clock, so it publishes [t - u, t + u], once
t + u has passed. `Seen` is the article's prefilter of scenario 1, repeat notifications limited to one a minute.
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

# A type stands after the one it is derived from, so that they can be registered in this order.
TYPES: Final[tuple[EventType, ...]] = (
    PERS, SEEN, DOOR, TEMP, BOARD_ON, BOARD_OFF, BOARD_PAGE, LIGHT, LOGIN, LOGOUT,
)  # fmt: skip

# By kind of sensor, the name its sources begin with: what it publishes, and how far its clock may be off, in ns.
PUBLISHES: Final[dict[str, tuple[EventType, ...]]] = {
    "badge": (PERS,),
    "door": (DOOR,),
    "thermometer": (TEMP,),
    "light": (LIGHT,),
    "board": (BOARD_ON, BOARD_OFF, BOARD_PAGE),
    "workstation": (LOGIN, LOGOUT),
}
UNCERTAINTY: Final[dict[str, int]] = {
    "badge": 50 * MILLISECOND,
    "door": 20 * MILLISECOND,
    "thermometer": 500 * MILLISECOND,
    "light": 50 * MILLISECOND,
    "board": 80 * MILLISECOND,
    "workstation": 100 * MILLISECOND,
}


def source_name(sensor: str, what: str) -> str:
    """Source name of a kind of sensor at a room or for a person: `badge-FE02`, `board-Meeting-Room-1`."""
    return f"{sensor}-{what.replace(' ', '-')}"


class Sensors:
    """All sensors of a building.

    Attributes:
        sources: by source, the names of the event types it publishes.
    """

    def __init__(self, building: Building, residents: Iterable[str]) -> None:
        self.sources: dict[str, tuple[str, ...]] = {}
        for room in building.rooms:
            for sensor in ("badge", "door", "thermometer", "light"):
                self._install(sensor, room)
        for room in building.of_kind("meeting room"):
            self._install("board", room)
        for person in residents:
            self._install("workstation", person)
        # By source, how many events it has sensed: its next sequence number.
        self._sensed: dict[str, int] = dict.fromkeys(self.sources, 0)
        # By source, the instant of its last event, ns; two events of a source never share one, so that `hi` increases.
        self._last: dict[str, int] = {}
        # What is sensed and not yet published: (hi, number, t, event), `number` counting what was sensed, a heap.
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
        due.sort(key=lambda waiting: (waiting[2], waiting[1]))
        return [event for *_, event in due]

    def _install(self, sensor: str, what: str) -> None:
        self.sources[source_name(sensor, what)] = tuple(event_type.name for event_type in PUBLISHES[sensor])

"""Temperature of each room: a slow random walk, pulled by heating, cold from outside, people and open doors.

Not a model of a building: enough for readings that wander credibly, and that fall under the 15 °C of scenario 1
(composite-event-framework-2004) now and then, in rooms with people in them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND
from distced.simulations.office.building import OUTSIDE
from distced.simulations.office.fittings import Fittings
from distced.simulations.office.sensors import TEMP
from distced.simulations.office.world import World

READING: Final = 30 * SECOND
"""Time between two readings of a thermometer, ns."""

COLD: Final = 15.0
"""Limit below which a reading is cold in scenario 1, °C."""

OUTDOORS: Final = 4.0
"""Temperature outside, °C."""

SETPOINT: Final = (19.0, 21.5)
"""Range of a heated room's set temperature, °C."""

UNHEATED: Final = 9.0
"""Temperature that a room without heating approaches, °C."""

# How fast a room follows, ns: heating, cooling down without it, and an open door to the place beyond.
WARMS_UP: Final = 25 * MINUTE
COOLS_DOWN: Final = 60 * MINUTE
OPEN_DOOR: Final = 12 * MINUTE

PERSON: Final = 0.6 / HOUR
"""Heat of one person in a room, °C per ns."""

NOISE: Final = 0.06
"""Standard deviation of the random walk's step from one reading to the next, °C."""

HEATED_AT_FIRST: Final = 0.75
FAILS_IN: Final = 3 * HOUR
MENDED_IN: Final = 45 * MINUTE


class Climate:
    """Temperatures of all rooms.

    Attributes:
        temperature: by room, in °C.
        heated: the rooms whose heating works.
    """

    def __init__(self, world: World, fittings: Fittings) -> None:
        self._world = world
        self._fittings = fittings
        self.temperature: dict[str, float] = {}
        self.heated: set[str] = set()
        self._setpoint: dict[str, float] = {}
        for room in world.building.rooms:
            self._setpoint[room] = world.random.uniform(*SETPOINT)
            if world.chance(HEATED_AT_FIRST):
                self.heated.add(room)
                self.temperature[room] = world.random.uniform(17.0, 21.0)
            else:
                self.temperature[room] = world.random.uniform(14.0, 17.0)
            world.after(0, READING, partial(self._read, room))

    def _read(self, room: str) -> None:
        world = self._world
        self._advance(room)
        reading = round(self.temperature[room], 1)
        if reading < COLD:
            world.record.cold(world.now, room, reading, [occupant.name for occupant in world.people_in(room)])
        world.sensors.sense(world.now, "thermometer", room, TEMP, room=room, temp=reading)
        world.at(world.now + READING, partial(self._read, room))

    def _advance(self, room: str) -> None:
        """Advance a room by one interval between readings."""
        world = self._world
        if world.chance(READING / (FAILS_IN if room in self.heated else MENDED_IN)):
            self.heated.symmetric_difference_update({room})
        now = self.temperature[room]
        if room in self.heated:
            change = (self._setpoint[room] - now) * READING / WARMS_UP
        else:
            change = (UNHEATED - now) * READING / COOLS_DOWN
        change += PERSON * READING * len(world.people_in(room))
        if room in self._fittings.open:
            beyond = world.building.rooms[room].beyond
            change += (self._beyond(beyond) - now) * READING / OPEN_DOOR
        self.temperature[room] = now + change + world.random.gauss(0.0, NOISE)

    def _beyond(self, place: str) -> float:
        return OUTDOORS if place == OUTSIDE else self.temperature[place]

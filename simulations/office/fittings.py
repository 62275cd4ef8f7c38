"""Doors, lights, workstations and temperatures: effects of people's movements, each with its own random habits.

The temperature of a room is a slow random walk, pulled by heating, cold from outside, people and open doors: no model
of a building, but readings that wander credibly, and fall under the 15 °C of scenario 1
(composite-event-framework-2004) now and then, in rooms with people in them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE, SECOND
from distced.simulations.office.building import OUTSIDE
from distced.simulations.office.occupants import Occupant
from distced.simulations.office.sensors import DOOR, LIGHT, LOGIN, LOGOUT, TEMP
from distced.simulations.office.summary import ColdReading, LoggedIn
from distced.simulations.office.world import World

# Probabilities.
DOOR_CLOSES_ITSELF: Final = 0.85  # behind a person, in 4-8 s; else it stands open for 1-10 min
LIGHT_SWITCHED_OFF: Final = 0.8  # by the last person to leave a room; else it stays on until one does
LOGS_IN_AT_ONCE: Final = 0.85  # a resident, within 5-40 s of arrival in the own office
LOGS_IN_LATER: Final = 0.03  # a resident in the own office, per step of the Markov process
LOGS_OUT: Final = 0.8  # a leaving resident; else the workstation does so after two minutes' absence

READING: Final = 30 * SECOND  # time between two readings of a thermometer, ns
COLD: Final = 15.0  # limit below which a reading is cold in scenario 1, °C
OUTDOORS: Final = 4.0  # temperature outside, °C
SETPOINT: Final = (19.0, 21.5)  # range of a heated room's set temperature, °C
UNHEATED: Final = 9.0  # temperature that a room without heating approaches, °C

# Time constants of a room, ns: heating, cooling down without it, and an open door to the place beyond.
WARMS_UP: Final = 25 * MINUTE
COOLS_DOWN: Final = 60 * MINUTE
OPEN_DOOR: Final = 12 * MINUTE
PERSON: Final = 0.6 / HOUR  # heat of one person in a room, °C per ns
NOISE: Final = 0.06  # standard deviation of the random walk's step from one reading to the next, °C
HEATED_AT_FIRST: Final = 0.75
FAILS_IN: Final = 3 * HOUR
MENDED_IN: Final = 45 * MINUTE


class Fittings:
    """Doors, lights and workstations of the building."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.open: set[str] = set()  # rooms whose door stands open
        self.lit = {room for room in world.building.rooms if world.people_in(room)}
        # By room, how often its door was passed and the last person left it: a later pass cancels a closing or a
        # switching off that is on the agenda.
        self._passed = dict.fromkeys(world.building.rooms, 0)
        self._left = dict.fromkeys(world.building.rooms, 0)

    def walk(self, occupant: Occupant, place: str, onward: str) -> None:
        """Effects of a walk to an adjoining place; `occupant.place` is the new one already."""
        world = self._world
        self._pass_door(world.building.door(place, onward))
        if place in world.building.rooms and not world.people_in(place):
            self._left_empty(place)
        if onward in world.building.rooms and onward not in self.lit:
            world.after(400 * MILLISECOND, 2 * SECOND, partial(self._switch_on, onward))
        if place == occupant.office and occupant.logged_in:
            if world.chance(LOGS_OUT):
                self._log_out(occupant)
            else:
                world.at(world.now + 2 * MINUTE, partial(self._lock, occupant))
        if onward == occupant.office and not occupant.logged_in and world.chance(LOGS_IN_AT_ONCE):
            world.after(5 * SECOND, 40 * SECOND, partial(self._log_in, occupant))

    def linger(self, occupant: Occupant) -> None:
        """Effects of a step in which an occupant stayed."""
        if occupant.place == occupant.office and not occupant.logged_in and self._world.chance(LOGS_IN_LATER):
            self._log_in(occupant)

    def _pass_door(self, room: str) -> None:
        world = self._world
        if room not in self.open:
            self.open.add(room)
            world.sense("door", room, DOOR, room=room, open=True)
        self._passed[room] += 1
        close = partial(self._close_door, room, self._passed[room])
        stands_open = (4 * SECOND, 8 * SECOND) if world.chance(DOOR_CLOSES_ITSELF) else (MINUTE, 10 * MINUTE)
        world.after(*stands_open, close)

    def _close_door(self, room: str, passed: int) -> None:
        if passed == self._passed[room]:
            self.open.discard(room)
            self._world.sense("door", room, DOOR, room=room, open=False)

    def _switch_on(self, room: str) -> None:
        if room not in self.lit and self._world.people_in(room):
            self.lit.add(room)
            self._world.sense("light", room, LIGHT, room=room, on=True)

    def _left_empty(self, room: str) -> None:
        """Lights of an empty place: lobby and corridor go dark two minutes later; others are switched by hand."""
        world = self._world
        self._left[room] += 1
        if world.building.kind(room) in ("lobby", "corridor"):
            world.at(world.now + 2 * MINUTE, partial(self._switch_off, room, self._left[room]))
        elif world.chance(LIGHT_SWITCHED_OFF):
            self._switch_off(room, self._left[room])

    def _switch_off(self, room: str, left: int) -> None:
        if room in self.lit and left == self._left[room] and not self._world.people_in(room):
            self.lit.discard(room)
            self._world.sense("light", room, LIGHT, room=room, on=False)

    def _log_in(self, occupant: Occupant) -> None:
        world = self._world
        if occupant.office is not None and occupant.place == occupant.office and not occupant.logged_in:
            occupant.logged_in = True
            world.record.logins.append(LoggedIn(world.now, occupant.name, occupant.office))
            world.sense("workstation", occupant.name, LOGIN, person=occupant.name, room=occupant.office)

    def _lock(self, occupant: Occupant) -> None:
        if occupant.place != occupant.office and occupant.logged_in:
            self._log_out(occupant)

    def _log_out(self, occupant: Occupant) -> None:
        occupant.logged_in = False
        self._world.sense("workstation", occupant.name, LOGOUT, person=occupant.name, room=occupant.office)


class Climate:
    """Temperatures of all rooms."""

    def __init__(self, world: World, fittings: Fittings) -> None:
        self._world = world
        self._fittings = fittings
        self.temperature: dict[str, float] = {}  # by room, °C
        self.heated: set[str] = set()  # rooms whose heating works
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
            people = tuple(occupant.name for occupant in world.people_in(room))
            world.record.cold.append(ColdReading(world.now, room, reading, people))
        world.sense("thermometer", room, TEMP, room=room, temp=reading)
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
            change += ((OUTDOORS if beyond == OUTSIDE else self.temperature[beyond]) - now) * READING / OPEN_DOOR
        self.temperature[room] = now + change + world.random.gauss(0.0, NOISE)

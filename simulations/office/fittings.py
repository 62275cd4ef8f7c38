"""Doors, lights and workstations: effects of people's movements, each with its own random habits."""

from __future__ import annotations

from functools import partial
from typing import Final

from distced.middleware.model.timestamps import MILLISECOND, MINUTE, SECOND
from distced.simulations.office.occupants import Occupant
from distced.simulations.office.sensors import DOOR, LIGHT, LOGIN, LOGOUT
from distced.simulations.office.world import World

DOOR_CLOSES_ITSELF: Final = 0.85
"""Probability that a door falls shut behind a person, in 4-8 s; else it stands open for 1-10 min."""

LIGHT_SWITCHED_OFF: Final = 0.8
"""Probability that the last person to leave a room switches off the light; else it stays on until one does."""

LOGS_IN_AT_ONCE: Final = 0.85
"""Probability that a resident logs in within 5-40 s of arrival in the own office."""

LOGS_IN_LATER: Final = 0.03
"""Probability per step of the Markov process that a resident in the own office, not logged in, logs in."""

LOGS_OUT: Final = 0.8
"""Probability that a leaving resident logs out; else the workstation does so after two minutes' absence."""


class Fittings:
    """Doors, lights and workstations of the building.

    Attributes:
        open: the rooms whose door stands open.
        lit: the rooms whose light is on.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.open: set[str] = set()
        self.lit = {room for room in world.building.rooms if world.people_in(room)}
        # By room, how often its door was passed, and how often the last person left it: a closing or a switching off
        # that was put on the agenda for an earlier time is then known to be overtaken.
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
            world.sensors.sense(world.now, "door", room, DOOR, room=room, open=True)
        self._passed[room] += 1
        close = partial(self._close_door, room, self._passed[room])
        if world.chance(DOOR_CLOSES_ITSELF):
            world.after(4 * SECOND, 8 * SECOND, close)
        else:
            world.after(MINUTE, 10 * MINUTE, close)

    def _close_door(self, room: str, passed: int) -> None:
        if passed == self._passed[room]:
            self.open.discard(room)
            self._world.sensors.sense(self._world.now, "door", room, DOOR, room=room, open=False)

    def _switch_on(self, room: str) -> None:
        if room not in self.lit and self._world.people_in(room):
            self.lit.add(room)
            self._world.sensors.sense(self._world.now, "light", room, LIGHT, room=room, on=True)

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
            self._world.sensors.sense(self._world.now, "light", room, LIGHT, room=room, on=False)

    def _log_in(self, occupant: Occupant) -> None:
        world = self._world
        if occupant.office is not None and occupant.place == occupant.office and not occupant.logged_in:
            occupant.logged_in = True
            world.record.log_in(world.now, occupant.name, occupant.office)
            world.sensors.sense(
                world.now, "workstation", occupant.name, LOGIN, person=occupant.name, room=occupant.office
            )

    def _lock(self, occupant: Occupant) -> None:
        if occupant.place != occupant.office and occupant.logged_in:
            self._log_out(occupant)

    def _log_out(self, occupant: Occupant) -> None:
        occupant.logged_in = False
        self._world.sensors.sense(
            self._world.now, "workstation", occupant.name, LOGOUT, person=occupant.name, room=occupant.office
        )

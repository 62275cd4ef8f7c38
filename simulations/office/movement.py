"""Movement: steps of the Markov process, or one door after another to a goal, with sightings of badges."""

from __future__ import annotations

from functools import partial
from typing import Final

from distced.middleware.model.timestamps import SECOND
from distced.simulations.office.building import OUTSIDE
from distced.simulations.office.fittings import Fittings
from distced.simulations.office.occupants import STEP, Occupant, draw
from distced.simulations.office.sensors import PERS
from distced.simulations.office.world import World

SIGHTING: Final = (15 * SECOND, 25 * SECOND)
"""Time between two sightings of one badge, ns; far below the minute the article promises."""

WALK: Final = (6 * SECOND, 14 * SECOND)
"""Time from door to door on the way to a goal, ns."""


class Movement:
    """Movement of all occupants."""

    def __init__(self, world: World, fittings: Fittings) -> None:
        self._world = world
        self._fittings = fittings
        for occupant in world.occupants:
            world.after(0, STEP, partial(self._step, occupant))
            world.after(0, SIGHTING[1], partial(self._sight_regularly, occupant))

    def _step(self, occupant: Occupant) -> None:
        """Decide the next place. Residents back in the own office are free; people at a meeting stay until released."""
        world = self._world
        place = occupant.place
        if occupant.goal == occupant.office == place:
            occupant.goal = None
        if occupant.goal is None:
            onward = draw(world.random, occupant.matrix[place], place, world.in_session)
        else:
            onward = world.building.toward(place, occupant.goal)
        if onward == place:
            self._fittings.linger(occupant)
        else:
            self._walk(occupant, onward)
        if occupant.goal is None or occupant.goal == occupant.place:
            world.at(world.now + STEP, partial(self._step, occupant))
        else:
            world.after(*WALK, partial(self._step, occupant))

    def _walk(self, occupant: Occupant, onward: str) -> None:
        world = self._world
        place, occupant.place = occupant.place, onward
        world.record.move(world.now, occupant.name, place, onward)
        self._fittings.walk(occupant, place, onward)
        # The badge receiver of a room hears a badge a moment after it came through the door.
        world.after(SECOND, 2 * SECOND, partial(self._sight, occupant))

    def _sight(self, occupant: Occupant) -> None:
        if occupant.place != OUTSIDE:
            self._world.sensors.sense(
                self._world.now, "badge", occupant.place, PERS, person=occupant.name, room=occupant.place
            )

    def _sight_regularly(self, occupant: Occupant) -> None:
        self._sight(occupant)
        self._world.after(*SIGHTING, partial(self._sight_regularly, occupant))

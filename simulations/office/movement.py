"""Movement of occupants by the Markov process or to a goal, with sightings of badges; and meetings, which set goals.

A meeting lasts as long as its whiteboard is on, and its participants are those in the room meanwhile
(composite-event-framework-2004, scenario 2). It begins once people bound elsewhere have left, and the people in the
room then take part: attendance is a matter of minutes, never of seconds.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.office.building import OUTSIDE
from distced.simulations.office.fittings import Fittings
from distced.simulations.office.occupants import STEP, Occupant, draw
from distced.simulations.office.sensors import BOARD_OFF, BOARD_ON, BOARD_PAGE, PERS
from distced.simulations.office.summary import Meeting, OccupantMove
from distced.simulations.office.world import World

SIGHTING: Final = (15 * SECOND, 25 * SECOND)  # between two sightings of a badge, ns; below the article's minute
WALK: Final = (6 * SECOND, 14 * SECOND)  # time from door to door on the way to a goal, ns

# Bounds of random times of meetings, ns.
FIRST: Final = (2 * MINUTE, 8 * MINUTE)
BETWEEN: Final = (5 * MINUTE, 12 * MINUTE)
LENGTH: Final = (10 * MINUTE, 25 * MINUTE)
PAGE: Final = (1 * MINUTE, 4 * MINUTE)

INVITED_AHEAD: Final = 150 * SECOND
CHAIR_AHEAD: Final = 2 * MINUTE
AHEAD: Final = (30 * SECOND, 120 * SECOND)
LATE: Final = (0, 90 * SECOND)

# Probabilities.
COMES_LATE: Final = 0.2
LEAVES_EARLY: Final = 0.1
GOES_TO_OFFICE: Final = 0.45  # a resident, straight after a meeting; the others move by their matrix


class Movement:
    """Movement of all occupants."""

    def __init__(self, world: World, fittings: Fittings) -> None:
        self._world = world
        self._fittings = fittings
        for occupant in world.occupants:
            world.after(0, STEP, partial(self._step, occupant))
            world.after(0, SIGHTING[1], partial(self._sight_regularly, occupant))

    def _step(self, occupant: Occupant) -> None:
        """Choose the next place. Residents back in the own office are free; people at a meeting stay until released."""
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
        world.record.moves.append(OccupantMove(world.now, occupant.name, place, onward))
        self._fittings.walk(occupant, place, onward)
        # The badge receiver of a room hears a badge shortly after it came through the door.
        world.after(SECOND, 2 * SECOND, partial(self._sight, occupant))

    def _sight(self, occupant: Occupant) -> None:
        if occupant.place != OUTSIDE:
            self._world.sense("badge", occupant.place, PERS, person=occupant.name, room=occupant.place)

    def _sight_regularly(self, occupant: Occupant) -> None:
        self._sight(occupant)
        self._world.after(*SIGHTING, partial(self._sight_regularly, occupant))


class Meetings:
    """Sequence of meetings in each meeting room."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._planned = 0
        for room in world.building.of_kind("meeting room"):
            world.after(FIRST[0] - INVITED_AHEAD, FIRST[1] - INVITED_AHEAD, partial(self._invite, room))

    def _invite(self, room: str) -> None:
        """Invite one to four residents, the first of them in the chair, and one to three visitors."""
        world = self._world
        free = [occupant for occupant in world.occupants if occupant.meeting is None]
        residents = [occupant for occupant in free if occupant.resident]
        visitors = [occupant for occupant in free if not occupant.resident]
        world.random.shuffle(residents)
        world.random.shuffle(visitors)
        invited = residents[: world.random.randint(1, 4)] + visitors[: world.random.randint(1, 3)]
        if len(invited) < 2:
            world.after(*BETWEEN, partial(self._invite, room))
            return
        number = self._planned
        self._planned += 1
        begin = world.now + INVITED_AHEAD
        for occupant in invited:
            occupant.meeting = number
            if occupant is invited[0]:
                instant = begin - CHAIR_AHEAD
            elif world.chance(COMES_LATE):
                instant = begin + world.random.randint(*LATE)
            else:
                instant = begin - world.random.randint(*AHEAD)
            world.at(instant, partial(self._set_off, occupant, number, room))
        world.at(begin, partial(self._begin, room, number, invited[0]))

    def _set_off(self, occupant: Occupant, number: int, room: str) -> None:
        if occupant.meeting == number:
            occupant.goal = room

    def _begin(self, room: str, number: int, chair: Occupant) -> None:
        """Switch the whiteboard on once the chair has come and people bound elsewhere have left."""
        world = self._world
        present = world.people_in(room)
        if chair not in present or any(_bound_elsewhere(occupant, number, room) for occupant in present):
            world.at(world.now + 5 * SECOND, partial(self._begin, room, number, chair))
            return
        for occupant in present:
            occupant.meeting = number
            occupant.goal = room
        world.in_session.append(room)
        world.record.meetings.append(Meeting(room, world.now))
        world.sense("board", room, BOARD_ON, room=room)
        end = world.now + world.random.randint(*LENGTH)
        for occupant in world.occupants:
            if occupant.meeting == number and occupant is not chair and world.chance(LEAVES_EARLY):
                # After three fifths of the meeting at the earliest, so that late people have attended, too.
                left = (end - world.now) * world.random.randint(10, 40) // 100
                world.at(end - left, partial(self._release, occupant, number))
        world.after(*PAGE, partial(self._write_page, room, 1, end))
        world.at(end, partial(self._end, room, number))

    def _write_page(self, room: str, page: int, end: int) -> None:
        world = self._world
        if world.now < end:
            world.record.present_meeting(room).pages += 1
            world.sense("board", room, BOARD_PAGE, room=room, page=page)
            world.after(*PAGE, partial(self._write_page, room, page + 1, end))

    def _end(self, room: str, number: int) -> None:
        world = self._world
        world.in_session.remove(room)
        world.record.present_meeting(room).off = world.now
        world.sense("board", room, BOARD_OFF, room=room)
        for occupant in world.occupants:
            self._release(occupant, number)
        world.after(BETWEEN[0] - INVITED_AHEAD, BETWEEN[1] - INVITED_AHEAD, partial(self._invite, room))

    def _release(self, occupant: Occupant, number: int) -> None:
        if occupant.meeting == number:
            occupant.meeting = None
            occupant.goal = occupant.office if occupant.resident and self._world.chance(GOES_TO_OFFICE) else None


def _bound_elsewhere(occupant: Occupant, number: int, room: str) -> bool:
    return occupant.meeting not in (None, number) or occupant.goal not in (None, room)

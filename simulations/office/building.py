"""The building: nine rooms, the doors between them, and routes across them.

composite-event-framework-2004 evaluates on "the office layout shown in Fig. 2 with nine rooms". The text that is left
of the figure names two meeting rooms and a seminar room, the running text the offices FE02 and FE04; the rest is
ours: two more offices, and a lobby and a corridor to walk through. The rooms form a tree rooted outside, each with
one door toward the entrance, so a door is named after its room. A general graph was rejected: the article says
nothing of rooms with two doors, and a door contact per room would then need names of its own.

                       Outside
                          |
    Meeting Room 1 --- Lobby --- Seminar Room
                          |
    Meeting Room 2 --- Corridor --- FE02, FE03, FE04, FE05
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

OUTSIDE: Final = "Outside"

Kind = Literal["office", "meeting room", "seminar room", "corridor", "lobby", "outside"]


@dataclass(frozen=True, slots=True)
class Room:
    """A room.

    Attributes:
        name: its name, unique in the building, the `room` attribute of events.
        kind: what it is for.
        beyond: the place on the other side of its door, nearer the entrance.
    """

    name: str
    kind: Kind
    beyond: str


ROOMS: Final[tuple[Room, ...]] = (
    Room("Lobby", "lobby", OUTSIDE),
    Room("Meeting Room 1", "meeting room", "Lobby"),
    Room("Seminar Room", "seminar room", "Lobby"),
    Room("Corridor", "corridor", "Lobby"),
    Room("Meeting Room 2", "meeting room", "Corridor"),
    Room("FE02", "office", "Corridor"),
    Room("FE03", "office", "Corridor"),
    Room("FE04", "office", "Corridor"),
    Room("FE05", "office", "Corridor"),
)


class Building:
    """Rooms and doors. A *place* is a room's name or `OUTSIDE`.

    Attributes:
        rooms: the rooms by name, each after the one its door leads to.
        places: the names of all places, `OUTSIDE` first.
    """

    def __init__(self, rooms: tuple[Room, ...] = ROOMS) -> None:
        self.rooms: dict[str, Room] = {room.name: room for room in rooms}
        self.places: tuple[str, ...] = (OUTSIDE, *self.rooms)
        self._paths: dict[str, tuple[str, ...]] = {OUTSIDE: (OUTSIDE,)}
        for room in rooms:
            self._paths[room.name] = (*self._paths[room.beyond], room.name)

    def kind(self, place: str) -> Kind:
        """Kind of a place."""
        return "outside" if place == OUTSIDE else self.rooms[place].kind

    def of_kind(self, kind: Kind) -> tuple[str, ...]:
        """Names of the rooms of a kind."""
        return tuple(room.name for room in self.rooms.values() if room.kind == kind)

    def adjoining(self, place: str) -> tuple[str, ...]:
        """Places one door away."""
        inward = tuple(room.name for room in self.rooms.values() if room.beyond == place)
        return inward if place == OUTSIDE else (self.rooms[place].beyond, *inward)

    def toward(self, place: str, goal: str) -> str:
        """Next place on the route from `place` to a goal; `place` itself where that is the goal."""
        if place == goal:
            return place
        inward = self._paths[goal]
        if place in inward:
            return inward[inward.index(place) + 1]
        return self.rooms[place].beyond

    def door(self, place: str, other: str) -> str:
        """Room whose door stands between two adjoining places."""
        return other if other != OUTSIDE and self.rooms[other].beyond == place else place

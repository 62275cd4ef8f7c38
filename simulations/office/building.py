"""The building: nine rooms, the doors between them, and routes across them.

composite-event-framework-2004 evaluates on "the office layout shown in Fig. 2 with nine rooms". The article names two
meeting rooms, a seminar room and the offices FE02 and FE04; two more offices, the lobby and the corridor are ours. The
rooms form a tree rooted outside, each with one door toward the entrance, so a door is named after its room. A general
graph was rejected: the article mentions no room with two doors.

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
    """A room."""

    name: str  # the `room` attribute of events
    kind: Kind
    beyond: str  # place on the other side of its door, nearer the entrance


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
    """Rooms by name, each after the one its door leads to. A *place* is a room's name or `OUTSIDE`."""

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
        inward = self._paths[goal]
        if place not in inward:
            return self.rooms[place].beyond
        return (*inward, goal)[inward.index(place) + 1]

    def door(self, place: str, other: str) -> str:
        """Room whose door stands between two adjoining places."""
        return other if other != OUTSIDE and self.rooms[other].beyond == place else place

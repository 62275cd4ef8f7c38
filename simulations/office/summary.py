"""Ground truth of the office, for comparison with detections.

Recorded from the people and things themselves, without sensors or patterns. Instants are physical; a sensor's event is
an interval around them, so comparisons keep away from the second or two around a limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from distced.middleware.model.timestamps import MINUTE, format_duration, format_instant

LOGIN_LIMIT: Final = 5 * MINUTE
"""Scenario 2: "if she does not log in to the workstation in her office within five minutes of the meeting"."""


@dataclass(frozen=True, slots=True)
class OccupantMove:
    """Walk through a door at an instant (ns), from a place to an adjoining one."""

    at: int
    person: str
    place: str
    onward: str


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Log-in of a resident at the workstation in the own office, at an instant (ns)."""

    at: int
    person: str
    room: str


@dataclass(frozen=True, slots=True)
class ColdReading:
    """Thermometer reading of less than 15 °C at an instant (ns), with the people in the room."""

    at: int
    room: str
    temp: float
    people: tuple[str, ...]


@dataclass(slots=True)
class Meeting:
    """Meeting with its room, interval, pages and presences.

    Attributes:
        on, off: when the whiteboard went on and off, ns; `off` is None while the meeting goes on.
        pages: number of written pages.
        present: by person, time in the room while the whiteboard was on, ns, above 0.
    """

    room: str
    on: int
    off: int | None = None
    pages: int = 0
    present: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class OfficeSummary:
    """Ground truth from `since` to `until` (ns); the record of a running office, of which `snapshot` is a summary.

    Attributes:
        homes: the residents' offices, by person.
        places: places at `since`, by person.
        moves, logins, meetings, cold: in order of time; meetings by their beginning.
    """

    since: int
    homes: dict[str, str]
    places: dict[str, str]
    moves: list[OccupantMove] = field(default_factory=list)
    logins: list[LoggedIn] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    cold: list[ColdReading] = field(default_factory=list)
    until: int = 0

    @property
    def cold_occupied(self) -> list[ColdReading]:
        """Cold readings of rooms with people in them."""
        return [reading for reading in self.cold if reading.people]

    def time_in(self, room: str, since: int, until: int) -> dict[str, int]:
        """Time in a room between two instants (ns), by person; absent people are left out."""
        spent = dict.fromkeys(self.places, 0)
        entered = {person: self.since for person, place in self.places.items() if place == room}
        for move in self.moves:
            if move.onward == room:
                entered[move.person] = move.at
            elif move.place == room:
                spent[move.person] += max(0, min(move.at, until) - max(entered.pop(move.person), since))
        for person, instant in entered.items():
            spent[person] += max(0, min(self.until, until) - max(instant, since))
        return {person: time for person, time in spent.items() if time}

    def missed(self, within: int = LOGIN_LIMIT) -> list[tuple[Meeting, str]]:
        """Scenario 2: meetings, each with a resident without a log-in within a time (ns) of the end, if it is over."""
        found: list[tuple[Meeting, str]] = []
        for meeting in self.meetings:
            if meeting.off is None or meeting.off + within > self.until:
                continue
            back = {login.person for login in self.logins if meeting.off < login.at <= meeting.off + within}
            found += [(meeting, person) for person in meeting.present if person in self.homes and person not in back]
        return found

    def __str__(self) -> str:
        """Summary in a few lines of text."""
        lines = [
            f"{format_instant(self.since)}, {format_duration(self.until - self.since)}: {len(self.moves)} moves, "
            f"{len(self.logins)} log-ins, {len(self.meetings)} meetings, "
            f"{len(self.cold_occupied)} cold readings in occupied rooms"
        ]
        missed = self.missed()
        for meeting in self.meetings:
            end = format_instant(meeting.off)[11:19] if meeting.off is not None else "goes on"
            lines.append(
                f"{meeting.room} {format_instant(meeting.on)[11:19]} - {end}, {meeting.pages} pages, "
                f"with {', '.join(meeting.present)}"
            )
            absent = [person for other, person in missed if other is meeting]
            if absent:
                lines.append(f"  no log-in within five minutes: {', '.join(absent)}")
        return "\n".join(lines)

    def present_meeting(self, room: str) -> Meeting:
        """The last meeting in a room."""
        return next(each for each in reversed(self.meetings) if each.room == room)

    def snapshot(self, until: int) -> OfficeSummary:
        """Summary up to an instant, with the presences of meetings."""
        taken = replace(
            self,
            until=until,
            homes=dict(self.homes),
            places=dict(self.places),
            moves=list(self.moves),
            logins=list(self.logins),
            cold=list(self.cold),
        )
        taken.meetings = [
            replace(each, present=taken.time_in(each.room, each.on, until if each.off is None else each.off))
            for each in self.meetings
        ]
        return taken

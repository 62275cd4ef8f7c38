"""The Active Office as a whole: from a random source and a start to the events of its sensors, step by step.

composite-event-framework-2004, "Motivation" and "Evaluation and Results". Events do not depend on the size of steps:
actions stand in an agenda by the nanosecond. It is always working hours; nights, with an empty building, were rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, INSTANT_MAX, INSTANT_MIN, SECOND, parse_instant
from distced.simulations.office.building import Building
from distced.simulations.office.fittings import Climate, Fittings
from distced.simulations.office.movement import Meetings, Movement
from distced.simulations.office.occupants import settle
from distced.simulations.office.sensors import TYPES, Sensors
from distced.simulations.office.summary import OfficeSummary
from distced.simulations.office.world import World

DEFAULT_SEED: Final = 41
"""Seed of demonstrations: in its first hour Jean goes to two meetings, and logs in in time after one of them."""

DEFAULT_START: Final = parse_instant("2004-01-12T09:00:00Z")  # a Monday morning
LOGGED_IN_AT_FIRST: Final = 0.8


@dataclass(frozen=True, slots=True)
class OfficeStep:
    """Events that the office published up to an instant.

    Attributes:
        now: the virtual instant, ns, which may be promised as a watermark: every event with `hi <= now` is published.
        events: published since the step before, in the order of sensing.
    """

    now: int
    events: list[Event]


class ActiveOffice:
    """Building with occupants and sensors, in virtual time.

    The same random source and arguments give the same events, to the byte.

    Attributes:
        homes: offices of the residents, by person.
        types: the event types, each after the one it is derived from.
        sources: by source, the names of all types it publishes.
    """

    def __init__(
        self, random: Random, start: int = DEFAULT_START, *, people: int = 15, residents: int = 8, tick: int = SECOND
    ) -> None:
        """Start an office at the instant `start` (ns), with `residents` among `people`, in steps of `tick` ns."""
        if people < 1 or not 0 <= residents <= people:
            raise DistcedError(
                "too many people",
                given=f"{people} people, {residents} residents",
                allowed="at least one person, and 0 to that many residents",
            )
        if tick < 1:
            raise DistcedError("not a step of time", given=tick, allowed="from 1 ns")
        if not INSTANT_MIN + HOUR <= start <= INSTANT_MAX - HOUR:
            raise DistcedError("not an instant to start at", given=start, allowed="ns since the Unix epoch, in 64 bits")
        self._tick = tick
        building = Building()
        occupants = settle(random, building, people, residents)
        homes = {occupant.name: occupant.office for occupant in occupants if occupant.office is not None}
        sensors = Sensors(building, homes)
        record = OfficeSummary(start, homes, {occupant.name: occupant.place for occupant in occupants})
        for occupant in occupants:
            occupant.logged_in = occupant.place == occupant.office and random.random() < LOGGED_IN_AT_FIRST
        self.homes: dict[str, str] = homes
        self._world = World(random, building, occupants, sensors, record, start)
        fittings = Fittings(self._world)
        Movement(self._world, fittings)
        Meetings(self._world)
        Climate(self._world, fittings)
        self.types: list[EventType] = list(TYPES)
        self.sources: dict[str, tuple[str, ...]] = dict(sensors.sources)

    @property
    def now(self) -> int:
        """Virtual instant, ns."""
        return self._world.now

    @property
    def people(self) -> dict[str, str]:
        """Place of each person."""
        return {occupant.name: occupant.place for occupant in self._world.occupants}

    def run(self, duration: int) -> Iterator[OfficeStep]:
        """Advance by a duration (ns), step by step; the last step may be shorter. May be called again."""
        if duration < 0:
            raise DistcedError("time does not go back", given=duration, allowed="from 0 ns")
        return self._steps(self._world.now + duration)

    def events(self, duration: int) -> list[Event]:
        """Advance by a duration (ns), and return all events published meanwhile."""
        return [event for step in self.run(duration) for event in step.events]

    def summary(self) -> OfficeSummary:
        """Ground truth up to now."""
        return self._world.record.snapshot(self._world.now)

    def _steps(self, end: int) -> Iterator[OfficeStep]:
        world = self._world
        while world.now < end:
            world.pass_time(min(world.now + self._tick, end))
            yield OfficeStep(world.now, world.sensors.publish(world.now))

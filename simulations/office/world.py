"""State shared by all parts of the office: virtual time with its agenda, people, sensors, log.

A heap of actions is enough of a simulator here. simpy was rejected: its processes are more to learn than these lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute
from distced.simulations.office.building import Building
from distced.simulations.office.occupants import Occupant
from distced.simulations.office.sensors import Sensors
from distced.simulations.office.summary import OfficeSummary


@dataclass(slots=True, eq=False)
class World:
    """Shared state of the office."""

    random: Random  # the only one
    building: Building
    occupants: list[Occupant]
    sensors: Sensors
    record: OfficeSummary
    now: int  # the virtual instant, ns since the Unix epoch; never goes back
    in_session: list[str] = field(default_factory=list)  # meeting rooms with their whiteboard on; without passers-by
    # A heap of (instant, number, action): actions of one instant happen in the order of scheduling.
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0

    def at(self, instant: int, action: Callable[[], None]) -> None:
        """Schedule an action at an instant, or at once where that is past."""
        heappush(self._agenda, (max(instant, self.now), self._number, action))
        self._number += 1

    def after(self, shortest: int, longest: int, action: Callable[[], None]) -> None:
        """Schedule an action after a delay between these bounds (ns), uniformly distributed."""
        self.at(self.now + self.random.randint(shortest, longest), action)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def sense(self, sensor: str, what: str, event_type: EventType, **attributes: Attribute) -> None:
        """Take a reading of the sensor at a room, or of a person, now."""
        self.sensors.sense(self.now, sensor, what, event_type, **attributes)

    def pass_time(self, until: int) -> None:
        """Run every action due up to an instant, inclusive."""
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heappop(self._agenda)
            action()
        self.now = until

    def people_in(self, place: str) -> list[Occupant]:
        """People in a place."""
        return [occupant for occupant in self.occupants if occupant.place == place]

"""What all parts of the office share: virtual time and what is to happen in it, the people, the sensors, the record.

A heap of actions is all that is asked of a simulator here; simpy was rejected, whose processes would be more to learn
than these few lines, and whose clock counts in whatever it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from distced.simulations.office.building import Building
from distced.simulations.office.occupants import Occupant
from distced.simulations.office.sensors import Sensors
from distced.simulations.office.summary import Record


@dataclass(slots=True, eq=False)
class World:
    """The state of the office that more than one part needs.

    Attributes:
        random: the one source of chance.
        building, occupants, sensors, record: what their names say.
        now: the virtual instant, nanoseconds since the Unix epoch; never goes back.
        in_session: the meeting rooms with their whiteboard switched on; nobody walks in by chance.
    """

    random: Random
    building: Building
    occupants: list[Occupant]
    sensors: Sensors
    record: Record
    now: int
    in_session: list[str] = field(default_factory=list)
    # (instant, number, action), `number` counting what was put on: actions of one instant happen in that order. A heap.
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0

    def at(self, instant: int, action: Callable[[], None]) -> None:
        """Let something happen at an instant, or at once where that is past."""
        heappush(self._agenda, (max(instant, self.now), self._number, action))
        self._number += 1

    def after(self, shortest: int, longest: int, action: Callable[[], None]) -> None:
        """Let something happen after a while between these bounds, in nanoseconds, any as likely as any other."""
        self.at(self.now + self.random.randint(shortest, longest), action)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def pass_time(self, until: int) -> None:
        """Let everything happen that is due until an instant, that included."""
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heappop(self._agenda)
            action()
        self.now = until

    def people_in(self, place: str) -> list[Occupant]:
        """Who is in a place."""
        return [occupant for occupant in self.occupants if occupant.place == place]

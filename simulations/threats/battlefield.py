"""Opposing units around three regions, in virtual time, with the attacks and the aborted missions as the truth.

The motivating problem of cedmos-1999, preface, figures 1 to 3: a region is in danger where an aircraft has been on
reconnaissance over it, scouts have been there, and then a force gathers that is large enough. A campaign against a
region is an attack, or lacks one of the three. The bombing run of section 3.1 answers an attack: radar and airfield of
the opposition go down and may be repaired before the bomber is at its way-point. Sources are those of figure 4,
satellite, airborne warning and field reports; the bombers; and the staff, which reviews regions, because transformers
are passive (section 4.1.3) and would never find that intelligence has become old. Rejected: units that move at random;
they gather once in days.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Final, NamedTuple

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MINUTE, SECOND, parse_instant
from distced.simulations.office import OfficeStep

SIGHTING: Final = event_type(
    "Sighting", {"unit": "string", "kind": "string", "x": "number", "y": "number", "strength": "number"}
)
RADAR_DOWN: Final = event_type("RadarDown", {"region": "string"})
RADAR_REPAIRED: Final = event_type("RadarRepaired", {"region": "string"})
AIRFIELD_DOWN: Final = event_type("AirfieldDown", {"region": "string"})
AIRFIELD_REPAIRED: Final = event_type("AirfieldRepaired", {"region": "string"})
WAY_POINT: Final = event_type("WayPoint", {"region": "string", "mission": "string"})
REVIEW: Final = event_type("Review", {"region": "string"})
_DEFENCES: Final = (RADAR_DOWN, RADAR_REPAIRED, AIRFIELD_DOWN, AIRFIELD_REPAIRED)
TYPES: Final = (SIGHTING, *_DEFENCES, WAY_POINT, REVIEW)

DEFAULT_START: Final = parse_instant("1999-03-01T06:00:00Z")


class Square(NamedTuple):
    """Square of the map."""

    x: int
    y: int


REGIONS: Final = {"bridge": Square(0, -2), "harbour": Square(3, 1), "depot": Square(-3, 1)}
BASES: Final = {"bridge": Square(0, -5), "harbour": Square(5, 4), "depot": Square(-5, 4)}
"""Centre of each region, which are its square and those around it, and where the units that threaten it stay."""

UNITS: Final = 6
FEINT: Final = 3
STRENGTH: Final = (20, 30)
"""Units for each region, those of them that come where the force is too small, and the strength of one: three have less
than the 100 that are needed, six have more."""

FLIGHT: Final = (MINUTE, 7 * MINUTE)
SCOUTING: Final = (8 * MINUTE, 18 * MINUTE)
MARCH: Final = (12 * MINUTE, 25 * MINUTE)
WITHDRAWAL: Final = (55 * MINUTE, 95 * MINUTE)
NEXT: Final = (110 * MINUTE, 140 * MINUTE)
"""When a campaign does what, from its begin; intelligence of one is old in the next, ns."""

STRIKE: Final = (48 * MINUTE, 60 * MINUTE)
REPAIR: Final = (61 * MINUTE, 70 * MINUTE)
AT_WAY_POINT: Final = (71 * MINUTE, 75 * MINUTE)
REBUILT: Final = 100 * MINUTE
"""When a defence goes down, is repaired, the bomber is at its way-point, and everything stands again."""

IS_THERE: Final = 0.8
"""Probability of each of the three indicators in a campaign."""

HITS: Final = 0.85
REPAIRS: Final = 0.3
"""Probability that a defence goes down, and that it is repaired before the way-point."""

PACE: Final = 4 * MINUTE
PASS: Final = (4 * MINUTE, 7 * MINUTE)
"""Time for a square on the march, and from one sighting of a unit by the satellite to the next, ns."""

REVIEWS: Final = 10 * MINUTE
TICK: Final = 10 * SECOND


class Battlefield:
    """Units, defences and bombers around the regions; the same random source gives the same events, to the byte.

    Attributes:
        regions: centre of each region.
        sources: the types that each source publishes.
        attacks: region, begin and end of the campaigns that are attacks, ns; some may end later than `now`.
        aborted: missions that turn back, with the instant; some of them later than `now`.
        now: the virtual instant, ns.
    """

    def __init__(self, random: Random, start: int = DEFAULT_START) -> None:
        self.now = start
        self.regions = REGIONS
        self.sources: dict[str, tuple[str, ...]] = {
            "satellite": (SIGHTING.name,),
            "awacs": (SIGHTING.name,),
            "field": (SIGHTING.name, *(each.name for each in _DEFENCES)),
            "bombers": (WAY_POINT.name,),
            "staff": (REVIEW.name,),
        }
        self.attacks: list[tuple[str, int, int]] = []
        self.aborted: dict[str, int] = {}
        self._random = random
        self._number = 0
        self._missions = 0
        self._seq = dict.fromkeys(self.sources, 0)
        self._due: list[tuple[int, int, str, str, dict[str, Attribute]]] = []
        self._next = {region: start + random.randint(0, 10 * MINUTE) for region in REGIONS}
        self._review = start + REVIEWS

    def run(self, duration: int) -> Iterator[OfficeStep]:
        """Steps of ten seconds for a time, ns."""
        end = self.now + duration
        while self.now < end:
            self.now += TICK
            for region, begin in self._next.items():
                if begin <= self.now:
                    self._campaign(region, begin)
            if self._review <= self.now:
                for region in REGIONS:
                    self._plan(self._review, REVIEW.name, "staff", {"region": region})
                self._review += REVIEWS
            yield OfficeStep(self.now, list(self._published()))

    def _campaign(self, region: str, begin: int) -> None:
        """Plan a campaign against a region, and what happens there until the next one."""
        random = self._random
        flown, scouted, strong = (random.random() < IS_THERE for _ in range(3))
        end = begin + random.randint(*WITHDRAWAL)
        self._next[region] = begin + random.randint(*NEXT)
        if flown:
            self._sight(begin + random.randint(*FLIGHT), "awacs", f"{region}-aircraft", "aircraft", self._near(region))
        if scouted:
            self._sight(begin + random.randint(*SCOUTING), "field", f"{region}-scouts", "scouts", self._near(region))
        for number in range(UNITS):
            goes = strong or number < FEINT
            # A withdrawal at the begin leaves it at its base.
            self._march(region, f"{region}-force-{number + 1}", begin, end if goes else begin)
        if flown and scouted and strong:
            self.attacks.append((region, begin, end))
            self._bomb(region, begin)

    def _march(self, region: str, unit: str, begin: int, withdrawal: int) -> None:
        """Plan the sightings of a unit: on its way to the region, there, and back; at its base where it does not go."""
        random = self._random
        base, goal = BASES[region], self._near(region)
        march, strength = begin + random.randint(*MARCH), random.randint(*STRENGTH)
        instant = begin + random.randint(0, PASS[0])
        while instant < self._next[region]:
            gone = max(0, min(instant, withdrawal) - march) // PACE
            back = max(0, instant - withdrawal) // PACE
            squares = max(0, min(gone, _squares(base, goal)) - back)
            self._sight(instant, "satellite", unit, "force", _towards(base, goal, squares), strength)
            instant += random.randint(*PASS)

    def _bomb(self, region: str, begin: int) -> None:
        """Plan the bombing run that answers an attack."""
        random = self._random
        both = True
        for down, repaired in ((RADAR_DOWN, RADAR_REPAIRED), (AIRFIELD_DOWN, AIRFIELD_REPAIRED)):
            if random.random() >= HITS:
                both = False
                continue
            self._plan(begin + random.randint(*STRIKE), down.name, "field", {"region": region})
            up = begin + REBUILT
            if random.random() < REPAIRS:
                both, up = False, begin + random.randint(*REPAIR)
            self._plan(up, repaired.name, "field", {"region": region})
        self._missions += 1
        mission, instant = f"mission-{self._missions}", begin + random.randint(*AT_WAY_POINT)
        self._plan(instant, WAY_POINT.name, "bombers", {"region": region, "mission": mission})
        if not both:
            self.aborted[mission] = instant

    def _near(self, region: str) -> Square:
        """A square of a region."""
        centre = REGIONS[region]
        return Square(centre.x + self._random.randint(-1, 1), centre.y + self._random.randint(-1, 1))

    def _sight(self, instant: int, source: str, unit: str, kind: str, at: Square, strength: int = 1) -> None:
        attributes: dict[str, Attribute] = {"unit": unit, "kind": kind, "x": at.x, "y": at.y, "strength": strength}
        self._plan(instant, SIGHTING.name, source, attributes)

    def _plan(self, instant: int, type_name: str, source: str, attributes: dict[str, Attribute]) -> None:
        self._number += 1
        heappush(self._due, (instant, self._number, type_name, source, attributes))

    def _published(self) -> Iterator[Event]:
        while self._due and self._due[0][0] <= self.now:
            instant, _, type_name, source, attributes = heappop(self._due)
            yield Event(type_name, instant, instant, source, self._seq[source], attributes)
            self._seq[source] += 1


def _squares(base: Square, goal: Square) -> int:
    """Squares of the way from a base."""
    return max(abs(goal.x - base.x), abs(goal.y - base.y))


def _towards(base: Square, goal: Square, squares: int) -> Square:
    """Where a unit is that has gone so far from its base."""
    x, y = (max(-squares, min(squares, to - of)) + of for of, to in zip(base, goal, strict=True))
    return Square(x, y)

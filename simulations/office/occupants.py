"""Occupants: two classes of people, and the transition matrix of each class.

composite-event-framework-2004, "Evaluation and Results": "The movement of people was treated as a Markov process,
with a probability matrix describing the likely movements in each time interval. [...] Eight of the occupants were
classed as residents, predisposed to use the offices, while the remainder were visitors, preferring the meeting
rooms." The article does not print its matrices. Ours are computed from two short tables a class: mean stay in each kind
of place, and its attraction. Ten rows of ten numbers a person were rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.office.building import Building

STEP: Final = 20 * SECOND  # time step of the Markov process, ns

Matrix = dict[str, dict[str, float]]
"""By place, the probability of each place one step later: the same place, or one a door away. A row sums to 1."""

RESIDENT_NAMES: Final = ("Jean", "Anna", "Brian", "Ruth", "Peter", "Maria", "David", "Ken")
VISITOR_NAMES: Final = ("Alice", "Bob", "Carol", "Dan", "Erin", "Frank", "Grace")


@dataclass(frozen=True, slots=True)
class Habits:
    """Class of occupants, by kind of place: mean stay, ns, at least `STEP`; attraction relative to the others."""

    stay: dict[str, int]
    liking: dict[str, float]

    @classmethod
    def of(cls, minutes: Sequence[float], liking: Sequence[float]) -> Habits:
        """Habits from the stays in minutes and the likings of `KINDS`."""
        stay = {kind: round(each * MINUTE) for kind, each in zip(KINDS, minutes, strict=True)}
        return cls(stay, dict(zip(KINDS, liking, strict=True)))


KINDS: Final = ("own office", "office", "meeting room", "seminar room", "corridor", "lobby", "outside")
RESIDENT: Final = Habits.of((12, 4, 3, 3, 2 / 3, 2 / 3, 5), (12.0, 1.0, 0.5, 0.5, 0.0, 0.0, 1.0))
VISITOR: Final = Habits.of((4, 4, 8, 6, 1, 1, 6), (0.5, 0.5, 5.0, 3.0, 0.0, 0.0, 1.0))


@dataclass(slots=True, eq=False)
class Occupant:
    """A person with place and goal."""

    name: str  # unique, the `person` attribute of events
    office: str | None  # with the person's workstation; None for a visitor
    matrix: Matrix  # for movement without a goal
    place: str  # changes only to a place one door away
    goal: str | None = None  # place to walk to, or to stay at until released
    meeting: int | None = None  # number of the meeting the person is invited to or sits in
    logged_in: bool = False

    @property
    def resident(self) -> bool:
        """Whether the person has an office here."""
        return self.office is not None


def liking(building: Building, habits: Habits, office: str | None, place: str) -> float:
    """Attraction of a place for a person of this class whose own office is `office`."""
    return habits.liking["own office" if place == office else building.kind(place)]


def transition_matrix(building: Building, habits: Habits, office: str | None) -> Matrix:
    """Transition matrix of a person of this class whose own office is `office`.

    The probability to stay is 1 - STEP / (mean stay), that of a door in proportion to the attraction of all places
    behind it: the Seminar Room draws people through the Corridor and the Lobby.
    """
    matrix: Matrix = {}
    for place in building.places:
        weights = dict.fromkeys(building.adjoining(place), 0.0)
        for other in building.places:
            if other != place:
                weights[building.toward(place, other)] += liking(building, habits, office, other)
        leave = STEP / habits.stay["own office" if place == office else building.kind(place)]
        total = sum(weights.values())
        matrix[place] = {place: 1.0 - leave} | {door: leave * weight / total for door, weight in weights.items()}
    return matrix


def draw(random: Random, row: dict[str, float], place: str, closed: Sequence[str] = ()) -> str:
    """Next place, drawn from the row of `place`; a closed place means to stay."""
    drawn = random.choices(tuple(row), tuple(row.values()))[0]
    return place if drawn in closed else drawn


def settle(random: Random, building: Building, people: int, residents: int) -> list[Occupant]:
    """Occupants, residents first, spread over the offices in turn and set at places of their liking."""
    offices = building.of_kind("office")
    matrices: dict[str | None, Matrix] = {
        office: transition_matrix(building, RESIDENT if office else VISITOR, office) for office in (*offices, None)
    }
    occupants = []
    for number in range(people):
        resident = number < residents
        office = offices[number * len(offices) // residents] if resident else None
        weights = [liking(building, RESIDENT if resident else VISITOR, office, place) for place in building.places]
        place = random.choices(building.places, weights)[0]
        names, otherwise = (RESIDENT_NAMES, "Resident") if resident else (VISITOR_NAMES, "Visitor")
        rank = number if resident else number - residents
        name = names[rank] if rank < len(names) else f"{otherwise} {rank + 1}"
        occupants.append(Occupant(name, office, matrices[office], place))
    return occupants

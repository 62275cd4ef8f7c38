"""Occupants: two classes of people, and the transition matrix of each class.

composite-event-framework-2004, "Evaluation and Results": "The movement of people was treated as a Markov process,
with a probability matrix describing the likely movements in each time interval. [...] Eight of the occupants were
classed as residents, predisposed to use the offices, while the remainder were visitors, preferring the meeting
rooms." The article does not print its matrices. Ours are worked out from two short tables a class, one can argue
about: how long one stays in a kind of place, and how much one likes it. Writing out ten rows of ten numbers a person
was rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.office.building import Building

STEP: Final = 20 * SECOND
"""Time step of the Markov process, ns."""

Matrix = dict[str, dict[str, float]]
"""By place, the probability of each place one step later: the same place, or one a door away. A row sums to 1."""

RESIDENT_NAMES: Final = ("Jean", "Anna", "Brian", "Ruth", "Peter", "Maria", "David", "Ken")
VISITOR_NAMES: Final = ("Alice", "Bob", "Carol", "Dan", "Erin", "Frank", "Grace")


@dataclass(frozen=True, slots=True)
class Habits:
    """Class of occupants. The kinds of places are those of the building, and `own office`.

    Attributes:
        stay: the mean length of a stay in a place of a kind, in nanoseconds, at least `STEP`.
        liking: how much a place of a kind attracts, relative to the others.
    """

    stay: dict[str, int]
    liking: dict[str, float]


RESIDENT: Final = Habits(
    stay={
        "own office": 12 * MINUTE,
        "office": 4 * MINUTE,
        "meeting room": 3 * MINUTE,
        "seminar room": 3 * MINUTE,
        "corridor": 40 * SECOND,
        "lobby": 40 * SECOND,
        "outside": 5 * MINUTE,
    },
    liking={
        "own office": 12.0,
        "office": 1.0,
        "meeting room": 0.5,
        "seminar room": 0.5,
        "corridor": 0.0,
        "lobby": 0.0,
        "outside": 1.0,
    },
)
VISITOR: Final = Habits(
    stay={
        "own office": 4 * MINUTE,
        "office": 4 * MINUTE,
        "meeting room": 8 * MINUTE,
        "seminar room": 6 * MINUTE,
        "corridor": 1 * MINUTE,
        "lobby": 1 * MINUTE,
        "outside": 6 * MINUTE,
    },
    liking={
        "own office": 0.5,
        "office": 0.5,
        "meeting room": 5.0,
        "seminar room": 3.0,
        "corridor": 0.0,
        "lobby": 0.0,
        "outside": 1.0,
    },
)


@dataclass(slots=True, eq=False)
class Occupant:
    """A person with place and goal.

    Attributes:
        name: unique among the occupants, the `person` attribute of events.
        office: the office with the person's workstation; None for a visitor.
        matrix: how the person moves while there is nowhere to go.
        place: where the person is; changes only to a place one door away.
        goal: where the person is walking to or stays until released; None for moving by the matrix.
        meeting: the number of the meeting the person is invited to or sits in; None for free.
        logged_in: whether the person's workstation is in use.
    """

    name: str
    office: str | None
    matrix: Matrix
    place: str
    goal: str | None = None
    meeting: int | None = None
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

    One stays with probability 1 - STEP / (mean stay). One who does not takes a door in proportion to the liking for all
    places behind it, so that who longs for the Seminar Room is drawn through the Corridor and the Lobby.
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
        habits = RESIDENT if resident else VISITOR
        weights = [liking(building, habits, office, place) for place in building.places]
        place = random.choices(building.places, weights)[0]
        if resident:
            name = _name(RESIDENT_NAMES, "Resident", number)
        else:
            name = _name(VISITOR_NAMES, "Visitor", number - residents)
        occupants.append(Occupant(name, office, matrices[office], place))
    return occupants


def _name(names: Sequence[str], otherwise: str, number: int) -> str:
    return names[number] if number < len(names) else f"{otherwise} {number + 1}"

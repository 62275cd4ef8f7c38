"""The people of the Active Office: routes through the building, transition matrices, the ground truth."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random

import pytest

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND
from distced.simulations.office import DEFAULT_SEED, ActiveOffice, OfficeSummary
from distced.simulations.office.building import OUTSIDE, Building
from distced.simulations.office.occupants import (
    RESIDENT,
    STEP,
    VISITOR,
    Habits,
    Matrix,
    draw,
    settle,
    transition_matrix,
)
from distced.simulations.office.summary import LoggedIn, Meeting, OccupantMove

BUILDING = Building()
CLASSES = [(RESIDENT, office) for office in BUILDING.of_kind("office")] + [(VISITOR, None)]


def in_the_long_run(matrix: Matrix) -> dict[str, float]:
    """The share of time in each place."""
    shares = dict.fromkeys(matrix, 1 / len(matrix))
    for _ in range(5000):
        after = dict.fromkeys(matrix, 0.0)
        for place, row in matrix.items():
            for onward, probability in row.items():
                after[onward] += shares[place] * probability
        shares = after
    return shares


def test_building_has_nine_rooms_with_two_meeting_rooms_a_seminar_room_and_four_offices() -> None:
    assert len(BUILDING.rooms) == 9
    assert BUILDING.of_kind("meeting room") == ("Meeting Room 1", "Meeting Room 2")
    assert BUILDING.of_kind("seminar room") == ("Seminar Room",)
    assert BUILDING.of_kind("office") == ("FE02", "FE03", "FE04", "FE05")


@pytest.mark.parametrize("place", BUILDING.places)
@pytest.mark.parametrize("goal", BUILDING.places)
def test_routes_lead_from_every_place_to_every_place_through_doors(place: str, goal: str) -> None:
    path = [place]
    while path[-1] != goal:
        onward = BUILDING.toward(path[-1], goal)
        assert onward in BUILDING.adjoining(path[-1])
        door = BUILDING.door(path[-1], onward)
        assert {door, BUILDING.rooms[door].beyond} == {path[-1], onward}
        assert BUILDING.door(onward, path[-1]) == door
        path.append(onward)
    assert len(path) == len(set(path))


@pytest.mark.parametrize(("habits", "office"), CLASSES)
def test_matrix_has_probabilities_and_leads_through_doors_only(habits: Habits, office: str | None) -> None:
    matrix = transition_matrix(BUILDING, habits, office)
    assert tuple(matrix) == BUILDING.places
    for place, row in matrix.items():
        assert sum(row.values()) == pytest.approx(1.0)
        assert all(probability >= 0 for probability in row.values())
        assert set(row) == {place, *BUILDING.adjoining(place)}
        # A mean stay of n steps is left with probability 1/n.
        stay = habits.stay["own office" if place == office else BUILDING.kind(place)]
        assert row[place] == pytest.approx(1 - STEP / stay)


def test_residents_are_predisposed_to_their_offices_and_visitors_prefer_the_meeting_rooms() -> None:
    resident = in_the_long_run(transition_matrix(BUILDING, RESIDENT, "FE04"))
    visitor = in_the_long_run(transition_matrix(BUILDING, VISITOR, None))
    assert resident["FE04"] > 0.5
    assert visitor["Meeting Room 1"] + visitor["Meeting Room 2"] > 0.4
    assert sum(visitor[room] for room in BUILDING.of_kind("office")) < 0.2


def test_draw_follows_its_row_and_avoids_closed_places() -> None:
    random = Random(1)
    row = {"FE02": 0.75, "Corridor": 0.25}
    drawn = [draw(random, row, "FE02") for _ in range(4000)]
    assert drawn.count("Corridor") / 4000 == pytest.approx(0.25, abs=0.03)
    assert {draw(random, row, "FE02", ["Corridor"]) for _ in range(100)} == {"FE02"}


def test_eight_residents_share_four_offices_and_have_names() -> None:
    occupants = settle(Random(1), BUILDING, 15, 8)
    homes = defaultdict(list)
    for occupant in occupants:
        homes[occupant.office].append(occupant.name)
    assert homes["FE02"] == ["Jean", "Anna"]
    assert homes["FE04"] == ["Peter", "Maria"]
    assert len(homes[None]) == 7
    assert all(len(homes[office]) == 2 for office in BUILDING.of_kind("office"))


# The ground truth.


def summary_of(seed: int, duration: int = HOUR) -> tuple[OfficeSummary, list[Event]]:
    office = ActiveOffice(Random(seed))
    events = office.events(duration)
    return office.summary(), events


def test_default_hour_has_meetings_missed_log_ins_and_cold_rooms() -> None:
    summary, _ = summary_of(DEFAULT_SEED)
    over = [
        meeting for meeting in summary.meetings if meeting.off is not None and meeting.off + 5 * MINUTE <= summary.until
    ]
    assert len(over) >= 4
    assert all(10 * MINUTE <= meeting.off - meeting.on <= 25 * MINUTE for meeting in over)
    missed = {(meeting.on, person) for meeting, person in summary.missed()}
    jean = [(meeting.on, "Jean") in missed for meeting in over if "Jean" in meeting.present]
    assert sorted(jean) == [False, True]
    rooms = {reading.room for reading in summary.cold_occupied}
    assert len(rooms) >= 2
    assert len(summary.cold_occupied) >= 10
    text = str(summary)
    assert "Meeting Room 1" in text
    assert "no log-in within five minutes: Jean" in text


def test_residents_log_in_in_time_after_most_meetings() -> None:
    attended = missed = 0
    for seed in range(20):
        summary, _ = summary_of(seed)
        missed += len(summary.missed())
        attended += sum(
            person in summary.homes
            for meeting in summary.meetings
            if meeting.off is not None and meeting.off + 5 * MINUTE <= summary.until
            for person in meeting.present
        )
    assert 0.15 * attended < missed < 0.5 * attended


@pytest.mark.parametrize("seed", range(5))
def test_meetings_have_people_that_stay_and_none_in_two_at_once(seed: int) -> None:
    summary, _ = summary_of(seed, 3 * HOUR)
    over = [meeting for meeting in summary.meetings if meeting.off is not None]
    assert len(over) >= 6
    for meeting in over:
        assert len(meeting.present) >= 2
        assert any(person in summary.homes for person in meeting.present)
        # Long enough for a sighting within any minute's throttling.
        assert all(3 * MINUTE <= time <= meeting.off - meeting.on for time in meeting.present.values())
    for first in over:
        for second in over:
            if first.on < second.on < first.off:
                both = set(first.present) & set(second.present)
                for person in both:
                    assert summary.time_in(first.room, second.on, first.off).get(person, 0) == 0


@pytest.mark.parametrize("seed", range(3))
def test_residents_log_in_at_their_own_workstation_while_they_are_there(seed: int) -> None:
    summary, events = summary_of(seed)
    logins = sorted((event for event in events if event.type == "Login"), key=lambda event: event.key)
    assert logins
    assert len(logins) == len([login for login in summary.logins if login.at <= summary.until - SECOND])
    for event, login in zip(logins, summary.logins, strict=False):
        person = event.attributes["person"]
        assert event.source == f"workstation-{person}"
        assert event.attributes["room"] == summary.homes[person] == login.room
        assert event.lo <= login.at <= event.hi
        assert summary.time_in(login.room, login.at, login.at + 1).get(person) == 1


def test_temperatures_are_credible_and_drift_slowly() -> None:
    _, events = summary_of(DEFAULT_SEED, 12 * HOUR)
    readings = defaultdict(list)
    for event in events:
        if event.type == "Temp":
            readings[event.attributes["room"]].append(event.attributes["temp"])
    assert set(readings) == set(BUILDING.rooms)
    for temperatures in readings.values():
        assert min(temperatures) > 5
        assert max(temperatures) < 27
        assert len(set(temperatures)) > 5
        steps = [abs(a - b) for a, b in pairwise(temperatures)]
        assert max(steps) < 1.0


def test_time_in_a_room_is_counted_from_the_moves() -> None:
    record = OfficeSummary(100, {"Jean": "FE02"}, {"Jean": "FE02", "Bob": OUTSIDE})
    record.moves.append(OccupantMove(110, "Jean", "FE02", "Corridor"))
    record.meetings.append(Meeting("Corridor", 115))
    record.moves.append(OccupantMove(120, "Bob", OUTSIDE, "Corridor"))
    record.moves.append(OccupantMove(130, "Jean", "Corridor", "FE02"))
    record.moves.append(OccupantMove(140, "Jean", "FE02", "Corridor"))
    record.present_meeting("Corridor").pages += 1
    record.present_meeting("Corridor").off = 150
    record.logins.append(LoggedIn(160, "Jean", "FE02"))
    summary = record.snapshot(200)
    assert summary.moves[0] == OccupantMove(110, "Jean", "FE02", "Corridor")
    assert summary.logins == [LoggedIn(160, "Jean", "FE02")]
    assert summary.time_in("FE02", 100, 200) == {"Jean": 20}
    assert summary.time_in("Corridor", 125, 145) == {"Jean": 10, "Bob": 20}
    (meeting,) = summary.meetings
    assert (meeting.on, meeting.off, meeting.pages) == (115, 150, 1)
    assert meeting.present == {"Jean": 25, "Bob": 30}
    assert summary.missed(within=10) == []
    assert summary.missed(within=9) == [(meeting, "Jean")]
    assert summary.missed(within=51) == []
    assert record.snapshot(155).missed(within=10) == []

"""The scenarios: their pattern files, and that the events, read without patterns, tell what really happened.

How detectors read the pattern files is tested with the detectors.
"""

from __future__ import annotations

from random import Random

import pytest

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE
from distced.simulations.office import DEFAULT_SEED, ActiveOffice, read_scenario, scenario_names

SEEDS = [DEFAULT_SEED, *range(6)]


def ordered(office: ActiveOffice, duration: int = HOUR) -> list[Event]:
    return sorted(office.events(duration), key=lambda event: event.key)


def throttled(events: list[Event]) -> list[Event]:
    """The events with `Pers` throttled to `Seen`: the first of each person, room and minute."""
    seen, kept = set(), []
    for event in events:
        if event.type == "Pers":
            key = (event.hi // MINUTE, event.attributes["person"], event.attributes["room"])
            if key in seen:
                continue
            seen.add(key)
        kept.append(event)
    return kept


@pytest.mark.parametrize("seed", SEEDS)
def test_events_show_the_meetings_without_a_log_in_after(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    events = throttled(ordered(office))
    found = []
    for on in (event for event in events if event.type == "BoardOn"):
        room = on.attributes["room"]
        off = next((e for e in events if e.type == "BoardOff" and e.attributes["room"] == room and e.hi > on.hi), None)
        if off is None or off.hi + 5 * MINUTE > office.now:
            continue
        present = {
            e.attributes["person"]
            for e in events
            if e.type == "Pers" and e.attributes["room"] == room and on.hi < e.hi < off.hi
        }
        back = {e.attributes["person"] for e in events if e.type == "Login" and off.hi < e.hi <= off.hi + 5 * MINUTE}
        found += [(room, on.lo, person) for person in present - back if person in office.homes]
    summary = office.summary()
    truth = [(meeting.room, meeting.on, person) for meeting, person in summary.missed()]
    uncertainty = next(event.hi - event.lo for event in events if event.type == "BoardOn") // 2
    assert sorted((room, lo + uncertainty, person) for room, lo, person in found) == sorted(truth)


@pytest.mark.parametrize("seed", SEEDS)
def test_cold_readings_of_occupied_rooms_follow_a_sighting_or_a_door_within_five_minutes(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    last: dict[object, int] = {}
    detected = set()
    for event in throttled(ordered(office)):
        room = event.attributes["room"]
        if event.type in ("Pers", "Door"):
            last[room] = event.hi
        elif event.type == "Temp" and event.attributes["temp"] < 15 and event.hi - last.get(room, 0) <= 5 * MINUTE:
            detected.add((room, (event.lo + event.hi) // 2))
    # What was read in the last moments is not published yet, and in the first nobody has been seen.
    settled = [
        (reading.room, reading.at)
        for reading in office.summary().cold_occupied
        if reading.at < office.now - MINUTE and reading.at > office.now - HOUR + MINUTE
    ]
    assert set(settled) <= detected


def test_scenarios_are_installed() -> None:
    assert scenario_names() == (
        "scenario1", "scenario1-each", "scenario2", "scenario2-minutes", "scenario2-residents",
    )  # fmt: skip
    names = {event_type.name for event_type in ActiveOffice(Random(1)).types}
    for name in scenario_names():
        text = read_scenario(name)
        assert "@ T = 5min" in text
        assert "->" in text
        assert any(f"[{type_name}" in text for type_name in names)


def test_unknown_scenario_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DistcedError, match="scenario2-residents"):
        read_scenario("scenario3")


def test_scenario_of_all_residents_names_the_residents() -> None:
    text = read_scenario("scenario2-residents")
    office = ActiveOffice(Random(1))
    for person in office.people:
        assert (f"s.person == '{person}'" in text) == (person in office.homes)

"""The scenarios' pattern files, detected in the Active Office, against its ground truth."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from distced.detectors.compiler import compile_file
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import HOUR, MINUTE
from distced.simulations.office import DEFAULT_SEED, ActiveOffice, read_scenario, scenario_names

SEEDS = [DEFAULT_SEED, *range(5)]
COLD = 15


@cache
def office(seed: int) -> tuple[ActiveOffice, list[Event]]:
    """An hour of the office, and its events in order of consumption."""
    made = ActiveOffice(Random(seed))
    return made, sorted(made.events(HOUR), key=lambda event: event.key)


def detected(scenario: str, seed: int) -> list[CompositeEvent]:
    made, events = office(seed)
    engine = StepwiseEngine(compile_file(read_scenario(scenario), TypeRegistry(made.types)))
    return engine.feed(events) + engine.advance(made.now)


def throttled(events: list[Event]) -> list[Event]:
    """The events with the sightings that are no first ones of their person, room and minute left out."""
    seen, kept = set(), []
    for event in events:
        if event.type == "Pers":
            key = (event.hi // MINUTE, event.attributes["person"], event.attributes["room"])
            if key in seen:
                continue
            seen.add(key)
        kept.append(event)
    return kept


def is_cold(event: Event) -> bool:
    temp = event.attributes.get("temp")
    return event.type == "Temp" and isinstance(temp, float) and temp < COLD


@pytest.mark.parametrize("seed", SEEDS)
def test_missed_log_ins_are_found_for_every_resident(seed: int) -> None:
    made, events = office(seed)
    uncertainty = next(event.hi - event.lo for event in events if event.type == "BoardOn") // 2
    found = [
        (each.attributes["room"], each.lo + uncertainty, each.attributes["person"])
        for each in detected("scenario2-residents", seed)
    ]
    assert sorted(found) == sorted((meeting.room, meeting.on, person) for meeting, person in made.summary().missed())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", ["scenario2", "scenario2-minutes"])
def test_article_pattern_finds_the_meetings_of_jean(seed: int, scenario: str) -> None:
    made, events = office(seed)
    uncertainty = next(event.hi - event.lo for event in events if event.type == "BoardOn") // 2
    found = {(each.attributes["room"], each.lo + uncertainty) for each in detected(scenario, seed)}
    assert found == {(meeting.room, meeting.on) for meeting, person in made.summary().missed() if person == "Jean"}


def test_minutes_hold_every_sighting_and_every_page() -> None:
    seed = next(seed for seed in range(20) if detected("scenario2-minutes", seed))
    _, events = office(seed)
    for found in detected("scenario2-minutes", seed):
        ends = {event.id: event for event in events if event.id in (found.constituents[0], found.constituents[-1])}
        on, off = ends[found.constituents[0]], ends[found.constituents[-1]]
        assert (on.type, off.type) == ("BoardOn", "BoardOff")
        inside = [
            event.id
            for event in throttled(events)
            if on.key < event.key < off.key
            and event.type in ("Pers", "BoardPage")
            and event.attributes["room"] == found.attributes["room"]
        ]
        assert list(found.constituents) == [on.id, *inside, off.id]


@pytest.mark.parametrize("seed", SEEDS)
def test_cold_readings_are_found_once_with_the_last_sign_of_life_before(seed: int) -> None:
    _, events = office(seed)
    last: dict[object, Event] = {}
    expected: list[tuple[EventId, ...]] = []
    for event in throttled(events):
        room = event.attributes["room"]
        if event.type in ("Pers", "Door"):
            last[room] = event
        elif is_cold(event) and room in last and event.hi - last[room].hi <= 5 * MINUTE:
            expected.append((last[room].id, event.id))
    found = detected("scenario1-each", seed)
    assert sorted(each.constituents for each in found) == sorted(expected)
    assert len({each.constituents[-1] for each in found}) == len(found)
    assert expected


@pytest.mark.parametrize("seed", SEEDS)
def test_signs_of_life_are_found_with_the_first_cold_reading_after(seed: int) -> None:
    _, events = office(seed)
    waiting: dict[object, list[Event]] = {}
    expected: list[tuple[EventId, ...]] = []
    for event in throttled(events):
        room = event.attributes["room"]
        if event.type in ("Pers", "Door"):
            waiting.setdefault(room, []).append(event)
        elif is_cold(event):
            signs = waiting.pop(room, [])
            expected += [(sign.id, event.id) for sign in signs if event.hi - sign.hi <= 5 * MINUTE]
    assert sorted(each.constituents for each in detected("scenario1", seed)) == sorted(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_readings_of_occupied_rooms_are_all_found(seed: int) -> None:
    made, events = office(seed)
    by_id = {event.id: event for event in events}
    last = [by_id[each.constituents[-1]] for each in detected("scenario1-each", seed)]
    found = {(event.attributes["room"], (event.lo + event.hi) // 2) for event in last}
    # In the first moments nobody has been seen, and what was read in the last ones is not published yet.
    settled = {
        (reading.room, reading.at)
        for reading in made.summary().cold_occupied
        if made.now - HOUR + MINUTE < reading.at < made.now - MINUTE
    }
    assert settled <= found


def test_scenarios_find_together_what_they_find_alone() -> None:
    made, events = office(DEFAULT_SEED)
    names = [name for name in scenario_names() if name != "scenario2"]
    patterns = [each for name in names for each in compile_file(read_scenario(name), TypeRegistry(made.types))]
    engine = StepwiseEngine(patterns)
    together = engine.feed(events) + engine.advance(made.now)
    alone = [each for name in names for each in detected(name, DEFAULT_SEED)]
    assert sorted(each.id for each in together) == sorted(each.id for each in alone)

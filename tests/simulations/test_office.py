"""The Active Office as a source of events: determinism, the watermark of each step, the types of each source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from random import Random

import msgspec
import pytest

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE, SECOND
from distced.simulations.office import DEFAULT_SEED, DEFAULT_START, ActiveOffice
from distced.simulations.office.building import OUTSIDE, Building
from distced.simulations.office.sensors import PERS, UNCERTAINTY, Sensors

SEEDS = [DEFAULT_SEED, 1, 2]


def by_source(events: Iterable[Event]) -> dict[str, list[Event]]:
    found = defaultdict(list)
    for event in events:
        found[event.source].append(event)
    return found


def digest(seed: int, duration: int = HOUR) -> str:
    return sha256(msgspec.msgpack.encode(ActiveOffice(Random(seed)).events(duration))).hexdigest()


def test_office_publishes_the_same_bytes_for_a_seed_in_any_process() -> None:
    program = (
        "from hashlib import sha256\nfrom random import Random\nimport msgspec\n"
        "from distced.simulations.office import ActiveOffice\n"
        f"events = ActiveOffice(Random({DEFAULT_SEED})).events({HOUR})\n"
        "print(sha256(msgspec.msgpack.encode(events)).hexdigest())"
    )
    # The order of sets of texts differs from process to process; nothing may depend on it.
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2", "3", "4", "5")
    }
    assert found == {digest(DEFAULT_SEED)}


def test_offices_of_different_seeds_differ() -> None:
    assert len({digest(seed, MINUTE) for seed in range(10)}) == 10


def test_office_uses_no_global_random_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the global random source was used")

    for name in ("random", "randint", "uniform", "choices", "shuffle", "gauss"):
        monkeypatch.setattr(f"random.{name}", refuse)
    assert ActiveOffice(Random(1)).events(30 * MINUTE)


@pytest.mark.parametrize("tick", [250 * MILLISECOND, 7 * SECOND, 10 * MINUTE])
def test_events_do_not_depend_on_the_tick(tick: int) -> None:
    def ordered(office: ActiveOffice) -> list[Event]:
        return sorted(office.events(20 * MINUTE), key=lambda event: event.key)

    assert ordered(ActiveOffice(Random(5), tick=tick)) == ordered(ActiveOffice(Random(5)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tick", [SECOND, 90 * SECOND, 33 * MILLISECOND])
def test_instant_of_a_step_is_a_watermark(seed: int, tick: int) -> None:
    start = DEFAULT_START
    promised = start
    steps = 0
    for step in ActiveOffice(Random(seed), start, tick=tick).run(10 * MINUTE):
        assert step.now == min(promised + tick, start + 10 * MINUTE)
        for event in step.events:
            # Published when `hi` has passed, and never after it was promised that no such event would come.
            assert promised < event.hi <= step.now
        sensed = [event.lo + event.hi for event in step.events]
        assert sensed == sorted(sensed)
        promised = step.now
        steps += 1
    assert promised == start + 10 * MINUTE
    assert steps == -(-10 * MINUTE // tick)


def test_run_continues_the_last_one() -> None:
    office = ActiveOffice(Random(3))
    parts = office.events(7 * MINUTE) + office.events(13 * MINUTE)
    assert parts == ActiveOffice(Random(3)).events(20 * MINUTE)
    assert office.now == DEFAULT_START + 20 * MINUTE
    assert office.events(0) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_source_counts_from_0_with_increasing_hi(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    sources = by_source(office.events(HOUR))
    assert set(sources) <= set(office.sources)
    for source, events in sources.items():
        assert [event.seq for event in events] == list(range(len(events)))
        assert all(a.hi < b.hi for a, b in pairwise(events))
        assert {event.type for event in events} <= set(office.sources[source])
        assert {event.hi - event.lo for event in events} == {2 * UNCERTAINTY[source.split("-")[0]]}


def test_source_separates_two_readings_of_one_instant() -> None:
    sensors = Sensors(Building(), ["Jean"])
    for person in ("Jean", "Peter"):
        sensors.sense(SECOND, "badge", "FE02", PERS, person=person, room="FE02")
    sensors.sense(SECOND, "badge", "FE03", PERS, person="Brian", room="FE03")
    uncertainty = UNCERTAINTY["badge"]
    assert sensors.publish(SECOND + uncertainty - 1) == []
    first, brian = sensors.publish(SECOND + uncertainty)
    (second,) = sensors.publish(SECOND + uncertainty + 1)
    assert [event.attributes["person"] for event in (first, second, brian)] == ["Jean", "Peter", "Brian"]
    assert [event.seq for event in (first, second, brian)] == [0, 1, 0]
    assert first.timestamp == brian.timestamp == (SECOND - uncertainty, SECOND + uncertainty)
    assert second.hi == first.hi + 1


def test_events_are_of_their_registered_types() -> None:
    office = ActiveOffice(Random(1))
    registry = TypeRegistry(office.types)
    assert registry.root("Seen") == "Pers"
    published = set()
    for event in office.events(HOUR):
        registry.get(event.type).check(event)
        published.add(event.type)
    assert published == {event_type.name for event_type in office.types} - {"Seen"}


def test_sources_are_those_of_nine_rooms_two_boards_and_eight_workstations() -> None:
    office = ActiveOffice(Random(1))
    kinds = defaultdict(int)
    for source in office.sources:
        kinds[source.split("-")[0]] += 1
    assert kinds == {"badge": 9, "door": 9, "thermometer": 9, "light": 9, "board": 2, "workstation": 8}
    assert office.sources["badge-FE02"] == ("Pers",)
    assert office.sources["board-Meeting-Room-1"] == ("BoardOn", "BoardOff", "BoardPage")
    assert office.sources["workstation-Jean"] == ("Login", "Logout")
    assert not any(character in source for source in office.sources for character in "/+# ")


@pytest.mark.parametrize("seed", SEEDS)
def test_people_in_the_building_are_seen_at_least_once_a_minute_in_their_room(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    places = office.people
    events = office.events(HOUR)
    moves = office.summary().moves
    for person, place in places.items():
        # The places one after the other, each from an instant on.
        stays = [(DEFAULT_START, place), *((move.at, move.onward) for move in moves if move.person == person)]
        seen = [
            ((event.lo + event.hi) // 2, event.attributes["room"])
            for event in events
            if event.type == "Pers" and event.attributes["person"] == person
        ]
        for instant, room in seen:
            assert room == [place for since, place in stays if since <= instant][-1]
        inside = [instant for instant, _ in seen]
        for (since, place), (until, _) in pairwise([*stays, (DEFAULT_START + HOUR, "")]):
            if place != OUTSIDE:
                marks = [since, *(instant for instant in inside if since <= instant < until), until]
                assert all(b - a <= MINUTE for a, b in pairwise(marks))


@pytest.mark.parametrize("seed", SEEDS)
def test_people_walk_through_open_doors(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    building = Building()
    doors = by_source(event for event in office.events(HOUR) if event.type == "Door")
    moves = office.summary().moves
    assert moves
    for move in moves:
        assert move.onward in building.adjoining(move.place)
        contact = f"door-{building.door(move.place, move.onward).replace(' ', '-')}"
        before = [event for event in doors[contact] if event.lo < move.at]
        if move.at < DEFAULT_START + HOUR - SECOND:
            assert before[-1].attributes["open"] is True


@pytest.mark.parametrize("seed", SEEDS)
def test_switches_alternate_between_on_and_off(seed: int) -> None:
    office = ActiveOffice(Random(seed))
    states = defaultdict(list)
    for event in office.events(3 * HOUR):
        if event.type in ("Door", "Light"):
            states[event.source].append(event.attributes["open" if event.type == "Door" else "on"])
        elif event.type in ("BoardOn", "BoardOff", "Login", "Logout"):
            states[event.source].append(event.type in ("BoardOn", "Login"))
    assert len(states) > 20
    for changes in states.values():
        assert all(a != b for a, b in pairwise(changes))


def test_pages_are_written_and_counted_while_the_board_is_on() -> None:
    office = ActiveOffice(Random(DEFAULT_SEED))
    written = []
    for event in sorted(office.events(2 * HOUR), key=lambda event: event.key):
        if event.type == "BoardOn" and event.attributes["room"] == "Meeting Room 1":
            written.append(0)
        elif event.type == "BoardPage" and event.attributes["room"] == "Meeting Room 1":
            written[-1] += 1
            assert event.attributes["page"] == written[-1]
    assert len(written) > 2
    assert written == [meeting.pages for meeting in office.summary().meetings if meeting.room == "Meeting Room 1"]


def test_office_may_be_larger_or_smaller_and_start_at_any_instant() -> None:
    larger = ActiveOffice(Random(1), 0, people=60, residents=40)
    assert len(larger.people) == len(set(larger.people)) == 60
    assert len(larger.homes) == 40
    assert len(set(larger.homes.values())) == 4
    assert max(event.hi for event in larger.events(20 * MINUTE)) <= 20 * MINUTE
    alone = ActiveOffice(Random(1), people=1, residents=0)
    alone.events(HOUR)
    assert alone.homes == {}
    assert alone.summary().meetings == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"people": 0, "residents": 0}, "people"),
        ({"people": 3}, "8 residents"),
        ({"residents": -1}, "-1 residents"),
        ({"tick": 0}, "step of time"),
        ({"start": 2**63}, "instant"),
    ],
)
def test_office_refuses_invalid_arguments(arguments: dict[str, int], problem: str) -> None:
    with pytest.raises(DistcedError, match=problem):
        ActiveOffice(Random(1), **arguments)


def test_office_refuses_a_negative_duration() -> None:
    with pytest.raises(DistcedError, match="back"):
        ActiveOffice(Random(1)).run(-1)

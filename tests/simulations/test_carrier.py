"""Carrier networks: what is made from a seed, alarms with their truth, root causes found, and files of recordings."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND
from distced.simulations.carrier import (
    ALARM,
    CLEARED,
    CarrierAlarms,
    CarrierNetwork,
    edges_found,
    evaluated,
    fault_patterns,
    made_network,
    placed,
    read_network,
)
from distced.simulations.demo.feed import alarm_feed, recorded_alarm_feed
from distced.simulations.demo.session import questions

LINE = CarrierNetwork(
    ("d-1", "d-2", "d-3"), frozenset({("d-1", "d-2"), ("d-2", "d-1"), ("d-2", "d-3"), ("d-3", "d-2")}), ((1, 2),)
)


def alarm(kind: int, device: str, second: float, network: CarrierNetwork = LINE) -> Event:
    at = round(second * SECOND)
    return placed(Event("Alarm", at, at, device, at, {"alarm": kind, "device": device}), network)


def detected(network: CarrierNetwork, events: list[Event]) -> list[CompositeEvent]:
    asked, _ = questions([ALARM, CLEARED], [], fault_patterns(network))
    engine = StepwiseEngine([each.compiled for each in asked])
    ordered = sorted(events, key=lambda event: event.key)
    return engine.feed(ordered) + engine.advance(ordered[-1].hi + HOUR)


def explanations(found: list[CompositeEvent]) -> list[tuple[object, ...]]:
    return [
        tuple(each.attributes[name] for name in ("cause", "at", "effect", "device"))
        for each in found
        if each.type.startswith("RootCause")
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([(1, "d-1", 0), (2, "d-1", 5)], [(1, "d-1", 2, "d-1")]),
        ([(1, "d-1", 0), (2, "d-2", 5)], [(1, "d-1", 2, "d-2")]),
        # Two links away, too late, before it, and of another kind.
        ([(1, "d-1", 0), (2, "d-3", 5)], []),
        ([(1, "d-1", 0), (2, "d-1", 31)], []),
        ([(2, "d-1", 0), (1, "d-1", 5)], []),
        ([(1, "d-1", 0), (3, "d-1", 5)], []),
        # Each effect of a cause, and for each the last cause nearby.
        ([(1, "d-1", 0), (2, "d-1", 5), (2, "d-2", 6)], [(1, "d-1", 2, "d-1"), (1, "d-1", 2, "d-2")]),
        ([(1, "d-1", 0), (1, "d-2", 3), (2, "d-2", 6)], [(1, "d-2", 2, "d-2")]),
        # A name that is a part of another one is not near.
        ([(1, "d-1", 0), (2, "d-11", 5)], []),
    ],
)
def test_effects_are_explained_by_the_last_cause_nearby(
    events: list[tuple[int, str, float]], expected: list[tuple[object, ...]]
) -> None:
    assert explanations(detected(LINE, [alarm(*each) for each in events])) == expected


def test_operators_see_storms_flapping_and_what_is_not_cleared() -> None:
    storm = [alarm(5, f"d-{place}", place) for place in range(10)]
    flapping = [alarm(6, "d-30", 100 + 20 * count) for count in range(5)]
    cleared = alarm(7, "d-40", 300)
    ends = Event("Cleared", 310 * SECOND, 310 * SECOND, "d-40", 1, {"alarm": 7, "device": "d-40"})
    found = detected(LINE, [*storm, *flapping, cleared, ends])
    by_type = {name: [each for each in found if each.type == name] for name in ("Storm", "Flapping", "NotCleared")}
    assert [each.attributes["site"] for each in by_type["Storm"]] == ["site-0"]
    assert [each.attributes["device"] for each in by_type["Flapping"]] == ["d-30"]
    # Of an alarm that comes again, the last one.
    assert {each.attributes["device"] for each in by_type["NotCleared"]} == {*(f"d-{n}" for n in range(10)), "d-30"}


def test_made_networks_and_alarms_are_those_of_their_seed() -> None:
    def made() -> tuple[CarrierNetwork, list[Event], int]:
        network = made_network(Random(7))
        alarms = CarrierAlarms(Random(8), network)
        return network, [event for step in alarms.run(30 * MINUTE) for event in step.events], len(alarms.truth)

    assert made() == made()
    network, events, true = made()
    assert len({event.id for event in events}) == len(events) > 300
    assert true > 50
    assert all(cause < effect for cause, effect in network.causes)


def test_steps_promise_what_they_have_published() -> None:
    alarms = CarrierAlarms(Random(1), made_network(Random(1)))
    now = alarms.now
    for step in alarms.run(20 * MINUTE):
        assert all(now < event.hi <= step.now for event in step.events)
        now = step.now


def test_most_root_causes_are_found_and_most_found_ones_are_true() -> None:
    found, true, known = 0, 0, 0
    for seed in range(5):
        network = made_network(Random(seed))
        alarms = CarrierAlarms(Random(seed + 1), network)
        events = [event for step in alarms.run(30 * MINUTE) for event in step.events]
        causes = evaluated(detected(network, events), alarms.truth)
        found, true, known = found + causes.found, true + causes.true, known + causes.known
    assert true / known > 0.95
    assert true / found > 0.7


def test_nothing_found_has_no_precision() -> None:
    nothing = evaluated([], [])
    assert (nothing.precision, nothing.recall) == (None, None)
    assert edges_found([], LINE).found == 0


def test_causal_edges_of_a_recording_are_found_beyond_chance() -> None:
    network = made_network(Random(3), kinds=8, causes=6)
    alarms = CarrierAlarms(Random(4), network)
    events = [event for step in alarms.run(4 * HOUR) for event in step.events if event.type == "Alarm"]
    edges = edges_found(sorted(events, key=lambda event: event.key), network)
    assert edges.chance is not None and edges.precision is not None
    assert edges.known == 6 and edges.precision >= 4 * edges.chance


@pytest.mark.parametrize(
    ("causes", "links", "problem"),
    [
        ("cause,effect\n1,2\n", None, "a column is missing: cause_alarm, effect_alarm"),
        ("cause_alarm,effect_alarm\n1,2\none,2\n", None, "not a kind of alarm: one.*row 3"),
        ("cause_alarm,effect_alarm\n1,2\n", "a,b\n", "a column is missing: device_a, device_b"),
    ],
)
def test_errors_of_files_name_file_and_row(tmp_path: Path, causes: str, links: str | None, problem: str) -> None:
    of_causes, of_links = tmp_path / "causes.csv", tmp_path / "links.csv"
    of_causes.write_text(causes)
    of_links.write_text(links or "")
    with pytest.raises(DistcedError, match=rf"(?s){problem}"):
        read_network(of_causes, None if links is None else of_links, [])


def test_recorded_alarms_are_placed_in_their_network(tmp_path: Path) -> None:
    recording, causes, links = (tmp_path / f"{name}.csv" for name in ("alarms", "causes", "links"))
    recording.write_text("alarm_id,device_id,start_timestamp,end_timestamp\n1,1,0,0\n2,2,5,5\n2,3,6,6\n")
    causes.write_text("cause_alarm,effect_alarm\n1,2\n")
    links.write_text("device_a,device_b\n2,1\n")
    mapping = Path(__file__).parents[2] / "simulations" / "recordings" / "alarms.toml"
    feed = recorded_alarm_feed(recording, mapping, causes, links)
    events = [event for step in feed.steps for event in step.events]
    assert [event.attributes["near"] for event in events] == ["|1||2|", "|2||1|", "|3|"]
    asked, _ = questions(feed.types, [], feed.patterns)
    found = StepwiseEngine([each.compiled for each in asked]).feed(events)
    assert explanations(found) == [(1, "1", 2, "2")]
    assert feed.root_causes is not None
    assert feed.root_causes(found, events).known == 1


def test_feed_of_a_seed_has_patterns_and_a_truth() -> None:
    feed = alarm_feed(5, 10)
    events = [event for step in feed.steps for event in step.events]
    assert {event.source for event in events} <= set(feed.sources)
    assert feed.root_causes is not None and feed.root_causes([], events).known > 0

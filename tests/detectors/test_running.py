"""Patterns over recorded events: from files, tables and events at hand, in the same order whatever the input's."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import distced.detectors.batch_run.runner as running
from distced.detectors.batch_run.runner import Replay, declared_types, misfits, replay, run
from distced.detectors.compiler import Compiled, compile_file, compile_pattern, compile_publication
from distced.detectors.pattern_files import read_source
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.event_files import write_events
from distced.middleware.mapping import parse_mapping
from distced.middleware.model.errors import DistcedError, EventError, PatternError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR
from distced.middleware.patterns import derived_type, event, pattern_file
from distced.simulations.office import ActiveOffice, read_scenario
from tests.support.random_patterns import PatternMaker, make_events

MAPPING = """
[[rule]]
type = "Temp"
source = "{room}"
time = { path = "at", format = "s" }
[rule.attributes]
room = "string"
temp = "number"
"""

ROWS = "at,room,temp\n30,FE02,14\n10,FE02,20\n20,FE03,12\n40,FE03,cold\n50,FE03,13\n"


def an_event(type_name: str, at: int, seq: int, **attributes: Any) -> Event:
    return Event(type_name, at, at, "s", seq, attributes)


EVENTS = [an_event("A", 10, 0, x=1), an_event("B", 30, 1, x=2), an_event("B", 20, 2, x=3), an_event("C", 90, 3)]


def constituents(found: list[CompositeEvent]) -> list[list[int]]:
    return [[seq for _, seq in each.constituents] for each in found]


def reported(found: list[CompositeEvent]) -> list[object]:
    return [(each.type, each.id, each.lo, each.hi, each.attributes, each.constituents) for each in found]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "temps.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


# What is found.


def test_events_are_consumed_in_order_whatever_the_order_they_come_in() -> None:
    for seed in range(5):
        shuffled = list(EVENTS)
        Random(seed).shuffle(shuffled)
        assert constituents(run("[A] ; [B] ; [B]", shuffled)) == [[0, 2, 1]]


def test_random_patterns_find_what_the_engine_finds_and_in_total_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stretches end makes no difference, neither to what is found nor to its order."""
    compared = 0
    for seed in range(250):
        random = Random(seed)
        try:
            pattern = compile_publication(
                PatternMaker(random).publication(random.randrange(2, 7)),
                consumption=random.choice(("ordered", "epoch")),
            )
        except PatternError:
            continue
        events = make_events(random, 14)
        engine = StepwiseEngine([pattern])
        expected = engine.feed(events) + engine.finish()
        results = []
        for step in (1, 3, 1000):
            monkeypatch.setattr(running, "STEP", step)
            results.append(reported(run(pattern, events, finish=True)))
        assert results[0] == results[1] == results[2]
        keys = [each.key for each in Replay([pattern], events, finish=True)]
        assert keys == sorted(keys)
        assert sorted(map(repr, results[0])) == sorted(map(repr, reported(expected)))
        compared += bool(expected)
    assert compared > 60


def test_patterns_of_a_file_run_together(tmp_path: Path) -> None:
    path = tmp_path / "two.pattern"
    path.write_text("[Pair]{2} -> Twice()\n[A] ; [B] -> Pair()\n", encoding="utf-8")
    events = [an_event("A", 1, 0), an_event("B", 2, 1), an_event("A", 3, 2), an_event("B", 4, 3)]
    found = run(path, events)
    # By ≺ what began earlier comes first, though it is made of what follows.
    assert [each.type for each in found] == ["Pair", "Twice", "Pair"]
    assert run(str(path), events) == found
    assert found[1].constituents == (found[0].id, found[2].id)


def test_equal_patterns_are_detected_once() -> None:
    assert constituents(run(["[A] ; [B]", "([A] ; [B])"], EVENTS)) == [[0, 2]]


def test_time_event_after_the_recording_fires_on_request_only() -> None:
    pattern = "([A], [T <= {T, B}]) @ T = 5ns"
    late = "([C], [T]) @ T = 5ns"
    assert constituents(run(pattern, EVENTS)) == [[0]]
    assert run(late, EVENTS) == []
    assert constituents(run(late, EVENTS, finish=True)) == [[3]]
    passed, _ = replay(late, EVENTS)
    assert list(passed) == []
    assert passed.counts.running
    done, _ = replay(pattern, EVENTS)
    assert len(list(done)) == 1
    assert not done.counts.running


def test_time_goes_on_with_events_that_no_pattern_reads() -> None:
    assert constituents(run("([A], [T <= {T, B}]) @ T = 50ns", [EVENTS[0], EVENTS[3]])) == [[0]]


def test_run_consumes_by_epochs() -> None:
    events = [an_event("A", 10, 0), an_event("B", 20, 1), an_event("B", 20, 2)]
    assert len(run("[A] [B]", events)) == 1
    assert len(run("[A] [B]", events, consumption="epoch")) == 2


def test_run_counts_events() -> None:
    events = [*EVENTS, EVENTS[0], EVENTS[2]]
    passed, reader = replay("[A] ; [B] -> X()", events)
    assert reader is None
    found = list(passed)
    counts = passed.counts
    assert (counts.events, counts.consumed, counts.repeated, counts.disordered) == (4, 3, 2, 1)
    assert counts.found == {0: 1}
    assert passed.last == 90
    assert list(passed) == found
    assert passed.counts.found == {0: 1}


def test_empty_recording_gives_nothing() -> None:
    assert run("[A]", []) == []
    assert run("([A], [T]) @ T = 1s", [], finish=True) == []


# Where patterns come from.


def test_run_takes_a_pattern_of_the_python_binding() -> None:
    a, b = event("A"), event("B")
    pattern = a.then(b.where(b.x > a.x)).publish("X", x=b.x)
    assert [each.attributes for each in run(pattern, EVENTS)] == [{"x": 3}]
    assert constituents(run(a.then(b), EVENTS)) == [[0, 2]]
    throttled = derived_type("Some", b, every="1s")
    assert constituents(run(throttled, EVENTS)) == [[2]]
    assert len(run(pattern_file(throttled, pattern), EVENTS)) == 2


def test_run_takes_compiled_patterns() -> None:
    compiled = compile_pattern("[A] ; [B] -> X()")
    assert constituents(run(compiled, EVENTS)) == [[0, 2]]
    assert [each.type for each in run((compiled, "[C] -> Y()"), EVENTS)] == ["X", "Y"]


@pytest.mark.parametrize("pattern", [3, None, object()])
def test_value_that_is_no_pattern_is_refused(pattern: object) -> None:
    with pytest.raises(PatternError, match="not a pattern"):
        run(pattern, EVENTS)


# Where events come from, and what they are checked against.


def test_run_reads_a_file_with_a_mapping(recording: Path, tmp_path: Path) -> None:
    mapping = parse_mapping(MAPPING)
    pattern = "[Temp as t where temp < 15] -> Cold(room = t.room)"
    assert [each.attributes["room"] for each in run(pattern, recording, mapping)] == ["FE03", "FE02", "FE03"]
    (tmp_path / "map.toml").write_text(MAPPING, encoding="utf-8")
    passed, reader = replay(pattern, str(recording), str(tmp_path / "map.toml"))
    assert len(list(passed)) == 3
    assert reader is not None
    assert (reader.counts["row"], reader.counts["rejected"]) == (5, 1)
    assert "row 5" in reader.rejected[0].where
    assert passed.counts.disordered == 2


def test_patterns_are_checked_against_types_of_the_mapping(recording: Path) -> None:
    mapping = parse_mapping(MAPPING)
    for pattern, message in (
        ("[Temp where tmp < 15]", "unknown attribute: tmp"),
        ("[Temp where temp < 'cold']", "compares a number with a string"),
        ("[Door]", "unknown event type: Door"),
    ):
        with pytest.raises(PatternError, match=message):
            run(pattern, recording, mapping)


def test_given_types_come_first() -> None:
    with pytest.raises(PatternError, match="unknown attribute: y"):
        run("[A where y == 1]", EVENTS, types=[event_type("A", {"x": "number"})])
    assert run("[A where y == 1]", EVENTS) == []


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
def test_run_reads_tables(kind: str) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
    library = pytest.importorskip(kind, reason=f"{kind} is not installed")
    columns = {"type": ["A", "B", "B"], "time": [10, 30, 20], "x": [1, 2, 3]}
    table = library.table(columns) if kind == "pyarrow" else library.DataFrame(columns)
    found = run("[A] ; [B as b] -> X(x = b.x)", table)
    assert [each.attributes for each in found] == [{"x": 3}]
    foreign = {"at": [30, 10], "room": ["FE02", "FE02"], "temp": [14.0, 20.0]}
    table = library.table(foreign) if kind == "pyarrow" else library.DataFrame(foreign)
    assert len(run("[Temp where temp < 15]", table, parse_mapping(MAPPING))) == 1
    with pytest.raises(PatternError, match="unknown attribute: tmp"):
        run("[Temp where tmp < 15]", table, parse_mapping(MAPPING))


def test_parquet_file_brings_its_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
    path = tmp_path / "events.parquet"
    write_events(EVENTS, path)
    assert {each.name for each in declared_types(path) or ()} == {"A", "B", "C"}
    assert constituents(run("[A] ; [B]", path)) == [[0, 2]]
    with pytest.raises(PatternError, match="unknown event type: D"):
        run("[D]", path)


def test_types_found_in_a_recording_cause_no_errors(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write_events(EVENTS, path)
    assert declared_types(path) is None
    assert run("[A where y == 'q'] | [D]", path) == []
    source = read_source("[A where y == 'q']")
    passed, reader = replay("[A]", path)
    assert len(list(passed)) == 1
    assert reader is not None
    assert "unknown attribute" in str(misfits(source, reader.types))
    assert misfits(read_source("[A where x == 1]"), reader.types) is None


@pytest.mark.parametrize(
    ("source", "mapping", "message"),
    [
        (3, None, "nothing to read events from"),
        ("missing.jsonl", None, "no such recording"),
        ("recording.toml", None, "without a known format"),
        (EVENTS, parse_mapping(MAPPING), "a mapping for events"),
    ],
)
def test_unreadable_sources_are_refused(source: object, mapping: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        run("[Temp]", source, mapping)


def test_missing_mapping_is_an_error() -> None:
    with pytest.raises(DistcedError, match="cannot read the mapping"):
        run("[A]", EVENTS, "missing.toml")


# A building for an hour.


def test_scenarios_of_the_active_office_are_detected(tmp_path: Path) -> None:
    office = ActiveOffice(Random(7))
    events = office.events(HOUR)
    expected: list[CompositeEvent] = []
    patterns: list[Compiled] = []
    for name in ("scenario1", "scenario2-residents"):
        (compiled,) = compile_file("type Seen = Pers every 1min by (person, room)\n" + read_scenario(name))
        patterns.append(compiled)
    engine = StepwiseEngine(patterns)
    expected = engine.feed(sorted(events, key=lambda each: each.key)) + engine.advance(max(each.hi for each in events))
    path = tmp_path / "office.jsonl.gz"
    write_events(events, path)
    found = run(patterns, path)
    assert len(found) > 20
    assert sorted(each.id for each in found) == sorted(each.id for each in expected)


def test_run_reads_the_folder_of_a_history(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    from distced.middleware.history import HistoryWriter

    events = [Event("AB"[n % 2], n, n, "s", n, {"k": n % 3, "v": 1.5 if n % 2 else n}) for n in range(30)]
    first, *_ = HistoryWriter(tmp_path / "h", "test").write(events)
    text = "[A as x] ; [B as y] by k -> P(k = x.k, v = y.v)"
    assert run(text, tmp_path / "h") == run(text, events)
    assert len(run(text, tmp_path / "h")) > 3
    first.write_bytes(first.read_bytes()[:-20])
    made, reader = replay(text, tmp_path / "h")
    assert list(made) == []
    assert reader is not None
    assert reader.counts["rejected"] == len(reader.rejected) == 1
    with pytest.raises(EventError, match="a mapping for an event history"):
        run("[Temp]", tmp_path / "h", parse_mapping(MAPPING))
    with pytest.raises(DistcedError, match="no history here"):
        run(text, tmp_path)

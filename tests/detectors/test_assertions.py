"""`distced.testing`: assertions on patterns in the tests of an application."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from distced import DistcedError, event, event_type
from distced.middleware.model.timestamps import SECOND, Timestamp, parse_instant
from distced.testing import EventBuilder, Match, assert_detects, detect, parse_events

COLD = "[Door as d] ; [Temp where temp < 15 and room == d.room] within 5min -> Cold(room = d.room)"
LINES = ["Door 0s room='FE02'", "Temp 40s room='FE02' temp=14.5", "Temp 70s room='FE04' temp=13.0"]


@pytest.mark.parametrize(
    "expected",
    [
        1,
        [{"room": "FE02"}],
        [[0, 1]],
        [[1, 0]],
        [Match((0, 1), {"room": "FE02"}, Timestamp(0, 40 * SECOND))],
        [Match((0, 1))],
    ],
)
def test_expectation_holds(expected: Any) -> None:
    (found,) = assert_detects(COLD, LINES, expected)
    assert found.type == "Cold"


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (2, "1 found, 2 expected"),
        ([], "0 missing, 1 unexpected, 0 expected"),
        ([{"room": "FE04"}], "missing     a composite event with room = 'FE04'"),
        ([[0, 2]], "missing     [0, 2]"),
        ([[0, 1], [0, 1]], "1 missing, 0 unexpected, 2 expected"),
        ([{"room": True}], "1 missing, 1 unexpected"),
    ],
)
def test_difference_is_reported(expected: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)) as error:
        assert_detects(COLD, LINES, expected)
    assert "2: Temp 70000000000 room='FE04' temp=13.0" in str(error.value)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ([[0, 1], {"room": "FE02"}], "expectations of several forms"),
        ([[0, 7]], "allowed: 0 to 2"),
        (["Cold"], "not an expectation"),
    ],
)
def test_malformed_expectation_is_an_error(expected: Any, said: str) -> None:
    with pytest.raises(DistcedError, match=said):
        assert_detects(COLD, LINES, expected)


def test_types_are_checked_where_they_are_given() -> None:
    types = [event_type("Door", {"room": "string"}), event_type("Temp", {"room": "string"})]
    with pytest.raises(DistcedError, match="temp"):
        assert_detects(COLD, LINES, 1, types=types)


def test_constituent_that_is_a_composite_event_is_a_list_of_positions(tmp_path: Path) -> None:
    file = tmp_path / "two.pattern"
    file.write_text("[A] ; [B] -> Pair()\n[Pair] ; [C] -> Triple()\n", encoding="utf-8")
    found = detect(file, ["A 1", "B 2", "C 3"])
    assert [each.type for each in found] == ["Pair", "Triple"]
    assert_detects(file, ["A 1", "B 2", "C 3"], [[0, 1], [[0, 1], 2]])


def test_builder_counts_from_its_start() -> None:
    day = EventBuilder("2026-11-21T08:00Z", source="office")
    door, temp = day.event("Door", "0s", room="FE02"), day.event("Temp", "40s", "45s", room="FE02", temp=14.5, at=1)
    start = parse_instant("2026-11-21T08:00Z")
    assert (door.lo, door.hi, temp.lo, temp.hi) == (start, start, start + 40 * SECOND, start + 45 * SECOND)
    assert [door.id, temp.id] == [("office", 0), ("office", 1)]
    assert temp.attributes["at"] == 1
    assert_detects(COLD, [temp, door], [[1, 0]])


def test_pattern_of_the_python_binding_is_accepted() -> None:
    door, temp = event("Door"), event("Temp")
    assert_detects(door.then(temp.where(temp.room == door.room)), LINES, [[0, 1]])


def test_lines_are_those_of_conformance_cases() -> None:
    (made,) = parse_events(["Temp 30 35 room='FE02'"])
    assert (made.type, made.lo, made.hi, made.attributes) == ("Temp", 30, 35, {"room": "FE02"})
    with pytest.raises(DistcedError):
        parse_events(["Temp room='FE02'"])

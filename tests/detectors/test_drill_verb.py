"""`distced drill`: the tree of a composite event, what is not recorded, and ids that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from distced.detectors.batch_run.drill_down import drill_down, id_text, matching
from distced.detectors.batch_run.live_drill_down import LiveDrillDown
from distced.middleware.cli.command import main
from distced.middleware.event_files import write_events
from distced.middleware.history import HistoryWriter
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND
from tests.support.verbs import load_verbs

TEXT = "[A] ; [B] -> Pair()\n[Pair] ; [C] -> Three()\n"
EVENTS = [Event(name, n * SECOND, n * SECOND, "s", n, {}) for n, name in enumerate("ABC", 1)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_verbs()
    monkeypatch.chdir(tmp_path)
    write_events(EVENTS, "events.jsonl")
    Path("three.pattern").write_text(TEXT, encoding="utf-8")


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["drill", *arguments]) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_tree_ends_in_primitive_events(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--input", "events.jsonl", "--pattern", "three.pattern"]
    listed = json.loads(output(capsys, *given, "--json"))
    (three,) = [each["id"] for each in listed if each["type"] == "Three"]
    for text in (json.dumps(three), id_text(tuple(three)), id_text(tuple(three))[:-5]):
        lines = output(capsys, text, *given).splitlines()
        assert [line.split("Z  ")[1].split()[0] for line in lines] == ["Three", "Pair", "A", "B", "C"]
        assert [line[:6] for line in lines] == ["      ", "├─    ", "│  ├─ ", "│  └─ ", "└─    "]


def test_constituent_that_is_not_recorded_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "three.pattern", "--input", "events.jsonl", "--out", "found.jsonl", "--native"]) == 0
    write_events(EVENTS[1:], "rest.jsonl")
    given = ["--input", "rest.jsonl", "--input", "found.jsonl"]
    listed = json.loads(output(capsys, *given, "--json"))
    (three,) = [each["id"] for each in listed if each["type"] == "Three"]
    shown = output(capsys, json.dumps(three), *given, code=1)
    assert "├─ s:1  not recorded" in shown
    assert "1 not recorded in rest.jsonl, found.jsonl, 4 events" in shown
    assert json.loads(output(capsys, json.dumps(three), *given, "--json", code=1))["not_recorded"] == [["s", 1]]


@pytest.mark.parametrize("given", ["nothing", "", "s:9", '["s", 9]', '["s"]', "c0.ff", "[" * 5_000])
def test_id_that_is_none_is_named_with_what_was_searched(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, given, "--input", "events.jsonl", code=2)
    assert "no event of this id" in shown
    assert "SOURCE:NUMBER" in shown
    assert "events.jsonl, 3 events" in shown


def test_id_of_several_events_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "s:1, s:2, s:3" in output(capsys, "s:", "--input", "events.jsonl", code=2)


def test_events_are_expanded_once_and_circles_end() -> None:
    def made(seq: int, *parts: int) -> CompositeEvent:
        return CompositeEvent("X", 0, 0, "c", 2**63 + seq, {}, constituents=tuple(("c", 2**63 + n) for n in parts))

    levels = 40
    diamonds = {each.id: each for each in (made(n, n + 1, levels + n + 1) for n in range(levels))}
    diamonds |= {each.id: each for each in (made(levels + n, n + 1) for n in range(1, levels))}
    assert len(list(drill_down(made(0).id, diamonds).steps())) < 4 * levels
    circle = {each.id: each for each in (made(0, 1), made(1, 0))}
    assert [each.is_again for each in drill_down(made(0).id, circle).steps()] == [False, False, True]


def test_source_may_have_points_and_colons() -> None:
    known = [("a.b:c", 7), ("a.b:c", 70), ("a.b", 7)]
    assert matching("a.b:c:7", known) == [("a.b:c", 7)]
    assert matching("a.b:7", known) == [("a.b", 7)]


def test_recording_without_composite_events_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no composite events in events.jsonl, 3 events" in output(capsys, "--input", "events.jsonl")


def test_history_is_drilled(capsys: pytest.CaptureFixture[str]) -> None:
    HistoryWriter(Path("history"), "test").write(EVENTS)
    assert "Three" in output(capsys, "--input", "history", "--pattern", "three.pattern")
    assert "s:1" in output(capsys, "s:1", "--input", "history")


def test_types_of_a_mapping_are_those_of_the_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rooms.csv").write_text("room,at\na,1970-01-01T00:00:01Z\na,1970-01-01T00:00:02Z\n", encoding="utf-8")
    Path("rooms.toml").write_text(
        '[defaults]\ntype = "Door"\nsource = "s"\ntime = { path = "at" }\n'
        '[defaults.attributes]\nroom = "string"\n[[rule]]\nname = "row"\n',
        encoding="utf-8",
    )
    Path("two.cel").write_text("SELECT room FROM Door NEXT{$1.room = $2.room} Door PUBLISH Two\n", encoding="utf-8")
    given = ["--input", "rooms.csv", "--mapping", "rooms.toml", "--pattern", "two.cel"]
    assert "Two" in output(capsys, *given)


def test_live_events_wait_for_constituents_of_constituents() -> None:
    a, b, c = EVENTS
    pair = CompositeEvent("Pair", 1, 2, "p", 2**63, {}, constituents=(a.id, b.id), events=(a, b))
    three = CompositeEvent(
        "Three", 1, 3, "t", 2**63, {}, constituents=(pair.id, c.id), events=(replace(pair, events=()), c)
    )
    live = LiveDrillDown(patience=10)
    live.show(three, now=0)
    assert list(live.ready(5)) == []
    live.add(pair)
    (found,) = live.ready(6)
    assert (found.root, found.missing, found.events.keys()) == (three.id, (), {three.id, pair.id, a.id, b.id, c.id})
    assert list(live.ready(20)) == []

    late = LiveDrillDown(patience=10)
    late.show(three, now=0)
    assert [each.missing for each in late.ready(10)] == [(a.id, b.id)]


def test_live_events_beyond_the_limit_are_dropped_by_their_arrival() -> None:
    live = LiveDrillDown(patience=0, kept=2)
    for each in EVENTS:
        live.add(each)
    assert len(live) == 2
    live.show(CompositeEvent("X", 0, 0, "x", 2**63, {}, constituents=tuple(each.id for each in EVENTS)), now=0)
    assert [each.missing for each in live.ready(0)] == [(EVENTS[0].id, EVENTS[1].id)]


def test_live_events_that_wait_are_bounded_and_shown_at_the_end() -> None:
    a, b, _ = EVENTS
    roots = [CompositeEvent("X", 0, 0, "x", 2**63 + n, {}, constituents=(a.id,)) for n in range(4)]
    live = LiveDrillDown(patience=1_000, kept=2)
    for each in roots:
        live.show(each, now=0)
    live.add(b)
    assert len(live) == 2
    # Of more than are kept the first are shown at once, though they are not among the latest events any more.
    assert [each.root for each in live.ready(1)] == [each.id for each in roots[:2]]
    assert list(live.ready(2)) == []
    assert [(each.root, each.missing) for each in live.ready(3, over=True)] == [
        (each.id, (a.id,)) for each in roots[2:]
    ]
    assert list(live.ready(2_000)) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "--live --pattern FILE"),
        (["--input", "events.jsonl", "--count", "2"], "add --live"),
        (["--live", "--pattern", "A", "--input", "events.jsonl"], "options of recorded events with --live: --input"),
        (["--live"], "--pattern: a pattern, a pattern file, or a type"),
    ],
)
def test_options_of_the_other_form_are_refused(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in output(capsys, *given, code=2)

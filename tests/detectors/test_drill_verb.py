"""`distced drill`: the tree of a composite event, what is not recorded, and ids that are none."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from distced.detectors.batch_run.drill_down import IdText, drill_down, id_text
from distced.detectors.batch_run.live_drill_down import LiveDrillDown
from distced.detectors.batch_run.recorded_drill_down import RecordedEvents
from distced.detectors.batch_run.runner import reader_of
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
    known = [Event("A", 0, 0, source, seq, {}) for source, seq in (("a.b:c", 70), ("a.b:c", 7), ("a.b", 7))]
    assert IdText("a.b:c:7").choose(known) == [known[1]]
    assert IdText("a.b:7").choose(known) == [known[2]]


def test_recording_without_composite_events_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no composite events in events.jsonl, 3 events" in output(capsys, "--input", "events.jsonl")


@pytest.mark.parametrize("arguments", [["s.1"], ["--pattern", "three.pattern"]])
def test_pipe_is_refused_where_it_would_be_read_twice(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe.jsonl")
    said = output(capsys, *arguments, "--input", "pipe.jsonl", code=2)
    assert "cannot be read twice: pipe.jsonl" in said and "write it to a file first" in said


def test_history_is_drilled(capsys: pytest.CaptureFixture[str]) -> None:
    HistoryWriter(Path("history"), "test").write(EVENTS)
    assert "Three" in output(capsys, "--input", "history", "--pattern", "three.pattern")
    assert "s:1" in output(capsys, "s:1", "--input", "history")


def levels(depth: int, seq: int) -> Iterator[Event]:
    """Composite events in composite events, constituents first, the last of them the root."""
    at = seq * SECOND
    a, b = (Event(name, at, at, "s", 2 * seq + n, {"k": n + 0.5, "text": None}) for n, name in enumerate("AB"))
    yield from (a, b)
    parts = (a.id, b.id)
    for n in range(depth):
        made = CompositeEvent(f"L{n}", at, at, f"c{n}", 2**63 + seq, {"level": n}, constituents=parts)
        yield made
        parts = (made.id, b.id)


FORMS = ("events.jsonl", "events.csv", "events.parquet", "history")


def written(form: str, events: list[Event]) -> Path:
    if form == "history":
        HistoryWriter(Path(form), "test").write(events)
    else:
        write_events(events, form)
    return Path(form)


@pytest.mark.parametrize("size", [0, 1 << 30], ids=["columns", "rows"])
@pytest.mark.parametrize("form", FORMS)
def test_tree_of_a_recording_is_that_of_its_events(form: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", size)
    events = [each for n in range(50) for each in levels(4, seq=n)]
    path = written(form, events)
    known = {each.id: each for each in reader_of(path)}
    for order in ([path], [path, path]):
        recorded = RecordedEvents([reader_of(each) for each in order])
        assert [each.id for each in recorded.composites()][: 4 * 50] == [
            each.id for each in known.values() if isinstance(each, CompositeEvent)
        ]
        root = ("c3", 2**63 + 7)
        (found,) = {each.id: each for each in recorded.fitting(root.__eq__)}.values()
        tree = recorded.drill_down(found)
        assert tree == drill_down(root, known)
        assert len(tree.events) == 6


@pytest.mark.parametrize("form", FORMS)
def test_patterns_run_over_all_inputs(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(form, EVENTS[:2])
    write_events(EVENTS[2:], "rest.jsonl")
    given = ["--input", "rest.jsonl", "--input", str(path), "--pattern", "three.pattern"]
    listed = json.loads(output(capsys, *given, "--json"))
    assert [each["type"] for each in listed] == ["Pair", "Three"]
    tree = json.loads(output(capsys, json.dumps(listed[1]["id"]), *given, "--json"))
    assert [each["type"] for each in tree["events"]] == ["Three", "Pair", "A", "B", "C"]


def test_recorded_composite_event_may_have_constituents_that_patterns_find(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "three.pattern", "--input", "events.jsonl", "--out", "found.jsonl", "--native"]) == 0
    found = {each.type: each for each in reader_of(Path("found.jsonl"))}
    write_events([found["Three"]], "three.jsonl")
    given = [id_text(found["Three"].id), "--input", "events.jsonl", "--input", "three.jsonl", "--pattern"]
    Path("pair.pattern").write_text(TEXT.splitlines()[0], encoding="utf-8")
    assert [len(line.split("Pair")) for line in output(capsys, *given, "pair.pattern").splitlines()] == [1, 2, 1, 1, 1]


def test_constituent_in_a_history_may_be_outside_the_time_of_its_composite_event() -> None:
    far = Event("A", 10**6 * SECOND, 10**6 * SECOND, "s", 1, {})
    gone = ("s", 2)
    inner = CompositeEvent("X", 0, 0, "x", 2**63, {}, constituents=(far.id,))
    root = CompositeEvent("Y", SECOND, SECOND, "y", 2**63, {}, constituents=(inner.id, gone))
    recorded = RecordedEvents([reader_of(written("history", [inner, root, far]))])
    tree = recorded.drill_down(root)
    assert (tree.events.keys(), tree.missing) == ({root.id, inner.id, far.id}, (gone,))


def test_memory_does_not_grow_with_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.native_json.LIST_ROWS", 128)
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", 0)

    def peak(count: int) -> int:
        write_events((each for n in range(count) for each in levels(1, n)), "many.jsonl")
        recorded = RecordedEvents([reader_of(Path("many.jsonl"))])
        tracemalloc.start()
        try:
            (root,) = recorded.fitting(("c0", 2**63).__eq__)
            assert len(recorded.drill_down(root).events) == 3
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    # More events held in memory would be 2 MB.
    assert peak(2_000) < peak(500) + 200_000


def test_list_is_bounded_and_json_has_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    events = [each for n in range(30) for each in levels(1, seq=n)]
    write_events(events, "many.jsonl")
    shown = output(capsys, "--input", "many.jsonl").splitlines()
    made = [each for each in events if isinstance(each, CompositeEvent)]
    assert [line.split()[0] for line in shown[:-1]] == [id_text(each.id) for each in made[-20:]]
    assert shown[-1] == "note: the last 20 of 30 composite events read; --json lists all"
    text = output(capsys, "--input", "many.jsonl", "--input", "many.jsonl", "--json")
    listed = json.loads(text)
    assert [tuple(each["id"]) for each in listed] == [each.id for each in made]
    assert text == json.dumps(listed, indent=2) + "\n"
    write_events(EVENTS, "none.jsonl")
    assert output(capsys, "--input", "none.jsonl", "--json").startswith("[]\n")


def test_ids_of_many_events_that_begin_alike_are_some_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    write_events([Event("A", n, n, "s", n, {}) for n in range(20)], "many.jsonl")
    shown = " ".join(output(capsys, "s", "--input", "many.jsonl", code=2).split())
    assert "s:0, s:1, s:2, s:3, s:4, s:5, s:6, s:7 and more" in shown


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

"""`distced history`: what is shown, exported and dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.middleware.cli.command import main
from distced.middleware.cli.output import few, size
from distced.middleware.event_files import read_events
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.late_events import LateEvent, write_late
from distced.middleware.history.retention import before_day, lies_before, older_than
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND, parse_instant
from tests.support.verbs import load_verbs

START = parse_instant("2026-11-20T22:00:00Z")


@pytest.fixture(autouse=True)
def verbs() -> None:
    load_verbs()


def motion(n: int) -> Event:
    return Event("Motion", START + n * HOUR, START + n * HOUR, f"pir-{n % 2}", n, {"room": "hall", "lux": n})


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Three days, with one of them missing: five events and a login, a late one, a gap."""
    writer = HistoryWriter(tmp_path / "h", "office")
    watermark = START + 60 * HOUR
    writer.write([motion(n) for n in (0, 1, 2, 3, 52)], watermark)
    writer.write([Event("Login", START, START + SECOND, "door", 1, {"who": "ada"})])
    writer.note(["Motion"], watermark, START, [(START + HOUR, START + HOUR + MINUTE)])
    write_late(tmp_path / "h", "office", [LateEvent(motion(1), START + 9 * HOUR)])
    return tmp_path / "h"


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["history", *arguments]) == code
    return capsys.readouterr().out


def test_ls_shows_days_types_recorders_and_what_is_late(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "ls", str(history))
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["day", "type", "events", "size", "files", "sources", "complete", "until", "recorded", "by"]
    assert [(line[0], line[1]) for line in lines[1:3]] == [("2026-11-20", "Login"), ("Motion", "2")]
    assert "whole day, with 1 gap" in text.splitlines()[2] and "not known" in text.splitlines()[1]
    assert lines[3][-3:] == ["whole", "day", "office"]
    assert "2026-11-23T10:00:00Z" in text
    assert "3 days" in text and "2 types" in text
    assert "2026-11-20T23:00:00Z for 1 min" in text
    assert "1 event came too late, kept in 1 file" in text
    assert "days without anything: 2026-11-22" in text
    # Columns stay where they are.
    rows = text.splitlines()[:5]
    assert len({row.find(each) for row, each in zip(rows[1:3], ("Login", "Motion"), strict=True)}) == 1


def test_ls_prints_json(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(output(capsys, "ls", str(history), "--json"))
    assert (report["rows"], report["files"], report["late"], report["missing_days"]) == (6, 4, 1, ["2026-11-22"])
    assert report["types"] == {"Login": {"who": "string"}, "Motion": {"room": "string", "lux": "number"}}
    assert [(each["day"], each["type"], each["rows"], each["whole"]) for each in report["days"]] == [
        ("2026-11-20", "Login", 1, False), ("2026-11-20", "Motion", 2, True), ("2026-11-21", "Motion", 2, True),
        ("2026-11-23", "Motion", 1, False),
    ]  # fmt: skip
    assert report["days"][1]["sources"] == {"pir-0": 1, "pir-1": 1}
    assert report["recorders"][0]["gaps"] == [[START + HOUR, START + HOUR + MINUTE]]
    assert report["problems"] == []


def test_ls_says_what_cannot_be_read_and_what_has_changed(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    HistoryWriter(history, "office").write(
        [Event("Login", START + 60 * HOUR, START + 60 * HOUR, "door", 9, {"who": 7})]
    )
    (path,) = history.glob("day=2026-11-20/type=Login/*")
    (history / "day=2026-11-21" / "type=Motion" / "broken.parquet").write_bytes(path.read_bytes()[:50])
    text = output(capsys, "ls", str(history), code=1)
    assert "a file that cannot be read, at day=2026-11-21/type=Motion/broken.parquet" in text
    assert "the type 'Login' has changed: who: number (before: who: string)" in text
    assert len(json.loads(output(capsys, "ls", str(history), "--json", code=1))["problems"]) == 1


def test_recorder_that_began_later_leaves_a_day_unknown(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That everything is there until now is said of the time since it began."""
    HistoryWriter(history, "other").note(["Login", "Motion"], START + 90 * HOUR, START + 50 * HOUR)
    report = json.loads(output(capsys, "ls", str(history), "--json"))
    assert [(each["day"], each["type"], each["whole"]) for each in report["days"]] == [
        ("2026-11-20", "Login", False), ("2026-11-20", "Motion", True), ("2026-11-21", "Motion", True),
        ("2026-11-23", "Motion", True),
    ]  # fmt: skip
    assert report["days"][0]["watermark"] is None


def test_ls_of_an_empty_history_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    HistoryWriter(tmp_path / "h", "office")
    assert output(capsys, "ls", str(tmp_path / "h")).startswith("no events; a recorder writes them ")
    assert main(["history", "ls", str(tmp_path)]) == 2
    assert "no history here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], [0, "ada", 1, 2, 3, 52]),
        (["--type", "Motion", "--limit", "2"], [0, 1]),
        (["--type", "Motion", "--type", "Login"], [0, "ada", 1, 2, 3, 52]),
        (["--source", "pir-1"], [1, 3]),
        (["--from", "2026-11-21"], [2, 3, 52]),
        (["--to", "2026-11-20"], [0, "ada", 1]),
        (["--from", "2026-11-20T23:00:00Z", "--to", "2026-11-21T00:00:00Z"], [1, 2]),
        (["--from", "2026-11-22", "--to", "2026-11-22"], []),
        (["--late"], [1]),
        (["--late", "--type", "Login"], []),
    ],
)
def test_show_prints_the_chosen_events(
    history: Path, capsys: pytest.CaptureFixture[str], options: list[str], shown: list[Any]
) -> None:
    lines = output(capsys, "show", str(history), *options, "--json").splitlines()
    attributes = [json.loads(line)["attributes"] for line in lines]
    assert [each.get("lux", each.get("who")) for each in attributes] == shown
    assert len(output(capsys, "show", str(history), *options).splitlines()) == len(shown)


def test_show_prints_lines_for_people(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "show", str(history), "--limit", "2"]) == 0
    report = capsys.readouterr()
    assert report.out.splitlines() == [
        "2026-11-20T22:00:00.000Z  Motion  room=hall  lux=0  from pir-0",
        "2026-11-20T22:00:01.000Z  Login   who=ada  over 1 s, from door",
    ]
    assert report.err == "note: there are more than 2: --limit 0 shows all\n"
    assert json.loads(output(capsys, "show", str(history), "--late", "--json"))["came"] == START + 9 * HOUR


def test_wrong_selection_is_an_error(history: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, message in (
        (["show", str(history), "--type", "Motoin"], "no events of this type: Motoin\n  allowed: Login, Motion"),
        (["show", str(history), "--source", "pir-2"], "no events of this source: pir-2\n  allowed: door, pir-0, pir-1"),
        (["export", str(history), str(tmp_path)], "a folder where a file should be written"),
        (["export", str(history), str(tmp_path / "x.doc")], "allowed: .jsonl, .csv and .parquet"),
        (["show", str(history), "--from", "2026-11-22", "--to", "2026-11-21"], "an end before its beginning"),
        (["show", str(history), "--from", "monday"], "not an instant: monday"),
        (["export", str(history), str(tmp_path / "x.txt")], "not a format for writing"),
        (["drop", str(history)], "no day to drop before"),
        (["drop", str(history), "--before", "2026-11-21", "--older", "1d"], "both a day and an age"),
        (["drop", str(history), "--before", "tomorrow"], "not a day: tomorrow"),
        (["show", str(history), "--from=--5"], "not an instant: --5"),
        (["show", str(history), "--to", "9" * 20], "beyond 64 bits"),
        (["export", str(history), str(history / "history.json" / "x.csv")], "cannot write the recording"),
        (["ls", str(history / "history.json")], "a file where a history should be"),
    ):
        assert main(["history", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_late_events_that_cannot_be_read_are_reported_and_the_others_shown(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (history / "late").iterdir()
    path.write_bytes(path.read_bytes() + b'{"type":\n[]\n{"type": "A"}\n{"type": "\xd2"}\n')
    assert main(["history", "show", str(history), "--late", "--json"]) == 1
    report = capsys.readouterr()
    assert json.loads(report.out)["seq"] == 1
    assert report.err.count("error: a line that is no late event") == 4
    assert f"{path}, line 2" in report.err
    # Nor is it removed: it is said that it stays.
    dropped = json.loads(output(capsys, "drop", str(history), "--before", "2026-12-01", "--yes", "--json"))
    assert (dropped["late"], dropped["left"]) == (0, [path.relative_to(history).as_posix()])
    assert path.exists()


def test_late_events_keep_infinite_numbers(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = Event("Motion", START, START, "pir-9", 7, {"lux": float("inf")})
    write_late(history, "office", [LateEvent(event, START + HOUR)])
    assert len(output(capsys, "show", str(history), "--late").splitlines()) == 2
    report = json.loads(output(capsys, "drop", str(history), "--before", "2026-12-01", "--yes", "--json"))
    assert report["late"] == 2


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.csv", "x.parquet"])
def test_export_writes_the_chosen_events(
    history: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    target = tmp_path / name
    assert output(capsys, "export", str(history), str(target), "--type", "Motion").startswith("5 events written to")
    assert [each.seq for each in read_events(target)] == [0, 1, 2, 3, 52]
    assert main(["history", "export", str(history), str(target)]) == 2
    assert "the file of FILE exists" in capsys.readouterr().err
    report = json.loads(output(capsys, "export", str(history), str(target), "--force", "--source", "door", "--json"))
    assert report["events"] == 1
    assert [each.type for each in read_events(target)] == ["Login"]


def test_drop_removes_whole_days_and_nothing_that_is_not_known(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = history / "day=2026-11-20" / "type=Login" / "thesis.tex"
    strange.write_text("…")
    assert main(["history", "drop", str(history), "--before", "2026-11-21"]) == 2
    report = capsys.readouterr().err
    assert "to be dropped: 3 events of 1 day, 2026-11-20, and 1 that came too late, in 3 files" in report
    assert "no terminal for the confirmation" in report
    assert History(history).rows == 6
    report = json.loads(output(capsys, "drop", str(history), "--before", "2026-11-21", "--yes", "--json"))
    assert (report["events"], report["late"], report["days"], report["files"]) == (3, 1, ["2026-11-20"], 3)
    assert report["left"] == ["day=2026-11-20/type=Login/thesis.tex"]
    assert History(history).rows == 3
    assert strange.exists()
    assert not (history / "day=2026-11-20" / "type=Motion").exists()
    assert output(capsys, "drop", str(history), "--before", "2026-11-21") == "there is nothing before 2026-11-21\n"
    assert output(capsys, "drop", str(history), "--older", "1d", "--yes").startswith(("dropped", "there is nothing"))


def test_drop_asks_before_it_removes(
    history: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code, rows in ((False, 1, 6), (True, 0, 3)):
        monkeypatch.setattr("typer.confirm", lambda *_, answer=answer, **__: answer)
        assert main(["history", "drop", str(history), "--before", "2026-11-21"]) == code
        assert History(history).rows == rows
    assert "dropped 3 events of 1 day, 2026-11-20, and 1 that came too late" in capsys.readouterr().out


def test_replaced_file_is_dropped_with_the_one_that_replaces_it(tmp_path: Path) -> None:
    from pyarrow import parquet

    writer = HistoryWriter(tmp_path / "h", "office")
    (old,) = writer.write([motion(0)])
    writer.write_table("2026-11-20", History(tmp_path / "h").types["Motion"], parquet.read_table(old), None, [old.name])
    found = lies_before(History(tmp_path / "h"), "2026-11-21")
    assert (found.rows, len(found.paths), found.paths[0], found.left) == (1, 2, old, ())


def test_day_or_age_gives_the_first_day_that_stays() -> None:
    assert before_day("2026-11-21") == "2026-11-21"
    # What is older than a day at noon is what ended before the noon of yesterday.
    assert older_than(DAY, parse_instant("2026-11-21T12:00:00Z")) == "2026-11-20"
    assert older_than(0, parse_instant("2026-11-21T00:00:00Z")) == "2026-11-21"
    assert older_than(10**9 * DAY, 0) == "0001-01-01"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (2_930, "2.93 kB"), (12_345_678, "12.3 MB")])
def test_size_has_three_digits(count: int, text: str) -> None:
    assert size(count) == text


def test_few_names_are_listed_and_others_counted() -> None:
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(["a", "b", "c", "d"]) == "a, b, c and 1 more"

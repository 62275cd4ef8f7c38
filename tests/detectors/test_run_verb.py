"""`distced run`: composite events as JSON lines or files, a summary, and nothing that gets lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distced.middleware.cli.command import main
from distced.middleware.event_files import REJECTED_KEPT, read_events, write_events
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND

EVENTS = [
    Event("A", 10 * SECOND, 11 * SECOND, "s", 0, {"x": 1, "room": "FE02"}),
    Event("B", 20 * SECOND, 20 * SECOND, "s", 1, {"x": 2}),
    Event("B", 15 * SECOND, 15 * SECOND, "s", 2, {"x": 3}),
    Event("C", 45 * SECOND, 45 * SECOND, "s", 3, {}),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_events(EVENTS, tmp_path / "events.jsonl")
    with (tmp_path / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"type": "B", "tim": 15}\nnonsense\n')
        file.write((tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()[0] + "\n")
    return tmp_path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_composite_event_is_a_line_of_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "[A as a] ; [B as b] -> Pair(room = a.room, x = b.x)", "--input", "events.jsonl"]) == 0
    shown = capsys.readouterr()
    (line,) = lines(shown.out)
    source, digest = line.pop("id")
    assert source.startswith("c")
    assert isinstance(digest, int)
    assert line == {
        "type": "Pair",
        "lo": 10 * SECOND,
        "hi": 15 * SECOND,
        "start": "1970-01-01T00:00:10Z",
        "end": "1970-01-01T00:00:15Z",
        "attributes": {"room": "FE02", "x": 3},
        "constituents": [["s", 0], ["s", 2]],
    }


def test_summary_counts_every_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "[A] ; [B] -> Pair()", "--input", "events.jsonl"]) == 0
    report = capsys.readouterr().err
    assert "7 rows, 2 rejected" in report
    assert "1 not a recorded event" in report
    assert "row 5" in report
    assert "1 not JSON" in report
    assert "4 events, 3 of types the patterns read, 1 more came again" in report
    assert "1 came behind later ones" in report
    assert "  1 Pair  c" in report
    assert "events a second" in report
    assert "\x1b" not in report


def test_summary_names_paths_of_the_mapping_without_a_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rooms.csv").write_text("at,temperature\n1,20\n2,21\n", encoding="utf-8")
    (folder / "rooms.toml").write_text(
        "[[rule]]\ntype = 'Temp'\nsource = 's'\ntime = {path = 'at', format = 's'}\n"
        "[rule.attributes]\ncelsius = {kind = 'number', path = 'temprature'}\n"
        "[[rule]]\nwhen = [{path = 'at', equals = 3}]\nname = 'third'\ntype = 'Third'\nsource = 's'\n"
        "time = {path = 'at', format = 's'}\n",
        encoding="utf-8",
    )
    arguments = ["run", "[Temp where celsius > 1]", "--input", "rooms.csv", "--mapping", "rooms.toml"]
    assert main(arguments) == 0
    report = " ".join(capsys.readouterr().err.split())
    assert "! rule 1 (Temp), attributes.celsius: no value at 'temprature' in any of 2; did you mean" in report
    assert "third" not in report
    assert main([*arguments, "--json"]) == 0
    summary = lines(capsys.readouterr().out)[-1]["summary"]
    assert [each[:32] for each in summary["missing_paths"]] == ["rule 1 (Temp), attributes.celsius"[:32]]


def test_json_summary_is_the_last_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "([C], [T]) @ T = 1min", "--input", "events.jsonl", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    (last,) = lines(shown.out)
    summary = last["summary"]
    assert (summary["rows"], summary["rejected"], summary["events"], summary["consumed"]) == (7, 2, 4, 1)
    assert (summary["repeated"], summary["disordered"], summary["time_events_running"]) == (1, 1, True)
    assert [each["first"]["where"] for each in summary["reasons"]] == ["events.jsonl, row 5", "events.jsonl, row 6"]
    assert [each["count"] for each in summary["found"]] == [0]
    assert "--finish" in last["notes"][0]


def test_option_finish_fires_pending_time_events(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "([C], [T]) @ T = 1min", "--input", "events.jsonl", "--finish"]) == 0
    shown = capsys.readouterr()
    assert lines(shown.out)[0]["hi"] == 105 * SECOND
    assert "note:" not in shown.err


def test_option_events_writes_constituents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "[A] ; [B]", "--input", "events.jsonl", "--events"]) == 0
    (line,) = lines(capsys.readouterr().out)
    assert [each["id"] for each in line["events"]] == [["s", 0], ["s", 2]]
    assert line["events"][0]["attributes"] == {"x": 1, "room": "FE02"}


@pytest.mark.parametrize("name", ["found.jsonl", "found.jsonl.gz", "found.txt"])
def test_option_out_writes_json_lines(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import gzip

    assert main(["run", "[B] -> X()", "--input", "events.jsonl", "--out", name]) == 0
    assert capsys.readouterr().out == ""
    data = (folder / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    assert [line["hi"] for line in lines(text)] == [15 * SECOND, 20 * SECOND]


@pytest.mark.parametrize("name", ["found.csv", "found.csv.gz", "found.parquet", "found.jsonl"])
def test_native_output_is_read_again(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
    pattern = "[A as a] ; [B as b] -> Pair(room = a.room, x = b.x)"
    assert main(["run", pattern, "--input", "events.jsonl", "--out", name, "--native"]) == 0
    (pair,) = read_events(folder / name)
    assert (pair.type, pair.lo, pair.hi, pair.attributes) == (
        "Pair", 10 * SECOND, 15 * SECOND, {"room": "FE02", "x": 3}
    )  # fmt: skip
    capsys.readouterr()
    assert main(["run", "[Pair as p] -> Again(x = p.x)", "--input", name]) == 0
    (again,) = lines(capsys.readouterr().out)
    assert again["attributes"] == {"x": 3}
    assert again["constituents"] == [list(pair.id)]


def test_all_rejected_rows_are_written(folder: Path) -> None:
    count = REJECTED_KEPT + 5
    (folder / "bad.jsonl").write_text("{\n" * count, encoding="utf-8")
    assert main(["run", "[A]", "--input", "bad.jsonl", "--rejected", "all.jsonl"]) == 0
    kept = lines((folder / "all.jsonl").read_text(encoding="utf-8"))
    assert [each["where"] for each in kept] == [f"bad.jsonl, row {number}" for number in range(1, count + 1)]


def test_reasons_count_all_rejected_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = REJECTED_KEPT + 5
    (folder / "bad.jsonl").write_text("{\n" * count + '{"type": "A"}\n' * 2 * count, encoding="utf-8")
    assert main(["run", "[A]", "--input", "bad.jsonl", "--json"]) == 0
    summary = lines(capsys.readouterr().out)[-1]["summary"]
    assert [each["count"] for each in summary["reasons"]] == [2 * count, count]
    assert f"row {count + 1}" in summary["reasons"][0]["first"]["where"]


def test_rejected_rows_are_kept(folder: Path) -> None:
    assert main(["run", "[A]", "--input", "events.jsonl", "--rejected", "rejected.jsonl"]) == 0
    kept = lines((folder / "rejected.jsonl").read_text(encoding="utf-8"))
    assert [each["where"] for each in kept] == ["events.jsonl, row 5", "events.jsonl, row 6"]
    assert kept[0]["row"] == {"type": "B", "tim": 15}
    assert "nonsense" in kept[1]["row"]


def test_a_device_is_written_to_and_not_replaced(folder: Path) -> None:
    assert main(["run", "[A]", "--input", "events.jsonl", "--out", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_a_recording_that_does_not_fit_is_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "[Aa]", "--input", "events.jsonl"]) == 0
    report = capsys.readouterr().err
    assert "note: the recording does not fit the pattern: unknown event type: Aa (allowed: A, B, C)" in report
    (folder / "types.toml").write_text("[types.Aa]\n", encoding="utf-8")
    assert main(["run", "[Aa]", "--input", "events.jsonl", "--types", "types.toml"]) == 0
    assert "note" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("language", "text", "note"),
    [
        ("cedr", "EVENT_NAME X EVENT_PATTERN A a WHERE a.zz = 1", "unknown attribute: zz"),
        ("cedr", "EVENT_NAME X EVENT_PATTERN A a WHERE a.room = 1", "compares a string with a number"),
        ("cedr", "EVENT_NAME X EVENT_PATTERN Aa a", "unknown event type: Aa"),
        ("cedr", "EVENT_NAME X EVENT_PATTERN A a WHERE a.x = 1", ""),
        ("cedmos", "operator X = sum(A, zz)", "unknown attribute: zz"),
        ("cedmos", "operator X = sum(A, room)", "calculates with a string: room"),
        ("cedmos", "operator X = sum(A, x)", ""),
        ("pretty", "A where zz = 1", "unknown attribute: zz"),
        ("pretty", "A where room = 1", "compares a string with a number"),
        ("pretty", "Aa", "unknown event type: Aa"),
        ("pretty", "A where x = 1", ""),
        ("cel", "SELECT * FROM FILTER{room = 3} A", "compares a string with a number"),
        ("cel", "SELECT * FROM FILTER{x = 3} A", ""),
    ],
)
def test_recording_that_does_not_fit_a_text_in_another_language_is_noted(
    language: str, text: str, note: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", text, "--language", language, "--input", "events.jsonl", "--json"]) == 0
    notes = lines(capsys.readouterr().out)[-1]["notes"]
    assert len(notes) == bool(note)
    assert all(each.startswith(f"the recording does not fit the pattern: {note}") for each in notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["[A"], "unexpected"),
        (["[A]", "--mapping", "missing.toml"], "cannot read the mapping"),
        (["[A]", "--types", "missing.toml"], "cannot read the types"),
        (["[A]", "--out", "missing/found.jsonl"], "cannot write the recording"),
        (["[A]", "--out", "missing/found.csv"], "no such folder: missing"),
        (["missing.pattern"], "no such pattern file"),
    ],
)
def test_mistakes_are_refused(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments, "--input", "events.jsonl"]) == 2
    assert message in capsys.readouterr().err
    assert main(["run", *arguments, "--input", "events.jsonl", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert message.startswith(report["problem"])


def test_missing_recording_leaves_no_output_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "[A]", "--input", "missing.jsonl", "--out", "found.jsonl"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: no such recording: missing.jsonl\n  allowed: a file of recorded events")
    assert "Errno" not in shown and "  advice: " in shown
    assert not list(folder.glob("found*"))


def test_a_log_file_needs_a_mapping(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "system.log").write_text("hello\n", encoding="utf-8")
    assert main(["run", "[A]", "--input", "system.log"]) == 2
    assert "a text file without a mapping" in capsys.readouterr().err


def test_closed_pipe_ends_the_run(folder: Path) -> None:
    """`distced run ... | head -1` ends without a word about broken pipes."""
    many = [Event("A", at, at, "s", at, {}) for at in range(60_000)]
    write_events(many, folder / "many.jsonl")
    code = "import sys; from distced.middleware.cli.command import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "[A]", "--input", "many.jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["hi"] == 0
    process.stdout.close()
    report = process.stderr.read()
    assert process.wait(timeout=60) != 0
    assert "Traceback" not in report
    assert "BrokenPipe" not in report
    process.stderr.close()

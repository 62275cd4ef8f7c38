"""`distced check`: what a pattern reads and publishes, and every mistake with its place."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.mapping.type_file import load_types
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.event_types import TypeRegistry

TYPES = """
[types.Pers]
person = "string"
room = "string"

[types.Temp]
room = "string"
temp = "number"
"""

OFFICE = """
# Cold where somebody is.
type Seen = Pers every 1min by (person, room)

Occupied = [Seen as s]

([Occupied], [Temp where (temp < 15) as t <= {Temp where temp < 15, T}]) @ T = 5min
  by room within 1h
  -> Cold(room = t.room, temp = t.temp)

[Cold]{2} -> Twice()
"""

MAPPING = """
[[rule]]
type = "Temp"
source = "{room}"
time = { path = "at" }
[rule.attributes]
room = "string"
temp = "number"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pattern file, types and a mapping, and the process in it."""
    (tmp_path / "types.toml").write_text(TYPES, encoding="utf-8")
    (tmp_path / "office.pattern").write_text(OFFICE, encoding="utf-8")
    (tmp_path / "office.toml").write_text(MAPPING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_shows_facts_of_a_pattern_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "office.pattern", "--types", "types.toml"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].startswith("Cold(room: string, temp: number)   c")
    assert "  reads     Pers, Temp" in lines
    assert "  throttled Seen = Pers every 1min by (person, room)" in lines
    assert "  by        room" in lines
    assert "  within    1h" in lines
    assert "  timers    T = 5min" in lines
    assert "  reads     Cold" in lines
    assert lines[-1] == "OK  2 patterns, checked against 2 event types"
    assert shown.err == ""


def test_check_prints_facts_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "office.pattern", "--types", "types.toml", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["types"], report["notes"]) == (True, "declared", [])
    cold = report["patterns"][0]
    assert cold["publishes"] == "Cold"
    assert cold["attributes"] == {"room": "string", "temp": "number"}
    assert cold["reads"] == ["Pers", "Temp"]
    assert cold["key"] == ["room"]
    assert cold["within_ns"] == 3_600 * 10**9
    assert cold["timers"] == {"T": "5min"}
    assert cold["consumption"] == "ordered"
    assert cold["canonical_id"].startswith("c")


def test_types_are_taken_as_known_without_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[A as a] -> X(x = a.x, one = 1)"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("X(x: any kind, one: number)")
    assert "types are taken as known" in shown


def test_a_pattern_that_reads_everything_by_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[any]", "--consumption", "epoch"]) == 0
    shown = capsys.readouterr().out
    assert "reads     every event" in shown
    assert "consumes  by epochs" in shown


def test_check_uses_types_of_a_mapping(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[Temp as t] -> X(t = t.temp)", "--mapping", "office.toml"]) == 0
    assert capsys.readouterr().out.startswith("X(t: number)")
    assert main(["check", "[Temp where tmp < 15]", "--mapping", "office.toml"]) == 2
    assert "unknown attribute: tmp" in capsys.readouterr().err


def test_check_joins_types_and_mapping(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "[Temp] [Pers]", "--types", "types.toml", "--mapping", "office.toml"]) == 0
    (folder / "other.toml").write_text("[types.Temp]\nroom = 'number'\n", encoding="utf-8")
    assert main(["check", "[Temp]", "--types", "other.toml", "--mapping", "office.toml"]) == 2
    assert "registered already, and differs" in capsys.readouterr().err


def test_check_reads_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OFFICE.encode())))
    assert main(["check", "-", "--types", "types.toml"]) == 0
    assert "2 patterns" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["bom.pattern", "-"])
def test_pattern_file_may_begin_with_a_byte_order_mark(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = f"\ufeff{OFFICE}".replace("\n", "\r\n").encode()
    (folder / "bom.pattern").write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    types = (folder / "types.toml").read_text(encoding="utf-8")
    (folder / "bom.toml").write_text(f"\ufeff{types}", encoding="utf-8")
    assert main(["check", name, "--types", "bom.toml"]) == 0
    assert "2 patterns" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("encoding", "advice"),
    [
        ("utf-16", "it is in UTF-16, not in UTF-8: save the file as UTF-8"),
        ("utf-16-le", "it is in UTF-16, not in UTF-8: save the file as UTF-8"),
        ("utf-16-be", "it is in UTF-16, not in UTF-8: save the file as UTF-8"),
        ("latin-1", "line 2 is not UTF-8: save the file as UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["other.pattern", "-"])
def test_pattern_file_in_another_encoding_is_refused_with_advice(
    name: str,
    encoding: str,
    advice: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = "[Temp]\n  ; [Pers where room == 'Küche']\n".encode(encoding)
    (folder / "other.pattern").write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["check", name]) == 2
    shown = "standard input" if name == "-" else name
    assert f"cannot read the pattern file: {shown}\n  advice: {advice}\n" in capsys.readouterr().err


MISTAKES = [
    # the pattern file, the place in it, what is said
    ("[Pers as s] ; [Temp where tmp < 1]", (1, 27), "unknown attribute: tmp"),
    ("[Pers as s]\n  ; [Tempp]", (2, 6), "unknown event type: Tempp"),
    ("X = [Pers]\n\n[X] ; [Temp where temp < 'cold']", (3, 19), "compares a number with a string"),
    ("type Seen = Pers where persn == 'Jean'\n[Seen]", (1, 24), "unknown attribute: persn"),
    ("type Seen = Pers where person == 3\n[Seen]", (1, 24), "compares a string with a number"),
    ("   \n\n[Pers where x == 1]", (3, 13), "unknown attribute: x"),
    ("[Pers as s] ;\n[Temp]", (1, 14), "indent lines that go on"),
    ("X = [Pers]\n", None, "a pattern file that publishes nothing: X"),
    ("", None, "a pattern file without a statement"),
    ("# only\n  [Temp]", None, "a statement begins in the first column"),
    ("type Seen = Person\n[Seen]", None, "unknown event type: Person"),
    ("X = [Y]\nY = [X]\n[X]", (2, 5), "leads back to itself"),
]


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_error_in_a_file_names_file_and_place(
    text: str, place: tuple[int, int] | None, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "wrong.pattern").write_text(text, encoding="utf-8")
    assert main(["check", "wrong.pattern", "--types", "types.toml"]) == 2
    shown = capsys.readouterr()
    where = "wrong.pattern" if place is None else f"wrong.pattern, line {place[0]}, column {place[1]}"
    assert message in shown.err
    assert f"  at {where}\n" in shown.err
    assert "Traceback" not in shown.err
    with pytest.raises(DistcedError, match=r"wrong\.pattern"):
        compile_source(read_source("wrong.pattern"), TypeRegistry(load_types("types.toml")))


def test_suspicious_patterns_are_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "slips.pattern").write_text(
        "type Seen = Pers every 1min\nOther = [Temp]\n[Pers] ;\n  [Temp]\n[Pers]\nwithin 5s", encoding="utf-8"
    )
    assert main(["check", "slips.pattern"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 3
    assert "2 of 2 patterns publish no type" in notes[0]
    assert "the definition Other is used nowhere" in notes[1]
    assert "the derived type Seen is used nowhere" in notes[2]
    assert main(["check", "slips.pattern", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing.pattern", "no such pattern file: missing.pattern"),
        (".", "cannot read the pattern file"),
        ("", "unexpected: the end of the pattern"),
        ("Temp", "for an event of type Temp write [Temp]"),
        ("[" + "(" * 5_000, "nested too deeply"),
        ("x" * 5_000, "no definition of this name"),
        ("a\0b", "no definition of this name: a"),
    ],
)
def test_argument_that_is_neither_file_nor_pattern_is_refused(
    given: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", given]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_binary_file_is_refused(folder: Path) -> None:
    (folder / "binary.pattern").write_bytes(b"\xff\xfe[A]")
    with pytest.raises(PatternError, match="cannot read the pattern file"):
        read_source("binary.pattern")


def test_an_existing_file_is_read_whatever_its_name(folder: Path) -> None:
    (folder / "[A]").write_text("[B]", encoding="utf-8")
    assert read_source("[A]").text == "[B]"
    assert read_source("[B]").text == "[B]"
    assert read_source(Path("office.pattern")).name == "office.pattern"

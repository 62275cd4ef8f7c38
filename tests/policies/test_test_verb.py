"""`distced test`: conformance cases from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distced.detectors.conformance import case_runner
from distced.middleware.cli.command import main

GOOD = """
[[case]]
name = "a pair"
pattern = "[A] ; [B]"
events = ["A 10", "B 20"]
expect = [[0, 1]]
"""

BAD = """
[[case]]
name = "a pair that is none"
pattern = "[A] ; [B]"
events = ["A 10", "B 20"]
expect = [[0], [1]]
[[case]]
name = "no pattern"
pattern = "[A"
events = []
expect = []
"""

FOREIGN = """
[[case]]
name = "foreign"
language = "cedr"
pattern = "EVENT X"
events = []
expect = []
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.toml").write_text(GOOD + BAD, encoding="utf-8")
    return tmp_path


def test_verb_test_reports_passed_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "good.toml"]) == 0
    assert capsys.readouterr().out == "1 passed (1 file, stepwise engine)\n"


def test_failures_are_in_table_with_exit_code_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "good.toml", "bad.toml"]) == 1
    shown = capsys.readouterr().out
    assert "a pair that is none" in shown
    assert "bad.toml, case 2" in shown
    assert "missing [0]" in shown
    assert "unexpected [0, 1]" in shown
    assert "the pattern was refused" in shown
    assert shown.splitlines()[-1] == "2 passed, 2 failed (2 files, stepwise engine)"


def test_verbose_shows_failures_in_full(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "bad.toml", "--verbose"]) == 1
    shown = capsys.readouterr().out
    assert "events       0: A 10" in shown
    assert "pattern      [A] ; [B]" in shown


def test_json_has_results(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(case_runner, "SUPPORTED", ("core",))
    (folder / "foreign.toml").write_text(FOREIGN, encoding="utf-8")
    assert main(["test", ".", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["files"], report["passed"]) == (3, 2)
    assert [each["name"] for each in report["failed"]] == ["a pair that is none", "no pattern"]
    assert report["failed"][0]["unexpected"] == ["[0, 1]"]
    assert [each["name"] for each in report["unsupported"]] == ["foreign"]


def test_unreadable_file_does_not_stop_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ugly.toml").write_text("[[case", encoding="utf-8")
    assert main(["test", "ugly.toml", "missing.toml", "good.toml"]) == 2
    shown = capsys.readouterr()
    assert "not TOML" in shown.err
    assert "cannot read the cases: missing.toml" in shown.err
    assert shown.out.startswith("1 passed, 2 files that cannot be read")


def test_wrong_arguments_are_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "good.toml", "--engine", "steam"]) == 2
    assert "no engine of this name: steam" in capsys.readouterr().err
    (folder / "empty").mkdir()
    assert main(["test", "empty"]) == 2
    assert "a folder without a .toml file" in capsys.readouterr().err


LONG = """
[[case]]
name = "three, and guards"
pattern = "[A as x] ; [B where v == x.v] ; [C]"
events = ["A 10 v=1", "B 20 v=1", "C 30"]
expect = [[0, 1, 2]]
[[case]]
name = "refused"
pattern = "[A"
events = []
error = "unexpected"
"""


@pytest.mark.parametrize("how", ["none", "full", "random"])
def test_cut_cases_pass(how: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "long.toml").write_text(LONG, encoding="utf-8")
    assert main(["test", "long.toml", "--cut", how, "--seed", "7"]) == 0
    report = how if how == "none" else f"{how}, seed 7"
    assert capsys.readouterr().out == f"2 passed (1 file, stepwise engine, patterns cut: {report})\n"


def test_failure_names_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "bad.toml", "--cut", "full", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["cut"] == "full, seed 0"
    assert [each["name"] for each in report["failed"]] == ["a pair that is none", "no pattern"]


def test_unknown_cut_is_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "good.toml", "--cut", "paper"]) == 2
    assert "none" in capsys.readouterr().err

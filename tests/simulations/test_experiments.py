"""Experiments from files: errors with their lines, runs that go on, the same bytes from the same seeds, reports."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from distced.simulations.experiments.cli import list_experiments
from distced.simulations.experiments.cli import report as report_verb
from distced.simulations.experiments.cli import run as run_verb
from distced.simulations.experiments.experiment_file import load_experiment, parse_experiment, shipped
from distced.simulations.experiments.kinds import MODULES
from distced.simulations.experiments.model import Experiment, ExperimentError
from distced.simulations.experiments.reporting.page import check_sections
from distced.simulations.experiments.reporting.sections import Axis, Claim, Curves, Figure
from distced.simulations.experiments.reporting.write_report import write_report
from distced.simulations.experiments.result_files import ResultFolder
from distced.simulations.experiments.runner import Workers, run_experiment
from tests.support.pictures import needs_matplotlib

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")

WALK = """
kind = "walk"
title = "A walk"
about = "How far it goes."
seeds = { from = 1, to = 3 }

[walk]
steps = [2, 5]
"""

DETECTION = """
kind = "detection"
title = "Delay against errors"
seeds = [1, 2]

[detection]
policies = ["best-effort", "probabilistic(0.99)", "guaranteed"]
networks = ["steady", "heavy tail"]
duration = "5s"
"""


@pytest.fixture(autouse=True)
def walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind `walk` is there."""
    monkeypatch.setitem(MODULES, "walk", "tests.support.experiment_kinds")


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of the result files of a folder."""
    return {path.name: path.read_bytes() for path in (folder / "cells").iterdir()}


FAULTY = {
    "unknown key": (WALK + "lenght = 2\n", "unknown key: lenght", 9, "walk.lenght"),
    "unknown key of the file": (WALK.replace("about", "abuot"), "unknown key: abuot", 4, "abuot"),
    "wrong kind of value": (
        WALK.replace("[2, 5]", '[2,\n "many"]'), "not a value for this key: many", 8, "walk.steps.2"),
    "missing key": (WALK.replace("steps = [2, 5]", ""), "a key is missing: steps", 7, "walk"),
    "unknown kind": (WALK.replace('"walk"', '"wolk"'), "no kind of experiment: wolk", 2, "kind"),
    "without its table": (WALK.replace("[walk]", "[other]"), "unknown key: other", 7, "other"),
    "seeds backwards": (WALK.replace("to = 3", "to = 0"), "no seeds between these numbers: 1 to 0", 5, "seeds"),
    "seed twice": (WALK.replace("{ from = 1, to = 3 }", "[1, 1]"), "not seeds: [1, 1]", 5, "seeds"),
    "nothing to run": (WALK.replace("[2, 5]", "[]"), "an experiment without cells", 7, "walk"),
    "unknown policy": (
        DETECTION.replace("guaranteed", "garanteed"), "garanteed", 7, "detection.policies.3"),
    "unknown network": (
        DETECTION.replace("heavy tail", "big tail"), "no network of this name: big tail", 8, "detection.networks.2"),
    "impossible duration": (
        DETECTION.replace("5s", "0s"), "not a duration", 9, "detection.duration"),
    "policy twice": (
        DETECTION.replace("best-effort", "guaranteed"), "a policy twice: guaranteed", 7, "detection.policies.3"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "line", "key"), FAULTY.values(), ids=FAULTY)
def test_faulty_file_is_refused_with_its_line(text: str, problem: str, line: int, key: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(text, name="own.toml")
    assert problem in str(caught.value)
    assert caught.value.where == f"own.toml, line {line}, {key}"


def test_shipped_experiments_are_valid_and_have_cells() -> None:
    assert len(shipped()) >= 6
    for path in shipped():
        loaded = load_experiment(path.stem)  # a folder of this name does not matter
        assert len(loaded.cells()) >= len(loaded.seeds) and loaded.about


def test_first_seeds_only() -> None:
    assert parse_experiment(WALK, seeds=2).seeds == (1, 2)
    with pytest.raises(ExperimentError, match="more seeds than the file has"):
        parse_experiment(WALK, seeds=4)


def test_cells_are_in_the_order_of_seeds() -> None:
    names = [cell.name for cell in parse_experiment(WALK).cells()]
    assert names == [f"{steps}_seed-{seed}" for seed in (1, 2, 3) for steps in (2, 5)]


@pytest.mark.parametrize("text", [WALK, DETECTION], ids=["walk", "detection"])
def test_equal_seeds_give_equal_bytes(text: str, tmp_path: Path) -> None:
    made = parse_experiment(text)
    for name in ("one", "other"):
        assert not run_experiment(made, tmp_path / name).failed
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other") != {}


@pytest.mark.spawn
@pytest.mark.slow
def test_processes_give_the_bytes_of_one_and_keep_failures_apart(tmp_path: Path) -> None:
    made = parse_experiment(WALK.replace("[2, 5]", "[2, -1, -2, 5]").replace("to = 3", "to = 2"))
    summary = run_experiment(made, tmp_path / "many", Workers(jobs=2))
    assert (summary.done, sorted(summary.failed)) == (4, ["-1_seed-1", "-1_seed-2", "-2_seed-1", "-2_seed-2"])
    assert "a walk to nowhere" in summary.failed["-1_seed-1"] and "process" in summary.failed["-2_seed-1"]
    run_experiment(parse_experiment(WALK), tmp_path / "one")
    many = files_of(tmp_path / "many")
    assert {name: many[name] for name in many if name.endswith(".parquet")}.items() <= files_of(
        tmp_path / "one"
    ).items()


def test_interrupted_run_goes_on(tmp_path: Path) -> None:
    made = parse_experiment(WALK)

    def interrupt(step: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(made, tmp_path / "parts", on_progress=interrupt)
    assert len(files_of(tmp_path / "parts")) == 2
    steps: list[Any] = []
    summary = run_experiment(made, tmp_path / "parts", on_progress=lambda *step: steps.append(step))
    assert (summary.kept, summary.done) == (2, 4) and steps[-1][1:] == (4, 4)
    run_experiment(made, tmp_path / "whole")
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    assert run_experiment(made, tmp_path / "parts").kept == 6


def test_only_cells_with_other_settings_run_again(tmp_path: Path) -> None:
    run_experiment(parse_experiment(WALK), tmp_path)
    more = run_experiment(parse_experiment(WALK.replace("[2, 5]", "[2, 5, 7]")), tmp_path)
    assert (more.kept, more.done) == (6, 3)
    assert run_experiment(parse_experiment(WALK + "length = 2.0\n"), tmp_path).kept == 0


def test_other_code_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(parse_experiment(WALK), tmp_path)
    monkeypatch.setattr("distced.simulations.experiments.result_files.code_digest", lambda: "other")
    assert run_experiment(parse_experiment(WALK), tmp_path).kept == 0


def test_broken_result_runs_again(tmp_path: Path) -> None:
    made = parse_experiment(WALK)
    run_experiment(made, tmp_path)
    (tmp_path / "cells" / "2_seed-1.parquet").write_bytes(b"half a fi")
    assert run_experiment(made, tmp_path).done == 1


def test_failed_cell_keeps_its_error_until_it_succeeds(tmp_path: Path) -> None:
    made = parse_experiment(WALK.replace("[2, 5]", "[-1, 2]"))
    for _ in range(2):
        summary = run_experiment(made, tmp_path)
        assert len(summary.failed) == 3
    results, _ = ResultFolder(tmp_path).results(made, made.cells())
    assert results.missing == 3 and "a walk to nowhere" in results.failed["-1_seed-1"]
    assert {row["steps"] for row in results.rows} == {2}


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.parametrize("text", [WALK, DETECTION], ids=["walk", "detection"])
def test_report_is_one_page_with_the_command_of_each_figure(text: str, tmp_path: Path) -> None:
    made = parse_experiment(text)
    run_experiment(Experiment(**{**vars(made), "file": "my walk.toml", "first": 3}), tmp_path / "out")
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page) and "<script" not in page
    drawn = sorted((tmp_path / "out" / "report").glob("*.png"))
    assert len(drawn) >= 3 and all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    assert all(path.with_suffix(".svg").exists() for path in drawn)
    command = f"distced experiment run 'my walk.toml' --seeds 3 --out {tmp_path / 'out'}"
    assert html.unescape(page).count(command) >= len(drawn) + 1
    assert "holds" in page and "95 % confidence" in page


@needs_matplotlib
def test_equal_results_give_an_equal_report(tmp_path: Path) -> None:
    run_experiment(parse_experiment(WALK), tmp_path)
    pages = [write_report(tmp_path).read_bytes() for _ in range(2)]
    assert pages[0] == pages[1]


@needs_matplotlib
def test_report_names_what_failed_and_what_is_missing(tmp_path: Path) -> None:
    run_experiment(parse_experiment(WALK.replace("[2, 5]", "[-1, 2]")), tmp_path)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "3 of 6 runs have a result" in page and "a walk to nowhere" in page and "-1_seed-2" in page


def test_claim_without_a_figure_is_refused() -> None:
    claim = Claim("Everything is good.", True, "1 of 1", "nowhere")
    figure = Figure("curve", "Curve", Curves(Axis("steps"), Axis("place", "m"), {}), "")
    with pytest.raises(ValueError, match="a claim without its figure, nowhere"):
        check_sections([figure, claim])
    with pytest.raises(ValueError, match="two sections of one name, curve"):
        check_sections([figure, figure])


@needs_matplotlib
@pytest.mark.slow
def test_verbs_run_list_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.toml"
    file.write_text(WALK.replace("[2, 5]", "[-1, 2]"))
    assert run_verb(str(file), out=tmp_path / "out") == 1
    printed = capsys.readouterr().out
    assert "6 cells: 3 run" in printed and "3 failed" in printed and "ValueError: a walk to nowhere" in printed
    assert report_verb(tmp_path / "out") == 0
    assert str(tmp_path / "out" / "report" / "report.html") in capsys.readouterr().out
    file.write_text(WALK)
    assert run_verb(str(file), out=tmp_path / "out", as_json=True) == 0
    assert '"kept": 3' in capsys.readouterr().out
    list_experiments()
    assert "detection" in capsys.readouterr().out


def test_experiment_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f"\ufeff{WALK}", encoding="utf-8")
    assert load_experiment(file).seeds == parse_experiment(WALK).seeds


def test_report_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="not a folder with results"):
        write_report(tmp_path)
    with pytest.raises(ExperimentError, match="no file, and no experiment of this name: detekt"):
        load_experiment("detekt")

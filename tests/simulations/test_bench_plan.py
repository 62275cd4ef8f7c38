"""`distced bench plan`: counts, and plans compared with the naive way. Durations are not tested."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from distced.detectors.canonical.form import canonical_form
from distced.detectors.cutting.candidates import size_of, views
from distced.detectors.cutting.catalogue import Catalogue
from distced.simulations.benchmarks import plan as bench_plan
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.plan import (
    FILLS,
    LEAST,
    MOST,
    SHAPES,
    PlanFigures,
    Subject,
    all_candidates,
    build_catalogue,
    is_sound,
    measure,
    name_of,
    own_detectors,
    plan,
    report,
)
from distced.simulations.report import as_dict, show
from tests.support.pictures import needs_matplotlib, svg_texts

ATOMS = 24
SIZE = 60
ROUNDS = 2


@pytest.fixture(scope="module")
def figures() -> PlanFigures:
    return measure(ATOMS, SIZE, ROUNDS)


@pytest.mark.slow
def test_figures_have_a_row_for_each_shape_and_catalogue(figures: PlanFigures) -> None:
    assert [(each.shape, each.fill) for each in figures.rows] == [(shape, fill) for shape in SHAPES for fill in FILLS]
    assert figures.sound
    assert figures.catalogue == SIZE
    for each in figures.rows:
        assert each.atoms == ATOMS
        assert len(each.plan_ms) == len(each.compile_ms) == ROUNDS
        assert min(each.plan_ms) > 0
        assert 0 <= each.collected <= ROUNDS
        assert 0 < each.measured <= each.runs
        assert each.ratio == pytest.approx(each.naive_ms / median(each.plan_ms))
    for figure in (figures.build_s, figures.add_us, figures.remove_us, figures.entry_bytes, figures.plan_bytes):
        assert figure > 0


def test_detectors_of_the_catalogue_are_reused(figures: PlanFigures) -> None:
    left = {(each.shape, each.fill): each.left for each in figures.rows}
    for each in figures.rows:
        assert (each.reused == 0) == (each.places == 0) == (each.left == ATOMS) == (each.fill == "none")
        assert each.reused <= each.places
    for shape in SHAPES:
        assert left[shape, "none"] > left[shape, "few"] >= left[shape, "many"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_plan_is_as_cheap_as_that_of_the_naive_search(shape: str, seed: int) -> None:
    """The cheapest cover of the longest joint, by the names of its runs; only those are in the catalogue."""
    random = Random(seed)
    subject = Subject.of(SHAPES[shape](random, ATOMS))
    own = own_detectors(subject, "many", random)
    catalogue = Catalogue()
    for each in random.sample(own, len(own) // 2):
        catalogue.add(each)
    view = subject.joint
    parts = view.joint.parts
    best = [0.0] + [float("inf")] * len(parts)
    for stop in range(1, len(parts) + 1):
        best[stop] = best[stop - 1] + size_of(parts[stop - 1])
        for start in range(stop - 1):
            if view.allows(start, stop) and name_of(view, start, stop) in catalogue:
                best[stop] = min(best[stop], best[start] + 1)
    graph = plan(subject, catalogue)
    read = graph.plans[graph.roots[0]].compiled.automaton.delegated
    left = size_of(subject.whole.pattern) - sum(size_of(each.whole) for each in read)
    assert read
    assert left + len(read) == best[-1]


@pytest.mark.parametrize("shape", SHAPES)
def test_reused_detectors_are_runs_of_the_pattern(shape: str) -> None:
    random = Random(5)
    subject = Subject.of(SHAPES[shape](random, ATOMS))
    catalogue = build_catalogue(random, [subject], ATOMS, SIZE)
    assert plan(subject, catalogue).reused == set()
    for each in own_detectors(subject, "few", random):
        catalogue.add(each)
    graph = plan(subject, catalogue)
    runs = {name_of(*run) for run in all_candidates(subject.whole)}
    assert graph.reused
    assert graph.reused <= runs
    assert graph.roots[0] == canonical_form(subject.compiled.plain).id


@pytest.mark.parametrize("shape", SHAPES)
def test_short_runs_that_may_be_cut_out_are_made_once(shape: str) -> None:
    subject = Subject.of(SHAPES[shape](Random(2), ATOMS))
    view = subject.joint
    count = len(view.joint.parts)
    grouped = [run for runs in subject.all_runs() for run in runs]
    every = [(start, stop) for stop in range(count + 1) for start in range(stop)]
    short = [(start, stop) for start, stop in every if LEAST <= stop - start <= MOST and stop - start < count]
    assert sorted(grouped) == sorted(run for run in short if view.allows(*run))
    assert all(one[1] <= other[0] for runs in subject.all_runs() for one, other in pairwise(runs))
    made = own_detectors(subject, "many", Random(0))
    assert {each.id for each in made} == {name_of(view, *run) for run in grouped}
    assert len(made) == len({each.id for each in made})
    assert all(not each.parts for each in made)


def test_guarded_detectors_hand_names_on() -> None:
    made = own_detectors(Subject.of(SHAPES["guarded"](Random(3), 60)), "many", Random(0))
    assert any(each.exports for each in made)
    assert not all(each.exports for each in made)


def test_nested_detectors_are_keyed() -> None:
    subject = Subject.of(SHAPES["nested"](Random(3), 60))
    assert {each.compiled.automaton.key for each in own_detectors(subject, "many", Random(0))} == {("key",)}
    assert len(list(views(subject.whole))) > 60


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("atoms", [10, 37])
def test_pattern_has_the_given_number_of_atoms(shape: str, atoms: int) -> None:
    texts = [SHAPES[shape](Random(seed), atoms) for seed in range(12)]
    assert [size_of(Subject.of(text).whole.pattern) for text in texts] == [atoms] * len(texts)
    assert SHAPES[shape](Random(3), atoms) == texts[3]


def test_wrong_plan_is_a_fault(figures: PlanFigures, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    subject = Subject.of(SHAPES["plain"](random, ATOMS))
    catalogue = Catalogue()
    for each in own_detectors(subject, "many", random):
        catalogue.add(each)
    graph = plan(subject, catalogue)
    read = graph.plans[graph.roots[0]].compiled.automaton.delegated
    assert len(read) > 1
    assert is_sound(read)
    assert not is_sound([read[0], replace(read[1], source=read[0].source)])
    wrong = replace(figures, rows=(*figures.rows[:-1], replace(figures.rows[-1], sound=False)))
    monkeypatch.setattr(bench_plan, "measure", lambda *_: wrong)
    result = CliRunner().invoke(bench, ["plan"], standalone_mode=False)
    assert result.return_value == 1
    assert "FAULT" in result.stdout


def test_figures_are_shown_as_a_table(figures: PlanFigures) -> None:
    shown = StringIO()
    show(report(figures), Console(width=160, file=shown))
    lines = shown.getvalue().splitlines()
    assert lines[0].split()[:1] == ["shape"]
    assert [line.split()[:3] for line in lines[1:10]] == [
        [each.shape, each.fill, str(each.atoms)] for each in figures.rows
    ]
    assert f"{SIZE} detectors in the catalogue" in "\n".join(lines)


@needs_matplotlib
@pytest.mark.slow
def test_verb_plan_writes_a_report(tmp_path: Path) -> None:
    arguments = ["plan", "--atoms", "16", "--catalogue", "40", "--rounds", "1", "--seed", "3"]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["figures"]["catalogue"] == 40
    assert answer["sound"] is True
    assert len(answer["figures"]["rows"]) == len(SHAPES) * len(FILLS)
    for row in answer["tables"][0]["rows"]:
        assert row["atoms"] == 16
        assert row["best"] == row["plan"] == row["worst"] > 0
    for name in ("plan.svg", "plan-ratio.svg"):
        ElementTree.parse(tmp_path / name)


@needs_matplotlib
def test_plots_have_a_bar_for_each_row(figures: PlanFigures) -> None:
    made = report(figures)
    assert json.dumps(as_dict(made))
    for plot in made.plots.values():
        names = [f"{each.shape}, {each.fill}" for each in figures.rows]
        assert [each for each in svg_texts(plot()) if each in names] == names

"""`distced bench prediction`: predictions of links beside what the simulator measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("scipy", reason="the optimum needs the extra distced[place]")

from typer.testing import CliRunner

from distced.simulations.benchmarks import prediction
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.prediction import OPTIMUM, POLICIES, Predicted, PredictionFigures
from distced.simulations.placement.what_if import LinkCompared
from tests.support.pictures import needs_matplotlib


@pytest.fixture(autouse=True)
def _measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of output are of one measurement, which takes seconds."""

    def measure(networks: int, seed: int, on_progress: Any, measure: Any = prediction.measure) -> PredictionFigures:
        if (networks, seed) not in MEASURED:
            MEASURED[networks, seed] = measure(networks, seed, on_progress)
        return MEASURED[networks, seed]

    monkeypatch.setattr(prediction, "measure", measure)


MEASURED: dict[tuple[int, int], PredictionFigures] = {}


@needs_matplotlib
def test_verb_prediction_writes_a_report(tmp_path: Path) -> None:
    """Seed 130 was off by more than a tenth, for repeated announcements were not counted."""
    result = CliRunner().invoke(
        bench, ["prediction", "--networks", "1", "--seed", "130", "--report", str(tmp_path), "--json"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["sound"]
    assert [each["policy"] for each in report["figures"]["tried"]] == [*POLICIES, OPTIMUM]
    assert all(each["settled"] and each["links"] for each in report["figures"]["tried"])
    every = report["tables"][0]["rows"][-1]
    assert 0 < every["median"] <= every["most"] <= 0.1
    ElementTree.parse(tmp_path / "prediction.svg")


def test_verb_prediction_shows_every_policy() -> None:
    result = CliRunner().invoke(bench, ["prediction", "--networks", "1", "--seed", "130"])
    assert result.exit_code == 0, result.output
    for word in (*POLICIES, OPTIMUM, "1 network of", "wanted 10%"):
        assert word in result.output


def test_placements_with_moved_detectors_do_not_count() -> None:
    links = (LinkCompared("a", "b", 1000.0, 1050.0), LinkCompared("b", "a", 1000.0, 700.0))
    still = Predicted(0, "min-load", 3, 2, links[:1], True)
    moved = Predicted(0, "min-load", 3, 2, links[1:], False)
    figures = PredictionFigures((still, moved))
    assert figures.off() == [0.05]
    assert figures.holds
    assert not PredictionFigures((still, Predicted(0, "min-load", 3, 2, links[1:], True))).holds

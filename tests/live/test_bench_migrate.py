"""`distced bench migrate` runs, and counts moves and notifications. Durations are not tested."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from distced.brokers.live.mqtt_server import find_mosquitto
from distced.middleware.model.timestamps import MILLISECOND
from distced.simulations.benchmarks import migrate
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.migrate import Arrivals, MigrateFigures
from distced.simulations.report import as_dict, show
from tests.support.pictures import needs_matplotlib

STEPS = ["prepare", "listening", "state", "there"]
MS = MILLISECOND


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.mqtt
@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin")
@pytest.mark.parametrize("sites", [1, 3])
def test_moves_are_observed_and_lose_nothing(sites: int, tmp_path: Path) -> None:
    arguments = ["migrate", "--moves", "3", "--no-ray", "--pace", "200", "--waiting", "20", "--sites", str(sites)]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    # Nothing a node was to do has failed on the way.
    assert "failure" not in result.stderr
    whole = json.loads(result.stdout)
    assert whole["sound"]
    answer = whole["figures"]
    assert (answer["nodes"], answer["sites"]) == ("local", sites)
    assert answer["failed"] == 0
    assert [(each["origin"], each["target"]) for each in answer["moves"]] in _rounds("node-1", "node-2", "node-3")
    assert answer["expected"] == (answer["published"] - 40) // 2 > 100
    assert answer["received"] == answer["expected"]
    assert (answer["lost"], answer["doubled"], answer["wrong"]) == (0, 0, 0)
    for each in answer["moves"]:
        assert list(each["steps"]) == STEPS
        assert 0 < each["steps"]["prepare"] <= each["steps"]["there"]
        assert each["state"] > 1000
    assert {path.name for path in tmp_path.glob("*.svg")} == set(migrate.report(MigrateFigures("local")).plots)
    for path in tmp_path.glob("*.svg"):
        ElementTree.parse(path)


def _rounds(*nodes: str) -> Iterator[list[tuple[str, str]]]:
    """Three moves around, wherever they begin."""
    for begin in range(len(nodes)):
        order = [*nodes[begin:], *nodes[:begin], nodes[begin]]
        yield list(pairwise(order))


def test_longest_gap_overlaps_the_interval() -> None:
    arrivals = Arrivals([0, 10 * MS, 12 * MS, 50 * MS, 52 * MS, 90 * MS], [MS, 2 * MS, 3 * MS, 9 * MS, 5 * MS, 6 * MS])
    assert arrivals.longest_gap(11 * MS, 20 * MS) == 38 * MS
    assert arrivals.longest_gap(20 * MS, 30 * MS) == 38 * MS
    assert arrivals.longest_gap(51 * MS, 52 * MS) == 2 * MS
    assert arrivals.longest_gap(51 * MS, 60 * MS) == 38 * MS
    assert arrivals.longest_gap(95 * MS, 99 * MS) == 0
    assert Arrivals().longest_gap(0, 10) == 0
    assert arrivals.longest_delay(12 * MS, 52 * MS) == 9 * MS
    assert arrivals.longest_delay(91 * MS, 92 * MS) == 0
    assert arrivals.usual(0, 52 * MS) == (6 * MS, 3 * MS)
    assert arrivals.usual(91 * MS, 92 * MS) == (0.0, 0.0)


def test_move_is_compared_with_the_time_before() -> None:
    # A notification every 2 ms, 1 ms late; from 100 ms on none for 20 ms, and before it one that was 4 ms late.
    at = [*range(2, 101, 2), *range(120, 201, 2)]
    delays = [5 if instant == 90 else 21 if instant == 120 else 1 for instant in at]
    figures = MigrateFigures("local", arrivals=Arrivals([each * MS for each in at], [each * MS for each in delays]))
    first = migrate._Seen("a", "b", 99 * MS, {"prepare": 100 * MS, "there": 119 * MS}, 77)
    second = migrate._Seen("b", "c", 150 * MS, {"there": 151 * MS}, 78)
    # As long before the second would reach into the first.
    migrate._evaluate(figures, [(first, 99 * MS, 125 * MS), (second, 150 * MS, 190 * MS)])
    assert (figures.usual_gap, figures.usual_delay) == (0.002, 0.001)
    assert figures.moves == [
        migrate.MoveFigures("a", "b", {"prepare": 0.001, "there": 0.02}, 77, 0.018, 0.02, 0.0, 0.004),
        migrate.MoveFigures("b", "c", {"there": 0.001}, 78, 0.0, 0.0, 0.0, 0.0),
    ]
    waits, steps = (table["rows"] for table in as_dict(migrate.report(figures))["tables"])
    assert waits[0] == {"of the subscriber": "pause", "median": 9.0, "p95": 18.0, "most": 18.0}
    assert [tuple(each.values()) for each in steps] == [("prepare", 1.0), ("there", 10.5)]


@pytest.mark.parametrize(
    ("pairs", "doubled", "faults"),
    [
        ([(0, 5), (2, 7)], 0, (0, 0, 0)),
        ([(2, 7), (0, 5)], 0, (0, 0, 0)),
        ([(0, 5)], 0, (1, 0, 0)),
        ([(0, 5), (2, 7), (0, 5)], 0, (0, 1, 0)),
        ([(0, 5), (2, 7)], 3, (0, 3, 0)),
        ([(0, 7), (2, 7)], 0, (1, 0, 1)),
        ([(0, 5), (2, 7), (4, 9)], 0, (0, 0, 1)),
    ],
)
def test_arrivals_are_compared_with_published_events(
    pairs: list[tuple[int, int]], doubled: int, faults: tuple[int, int, int]
) -> None:
    figures = MigrateFigures("local", published=8, expected=2)
    migrate._compare(figures, pairs, doubled, waiting=2)
    assert (figures.lost, figures.doubled, figures.wrong) == faults
    assert figures.sound is (faults == (0, 0, 0))


def test_failed_moves_are_a_fault() -> None:
    figures = MigrateFigures("local", failed=2)
    assert not figures.sound
    console = Console(file=StringIO(), width=120)
    show(migrate.report(figures), console)
    assert "2 failed" in console.file.getvalue()  # type: ignore[attr-defined]
    assert list(migrate.report(figures).tables[0].rows[0]) == ["pause", 0.0, 0.0, 0.0]

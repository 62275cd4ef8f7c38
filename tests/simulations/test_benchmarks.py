"""The benchmarks run and count correctly. Durations are not tested."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from distced.brokers.live.mqtt_server import find_mosquitto
from distced.simulations.benchmarks import live
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.seq3 import EXPECTED, every_by_hand, first_by_hand, make_events, measure
from distced.simulations.report import as_dict
from tests.support.pictures import needs_matplotlib


@pytest.mark.slow
def test_seq3_counts_the_known_matches() -> None:
    results = measure(200_000, rounds=1)
    counted = {(each.question, each.by): each.matches for each in results}
    assert counted["first", "by hand"] == counted["first", "stepwise"] == 17_746
    assert counted["every", "by hand"] == counted["every", "stepwise"] == 38_889
    for question, expected in (("first", 17_746), ("every", 38_889)):
        for by in ("columnar", "compiled by hand", "DuckDB"):
            assert counted.get((question, by), expected) == expected
    assert all(each.expected == each.matches and each.rate > 0 for each in results)
    assert [each.ratio for each in results if each.by == "by hand"] == [1.0, 1.0]


def test_seq3_has_the_same_input_for_any_size() -> None:
    assert make_events(50) == make_events(60)[:50]
    assert (first_by_hand(make_events(200_000)), every_by_hand(make_events(200_000))) == (
        EXPECTED[200_000, "first"],
        EXPECTED[200_000, "every"],
    )


@needs_matplotlib
def test_verb_seq3_writes_a_report(tmp_path: Path) -> None:
    arguments = ["seq3", "--events", "3000", "--rounds", "1", "--report", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert {each["events"] for each in figures} == {3000}
    assert len({each["matches"] for each in figures if each["question"] == "first"} - {None}) == 1
    ElementTree.parse(tmp_path / "seq3.svg")


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.mqtt
@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin")
def test_live_measures_both_receivers() -> None:
    figures = live.measure(events=1_000, rounds=1, frames=(1,), pace=200, seconds=1.0)
    assert set(figures.rates) == {("bare", 1), ("node", 1)}
    assert all(rate > 0 for rates in figures.rates.values() for rate in rates)
    assert figures.lost == {("bare", 1): 0, ("node", 1): 0}
    assert {receiver: len(delays) for receiver, delays in figures.delays.items()} == {"bare": 400, "node": 400}
    assert all(delays == sorted(delays) and delays[0] > 0 for delays in figures.delays.values())
    assert any("event_path.py" in name for name, _ in figures.profiles[1])
    report = live.report(figures)
    told = json.loads(json.dumps(as_dict(report)))
    assert [each["name"] for each in told["tables"]] == ["rates", "delays", "profile"]
    assert told["tables"][0]["rows"][0]["of bare"] > 0
    for plot in report.plots.values():
        ElementTree.fromstring(plot())

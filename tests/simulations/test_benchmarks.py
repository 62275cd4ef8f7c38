"""The benchmarks run and count correctly. Durations are not tested."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from distced.brokers.live.mqtt_server import find_mosquitto
from distced.middleware.cli.command import main
from distced.simulations.benchmarks import (
    detection,
    disturbance,
    double_top,
    hostile,
    live,
    many_subscriptions,
    recovery,
    sliding,
    soak,
)
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


def test_double_top_finds_the_same_by_both_formulations() -> None:
    figures = double_top.measure(3_000, [1, 2], 1)
    assert [(each.days, each.formulation) for each in figures] == [
        (1, "µ"), (1, "resubscription"), (2, "µ"), (2, "resubscription"),
    ]  # fmt: skip
    assert [each.found for each in figures[:2]] == [figures[0].found] * 2 and figures[0].found > 0
    assert all(each.stepwise_memory > 0 for each in figures)
    assert double_top.report(figures).sound


@needs_matplotlib
def test_verb_sliding_finds_the_same_values(tmp_path: Path) -> None:
    arguments = ["sliding", "--events", "70000", "--rounds", "1", "--report", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert all(each["same"] for each in figures)
    above = sum(each.attributes["temp"] > sliding.LIMIT for each in sliding.make_events(70_000))
    assert {each["matches"] for each in figures if each["aggregate"] in sliding.AGGREGATES} == {above}
    ElementTree.parse(tmp_path / "sliding.svg")


def test_sliding_reports_other_values() -> None:
    figure = sliding.SlidingFigure("sum", "columnar", 1, 1, False, 1.0, 1.0, None)
    assert sliding.report([figure]).faults == ["sum, columnar: other values than those of the stepwise engine"]


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
    answer = json.loads(json.dumps(as_dict(report)))
    assert [each["name"] for each in answer["tables"]] == ["rates", "delays", "profile"]
    assert answer["tables"][0]["rows"][0]["of bare"] > 0
    for plot in report.plots.values():
        ElementTree.fromstring(plot())


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.mqtt
@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin")
@pytest.mark.slow
def test_disturbance_leaves_the_subscriptions() -> None:
    figures = disturbance.measure(40, 300, pace=50, seconds=0.5, soak=1.0)
    assert figures.refused == figures.expected == 300 - 40 - 2 * many_subscriptions.ALONE
    assert figures.served_again.keys() == {"take-over", "return"} and not figures.failed
    phases = {"quiet", "within the limit", "hostile client"}
    assert figures.memory and figures.delays.keys() == figures.alone.keys() == figures.processor.keys() == phases
    answer = as_dict(disturbance.report(figures))
    assert [each["name"] for each in answer["tables"]] == ["delays", "beyond the baseline", "take-over", "soak"]
    (beyond,) = answer["tables"][1]["rows"]
    for phase in phases:
        figures.delays[phase]["detected"] = [0.125 if phase == "hostile client" else 0.025]
    again = as_dict(disturbance.report(figures))["figures"]["p99 beyond the baseline"]
    assert again["detected"] == pytest.approx(100.0) and len(beyond) == 4


@pytest.mark.mqtt
@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin")
@pytest.mark.slow
@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_client_takes_no_node_down_and_no_detection_away(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography", reason="the extra init is not installed")
    monkeypatch.setattr(hostile, "AWAITED", 15.0)
    figures = hostile.measure(50, 2.0, 2_000, (attack,), 1)
    assert not figures.failed
    (trial,) = figures.trials[attack]
    for phase in (trial.before, trial.beside):
        assert phase.missing == 0
        assert len(phase.delays) == len(phase.bare) == 100
    assert trial.counts["events"] >= 200 and trial.memory > 0
    answer = as_dict(hostile.report(figures))
    assert [row["attack"] for row in answer["tables"][0]["rows"]] == [attack]


def test_cost_of_an_attack_is_the_median_of_the_rounds_beside_that_of_a_bare_subscriber() -> None:
    def phase(delay: float, bare: float, missing: int = 0) -> hostile.Phase:
        return hostile.Phase([0.0] * 9 + [delay], [0.0] * 9 + [bare], missing)

    quiet = phase(0.010, 0.001)
    trials = [
        hostile.Trial(quiet, phase(0.010 + more, 0.001 + bare), 10, 0.1, 0.2, 5e-6, 10**6, {})
        for more, bare in ((0.150, 0.02), (5.0, 4.0), (0.040, 0.01))
    ]
    report = hostile.report(hostile.Hostility({"types": trials}))
    (row,) = as_dict(report)["tables"][0]["rows"]
    assert (row["p99 more"], row["bare p99 more"]) == pytest.approx((150, 20))
    assert (row["server"], row["node"], row["each message"], row["messages"]) == pytest.approx((10, 20, 5, 10))
    (fault,) = report.faults
    assert fault.startswith("types: p99 is 150 ms more, beyond 100 ms; 20 ms more at a bare subscriber")
    lost = hostile.Trial(quiet, phase(0.01, 0.001, 3), 10, 0.1, 0.2, 5e-6, 10**6, {})
    assert hostile.report(hostile.Hostility({"types": [lost]})).faults == [
        "types: 3 events were not detected within 5 s"
    ]


@needs_matplotlib
@pytest.mark.slow
def test_detection_policies_are_compared() -> None:
    figures = detection.measure(20.0, 2, policies=("best-effort", "bounded(100ms)", "guaranteed"))
    assert len(figures.runs) == 3 * len(detection.NETWORKS)
    assert figures.runs[detection.TAIL, "best-effort"].unstable > 0 == figures.runs[detection.TAIL, "guaranteed"].late
    report = detection.report(figures)
    assert report.sound, report.faults
    assert len(json.loads(json.dumps(as_dict(report)))["figures"]["runs"]) == len(figures.runs)
    for plot in report.plots.values():
        ElementTree.fromstring(plot())


@needs_matplotlib
@pytest.mark.mqtt
@pytest.mark.spawn
@pytest.mark.slow
def test_office_day_is_detected_as_by_one_engine() -> None:
    figures = soak.measure(0.4, 3)
    report = soak.report(figures)
    assert figures.unlike == 0 and sum(figures.expected.values()) > 10 and figures.expected == figures.found
    assert len(figures.memory) == 5 and all(each > 10**7 for each in figures.memory)
    figures.memory = [100, 110, 115, 130, 140]
    assert "memory grows" in soak.report(figures).faults[0]
    ElementTree.fromstring(report.plots["soak-memory.svg"]())


@pytest.mark.mqtt
@pytest.mark.spawn
def test_checkpoint_and_recovery_are_measured() -> None:
    figures = recovery.measure(detectors=60, instances=600, events=200, rounds=1)
    assert (figures.detectors, figures.instances) == (60, 600)
    assert len(figures.pauses) >= 2
    assert figures.size > 600 * 20
    assert all(figures.rates[each][0] > 0 for each in (False, True))
    assert {row[0] for row in recovery.report(figures).tables[0].rows} >= {"longest pause", "continued from it"}


def test_detection_faults_are_named() -> None:
    """A policy that is wrong more often than it may be, and one that waits for too long."""
    tail, steady = detection.TAIL, detection.STEADY
    figures = detection.DetectionFigures(1, 1.0)
    figures.runs[tail, "probabilistic(0.99)"] = detection.PolicyRun([1] * 1_000, 5, 100)
    figures.runs[steady, "guaranteed"] = detection.PolicyRun([10**9] * 100)
    faults = detection.report(figures).faults
    assert len(faults) == 2 and "0.01 unstable" in faults[0] and "not p99" in faults[1]


def test_node_measures_many_subscriptions() -> None:
    figures = many_subscriptions.measure((20,), (1, 20), ("filter",), events=400, rounds=1, seconds=0.5, pace=100)
    cases = [(each.kind, each.subscriptions, each.detection) for each in figures.cases]
    assert cases == [("filter", 20, "best-effort"), ("filter", 20, "guaranteed")]
    assert all(rate > 0 for made in figures.cases.values() for rounds in made.rates.values() for rate in rounds)
    assert all(len(delays) == 50 for made in figures.cases.values() for delays in made.delays.values())
    assert sum(made.found for made in figures.cases.values()) > 0
    report = many_subscriptions.report(figures)
    assert report.sound, report.faults
    answer = json.loads(json.dumps(as_dict(report)))
    assert [each["name"] for each in answer["tables"]] == ["rates", "costs"]
    for plot in report.plots.values():
        ElementTree.fromstring(plot())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kinds", "device,odd"], "unknown kind of pattern: odd .*allowed: device, keyed"),
        (["--subscriptions", "1,x"], "not a number: x .*--subscriptions"),
        (["--frames", ","], "no value: , .*--frames"),
    ],
)
def test_node_verb_refuses_wrong_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "node", *arguments]) == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))

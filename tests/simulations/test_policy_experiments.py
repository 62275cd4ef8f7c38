"""The experiments with distribution policies: figures by hand, and some random scenarios.

On the hand-made scenario the publisher and the subscriber are at one site, the only node at another, with one link
between them; so every message crosses it, and can be counted.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.frames import encode
from distced.middleware.wire.topics import composite_topic, event_topic
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import LOCAL_LATENCY
from distced.policies.topology.topology_file import parse_topology
from distced.simulations.benchmarks import policy_comparison
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.policies import parse_metrics, report, standings
from distced.simulations.benchmarks.policy_comparison import (
    METRICS,
    ComparedScenario,
    RunFigures,
    compare,
    figures_of,
    impact_of,
    impact_scenario_of,
    reliability_of,
)
from distced.simulations.network.scenario_model import START, Scenario, ScenarioSubscription, Send, SourceStream
from distced.simulations.network.transport.links import ACKNOWLEDGEMENT, message_size
from distced.simulations.report import as_dict, show
from tests.support.pictures import needs_matplotlib

LASTS, SINCE = 8, 2
"""Seconds; an A comes in the middle of each, and a B a quarter of a second later."""

TOPOLOGY = parse_topology(
    """
    directory = "here"
    [sites.here]
    [sites.there]
    [nodes.n]
    site = "there"
    [publishers.p]
    site = "here"
    types = ["A", "B"]
    [subscribers.s]
    site = "here"
    [[links]]
    between = ["here", "there"]
    latency = "20ms"
    """
)


def offset(name: str, second: int) -> int:
    return second * SECOND + SECOND // 2 + (SECOND // 4 if name == "B" else 0)


def event(name: str, second: int) -> Event:
    instant = START + offset(name, second)
    return Event(name, instant, instant, f"s{name}", second, {})


def stream(name: str) -> SourceStream:
    sends = [Send(offset(name, second), (each,), each.hi)
             for second in range(LASTS) for each in [event(name, second)]]  # fmt: skip
    end = LASTS * SECOND
    return SourceStream(f"s{name}", "p", (name,), (*sends, Send(end, (), START + end)))


def scenario(*patterns: str) -> Scenario:
    return Scenario(
        TOPOLOGY,
        (event_type("A", {}), event_type("B", {})),
        (stream("A"), stream("B")),
        tuple(ScenarioSubscription(f"q{number}", "s", pattern) for number, pattern in enumerate(patterns)),
        duration=LASTS * SECOND,
        patience=2 * SECOND,
    )


def measured(*patterns: str) -> RunFigures:
    return figures_of(scenario(*patterns), SINCE * SECOND)


def bytes_of_event(name: str, second: int) -> int:
    """On the link, with the acknowledgement."""
    each = event(name, second)
    payload = encode([each], type=name, source=each.source, watermark=each.hi)
    return message_size(event_topic(name, each.source), len(payload), 1) + ACKNOWLEDGEMENT


# By hand.


def test_latency_and_load_equal_those_by_hand() -> None:
    found = measured("[A]")
    # From the publisher to its server, over the link to the node, to the node's server, and back over the link.
    assert found.latency == pytest.approx(4 * LOCAL_LATENCY + 2 * 20 * MILLISECOND, abs=MILLISECOND / 10)
    # Each A is tried at the start, and nothing waits for more.
    assert found.load == pytest.approx(1.0)
    assert found.hosts == ("n",)
    assert [len(each) for each in found.found.values()] == [LASTS]
    assert not found.refused


def test_load_counts_each_of_two_steps() -> None:
    # Each A at the start, and by each B the A that waits.
    assert measured("[A] ; [B]").load == pytest.approx(2.0)


def test_bytes_equal_those_by_hand() -> None:
    one, other, both = measured("[A]"), measured("[B]"), measured("[A]", "[B]")
    events = sum(bytes_of_event("A", second) for second in range(SINCE, LASTS))
    assert one.bytes > events
    # What is left is the composite events, and heartbeats, of which there are none between events.
    detector_topic = composite_topic("c" + "0" * 16)
    least = (LASTS - SINCE) * (message_size(detector_topic, 0, 1) + ACKNOWLEDGEMENT)
    assert events + least < one.bytes < events + 2.5 * least
    # Both read streams of their own, and each tells for itself.
    assert both.bytes == pytest.approx(one.bytes + other.bytes, abs=8)


def test_impact_equals_that_by_hand() -> None:
    before = measured("[A]")
    more = scenario("[A]", "[B]").subscriptions[1]
    # As many bytes again, and as much on the only node.
    assert impact_of(scenario("[A]"), more, before, SINCE * SECOND) == pytest.approx(2.0, abs=0.02)
    again = scenario("[A]", "[A]").subscriptions[1]
    # The same detector serves both, and the subscriber's connection hears it already.
    assert impact_of(scenario("[A]"), again, before, SINCE * SECOND) == 0.0


def test_reliability_equals_that_by_hand() -> None:
    # The only node is lost at the sixth second of eight: six of eight events have been found by then.
    assert reliability_of(scenario("[A]"), measured("[A]")) == pytest.approx(6 / 8)
    # Nothing is expected, nothing is lost.
    nothing = RunFigures(None, 0, 0, 0.0, {"q0": frozenset()}, ("n",), {})
    assert reliability_of(scenario("[A]"), nothing) == 1.0


# Comparing.


def test_policy_is_best_where_others_are_equal_or_worse() -> None:
    figures = {
        "latency": {"min-latency": 100.9, "min-bandwidth": 100.0, "min-load": 102.0},
        "bandwidth": {"min-latency": 4.0, "min-bandwidth": 0.0, "min-load": 0.0},
        "impact": {"min-impact": 0.129, "min-load": 0.1, "min-latency": 0.14},
        "reliability": {"min-load": 1.0, "max-reliability": 0.98},
    }
    found = ComparedScenario(1, figures)
    assert found.best("min-latency")
    assert not found.best("min-load", "latency")
    assert found.behind("min-load", "latency") == pytest.approx(0.02)
    assert found.best("min-load", "bandwidth")
    assert found.behind("min-latency", "bandwidth") == float("inf")
    assert found.best("min-impact")
    assert not found.best("min-latency", "impact")
    assert found.behind("max-reliability", "reliability") == pytest.approx(0.02)
    assert not found.best("max-reliability")


def test_earlier_subscriptions_are_pinned() -> None:
    before, more = impact_scenario_of(3)
    assert 8 <= len(before.subscriptions) <= 12
    for each in before.subscriptions:
        assert len(each.hints.nodes) == NAMED[each.distribution].replicas
    assert not more.hints.nodes
    assert more.at is not None
    assert more.at > max(each.at or 0 for each in before.subscriptions)
    assert impact_scenario_of(3) == (before, more)


@pytest.mark.slow
def test_policies_are_best_at_their_own_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_comparison, "FEW_TOUCHED", 0)
    best_at_their_own(compare(24, metrics=("latency", "bandwidth", "load")))


def best_at_their_own(found: ComparedScenario) -> None:
    assert not found.refused
    for policy in ("min-latency", "min-bandwidth", "min-load"):
        assert found.best(policy), found.figures[METRICS[policy]]


@pytest.mark.slow
def test_min_impact_has_the_least_impact() -> None:
    found = compare(8, metrics=("impact",))
    assert found.best("min-impact"), found.figures


# The report.


@needs_matplotlib
def test_report_has_standings_and_faults() -> None:
    compared = [
        ComparedScenario(seed, {"load": {name: (1.0 if name == "min-load" or (seed, name) == (2, "min-impact") else 3.0)
                                 for name in NAMED}})
        for seed in (2, 1)
    ]  # fmt: skip
    found = standings(compared)
    assert [each.seed for each in found.scenarios] == [1, 2]
    assert found.metrics == ("load",)
    own, other = found.of("min-load", "load"), found.of("min-impact", "load")
    assert (own.wins, own.behind, own.own, own.lost_to) == (2, 0.0, True, {})
    assert (other.wins, other.behind, other.own) == (1, 1.0, False)
    assert found.shares == {"min-load": 1.0}
    assert found.holds
    figures = {"load": {name: 2.0 - (name == "min-impact") for name in NAMED}}
    worse = standings([*compared, ComparedScenario(3, figures)])
    assert worse.shares["min-load"] == pytest.approx(2 / 3)
    assert worse.of("min-load", "load").lost_to == {"min-impact": 1}
    assert not worse.holds
    assert json.loads(json.dumps(as_dict(report(worse))))["figures"]["own"] == {"min-load": pytest.approx(2 / 3)}
    console = Console(file=io.StringIO(), width=200)
    show(report(worse), console)
    assert isinstance(console.file, io.StringIO)
    assert "min-impact 1" in console.file.getvalue()
    assert "66.7%" in console.file.getvalue()
    for content in (plot() for plot in report(worse).plots.values()):
        ElementTree.fromstring(content)


def test_metrics_are_parsed_in_any_form() -> None:
    assert parse_metrics("") == tuple(METRICS.values())
    assert parse_metrics("load, latency,load") == ("load", "latency")
    with pytest.raises(DistcedError, match=r"not a metric.*speed.*latency, bandwidth, impact, load, reliability"):
        parse_metrics("load,speed")


@needs_matplotlib
@pytest.mark.slow
def test_latency_of_few_notifications_is_measured_over_a_longer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_comparison, "LONG_LASTS", 100 * SECOND)
    scenarios = [
        replace(policy_comparison.scenario_of(2, duration=lasts)[0], distribution="min-latency")
        for lasts in (policy_comparison.LASTS, 100 * SECOND)
    ]
    short, longer = (policy_comparison.figures_of(each, policy_comparison.COUNT_FROM) for each in scenarios)
    assert short.notifications < policy_comparison.FEW and longer.notifications > short.notifications
    (figures,) = policy_comparison.compare(2, metrics=["latency"], policies=["min-latency"]).figures.values()
    assert figures == {"min-latency": longer.latency} != {"min-latency": short.latency}


@needs_matplotlib
@pytest.mark.slow
def test_small_loads_are_measured_over_a_longer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_comparison, "LONG_LASTS", 100 * SECOND)
    scenario = replace(policy_comparison.scenario_of(4, duration=100 * SECOND)[0], distribution="min-load")
    longer = policy_comparison.figures_of(scenario, policy_comparison.COUNT_FROM)
    short = policy_comparison.figures_of(
        replace(policy_comparison.scenario_of(4)[0], distribution="min-load"), policy_comparison.COUNT_FROM
    )
    monkeypatch.setattr(policy_comparison, "FEW_TOUCHED", 10**9)
    (figures,) = policy_comparison.compare(4, metrics=["load"], policies=["min-load"]).figures.values()
    assert figures == {"min-load": longer.load} != {"min-load": short.load}
    before, more = impact_scenario_of(3, 100 * SECOND)
    assert before.duration == 100 * SECOND and more.at == impact_scenario_of(3)[1].at


def test_verb_policies_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And policies are best at their own metric here, too."""
    monkeypatch.setattr(policy_comparison, "FEW_TOUCHED", 0)
    monkeypatch.setattr(policy_comparison, "FEW", 0)
    metrics = "latency,bandwidth,load"
    arguments = ["policies", "--scenarios", "1", "--seed", "4", "--metrics", metrics, "--processes", "2", "--json"]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path)])
    answer = json.loads(result.stdout)
    assert result.exit_code == (0 if answer["sound"] else 1)
    (compared,) = answer["figures"]["scenarios"]
    assert compared["seed"] == 4
    best_at_their_own(ComparedScenario(4, compared["figures"], compared["refused"]))
    assert {each["policy"] for each in answer["figures"]["rows"]} == set(NAMED)
    assert {each.name for each in tmp_path.glob("*.svg")} == {
        "policies.svg", "policies-latency.svg", "policies-bandwidth.svg", "policies-load.svg"
    }  # fmt: skip

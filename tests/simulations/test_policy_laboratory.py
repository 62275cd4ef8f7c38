"""The kind `policies`: its files, workloads, topologies, treatments and figures, on tiny scenarios."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distced.middleware.history import HistoryWriter
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, SECOND
from distced.simulations.experiments.experiment_file import load_experiment, parse_experiment
from distced.simulations.experiments.kinds.policies_kind import KIND, PoliciesSpec
from distced.simulations.experiments.model import ExperimentError, Results
from distced.simulations.experiments.policy_runs import after_loss, treated
from distced.simulations.experiments.recorded_workload import patterns_of
from distced.simulations.experiments.reporting.sections import Claim, Figure
from distced.simulations.experiments.reporting.write_report import write_report
from distced.simulations.experiments.result_files import ResultFolder
from distced.simulations.experiments.runner import run_experiment
from distced.simulations.experiments.topologies import TopologySpec, build, link_class
from distced.simulations.experiments.workloads import WorkloadSpec, drifts_at, scenario_of
from distced.simulations.network.scenario.outcome import compare
from distced.simulations.network.scenario.run import simulate
from distced.simulations.network.scenario_model import Scenario
from tests.support.pictures import needs_matplotlib

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")

TEXT = """
kind = "policies"
title = "Policies"
seeds = [1, 6]

[policies]
treatments = ["min-latency", "central"]
losses = true

[[policies.workloads]]
name = "few"
kind = "synthetic"
subscriptions = 4
duration = "20s"

[[policies.topologies]]
name = "pair"
kind = "two-site"
nodes = 2
publishers = 3
"""

FAULTY = {
    "unknown policy": ('"central"', '"min-latence"', "no treatment: min-latence", 7,
                       "policies.treatments.2"),
    "static of nothing": ('"central"', '"static min-latence"', "no treatment", 7, "policies.treatments.2"),
    "unknown kind of workload": ('kind = "synthetic"', 'kind = "many"', "not a value for this key: many", 12,
                                 "policies.workloads.1.kind"),
    "too short": ("20s", "1s", "not a duration of this many seconds: 1.0", 14, "policies.workloads.1.duration"),
    "no duration": ("20s", "soon", "soon", 14, "policies.workloads.1.duration"),
    "unknown scenario": ("subscriptions = 4", 'scenarios = ["scenario3"]', "no scenario of the office: scenario3", 13,
                         "policies.workloads.1.scenarios.1"),
    "too many nodes": ("nodes = 2", "nodes = 5000", "not a number of nodes: 5000", 19, "policies.topologies.1.nodes"),
    "unknown key of a topology": ("nodes = 2", "node = 2", "unknown key: node", 19, "policies.topologies.1.node"),
    "missing topology file": ('kind = "two-site"', 'file = "nowhere.toml"', "cannot read the topology", 18,
                              "policies.topologies.1.file"),
    "neither kind nor file": ('kind = "two-site"\n', "", "a topology needs a kind, a file or tables: pair", 16,
                              "policies.topologies.1"),
    "kind and tables": ("nodes = 2", "tables = { sites = { a = {} } }", "a topology needs a kind, a file or tables", 16,
                        "policies.topologies.1"),
    "too short for a loss": ('duration = "20s"', 'duration = "12s"',
                             "not a duration of this many seconds, with a loss: 12.0", 14,
                             "policies.workloads.1.duration"),
    "measured too early": ("losses = true", "measured_from = 0.1", "not a share of a run: 0.1", 8,
                           "policies.measured_from"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "problem", "line", "key"), FAULTY.values(), ids=FAULTY)
def test_faulty_file_is_refused_with_its_line(old: str, new: str, problem: str, line: int, key: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(TEXT.replace(old, new), name="own.toml")
    assert problem in str(caught.value)
    assert caught.value.where == f"own.toml, line {line}, {key}"


def scenario(kind: Any = "synthetic", seed: int = 1, *, topology: str = "star", **more: Any) -> Scenario:
    """A small scenario of a workload."""
    spec = TopologySpec("small", topology, sites=4, nodes=3, publishers=4, subscribers=2)  # type: ignore[arg-type]
    return scenario_of(WorkloadSpec("own", kind, **more), build(spec, Random(seed)), seed)


def test_two_sites_are_linked_by_wireless_alone() -> None:
    made = build(TopologySpec("own", "two-site", nodes=4), Random(1))
    [link] = made.links
    assert link_class(link.cost) == "wireless"
    assert {each.site for each in made.publishers.values()} == {"building"}
    assert {each.site for each in made.subscribers.values()} == {"mobile"}
    assert Counter(each.site for each in made.nodes.values()) == {"building": 2, "mobile": 2}


def test_topology_file_is_part_of_the_experiment(tmp_path: Path) -> None:
    tables = "[sites.a]\n[nodes.n]\nsite = 'a'\n[publishers.p]\nsite = 'a'\ntypes = ['A']\nrates = { A = 5 }\n"
    (tmp_path / "own.toml").write_text(tables + "[subscribers.s]\nsite = 'a'\n")
    (tmp_path / "lab.toml").write_text(TEXT.replace('kind = "two-site"', 'file = "own.toml"'))
    loaded = load_experiment(tmp_path / "lab.toml")
    (tmp_path / "own.toml").unlink()
    spec: PoliciesSpec = loaded.spec
    assert list(build(spec.topologies[0], Random(1)).nodes) == ["n"]


def test_drift_makes_half_of_the_sites_quiet_in_turns() -> None:
    spec = WorkloadSpec("own", "drift", duration="40s", phases=2)
    made, plain = scenario("drift", duration="40s", phases=2), scenario("synthetic", duration="40s")
    half = drifts_at(spec)
    assert half == 20 * SECOND
    by_phase = {}
    for name, streams in (("drift", made.streams), ("plain", plain.streams)):
        for stream in streams:
            sent = [send.at < half for send in stream.sends for _ in send.events]
            by_phase[name, stream.source] = (sent.count(True), sent.count(False))
            seqs = [event.seq for send in stream.sends for event in send.events]
            assert seqs == list(range(len(seqs)))
    quiet = set()
    for stream in made.streams:
        kept, all_ = by_phase["drift", stream.source], by_phase["plain", stream.source]
        if min(all_) > 20:
            [loud] = [phase for phase in (0, 1) if kept[phase] == all_[phase]]
            assert kept[1 - loud] < all_[1 - loud] / 3
            quiet.add(loud)
    assert quiet


def test_popular_patterns_have_more_subscriptions() -> None:
    made = scenario("zipf", subscriptions=400, patterns=10, exponent=1.5, duration="20s")
    often = Counter(each.pattern for each in made.subscriptions).most_common()
    assert len(often) <= 10 and often[0][1] > 100 > often[-1][1]
    instants = [each.at or 0 for each in made.subscriptions]
    assert instants == sorted(instants) and instants[-1] <= 0.4 * made.duration


@pytest.mark.slow
def test_office_is_detected_as_by_one_engine() -> None:
    made = scenario("office", duration="60s", heartbeat="1s", subscriptions=3)
    outcome = simulate(made)
    assert not any(each.refused for each in outcome.subscriptions.values()) and outcome.complete
    assert len({each.pattern for each in made.subscriptions}) == 2
    assert all(each.holds for each in compare(outcome).values())


def test_alarms_are_detected_as_by_one_engine() -> None:
    made = scenario("alarms", duration="120s", heartbeat="5s", subscriptions=8)
    assert len({each.pattern for each in made.subscriptions}) == 8
    assert {each.site for each in made.topology.publishers.values()} <= set(made.topology.sites)
    outcome = simulate(made)
    assert not any(each.refused for each in outcome.subscriptions.values()) and outcome.complete
    compared = compare(outcome)
    assert all(each.holds for each in compared.values())
    assert sum(len(each.found) for each in outcome.subscriptions.values()) > 0


def hosts(made: Scenario) -> set[str]:
    return {entry.node for entry in simulate(made).detectors.values()}


def test_all_treatments_but_optima_are_run_with_a_loss() -> None:
    made = parse_experiment(TEXT.replace('"central"', '"central", "optimum-load"'))
    assert {(cell.factors["treatment"], cell.settings.losses) for cell in made.cells()} == {
        ("min-latency", True),
        ("central", True),
        ("optimum-load", False),
    }


def test_central_detectors_are_on_one_node() -> None:
    made = scenario(duration="20s", subscriptions=3)
    assert len(hosts(treated(made, "central", 10 * SECOND).scenario)) == 1


def test_static_placement_stays_where_the_policy_had_it() -> None:
    made = scenario("drift", duration="60s", subscriptions=4)
    adaptive, static = (
        treated(made, name, 30 * SECOND).figures(losses=False) for name in ("min-load", "static min-load")
    )
    assert adaptive["migrations"] and not static["migrations"]
    assert static["detectors"] == adaptive["detectors"] and static["notifications"] == adaptive["notifications"]


def test_composite_events_after_a_loss_are_those_of_a_run_without_one() -> None:
    made = scenario(duration="30s", subscriptions=4)
    outcome = simulate(made)
    at = made.start + 20 * SECOND
    after = after_loss(outcome, at)
    found = [each.event for one in outcome.subscriptions.values() for each in one.found.values()]
    assert after == {"expected_after_loss": sum(each.hi >= at for each in found), "delivered_after_loss": 1.0}


def test_report_has_no_figure_without_a_policy_of_a_metric() -> None:
    made = parse_experiment(TEXT.replace('"min-latency"', '"min-impact"'))
    rows = [{**each.factors, "seed": each.seed, "latency_ms": 1.0, "bytes_s": 2.0} for each in made.cells()]
    results = Results(made.spec, made.seeds, rows)
    assert "own-metrics" not in {each.name for each in KIND.figures(results) if isinstance(each, Figure)}


@pytest.mark.slow
def test_treatments_deliver_the_same_and_the_optimum_sends_the_least() -> None:
    made = scenario(seed=5, topology="tree", duration="30s", subscriptions=3)
    rows = {
        treatment: treated(made, treatment, 15 * SECOND).figures(losses=False)
        for treatment in ("min-latency", "max-reliability", "central", "optimum-bandwidth")
    }
    assert len({row["notifications"] for row in rows.values()}) == 1 and rows["central"]["notifications"]
    sizes = {treatment: float(row["bytes_s"] or 0) for treatment, row in rows.items()}
    assert min(sizes.values()) >= sizes["optimum-bandwidth"] * 0.97


@needs_matplotlib
@pytest.mark.slow
def test_tiny_experiment_is_the_same_to_the_byte_and_has_its_report(tmp_path: Path) -> None:
    made = parse_experiment(TEXT)
    for name in ("one", "other"):
        summary = run_experiment(made, tmp_path / name)
        assert (summary.done, summary.failed) == (4, {})
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name / "cells").iterdir()}
                  for name in ("one", "other"))  # fmt: skip
    assert one == other
    results, _ = ResultFolder(tmp_path / "one").results(made, made.cells())
    shares = results.numbers("delivered_after_loss")
    assert len(results.rows) == 4 and shares and all(0 <= share <= 1 for share in shares)
    assert results.where(treatment="central").numbers("delivered_after_loss") == [0.0] * (len(shares) // 2)
    sections = KIND.figures(results)
    assert {"own-metrics", "delay-traffic-few", "load-few", "loss"} <= {
        each.name for each in sections if isinstance(each, Figure)
    }
    assert not any(isinstance(each, Claim) for each in sections)  # a single named policy beats nobody
    page = write_report(tmp_path / "one")
    assert "Paired tests" in page.read_text(encoding="utf-8")


RECORDED = (
    TEXT.replace('kind = "synthetic"\nsubscriptions = 4', 'kind = "recorded"\nsubscriptions = 3')
    + """
[policies.workloads.recorded]
history = "alarms"
patterns = "own.pattern"
divide_by = "device"
"""
)
PATTERNS = """# two alarms of a device
[Alarm as a] ; [Alarm as b where number > a.number] within 5s by device -> Worse(device = b.device)
[Alarm where number == 0] -> First()
"""


def recorded(folder: Path, text: str = RECORDED) -> Any:
    """The experiment, with a history of ten minutes of alarms of six devices beside it."""
    kind = event_type("Alarm", {"device": "string", "number": "number"})
    random = Random(1)
    instants = sorted(random.randrange(600 * SECOND) for _ in range(1_500))
    events = [
        Event("Alarm", DAY + at, DAY + at, "center", seq, {"device": f"d{random.randrange(6)}", "number": seq % 3})
        for seq, at in enumerate(instants)
    ]
    HistoryWriter(folder / "alarms", "test", [kind]).write(events)
    (folder / "own.pattern").write_text(PATTERNS)
    # The table of the recording belongs to the workload, which comes before the topologies.
    before, topologies = text.split("[[policies.topologies]]")
    pair, table = topologies.split("[policies.workloads.recorded]")
    (folder / "lab.toml").write_text(f"{before}[policies.workloads.recorded]{table}\n[[policies.topologies]]{pair}")
    return load_experiment(folder / "lab.toml")


@pytest.mark.slow
def test_recorded_events_are_divided_and_detected_as_by_one_engine(tmp_path: Path) -> None:
    spec: PoliciesSpec = recorded(tmp_path).spec
    network = build(spec.topologies[0], Random(1))
    scenarios = [scenario_of(spec.workloads[0], network, seed) for seed in (1, 2)]
    devices: dict[Any, set[str]] = {}
    for made in scenarios:
        events = [event for stream in made.streams for send in stream.sends for event in send.events]
        assert len(events) > 20 and all(made.start < event.hi <= made.start + made.duration for event in events)
        for event in events:
            devices.setdefault(event.attributes["device"], set()).add(event.source)
    assert len(devices) == 6 and all(len(sources) == 1 for sources in devices.values())
    one, other = ([send.at for send in made.streams[0].sends if send.events] for made in scenarios)
    assert one != other  # another stretch for each seed
    outcome = simulate(scenarios[0])
    compared = compare(outcome)
    assert outcome.complete and all(each.holds for each in compared.values()) and sum(
        len(each.found) for each in outcome.subscriptions.values()
    )  # fmt: skip


RECORDED_FAULTS = {
    "no such attribute": ('"device"\n', '"devise"\n', "no attribute of the recorded events: devise",
                          "policies.workloads.1.recorded.divide_by"),
    "no such history": ('"alarms"', '"nowhere"', "nowhere", "policies.workloads.1.recorded"),
    "no such patterns": ('"own.pattern"', '"no.pattern"', "no.pattern", "policies.workloads.1.recorded"),
    "of another kind": ('kind = "recorded"', 'kind = "zipf"', "a table that goes with the kind recorded",
                        "policies.workloads.1"),
    "no patterns": ('patterns = "own.pattern"\n', "", "needs patterns or causal edges",
                    "policies.workloads.1.recorded"),
    "links alone": ("divide_by", 'links = "own.pattern"\ndivide_by', "links without causal edges",
                    "policies.workloads.1.recorded.links"),
    "no alarms": ('patterns = "own.pattern"', 'causes = "own.pattern"', "no alarms",
                  "policies.workloads.1.recorded.causes"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "problem", "key"), RECORDED_FAULTS.values(), ids=RECORDED_FAULTS)
def test_faulty_recording_is_refused(old: str, new: str, problem: str, key: str, tmp_path: Path) -> None:
    assert old in RECORDED
    with pytest.raises(ExperimentError) as caught:
        recorded(tmp_path, RECORDED.replace(old, new))
    assert problem in str(caught.value) and str(caught.value.where).endswith(f", {key}")


def test_recorded_alarms_of_neighbours_come_from_near_publishers_with_the_patterns_of_their_causes(
    tmp_path: Path,
) -> None:
    kind = event_type("Alarm", {"device": "string", "alarm": "number"})
    random = Random(1)
    events = [
        Event("Alarm", DAY + at, DAY + at, "center", at, {"device": str(random.randrange(40)), "alarm": at % 3})
        for at in range(0, 60 * SECOND, SECOND // 10)
    ]
    HistoryWriter(tmp_path / "alarms", "test", [kind]).write(events)
    (tmp_path / "causes.csv").write_text("cause_alarm,effect_alarm\n0,1\n1,2\n")
    (tmp_path / "links.csv").write_text(
        "device_a,device_b\n" + "".join(f"{number},{(number + 1) % 40}\n" for number in range(40))
    )
    text = RECORDED.replace('patterns = "own.pattern"', 'causes = "causes.csv"\nlinks = "links.csv"')
    before, topologies = text.split("[[policies.topologies]]")
    pair, table = topologies.split("[policies.workloads.recorded]")
    (tmp_path / "lab.toml").write_text(f"{before}[policies.workloads.recorded]{table}\n[[policies.topologies]]{pair}")
    spec: PoliciesSpec = load_experiment(tmp_path / "lab.toml").spec
    network = build(spec.topologies[0], Random(1))
    made = scenario_of(spec.workloads[0], network, 1)
    sources: dict[str, str] = {}
    for stream in made.streams:
        for event in (event for send in stream.sends for event in send.events):
            assert sources.setdefault(str(event.attributes["device"]), event.source) == event.source
            near = {str((int(str(event.attributes["device"])) + step) % 40) for step in (-1, 0, 1)}
            assert set(filter(None, str(event.attributes["near"]).split("|"))) == near
    assert set(Counter(sources.values()).values()) == {13, 14}
    # A ring of devices on publishers: each has one stretch of it on both sides of the first device.
    apart = sum(sources[str(number)] != sources[str((number + 1) % 40)] for number in range(40))
    assert apart <= 2 * len(network.publishers)
    assert [each.pattern for each in made.subscriptions] == patterns_of(spec.workloads[0].recorded, ())[:3]
    assert "RootCause0" in made.subscriptions[0].pattern


OWN_POLICY = """
from distced.policies.distribution.policy import DistributionPolicy

policy = DistributionPolicy("my-policy", "none", "none", "none", objective=lambda candidate: (0.0, candidate.delay))
"""


@pytest.mark.slow
def test_installed_policy_is_a_treatment_and_runs_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "own_policy_of_a_test.py"
    module.write_text(OWN_POLICY)
    info = tmp_path / "own_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[distced.policies]\nmy-policy = own_policy_of_a_test:policy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = TEXT.replace('"central"', '"my-policy"').replace("losses = true", "")
    made = parse_experiment(text)
    assert run_experiment(made, tmp_path / "out").failed == {}
    results, _ = ResultFolder(tmp_path / "out").results(made, made.cells())
    assert len(results.where(treatment="my-policy").rows) == 2
    module.write_text(OWN_POLICY + "\n# better\n")
    assert run_experiment(parse_experiment(text), tmp_path / "out").kept == 2  # those of min-latency

"""`distced place` from a history to hints, the hints in broker nodes, and predictions held to the simulator."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
import typer
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from distced.detectors.batch_run.runner import run
from distced.middleware.history.history import History, events_of_history
from distced.middleware.history.writer import HistoryWriter
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry
from distced.policies.distribution.hint_files import read_hint_file, write_hints
from distced.policies.distribution.policy import NAMED
from distced.policies.distribution.situation.rates import hosting
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology, topology_as_toml
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.placement import measure, report
from distced.simulations.benchmarks.policy_comparison import scenario_of
from distced.simulations.network.scenario.random_scenario import random_patterns
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.placement import analysis_report
from distced.simulations.placement.analysis import hints_of
from distced.simulations.placement.by_policy import place_all
from distced.simulations.placement.cli import place
from distced.simulations.placement.history_figures.counting import count
from distced.simulations.placement.history_figures.measuring import instance_of, located, types_of
from distced.simulations.placement.what_if import LinkCompared, RecordedStretch, Replayed, replay
from distced.simulations.report import as_dict, show
from tests.support.pictures import needs_matplotlib
from tests.support.random_placements import START, TYPES, kinds, published, random_events, space_of_texts, used

PATTERNS = """
Pair = [A as x where v > 7] ; [B where k == x.k and v > 5] within 2s
Pair -> Met(k = x.k)
Pair ; [C where v > 6] within 3s -> Alarm()
[Alarm] ; [A where v > 8] within 5s -> Worse()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of a minute, a topology and patterns."""
    made = tmp_path_factory.mktemp("place")
    topology = random_topology("tree", Random(4), sites=5, nodes=4, publishers=7, subscribers=2, types="ABC")
    (made / "topology.toml").write_text(topology_as_toml(topology))
    (made / "p.pattern").write_text(PATTERNS)
    HistoryWriter(made / "history", "test", used(TYPES, topology)).write(random_events(topology, 1, 60), None)
    return made


def placed(folder: Path, *options: str) -> tuple[int, str]:
    result = run_verb(folder, *options)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.stdout


def run_verb(folder: Path, *options: str) -> Result:
    app = typer.Typer()
    app.command()(place)
    given = ("--history", "history", "--topology", "topology.toml", "--patterns", "p.pattern")
    paths = [str(folder / each) if number % 2 else each for number, each in enumerate(given)]
    return CliRunner().invoke(app, [*paths, *options], standalone_mode=False)


@pytest.mark.parametrize("metric", ["bandwidth", "latency", "load", "reliability"])
def test_verb_compares_policies_with_the_optimum(folder: Path, metric: str, tmp_path: Path) -> None:
    out, picture = tmp_path / "hints.json", tmp_path / "picture.dot"
    options = ("--metric", metric, "--subscriber", "subscriber-1", "--subscriber", "Met=subscriber-2", "--what-if")
    code, text = placed(folder, *options, "--json", "--out", str(out), "--picture", str(picture))
    answer = json.loads(text)
    assert code == 0, answer["what_if"]
    assert answer["metric"] == metric
    assert [each["policy"] for each in answer["options"]] == [*NAMED, "replanned", "optimum"]
    assert answer["optimum"]["proven"]
    assert all(len(each["reasons"]) == 3 for each in answer["options"] if each["policy"] in NAMED)
    assert min(each["gap"] for each in answer["options"] if not each["overloaded"]) >= -1e-3
    assert [each["pattern"] for each in answer["patterns"]] == ["Met", "Alarm", "Worse"]
    assert all(each["nodes"] for each in answer["patterns"])
    # The policy of the metric and the optimum were simulated, and every link is within a tenth.
    assert len(answer["what_if"]) == 2
    assert all(each["settled"] and not each["refused"] and each["worst"] <= 0.1 for each in answer["what_if"])
    assert all(each["measured"] > 0 for each in answer["what_if"])
    best = answer["options"][-1]
    assert sum(each["bytes"] for each in best["links"]) >= sum(each["bytes"] for each in best["traffic"]) > 0
    hints = read_hint_file(out)
    assert {name: list(each.nodes) for name, each in hints.items()} == {
        each["id"]: each["nodes"] for each in best["detectors"]
    }
    assert "bytes a second" in picture.read_text(encoding="utf-8")


def test_report_names_policies_and_advice(folder: Path) -> None:
    code, text = placed(folder, "--near", "site-1", "--what-if")
    assert code == 0
    for word in ("min-bandwidth", "optimum", "replanned", "Met: on node-", "composite events/s", "measured"):
        assert word in text


def test_candidates_are_simulated(folder: Path) -> None:
    """Policies of one's choice: a named one, a point in the design space, and what was replanned."""
    point = "none none publishers"
    options = ("--candidate", "min-load", "--candidate", "replanned", "--candidate", point)
    code, text = placed(folder, "--near", "site-1", "--json", *options)
    answer = json.loads(text)
    assert [each["policy"] for each in answer["what_if"]] == ["min-load", point, "replanned"]
    assert code == 0, answer["what_if"]
    assert [each["policy"] for each in answer["options"]] == [*NAMED, point, "replanned", "optimum"]
    with pytest.raises(DistcedError, match="no distribution policy of this name"):
        placed(folder, "--near", "site-1", "--candidate", "min-lode")


def test_report_has_the_figures_of_the_history(folder: Path) -> None:
    """Rates by source, selectivity of every sub-pattern, and what sites send to one another, as counted by hand."""
    history = History(folder / "history")
    begin, last = (history.first or 0) - 1, history.until(("A", "B", "C")) or 0
    events = list(events_of_history(history, None, begin, last))
    seconds = (last - begin) / SECOND
    _, text = placed(folder, "--near", "site-1", "--json")
    answer = json.loads(text)
    streams = {(each["source"], each["type"]): each["rate"] for each in answer["sources"]}
    assert streams == {
        key: pytest.approx(count / seconds)
        for key, count in Counter((each.source, each.type) for each in events).items()
    }
    pair, met = (next(each for each in answer["sub_patterns"] if each["of"] == [name] and "C" not in each["text"])
                 for name in ("Alarm", "Met"))  # fmt: skip
    read = sum(each.type in "AB" for each in events)
    found = len(run("[A as x where v > 7] ; [B where k == x.k and v > 5] within 2s", events, types=TYPES))
    assert pair["rate"] == met["rate"] == pytest.approx(found / seconds)
    assert pair["selectivity"] == pytest.approx(found / read)
    assert pair["events_read"] == pytest.approx(read / seconds)
    assert [each["of"] for each in answer["sub_patterns"]] == [["Met"], ["Alarm"], ["Worse"], ["Alarm"]]
    # What comes to a site comes over links, each byte as often as its way has links.
    topology = load_topology(folder / "topology.toml")
    for option in answer["options"]:
        links = sum(each["bytes"] for each in option["links"])
        paths = [topology.path(Place("site", each["from"]), Place("site", each["to"])) for each in option["traffic"]]
        sent = [each["bytes"] * len(path.hops) for each, path in zip(option["traffic"], paths, strict=True)]
        assert sum(sent) == pytest.approx(links)
    _, shown = placed(folder, "--near", "site-1", "--figures")
    for word in ("publisher-3", "sub-pattern", "selectivity", "optimum, from", "to site-1"):
        assert word in shown


def test_subscribers_have_to_be_given(folder: Path) -> None:
    with pytest.raises(DistcedError, match="no subscriber is named"):
        placed(folder)
    with pytest.raises(DistcedError, match="there is no pattern of this name"):
        placed(folder, "--subscriber", "Mett=subscriber-1")


def test_history_without_events_is_refused(folder: Path, tmp_path: Path) -> None:
    """Said of the history, not of the types that it has not."""
    HistoryWriter(tmp_path / "empty", "test", TYPES)
    for options in ((), ("--master", "local[1]")):
        with pytest.raises(DistcedError, match="a history without events"):
            placed(folder, "--near", "site-1", "--history", str(tmp_path / "empty"), *options)


def test_results_are_shown_before_files_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    """Counting takes long: what it has found is shown all the same."""
    result = run_verb(folder, "--near", "site-1", "--picture", str(tmp_path / "none" / "picture.dot"))
    assert "cannot write the file" in str(result.exception)
    assert "optimum" in result.stdout


def test_infinite_error_of_a_prediction_is_valid_json() -> None:
    run = Replayed("p", {}, (LinkCompared("a", "b", 0.0, 500.0),), 30.0, True)
    answer = json.loads(json.dumps(analysis_report._replayed(run), allow_nan=False))
    assert answer["worst"] is None


def test_hint_file_is_read_as_written(tmp_path: Path) -> None:
    hints = {"c1": HintEntry(("n",), ("c2",)), "c2": HintEntry()}
    write_hints(tmp_path / "hints.json", "load", {"c1": "[A]"}, hints)
    assert read_hint_file(tmp_path / "hints.json") == hints
    (tmp_path / "other.json").write_text('{"format": "distced hints", "version": 9}')
    with pytest.raises(DistcedError, match="of a later version"):
        read_hint_file(tmp_path / "other.json")
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(DistcedError, match="not a file of hints"):
        read_hint_file(tmp_path / "other.json")
    with pytest.raises(DistcedError, match="cannot read the hints"):
        read_hint_file(tmp_path / "none.json")


def test_nodes_follow_hints() -> None:
    """Detectors come to stand where hints say, and stay there; without hints, and where a node is missing, they come
    to stand where the policy wants them."""
    scenario, _ = scenario_of(3)
    scenario = replace(scenario, subscriptions=scenario.subscriptions[:1], distribution="min-bandwidth")
    free = standing(scenario)
    name, node = next((name, entry.node) for name, entry in free.items())
    other = next(each for each in sorted(scenario.topology.nodes) if each != node)
    hinted = standing(replace(scenario, hints={name: HintEntry((other,), ())}))
    assert {each.node for each in hinted.values()} == {other}
    missing = standing(replace(scenario, hints={name: HintEntry(("nobody",), ())}))
    assert missing[name].node == node


def test_nodes_cut_as_hinted() -> None:
    """The policy would leave it whole; the hints have it read a part."""
    scenario, _ = scenario_of(3)
    text = "[A] ; [B] ; [C] within 3s"
    asked = replace(scenario.subscriptions[0], pattern=text)
    scenario = replace(scenario, subscriptions=(asked,), distribution="min-bandwidth")
    free = standing(scenario)
    assert [entry.parts for entry in free.values()] == [()]
    topology = scenario.topology
    space = space_of_texts([text], topology, Random(0))
    root = space.roots[0]
    key = next(each for each in space.alternatives[root] if each)
    part = space.alternatives[root][key].parts[0]
    one, other = sorted(topology.nodes)[:2]
    hinted = standing(replace(scenario, hints={root: HintEntry((one,), (part,)), part: HintEntry((other,), ())}))
    assert {name: (entry.node, entry.parts) for name, entry in hinted.items()} == {
        root: (one, (part,)),
        part: (other, ()),
    }


@pytest.mark.parametrize(("policy", "seed"), [("min-bandwidth", 6), ("min-load", 2), ("max-reliability", 4)])
def test_links_carry_the_predicted_bytes(policy: str, seed: int) -> None:
    """Bytes on each link as the simulator measures them, within a tenth, for the placement of a policy."""
    topology = random_topology("geometric", Random(seed), sites=6, nodes=5, publishers=8, subscribers=3)
    topology = Topology(
        topology.sites.values(),
        [replace(each, capacity=None) for each in topology.nodes.values()],
        [replace(each, uncertainty=0) for each in topology.publishers.values()],
        topology.subscribers.values(),
        topology.links,
    )
    random = Random(seed)
    space = space_of_texts(random_patterns(random, topology.types, 4), topology, random)
    events = random_events(topology, seed, 45)
    sources = located(published(topology), topology)
    counts = count(space, events, types_of(sources), START, START + 45 * SECOND, kinds)
    instance = instance_of(counts, space, topology, sources)
    wanted = place_all(instance, NAMED[policy])
    recorded = RecordedStretch(events, TYPES, sources, START)
    found = replay(
        recorded, space, topology, policy, hints=hints_of(instance, wanted.detectors), seed=seed, look=20 * SECOND
    )
    assert found.settled
    assert not found.refused
    assert where(found.detectors) == where(wanted.detectors)
    assert found.measured > 0
    assert found.worst <= 0.1, far_off(found)


@pytest.mark.parametrize("name", ["p", "a thermometer with a rather long name, in room 4711"])
def test_links_with_little_traffic_carry_the_predicted_bytes(name: str) -> None:
    """Almost nothing but heartbeats, which are as long as the names in them; B is not published while it is looked."""
    text = """
        [sites.here]
        [sites.there]
        [nodes.n]
        site = "there"
        [publishers."NAME"]
        site = "here"
        types = ["A", "B"]
        [publishers.q]
        site = "here"
        types = ["C"]
        [subscribers.s]
        site = "there"
        [[links]]
        between = ["here", "there"]
        latency = "1ms"
    """
    topology = parse_topology(text.replace("NAME", name))
    space = space_of_texts(["[A, B, C where v > 6] ; [A, B, C where v > 8]"], topology, Random(0))
    events = []
    for second in range(0, 50, 5):
        hi = START + second * SECOND + 1
        events.append(Event("B" if second == 5 else "A", hi, hi, name, second, {"k": 1, "v": second % 10}))
    sources = located(published(topology), topology)
    found = replay(RecordedStretch(events, TYPES, sources, START), space, topology, "min-bandwidth")
    assert found.settled
    assert found.worst <= 0.05, far_off(found)


@needs_matplotlib
@pytest.mark.slow
def test_benchmark_placement_reports_gaps(tmp_path: Path) -> None:
    answer: list[tuple[int, int]] = []
    figures = measure(2, 10, 5, ("bandwidth", "reliability"), 5.0, lambda _, done, of: answer.append((done, of)))
    assert answer[-1] == (2, 2)
    assert [each.seed for each in figures.tried] == [5, 6]
    assert list(figures.gaps("bandwidth")) == [*NAMED, "settled", "replanned"]
    assert figures.best("bandwidth")[1] <= min(figures.gaps("bandwidth")["min-load"])
    for each in figures.tried:
        assert each.nodes <= 10
        assert min(each.by_metric[0].gaps.values()) >= -1e-3
    console = Console(file=io.StringIO(), width=200)
    show(report(figures), console)
    assert isinstance(console.file, io.StringIO)
    assert "the best heuristic is" in console.file.getvalue()
    assert set(report(figures).plots) == {"placement-bandwidth.svg", "placement-reliability.svg"}
    assert len(json.loads(json.dumps(as_dict(report(figures))))["figures"]["tried"]) == 2
    arguments = ["placement", "--instances", "1", "--nodes", "5", "--metrics", "latency", "--json"]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path)])
    assert min(row["median"] for row in json.loads(result.stdout)["tables"][0]["rows"]) <= 0.02
    ElementTree.parse(tmp_path / "placement-latency.svg")


def test_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "placement.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    values: dict[str, object] = {}
    exec(compile(code, "docs/how-to/placement.md", "exec"), values)
    assert values["best"].proven  # type: ignore[attr-defined]


def standing(scenario: object) -> dict[str, DetectorEntry]:
    """Where the detectors of a scenario stand after a while."""
    simulation = Simulation(scenario)  # type: ignore[arg-type]
    engine = simulation.network.engine
    engine.run(simulation.scenario.start + 50 * SECOND)
    return simulation.administrator.detectors


def where(detectors: Mapping[str, DetectorEntry]) -> dict[str, tuple[set[str], set[str]]]:
    return {name: (set(hosting(entry)), set(entry.parts)) for name, entry in detectors.items()}


def far_off(found: Replayed) -> list[tuple[str, str, float, float]]:
    return [(each.origin, each.target, each.measured, each.predicted) for each in found.links if abs(each.off) > 0.05]

"""`distced bench place`, small: it measures what nodes do. Durations are not tested."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from xml.etree import ElementTree

from rich.console import Console
from typer.testing import CliRunner

from distced.detectors.compiler import compile_pattern
from distced.policies.distribution.choose.alternatives import alternatives
from distced.policies.distribution.choose.suggest import Request, suggest
from distced.policies.distribution.policy import NAMED
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.simulations.benchmarks.cli import bench
from distced.simulations.benchmarks.place import DecidingNode, deploy, fresh_pattern, measure, report
from distced.simulations.report import as_dict, show
from tests.support.pictures import needs_matplotlib


@needs_matplotlib
def test_place_measures_every_policy() -> None:
    answer: list[tuple[str, int, int]] = []
    figures = measure(detectors=12, nodes=6, rounds=2, seed=3, on_progress=lambda *each: answer.append(each))
    assert [each.policy for each in figures.rows] == list(NAMED)
    assert (figures.nodes, figures.detectors) == (6, 12)
    for each in figures.rows:
        assert len(each.total_ms) == len(each.again_ms) == 2
        assert each.candidates >= 6
        assert 1 <= each.sites <= 2
    assert ("placing", 5, 5) in answer
    assert answer[-1] == ("deciding", 5, 5)
    assert [each.policy for each in figures.decided] == list(NAMED)
    for node in figures.decided:
        assert len(node.total_ms) == 2
        assert min(node.identify_ms) > 0
        assert min(node.decide_ms) > 0
    assert json.loads(json.dumps(as_dict(report(figures))))["tables"][0]["rows"][0]["policy"] == "min-latency"
    console = Console(file=io.StringIO(), width=200)
    show(report(figures), console)
    assert isinstance(console.file, io.StringIO)
    assert "12 detectors on 6 nodes" in console.file.getvalue()
    assert "a node decides" in console.file.getvalue()
    assert report(figures).plots["place.svg"]().rstrip().endswith("</svg>")


@needs_matplotlib
def test_verb_place_writes_a_report(tmp_path: Path) -> None:
    arguments = ["place", "--detectors", "8", "--nodes", "4", "--rounds", "1", "--seed", "2"]
    result = CliRunner().invoke(bench, [*arguments, "--report", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    whole = json.loads(result.stdout)
    answer = whole["figures"]
    assert (answer["detectors"], answer["nodes"]) == (8, 4)
    assert [each["policy"] for each in answer["rows"]] == list(NAMED)
    assert [each["policy"] for each in answer["decided"]] == list(NAMED)
    for table in whole["tables"]:
        assert table["units"]["median"] == "ms"
        for row in table["rows"]:
            assert row["best"] == row["median"] == row["worst"] > 0
    assert {each.name for each in tmp_path.iterdir()} == {"place.md", "place.csv", "place-node.csv", "place.svg"}
    assert "| min-latency |" in (tmp_path / "place.md").read_text()
    assert (tmp_path / "place-node.csv").read_text().startswith("a node decides,median ms,")
    ElementTree.parse(tmp_path / "place.svg")


def test_node_decides_as_its_policy_suggests() -> None:
    """What is measured of a node is a decision about the same directory."""
    deployment = deploy(Random(4), 10, 5)
    node = DecidingNode(deployment.entries, deployment.topology)
    name, entry = next(iter(sorted(deployment.entries.loads.items())))
    detector, client = min(deployment.entries.detectors), min(deployment.topology.subscribers)
    pattern = fresh_pattern(Random(5)).text
    assert all(each >= 0 for each in node.decide("min-bandwidth", pattern, client, detector, name, entry))
    situation = Situation.of(deployment.entries, deployment.topology)
    subscriber = (Place("subscriber", client),)
    graphs = alternatives(compile_pattern(pattern), NAMED["min-bandwidth"], deployment.catalogue, situation=situation,
                  subscribers=subscriber)  # fmt: skip
    request = Request(graphs[0].roots[0], tuple(graphs), subscriber)
    suggested = suggest(NAMED["min-bandwidth"], situation, request)
    assert node.decided is not None
    assert (node.decided.node, node.decided.reason) == (suggested.node, suggested.reason)


def test_deployment_is_the_same_for_the_same_seed() -> None:
    one, other = deploy(Random(5), 20, 8), deploy(Random(5), 20, 8)
    assert one.entries.detectors == other.entries.detectors
    assert one.entries.loads == other.entries.loads
    situation = Situation.of(one.entries, one.topology)
    assert len(situation.detectors) == 20
    assert situation.bytes_over_links > 0
    assert situation.busiest[1] > 0
    # Hosts measure what their detectors read.
    read = {source for load in one.entries.loads.values() for each in load.detectors.values() for source in each.inputs}
    assert read <= set(one.entries.sources) | set(one.entries.detectors)
    assert set(one.catalogue.plans) <= set(one.entries.detectors)

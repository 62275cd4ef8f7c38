"""`distced topology`, and the examples in its page."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from distced.middleware.cli.command import main
from distced.policies.topology.model import Place
from distced.policies.topology.topology_file import load_topology, parse_topology
from tests.support.pictures import needs_dot

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "topology.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the file of the page, and one where a name is misspelled."""
    monkeypatch.chdir(tmp_path)
    text = blocks("toml")[0]
    (tmp_path / "building.toml").write_text(text, encoding="utf-8")
    wrong = '[sites.floor-1]\n[sites.floor-2]\n[nodes.a]\nsite = "florr-1"\n'
    (tmp_path / "misspelled.toml").write_text(wrong, encoding="utf-8")
    return tmp_path


# The page.


@needs_dot
def test_documented_output_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared = 0
    for block in blocks("console"):
        for command, shown in re.findall(r"^\$ distced (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            given, _, file = command.partition(" > ")
            code = main(shlex.split(given))
            printed = capsys.readouterr()
            if file:
                (folder / file).write_text(printed.out, encoding="utf-8")
            if shown:
                said = (printed.out + printed.err).splitlines()
                assert [line.rstrip() for line in said] == shown.splitlines()
                compared += 1
            assert code == (2 if "error:" in shown else 0)
    assert compared == 2
    assert (folder / "metro.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_documented_topology_code_runs(folder: Path) -> None:
    topology = load_topology("building.toml")
    node, pda = topology.nodes["floor-2"], topology.subscribers["pda-jean"]
    path = topology.path(node.place, pda.place)
    assert (path.sites, path.latency, path.cost) == (("floor-2", "floor-1", "street"), 90_550_000, 21.0)
    assert path.bytes_over_links(1_000) == 2_000
    assert topology.tree(node.place, [pda.place, topology.nodes["floor-1-a"].place]).cost == 21.0
    assert topology.nearest_node(pda.place).name == "floor-1-a"
    assert topology.distances("latency")["floor-2"]["street"] == 60_400_000
    assert topology.site_of(Place("publisher", "badges-1")).name == "floor-1"
    names: dict[str, object] = {}
    for code in blocks("python"):
        exec(code, names)
    assert names["path"] == path


# The verb.


@needs_dot
def test_topology_verb_has_formats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(form: str) -> str:
        assert main(["topology", "building.toml", "--format", form]) == 0
        return capsys.readouterr().out

    assert parse_topology(printed("toml")) == load_topology("building.toml")
    assert ElementTree.fromstring(printed("svg")).tag.endswith("svg")
    assert printed("dot").startswith("digraph distced {")
    document = json.loads(printed("json"))
    assert document["notes"] == ["no broker node at street: nothing is detected there"]
    assert [site["name"] for site in document["sites"]] == ["floor-1", "floor-2", "street"]
    assert main(["topology", "building.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


@pytest.mark.parametrize("form", ["text", pytest.param("svg", marks=needs_dot), "dot", "mermaid", "json", "toml"])
def test_file_gets_printed_topology(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "building.toml", "--format", form]) == 0
    printed = capsys.readouterr().out
    assert main(["topology", "building.toml", "--format", form, "--out", "out"]) == 0
    assert capsys.readouterr().out == ""
    written = (folder / "out").read_text(encoding="utf-8")
    assert [line.rstrip() for line in printed.splitlines()] == written.splitlines()


def test_random_topology_goes_through_pipe(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["topology", "--random", "tree", "--sites", "4", "--nodes", "2", "--publishers", "3", "--seed", "5"]
    assert main([*arguments, "--subscribers", "1"]) == 0
    text = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["topology", "-"]) == 0
    assert capsys.readouterr().out.startswith("4 sites, 2 nodes, 3 publishers, 1 subscriber, 3 links\n")
    assert main([*arguments[:-1], "6", "--subscribers", "1"]) == 0
    assert capsys.readouterr().out != text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no topology is named"),
        (["building.toml", "--random", "star"], "both a file and --random"),
        (["building.toml", "--sites", "3", "--seed", "1"], "none is to be made: --sites, --seed"),
        (["nothing.toml"], "cannot read the topology: nothing.toml"),
        (["--random", "ring", "--sites", "2"], "too few sites for a ring: 2"),
        (["building.toml", "--format", "dot", "--out", "no/such/folder"], "cannot write the file"),
        (["--random", "mesh"], "mesh"),
    ],
)  # fmt: skip
def test_topology_verb_reports_errors(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_topology_verb_reports_errors_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "misspelled.toml", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["error"], report["given"], report["where"]) == (
        "TopologyError",
        "florr-1",
        "misspelled.toml, nodes.a",
    )

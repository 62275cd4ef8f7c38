"""`distced explain --policy`: where a policy would have the detectors of patterns, and what that would mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import compile_pattern
from distced.middleware.cli.command import main
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.policy import NAMED
from distced.policies.distribution.situation.situation import Situation
from distced.policies.explaining.deployment import entries_of
from distced.policies.explaining.explained import Explained, ExplainRequest
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology_file import topology_as_toml
from tests.support.deployments import PATTERNS
from tests.support.pictures import needs_dot, svg_texts

FLOORS = """\
[sites]
floor-1 = {}
floor-2 = {}
street = {}

[nodes]
cellar = { site = "floor-1", capacity = 1000 }
attic = { site = "floor-2", capacity = 1000 }

[publishers]
doors = { site = "floor-2", types = ["Door", "Motion"], rates = { Door = 1, Motion = 100 } }
clock = { site = "floor-1", types = ["Tick"], rates = { Tick = 1 } }

[subscribers]
facility = { site = "floor-1" }
pda = { site = "street" }

[[links]]
between = ["floor-1", "floor-2"]
latency = "5ms"
bandwidth = "20kB/s"

[[links]]
between = ["floor-1", "street"]
latency = "60ms"
cost = 20
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "floors.toml").write_text(FLOORS, encoding="utf-8")
    (tmp_path / "running.pattern").write_text("[Door] ; [Motion]\n", encoding="utf-8")
    return tmp_path


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments, "--topology", "floors.toml"]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained(capsys, *arguments, "--json"))
    return found


# What is shown.


def test_explanation_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    out = explained(capsys, "[Door] ; [Motion]", "--policy", "min-bandwidth", "--subscriber", "facility")
    lines = out.splitlines()
    assert lines[0] == "min-bandwidth, for facility at floor-1"
    assert lines[2].split() == ["detector", "action", "node", "site", "load", "finds", "sends", "detects"]
    assert re.match(r"c[0-9a-f]{6} +create +attic +floor-2 +.*/s  .*  \[Door\] ; \[Motion\]$", lines[3])
    links = [line for line in lines if "→" in line and "floor-2 →" in line]
    assert links[0].startswith("floor-2 → floor-1  0 B/s")
    assert " %" in links[0]
    assert any(line.startswith("delay") and "to facility, mean" in line for line in lines)
    assert "min-bandwidth: a new detector on attic" in out
    choices = lines[next(place for place, line in enumerate(lines) if "choices for" in line) + 1 :]
    assert choices[0].startswith("→  a new detector on attic ")
    assert choices[1].startswith("2  a new detector on cellar ")


def test_parts_are_below_their_reader(capsys: pytest.CaptureFixture[str]) -> None:
    out = explained(capsys, "[Door] ; [Motion] ; [Tick]", "--policy", "min-load", "--near", "street")
    assert out.startswith("min-load, for a subscriber at street\n")
    rows = out.partition("\n\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[0] for row in rows][1:] == ["└─"]
    assert rows[0].endswith("[Door] ; [Motion] ; [Tick]")
    assert rows[1].endswith("[Door] ; [Motion]")
    assert "to a subscriber at street, mean" in out


def test_running_detector_is_reused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--policy", "min-bandwidth", "--subscriber", "facility", "--running", "running.pattern")
    out = explained(capsys, "[Door] ; [Motion]", *arguments)
    assert re.search(r"^c[0-9a-f]{6} +reuse +attic ", out, re.MULTILINE)
    found = document(capsys, "[Door] ; [Motion]", *arguments)["policies"][0]
    assert [each["new"] for each in found["detectors"]] == [False]
    assert found["load_more"] == 0
    assert found["bytes_before"] > 0


def test_patterns_of_file_come_one_after_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.pattern").write_text(
        "[Door] ; [Motion] -> In()\n[In] ; [Tick] -> Late()\n[Door] ; [Motion] -> In()\n", encoding="utf-8"
    )
    arguments = ("--policy", "min-bandwidth", "--subscriber", "facility", "--subscriber", "pda")
    out = explained(capsys, "two.pattern", *arguments)
    assert re.findall(r"^pattern (\d): (.*)$", out, re.MULTILINE) == [
        ("1", "[Door] ; [Motion] -> In()"),
        ("2", "[In] ; [Tick] -> Late()"),
        ("3", "[Door] ; [Motion] -> In()"),
    ]
    found = document(capsys, "two.pattern", *arguments)["policies"][0]
    actions = [each["placed"][0]["action"] for each in found["patterns"]]
    assert actions == ["create", "create", "reuse"]
    # It reads the first by its name, wherever that is.
    assert any(flow["what"] == found["patterns"][0]["detector"] for flow in found["flows"])
    assert [each["name"] for each in found["patterns"][0]["subscribers"]] == ["facility", "pda"]


@needs_dot
def test_explanation_as_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("[Door] ; [Motion] ; [Tick]", "--policy", "min-load", "--near", "street")
    assert explained(capsys, *arguments, "--format", "svg", "--out", "found.svg") == ""
    texts = svg_texts((folder / "found.svg").read_text(encoding="utf-8"))
    assert texts[0] == "min-load: [Door] ; [Motion] ; [Tick]"
    # On a node, and cut to the box; over a link, and where it leads.
    assert sum(bool(re.match(r"\s+● c[0-9a-f]{6} \[Door\] ; \[Motion\]", text)) for text in texts) == 2
    assert any(re.match(r"→ street [\d.]+ k?B/s", text) for text in texts)
    assert "● new detector" in texts
    assert "◇ detector that runs already" not in texts

    for form in ("dot", "mermaid"):
        picture = explained(capsys, *arguments, "--format", form)
        assert len(re.findall(r"● c[0-9a-f]{6} ", picture)) == 2
        assert re.search(r"→ street [\d.]+ k?B/s", picture)

    running = (*arguments[:1], "--policy", "min-bandwidth", "--near", "street", "--running", "running.pattern")
    assert "detector that runs already" in explained(capsys, *("[Door] ; [Motion]", *running[1:]), "--format", "dot")


def test_policy_in_words_keeps_them_as_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("[Door] ; [Motion]", "--near", "street", "--policy")
    assert explained(capsys, *arguments, "none at-least-2 none 2").startswith("none at-least-2 none, for")
    assert explained(capsys, *arguments, "none maximum none 2").startswith("none maximum none 2, for")
    # The same point under its name.
    assert explained(capsys, *arguments, "full maximum none").startswith("min-load, for")


def test_types_are_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "types.toml").write_text("[types.Door]\nroom = 'string'\n", encoding="utf-8")
    (folder / "once.pattern").write_text("[Door] ; [Door] -> Twice()\n", encoding="utf-8")
    wanted = ["--policy", "all", *FACILITY, "--types", "types.toml", "--running", "once.pattern"]
    assert main(["explain", "[Door] ; [Motion]", *wanted]) == 2
    assert "unknown event type: Motion" in capsys.readouterr().err
    # What runs already publishes a type, too.
    assert main(["explain", "[Twice] ; [Door]", *wanted]) == 0


# Several policies.


def test_all_policies_are_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("[Door] ; [Motion]", "--policy", "all", "--subscriber", "facility")
    out = explained(capsys, *arguments)
    table = out.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert [row.split()[0] for row in table] == ["policy", *NAMED]
    assert table[-1].split()[1:3] == ["attic,", "cellar"] or table[-1].split()[1:3] == ["cellar,", "attic"]
    found = {each["policy"]: each for each in document(capsys, *arguments)["policies"]}
    assert list(found) == list(NAMED)
    delays = {name: each["patterns"][0]["subscribers"][0]["delay_ns"] for name, each in found.items()}
    assert delays["min-latency"] == min(delays.values())
    assert found["min-bandwidth"]["bytes_more"] == min(each["bytes_more"] for each in found.values())
    assert len(found["max-reliability"]["detectors"][0]["hosts"]) == 2
    assert "choices for" not in out
    assert explained(capsys, *arguments, "--verbose").count("choices for") == len(NAMED)


def test_failing_policy_does_not_stop_others(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("[Door] ; [Motion]", "--policy", "all", "--subscriber", "facility", "--on", "attic")
    out = explained(capsys, *arguments)
    assert re.search(r"^max-reliability  cannot$", out, re.MULTILINE)
    assert "2 replicas need as many nodes: 1 there: attic" in out
    found = document(capsys, *arguments)["policies"]
    assert found[-1]["error"]["problem"] == "2 replicas need as many nodes"
    assert all("error" not in each for each in found[:-1])
    assert {host["node"] for each in found[:-1] for host in each["detectors"][0]["hosts"]} == {"attic"}


# Hints, and what is wrong.


def test_hints_change_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("[Door] ; [Motion]", "--policy", "min-bandwidth", "--subscriber", "facility")

    def detector(*hints: str) -> dict[str, Any]:
        found: dict[str, Any] = document(capsys, *arguments, *hints)["policies"][0]["detectors"][0]
        return found

    assert detector()["hosts"][0]["node"] == "attic"
    assert detector("--avoid", "attic")["hosts"][0]["node"] == "cellar"
    assert detector("--on", "cellar")["hosts"][0]["node"] == "cellar"
    assert detector("--rate", "Motion=500")["expected"]["events"] == pytest.approx(501)
    assert detector("--selectivity", "0.5")["expected"]["rate"] == pytest.approx(0.5 * detector()["expected"]["events"])


FACILITY = ("--subscriber", "facility", "--topology", "floors.toml")

WRONG = [
    (("--policy", "min-latncy", *FACILITY), ("no distribution policy", "max-reliability, all", "did you mean min-lat")),
    (("--policy", "none maximum", *FACILITY), ("no distribution policy of this name", "or three words")),
    (("--policy", "min-load"), ("--policy goes with --topology FILE", "distced topology --random")),
    (("--policy", "min-load", "--topology", "none.toml"), ("cannot read the topology: none.toml",)),
    (
        ("--policy", "min-load", "--topology", "floors.toml"),
        ("no subscriber is named", "--subscriber facility | pda, --near floor-1"),
    ),
    (
        ("--policy", "min-load", "--topology", "floors.toml", "--subscriber", "facilty"),
        ("there is no subscriber of this name: facilty", "at floors.toml", "did you mean facility?"),
    ),
    (
        ("--policy", "min-load", "--topology", "floors.toml", "--near", "floor2"),
        ("there is no site of this name: floor2", "did you mean floor-2?"),
    ),
    (("--policy", "min-load", *FACILITY, "--on", "celar"), ("no node of this name", "did you mean cellar?")),
    (("--policy", "max-reliability", *FACILITY, "--avoid", "attic"), ("2 replicas need as many nodes", "cellar")),
    (("--policy", "min-load", *FACILITY, "--avoid", "attic", "--avoid", "cellar"), ("hints that leave no node",)),
    (("--policy", "min-load", *FACILITY, "--rate", "Door"), ("not a rate: Door", "TYPE=NUMBER")),
    (("--policy", "min-load", *FACILITY, "--running", "none.pattern"), ("no such pattern file: none.pattern",)),
    (("--policy", "min-load", *FACILITY, "--cuts"), ("options that do not go with --policy: --cuts",)),
    (("--policy", "min-load", *FACILITY, "--decomposition", "full"), ("do not go with --policy: --decomposition",)),
    (("--policy", "min-load", *FACILITY, "--verbose"), ("do not go with --policy: --verbose",)),
    (("--policy", "all", *FACILITY, "--format", "svg"), ("several policies are not drawn", "text, json")),
    (FACILITY, ("options for --policy, and none is named: --topology, --subscriber",)),
    (("--rate", "Door=2", "--selectivity", "1"), ("none is named: --rate, --selectivity",)),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(each) for each, _ in WRONG])
def test_explain_errors_name_remedy(
    arguments: tuple[str, ...], said: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "[Door] ; [Motion]", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    for each in said:
        assert each in shown.err


def test_all_policies_fail_alike(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bare.toml").write_text("[sites.a]\n[subscribers.s]\nsite = 'a'\n", encoding="utf-8")
    assert main(["explain", "[Door]", "--policy", "all", "--topology", "bare.toml"]) == 2
    assert "no broker node is there to host a detector" in capsys.readouterr().err


def test_unpublished_type_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explain", "[Dor] ; [Motion] -> In()", "--policy", "min-load", *FACILITY]
    assert main(arguments) == 0
    assert "note: the topology has no publisher of Dor (did you mean Door?)" in capsys.readouterr().err
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"][0].startswith("the topology has no publisher of Dor")


# The figures.


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2), st.sampled_from([*NAMED]))
def test_flows_add_up_to_what_links_carry(seed: int, patterns: list[str], policy: str) -> None:
    random = Random(seed)
    topology = random_topology(random.choice(RANDOM_KINDS), random, sites=5, nodes=5, publishers=6, subscribers=2)
    places = tuple(each.place for each in topology.subscribers.values())
    asked = ExplainRequest(tuple(map(compile_pattern, patterns)), places, Hints())
    found = Explained(NAMED[policy], asked, Situation.of(entries_of(topology), topology))
    by_link: dict[tuple[str, str], float] = {}
    for flow in found.flows():
        for link in zip(flow.sites, flow.sites[1:], strict=False):
            by_link[link] = by_link.get(link, 0.0) + flow.bytes
    if all(len(found.after.hosts(name)) == 1 for name in found.new) and len(set(patterns)) == len(patterns):
        assert {link: amount for link, amount in by_link.items() if amount} == pytest.approx(
            {(each.origin, each.target): each.more for each in found.links if each.more}
        )
    assert found.bytes_more == pytest.approx(found.after.bytes_over_links)
    assert found.load_more == pytest.approx(sum(found.after.load(node) for node in found.after.nodes))
    assert all(each >= 0 for each in found.delays)


@pytest.mark.parametrize("kind", RANDOM_KINDS)
def test_explanation_works_on_random_topologies(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = random_topology(kind, Random(3))  # type: ignore[arg-type]
    (folder / "random.toml").write_text(topology_as_toml(topology), encoding="utf-8")
    arguments = ["[A] ; [C]", "--policy", "all", "--topology", "random.toml", "--subscriber", "subscriber-1", "--json"]
    assert main(["explain", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert {host["node"] for each in found for host in each["detectors"][0]["hosts"]} <= topology.nodes.keys()

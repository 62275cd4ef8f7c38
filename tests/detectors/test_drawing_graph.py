"""Drawings of detector graphs: the view holds all of the graph, and every drawing shows all of the view."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from distced import simulations
from distced.detectors.compiler import Compiled, Consumption, compile_file, compile_publication
from distced.detectors.cutting.cut import cut, full, none
from distced.detectors.cutting.reuse import catalogue_of, plan_for_reuse
from distced.detectors.drawing.diagram import YELLOW, DiagramForm, drawn, fold
from distced.detectors.drawing.graph_drawing import graph_as_text, graph_diagram
from distced.detectors.explain.graph_view import ANY, GraphView, graph_view
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.cli.output import plain
from distced.middleware.model.errors import PatternError
from tests.support.pictures import needs_dot, overlapping, svg_texts
from tests.support.random_patterns import PatternMaker

FOLDER = Path(simulations.__file__).parent
FILES = sorted((*FOLDER.glob("recordings/*.pattern"), *FOLDER.glob("office/scenarios/*.pattern")))

SIX = "[A as a] ; [B where x > a.x as b] ; [C as c] ; [D where y == b.y] ; [E] ; [F] -> X(v = a.v)"
MEETING = "([BoardOn] [ [Pers][Pers]*[BoardOff] <= {Pers, BoardOff} ], [T <= {T, Login}]) @ T = 5min"
SIDES = "([A] ; [B]) & ([C] | [D] ; [A] ; [B]) ; [E] & ([A] ; [B]) within 5min by room -> P()"
THREE = "[A] ; [B] ; [C] -> X()\n[A] ; [B] ; [D] -> Y()\n[A] ; [B] -> Z()"
READERS = """
type Seen = Pers every 1min by (person, room)
[Seen as s] ; [Temp where temp < 15 and room == s.room] ; [Door where room == s.room] within 5min -> Cold(room = s.room)
[Cold] ; [Cold] ; [Alarm] by room -> Bad()
[Cold]{2} ; [any where x == 1] -> Worse()
[Bad] ; [Worse]
"""
TWICE = "[A] ; [B] ; [C] -> X()\n[B] ; [C] -> Y()\n[A] ; [B] ; [C] -> X()"
PATTERNS = {
    "one atom": "[A]",
    "six": SIX,
    "meeting": MEETING,
    "sides": SIDES,
    "three": THREE,
    "readers": READERS,
    "twice": TWICE,
    "quoted": "[A] ; [B where `an x` == '<&\"'] ; [A] by `the room` -> X(`by` = 1)",
    "long": "[A where aaaaaaaaaaaaaaaaaaaaa > 1 and bbbbbbbbbbbbbbbbbbbbbbb > 2 or " + "c" * 90 + " > 4] ; [B] ; [C]",
    "fan": "\n".join(f"[A] ; [B] ; [C{n}] -> X{n}()" for n in range(7)),
}

# What runs already, and what is new.
REUSED = {
    "a part": (THREE, "[E] ; [A] ; [B] ; [F] -> V()"),
    "parts of parts": (SIX, SIX.replace("X(v = a.v)", "V(w = a.v)")),
    "by name": (READERS, "[Bad as b] ; [Worse] ; [Seen] -> V()\n[Bad] ; [V]"),
    "all of it": (THREE, THREE),
    "nothing": (THREE, MEETING),
    "shared": (SIDES, "[A] ; [B] ; [F1] within 5min by room -> V()\n[A] ; [B] ; [F2] within 5min by room -> W()"),
}


def viewed(text: str, name: str = "full", consumption: Consumption = "ordered") -> GraphView:
    compiled = compile_file(text, consumption=consumption)
    return graph_view(compiled, cut(compiled, {"full": full, "none": none}[name]), name)


def reusing(there: str, new: str) -> GraphView:
    compiled = compile_file(new)
    return graph_view(compiled, plan_for_reuse(compiled, catalogue_of(compile_file(there))), "for-reuse")


def picture(view: GraphView, form: DiagramForm) -> str:
    shown = drawn(graph_diagram(view), form)
    assert isinstance(shown, str)
    return shown


def short(view: GraphView, id_: str) -> str:
    return view.detector(id_).body if any(each.id == id_ for each in view.detectors) else id_.removeprefix("-> ")


def flows(view: GraphView) -> list[tuple[str, str, str, str]]:
    """The flows, with the texts of detectors in the place of their ids."""
    return [(flow.kind, short(view, flow.source), short(view, flow.target), "; ".join(flow.carries))
            for flow in view.flows]  # fmt: skip


# The view.


def test_shared_prefixes_are_one_detector() -> None:
    view = viewed(THREE)
    assert view.summary() == "3 patterns, 4 detectors, 1 shared"
    assert [(each.body, each.serves if each.shared else 0, each.root) for each in view.detectors] == [
        ("[A] ; [B]", 3, False),
        ("[A] ; [B] ; [C]", 0, True),
        ("[A] ; [B] ; [D]", 0, True),
        ("[A] ; [B]", 0, True),
    ]
    assert view.inputs == ("A", "B", "C", "D")
    assert [each.text for each in view.publications] == ["X", "Y", "Z"]
    records = [flow for flow in flows(view) if flow[0] == "records"]
    assert records == [
        ("records", "[A] ; [B]", "[A] ; [B] ; [C]", "composite events; with records"),
        ("records", "[A] ; [B]", "[A] ; [B] ; [D]", "composite events; with records"),
        ("records", "[A] ; [B]", "[A] ; [B]", "composite events; with records"),
    ]
    assert ("events", "C", "[A] ; [B] ; [C]", "C") in flows(view)
    assert ("published", "[A] ; [B] ; [C]", "X", "composite events") in flows(view)


def test_flows_name_the_values_handed_on() -> None:
    handed_on = [flow[3] for flow in flows(viewed(SIX)) if flow[0] == "records"]
    assert handed_on == [
        "composite events; with records: x0, x1",
        "composite events; with records: x0, x1",
        "composite events; with records: x0",
        "composite events; with records: x0",
    ]


def test_composite_events_are_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "readers.pattern"
    path.write_text(READERS, encoding="utf-8")
    patterns = compile_source(read_source(path))
    view = graph_view(patterns.compiled, cut(patterns.compiled, full), "full", patterns.derived)
    assert view.inputs == ("Alarm", "Door", "Pers", "Temp", ANY)
    assert [flow for flow in flows(view) if flow[0] == "read"] == [
        ("read", "Cold", "[Cold] ; [Cold]", "Cold"),
        ("read", "Cold", "[Cold]{2} ; [any where x == 1]", "Cold"),
        ("read", "Bad", "[Bad] ; [Worse]", "Bad"),
        ("read", "Worse", "[Bad] ; [Worse]", "Worse"),
    ]
    part = next(each for each in view.detectors if not each.root)
    assert part.body == "[Seen as x0] ; [Temp where room == x0.room and temp < 15]"
    assert (part.key, part.window_ns, part.remarks()) == ((), 300_000_000_000, ["within 5min", "hands on x0"])
    assert ("events", "Pers", part.body, "Pers; throttled: Seen") in flows(view)
    (cold,) = (each for each in view.detectors if each.patterns == (0,))
    assert cold.publishes == "Cold(room = x0.room)"


def test_uncut_patterns_are_one_detector_each() -> None:
    view = viewed(THREE, "none")
    assert view.summary() == "3 patterns, 3 detectors"
    assert {flow.kind for flow in view.flows} == {"events", "published"}
    assert all(each.root for each in view.detectors)


def test_equal_patterns_are_one_detector() -> None:
    view = viewed(TWICE)
    assert [each.patterns for each in view.detectors if each.root] == [(0, 2), (1,)]
    assert [each.text for each in view.publications] == ["X", "Y"]


def test_patterns_by_epochs_are_not_cut() -> None:
    view = viewed(THREE, "full", "epoch")
    assert len(view.detectors) == 3
    assert [each.remarks() for each in view.detectors] == [["by epochs: not cut"]] * 3


def test_short_ids_distinguish_detectors() -> None:
    view = viewed("\n".join(f"[A{n}] ; [B] -> X{n}()" for n in range(60)))
    assert len({each.short for each in view.detectors}) == len(view.detectors) == 60
    assert all(each.id.startswith(each.short) for each in view.detectors)


# Drawings.


def words(view: GraphView) -> set[str]:
    """The words every drawing has to show; lines are broken, so that words are looked for."""
    said = [each.short for each in view.detectors]
    said += [each for detector in view.detectors for each in (detector.body, *detector.key)]
    said += [*view.inputs, *(each.text for each in view.publications)]
    return {word for text in said for word in re.findall(r"\w+", text) if len(word) < 30}


@needs_dot
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("how", ["none", "full"])
def test_every_form_shows_all_of_a_graph(name: str, how: str) -> None:
    view = viewed(PATTERNS[name], how)
    shown = {
        "text": plain(graph_as_text(view, 100)),
        "svg": " ".join(svg_texts(picture(view, "svg"))),
        "dot": picture(view, "dot"),
        "mermaid": picture(view, "mermaid"),
        "json": json.dumps(view.as_dict()),
    }
    for form, drawing in shown.items():
        assert not {word for word in words(view) if word not in drawing}, form


@pytest.mark.parametrize("name", PATTERNS)
def test_diagram_holds_every_detector_and_every_flow(name: str) -> None:
    view = viewed(PATTERNS[name])
    (group,) = graph_diagram(view).groups
    tooltips = [each.tooltip for each in group.nodes]
    for detector in view.detectors:
        assert tooltips.count(f"{detector.id}: {detector.text}") == 1
    assert len(group.nodes) == len(view.detectors) + len(view.inputs) + len(view.publications)
    ids = {each.id for each in group.nodes}
    for flow, edge in zip(view.flows, group.edges, strict=True):
        assert (edge.source.removeprefix("event "), edge.target) == (flow.source, flow.target)
        assert {edge.source, edge.target} <= ids
        assert {line.text for line in edge.lines} <= set(flow.carries)


def test_labels_say_what_boxes_do_not() -> None:
    (group,) = graph_diagram(viewed(SIX)).groups
    labels = {line.text for edge in group.edges for line in edge.lines}
    assert labels == {"with records: x0, x1", "with records: x0"}


@needs_dot
@pytest.mark.parametrize("name", REUSED)
def test_every_form_tells_what_runs_already(name: str) -> None:
    view = reusing(*REUSED[name])
    there = {each.id for each in view.detectors if each.running}
    rows = plain(graph_as_text(view, 100)).splitlines()
    (group,) = graph_diagram(view).groups
    nodes = {each.id: each for each in group.nodes}
    for each in view.detectors:
        said = [row.partition(each.short)[2] for row in rows if each.short in row]
        assert said
        assert {"runs already" in row for row in said} == {each.id in there}
        node = nodes[each.id]
        assert (node.look.dashed, "runs already" in node.lines[0].text) == (each.id in there,) * 2
    assert {each["id"] for each in view.as_dict()["detectors"] if each["running"]} == there
    # Beside each, and in the legend; the title counts them.
    for shown in ("\n".join(svg_texts(picture(view, "svg"))), picture(view, "mermaid")):
        assert len(re.findall(r"(?<!\d )runs already", shown)) == len(there) + bool(there)


def test_sharing_is_highlighted() -> None:
    def looks(text: str) -> set[tuple[bool, bool]]:
        view = viewed(text)
        ids = {each.id for each in view.detectors}
        (group,) = graph_diagram(view).groups
        return {(n.look.fill == YELLOW, n.look.width > 2) for n in group.nodes if n.id in ids}

    assert looks(THREE) == {(True, False), (False, True)}
    assert looks("[A] ; [B] ; [C]\n[A] ; [B]") == {(True, True), (False, True)}
    assert "shared by 3" in picture(viewed(THREE), "dot")
    assert "shared by" not in picture(viewed(SIX), "dot")


@needs_dot
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("how", ["none", "full"])
def test_nodes_do_not_overlap(name: str, how: str) -> None:
    assert overlapping(picture(viewed(PATTERNS[name], how), "dot")) == []


def test_graphs_of_random_patterns_are_drawn() -> None:
    made = 0
    for seed in range(80):
        random = Random(seed)
        compiled: list[Compiled] = []
        for _ in range(3):
            try:
                compiled.append(compile_publication(PatternMaker(random).publication(random.randrange(2, 8))))
            except PatternError:
                continue
        if not compiled:
            continue
        for choose in (full, none):
            view = graph_view(compiled, cut(compiled, choose), "full")
            assert all(each.short in picture(view, "dot") for each in view.detectors)
            assert len(plain(graph_as_text(view, 80)).splitlines()) > 3
            made += 1
    assert made > 100


def test_text_shows_the_tree_of_detectors() -> None:
    lines = plain(graph_as_text(viewed(THREE), 100)).splitlines()
    ids = [each.short for each in viewed(THREE).detectors]
    assert lines == [
        "decomposition full: 3 patterns, 4 detectors, 1 shared",
        "",
        "pattern 1: publishes X()",
        f"└── {ids[1]}   [A] ; [B] ; [C]",
        "    reads C",
        f"    └── {ids[0]}   shared by 3   [A] ; [B]",
        "        reads A, B",
        "",
        "pattern 2: publishes Y()",
        f"└── {ids[2]}   [A] ; [B] ; [D]",
        "    reads D",
        f"    └── {ids[0]}   shared by 3   as above",
        "",
        "pattern 3: publishes Z()",
        f"└── {ids[3]}   [A] ; [B]",
        f"    └── {ids[0]}   shared by 3   as above",
    ]


def test_long_patterns_are_wrapped_in_their_branch() -> None:
    lines = plain(graph_as_text(viewed(SIX), 90)).splitlines()
    detectors = [place for place, line in enumerate(lines) if "└── " in line]
    assert detectors
    assert all(len(line) <= 90 for line in lines)
    wrapped = [place + 1 for place in detectors if not re.match(" *(reads|hands)", lines[place + 1])]
    assert wrapped
    assert all(lines[place].startswith(" " * (lines[place - 1].index("└── ") + 4)) for place in wrapped)


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("[A] ; [B]", 20, ["[A] ; [B]"]),
        ("[A] ; [B] ; [C]", 10, ["[A] ; [B]", "  ; [C]"]),
        ("[A where x == 1 and y == 2]*", 14, ["[A", "  where x == 1", "  and y == 2]*"]),
        ("([A] [B], [T <= {T, B}]) @ T = 5s", 20, ["([A] [B],", "  [T <= {T, B}])", "  @ T = 5s"]),
        ("[A where x == 'a ; b ; c'] ; [B]", 28, ["[A where x == 'a ; b ; c']", "  ; [B]"]),
        ("x" * 25, 10, ["x" * 10, "  " + "x" * 8, "  " + "x" * 7]),
    ],
)
def test_text_is_folded_between_parts(text: str, columns: int, lines: Sequence[str]) -> None:
    assert fold(text, columns) == list(lines)


@pytest.mark.parametrize("columns", [12, 24, 40])
def test_folding_loses_nothing(columns: int) -> None:
    for seed in range(60):
        try:
            text = compile_publication(PatternMaker(Random(seed)).publication(6)).text
        except PatternError:
            continue
        lines = fold(text, columns)
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert max(map(len, lines)) <= columns
        assert fold(text, columns, 2) == (lines if len(lines) <= 2 else [lines[0], lines[1][: columns - 2] + " …"])


# The verb.


@needs_dot
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_graphs_of_shipped_pattern_files_are_drawn(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = compile_source(read_source(path))
    view = graph_view(patterns.compiled, cut(patterns.compiled, full), "full", patterns.derived)
    for form in ("text", "svg", "dot", "mermaid", "json"):
        arguments = ["explain", str(path), "--decomposition", "full", "--format", form]
        assert main(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert main([*arguments, "--force", "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out").read_text(encoding="utf-8") == shown.out
        assert all(each.short in shown.out for each in view.detectors)
        assert "`throttled" not in shown.out


def test_json_has_every_detector_and_flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "readers.pattern"
    path.write_text(READERS, encoding="utf-8")
    assert main(["explain", str(path), "--decomposition", "full", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"decomposition", "patterns", "inputs", "detectors", "publications", "flows"}
    assert report["decomposition"] == "full"
    by_id = {each["id"]: each for each in report["detectors"]}
    kinds = {
        "id": str, "text": str, "key": list, "window_ns": int | None, "consumption": str, "patterns": list,
        "publishes": str | None, "parts": list, "reads": list, "exports": list, "serves": int, "shared": bool,
        "running": bool, "manner": list,
    }  # fmt: skip
    for each in report["detectors"]:
        assert {name: isinstance(each[name], kind) for name, kind in kinds.items()} == dict.fromkeys(each, True)
        assert set(each["parts"]) <= set(by_id)
        assert each["shared"] == (each["serves"] > 1)
        for place in each["patterns"]:
            assert report["patterns"][place]["detector"] == each["id"]
    assert [set(each) for each in report["patterns"]] == [{"text", "detector"}] * 4
    assert [(each["id"], each["type"]) for each in report["publications"]][:3] == [
        ("-> Cold", "Cold"), ("-> Bad", "Bad"), ("-> Worse", "Worse")
    ]  # fmt: skip
    assert report["publications"][3]["type"] is None
    publications = {each["id"] for each in report["publications"]}
    ends = {
        "events": (set(report["inputs"]), set(by_id)),
        "records": (set(by_id), set(by_id)),
        "published": (set(by_id), publications),
        "read": (publications, set(by_id)),
    }
    assert {each["kind"] for each in report["flows"]} == set(ends)
    for flow in report["flows"]:
        assert set(flow) == {"kind", "from", "to", "carries"}
        sources, targets = ends[flow["kind"]]
        assert flow["from"] in sources
        assert flow["to"] in targets
        assert flow["carries"]
        if flow["kind"] == "records":
            assert flow["from"] in by_id[flow["to"]]["parts"]
        if flow["kind"] == "events":
            assert flow["from"] in by_id[flow["to"]]["reads"]


def test_dot_has_every_node_and_every_edge() -> None:
    view = viewed(READERS)
    drawing = picture(view, "dot")
    assert len(re.findall(r'^  "[^"]+" -> "[^"]+" \[label=', drawing, re.MULTILINE)) == len(view.flows)
    for detector in view.detectors:
        assert len(re.findall(rf'^  "{detector.id}" \[label=', drawing, re.MULTILINE)) == 1
    for flow in view.flows:
        source = f"event {flow.source}" if flow.kind == "events" else flow.source
        assert f'"{source}" -> "{flow.target}" [label=' in drawing
    assert drawing.count("{") == drawing.count("}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--decomposition", "some"], "'some'"),
        (["--decomposition"], "--decomposition"),
        (["--decomposition", "full", "--out", "/no/such/folder/x.dot", "--format", "dot"], "cannot write the file"),
        (["--decomposition", "full", "--cuts"], "ask for different things"),
    ],
)
def test_explain_refuses_invalid_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "[A] ; [B]", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert "Traceback" not in shown.err

"""Graphs of detectors made visible: the view says what there is, and every drawing shows all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from distced import simulations
from distced.detectors.compiler import Compiled, Consumption, compile_file, compile_publication
from distced.detectors.cutting import decomposition
from distced.detectors.cutting.graph import cut
from distced.detectors.cutting.reuse import catalogue_of, plan_for_reuse
from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.graph_document import graph_as_dict
from distced.detectors.drawing.graph_dot import graph_dot
from distced.detectors.drawing.graph_figure import graph_figure
from distced.detectors.drawing.graph_svg import MOST_DETECTORS, graph_svg
from distced.detectors.drawing.graph_text import graph_as_text
from distced.detectors.drawing.graph_view import ANY, Flow, GraphView, graph_view
from distced.detectors.drawing.shapes import Arrowhead, Panel, Point, Text, extent
from distced.detectors.drawing.shapes import Path as Line
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.model.errors import DistcedError, PatternError
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
    return graph_view(compiled, cut(compiled, getattr(decomposition, name)), name)


def reusing(there: str, new: str) -> GraphView:
    compiled = compile_file(new)
    return graph_view(compiled, plan_for_reuse(compiled, catalogue_of(compile_file(there))), "for-reuse")


def short(view: GraphView, id_: str) -> str:
    return view.detector(id_).body if any(each.id == id_ for each in view.detectors) else id_.removeprefix("-> ")


def flows(view: GraphView) -> list[tuple[str, str, str, str]]:
    """The flows, with the texts of detectors in the place of their ids."""
    return [(flow.kind, short(view, flow.source), short(view, flow.target), "; ".join(flow.label))
            for flow in view.flows]  # fmt: skip


# The view.


def test_shared_prefixes() -> None:
    view = viewed(THREE)
    assert view.summary() == "3 patterns, 4 detectors, 1 shared"
    assert [(each.body, each.serves, each.root) for each in view.detectors] == [
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


def test_what_records_hand_on() -> None:
    handed_on = [flow[3] for flow in flows(viewed(SIX)) if flow[0] == "records"]
    assert handed_on == [
        "composite events; with records: x0, x1",
        "composite events; with records: x0, x1",
        "composite events; with records: x0",
        "composite events; with records: x0",
    ]


def test_composite_events_read_by_their_name(tmp_path: Path) -> None:
    path = tmp_path / "readers.pattern"
    path.write_text(READERS, encoding="utf-8")
    patterns = compile_source(read_source(path))
    view = graph_view(patterns.compiled, cut(patterns.compiled, decomposition.full), "full", patterns.derived)
    assert view.inputs == ("Alarm", "Door", "Pers", "Temp", ANY)
    assert [flow for flow in flows(view) if flow[0] == "read"] == [
        ("read", "Cold", "[Cold] ; [Cold]", "Cold"),
        ("read", "Cold", "[Cold]{2} ; [any where x == 1]", "Cold"),
        ("read", "Bad", "[Bad] ; [Worse]", "Bad"),
        ("read", "Worse", "[Bad] ; [Worse]", "Worse"),
    ]
    part = next(each for each in view.detectors if not each.root)
    assert part.body == "[Seen as x0] ; [Temp where room == x0.room and temp < 15]"
    assert (part.key, part.window, part.remarks()) == ((), 300_000_000_000, ("within 5min",))
    assert ("events", "Pers", part.body, "Pers; thinned: Seen") in flows(view)
    (cold,) = (each for each in view.detectors if each.patterns == (0,))
    assert cold.output == "Cold(room = x0.room)"


def test_nothing_is_cut() -> None:
    view = viewed(THREE, "none")
    assert view.summary() == "3 patterns, 3 detectors"
    assert {flow.kind for flow in view.flows} == {"events", "published"}
    assert all(each.root for each in view.detectors)


def test_equal_patterns_are_one_detector() -> None:
    view = viewed(TWICE)
    assert [each.patterns for each in view.detectors if each.root] == [(0, 2), (1,)]
    assert [each.text for each in view.publications] == ["X", "Y"]


def test_by_epochs_nothing_is_cut() -> None:
    view = viewed(THREE, "full", "epoch")
    assert len(view.detectors) == 3
    assert {each.remarks() for each in view.detectors} == {("by epochs: not cut",)}


def test_short_ids_tell_detectors_apart() -> None:
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


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("how", ["none", "full"])
def test_every_drawing_shows_all_of_it(name: str, how: str) -> None:
    view = viewed(PATTERNS[name], how)
    drawings = {
        "text": "\n".join(line.plain for line in graph_as_text(view, 100)),
        "svg": " ".join(ElementTree.fromstring(graph_svg(view)).itertext()),
        "dot": graph_dot(view),
        "json": json.dumps(graph_as_dict(view)),
    }
    for form, drawing in drawings.items():
        assert not {word for word in words(view) if word not in drawing}, form


@pytest.mark.parametrize("name", PATTERNS)
def test_the_picture_holds_every_detector_and_every_flow(name: str) -> None:
    view = viewed(PATTERNS[name])
    root = ElementTree.fromstring(graph_svg(view))
    space = {"s": "http://www.w3.org/2000/svg"}
    panels = [each.findtext("s:title", "", space) for each in root.findall("s:rect", space)]
    lines = [each.findtext("s:title", "", space) for each in root.findall("s:path", space)]
    for detector in view.detectors:
        assert panels.count(f"{detector.id}: {detector.text}") == 1
    for flow in view.flows:
        assert lines.count(_line_title(flow)) == 1
    assert sum(bool(line) for line in lines) == len(view.flows)
    assert sum(bool(panel) for panel in panels) == len(view.detectors) + len(view.inputs) + len(view.publications)


def _line_title(flow: Flow) -> str:
    return f"{flow.source} → {flow.target}: {', '.join(flow.label)}"


@pytest.mark.parametrize("name", REUSED)
def test_every_drawing_tells_what_runs_already(name: str) -> None:
    view = reusing(*REUSED[name])
    there = {each.id for each in view.detectors if each.running}
    rows = [line.plain for line in graph_as_text(view, 100)]
    svg, dot, told = graph_svg(view), graph_dot(view), graph_as_dict(view)
    for each in view.detectors:
        state = "runs already" if each.id in there else "new"
        assert any(row.partition(each.short)[2].strip().startswith(state) for row in rows)
        (node,) = re.findall(rf'^  "{each.id}" \[label=.*', dot, re.MULTILINE)
        assert ("dashed" in node, "runs already" in node) == (each.id in there,) * 2
    assert {each["id"] for each in told["detectors"] if each["running"]} == there
    # Beside each, and in the legend.
    assert len(re.findall(r">runs already\b", svg)) == len(there) + bool(there)


def test_sharing_is_highlighted() -> None:
    looks = {each.look for each in graph_figure(viewed(THREE)) if isinstance(each, Panel)}
    assert looks == {"input", "publication", "shared", "root"}
    assert "shared by 3" in graph_svg(viewed(THREE))
    assert "shared by" not in graph_svg(viewed(SIX))
    looks = {each.look for each in graph_figure(viewed("[A] ; [B] ; [C]\n[A] ; [B]")) if isinstance(each, Panel)}
    assert looks == {"input", "publication", "shared root", "root"}


def _sampled(line: Line) -> list[Point]:
    """Points on a line, curves included."""
    found: list[Point] = []
    for letter, rest in re.findall(r"([MLC])([^MLC]+)", line.commands):
        points: list[Point] = []
        for pair in rest.split():
            x, y = pair.split(",")
            points.append((float(x), float(y)))
        if letter == "M":
            found.append(points[0])
            continue
        begin = found[-1]
        one, other, end = points if letter == "C" else (begin, points[0], points[0])
        for step in range(1, 41):
            t = step / 40
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            corners = (begin, one, other, end)
            found.append((sum(w * p[0] for w, p in zip(weights, corners, strict=True)),
                          sum(w * p[1] for w, p in zip(weights, corners, strict=True))))  # fmt: skip
    return found


Rectangle = tuple[float, float, float, float]


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _holds(outer: Rectangle, inner: Rectangle) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def check_layout(view: GraphView) -> None:
    """No text lies on another or on a line, and no line and no panel on another panel."""
    shapes = graph_figure(view)
    panels = [extent([each]) for each in shapes if isinstance(each, Panel)]
    inset = [(left + 1, top + 1, right - 1, bottom - 1) for left, top, right, bottom in panels]
    for one, other in combinations(panels, 2):
        assert not _overlap(one, other)
    texts = [(each.line.text, extent([each])) for each in shapes if isinstance(each, Text)]
    for (said, first), (also, second) in combinations(texts, 2):
        assert not _overlap((first[0], first[1] + 1, first[2], first[3] - 1), second), (said, also)
    labels = []
    for said, place in texts:
        on = [panel for panel in panels if _overlap(panel, place)]
        assert len(on) <= 1, said
        if on:
            assert _holds(on[0], place), said
        else:
            labels.append((said, place))
    assert sorted(said for said, _ in labels) == sorted(each for flow in view.flows for each in flow.label)
    for line in (each for each in shapes if isinstance(each, Line) and each.title):
        for x, y in _sampled(line):
            assert not any(left < x < right and top < y < bottom for left, top, right, bottom in inset), line.title
            for said, (left, top, right, bottom) in labels:
                assert not (left < x < right and top < y < bottom), (line.title, said)
    # Lines without a title are frames of detectors that run already, each around everything said of one.
    frames = [extent([each]) for each in shapes if isinstance(each, Line) and not each.title]
    assert len(frames) == view.running
    for frame in frames:
        (around,) = (panel for panel in panels if _overlap(panel, frame))
        assert _holds(around, frame)
        assert all(_holds(frame, place) for _, place in texts if _overlap(around, place))
    heads = [each for each in shapes if isinstance(each, Arrowhead)]
    assert len(heads) == len(view.flows)
    for head in heads:
        assert any(abs(head.x - left) < 0.1 and top < head.y < bottom for left, top, _, bottom in panels)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("how", ["none", "full"])
def test_nothing_lies_on_anything_else(name: str, how: str) -> None:
    check_layout(viewed(PATTERNS[name], how))


@pytest.mark.parametrize("name", REUSED)
def test_nothing_lies_on_what_runs_already(name: str) -> None:
    check_layout(reusing(*REUSED[name]))


def test_random_patterns_can_be_drawn() -> None:
    drawn = 0
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
        for choose in (decomposition.full, decomposition.none):
            view = graph_view(compiled, cut(compiled, choose), "full")
            check_layout(view)
            ElementTree.fromstring(graph_svg(view))
            assert len(list(graph_as_text(view, 80))) > 3
            drawn += 1
    assert drawn > 100


def test_everything_flows_to_the_right() -> None:
    for shape in graph_figure(viewed(READERS)):
        if isinstance(shape, Line):
            xs = [x for x, _ in _sampled(shape)]
            assert xs == sorted(xs)


def test_inputs_are_on_the_left_and_what_is_not_read_again_on_the_right() -> None:
    shapes = [each for each in graph_figure(viewed(READERS)) if isinstance(each, Panel)]
    assert len({each.x for each in shapes if each.look == "input"}) == 1
    assert min(shapes, key=lambda each: each.x).look == "input"
    assert max(shapes, key=lambda each: each.x).look == "publication"


def test_too_large_a_picture() -> None:
    text = " ; ".join(f"[A{n}]" for n in range(3))
    many = "\n".join(f"{text} ; [B{n}] -> X{n}()" for n in range(MOST_DETECTORS))
    with pytest.raises(DistcedError, match="too many detectors for a picture"):
        graph_svg(viewed(many))


def test_the_tree_in_a_terminal() -> None:
    lines = [line.plain.rstrip() for line in graph_as_text(viewed(THREE), 100)]
    ids = [each.short for each in viewed(THREE).detectors]
    assert lines == [
        "decomposition full: 3 patterns, 4 detectors, 1 shared",
        "",
        "detector       serves  reads  detects",
        "pattern 1: X()",
        f"└─ {ids[1]}             C      [A] ; [B] ; [C]",
        f"   └─ {ids[0]}  3       A, B   [A] ; [B]",
        "pattern 2: Y()",
        f"└─ {ids[2]}             D      [A] ; [B] ; [D]",
        f"   └─ {ids[0]}  3              as above",
        "pattern 3: Z()",
        f"└─ {ids[3]}                    [A] ; [B]",
        f"   └─ {ids[0]}  3              as above",
    ]


def test_long_patterns_are_wrapped_in_their_column() -> None:
    lines = [line.plain for line in graph_as_text(viewed(SIX), 90)]
    column = lines[2].index("detects")
    wrapped = [line for line in lines[4:] if line[:column].strip(" │└─") == ""]
    assert wrapped
    assert all(len(line) <= 90 for line in lines[4:])
    assert all(line[column:].strip() for line in lines[4:])


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("[A] ; [B]", 20, ["[A] ; [B]"]),
        ("[A] ; [B] ; [C]", 10, ["[A] ; [B]", "; [C]"]),
        ("[A where x == 1 and y == 2]*", 14, ["[A", "  where x == 1", "  and y == 2]*"]),
        ("([A] [B], [T <= {T, B}]) @ T = 5s", 20, ["([A] [B],", "  [T <= {T, B}])", "@ T = 5s"]),
        ("[A where x == 'a ; b ; c'] ; [B]", 28, ["[A where x == 'a ; b ; c']", "; [B]"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
    ],
)
def test_folding(text: str, columns: int, lines: Sequence[str]) -> None:
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
        assert fold(text, columns, 2) == (lines if len(lines) <= 2 else [lines[0], "…"])


# The verb.


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_the_pattern_files_that_come_with_it(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = compile_source(read_source(path))
    view = graph_view(patterns.compiled, cut(patterns.compiled, decomposition.full), "full", patterns.derived)
    check_layout(view)
    for form in ("text", "svg", "dot", "json"):
        arguments = ["explain", str(path), "--decomposition", "full", "--format", form]
        assert main(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out").read_text(encoding="utf-8") == shown.out
        assert all(each.short in shown.out for each in view.detectors)
        assert "`thinned" not in shown.out
        if form == "svg":
            ElementTree.fromstring(shown.out)


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "readers.pattern"
    path.write_text(READERS, encoding="utf-8")
    assert main(["explain", str(path), "--decomposition", "full", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"decomposition", "patterns", "inputs", "detectors", "publications", "flows"}
    assert told["decomposition"] == "full"
    by_id = {each["id"]: each for each in told["detectors"]}
    kinds = {
        "id": str, "text": str, "key": list, "window_ns": int | None, "consumption": str, "patterns": list,
        "publishes": str | None, "parts": list, "reads": list, "exports": list, "serves": int, "shared": bool,
        "running": bool,
    }  # fmt: skip
    for each in told["detectors"]:
        assert {name: isinstance(each[name], kind) for name, kind in kinds.items()} == dict.fromkeys(each, True)
        assert set(each["parts"]) <= set(by_id)
        assert each["shared"] == (each["serves"] > 1)
        for place in each["patterns"]:
            assert told["patterns"][place]["detector"] == each["id"]
    assert [set(each) for each in told["patterns"]] == [{"text", "detector"}] * 4
    assert [(each["id"], each["type"]) for each in told["publications"]][:3] == [
        ("-> Cold", "Cold"), ("-> Bad", "Bad"), ("-> Worse", "Worse")
    ]  # fmt: skip
    assert told["publications"][3]["type"] is None
    publications = {each["id"] for each in told["publications"]}
    ends = {
        "events": (set(told["inputs"]), set(by_id)),
        "records": (set(by_id), set(by_id)),
        "published": (set(by_id), publications),
        "read": (publications, set(by_id)),
    }
    assert {each["kind"] for each in told["flows"]} == set(ends)
    for flow in told["flows"]:
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
    drawing = graph_dot(view)
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
        (["--decomposition", "full", "--out", "/no/such/folder/x.svg", "--format", "svg"], "cannot write the file"),
        (["--decomposition", "full", "--cuts"], "ask for different things"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A] ; [B]", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert "Traceback" not in shown.err

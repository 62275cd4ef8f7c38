"""Drawings of patterns: the view holds all of the automaton, and every drawing shows all of the view."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import msgspec
import pytest

from distced import simulations
from distced.detectors.compiler import compile_file, compile_pattern, compile_publication
from distced.detectors.drawing.automaton_drawing import automata_diagram, pattern_as_text
from distced.detectors.drawing.diagram import Diagram, DiagramForm, drawn, form_of
from distced.detectors.explain.automaton_view import AutomatonView, outline, view_of
from distced.detectors.language.parser import parse_pattern
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.cli.output import plain
from distced.middleware.model.errors import PatternError
from tests.support.pictures import needs_dot, overlapping, svg_texts
from tests.support.random_patterns import PatternMaker

FOLDER = Path(simulations.__file__).parent
FILES = sorted((*FOLDER.glob("recordings/*.pattern"), *FOLDER.glob("office/scenarios/*.pattern")))

PATTERNS = [
    "[A]",
    "[A] ; [B] [C]",
    "[A] | [B]",
    "[A] ([B] | [C])",
    "([A] | [B][D])+ [C]",
    "[A] ; ~[B]* [B]",
    "[A][A <= {A, B}]*[C]",
    "[A] & [B] ; [C]",
    "([A] & ([B] & [C])) ; [D] within 5min by room -> Out()",
    "([A], [B <= {B, T}]) @ T = 1h",
    "(([A], [B <= {B, T1}]) @ T1 = 5s, [T2 <= {T2, C}]) @ T2 = at 19:00",
    "init n = 0 : [P as p set n = n + p.price]+ [Q where x > n] by s",
    "[A as a] ([B] [C] within 3s by room) [D where x > a.x <= {any - E}]",
    "([A] ; [B] [C])+ [D]",
    "([A] ([B] | [C] | [D])+ [E])+ ; [F]",
    "[A]{2,4} ; [B] within 5s",
    "[B][!B <= any][B]",
]


def viewed(text: str) -> AutomatonView:
    return view_of(compile_pattern(text))


def diagram(text: str) -> Diagram:
    return automata_diagram([(text, viewed(text))])


def picture(text: str, form: DiagramForm) -> str:
    shown = drawn(diagram(text), form)
    assert isinstance(shown, str)
    return shown


# The view.


def test_view_shows_the_states_of_scenario_1() -> None:
    view = viewed(
        "([Seen] | [Door], [Temp where (temp < 15) as t <= {Temp where temp < 15, T}]) @ T = 5min by room "
        "-> ColdRoom(room = t.room, temp = t.temp)"
    )
    assert view.starts == ("q0", "q1")
    assert view.key == ("room",)
    waiting, cold = view.states[2], view.states[3]
    assert (waiting.sets_off, waiting.generative, waiting.emits) == (("T = 5min",), True, None)
    assert waiting.domain == "{Temp where temp < 15, T}"
    assert waiting.fails == "T"
    assert cold.emits == "ColdRoom(room, temp)"
    assert (cold.domain, cold.moves) == (None, ())
    (move,) = waiting.moves
    assert (move.label, move.binds, move.strong, move.to) == ("Temp where temp < 15", "t", False, ("q3",))


@pytest.mark.parametrize(
    ("text", "state", "domain", "fails"),
    [
        ("[A, B <= {A, B, C where x == 1}]", 0, "{A, B, C where x == 1}", "C where x == 1"),
        ("[A where x == 1 <= {A}]", 0, "A", "any other A"),
        ("[A where x == 1 or x == 2 <= {A where x == 2 or x == 1}]", 0, "A where x == 2 or x == 1", ""),
        ("[!B <= any]", 0, "any", "B"),
        ("[any - {A, B} <= any - A]", 0, "any - A", "B"),
        ("[A <= any]", 0, "any", "any other event"),
        ("[A] [B]* [C]", 1, "{B, C}", ""),
        ("([A], [any <= {any, T}]) @ T = 5s", 1, "{any, T}", "T"),
        ("([A], [T <= any]) @ T = 5s", 1, "{any, T}", "any other event"),
    ],
)
def test_view_shows_domains_and_failing_events(text: str, state: int, domain: str, fails: str) -> None:
    shown = viewed(text).states[state]
    assert (shown.domain, shown.fails or "") == (domain, fails)


def test_view_tells_forks_loops_hidden_moves_and_strength() -> None:
    states = {state.name: state for state in viewed("[A] ([B] | [C]) ; ~[D]+ [E]").states}
    fork = states["q0"].moves[0]
    assert (len(fork.to), fork.forks) == (2, True)
    (strong,) = states[states[fork.to[0]].moves[0].to[0]].moves
    assert (strong.label, strong.strong, strong.hidden) == ("D", True, True)
    again = next(move for move in states[strong.to[0]].moves if move.hidden)
    assert again.to == strong.to


def test_view_shows_inner_windows_keys_and_registers() -> None:
    view = viewed("init n = 0 : [A set n = n + 1] ([B] [C] within 3s by room)")
    assert view.registers == ("n = 0",)
    first, second = view.states[0].moves[0], view.states[1].moves[0]
    assert first.sets == ("n = n + 1",)
    assert second.opens == ("within 3s begins", "by room begins")
    inside = next(state for state in view.states if state.name == second.to[0])
    assert (inside.windows, inside.keys) == (("within 3s",), ("by room",))


def test_sides_are_automata_of_their_own() -> None:
    view = viewed("[A] & ([B] & [C])")
    assert [each.title for each in view.every()] == ["pattern", "side 1", "side 2", "side 2.1", "side 2.2"]
    assert {move.label for state in view.states for move in state.moves} == {"side 1", "side 2"}
    assert view.sides[1].states[0].domain == "{side 2.1, side 2.2}"
    assert view.sides[0].states[-1].emits == "side 1"


def test_throttled_types_have_their_names(tmp_path: Path) -> None:
    path = tmp_path / "seen.pattern"
    path.write_text(
        "type Seen = Pers every 1min by room\n[Seen where room == 'x'] [Seen, Door where x == 1] -> X()",
        encoding="utf-8",
    )
    patterns = compile_source(read_source(path))
    view = view_of(patterns.compiled[0], patterns.derived)
    labels = [move.label for state in view.states for move in state.moves]
    assert labels == ["Seen where room == 'x'", "Seen, Door where x == 1"]
    (move,) = view_of(patterns.compiled[0]).states[1].moves
    assert move.label == "Pers every 1min by (room), Door where x == 1"


# The tree.


def test_tree_of_a_pattern_has_a_line_for_each_node() -> None:
    compiled = compile_pattern("([A] | ~[B]+, [T <= {T, C}]) @ T = 5min within 1h")
    lines = plain(pattern_as_text(compiled, view_of(compiled))).splitlines()
    assert lines[3 : lines.index("", 3)] == [
        "within 1h",
        "└── the time event T comes 5min after the end of the first",
        "    ├── first: either ( | ), an instance for each branch",
        "    │   ├── [A]",
        "    │   └── hidden ( ~ ): what it matches is no constituent",
        "    │       └── once or more ( + )",
        "    │           └── [B]",
        "    └── then, with T: [T <= {T, C}]",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[A]*", "any number of times ( * )"),
        ("[A]{3}", "3 times"),
        ("[A]{1}", "once"),
        ("[A]{0,1}", "once or not at all"),
        ("[A]{2,5}", "2 to 5 times"),
        ("[A]{2,}", "2 times or more"),
        ("init n = 0, `by` = 1 : [A]", "registers: n = 0, `by` = 1"),
        ("[ [A] <= {B, C} ]", "every state inside also looks at {B, C}"),
        ("([A], [T]) @ T = at 19:00", "the time event T comes at 19:00"),
        ("[A] by (k, m)", "by k, m: for each value on its own"),
    ],
)
def test_nodes_of_the_tree_have_words(text: str, words: str) -> None:
    assert outline(parse_pattern(text)).text == words


# Drawings.


def texts(view: AutomatonView) -> set[str]:
    """The words every drawing of this automaton has to show."""
    said = {word for each in view.every() for state in each.states for word in (state.name, *state.sets_off)}
    moves = [move for each in view.every() for state in each.states for move in state.moves]
    return said | {word for move in moves for word in re.findall(r"\w+", move.label)}


@needs_dot
@pytest.mark.parametrize("text", PATTERNS)
def test_every_form_shows_all_of_an_automaton(text: str) -> None:
    compiled = compile_pattern(text)
    view = view_of(compiled)
    shown = {
        "text": plain(pattern_as_text(compiled, view)),
        "svg": " ".join(svg_texts(picture(text, "svg"))),
        "dot": picture(text, "dot"),
        "mermaid": picture(text, "mermaid"),
        "json": json.dumps(msgspec.to_builtins(view), ensure_ascii=False),
    }
    for name, drawing in shown.items():
        # Long labels are broken into lines, so that what is looked for are words.
        missing = {word for each in texts(view) for word in re.findall(r"\w+", each) if word not in drawing}
        assert not missing, name


@pytest.mark.parametrize("text", PATTERNS)
def test_diagram_has_an_arrow_for_every_move_and_a_box_for_every_state(text: str) -> None:
    for view, group in zip(viewed(text).every(), diagram(text).groups, strict=True):
        boxes = [each for each in group.nodes if each.lines]
        assert [each.lines[0].text for each in boxes] == [state.name for state in view.states]
        assert [each.look.double for each in boxes] == [bool(state.emits) for state in view.states]
        moves = {(state.name, move.to, move.strong) for state in view.states for move in state.moves}
        forks = sum(len(targets) > 1 for _, targets, _ in moves)
        assert len(group.nodes) == len(view.states) + len(view.starts) + forks
        heads = [each for each in group.edges if each.heads]
        assert len(heads) == len(view.starts) + sum(len(targets) for _, targets, _ in moves)
        assert sum(each.look.width > 2 for each in heads) == sum(len(targets) for _, targets, strong in moves if strong)
        ids = {each.id for each in group.nodes}
        assert all({each.source, each.target} <= ids for each in group.edges)


@pytest.mark.parametrize("text", PATTERNS)
def test_edges_that_lead_on_have_no_cycle(text: str) -> None:
    for group in diagram(text).groups:
        ahead = {(each.source, each.target) for each in group.edges if not each.back and each.source != each.target}
        left = {each.id for each in group.nodes}
        while free := left - {target for source, target in ahead if source in left}:
            left -= free
        assert not left


@needs_dot
@pytest.mark.parametrize("text", PATTERNS)
def test_nodes_do_not_overlap(text: str) -> None:
    assert overlapping(picture(text, "dot")) == []


@pytest.mark.parametrize("form", [pytest.param("svg", marks=needs_dot), "dot", "mermaid"])
def test_random_patterns_are_drawn(form: DiagramForm) -> None:
    made = 0
    for seed in range(40 if form == "svg" else 300):
        random = Random(seed)
        try:
            compiled = compile_publication(PatternMaker(random).publication(random.randrange(1, 8)))
        except PatternError:
            continue
        view = view_of(compiled)
        shown = drawn(automata_diagram([(compiled.text, view)]), form)
        assert isinstance(shown, str)
        assert len(svg_texts(shown) if form == "svg" else shown.splitlines()) > 4
        assert len(list(pattern_as_text(compiled, view))) > 4
        made += 1
    assert made > (20 if form == "svg" else 150)


@needs_dot
def test_text_in_drawings_is_escaped() -> None:
    text = "[A where x < 3 and y == '<&\"\\\\>'] | [B]"
    assert "'<&\"" in "".join(svg_texts(picture(text, "svg")))
    assert "&lt;&amp;" in picture(text, "dot")
    assert "'#60;#38;#34;" in picture(text, "mermaid")


def test_mermaid_has_every_edge_with_its_stroke() -> None:
    shown = picture("[A] ; ~[B]* ([C] | [D])", "mermaid")
    assert shown.count("\nflowchart LR\n") == 1
    edges = re.findall(r"^  n\d+ (<?(?:-\.->?|==+>?|--+>?))(?:\|.*?\|)? n\d+$", shown, re.MULTILINE)
    assert len(edges) == len(diagram("[A] ; ~[B]* ([C] | [D])").groups[0].edges)
    assert {"-->", "==>", "-.->", "==="} <= set(edges)


@needs_dot
def test_png_is_an_image() -> None:
    image = drawn(diagram("[A] ; [B]"), "png")
    assert isinstance(image, bytes)
    assert image.startswith(b"\x89PNG")


def test_form_of_a_file_goes_by_its_name() -> None:
    assert [form_of(Path(name)) for name in ("a.png", "a.gv", "a.DOT", "a.mmd", "a.svg", "a")] == [
        "png", "dot", "dot", "mermaid", "svg", "svg",
    ]  # fmt: skip


def test_picture_without_graphviz_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["explain", "[A]", "--format", "svg"]) == 2
    said = capsys.readouterr().err
    for wanted in ("Graphviz is not installed", "--format svg", "apt install graphviz", "--format mermaid"):
        assert wanted in " ".join(said.split())
    assert main(["explain", "[A]", "--format", "dot"]) == 0
    assert main(["explain", "[A]", "--format", "mermaid"]) == 0


# The verb.


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
@pytest.mark.parametrize("form", ["text", pytest.param("svg", marks=needs_dot), "dot", "mermaid", "json"])
def test_shipped_pattern_files_are_drawn(
    path: Path, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(path), "--format", form]) == 0
    shown = capsys.readouterr()
    assert main(["explain", str(path), "--format", form, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == shown.out
    for each in compile_file(path.read_text(encoding="utf-8")):
        assert each.automaton.canonical_id in shown.out
    assert "throttled" not in shown.out


def test_json_is_the_same_by_option_and_by_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A] ([B] | [C])", "--json"]) == 0
    by_option = capsys.readouterr().out
    assert main(["explain", "[A] ([B] | [C])", "--format", "json"]) == 0
    assert capsys.readouterr().out == by_option
    (report,) = json.loads(by_option)["patterns"]
    move = report["automaton"]["states"][0]["moves"][0]
    assert (move["label"], move["to"], move["forks"], move["strong"]) == ("A", ["q1", "q2"], True, False)
    assert report["tree"]["parts"][1]["kind"] == "alternation"


def test_unwritable_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A]", "--out", "/no/such/folder/x.dot", "--format", "dot"]) == 2
    assert "cannot write the file" in capsys.readouterr().err


def test_explain_checks_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "types.toml").write_text("[types.A]\n", encoding="utf-8")
    assert main(["explain", "[B]", "--types", str(tmp_path / "types.toml")]) == 2
    assert "unknown event type: B" in capsys.readouterr().err

"""Patterns made visible: the view says what the automaton is, and every drawing shows all of it."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from distced import simulations
from distced.detectors.compiler import compile_file, compile_pattern, compile_publication
from distced.detectors.drawing.automaton_text import pattern_as_text
from distced.detectors.drawing.automaton_view import AutomatonView, view_of
from distced.detectors.drawing.dot import dot
from distced.detectors.drawing.figure import figure
from distced.detectors.drawing.json_documents import pattern_as_dict
from distced.detectors.drawing.layout import Box, connect, place, ranks
from distced.detectors.drawing.outline import outline, outline_lines
from distced.detectors.drawing.shapes import Arrowhead, Circle, Text, extent
from distced.detectors.drawing.shapes import Path as Line
from distced.detectors.drawing.svg import svg
from distced.detectors.language.parser import parse_pattern
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.command import main
from distced.middleware.model.errors import PatternError
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


def every(view: AutomatonView) -> list[AutomatonView]:
    return [view, *(each for side in view.sides for each in every(side))]


# The view.


def test_the_states_of_scenario_1() -> None:
    view = viewed(
        "([Seen] | [Door], [Temp where (temp < 15) as t <= {Temp where temp < 15, T}]) @ T = 5min by room "
        "-> ColdRoom(room = t.room, temp = t.temp)"
    )
    assert view.starts == (0, 1)
    assert view.key == ("room",)
    waiting, cold = view.states[2], view.states[3]
    assert (waiting.arms, waiting.generative, waiting.emits) == (("T = 5min",), True, "")
    assert waiting.domain == "{Temp where temp < 15, T}"
    assert waiting.fails == "T"
    assert cold.emits == "ColdRoom(room, temp)"
    assert (cold.domain, view.moves_of(3)) == ("", ())
    (move,) = view.moves_of(2)
    assert (move.label, move.binds, move.strong, move.targets) == ("Temp where temp < 15", "t", False, (3,))


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
def test_domains_and_what_fails(text: str, state: int, domain: str, fails: str) -> None:
    shown = viewed(text).states[state]
    assert (shown.domain, shown.fails) == (domain, fails)


def test_forks_loops_hidden_and_strength() -> None:
    view = viewed("[A] ([B] | [C]) ; ~[D]+ [E]")
    fork = view.moves_of(0)[0]
    assert len(fork.targets) == 2
    (strong,) = view.moves_of(view.moves_of(fork.targets[0])[0].targets[0])
    assert (strong.label, strong.strong, strong.hidden) == ("D", True, True)
    again = next(move for move in view.moves_of(strong.targets[0]) if move.hidden)
    assert again.targets == (strong.targets[0],)


def test_windows_keys_and_registers_inside() -> None:
    view = viewed("init n = 0 : [A set n = n + 1] ([B] [C] within 3s by room)")
    assert view.registers == ("n = 0",)
    first, second = view.moves_of(0)[0], view.moves_of(1)[0]
    assert first.sets == ("n = n + 1",)
    assert second.opens == ("within 3s begins", "by room begins")
    inside = view.states[second.targets[0]]
    assert (inside.windows, inside.keys) == (("within 3s",), ("by room",))


def test_sides_are_automata_of_their_own() -> None:
    view = viewed("[A] & ([B] & [C])")
    assert [each.title for each in every(view)] == ["pattern", "side 1", "side 2", "side 2.1", "side 2.2"]
    assert {move.label for move in view.moves} == {"side 1", "side 2"}
    assert view.sides[1].states[0].domain == "{side 2.1, side 2.2}"
    assert view.sides[0].states[-1].emits == "side 1"


def test_thinned_types_have_their_names(tmp_path: Path) -> None:
    path = tmp_path / "seen.pattern"
    path.write_text(
        "type Seen = Pers every 1min by room\n[Seen where room == 'x'] [Seen, Door where x == 1] -> X()",
        encoding="utf-8",
    )
    patterns = compile_source(read_source(path))
    view = view_of(patterns.compiled[0], patterns.derived)
    assert [move.label for move in view.moves] == ["Seen where room == 'x'", "Seen, Door where x == 1"]
    assert view_of(patterns.compiled[0]).moves[1].label == "Pers every 1min by (room), Door where x == 1"


# The tree.


def test_the_outline_of_a_pattern() -> None:
    lines = outline_lines(outline(parse_pattern("([A] | ~[B]+, [T <= {T, C}]) @ T = 5min within 1h")))
    assert [branches + (f"{node.role}: " if node.role else "") + node.text for branches, node in lines] == [
        "within 1h",
        "└─ the time event T comes 5min after the end of the first",
        "   ├─ first: either ( | ), an instance for each branch",
        "   │  ├─ [A]",
        "   │  └─ hidden ( ~ ): what it matches is no constituent",
        "   │     └─ once or more ( + )",
        "   │        └─ [B]",
        "   └─ then, with T: [T <= {T, C}]",
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
def test_what_nodes_are_called(text: str, words: str) -> None:
    assert outline(parse_pattern(text)).text == words


# Drawings.


def texts(view: AutomatonView) -> set[str]:
    """The words every drawing of this automaton has to show."""
    said = {word for each in every(view) for state in each.states for word in (state.name, *state.arms)}
    return said | {word for each in every(view) for move in each.moves for word in re.findall(r"\w+", move.label)}


@pytest.mark.parametrize("text", PATTERNS)
def test_every_drawing_shows_all_of_it(text: str) -> None:
    compiled = compile_pattern(text)
    view = view_of(compiled)
    drawings = {
        "text": "\n".join(line.plain for line in pattern_as_text(compiled, view)),
        "svg": " ".join(ElementTree.fromstring(svg([(text, view)])).itertext()),
        "dot": dot([(text, view)]),
        "json": json.dumps(pattern_as_dict(compiled, view)),
    }
    for name, drawing in drawings.items():
        # Long labels are broken into lines, so that what is looked for are words.
        missing = {each for each in texts(view) if not all(word in drawing for word in each.split())}
        assert not missing, name


@pytest.mark.parametrize("text", PATTERNS)
def test_an_arrow_for_every_way_on_and_a_circle_for_every_state(text: str) -> None:
    view = viewed(text)
    shapes = figure(view)
    circles = [each for each in shapes if isinstance(each, Circle)]
    assert len(circles) == len(view.states)
    assert [each.emits for each in circles] == [bool(state.emits) for state in view.states]
    ways = {(move.source, move.targets, move.strong) for move in view.moves}
    arrows = [each for each in shapes if isinstance(each, Arrowhead)]
    assert sum(each.stroke == "plain" for each in arrows) == len(view.starts)
    assert len(arrows) - len(view.starts) == sum(len(targets) for _, targets, _ in ways)
    assert sum(each.stroke == "strong" for each in arrows) == sum(len(t) for _, t, strong in ways if strong)
    # Every arrow ends on the rim of a state.
    for arrow in arrows:
        distances = [((arrow.x - c.x) ** 2 + (arrow.y - c.y) ** 2) ** 0.5 - c.radius for c in circles]
        assert min(map(abs, distances)) < 0.5


def _rectangle(shape: Text | Circle) -> tuple[float, float, float, float]:
    left, top, right, bottom = extent([shape])
    return left + 0.5, top + 0.5, right - 0.5, bottom - 0.5


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("text", PATTERNS)
def test_no_text_lies_on_another_or_on_a_state(text: str) -> None:
    shapes = figure(viewed(text))
    circles = [_rectangle(each) for each in shapes if isinstance(each, Circle)]
    labels = [(each.line.text, _rectangle(each)) for each in shapes if isinstance(each, Text)]
    for (one, first), (other, second) in combinations(labels, 2):
        assert not _overlap(first, second), (one, other)
    for said, label in labels:
        on = [circle for circle in circles if _overlap(label, circle)]
        assert len(on) == (1 if re.fullmatch(r"q\d+", said) else 0), said


def test_random_patterns_can_be_drawn() -> None:
    drawn = 0
    for seed in range(300):
        random = Random(seed)
        try:
            compiled = compile_publication(PatternMaker(random).publication(random.randrange(1, 8)))
        except PatternError:
            continue
        view = view_of(compiled)
        root = ElementTree.fromstring(svg([(compiled.text, view)]))
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for shape in figure(view):
            assert all(abs(number) < 1e5 for number in extent([shape]))
        assert (width > 0, height > 0) == (True, True)
        assert len(list(pattern_as_text(compiled, view))) > 4
        drawn += 1
    assert drawn > 150


def test_lines_that_lead_back_run_above_what_they_pass() -> None:
    shapes = figure(viewed("([A] ; [B] [C])+ [D]"))
    highest = min(y for each in shapes if isinstance(each, Line) for _, y in each.points)
    assert highest < min(each.y - each.radius for each in shapes if isinstance(each, Circle))


def test_layers_are_longest_paths_without_what_leads_back() -> None:
    assert ranks(4, [0], [(0, 1), (1, 2), (0, 2), (2, 1), (2, 3), (3, 3)]) == [0, 1, 2, 3]
    assert ranks(3, [0, 1], [(0, 2), (1, 2)]) == [0, 0, 1]


def test_boxes_of_a_layer_keep_their_distance() -> None:
    boxes = [Box(5, 5, 10, 10) for _ in range(3)] + [Box(5, 5, 10, 30, layer=1) for _ in range(3)]
    for left in boxes[:3]:
        for right in boxes[3:]:
            connect(left, right)
    place(boxes)
    for layer in (boxes[:3], boxes[3:]):
        ordered = sorted(layer, key=lambda box: box.y)
        assert all(a.y + a.down < b.y - b.up for a, b in pairwise(ordered))
    assert max(box.x + box.right for box in boxes[:3]) < min(box.x - box.left for box in boxes[3:])


def test_text_in_drawings_is_escaped() -> None:
    text = "[A where x < 3 and y == '<&\"\\\\>'] | [B]"
    compiled = compile_pattern(text)
    root = ElementTree.fromstring(svg([(compiled.text, view_of(compiled))]))
    assert "'<&\"" in "".join(root.itertext())
    assert '\\"' in dot([(compiled.text, view_of(compiled))])


# The verb.


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
@pytest.mark.parametrize("form", ["text", "svg", "dot", "json"])
def test_the_pattern_files_that_come_with_it(
    path: Path, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(path), "--format", form]) == 0
    shown = capsys.readouterr()
    assert main(["explain", str(path), "--format", form, "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == shown.out
    for each in compile_file(path.read_text(encoding="utf-8")):
        assert each.automaton.canonical_id in shown.out
    assert "thinned" not in shown.out


def test_json_is_the_same_by_option_and_by_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A] ([B] | [C])", "--json"]) == 0
    by_option = capsys.readouterr().out
    assert main(["explain", "[A] ([B] | [C])", "--format", "json"]) == 0
    assert capsys.readouterr().out == by_option
    (told,) = json.loads(by_option)["patterns"]
    move = told["automaton"]["states"][0]["moves"][0]
    assert (move["label"], move["to"], move["forks"], move["strong"]) == ("A", ["q1", "q2"], True, False)
    assert told["tree"]["parts"][1]["kind"] == "alternation"


def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[A]", "--out", "/no/such/folder/x.svg", "--format", "svg"]) == 2
    assert "cannot write the file" in capsys.readouterr().err


def test_types_are_checked_here_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "types.toml").write_text("[types.A]\n", encoding="utf-8")
    assert main(["explain", "[B]", "--types", str(tmp_path / "types.toml")]) == 2
    assert "unknown event type: B" in capsys.readouterr().err

"""Automata as diagrams and as text for a terminal, with the automata of the sides of `&`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from distced.detectors.compiler import Compiled
from distced.detectors.drawing.diagram import Colour, Diagram, Edge, Group, Line, Look, Node, signs
from distced.detectors.explain.automaton_view import AutomatonView, MoveView, Outline, StateView, outline

_COLUMNS: Final = 110
_LABEL: Final = 30
# Maximum width of the column of labels, in characters.
_WIDEST: Final = 60


def automata_diagram(drawings: Sequence[tuple[str, AutomatonView]]) -> Diagram:
    """The automata of patterns, each with the pattern's text."""
    groups = [
        _group(view, f"p{place}", text if number == 0 else "")
        for place, (text, whole) in enumerate(drawings)
        for number, view in enumerate(whole.every())
    ]
    states = [state for _, whole in drawings for view in whole.every() for state in view.states]
    moves = [move for state in states for move in state.moves]
    legend = signs([
        (any(move.strong for move in moves), "━▶", Colour.INK, "follows strongly"),
        (any(not move.strong for move in moves), "╌▶", Colour.INK, "follows weakly"),
        (True, "double frame", Colour.BROWN, "emits"),
        (any(state.sets_off for state in states), "yellow", Colour.BROWN, "sets off a time event, or emits"),
        (True, "●→", Colour.INK, "start, always active"),
        (any(move.forks for move in moves), "●", Colour.INK, "forks"),
        (True, "Σ", Colour.GREY, "domain: what a state looks at"),
        (any(move.hidden for move in moves), "~", Colour.BLUE, "hidden: no constituent"),
    ])  # fmt: skip
    return Diagram(groups[0].title if len(groups) == 1 else (), legend, groups)


def _group(view: AutomatonView, prefix: str, text: str) -> Group:
    prefix += view.title if not text else ""
    title = Line(text or view.title, bold=True, size=12).folded(_COLUMNS)
    title += [Line(view.canonical_id, Colour.GREY, 10, italic=True)]
    title += [Line(each, Colour.GREY, 10) for each in view.remarks()]
    nodes, edges = [], []
    depth = _depths(view)
    labels: dict[tuple[str, tuple[str, ...], bool], list[Line]] = {}
    for place, state in enumerate(view.states):
        look = Look(fill=Colour.YELLOW, double=bool(state.emits)) if state.generative else Look()
        nodes.append(Node(f"{prefix} {state.name}", list(_state(state)), look))
        if state.start:
            nodes.append(Node(f"{prefix} start {place}"))
            edges.append(Edge(nodes[-1].id, nodes[-2].id))
        for move in state.moves:
            labels.setdefault((state.name, move.to, move.strong), []).extend(_label(move))
    for number, ((source, targets, strong), lines) in enumerate(labels.items()):
        look = Look(width=2.6) if strong else Look(dashed=True)
        origin = f"{prefix} {source}"
        if len(targets) > 1:
            nodes.append(Node(f"{prefix} fork {number}"))
            edges.append(Edge(origin, nodes[-1].id, lines, look, "none"))
            origin, lines = nodes[-1].id, []
        for target in targets:
            end, back = f"{prefix} {target}", depth[target] <= depth[source]
            edges.append(Edge(origin, end, lines, look, back=back and origin != end))
    return Group(nodes, edges, title)


def _depths(view: AutomatonView) -> dict[str, tuple[int, int]]:
    """Distance of each state from a start, and its place, so that none are equal."""
    depths = {state.name: (0, place) for place, state in enumerate(view.states)}
    reached = list(view.starts)
    for name in reached:
        depth, place = depths[name]
        for target in (each for move in view.states[place].moves for each in move.to):
            if target not in reached:
                depths[target] = (depth + 1, depths[target][1])
                reached.append(target)
    return depths


def _state(state: StateView) -> Iterator[Line]:
    yield Line(state.name, bold=True, size=12)
    effects = [f"→ {state.emits}"] if state.emits else []
    for effect in (*effects, *(f"sets off {each}" for each in state.sets_off)):
        yield from Line(effect, Colour.BROWN).folded(_LABEL)
    if state.domain:
        yield from Line(f"Σ {state.domain}", Colour.GREY, 10).folded(_LABEL)
    if state.windows or state.keys:
        inside = f"(inside {', '.join((*state.windows, *state.keys))})"
        yield from Line(inside, Colour.GREY, 10, italic=True).folded(_LABEL)
    if state.fails:
        yield from Line(f"fails: {state.fails}", Colour.RED, 10).folded(_LABEL)


def _label(move: MoveView) -> Iterator[Line]:
    yield from Line(f"~{move.label}" if move.hidden else move.label, Colour.BLUE, 12).folded(_LABEL)
    for note in move.notes():
        yield from Line(note, Colour.GREY, 10, italic=True).folded(_LABEL)


def pattern_as_text(compiled: Compiled, view: AutomatonView) -> Iterator[RenderableType]:
    """A pattern for a terminal: its text, tree, automaton and the automata of the sides of `&`."""
    yield Text(compiled.text, "bold")
    yield Text.assemble(("canonical id ", "dim"), view.canonical_id)
    yield Text()
    yield _tree(outline(compiled.publication.pattern))
    for each in view.every():
        yield Text()
        yield from _automaton_as_text(each)


def _tree(node: Outline, above: Tree | None = None) -> Tree:
    style = "bold cyan" if node.kind in ("atom", "reference") else ""
    text = Text.assemble((f"{node.role}: " if node.role else "", "italic"), (node.text, style))
    tree = Tree(text, guide_style="dim") if above is None else above.add(text)
    for part in node.parts:
        _tree(part, tree)
    return tree


def _automaton_as_text(view: AutomatonView) -> Iterator[Text]:
    title = f"automaton of {view.title}" if view.title.startswith("side ") else "automaton"
    starts = f"start{'s' if len(view.starts) > 1 else ''} {', '.join(view.starts)}, always active"
    yield Text.assemble((title, "bold underline"), (f"   {starts}", "dim"))
    for remark in view.remarks():
        yield Text(f"  {remark}", "italic")
    labels = [move.label + _notes(move) for state in view.states for move in state.moves]
    width = min(max(map(len, labels), default=0), _WIDEST)
    for state in view.states:
        yield _state_as_text(state)
        yield from (_move_as_text(move, width) for move in state.moves)
        if state.fails:
            yield Text.assemble(("       ✗ ", "red"), state.fails, ("  fails", "red"))


def _state_as_text(state: StateView) -> Text:
    said = [Text("start", "green")] if state.start else []
    said += [Text.assemble(("emits ", "yellow"), state.emits)] if state.emits else []
    said += [Text.assemble(("sets off ", "yellow"), each) for each in state.sets_off]
    said += [Text.assemble(("looks at ", "dim"), state.domain) if state.domain else Text("end", "dim")]
    inside = (*state.windows, *state.keys)
    said += [Text(f"({', '.join(inside)})", "dim")] if inside else []
    sign = ("◎ ", "yellow") if state.generative else "○ "
    return Text.assemble("  ", (f"{state.name:<4}", "bold"), sign, Text(" · ").join(said))


def _move_as_text(move: MoveView, width: int) -> Text:
    notes = _notes(move)
    gap = " " * (width - len(move.label) - len(notes))
    return Text.assemble(
        ("       ━▶ ", "bold") if move.strong else "       ╌▶ ",
        (move.label, "cyan"),
        (notes + gap, "dim"),
        (f"  {', '.join(move.to):<8} ", "bold"),
        ("strong", "bold") if move.strong else ("weak", "dim"),
        ("  forks" if move.forks else "", "magenta"),
    )


def _notes(move: MoveView) -> str:
    return "".join(f", {note}" for note in (*(("hidden",) if move.hidden else ()), *move.notes()))

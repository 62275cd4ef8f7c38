"""Automata as diagrams and as text for a terminal, with the automata of the sides of `&`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from distced.detectors.compiler import Compiled
from distced.detectors.drawing.diagram import YELLOW, Diagram, Edge, Group, Line, Look, Node, folded
from distced.detectors.explain.automaton_view import AutomatonView, MoveView, Outline, StateView, excerpt, outline
from distced.detectors.frontends.languages import CORE
from distced.detectors.frontends.pretty.sentence_printer import sentence
from distced.detectors.highlighting.terminal import highlighted

_TITLE: Final = 110
_LABEL: Final = 36


def automata_diagram(drawings: Sequence[tuple[str, AutomatonView]]) -> Diagram:
    """The automata of patterns, each with the pattern's text."""
    groups = [
        _group(view, f"p{place}.{number}", view.title if number else text)
        for place, (text, whole) in enumerate(drawings)
        for number, view in enumerate(whole.every())
    ]
    states = [state for _, whole in drawings for view in whole.every() for state in view.states]
    moves = [move for state in states for move in state.moves]
    legend = [
        (any(move.strong for move in moves), Line("━▶ follows strongly")),
        (any(not move.strong for move in moves), Line("╌▶ follows weakly")),
        (True, Line("double frame: emits", "yellow")),
        (any(state.sets_off for state in states), Line("yellow: sets off a time event, or emits", "yellow")),
        (True, Line("●→ start, always active")),
        (any(move.forks for move in moves), Line("● forks")),
        (any(move.hidden for move in moves), Line("hidden: no constituent", "dim italic")),
    ]
    title = groups[0].title if len(groups) == 1 else ()
    return Diagram(title, [line for occurs, line in legend if occurs], groups)


def _group(view: AutomatonView, prefix: str, title: str) -> Group:
    order = _order(view)
    nodes = [Node(f"{prefix} start {name}") for name in view.starts]
    edges = [Edge(f"{prefix} start {name}", f"{prefix} {name}") for name in view.starts]
    labels: dict[tuple[str, tuple[str, ...], bool], list[Line]] = {}
    for state in view.states:
        look = Look(fill=YELLOW, double=bool(state.emits)) if state.generative else Look()
        about = [Line(state.name, "bold"), *_about(state)]
        about += [Line(f"fails: {state.fails}", "red")] if state.fails else []
        nodes.append(Node(f"{prefix} {state.name}", folded(about, _LABEL), look))
        for move in state.moves:
            labels.setdefault((state.name, move.to, move.strong), []).extend(folded(_label(move), _LABEL))
    for number, ((source, targets, strong), label) in enumerate(labels.items()):
        look = Look(width=2.6) if strong else Look(dashed=True)
        origin = f"{prefix} {source}"
        if len(targets) > 1:
            nodes.append(Node(f"{prefix} fork {number}"))
            edges.append(Edge(origin, nodes[-1].id, label, look, heads=0))
            origin, label = nodes[-1].id, []
        for target in targets:
            end, back = f"{prefix} {target}", order.index(target) <= order.index(source)
            edges.append(Edge(origin, end, label, look, back=back and origin != end))
    notes = [Line(each, "dim") for each in (view.canonical_id, *view.remarks())]
    return Group(nodes, edges, folded([Line(title, "bold"), *notes], _TITLE))


def _order(view: AutomatonView) -> list[str]:
    """The states by their distance from a start."""
    moves = {state.name: state.moves for state in view.states}
    found = list(view.starts)
    for name in found:
        found += dict.fromkeys(target for move in moves[name] for target in move.to if target not in found)
    return [*found, *(name for name in moves if name not in found)]


def _about(state: StateView) -> list[Line]:
    """The effects of arrival in a state, and what it looks at, inside of what."""
    lines = [Line(f"emits {state.emits}", "yellow")] if state.emits else []
    lines += [Line(f"sets off {each}", "yellow") for each in state.sets_off]
    lines += [Line(f"looks at {state.domain}" if state.domain else "end")]
    inside = ", ".join((*state.windows, *state.keys))
    return [*lines, *([Line(f"(inside {inside})", "dim italic")] if inside else [])]


def _label(move: MoveView) -> list[Line]:
    return [Line(move.label, "cyan"), *(Line(note, "dim italic") for note in move.notes())]


def pattern_as_text(
    compiled: Compiled, view: AutomatonView, source: str = "", language: str = ""
) -> Iterator[RenderableType]:
    """A pattern for a terminal: its text, tree, automaton and the automata of the sides of `&`; where it is translated,
    with the text that it comes of, in its language; as a sentence, where there is one."""
    if source:
        written = excerpt(source, compiled.publication.pattern.span, most=500)
        yield highlighted(written, language or CORE, "italic")
    yield highlighted(compiled.text, style="bold")
    if said := sentence(compiled.publication):
        yield Text.assemble(("in words     ", "dim"), highlighted(said, "pretty"))
    yield Text.assemble(("canonical id ", "dim"), view.canonical_id)
    yield Text()
    yield _tree(outline(compiled.publication.pattern, source=source))
    for each in view.every():
        yield Text()
        yield from _automaton_as_text(each)


def _tree(node: Outline, above: Tree | None = None) -> Tree:
    style = "bold cyan" if node.kind in ("atom", "reference") else ""
    written = (f"   {node.written}" if node.written else "", "italic dim")
    text = Text.assemble((f"{node.role}: " if node.role else "", "italic"), (node.text, style), written)
    tree = Tree(text, guide_style="dim") if above is None else above.add(text)
    for part in node.parts:
        _tree(part, tree)
    return tree


def _automaton_as_text(view: AutomatonView) -> Iterator[Text]:
    title = f"automaton of {view.title}" if view.title.startswith(("side ", "private ")) else "automaton"
    active = "one instance for each key" if view.once else "always active"
    starts = f"start{'s' if len(view.starts) > 1 else ''} {', '.join(view.starts)}, {active}"
    yield Text.assemble((title, "bold underline"), (f"   {starts}", "dim"))
    yield from (Text(f"  {remark}", "italic") for remark in view.remarks())
    for state in view.states:
        sign = ("◎ ", "yellow") if state.generative else "○ "
        about = Text(" · ").join(Text(*line) for line in _about(state))
        yield Text.assemble("  ", (f"{state.name:<4}", "bold"), sign, about)
        for move in state.moves:
            arrow, order = ("━▶", "strong") if move.strong else ("╌▶", "weak")
            label = Text(", ").join(Text(*line) for line in _label(move))
            forks = ("  forks" if move.forks else "", "magenta")
            to = f"{', '.join(move.to):<8}"
            yield Text.assemble(f"       {arrow} ", (to, "bold"), (f"  {order:<6}  ", "dim"), label, forks)
        if state.fails:
            yield Text.assemble(("       ✗  fails: ", "red"), state.fails)

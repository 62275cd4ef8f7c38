"""Diagram of a pattern's automaton, with the automata of the sides of `&` beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView
from distced.detectors.drawing.diagram import (
    NAME,
    NOTE,
    SMALL,
    Colour,
    Diagram,
    Edge,
    Group,
    Line,
    Look,
    Node,
    folded,
    signs,
)

_COLUMNS: Final = 110
_LABEL: Final = 30
_STRONG: Final = Look(width=2.6)
_WEAK: Final = Look(dashed=True)


def automata_diagram(drawings: Sequence[tuple[str, AutomatonView]]) -> Diagram:
    """The automata of patterns, each with the pattern's text."""
    groups = [
        _group(view, f"p{place}", text if number == 0 else "")
        for place, (text, whole) in enumerate(drawings)
        for number, view in enumerate(whole.every())
    ]
    every = [view for _, whole in drawings for view in whole.every()]
    moves = [move for view in every for move in view.moves]
    legend = signs(
        [
            (any(move.strong for move in moves), "━▶", Colour.INK, "follows strongly"),
            (any(not move.strong for move in moves), "╌▶", Colour.INK, "follows weakly"),
            (True, "double frame", Colour.BROWN, "emits"),
            (
                any(state.arms for view in every for state in view.states),
                "yellow",
                Colour.BROWN,
                "sets off a time event, or emits",
            ),
            (True, "●→", Colour.INK, "start, always active"),
            (any(len(move.targets) > 1 for move in moves), "●", Colour.INK, "forks"),
            (True, "Σ", Colour.GREY, "domain: what a state looks at"),
            (any(move.hidden for move in moves), "~", Colour.BLUE, "hidden: no constituent"),
        ]
    )
    title = groups[0].title if len(groups) == 1 else ()
    return Diagram(title, legend, groups)


def _group(view: AutomatonView, prefix: str, text: str) -> Group:
    prefix += view.title if not text else ""
    title = folded(text, _COLUMNS, NAME) if text else [Line(view.title, bold=True, size=12)]
    title += [
        Line(view.canonical_id, Colour.GREY, 10, italic=True),
        *(Line(each, Colour.GREY, 10) for each in view.remarks()),
    ]
    nodes, edges = [], []
    for place, state in enumerate(view.states):
        nodes.append(Node(f"{prefix} {state.name}", list(_state(state)), _look(state)))
        if state.start:
            nodes.append(Node(f"{prefix} start {place}"))
            edges.append(Edge(nodes[-1].id, nodes[-2].id))
    depth = _depths(view)
    labels: dict[tuple[int, tuple[int, ...], bool], list[Line]] = {}
    for move in view.moves:
        labels.setdefault((move.source, move.targets, move.strong), []).extend(_label(move))
    for number, ((source, targets, strong), lines) in enumerate(labels.items()):
        look = _STRONG if strong else _WEAK
        origin, *ends = (f"{prefix} q{each}" for each in (source, *targets))
        if len(ends) > 1:
            nodes.append(Node(f"{prefix} fork {number}"))
            edges.append(Edge(origin, nodes[-1].id, lines, look, "none"))
            origin, lines = nodes[-1].id, []
        edges += [
            Edge(origin, end, lines, look, back=origin != end and (depth[target], target) <= (depth[source], source))
            for end, target in zip(ends, targets, strict=True)
        ]
    return Group(nodes, edges, title)


def _depths(view: AutomatonView) -> list[int]:
    depths = dict.fromkeys(view.starts, 0)
    queue = list(view.starts)
    for state in queue:
        for move in view.moves_of(state):
            for target in move.targets:
                if target not in depths:
                    depths[target] = depths[state] + 1
                    queue.append(target)
    return [depths.get(place, 0) for place in range(len(view.states))]


def _look(state: StateView) -> Look:
    return Look(fill=Colour.YELLOW, double=bool(state.emits)) if state.generative else Look()


def _state(state: StateView) -> Iterator[Line]:
    yield Line(state.name, bold=True, size=12)
    if state.emits:
        yield from folded(f"→ {state.emits}", _LABEL, Line("", Colour.BROWN))
    for arm in state.arms:
        yield from folded(f"sets off {arm}", _LABEL, Line("", Colour.BROWN))
    if state.domain:
        yield from folded(f"Σ {state.domain}", _LABEL, SMALL)
    if state.windows or state.keys:
        yield from folded(f"(inside {', '.join((*state.windows, *state.keys))})", _LABEL, NOTE)
    if state.fails:
        yield from folded(f"fails: {state.fails}", _LABEL, Line("", Colour.RED, 10))


def _label(move: MoveView) -> Iterator[Line]:
    yield from folded(f"~{move.label}" if move.hidden else move.label, _LABEL, Line("", Colour.BLUE, 12))
    for note in move.notes:
        if note != "hidden":
            yield from folded(note, _LABEL, NOTE)

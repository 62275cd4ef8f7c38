"""A pattern's automaton as SVG, with the automata of the sides of `&` below it and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from distced.detectors.drawing.automaton_view import AutomatonView
from distced.detectors.drawing.figure import figure
from distced.detectors.drawing.picture import arrow_sample, column, legend, picture, stack
from distced.detectors.drawing.shapes import Circle, Dot, Shape, Text, TextLine

_BETWEEN: Final = 30.0
_COLUMNS: Final = 110


def svg(drawings: Sequence[tuple[str, AutomatonView]]) -> str:
    """One picture of one or more patterns, each with its text."""
    shapes: list[Shape] = []
    height = 0.0
    for text, view in drawings:
        height = stack(shapes, _heading(text, view), height)
        height = stack(shapes, figure(view), height + 6) + _BETWEEN
        for title, side in _sides(view):
            height = stack(shapes, [Text(0, 0, TextLine(title, "title"), "start")], height)
            height = stack(shapes, figure(side), height + 6) + _BETWEEN
    stack(shapes, _legend([view for _, view in drawings]), height)
    return picture(shapes, ", ".join(view.title for _, view in drawings))


def _sides(view: AutomatonView) -> list[tuple[str, AutomatonView]]:
    sides = []
    for side in view.sides:
        sides.append((side.title, side))
        sides += _sides(side)
    return sides


def _heading(text: str, view: AutomatonView) -> list[Shape]:
    lines = [TextLine(line, "pattern") for line in wrap(text, _COLUMNS, break_on_hyphens=False)]
    lines += [TextLine(view.canonical_id, "note")]
    lines += [TextLine(remark, "remark") for remark in view.remarks()]
    return column(lines)


def _legend(views: Sequence[AutomatonView]) -> list[Shape]:
    """What the signs mean that occur."""
    every = [each for view in views for each in (view, *(side for _, side in _sides(view)))]
    moves = [move for view in every for move in view.moves]
    states = [state for view in every for state in view.states]
    entries: list[tuple[list[Shape], float, str]] = []
    if any(move.strong for move in moves):
        entries.append((*arrow_sample("strong"), "follows strongly"))
    if any(not move.strong for move in moves):
        entries.append((*arrow_sample("weak"), "follows weakly"))
    entries.append(([Circle(10, 0, 10, True, False)], 20, "emits"))
    if any(state.arms for state in states):
        entries.append(([Circle(10, 0, 10, False, True)], 20, "sets off a time event"))
    entries.append(([Dot(4, 0), *arrow_sample("plain")[0]], 34, "start, always active"))
    if any(len(move.targets) > 1 for move in moves):
        entries.append(([Dot(4, 0)], 8, "forks"))
    entries.append(([Text(0, 4, TextLine("Σ", "label"), "start")], 8, "domain: what a state looks at"))
    if any(move.hidden for move in moves):
        entries.append(([Text(0, 4, TextLine("~", "label"), "start")], 8, "hidden: no constituent"))
    return legend(entries)

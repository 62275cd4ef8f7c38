"""A pattern's automaton as SVG, with the automata of the sides of `&` below it and a legend.

Written by hand, since all it takes is a page of XML: an SVG library would be one more thing to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from detectors.drawing.figure import HEAD, figure
from detectors.drawing.shapes import SIZES, Arrowhead, Circle, Dot, Path, Pen, Shape, Text, TextLine, extent
from detectors.drawing.view import AutomatonView

MARGIN: Final = 24.0
_BETWEEN: Final = 30.0
_FONT: Final = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_COLUMNS: Final = 110

_INK: Final = "#1f2d3d"
_COLOURS: Final = {
    "label": "#0b3d66",
    "note": "#5b6b7b",
    "domain": "#4a5a6a",
    "emits": "#8a5a00",
    "fails": "#a12a2a",
    "name": _INK,
    "start": "#2c6e3f",
    "title": _INK,
    "pattern": _INK,
    "remark": "#4a5a6a",
}
_LINES: Final = {
    "strong": f'stroke="{_INK}" stroke-width="2.6"',
    "weak": f'stroke="{_INK}" stroke-width="1.3" stroke-dasharray="6 3.5"',
    "plain": f'stroke="{_INK}" stroke-width="1.3"',
}
_BOLD: Final = ("title", "name")
_ITALIC: Final = ("note",)


def svg(drawings: Sequence[tuple[str, AutomatonView]]) -> str:
    """One picture of one or more patterns, each with its text."""
    shapes: list[Shape] = []
    height = 0.0
    for text, view in drawings:
        height = _stack(shapes, _heading(text, view), height)
        height = _stack(shapes, figure(view), height + 6) + _BETWEEN
        for title, side in _sides(view):
            height = _stack(shapes, [Text(0, 0, TextLine(title, "title"), "start")], height)
            height = _stack(shapes, figure(side), height + 6) + _BETWEEN
    _stack(shapes, _legend([view for _, view in drawings]), height)
    left, top, right, bottom = extent(shapes)
    width, height = right - left + 2 * MARGIN, bottom - top + 2 * MARGIN
    body = "\n".join(_write(shape) for shape in shapes)
    title = escape(", ".join(view.title for _, view in drawings))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left - MARGIN:.1f} {top - MARGIN:.1f} {width:.1f} {height:.1f}" font-family="{_FONT}">\n'
        f"<title>{title}</title>\n"
        f'<rect x="{left - MARGIN:.1f}" y="{top - MARGIN:.1f}" width="100%" height="100%" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


def _sides(view: AutomatonView) -> list[tuple[str, AutomatonView]]:
    sides = []
    for side in view.sides:
        sides.append((side.title, side))
        sides += _sides(side)
    return sides


def _stack(shapes: list[Shape], added: Sequence[Shape], height: float) -> float:
    """Put shapes below what is there; how far down it then reaches."""
    left, top, _, bottom = extent(added)
    shapes += [_moved(shape, -left, height - top) for shape in added]
    return height + bottom - top


def _moved(shape: Shape, dx: float, dy: float) -> Shape:
    match shape:
        case Text(x=x, y=y, line=line, anchor=anchor):
            return Text(x + dx, y + dy, line, anchor)
        case Circle(x=x, y=y, radius=radius, emits=emits, arms=arms):
            return Circle(x + dx, y + dy, radius, emits, arms)
        case Dot(x=x, y=y):
            return Dot(x + dx, y + dy)
        case Arrowhead(x=x, y=y, dx=along, dy=down, stroke=stroke):
            return Arrowhead(x + dx, y + dy, along, down, stroke)
        case Path(commands=commands, stroke=stroke, points=points):
            return Path(_shifted(commands, dx, dy), stroke, tuple((x + dx, y + dy) for x, y in points))


def _shifted(commands: str, dx: float, dy: float) -> str:
    words = []
    for word in commands.split(" "):
        letter = word[0] if word[0].isalpha() else ""
        x, y = word.removeprefix(letter).split(",")
        words.append(f"{letter}{float(x) + dx:.1f},{float(y) + dy:.1f}")
    return " ".join(words)


def _heading(text: str, view: AutomatonView) -> list[Shape]:
    lines = [TextLine(line, "pattern") for line in wrap(text, _COLUMNS, break_on_hyphens=False)]
    lines += [TextLine(view.canonical_id, "note")]
    lines += [TextLine(remark, "remark") for remark in view.remarks()]
    return _column(lines)


def _column(lines: Iterable[TextLine]) -> list[Shape]:
    shapes: list[Shape] = []
    y = 0.0
    for line in lines:
        y += line.height
        shapes.append(Text(0, y, line, "start"))
    return shapes


def _legend(views: Sequence[AutomatonView]) -> list[Shape]:
    """What the signs mean that occur."""
    every = [each for view in views for each in (view, *(side for _, side in _sides(view)))]
    moves = [move for view in every for move in view.moves]
    states = [state for view in every for state in view.states]
    entries: list[tuple[list[Shape], float, str]] = []
    if any(move.strong for move in moves):
        entries.append((*_sample("strong"), "follows strongly"))
    if any(not move.strong for move in moves):
        entries.append((*_sample("weak"), "follows weakly"))
    entries.append(([Circle(10, 0, 10, True, False)], 20, "emits"))
    if any(state.arms for state in states):
        entries.append(([Circle(10, 0, 10, False, True)], 20, "sets off a time event"))
    entries.append(([Dot(4, 0), *_sample("plain")[0]], 34, "start, always active"))
    if any(len(move.targets) > 1 for move in moves):
        entries.append(([Dot(4, 0)], 8, "forks"))
    entries.append(([Text(0, 4, TextLine("Σ", "label"), "start")], 8, "domain: what a state looks at"))
    if any(move.hidden for move in moves):
        entries.append(([Text(0, 4, TextLine("~", "label"), "start")], 8, "hidden: no constituent"))
    shapes: list[Shape] = []
    x = 0.0
    for sample, width, meaning in entries:
        shapes += [_moved(shape, x, 0) for shape in sample]
        text = TextLine(meaning, "remark")
        shapes.append(Text(x + width + 6, 4, text, "start"))
        x += width + 6 + text.width + 22
    return shapes


def _sample(stroke: str) -> tuple[list[Shape], float]:
    pen = Pen(stroke)  # type: ignore[arg-type]
    pen.move((0, 0))
    pen.line((34 - HEAD, 0))
    return [pen.path(), Arrowhead(34, 0, 1, 0, pen.stroke)], 34


def _write(shape: Shape) -> str:
    match shape:
        case Text(x=x, y=y, line=line, anchor=anchor):
            extra = ' font-weight="bold"' if line.style in _BOLD else ""
            extra += ' font-style="italic"' if line.style in _ITALIC else ""
            anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="{SIZES[line.style]}" fill="{_COLOURS[line.style]}"'
                f'{anchored}{extra} xml:space="preserve">{escape(line.text)}</text>'
            )
        case Circle():
            return _circle(shape)
        case Dot(x=x, y=y):
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_INK}"/>'
        case Path(commands=commands, stroke=stroke):
            return f'<path d="{commands}" fill="none" {_LINES[stroke]}/>'
        case Arrowhead(x=x, y=y, dx=dx, dy=dy, stroke=stroke):
            half = 4.6 if stroke == "strong" else 3.8
            base_x, base_y = x - HEAD * dx, y - HEAD * dy
            points = [(x, y), (base_x - dy * half, base_y + dx * half), (base_x + dy * half, base_y - dx * half)]
            return f'<polygon points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}" fill="{_INK}"/>'


def _circle(circle: Circle) -> str:
    generative = circle.emits or circle.arms
    fill = "#fff3d1" if generative else "#eef3f8"
    parts = [(circle.radius, "")]
    inset = circle.radius * 0.2
    if circle.emits:
        parts.append((circle.radius - inset, ""))
    if circle.arms:
        parts.append((circle.radius - inset * (2 if circle.emits else 1), ' stroke-dasharray="2 2"'))
    return "".join(
        f'<circle cx="{circle.x:.1f}" cy="{circle.y:.1f}" r="{radius:.1f}" '
        f'fill="{fill if place == 0 else "none"}" stroke="{_INK}" stroke-width="1.3"{dash}/>'
        for place, (radius, dash) in enumerate(parts)
    )

"""Shapes written down as one SVG picture: colours, strokes and faces of all drawings, and shapes put below one another.

Written by hand, since all it takes is a page of XML: an SVG library would be one more thing to install.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import Final

from distced.detectors.drawing.shapes import (
    HEAD,
    SIZES,
    Arrowhead,
    Circle,
    Dot,
    Look,
    Panel,
    Path,
    Pen,
    Shape,
    Stroke,
    Style,
    Text,
    TextLine,
    extent,
)

MARGIN: Final = 24.0
_FONT: Final = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"

_INK: Final = "#1f2d3d"
_BLUE: Final = "#0b3d66"
_BROWN: Final = "#8a5a00"
_GREEN: Final = "#2c6e3f"
_PURPLE: Final = "#7a3b8f"
_GREY: Final = "#4a5a6a"
_COLOURS: Final[dict[Style, str]] = {
    "label": _BLUE,
    "note": "#5b6b7b",
    "domain": _GREY,
    "emits": _BROWN,
    "fails": "#a12a2a",
    "name": _INK,
    "start": _GREEN,
    "title": _INK,
    "pattern": _INK,
    "remark": _GREY,
    "type": _GREEN,
    "published": _BROWN,
    "shared": _BROWN,
    "events flow": _GREEN,
    "records flow": _BLUE,
    "published flow": _BROWN,
    "read flow": _PURPLE,
}
_LINES: Final[dict[Stroke, tuple[str, str]]] = {
    "strong": (_INK, 'stroke-width="2.6"'),
    "weak": (_INK, 'stroke-width="1.3" stroke-dasharray="6 3.5"'),
    "plain": (_INK, 'stroke-width="1.3"'),
    "events": (_GREEN, 'stroke-width="1.3"'),
    "records": (_BLUE, 'stroke-width="2.2"'),
    "published": (_BROWN, 'stroke-width="1.6"'),
    "read": (_PURPLE, 'stroke-width="1.6" stroke-dasharray="6 3.5"'),
}
_PANELS: Final[dict[Look, str]] = {
    "detector": f'rx="6" fill="#eef3f8" stroke="{_INK}" stroke-width="1.3"',
    "root": f'rx="6" fill="#eef3f8" stroke="{_INK}" stroke-width="2.6"',
    "shared": f'rx="6" fill="#fff3d1" stroke="{_INK}" stroke-width="1.3"',
    "shared root": f'rx="6" fill="#fff3d1" stroke="{_INK}" stroke-width="2.6"',
    "input": f'rx="11" fill="#ffffff" stroke="{_GREEN}" stroke-width="1.3"',
    "publication": f'rx="11" fill="#ffffff" stroke="{_BROWN}" stroke-width="1.6"',
}
_BOLD: Final = ("title", "name", "shared", "published")
_ITALIC: Final = ("note",)


def picture(shapes: Sequence[Shape], title: str) -> str:
    """The shapes as a picture, with a margin around them."""
    left, top, right, bottom = extent(shapes)
    width, height = right - left + 2 * MARGIN, bottom - top + 2 * MARGIN
    body = "\n".join(_write(shape) for shape in shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left - MARGIN:.1f} {top - MARGIN:.1f} {width:.1f} {height:.1f}" font-family="{_FONT}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect x="{left - MARGIN:.1f}" y="{top - MARGIN:.1f}" width="100%" height="100%" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


def stack(shapes: list[Shape], added: Sequence[Shape], height: float) -> float:
    """Put shapes below what is there; how far down it then reaches."""
    left, top, _, bottom = extent(added)
    shapes += [moved(shape, -left, height - top) for shape in added]
    return height + bottom - top


def column(lines: Iterable[TextLine]) -> list[Shape]:
    """Lines of text below one another."""
    shapes: list[Shape] = []
    y = 0.0
    for line in lines:
        y += line.height
        shapes.append(Text(0, y, line, "start"))
    return shapes


def legend(entries: Iterable[tuple[Sequence[Shape], float, str]]) -> list[Shape]:
    """What signs mean, in a row: each a sample, how wide it is, and its meaning."""
    shapes: list[Shape] = []
    x = 0.0
    for sample, width, meaning in entries:
        shapes += [moved(shape, x, 0) for shape in sample]
        text = TextLine(meaning, "remark")
        shapes.append(Text(x + width + 6, 4, text, "start"))
        x += width + 6 + text.width + 22
    return shapes


def arrow_sample(stroke: Stroke) -> tuple[list[Shape], float]:
    """A short arrow for a legend, and how wide it is."""
    pen = Pen(stroke)
    pen.move((0, 0))
    pen.line((34 - HEAD, 0))
    return [pen.path(), Arrowhead(34, 0, 1, 0, pen.stroke)], 34


def moved(shape: Shape, dx: float, dy: float) -> Shape:
    """The shape in another place."""
    match shape:
        case Path(commands=commands, points=points):
            points = tuple((x + dx, y + dy) for x, y in points)
            return replace(shape, commands=_shifted(commands, dx, dy), points=points)
        case _:
            return replace(shape, x=shape.x + dx, y=shape.y + dy)


def _shifted(commands: str, dx: float, dy: float) -> str:
    words = []
    for word in commands.split(" "):
        letter = word[0] if word[0].isalpha() else ""
        x, y = word.removeprefix(letter).split(",")
        words.append(f"{letter}{float(x) + dx:.1f},{float(y) + dy:.1f}")
    return " ".join(words)


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
        case Panel(x=x, y=y, width=width, height=height, look=look, title=title):
            place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            return _titled("rect", f"{place} {_PANELS[look]}", title)
        case Dot(x=x, y=y):
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_INK}"/>'
        case Path(commands=commands, stroke=stroke, title=title):
            colour, drawn = _LINES[stroke]
            return _titled("path", f'd="{commands}" fill="none" stroke="{colour}" {drawn}', title)
        case Arrowhead(x=x, y=y, dx=dx, dy=dy, stroke=stroke):
            half = 4.6 if stroke == "strong" else 3.8
            base_x, base_y = x - HEAD * dx, y - HEAD * dy
            points = [(x, y), (base_x - dy * half, base_y + dx * half), (base_x + dy * half, base_y - dx * half)]
            corners = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
            return f'<polygon points="{corners}" fill="{_LINES[stroke][0]}"/>'


def _titled(element: str, attributes: str, title: str) -> str:
    """An element; its title is shown where the pointer rests on it."""
    if not title:
        return f"<{element} {attributes}/>"
    return f"<{element} {attributes}><title>{escape(title)}</title></{element}>"


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

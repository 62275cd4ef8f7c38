"""What a drawing is made of: circles, panels, lines with arrowheads, texts; how wide texts are and where they break."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Point: TypeAlias = tuple[float, float]
Stroke: TypeAlias = Literal["strong", "weak", "plain", "events", "records", "published", "read"]
Look: TypeAlias = Literal["detector", "root", "shared", "shared root", "input", "publication"]
Style: TypeAlias = Literal[
    "label",
    "note",
    "domain",
    "emits",
    "fails",
    "name",
    "start",
    "title",
    "pattern",
    "remark",
    "type",
    "published",
    "shared",
    "events flow",
    "records flow",
    "published flow",
    "read flow",
]

SIZES: Final[dict[Style, float]] = {
    "label": 12.0,
    "note": 10.5,
    "domain": 10.5,
    "emits": 11.0,
    "fails": 10.5,
    "name": 12.0,
    "start": 10.5,
    "title": 14.0,
    "pattern": 12.0,
    "remark": 11.0,
    "type": 12.0,
    "published": 12.0,
    "shared": 11.0,
    "events flow": 10.5,
    "records flow": 10.5,
    "published flow": 10.5,
    "read flow": 10.5,
}
"""Pixels. Texts are in a monospaced face, for only its widths are known without measuring."""

ADVANCE: Final = 0.602
LEADING: Final = 1.28

HEAD: Final = 9.0
"""How long an arrowhead is, in pixels."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text, before it has a place."""

    text: str
    style: Style

    @property
    def width(self) -> float:
        return len(self.text) * SIZES[self.style] * ADVANCE

    @property
    def height(self) -> float:
        return SIZES[self.style] * LEADING


@dataclass(frozen=True, slots=True)
class Text:
    """A text with its baseline at (x, y), anchored at `start`, `middle` or `end`."""

    x: float
    y: float
    line: TextLine
    anchor: Literal["start", "middle", "end"] = "middle"


@dataclass(frozen=True, slots=True)
class Circle:
    """A state: `emits` has a second ring, `arms` a dotted one."""

    x: float
    y: float
    radius: float
    emits: bool
    arms: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """A box with its upper left corner at (x, y); its title is shown where the pointer rests on it."""

    x: float
    y: float
    width: float
    height: float
    look: Look
    title: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """Where an instance forks."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Path:
    """A line; its points are kept to know how far it reaches. Its title is shown where the pointer rests on it."""

    commands: str
    stroke: Stroke
    points: tuple[Point, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Arrowhead:
    """The end of a line at (x, y), which points along (dx, dy), of length 1."""

    x: float
    y: float
    dx: float
    dy: float
    stroke: Stroke


Shape: TypeAlias = Text | Circle | Panel | Dot | Path | Arrowhead


@dataclass(slots=True)
class Pen:
    """Draws one line: a path in SVG's commands, as it goes."""

    stroke: Stroke
    commands: list[str] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)

    def move(self, point: Point) -> None:
        self._add("M", point)

    def line(self, point: Point) -> None:
        if self.points[-1] != point:
            self._add("L", point)

    def curve(self, one: Point, other: Point, point: Point) -> None:
        self._add("C", one, other, point)

    def across(self, point: Point) -> None:
        """An S-curve that leaves and arrives horizontally."""
        x, y = self.points[-1]
        if abs(y - point[1]) < 0.5:
            self.line(point)
            return
        middle = (x + point[0]) / 2
        self.curve((middle, y), (middle, point[1]), point)

    def path(self, title: str = "") -> Path:
        return Path(" ".join(self.commands), self.stroke, tuple(self.points), title)

    def _add(self, command: str, *points: Point) -> None:
        self.commands.append(command + " ".join(f"{x:.1f},{y:.1f}" for x, y in points))
        self.points += points


def extent(shapes: Iterable[Shape]) -> tuple[float, float, float, float]:
    """The least and greatest x and y that shapes reach: (left, top, right, bottom)."""
    xs: list[float] = []
    ys: list[float] = []
    for shape in shapes:
        match shape:
            case Text(x=x, y=y, line=line, anchor=anchor):
                left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * line.width
                xs += [left, left + line.width]
                ys += [y - line.height * 0.8, y + line.height * 0.2]
            case Circle(x=x, y=y, radius=radius):
                xs += [x - radius, x + radius]
                ys += [y - radius, y + radius]
            case Panel(x=x, y=y, width=width, height=height):
                xs += [x, x + width]
                ys += [y, y + height]
            case Path(points=points):
                xs += [point[0] for point in points]
                ys += [point[1] for point in points]
            case Dot(x=x, y=y) | Arrowhead(x=x, y=y):
                xs += [x - 4, x + 4]
                ys += [y - 4, y + 4]
    return min(xs, default=0.0), min(ys, default=0.0), max(xs, default=0.0), max(ys, default=0.0)


_BREAKS: Final = re.compile(r" (?=(?:where|and|or|every|by) )")


def broken(text: str, style: Style, columns: int) -> list[TextLine]:
    """The text in lines of about so many columns, broken between members, and before `where`, `and` and `or`."""
    lines: list[str] = []
    filtered = False
    for member in _members(text):
        # A member with a condition has lines of its own; plain names share one.
        filtered, fresh = " where " in member, filtered or " where " in member
        for piece in _BREAKS.split(member):
            if lines and not fresh and len(lines[-1]) + 1 + len(piece) <= columns:
                lines[-1] += f" {piece}"
                continue
            words = piece.split(" ")
            lines.append(words[0])
            for word in words[1:]:
                if len(lines[-1]) + 1 + len(word) <= columns:
                    lines[-1] += f" {word}"
                else:
                    lines.append(f"  {word}")
            fresh = False
    return [TextLine(line, style) for line in lines]


def _members(text: str) -> list[str]:
    """The members of a list, each with its comma: what stands in parentheses is not torn apart."""
    members = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == " " and depth <= 0 and members[-1].endswith(","):
            members.append("")
        else:
            members[-1] += character
    return members

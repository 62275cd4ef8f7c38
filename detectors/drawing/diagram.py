"""A diagram: boxes, arrows and their texts, independent of the output form.

Views (automata, graphs of detectors, topologies) become diagrams; `graphviz` and `mermaid` write them down. Layout is
left to those programs: a layout of our own was 1,200 lines, and no better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.detectors.drawing.folding import fold


class Colour(StrEnum):
    """Dark ones for text and lines; `PALE`, `YELLOW` and `WHITE` fill boxes."""

    INK = "#1f2d3d"
    BLUE = "#0b3d66"
    BROWN = "#8a5a00"
    GREEN = "#2c6e3f"
    PURPLE = "#7a3b8f"
    GREY = "#4a5a6a"
    RED = "#a12a2a"
    PALE = "#eef3f8"
    YELLOW = "#fff3d1"
    WHITE = "#ffffff"


class Line(NamedTuple):
    """A line of text; its size in points."""

    text: str
    colour: str = Colour.INK
    size: float = 11
    bold: bool = False
    italic: bool = False


TITLE: Final = Line("", size=13, bold=True)
NAME: Final = Line("", size=12, bold=True)
SMALL: Final = Line("", Colour.GREY, 10)
NOTE: Final = Line("", Colour.GREY, 10, italic=True)


class Look(NamedTuple):
    """Stroke of a box or an arrow, and fill of a box.

    Attributes:
        double: whether a box has two frames.
    """

    colour: str = Colour.INK
    width: float = 1.3
    dashed: bool = False
    fill: str = Colour.PALE
    double: bool = False


PLAIN: Final = Look()
Ends: TypeAlias = Literal["none", "forward", "back", "both"]


@dataclass(frozen=True, slots=True)
class Node:
    """A box with lines of text; a point without any.

    Attributes:
        tooltip: shown where the pointer rests on it, in an SVG.
    """

    id: str
    lines: Sequence[Line] = ()
    look: Look = PLAIN
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between nodes.

    Attributes:
        ends: which of its ends have heads.
        back: whether it leads back to an earlier node.
    """

    source: str
    target: str
    lines: Sequence[Line] = ()
    look: Look = PLAIN
    ends: Ends = "forward"
    back: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes and edges under a title, drawn apart from those of other groups."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    title: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class Diagram:
    """Groups of nodes and edges.

    Attributes:
        title: above everything.
        legend: signs that occur, each with its meaning.
        network: whether it has no direction; else everything runs from left to right.
    """

    title: Sequence[Line]
    legend: Sequence[tuple[Line, str]]
    groups: Sequence[Group]
    network: bool = False


def folded(text: str, columns: int, like: Line, most: int | None = None) -> list[Line]:
    """A text folded into lines of a style."""
    return [like._replace(text=line) for line in fold(text, columns, most)]


def signs(meanings: Iterable[tuple[bool, str, str, str]]) -> list[tuple[Line, str]]:
    """Entries of a legend: (whether it occurs, sign, colour, meaning)."""
    return [(Line(sign, colour, bold=True), meaning) for occurs, sign, colour, meaning in meanings if occurs]

"""Diagrams of boxes and arrows, as DOT and Mermaid text and as pictures laid out by Graphviz.

Automata, detector graphs and topologies become diagrams; the form comes last. Graphviz is run as a program, because its
Python package only does the same; a layout of our own had 1,200 lines and was no better.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from html import escape
from pathlib import Path
from textwrap import TextWrapper
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.errors import DistcedError

DiagramForm: TypeAlias = Literal["svg", "png", "dot", "mermaid"]
Ends: TypeAlias = Literal["none", "forward", "back", "both"]

# Time limit of a layout, seconds.
LONGEST: Final = 120.0

_SUFFIXES: Final[dict[str, DiagramForm]] = {".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}
_FONT: Final = 'fontname="DejaVu Sans Mono,Menlo,Consolas,monospace"'
# Line length of the legend, in characters.
_LEGEND: Final = 120
_FLOW: Final = "rankdir=LR, nodesep=0.3"
_NETWORK: Final = 'layout=neato, overlap=prism, overlap_scaling=2, splines=true, sep="+12", esep="+6"'
# Entities by number, with the semicolon that a statement would end at.
_MERMAID: Final = str.maketrans({each: f"#{ord(each)};" for each in '#"<>&`'})


# In a folded text: a blank that is no place for a break, and the place of a break.
_BLANK: Final = "\0"
_BREAK: Final = "\1"
_KEPT: Final = (r"'[^']*'|\"[^\"]*\"|`[^`]*`", r"\{[^{}]*\}", r"\([^()]*\)", r"\[[^\[\]]*\]")
_SIGNS: Final = re.compile(r"(?<!\S)(?:;|\||&|<=|⊆|@|and|or|where|as|set|->|within|by) | (?:=|==|!=|<|>|>=) ")


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


def fold(text: str, columns: int, most: int | None = None) -> list[str]:
    """The text of a pattern in at most n lines (None for no limit) of at most n characters, with an ellipsis for the
    rest. A sign stays with what follows it, a comparison with both sides; quoted text and short brackets are whole."""
    if len(text) <= columns:
        return [text]
    indent = "  " if columns > 10 else ""
    for kept in _KEPT:
        text = re.sub(kept, lambda found: _together(found[0], columns), text)
    text = _SIGNS.sub(lambda found: found[0].replace(" ", _BLANK), text)
    wrapper = TextWrapper(columns, subsequent_indent=indent, break_on_hyphens=False)
    lines: list[str] = []
    for part in text.split(f" {_BREAK}"):
        lines += [line.replace(_BLANK, " ") for line in wrapper.wrap(part.replace(_BREAK, ""))]
        wrapper.initial_indent = indent
    return lines if most is None or len(lines) <= most else [*lines[: most - 1], "…"]


def _together(text: str, columns: int) -> str:
    """A bracket without breaks if it fits; else an atom begins a line."""
    if len(text) <= columns - 2:
        return text.replace(" ", _BLANK)
    return f"{_BREAK}{text}" if text.startswith("[") else text


class Line(NamedTuple):
    """A line of text; its size in points."""

    text: str
    colour: str = Colour.INK
    size: float = 11
    bold: bool = False
    italic: bool = False

    def folded(self, columns: int, most: int | None = None) -> list[Line]:
        """This line, broken into at most n lines."""
        return [self._replace(text=line) for line in fold(self.text, columns, most)]


class Look(NamedTuple):
    """Stroke of a box or an arrow; fill of a box, and whether it has two frames."""

    colour: str = Colour.INK
    width: float = 1.3
    dashed: bool = False
    fill: str = Colour.PALE
    double: bool = False


class Node(NamedTuple):
    """A box with lines of text, a point without any; its tooltip is shown in an SVG."""

    id: str
    lines: Sequence[Line] = ()
    look: Look = Look()
    tooltip: str = ""


class Edge(NamedTuple):
    """An arrow with heads at these ends; `back` for one that leads back to an earlier node."""

    source: str
    target: str
    lines: Sequence[Line] = ()
    look: Look = Look()
    ends: Ends = "forward"
    back: bool = False


class Group(NamedTuple):
    """Nodes and edges under a title, drawn apart from those of other groups."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    title: Sequence[Line] = ()


class Diagram(NamedTuple):
    """Groups under a title and a legend (sign, meaning); a network has no direction, others run from left to right."""

    title: Sequence[Line]
    legend: Sequence[tuple[Line, str]]
    groups: Sequence[Group]
    network: bool = False


def signs(meanings: Iterable[tuple[bool, str, str, str]]) -> list[tuple[Line, str]]:
    """Entries of a legend: (whether it occurs, sign, colour, meaning)."""
    return [(Line(sign, colour, bold=True), meaning) for occurs, sign, colour, meaning in meanings if occurs]


def form_of(file: Path) -> DiagramForm:
    """The form of a file name's suffix: SVG by default."""
    return _SUFFIXES.get(file.suffix.lower(), "svg")


def drawn(diagram: Diagram, form: DiagramForm) -> str | bytes:
    """The diagram in a form; a PNG is bytes. Raises `DistcedError` if Graphviz is needed and missing, or fails."""
    if form == "mermaid":
        return "\n".join(_mermaid(diagram)) + "\n"
    source = "\n".join(_dot(diagram)) + "\n"
    if form == "dot":
        return source
    image = _laid_out(source, form)
    return image if form == "png" else image.decode()


def _laid_out(source: str, form: str) -> bytes:
    if (program := shutil.which("dot")) is None:
        raise DistcedError(
            "Graphviz is not installed: there is no program dot",
            given=f"--format {form}",
            advice="apt install graphviz, or brew install graphviz; --format dot and --format mermaid need nothing",
        )
    try:
        command = [program, f"-T{form}"]
        return subprocess.run(command, input=source.encode(), capture_output=True, timeout=LONGEST, check=True).stdout
    except subprocess.TimeoutExpired:
        limit, advice = f"no layout within {LONGEST:.0f} s", "--format text or json shows any size"
        raise DistcedError("too large for a picture", given=limit, advice=advice) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise DistcedError("Graphviz failed", given=program, advice=said or str(error)) from None
    except OSError as error:
        raise DistcedError("Graphviz failed", given=program, advice=str(error)) from None


def _dot(diagram: Diagram) -> Iterator[str]:
    """Lines of DOT. `dot` draws later elements on top, so groups and nodes are written in reverse."""
    head = _table([*map(_font, diagram.title), *_legend(diagram)])
    layout = _NETWORK if diagram.network else _FLOW
    yield "digraph distced {"
    yield f"  graph [{layout}, label={head}, labelloc=t, labeljust=l, pad=0.3, {_FONT}];"
    yield f'  node [shape=box, style="filled,rounded", {_FONT}, margin="0.1,0.05", height=0.3, width=0.3];'
    yield f"  edge [{_FONT}, arrowsize=0.8];"
    for number, group in reversed(list(enumerate(diagram.groups))):
        if len(diagram.groups) > 1:
            title = _table(map(_font, group.title))
            yield f'  subgraph cluster_{number} {{ label={title}; labeljust=l; color="#d5dde5"; margin=12;'
        for node in reversed(group.nodes):
            yield f"  {_quoted(node.id)} [{_dot_node(node)}];"
        for place, edge in enumerate(group.edges):
            yield from _dot_edge(edge, _quoted(f"link {place}") if diagram.network and edge.lines else "")
        if len(diagram.groups) > 1:
            yield "  }"
    yield "}"


def _dot_node(node: Node) -> str:
    look = node.look
    if not node.lines:
        return f'shape=point, width=0.09, color="{look.colour}"'
    return (
        f'label={_table(map(_font, node.lines))}, style="filled,rounded{",dashed" * look.dashed}", '
        f'color="{look.colour}", penwidth={look.width}, fillcolor="{look.fill}", '
        f"tooltip={_quoted(node.tooltip or node.id)}, peripheries={1 + look.double}"
    )


def _dot_edge(edge: Edge, between: str) -> Iterator[str]:
    """The edge, in two halves if its label is a node between: so it has room, whatever the direction."""
    source, target, look = _quoted(edge.source), _quoted(edge.target), edge.look
    stroke = f'color="{look.colour}", penwidth={look.width}, style={"dashed" if look.dashed else "solid"}'
    label = _table(map(_font, edge.lines), "center") if edge.lines else '""'
    if between:
        yield f'  {between} [label={label}, shape=plain, style=""];'
        yield f"  {source} -> {between} [{stroke}, dir={'back' if edge.ends in ('back', 'both') else 'none'}];"
        yield f"  {between} -> {target} [{stroke}, dir={'forward' if edge.ends in ('forward', 'both') else 'none'}];"
    elif edge.back:
        # Turned round, so that the layout goes by what leads on.
        yield f"  {target} -> {source} [label={label}, {stroke}, dir=back];"
    else:
        weight = 8 if edge.ends == "none" else 3
        yield f"  {source} -> {target} [label={label}, {stroke}, dir={edge.ends}, weight={weight}];"


def _legend(diagram: Diagram) -> list[str]:
    rows: list[str] = []
    used = _LEGEND
    for sign, meaning in diagram.legend:
        width = len(sign.text) + len(meaning) + 4
        used += width
        if used > _LEGEND:
            used = width
            rows.append("")
        rows[-1] += f"{_font(sign)}{_font(Line(f' {meaning}   ', Colour.GREY, 10))}"
    return rows


def _table(rows: Iterable[str], align: str = "left") -> str:
    cells = "".join(f'<tr><td align="{align}">{row}</td></tr>' for row in rows)
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>>'


def _font(line: Line) -> str:
    text = escape(line.text, quote=False)
    text = "&#160;" * (len(text) - len(text.lstrip(" "))) + text.lstrip(" ")
    text = f"<b>{text}</b>" if line.bold else f"<i>{text}</i>" if line.italic else text
    return f'<font color="{line.colour}" point-size="{line.size:g}">{text}</font>'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid(diagram: Diagram) -> Iterator[str]:
    """Lines of a Mermaid flowchart, which GitHub and GitLab render; title and legend are comments."""
    yield from (f"%% {line.text}" for line in diagram.title)
    yield from (f"%% {sign.text} {meaning}" for sign, meaning in diagram.legend)
    yield "flowchart TB" if diagram.network else "flowchart LR"
    edges = [edge for group in diagram.groups for edge in group.edges]
    nodes = [node for group in diagram.groups for node in group.nodes]
    names = {node.id: f"n{place}" for place, node in enumerate(nodes)}
    for number, group in enumerate(diagram.groups):
        if len(diagram.groups) > 1:
            yield f"  subgraph g{number}[{_mermaid_text(group.title)}]"
        for node in group.nodes:
            look, text, name = node.look, _mermaid_text(node.lines or [Line(" ")]), names[node.id]
            yield f"  {name}" + (f"[[{text}]]" if look.double else f"({text})" if node.lines else f"(({text}))")
            style = f"fill:{look.fill if node.lines else look.colour},stroke:{look.colour},stroke-width:{look.width}px"
            yield f"  style {name} {style},color:{Colour.INK}{',stroke-dasharray:5 3' * look.dashed}"
        if len(diagram.groups) > 1:
            yield "  end"
    for edge in edges:
        source, target = names[edge.source], names[edge.target]
        if edge.ends == "back":
            source, target = target, source
        line = "-.-" if edge.look.dashed else "==" if edge.look.width > 2 else "--"
        last = ("" if edge.look.dashed else line[0]) if edge.ends == "none" else ">"
        label = f"|{_mermaid_text(edge.lines)}|" if edge.lines else ""
        yield f"  {source} {'<' if edge.ends == 'both' else ''}{line}{last}{label} {target}"
    yield from (f"  linkStyle {place} stroke:{edge.look.colour}" for place, edge in enumerate(edges))


def _mermaid_text(lines: Sequence[Line]) -> str:
    return f'"{"<br/>".join(line.text.strip().translate(_MERMAID) or " " for line in lines)}"'

"""Diagrams of boxes and arrows, as DOT and Mermaid text and as pictures laid out by Graphviz.

Automata, detector graphs and topologies become diagrams; the form comes last. Graphviz is run as a program, because its
Python package only does the same; a layout of our own had 1,200 lines and was no better.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.errors import DistcedError

DiagramForm: TypeAlias = Literal["svg", "png", "dot", "mermaid"]

# Time limit of a layout, seconds.
LONGEST: Final = 120.0
# Fills of boxes.
PALE: Final = "#eef3f8"
YELLOW: Final = "#fff3d1"
WHITE: Final = "#ffffff"

_INK: Final = "#1f2d3d"
# Dark shades, for paper, of the colours that a terminal has by these names.
_SHADES: Final = {
    "dim": "#4a5a6a", "cyan": "#0b3d66", "yellow": "#8a5a00", "green": "#2c6e3f", "magenta": "#7a3b8f", "red": "#a12a2a"
}  # fmt: skip
_SUFFIXES: Final[dict[str, DiagramForm]] = {".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}
_FONT: Final = 'fontname="DejaVu Sans Mono,Menlo,Consolas,monospace"'
_FLOW: Final = "rankdir=LR, nodesep=0.3"
_NETWORK: Final = 'layout=neato, overlap=prism, overlap_scaling=2, splines=true, sep="+12", esep="+6"'
# Entries of the legend in a line.
_LEGEND: Final = 3
# Entities by number, with the semicolon that a statement would end at.
_MERMAID: Final = str.maketrans({each: f"#{ord(each)};" for each in '#"<>&`'})
_quoted = partial(json.dumps, ensure_ascii=False)
# In a folded text: a blank that is no place for a break, and what is kept together.
_BLANK: Final = "\0"
_KEPT: Final = (
    r"(?<!\S)(?:;|\||&|<=|⊆|@|and|or|where|as|set|->|within|by) | (?:=|==|!=|<|>|>=) ",
    r"'[^']*'|\"[^\"]*\"|`[^`]*`", r"\S*\{[^{}]*\}", r"\S*\([^()]*\)", r"\S*\[[^\[\]]*\]",
)  # fmt: skip


def fold(text: str, columns: int, most: int | None = None) -> list[str]:
    """The text of a pattern in at most n lines (None for no limit) of at most n characters, with an ellipsis for the
    rest. A sign stays with what follows it, a comparison with both sides; quoted text and short brackets are whole."""

    def together(found: re.Match[str]) -> str:
        if len(found[0]) <= columns - 6:
            return found[0].replace(" ", _BLANK)
        # An atom that is too long begins a line.
        return f"\n  {found[0]}" if found[0][0] == "[" and found.start() > 0 else found[0]

    for kept in _KEPT:
        text = re.sub(kept, together, text)
    parts = (wrap(part, columns, subsequent_indent="  ", break_on_hyphens=False) for part in text.split("\n"))
    lines = [line.replace(_BLANK, " ") for part in parts for line in part]
    return lines if most is None or len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: columns - 2]} …"]


class Line(NamedTuple):
    """A line of text with its style on a terminal, which pictures follow: `dim`, `bold`, `italic` or a colour."""

    text: str
    style: str = ""


class Look(NamedTuple):
    """Stroke of a box or an arrow; fill of a box, and whether it has two frames."""

    colour: str = ""
    width: float = 1.3
    dashed: bool = False
    fill: str = PALE
    double: bool = False


class Node(NamedTuple):
    """A box with lines of text, a point without any; its tooltip is shown in an SVG."""

    id: str
    lines: Sequence[Line] = ()
    look: Look = Look()
    tooltip: str = ""


class Edge(NamedTuple):
    """An edge without heads, with one at its target, or with two; `back` for one to an earlier node."""

    source: str
    target: str
    lines: Sequence[Line] = ()
    look: Look = Look()
    heads: int = 1
    back: bool = False


class Group(NamedTuple):
    """Nodes and edges under a title, drawn apart from those of other groups."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    title: Sequence[Line] = ()


class Diagram(NamedTuple):
    """Groups under a title and a legend; a network has no direction, others run from left to right."""

    title: Sequence[Line]
    legend: Sequence[Line]
    groups: Sequence[Group]
    network: bool = False


def folded(lines: Iterable[Line], columns: int, most: int | None = None) -> list[Line]:
    """Lines, each broken into at most n lines."""
    return [Line(text, line.style) for line in lines for text in fold(line.text, columns, most)]


def form_of(file: Path) -> DiagramForm:
    """The form of a file name's suffix: SVG by default."""
    return _SUFFIXES.get(file.suffix.lower(), "svg")


def drawn(diagram: Diagram, form: DiagramForm) -> str | bytes:
    """The diagram in a form; a PNG is bytes. Raises `DistcedError` if Graphviz is needed and missing, or fails."""
    source = "".join(f"{line}\n" for line in (_mermaid if form == "mermaid" else _dot)(diagram))
    if form in ("mermaid", "dot"):
        return source
    image = _laid_out(source, form)
    return image if form == "png" else image.decode()


def _laid_out(source: str, form: str) -> bytes:
    try:
        command = ["dot", f"-T{form}"]
        return subprocess.run(command, input=source.encode(), capture_output=True, timeout=LONGEST, check=True).stdout
    except FileNotFoundError:
        raise DistcedError(
            "Graphviz is not installed: there is no program dot",
            given=f"--format {form}",
            advice="apt install graphviz, or brew install graphviz; --format dot and --format mermaid need nothing",
        ) from None
    except subprocess.TimeoutExpired:
        limit, advice = f"no layout within {LONGEST:.0f} s", "--format text or json shows any size"
        raise DistcedError("too large for a picture", given=limit, advice=advice) from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip()
        raise DistcedError("Graphviz failed", given="dot", advice=said or str(error)) from None


def _dot(diagram: Diagram) -> Iterator[str]:
    """Lines of DOT. `dot` draws later elements on top, so groups and nodes are written in reverse."""
    signs = list(map(_font, diagram.legend))
    legend = ("   ".join(signs[first : first + _LEGEND]) for first in range(0, len(signs), _LEGEND))
    head = _table([*map(_font, diagram.title), *legend])
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
            yield from _dot_edge(edge, _quoted(f"link {place}") if diagram.network else "")
        if len(diagram.groups) > 1:
            yield "  }"
    yield "}"


def _dot_node(node: Node) -> str:
    look = node.look
    if not node.lines:
        return f'shape=point, width=0.09, color="{_INK}"'
    return (
        f'label={_table(map(_font, node.lines))}, style="filled,rounded{",dashed" * look.dashed}", '
        f'color="{_shade(look.colour)}", penwidth={look.width}, fillcolor="{look.fill}", '
        f"tooltip={_quoted(node.tooltip or node.id)}, peripheries={1 + look.double}"
    )


def _dot_edge(edge: Edge, between: str) -> Iterator[str]:
    """The edge, in two halves if its label is a node between: so it has room, whatever the direction."""
    source, target, look = _quoted(edge.source), _quoted(edge.target), edge.look
    stroke = f'color="{_shade(look.colour)}", penwidth={look.width}, style={"dashed" if look.dashed else "solid"}'
    label = _table(map(_font, edge.lines), "center") if edge.lines else '""'
    last, weight = "forward" if edge.heads else "none", 1 if edge.back else 3 if edge.heads else 8
    if edge.back:
        # Turned round, so that the layout goes by what leads on.
        source, target, last = target, source, "back"
    if between:
        yield f'  {between} [label={label}, shape=plain, style=""];'
        yield f"  {source} -> {between} [{stroke}, dir={'back' if edge.heads == 2 else 'none'}];"
        yield f"  {between} -> {target} [{stroke}, dir={last}];"
    else:
        yield f"  {source} -> {target} [label={label}, {stroke}, dir={last}, weight={weight}];"


def _table(rows: Iterable[str], align: str = "left") -> str:
    cells = "".join(f'<tr><td align="{align}">{row}</td></tr>' for row in rows)
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>>'


def _font(line: Line) -> str:
    text, style = escape(line.text, quote=False), line.style
    text = f"<b>{text}</b>" if "bold" in style else f"<i>{text}</i>" if "italic" in style else text
    size = 12 if "bold" in style else 10 if "dim" in style else 11
    return f'<font color="{_shade(style)}" point-size="{size}">{text}</font>'


def _shade(style: str) -> str:
    return next((_SHADES[word] for word in style.split() if word in _SHADES), _INK)


def _mermaid(diagram: Diagram) -> Iterator[str]:
    """Lines of a Mermaid flowchart, which GitHub and GitLab render; title and legend are comments."""
    yield from (f"%% {line.text}" for line in (*diagram.title, *diagram.legend))
    yield "flowchart TB" if diagram.network else "flowchart LR"
    edges = [edge for group in diagram.groups for edge in group.edges]
    names: dict[str, str] = {}
    for number, group in enumerate(diagram.groups):
        if len(diagram.groups) > 1:
            yield f"  subgraph g{number}[{_mermaid_text(group.title)}]"
        for node in group.nodes:
            look, text, name = node.look, _mermaid_text(node.lines), names.setdefault(node.id, f"n{len(names)}")
            yield f"  {name}" + (f"[[{text}]]" if look.double else f"({text})" if node.lines else '((" "))')
            colour = _shade(look.colour)
            style = f"fill:{look.fill if node.lines else colour},stroke:{colour},stroke-width:{look.width}px"
            yield f"  style {name} {style},color:{_INK}{',stroke-dasharray:5 3' * look.dashed}"
        if len(diagram.groups) > 1:
            yield "  end"
    for edge in edges:
        line = "-.-" if edge.look.dashed else "==" if edge.look.width > 2 else "--"
        last = ">" if edge.heads else "" if edge.look.dashed else line[0]
        label = f"|{_mermaid_text(edge.lines)}|" if edge.lines else ""
        yield f"  {names[edge.source]} {'<' * (edge.heads == 2)}{line}{last}{label} {names[edge.target]}"
    yield from (f"  linkStyle {place} stroke:{_shade(edge.look.colour)}" for place, edge in enumerate(edges))


def _mermaid_text(lines: Sequence[Line]) -> str:
    return f'"{"<br/>".join(line.text.strip().translate(_MERMAID) or " " for line in lines)}"'

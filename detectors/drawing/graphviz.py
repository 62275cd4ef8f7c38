"""Diagrams for Graphviz: in its DOT language, and laid out by its programs as SVG or PNG.

`dot` is run as a program: the Python package of that name only does the same.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, Literal

from distced.detectors.drawing.diagram import Colour, Diagram, Group, Line, Look, Node
from distced.middleware.model.errors import DistcedError

FONT: Final = "DejaVu Sans Mono,Menlo,Consolas,monospace"
LONGEST: Final = 120.0
"""Time limit of a layout, seconds."""

_LEGEND: Final = 120
"""Line length of the legend, in characters."""

_NETWORK: Final = 'layout=neato, overlap=prism, overlap_scaling=2, splines=true, sep="+12", esep="+6"'
"""Layout options of a network: boxes close together, with routed lines."""


def render(source: str, form: Literal["svg", "png"]) -> bytes:
    """Lay out a graph in DOT. Raises `DistcedError` if Graphviz is missing or fails."""
    program = shutil.which("dot")
    if program is None:
        raise DistcedError(
            "Graphviz is not installed: there is no program dot",
            given=f"--format {form}",
            advice="apt install graphviz, or brew install graphviz; --format dot and --format mermaid need nothing",
        )
    try:
        command = [program, f"-T{form}"]
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=LONGEST, check=True)
    except subprocess.TimeoutExpired:
        raise DistcedError(
            "too large for a picture",
            given=f"no layout within {LONGEST:.0f} s",
            advice="--format text or json shows any size",
        ) from None
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.decode(errors="replace").strip() if isinstance(error, subprocess.CalledProcessError) else ""
        raise DistcedError("Graphviz failed", given=program, advice=said or str(error)) from None
    return done.stdout


def dot(diagram: Diagram) -> str:
    """The diagram in DOT. `dot` draws later elements on top, so groups and nodes are written in reverse."""
    layout = _NETWORK if diagram.network else "rankdir=LR, nodesep=0.3"
    head = _table([*map(_font, diagram.title), *_legend(diagram)])
    lines = [
        "digraph distced {",
        f'  graph [{layout}, label={head}, labelloc=t, labeljust=l, pad=0.3, fontname="{FONT}"];',
        f'  node [shape=box, style="filled,rounded", fontname="{FONT}", margin="0.1,0.05", height=0.3, width=0.3];',
        f'  edge [fontname="{FONT}", arrowsize=0.8];',
    ]
    for number, group in reversed(list(enumerate(diagram.groups))):
        if len(diagram.groups) == 1:
            lines += _group(group, diagram.network, "  ")
            continue
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f'    label={_table(map(_font, group.title))}; labeljust=l; color="#d5dde5"; margin=12;')
        lines += [*_group(group, diagram.network, "    "), "  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _group(group: Group, network: bool, indent: str) -> Iterator[str]:
    for node in reversed(group.nodes):
        yield f"{indent}{quoted(node.id)} [{_node(node)}];"
    for number, edge in enumerate(group.edges):
        source, target, stroke = quoted(edge.source), quoted(edge.target), _stroke(edge.look)
        label = _table(map(_font, edge.lines), "center") if edge.lines else '""'
        if network and edge.lines:
            # A label on its way is a node: so it has room, whatever direction its edge takes.
            name = quoted(f"link {number}")
            first = "back" if edge.ends in ("back", "both") else "none"
            last = "forward" if edge.ends in ("forward", "both") else "none"
            yield f'{indent}{name} [label={label}, shape=plain, style=""];'
            yield f"{indent}{source} -> {name} [{stroke}, dir={first}];"
            yield f"{indent}{name} -> {target} [{stroke}, dir={last}];"
        elif edge.back:
            # Turned round, so that the layout goes by what leads on.
            yield f"{indent}{target} -> {source} [label={label}, {stroke}, dir=back];"
        else:
            weight = 8 if edge.ends == "none" else 3
            yield f"{indent}{source} -> {target} [label={label}, {stroke}, dir={edge.ends}, weight={weight}];"


def _node(node: Node) -> str:
    if not node.lines:
        return f'shape=point, width=0.09, color="{node.look.colour}"'
    label = _table(map(_font, node.lines))
    dashed = ",dashed" if node.look.dashed else ""
    frames = ", peripheries=2" if node.look.double else ""
    tooltip = quoted(node.tooltip or node.id)
    return (
        f'label={label}, style="filled,rounded{dashed}", color="{node.look.colour}", penwidth={node.look.width}, '
        f'fillcolor="{node.look.fill}", tooltip={tooltip}{frames}'
    )


def _stroke(look: Look) -> str:
    return f'color="{look.colour}", penwidth={look.width}, style={"dashed" if look.dashed else "solid"}'


def _legend(diagram: Diagram) -> Iterator[str]:
    row, width = "", 0
    for sign, meaning in diagram.legend:
        length = len(sign.text) + len(meaning) + 4
        if width and width + length > _LEGEND:
            yield row
            row, width = "", 0
        row += f"{_font(sign)}{_font(Line(f' {meaning}   ', Colour.GREY, 10))}"
        width += length
    if row:
        yield row


def _table(rows: Iterable[str], align: str = "left") -> str:
    cells = "".join(f'<tr><td align="{align}">{row}</td></tr>' for row in rows)
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>>'


def _font(line: Line) -> str:
    text = escape(line.text, quote=False)
    blank = len(text) - len(text.lstrip(" "))
    text = "&#160;" * blank + text[blank:]
    text = f"<b>{text}</b>" if line.bold else f"<i>{text}</i>" if line.italic else text
    return f'<font color="{line.colour}" point-size="{line.size:g}">{text}</font>'


def quoted(text: str) -> str:
    """A quoted string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

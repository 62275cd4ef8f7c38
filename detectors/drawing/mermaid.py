"""Diagrams as Mermaid flowcharts, which GitHub, GitLab and many editors render directly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from distced.detectors.drawing.diagram import Colour, Diagram, Edge, Line, Node

# Entities by number, with the semicolon that a statement would end at.
_ESCAPED: Final = str.maketrans({each: f"#{ord(each)};" for each in '#"<>&`'})


def mermaid(diagram: Diagram) -> str:
    """The diagram as a flowchart; title and legend are comments."""
    lines = [f"%% {line.text}" for line in diagram.title]
    lines += [f"%% {sign.text} {meaning}" for sign, meaning in diagram.legend]
    lines.append("flowchart TB" if diagram.network else "flowchart LR")
    names: dict[str, str] = {}
    edges: list[Edge] = []
    for number, group in enumerate(diagram.groups):
        frame = [f"  subgraph g{number}[{_text(group.title)}]", "  end"] if len(diagram.groups) > 1 else []
        lines += frame[:1]
        for node in group.nodes:
            names[node.id] = f"n{len(names)}"
            lines += _node(names[node.id], node)
        lines += frame[1:]
        edges += group.edges
    lines += (_edge(names, edge) for edge in edges)
    lines += (f"  linkStyle {place} stroke:{edge.look.colour}" for place, edge in enumerate(edges))
    return "\n".join(lines) + "\n"


def _node(name: str, node: Node) -> Iterator[str]:
    if not node.lines:
        yield f'  {name}((" "))'
        yield f"  style {name} fill:{Colour.INK},stroke:{Colour.INK}"
        return
    look, text = node.look, _text(node.lines)
    yield f"  {name}[[{text}]]" if look.double else f"  {name}({text})"
    dashes = ",stroke-dasharray:5 3" if look.dashed else ""
    yield f"  style {name} fill:{look.fill},stroke:{look.colour},stroke-width:{look.width}px,color:{Colour.INK}{dashes}"


def _edge(names: dict[str, str], edge: Edge) -> str:
    source, target = names[edge.source], names[edge.target]
    if edge.ends == "back":
        source, target = target, source
    line = "-.-" if edge.look.dashed else "==" if edge.look.width > 2 else "--"
    head = {"none": "" if edge.look.dashed else line[0]}.get(edge.ends, ">")
    label = f"|{_text(edge.lines)}|" if edge.lines else ""
    return f"  {source} {'<' if edge.ends == 'both' else ''}{line}{head}{label} {target}"


def _text(lines: Sequence[Line]) -> str:
    return f'"{"<br/>".join(line.text.strip().translate(_ESCAPED) for line in lines)}"'

"""Forms of diagrams: DOT and Mermaid without dependencies; SVG and PNG by Graphviz."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from distced.detectors.drawing.diagram import Diagram
from distced.detectors.drawing.graphviz import dot, render
from distced.detectors.drawing.mermaid import mermaid

DiagramForm: TypeAlias = Literal["svg", "png", "dot", "mermaid"]

_BY_SUFFIX: Final[dict[str, DiagramForm]] = {".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}


def form_of(file: Path) -> DiagramForm:
    """The form of a file name's suffix: SVG by default."""
    return _BY_SUFFIX.get(file.suffix.lower(), "svg")


def drawn(diagram: Diagram, form: DiagramForm) -> str | bytes:
    """The diagram in a form; a PNG is bytes."""
    if form == "mermaid":
        return mermaid(diagram)
    source = dot(diagram)
    if form == "dot":
        return source
    image = render(source, form)
    return image if form == "png" else image.decode()

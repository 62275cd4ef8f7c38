"""A graph of detectors as SVG, with the patterns it detects above it and a legend."""

from __future__ import annotations

from typing import Final

from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.graph_figure import graph_figure, running_frame
from distced.detectors.drawing.graph_view import RUNS_ALREADY, FlowKind, GraphView
from distced.detectors.drawing.picture import arrow_sample, column, legend, picture, stack
from distced.detectors.drawing.shapes import Panel, Shape, TextLine
from distced.middleware.model.errors import DistcedError

MOST_DETECTORS: Final = 100
"""What a picture holds that anybody can read."""

_BETWEEN: Final = 22.0
_COLUMNS: Final = 110
_MOST_LINES: Final = 4
_MEANINGS: Final[dict[FlowKind, str]] = {
    "events": "primitive events",
    "records": "composite events with records, into what they are part of",
    "published": "published composite events",
    "read": "read again by their name",
}


def graph_svg(view: GraphView) -> str:
    """The graph as a picture; too large a one is a `DistcedError`."""
    if len(view.detectors) > MOST_DETECTORS:
        raise DistcedError(
            "too many detectors for a picture",
            given=str(len(view.detectors)),
            allowed=f"at most {MOST_DETECTORS}",
            advice="--format text, dot or json shows any number",
        )
    title = f"decomposition {view.decomposition}: {view.summary()}"
    shapes: list[Shape] = []
    height = stack(shapes, column(_heading(view, title)), 0.0) + _BETWEEN
    height = stack(shapes, graph_figure(view), height) + _BETWEEN
    stack(shapes, _legend(view), height)
    return picture(shapes, title)


def _heading(view: GraphView, title: str) -> list[TextLine]:
    lines = [TextLine(title, "title")]
    digits = len(str(len(view.patterns)))
    for place, text in enumerate(view.patterns):
        number = f"{place + 1:>{digits}}  "
        for line in fold(text, _COLUMNS, _MOST_LINES):
            lines.append(TextLine(number + line, "pattern"))
            number = " " * len(number)
    return lines


def _legend(view: GraphView) -> list[Shape]:
    """What the signs mean that occur."""
    entries: list[tuple[list[Shape], float, str]] = []
    for kind, meaning in _MEANINGS.items():
        if any(flow.kind == kind for flow in view.flows):
            entries.append((*arrow_sample(kind), meaning))
    entries.append(([Panel(0, -8, 26, 16, "root")], 26, "detector of a pattern"))
    if any(not each.root for each in view.detectors):
        entries.append(([Panel(0, -8, 26, 16, "detector")], 26, "detector of a part"))
    if view.shared:
        entries.append(([Panel(0, -8, 26, 16, "shared")], 26, "shared"))
    if view.running:
        entries.append(([Panel(0, -8, 34, 16, "detector"), running_frame(0, -8, 34, 16)], 34, RUNS_ALREADY))
    return legend(entries)

"""Diagram of a graph of detectors: primitive events on the left, published composite events on the right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distced.detectors.drawing.diagram import SMALL, Colour, Diagram, Edge, Group, Line, Look, Node, folded, signs
from distced.detectors.drawing.graph_view import RUNS_ALREADY, DetectorView, FlowKind, GraphView

_TITLE: Final = 110
_COLUMNS: Final = 40
_MOST_LINES: Final = 14
_FLOWS: Final[dict[FlowKind, tuple[Look, str, str]]] = {
    "events": (Look(Colour.GREEN), "─▶", "primitive events"),
    "records": (Look(Colour.BLUE, 2.2), "━▶", "composite events with records, into what they are part of"),
    "published": (Look(Colour.BROWN, 1.6), "─▶", "published composite events"),
    "read": (Look(Colour.PURPLE, 1.6, dashed=True), "╌▶", "read again by their name"),
}


def graph_diagram(view: GraphView) -> Diagram:
    """Inputs, detectors and publications, and the flows between them."""
    inputs = {name: f"event {name}" for name in view.inputs}
    texts = {each.id: each.text for each in view.publications} | {name: name for name in view.inputs}
    nodes = [
        Node(inputs[name], [Line(name, Colour.GREEN, 12)], Look(Colour.GREEN, fill=Colour.WHITE))
        for name in view.inputs
    ]
    nodes += [Node(each.id, list(_detector(each)), _look(each), f"{each.id}: {each.text}") for each in view.detectors]
    nodes += [
        Node(each.id, [Line(each.text, Colour.BROWN, 12, bold=True)], Look(Colour.BROWN, 1.6, fill=Colour.WHITE))
        for each in view.publications
    ]
    edges = []
    for flow in view.flows:
        look = _FLOWS[flow.kind][0]
        # What stands in the box at its beginning, or in the legend, is not said again.
        known = (texts.get(flow.source, ""), "composite events")
        lines = [Line(line, look.colour, 10) for line in flow.label if line not in known]
        source = inputs[flow.source] if flow.kind == "events" else flow.source
        edges.append(Edge(source, flow.target, lines, look))
    title = [Line(f"decomposition {view.decomposition}: {view.summary()}", size=13, bold=True)]
    for place, text in enumerate(view.patterns, 1):
        first, *others = folded(text, _TITLE, Line(""), 4)
        title += [
            first._replace(text=f"{place}  {first.text}"),
            *(each._replace(text=f"   {each.text}") for each in others),
        ]
    kinds = {flow.kind for flow in view.flows}
    legend = signs([
        *((kind in kinds, sign, look.colour, meaning) for kind, (look, sign, meaning) in _FLOWS.items()),
        (True, "thick frame", Colour.INK, "detector of a pattern"),
        (any(not each.root for each in view.detectors), "thin frame", Colour.INK, "detector of a part"),
        (view.shared > 0, "yellow", Colour.BROWN, "shared"),
        (view.running > 0, "dashed frame", Colour.INK, RUNS_ALREADY),
    ])  # fmt: skip
    return Diagram(title, legend, [Group(nodes, edges)])


def _look(detector: DetectorView) -> Look:
    fill = Colour.YELLOW if detector.serves else Colour.PALE
    return Look(width=2.6 if detector.root else 1.3, dashed=detector.running, fill=fill)


def _detector(detector: DetectorView) -> Iterator[Line]:
    yield Line("   ".join((detector.short, *detector.notes())), bold=True, size=12)
    yield from folded(detector.body, _COLUMNS, Line(""), _MOST_LINES)
    if detector.remarks():
        yield from folded(" · ".join(detector.remarks()), _COLUMNS, SMALL)
    if detector.patterns:
        places = ", ".join(str(place + 1) for place in detector.patterns)
        number = f"pattern {places}: " if len(detector.patterns) == 1 else f"patterns {places}: "
        yield from folded(
            f"{number}publishes {detector.output or 'composite events'}", _COLUMNS, Line("", Colour.BROWN)
        )
    elif detector.output:
        yield from folded(f"publishes {detector.output}", _COLUMNS, Line("", Colour.BROWN))

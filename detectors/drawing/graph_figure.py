"""The drawing of a graph of detectors: which shapes stand where.

Primitive events enter on the left, published composite events leave on the right. Every line arrives in a port of its
own, with what flows in it written there: so no label lies on another line, however far it comes. Lines bend only in
the room between layers; through a layer they run straight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.graph_view import DetectorView, Flow, FlowKind, GraphView
from distced.detectors.drawing.layout import Box, connect, place, ranks
from distced.detectors.drawing.shapes import HEAD, Arrowhead, Look, Panel, Path, Pen, Shape, Style, Text, TextLine

COLUMNS: Final = 40
"""Of the text of a pattern, in its box."""

_MOST_LINES: Final = 14
_PADDING: Final = 9.0
_STUB: Final = 14.0
_CURVES: Final = 26.0
_PORT: Final = 16.0
_LINE_GAP: Final = 5.0
_APART: Final = 8.0
_INSET: Final = 4.0
_LABELS: Final[dict[FlowKind, Style]] = {
    "events": "events flow",
    "records": "records flow",
    "published": "published flow",
    "read": "read flow",
}


@dataclass(slots=True, eq=False)
class _Node:
    """An input, a detector or a publication.

    Attributes:
        lines: what stands in it.
        aside: what stands at the right of the first line.
        running: whether it is a detector that runs already.
        width, height: of its panel.
        box: its place, once it has one; anchored at the left of the panel, halfway down.
        arriving: the lines that come in, each with the last box before this one.
    """

    look: Look
    lines: list[TextLine]
    title: str = ""
    aside: TextLine | None = None
    running: bool = False
    width: float = 0.0
    height: float = 0.0
    box: Box = field(default_factory=lambda: Box(0, 0, 0, 0))
    arriving: list[tuple[Box, _Line]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Line:
    """A flow as it is drawn."""

    flow: Flow
    source: _Node
    target: _Node
    bends: list[Box] = field(default_factory=list)

    @property
    def labels(self) -> list[TextLine]:
        return [TextLine(text, _LABELS[self.flow.kind]) for text in self.flow.label]


def graph_figure(view: GraphView) -> list[Shape]:
    """The shapes of a graph of detectors."""
    return _Figure(view).shapes()


class _Figure:
    def __init__(self, view: GraphView) -> None:
        self.nodes: dict[str, _Node] = {}
        for name in view.inputs:
            self.nodes[_input(name)] = _Node("input", [TextLine(name, "type")], f"event {name}")
        for detector in view.detectors:
            self.nodes[detector.id] = _detector(detector)
        for each in view.publications:
            self.nodes[each.id] = _Node("publication", [TextLine(each.text, "published")], f"publishes {each.text}")
        self.lines = [
            _Line(flow, self.nodes[_input(flow.source) if flow.kind == "events" else flow.source],
                  self.nodes[flow.target])
            for flow in view.flows
        ]  # fmt: skip
        self.boxes: list[Box] = []
        self.edges: dict[int, tuple[float, float]] = {}

    def shapes(self) -> list[Shape]:
        layers = self._layers()
        for node, layer in zip(self.nodes.values(), layers, strict=True):
            self._make_box(node, layer)
        for line in self.lines:
            line.bends = connect(line.source.box, line.target.box)
            self.boxes += line.bends
            line.target.arriving.append((line.bends[-1] if line.bends else line.source.box, line))
        place(self.boxes)
        for layer in {box.layer for box in self.boxes}:
            members = [box for box in self.boxes if box.layer == layer]
            self.edges[layer] = (min(box.x - box.left for box in members), max(box.x + box.right for box in members))
        drawn: list[Shape] = []
        for node in self.nodes.values():
            for line, y in self._ports(node):
                drawn += self._draw_line(line, y)
        for node in self.nodes.values():
            drawn += _draw_node(node)
        return drawn

    def _layers(self) -> list[int]:
        """The layer of each node: inputs on the left, on the right what is published and not read again."""
        places = {id(node): index for index, node in enumerate(self.nodes.values())}
        ways = [(places[id(line.source)], places[id(line.target)]) for line in self.lines]
        inputs = [index for index, node in enumerate(self.nodes.values()) if node.look == "input"]
        layers = ranks(len(self.nodes), inputs, ways)
        sources = {source for source, _ in ways}
        for index, node in enumerate(self.nodes.values()):
            if node.look == "publication" and index not in sources:
                layers[index] = max(layers)
        return layers

    def _make_box(self, node: _Node, layer: int) -> None:
        arriving = [line for line in self.lines if line.target is node]
        in_lines = sum(line.height for line in node.lines)
        first = node.lines[0].width + (0 if node.aside is None else 3 * _PADDING + node.aside.width)
        node.width = max([first, *(line.width for line in node.lines)]) + 2 * _PADDING
        node.height = max(in_lines + 2 * _PADDING - 4, sum(_room(line) for line in arriving) + 4)
        label = max((each.width for line in arriving for each in line.labels), default=-_STUB - HEAD)
        half = node.height / 2
        node.box = Box(label + _STUB + HEAD + (_CURVES if arriving else 0), node.width + _CURVES, half, half, layer)
        self.boxes.append(node.box)

    def _ports(self, node: _Node) -> list[tuple[_Line, float]]:
        """The lines that arrive, from above, and how far down each does."""
        arriving = [line for _, line in sorted(node.arriving, key=lambda pair: pair[0].y)]
        y = node.box.y - sum(_room(line) for line in arriving) / 2
        ports = []
        for line in arriving:
            ports.append((line, y + _PORT))
            y += _room(line)
        # The label of a single line stands above it.
        return [(ports[0][0], node.box.y)] if len(ports) == 1 else ports

    def _draw_line(self, line: _Line, y: float) -> list[Shape]:
        flow, source, target = line.flow, line.source, line.target
        pen = Pen(flow.kind)
        begin = source.box.y + self._offset(source, flow.kind)
        pen.move((source.box.x + source.width, begin))
        pen.line((self.edges[source.box.layer][1] - _CURVES, begin))
        for bend in line.bends:
            left, right = self.edges[bend.layer]
            pen.across((left + _CURVES, bend.y))
            pen.line((right - _CURVES, bend.y))
        pen.across((self.edges[target.box.layer][0] + _CURVES, y))
        pen.line((target.box.x - HEAD + 1, y))
        drawn: list[Shape] = [pen.path(title=f"{flow.source} → {flow.target}: {', '.join(flow.label)}")]
        drawn.append(Arrowhead(target.box.x, y, 1.0, 0.0, flow.kind))
        x = target.box.x - HEAD - _STUB / 2
        for each, below in zip(line.labels, (-_LINE_GAP, _label_height(line) - 1), strict=False):
            drawn.append(Text(x, y + below, each, "end"))
        return drawn

    def _offset(self, node: _Node, kind: FlowKind) -> float:
        """Lines of several kinds do not leave at the same height."""
        kinds = list(dict.fromkeys(line.flow.kind for line in self.lines if line.source is node))
        return (kinds.index(kind) - (len(kinds) - 1) / 2) * _APART


def running_frame(x: float, y: float, width: float, height: float) -> Path:
    """The frame within the panel of a detector that runs already; (x, y) is the panel's upper left corner."""
    left, top, right, bottom = x + _INSET, y + _INSET, x + width - _INSET, y + height - _INSET
    pen = Pen("weak")
    pen.move((left, top))
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
        pen.line(corner)
    return pen.path()


def _label_height(line: _Line) -> float:
    """The height of one line of the labels."""
    return line.labels[0].height


def _room(line: _Line) -> float:
    """The height of a port: a label above the line, and perhaps one below."""
    return _PORT + 6 + (_label_height(line) if len(line.labels) > 1 else 0)


def _input(name: str) -> str:
    # A type may be called as a detector is.
    return f"event {name}"


def _detector(detector: DetectorView) -> _Node:
    lines = [TextLine(detector.short, "name")]
    lines += [TextLine(line, "pattern") for line in fold(detector.body, COLUMNS, _MOST_LINES)]
    lines += [TextLine(line, "domain") for line in _remarks(detector)]
    if detector.patterns:
        which = ", ".join(str(place + 1) for place in detector.patterns)
        numbers = f"pattern {which}" if len(detector.patterns) == 1 else f"patterns {which}"
        said = f"{numbers}: publishes {detector.output or 'composite events'}"
        lines += [TextLine(line, "emits") for line in fold(said, COLUMNS, _MOST_LINES)]
    elif detector.output:
        lines += [TextLine(line, "emits") for line in fold(f"publishes {detector.output}", COLUMNS, _MOST_LINES)]
    notes = detector.notes()
    aside = TextLine(" · ".join(notes), "shared" if detector.serves else "remark") if notes else None
    look: Look = "root" if detector.root else "detector"
    if detector.serves:
        look = "shared root" if detector.root else "shared"
    return _Node(look, lines, f"{detector.id}: {detector.text}", aside, detector.running)


def _remarks(detector: DetectorView) -> Sequence[str]:
    remarks = detector.remarks()
    return fold(" · ".join(remarks), COLUMNS) if remarks else ()


def _draw_node(node: _Node) -> list[Shape]:
    x, top = node.box.x, node.box.y - node.height / 2
    drawn: list[Shape] = [Panel(x, top, node.width, node.height, node.look, node.title)]
    if node.running:
        drawn.append(running_frame(x, top, node.width, node.height))
    y = node.box.y - sum(line.height for line in node.lines) / 2
    for line in node.lines:
        y += line.height
        drawn.append(Text(x + _PADDING, y - line.height * 0.25, line, "start"))
        if line is node.lines[0] and node.aside is not None:
            drawn.append(Text(x + node.width - _PADDING, y - line.height * 0.25, node.aside, "end"))
    return drawn

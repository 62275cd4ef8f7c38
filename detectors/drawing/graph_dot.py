"""A graph of detectors in Graphviz's DOT language, for those who want to lay it out or style it themselves."""

from __future__ import annotations

from typing import Final

from distced.detectors.drawing.dot import quoted
from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.graph_view import DetectorView, FlowKind, GraphView

_COLUMNS: Final = 40

_STYLES: Final[dict[FlowKind, str]] = {
    "events": 'color="#2c6e3f", fontcolor="#2c6e3f"',
    "records": 'color="#0b3d66", fontcolor="#0b3d66", penwidth=2',
    "published": 'color="#8a5a00", fontcolor="#8a5a00"',
    "read": 'color="#7a3b8f", fontcolor="#7a3b8f", style=dashed',
}


def graph_dot(view: GraphView) -> str:
    """The graph: primitive events on the left, published composite events on the right."""
    inputs = {name: quoted(f"event {name}") for name in view.inputs}
    lines = [
        "digraph distced {",
        "  rankdir=LR;",
        '  node [shape=box, fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=9];',
        f"  label={quoted(f'decomposition {view.decomposition}: {view.summary()}')}; labeljust=l;",
        "  { rank=source;",
        *(f'    {inputs[name]} [label={quoted(name)}, style=rounded, color="#2c6e3f"];' for name in view.inputs),
        "  }",
        *(f"  {quoted(each.id)} [{_detector(each)}];" for each in view.detectors),
        *(
            f'  {quoted(each.id)} [label={quoted(each.text)}, style=rounded, color="#8a5a00"];'
            for each in view.publications
        ),
    ]
    for flow in view.flows:
        source = inputs[flow.source] if flow.kind == "events" else quoted(flow.source)
        lines.append(f"  {source} -> {quoted(flow.target)} [label={quoted(*flow.label)}, {_STYLES[flow.kind]}];")
    return "\n".join([*lines, "}"]) + "\n"


def _detector(detector: DetectorView) -> str:
    said = ["   ".join((detector.short, *detector.notes()))]
    said += fold(detector.body, _COLUMNS)
    said += [" · ".join(detector.remarks())] if detector.remarks() else []
    said += fold(f"→ {detector.output}", _COLUMNS) if detector.output else []
    style = '"filled,dashed"' if detector.running else "filled"
    fill = f'style={style}, fillcolor="{"#fff3d1" if detector.serves else "#eef3f8"}"'
    # \l ends a line that begins at the left.
    label = quoted(*said).replace("\\n", "\\l").removesuffix('"') + '\\l"'
    return f"label={label}, {fill}, penwidth={2.5 if detector.root else 1}"

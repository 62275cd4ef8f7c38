"""A graph of detectors as JSON."""

from __future__ import annotations

from typing import Any

from distced.detectors.drawing.graph_view import DetectorView, Flow, GraphView


def graph_as_dict(view: GraphView) -> dict[str, Any]:
    """What `distced explain --decomposition ... --format json` prints."""
    return {
        "decomposition": view.decomposition,
        "patterns": [{"text": text, "detector": root} for text, root in zip(view.patterns, view.roots, strict=True)],
        "inputs": list(view.inputs),
        "detectors": [_detector(each) for each in view.detectors],
        "publications": [{"id": each.id, "type": each.type_name or None} for each in view.publications],
        "flows": [_flow(each) for each in view.flows],
    }


def _detector(detector: DetectorView) -> dict[str, Any]:
    return {
        "id": detector.id,
        "text": detector.text,
        "key": list(detector.key),
        "window_ns": detector.window,
        "consumption": "epoch" if detector.epochs else "ordered",
        "patterns": list(detector.patterns),
        "publishes": detector.output or None,
        "parts": list(detector.parts),
        "reads": list(detector.reads),
        "exports": list(detector.exports),
        "serves": detector.serves or 1,
        "shared": detector.serves > 0,
        "running": detector.running,
    }


def _flow(flow: Flow) -> dict[str, Any]:
    return {"kind": flow.kind, "from": flow.source, "to": flow.target, "carries": list(flow.label)}

"""Patterns, automata and graphs of detectors as JSON."""

from __future__ import annotations

from typing import Any

from distced.detectors.compiler import Compiled
from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView
from distced.detectors.drawing.graph_view import DetectorView, Flow, GraphView
from distced.detectors.drawing.outline import outline


def pattern_as_dict(compiled: Compiled, view: AutomatonView) -> dict[str, Any]:
    """The JSON document of `distced explain --format json` for one pattern."""
    return {
        "text": compiled.text,
        "tree": outline(compiled.publication.pattern).as_dict(),
        "automaton": automaton_as_dict(view),
    }


def automaton_as_dict(view: AutomatonView) -> dict[str, Any]:
    """An automaton: its states, each with the moves out of it, and the automata of the sides of `&`."""
    return {
        "title": view.title,
        "canonical_id": view.canonical_id,
        "key": list(view.key),
        "within": view.within or None,
        "registers": list(view.registers),
        "starts": [view.states[start].name for start in view.starts],
        "states": [_state(view, place, state) for place, state in enumerate(view.states)],
        "sides": [automaton_as_dict(side) for side in view.sides],
    }


def _state(view: AutomatonView, place: int, state: StateView) -> dict[str, Any]:
    return {
        "name": state.name,
        "start": state.start,
        "generative": state.generative,
        "emits": state.emits or None,
        "sets_off": list(state.arms),
        "domain": state.domain or None,
        "fails": state.fails or None,
        "timers": list(state.running),
        "windows": list(state.windows),
        "keys": list(state.keys),
        "moves": [_move(view, move) for move in view.moves_of(place)],
    }


def _move(view: AutomatonView, move: MoveView) -> dict[str, Any]:
    return {
        "label": move.label,
        "strong": move.strong,
        "to": [view.states[target].name for target in move.targets],
        "forks": len(move.targets) > 1,
        "hidden": move.hidden,
        "binds": move.binds or None,
        "sets": list(move.sets),
        "opens": list(move.opens),
    }


def graph_as_dict(view: GraphView) -> dict[str, Any]:
    """The JSON document of `distced explain --decomposition ... --format json`."""
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

"""A pattern and its automaton as JSON."""

from __future__ import annotations

from typing import Any

from distced.detectors.compiler import Compiled
from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView
from distced.detectors.drawing.outline import outline


def pattern_as_dict(compiled: Compiled, view: AutomatonView) -> dict[str, Any]:
    """What `distced explain --format json` prints of one pattern."""
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

"""A pattern's automaton in Graphviz's DOT language, for those who want to lay it out or style it themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView


def dot(drawings: Sequence[tuple[str, AutomatonView]]) -> str:
    """One graph of one or more patterns, each a cluster, the sides of `&` beside it."""
    lines = [
        "digraph distced {",
        "  rankdir=LR;",
        '  node [shape=circle, fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=10];',
    ]
    for place, (text, view) in enumerate(drawings):
        lines += _cluster(view, f"p{place}", f"{text}\n{view.canonical_id}")
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(view: AutomatonView, name: str, title: str) -> Iterator[str]:
    yield f"  subgraph cluster_{name} {{"
    yield f"    label={quoted(title, *view.remarks())}; labeljust=l;"
    for place, state in enumerate(view.states):
        yield f"    {name}_{place} [{_state(state)}];"
        if state.start:
            yield f'    {name}_start{place} [shape=point, label=""];'
            yield f"    {name}_start{place} -> {name}_{place};"
    for place, move in enumerate(view.moves):
        yield from _move(move, name, place)
    yield "  }"
    for place, side in enumerate(view.sides):
        yield from _cluster(side, f"{name}_side{place}", side.title)


def _state(state: StateView) -> str:
    below = [f"→ {state.emits}"] if state.emits else []
    below += [f"sets off {arm}" for arm in state.arms]
    below += [f"Σ {state.domain}"] if state.domain else []
    below += [f"fails: {state.fails}"] if state.fails else []
    shape = "doublecircle" if state.generative else "circle"
    return f"shape={shape}, label={quoted(state.name)}, xlabel={quoted(*below)}"


def _move(move: MoveView, name: str, place: int) -> Iterator[str]:
    label = quoted(f"~{move.label}" if move.hidden else move.label, *move.notes)
    style = "style=bold" if move.strong else "style=dashed"
    source = f"{name}_{move.source}"
    if len(move.targets) == 1:
        yield f"    {source} -> {name}_{move.targets[0]} [label={label}, {style}];"
        return
    fork = f"{name}_fork{place}"
    yield f'    {fork} [shape=point, label=""];'
    yield f"    {source} -> {fork} [label={label}, {style}, dir=none];"
    for target in move.targets:
        yield f"    {fork} -> {name}_{target} [{style}];"


def quoted(*lines: str) -> str:
    """Lines as a quoted string."""
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

"""A pattern and its automaton as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from distced.detectors.compiler import Compiled
from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView
from distced.detectors.drawing.outline import Outline, outline, outline_lines

_LOOKS: str = "looks at "
_STYLES = {"atom": "bold cyan", "reference": "bold cyan"}


def pattern_as_text(compiled: Compiled, view: AutomatonView) -> Iterator[Text]:
    """The lines of a pattern: its text, tree, automaton and the automata of the sides of `&`."""
    yield Text(compiled.text, "bold")
    yield Text.assemble(("canonical id ", "dim"), view.canonical_id)
    yield Text()
    for branches, node in outline_lines(outline(compiled.publication.pattern)):
        yield Text.assemble(("  " + branches, "dim"), _node(node))
    yield Text()
    yield from automaton_as_text(view)


def _node(node: Outline) -> Text:
    return Text.assemble((f"{node.role}: " if node.role else "", "italic"), (node.text, _STYLES.get(node.kind, "")))


def automaton_as_text(view: AutomatonView) -> Iterator[Text]:
    """The states of an automaton with their ways out."""
    starts = [view.states[start].name for start in view.starts]
    title = "automaton" if not view.title.startswith("side ") else f"automaton of {view.title}"
    active = f"start {starts[0]}, always active" if len(starts) == 1 else f"starts {', '.join(starts)}, always active"
    yield Text.assemble((title, "bold underline"), ("   " + active, "dim"))
    for remark in view.remarks():
        yield Text("  " + remark, "italic")
    widest = max((len(move.label) + len(_notes(move)) for move in view.moves), default=0)
    for place, state in enumerate(view.states):
        yield _state(state)
        for move in view.moves_of(place):
            yield _move(view, move, min(widest, 60))
        if state.fails:
            yield Text.assemble(("       ✗ ", "red"), state.fails, ("  fails", "red"))
    for side in view.sides:
        yield Text()
        yield from automaton_as_text(side)


def _state(state: StateView) -> Text:
    line = Text.assemble(("  ", ""), (f"{state.name:<4}", "bold"))
    line.append("◎ " if state.generative else "○ ", "yellow" if state.generative else "")
    said = []
    if state.start:
        said.append(Text("start", "green"))
    if state.emits:
        said.append(Text.assemble(("emits ", "yellow"), state.emits))
    said += [Text.assemble(("sets off ", "yellow"), arm) for arm in state.arms]
    if state.domain:
        said.append(Text.assemble((_LOOKS, "dim"), state.domain))
    else:
        said.append(Text("end", "dim"))
    open_here = (*state.windows, *state.keys)
    if open_here:
        said.append(Text(f"({', '.join(open_here)})", "dim"))
    return line.append(Text(" · ").join(said))


def _move(view: AutomatonView, move: MoveView, width: int) -> Text:
    notes = _notes(move)
    gap = " " * max(0, width - len(move.label) - len(notes))
    targets = ", ".join(view.states[target].name for target in move.targets)
    line = Text.assemble("       ", ("━▶ " if move.strong else "╌▶ ", "bold" if move.strong else ""))
    line.append_text(Text.assemble((move.label, "cyan"), (notes, "dim"), gap))
    line.append(f"  {targets:<8} ", "bold")
    line.append("strong" if move.strong else "weak", "bold" if move.strong else "dim")
    if len(move.targets) > 1:
        line.append("  forks", "magenta")
    return line


def _notes(move: MoveView) -> str:
    return "".join(f", {note}" for note in move.notes)

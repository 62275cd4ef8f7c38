"""A graph of detectors as text for a terminal: below each pattern its detector, and below that its inputs.

The new patterns are followed by the running ones whose composite events are read by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.text import Text

from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.graph_view import RUNS_ALREADY, DetectorView, GraphView
from distced.middleware.model.timestamps import format_duration
from distced.middleware.sets.expressions import quote_name

READ_AGAIN: Final = "⇢"
"""Sign of a type whose events a pattern of the file publishes."""

_ABOVE: Final = "as above"
_GAP: Final = 2
_NARROWEST: Final = 40
_HEADS: Final = ("", "state", "serves", "reads", "hands on", "by", "within", "detects")
_STYLES: Final = ("", "magenta", "yellow", "green", "cyan", "", "", "")


class _Row(NamedTuple):
    """A line of the tree.

    Attributes:
        branches: drawn before it; `below` before what continues it.
        detector: None for the line of a pattern.
        cells: of a detector, by column; the last is wrapped.
    """

    branches: str
    below: str
    detector: DetectorView | None
    cells: tuple[str, ...]


def graph_as_text(view: GraphView, width: int) -> Iterator[Text]:
    """The lines of a graph.

    Args:
        width: how many columns there are.
    """
    rows = list(_rows(view))
    cells = [row.cells for row in rows if row.detector is not None]
    shown = [column for column in range(1, len(_HEADS)) if any(row[column] for row in cells)]
    tree = max(len(row.branches) + len(row.cells[0]) for row in rows if row.detector is not None)
    widths = {column: max(len(_HEADS[column]), *(len(row[column]) for row in cells)) for column in shown[:-1]}
    left = tree + _GAP + sum(each + _GAP for each in widths.values())
    room = max(width - left, _NARROWEST)
    heads = "".join(f"{_HEADS[column]:<{each + _GAP}}" for column, each in widths.items())
    yield Text.assemble((f"decomposition {view.decomposition}", "bold"), f": {view.summary()}")
    yield Text()
    yield Text(f"{'detector':<{tree + _GAP}}{heads}{_HEADS[-1]}", "dim")
    for row in rows:
        if row.detector is None:
            yield Text(row.cells[0], "bold")
            continue
        first, *others = fold(row.cells[-1], room)
        line = Text.assemble((row.branches, "dim"), (row.cells[0], _id_style(row.detector)))
        line.append(" " * (tree + _GAP - len(row.branches) - len(row.cells[0])))
        for column, each in widths.items():
            line.append(f"{row.cells[column]:<{each + _GAP}}", _STYLES[column])
        yield line.append(first, "dim" if first == _ABOVE else "")
        for other in others:
            yield Text.assemble((f"{row.below:<{left}}", "dim"), other)
    if any(flow.kind == "read" for flow in view.flows):
        yield Text()
        yield Text(f"{READ_AGAIN} composite events that a pattern here publishes, read by their name", "dim")


def _rows(view: GraphView) -> Iterator[_Row]:
    detectors = {each.id: each for each in view.detectors}
    told: set[str] = set()
    for place, root in enumerate(view.roots):
        detector = detectors[root]
        yield _Row("", "", None, (f"pattern {place + 1}: {detector.output or 'composite events without a name'}",))
        yield from _below(view, detectors, root, "", True, told)
    for detector in view.detectors:
        if detector.output and detector.id not in told:
            yield _Row("", "", None, (f"{RUNS_ALREADY}: {detector.output}",))
            yield from _below(view, detectors, detector.id, "", True, told)


def _below(
    view: GraphView, detectors: dict[str, DetectorView], id_: str, indent: str, last: bool, told: set[str]
) -> Iterator[_Row]:
    """A detector and its inputs; repeated ones are abbreviated."""
    detector = detectors[id_]
    deeper = indent + ("   " if last else "│  ")
    parts = () if id_ in told else detector.parts
    below = deeper + ("│" if parts else "")
    yield _Row(indent + ("└─ " if last else "├─ "), below, detector, _cells(view, detector, again=id_ in told))
    told.add(id_)
    for place, part in enumerate(parts):
        yield from _below(view, detectors, part, deeper, place == len(parts) - 1, told)


def _cells(view: GraphView, detector: DetectorView, *, again: bool) -> tuple[str, ...]:
    flows = [flow for flow in view.flows if flow.target == detector.id]
    reads = [
        flow.label[0] + "".join(f" ({each})" for each in flow.label[1:]) for flow in flows if flow.kind == "events"
    ]
    reads += [f"{READ_AGAIN} {flow.label[0]}" for flow in flows if flow.kind == "read"]
    text = detector.body + (" (by epochs: not cut)" if detector.epochs else "")
    return (
        detector.short,
        (RUNS_ALREADY if detector.running else "new") if view.for_reuse else "",
        str(detector.serves) if detector.serves else "",
        "" if again else ", ".join(reads),
        "" if again else ", ".join(map(quote_name, detector.exports)),
        ", ".join(map(quote_name, detector.key)),
        "" if detector.window is None else format_duration(detector.window),
        _ABOVE if again else text,
    )


def _id_style(detector: DetectorView) -> str:
    return "bold yellow" if detector.serves else "bold" if detector.root else ""

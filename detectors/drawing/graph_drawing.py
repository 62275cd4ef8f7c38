"""Cut candidates as text for a terminal; detector graphs as text and as diagrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from distced.detectors.cutting.candidates import CONDITIONS, Candidate
from distced.detectors.cutting.cut_report import MOST_PARTS, Cuts
from distced.detectors.drawing.diagram import PALE, WHITE, YELLOW, Diagram, Edge, Group, Line, Look, Node, fold, folded
from distced.detectors.explain.graph_view import RUNS_ALREADY, UNNAMED, DetectorView, FlowKind, GraphView, context
from distced.middleware.cli.output import table
from distced.middleware.patterns.printer import format_pattern

_TITLE: Final = 110
_COLUMNS: Final = 40
# Maximum lines of a pattern in a box or a cell; JSON has all of it.
_MOST_LINES: Final = 14
_FLOWS: Final[dict[FlowKind, tuple[Look, str]]] = {
    "events": (Look("green"), "─▶ primitive events"),
    "records": (Look("cyan", 2.2), "━▶ composite events with records, into what they are part of"),
    "published": (Look("yellow", 1.6), "─▶ published composite events"),
    "read": (Look("magenta", 1.6, dashed=True), "╌▶ read again by their name"),
}
# Columns of the table of cuts that its signs and places take.
_LEFT: Final = 24


def graph_diagram(view: GraphView) -> Diagram:
    """Inputs on the left, detectors, and publications on the right, with the flows between them."""
    texts = {each.id: each.text for each in view.publications} | {name: name for name in view.inputs}
    nodes = [Node(f"event {name}", [Line(name, "green")], Look("green", fill=WHITE)) for name in view.inputs]
    for each in view.detectors:
        look = Look(width=2.6 if each.root else 1.3, dashed=each.running, fill=YELLOW if each.shared else PALE)
        notes = [Line(" · ".join(each.remarks()), "dim"), *([_published(each)] if each.root else [])]
        lines = [_head(each), *folded([Line(each.body)], _COLUMNS, _MOST_LINES), *folded(notes, _COLUMNS)]
        nodes.append(Node(each.id, lines, look, f"{each.id}: {each.text}"))
    nodes += [
        Node(each.id, [Line(each.text, "bold yellow")], Look("yellow", 1.6, fill=WHITE)) for each in view.publications
    ]
    edges = []
    for flow in view.flows:
        look = _FLOWS[flow.kind][0]
        # What stands in the box at its beginning, or in the legend, is not said again.
        known = (texts.get(flow.source, ""), UNNAMED)
        lines = [Line(line, look.colour) for line in flow.carries if line not in known]
        edges.append(Edge(f"event {flow.source}" if flow.kind == "events" else flow.source, flow.target, lines, look))
    title = [Line(f"decomposition {view.decomposition}: {view.summary()}", "bold")]
    patterns = [Line(f"{place}  {pattern.text}") for place, pattern in enumerate(view.patterns, 1)]
    kinds = {flow.kind for flow in view.flows}
    legend = [Line(sign, look.colour) for kind, (look, sign) in _FLOWS.items() if kind in kinds]
    legend += [Line("thick frame: detector of a pattern, thin frame: of a part")]
    legend += [Line("yellow: shared", "yellow")] * any(each.shared for each in view.detectors)
    legend += [Line(f"dashed frame: {RUNS_ALREADY}")] * any(each.running for each in view.detectors)
    return Diagram(title + folded(patterns, _TITLE, 4), legend, [Group(nodes, edges)])


def _head(detector: DetectorView) -> Line:
    shared = f"   shared by {detector.serves}" if detector.shared else ""
    return Line(f"{detector.short}{shared}{f'   {RUNS_ALREADY}' if detector.running else ''}", "bold")


def _published(detector: DetectorView) -> Line:
    places = ", ".join(str(place + 1) for place in detector.patterns)
    number = f"pattern{'s' * (len(detector.patterns) > 1)} {places}: " if places else ""
    return Line(f"{number}publishes {detector.publishes or f'{UNNAMED} without a name'}", "yellow")


def graph_as_text(view: GraphView, width: int) -> Iterator[RenderableType]:
    """A graph for a terminal of this width in characters: below each pattern its detector, below that its inputs; new
    patterns first."""
    yield Text.assemble((f"decomposition {view.decomposition}", "bold"), f": {view.summary()}")
    drawn: set[str] = set()
    roots = [each for each in view.detectors if each.root]
    for root in sorted(roots, key=lambda each: (not each.patterns, each.patterns)):
        tree = Tree(Text(*_published(root)), guide_style="dim")
        _add(tree, view, root, drawn, width)
        yield Text()
        yield tree


def _add(tree: Tree, view: GraphView, detector: DetectorView, drawn: set[str], width: int) -> None:
    """Add a detector and below it its parts, in full where it comes first."""
    head, width = _head(detector), width - 4
    if detector.id in drawn:
        tree.add(Text.assemble(head, ("   as above", "dim")))
        return
    drawn.add(detector.id)
    inputs = [flow for flow in view.flows if flow.target == detector.id]
    notes = []
    for kind, reads in (("events", "reads"), ("read", "reads published")):
        carried = [" (".join(flow.carries) + ")" * (len(flow.carries) - 1) for flow in inputs if flow.kind == kind]
        notes += [f"{reads} {', '.join(carried)}"] if carried else []
    body = "\n".join(fold(detector.body, max(width - len(head.text) - 3, _COLUMNS)))
    about = "\n".join(fold(" · ".join((*notes, *detector.remarks())), max(width, _COLUMNS)))
    branch = tree.add(Text.assemble(head, "   ", body, (f"\n{about}" if about else "", "dim")))
    for part in detector.parts:
        _add(branch, view, view.detector(part), drawn, width)


def cuts_as_text(cuts: Cuts, width: int, *, atoms: bool = False) -> Iterator[RenderableType]:
    """The cut candidates of a pattern, with single atoms if asked for, for a terminal of this width in characters."""
    yield Text(cuts.text, "bold")
    yield Text.assemble(("canonical id ", "dim"), cuts.canonical_id)
    yield Text()
    if cuts.note:
        yield Text(cuts.note, "yellow")
        return
    listing = cuts.for_people(atoms=atoms)
    if total := len(listing.rows):
        room = max(width - _LEFT, _COLUMNS)
        yield table(("", "stands as", "sub-pattern", ""), [_cells(row, room) for row in listing.rows])
        detectors = "a detector of its own" if listing.allowed == 1 else "detectors of their own"
        may = (f"{listing.allowed} may become {detectors}", "green")
        listed = f"\n{total} sub-pattern{'s' * (total != 1)} listed: "
        yield Text.assemble(listed, may, f", {total - listing.allowed} may not")
    else:
        yield Text("nothing but single atoms: there is nothing to cut")
    if listing.runs_left:
        yield Text(
            f"left out: {listing.runs_left:,} runs of neighbouring parts, for of what has more than {MOST_PARTS} parts "
            "only prefixes and single parts are listed; --json lists all", "dim",
        )  # fmt: skip
    if listing.atoms_left:
        yield Text(
            f"left out: {listing.atoms_left:,} single atom{'s' * (listing.atoms_left != 1)}, hardly worth a detector, "
            "as a reader can as well read the events; --verbose lists them", "dim",
        )  # fmt: skip
    failed = {failure.condition for row in listing.rows for failure in row.failures}
    if failed:
        yield Text("\nconditions that fail here", "dim")
    yield from (
        Text.assemble("  ", (f"{name:<7}", "bold"), (meaning, "dim"))
        for name, meaning in CONDITIONS.items()
        if name in failed
    )


def _cells(row: Candidate, room: int) -> tuple[Text, ...]:
    """Whether a sub-pattern may be cut, its place, its text; the conditions it fails or its detector's context."""
    text = "\n".join(fold(format_pattern(row.pattern), room * 3 // 5, _MOST_LINES))
    said = [f"{each.condition}: {each.reason}" for each in row.failures]
    said = said or [", ".join(context(row.key, row.window, row.exports))]
    remarks = Text("\n".join(line for each in said for line in fold(each, room * 2 // 5)), "dim" * row.allowed)
    remarks.highlight_regex(r"(?m)^\w+(?=:)", "bold red")
    sign = Text("✓", "bold green") if row.allowed else Text("✗", "red")
    return sign, Text(row.stand), Text(text, "green" * row.allowed), remarks

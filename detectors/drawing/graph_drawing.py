"""Cut candidates as text for a terminal; detector graphs as text and as diagrams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from distced.detectors.cutting.candidates import CONDITIONS, Candidate
from distced.detectors.cutting.cut_report import MOST_PARTS, NOT_CUT, Cuts
from distced.detectors.drawing.diagram import Colour, Diagram, Edge, Group, Line, Look, Node, fold, signs
from distced.detectors.explain.graph_view import FOR_REUSE, RUNS_ALREADY, UNNAMED, DetectorView, FlowKind, GraphView
from distced.middleware.cli.output import table
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.sets.expressions import quote_name

# Sign of a type whose events a pattern of the file publishes.
_READ_AGAIN: Final = "⇢"
_TITLE: Final = 110
_COLUMNS: Final = 40
_MOST_LINES: Final = 14
_FLOWS: Final[dict[FlowKind, tuple[Look, str, str]]] = {
    "events": (Look(Colour.GREEN), "─▶", "primitive events"),
    "records": (Look(Colour.BLUE, 2.2), "━▶", "composite events with records, into what they are part of"),
    "published": (Look(Colour.BROWN, 1.6), "─▶", "published composite events"),
    "read": (Look(Colour.PURPLE, 1.6, dashed=True), "╌▶", "read again by their name"),
}
# Maximum length of a sub-pattern's text, in characters; JSON has all of it.
_MOST_TEXT: Final = 240
_NARROWEST: Final = 40
_NARROWEST_CUT: Final = 24
_HEADS: Final = ("detector", "state", "serves", "reads", "hands on", "by", "within", "detects")
_STYLES: Final = ("", "magenta", "yellow", "green", "cyan", "", "", "")


def graph_diagram(view: GraphView) -> Diagram:
    """Inputs on the left, detectors, and publications on the right, with the flows between them."""
    texts = {each.id: each.text for each in view.publications} | {name: name for name in view.inputs}
    nodes = [
        Node(f"event {name}", [Line(name, Colour.GREEN, 12)], Look(Colour.GREEN, fill=Colour.WHITE))
        for name in view.inputs
    ]
    for each in view.detectors:
        fill = Colour.YELLOW if each.shared else Colour.PALE
        look = Look(width=2.6 if each.root else 1.3, dashed=each.running, fill=fill)
        nodes.append(Node(each.id, list(_detector(each)), look, f"{each.id}: {each.text}"))
    nodes += [
        Node(each.id, [Line(each.text, Colour.BROWN, 12, bold=True)], Look(Colour.BROWN, 1.6, fill=Colour.WHITE))
        for each in view.publications
    ]
    edges = []
    for flow in view.flows:
        look = _FLOWS[flow.kind][0]
        # What stands in the box at its beginning, or in the legend, is not said again.
        known = (texts.get(flow.source, ""), UNNAMED)
        lines = [Line(line, look.colour, 10) for line in flow.carries if line not in known]
        edges.append(Edge(f"event {flow.source}" if flow.kind == "events" else flow.source, flow.target, lines, look))
    title = [Line(f"decomposition {view.decomposition}: {view.summary()}", size=13, bold=True)]
    for place, pattern in enumerate(view.patterns, 1):
        for number, line in enumerate(fold(pattern.text, _TITLE, 4)):
            title.append(Line(f"   {line}" if number else f"{place}  {line}"))
    kinds = {flow.kind for flow in view.flows}
    legend = signs([
        *((kind in kinds, sign, look.colour, meaning) for kind, (look, sign, meaning) in _FLOWS.items()),
        (True, "thick frame", Colour.INK, "detector of a pattern"),
        (any(not each.root for each in view.detectors), "thin frame", Colour.INK, "detector of a part"),
        (any(each.shared for each in view.detectors), "yellow", Colour.BROWN, "shared"),
        (any(each.running for each in view.detectors), "dashed frame", Colour.INK, RUNS_ALREADY),
    ])  # fmt: skip
    return Diagram(title, legend, [Group(nodes, edges)])


def _detector(detector: DetectorView) -> Iterator[Line]:
    notes = [detector.short, *([RUNS_ALREADY] if detector.running else [])]
    notes += [f"shared by {detector.serves}"] if detector.shared else []
    yield Line("   ".join(notes), bold=True, size=12)
    yield from Line(detector.body).folded(_COLUMNS, _MOST_LINES)
    if detector.remarks():
        yield from Line(" · ".join(detector.remarks()), Colour.GREY, 10).folded(_COLUMNS)
    if detector.root:
        places = ", ".join(str(place + 1) for place in detector.patterns)
        number = f"pattern{'s' * (len(detector.patterns) > 1)} {places}: " if places else ""
        yield from Line(f"{number}publishes {detector.publishes or UNNAMED}", Colour.BROWN).folded(_COLUMNS)


def graph_as_text(view: GraphView, width: int) -> Iterator[RenderableType]:
    """A graph for a terminal of this width in characters: below each pattern its detector, below that its inputs; new
    patterns first."""
    told: set[str] = set()
    rows: list[list[Text]] = []
    heads = [
        (each.detector, f"pattern {place}", f"{UNNAMED} without a name") for place, each in enumerate(view.patterns, 1)
    ]
    heads += [(each.id, RUNS_ALREADY, "") for each in view.detectors if each.publishes and each.running]
    for id_, title, unnamed in heads:
        if unnamed or id_ not in told:
            named = view.detector(id_).publishes or unnamed
            rows.append([Text(title, "bold"), *(Text() for _ in _HEADS[2:]), Text(named, "bold")])
            rows += _below(view, id_, "", True, told)
    used = [max(len(row[place]) for row in rows) for place in range(len(_HEADS) - 1)]
    left = sum(max(each, len(head)) + 2 for each, head in zip(used, _HEADS, strict=False) if each)
    for row in rows:
        branches, _, below = row[0].plain.partition("\n")
        lines = fold(row[-1].plain, max(width - left, _NARROWEST))
        row[0] = Text("\n".join([branches, *[below] * (len(lines) - 1)]), row[0].style)
        row[-1] = Text("\n".join(lines), row[-1].style)
    yield Text.assemble((f"decomposition {view.decomposition}", "bold"), f": {view.summary()}")
    yield Text()
    yield table(_HEADS, rows)
    if any(flow.kind == "read" for flow in view.flows):
        yield Text()
        yield Text(f"{_READ_AGAIN} composite events that a pattern here publishes, read by their name", "dim")


def _below(view: GraphView, id_: str, indent: str, last: bool, told: set[str]) -> Iterator[list[Text]]:
    """Rows for a detector and its inputs; behind a line break the branches before further lines of a row."""
    detector = view.detector(id_)
    again = id_ in told
    told.add(id_)
    parts = () if again else detector.parts
    deeper = indent + ("   " if last else "│  ")
    flows = [flow for flow in view.flows if flow.target == id_]
    reads = [
        flow.carries[0] + "".join(f" ({each})" for each in flow.carries[1:]) for flow in flows if flow.kind == "events"
    ]
    reads += [f"{_READ_AGAIN} {flow.carries[0]}" for flow in flows if flow.kind == "read"]
    cells = (
        f"{indent}{'└─ ' if last else '├─ '}{detector.short}\n{deeper}{'│' if parts else ''}",
        (RUNS_ALREADY if detector.running else "new") if view.decomposition == FOR_REUSE else "",
        str(detector.serves) if detector.shared else "",
        "" if again else ", ".join(reads),
        "" if again else ", ".join(map(quote_name, detector.exports)),
        ", ".join(map(quote_name, detector.key)),
        "" if detector.window_ns is None else format_duration(detector.window_ns),
        "as above" if again else detector.body + (" (by epochs: not cut)" if detector.consumption == "epoch" else ""),
    )
    styles = ("bold yellow" if detector.shared else "bold" if detector.root else "", *_STYLES[1:-1], "dim" * again)
    yield list(map(Text, cells, styles))
    for place, part in enumerate(parts):
        yield from _below(view, part, deeper, place == len(parts) - 1, told)


def cuts_as_text(cuts: Cuts, width: int, *, atoms: bool = False) -> Iterator[RenderableType]:
    """The cut candidates of a pattern, with single atoms if asked for, for a terminal of this width in characters."""
    yield Text(cuts.text, "bold")
    yield Text.assemble(("canonical id ", "dim"), cuts.canonical_id)
    yield Text()
    if cuts.epochs:
        yield Text(NOT_CUT, "yellow")
        return
    listing = cuts.for_people(atoms=atoms)
    if listing.rows:
        yield _cuts_table(listing.rows, width)
        yield Text()
    total, allowed = len(listing.rows), listing.allowed
    detectors = "a detector of its own" if allowed == 1 else "detectors of their own"
    counted = Text.assemble((f"{allowed} may become {detectors}", "green"), f", {total - allowed} may not")
    listed = f"{total} sub-pattern{'s' * (total != 1)} listed: "
    yield Text(listed).append(counted) if total else Text("nothing but single atoms: there is nothing to cut")
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


def _cuts_table(rows: Sequence[Candidate], width: int) -> RenderableType:
    """A row for each sub-pattern: whether it may be cut, its place, its text, and the remarks on it."""
    room = width - max(len(row.stand) for row in rows) - 7
    remarks = [_remarks(row, max(room * 2 // 5, _NARROWEST_CUT)) for row in rows]
    left = room - max(len(line) for remark in remarks for line in remark.plain.split("\n"))
    cells = []
    for row, remark in zip(rows, remarks, strict=True):
        text = format_pattern(row.pattern)
        half = _MOST_TEXT // 2
        text = text if len(text) <= _MOST_TEXT else f"{text[:half]} … {text[-half:]}"
        sign = Text("✓", "bold green") if row.allowed else Text("✗", "red")
        folded = "\n".join(fold(text, max(left, _NARROWEST_CUT)))
        cells.append((sign, Text(row.stand), Text(folded, "green" if row.allowed else ""), remark))
    return table(("", "stands as", "sub-pattern", ""), cells)


def _remarks(row: Candidate, width: int) -> Text:
    """The conditions a sub-pattern fails; or, for a permitted one, the inputs and exports of its detector."""
    said = [f"by {', '.join(map(quote_name, row.key))}"] if row.key else []
    said += [f"within {format_duration(row.window)}"] if row.window is not None else []
    said += [f"hands on {', '.join(map(quote_name, sorted(row.exports)))}"] if row.exports else []
    if not row.failures:
        return Text("\n".join(fold(", ".join(said), width)), "dim")
    failures = (Text("\n".join(fold(f"{each.condition}: {each.reason}", width))) for each in row.failures)
    joined = Text("\n").join(failures)
    joined.highlight_regex(r"(?m)^\w+(?=:)", "bold red")
    return joined

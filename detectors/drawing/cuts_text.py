"""Cut candidates of a pattern, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from distced.detectors.cutting.candidates import CONDITIONS, Candidate
from distced.detectors.cutting.cut_report import MOST_PARTS, NOT_CUT, Cuts
from distced.detectors.drawing.folding import fold
from distced.middleware.cli.output import table
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.sets.expressions import quote_name

_MOST_TEXT: Final = 240
"""Maximum length of a sub-pattern's text, in characters; JSON has all of it."""

_NARROWEST: Final = 24


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
        yield _table(listing.rows, width)
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


def _table(rows: Sequence[Candidate], width: int) -> RenderableType:
    """A row for each sub-pattern: whether it may be cut, its place, its text, and the remarks on it."""
    room = width - max(len(row.stand) for row in rows) - 7
    remarks = [_remarks(row, max(room * 2 // 5, _NARROWEST)) for row in rows]
    left = room - max(len(line) for remark in remarks for line in remark.plain.split("\n"))
    cells = []
    for row, remark in zip(rows, remarks, strict=True):
        text = format_pattern(row.pattern)
        half = _MOST_TEXT // 2
        text = text if len(text) <= _MOST_TEXT else f"{text[:half]} … {text[-half:]}"
        sign = Text("✓", "bold green") if row.allowed else Text("✗", "red")
        folded = "\n".join(fold(text, max(left, _NARROWEST)))
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

"""What may be cut out of a pattern, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from detectors.cutting.candidates import CONDITIONS, Candidate
from detectors.cutting.wording import MOST_PARTS, NOT_CUT, Cuts, Listing
from detectors.language.printer import format_pattern
from middleware.sets.expressions import quote_name
from middleware.timestamps import format_duration

_MOST_TEXT: Final = 240
"""Of a sub-pattern, in characters; JSON has all of it."""


def cuts_as_text(cuts: Cuts, *, atoms: bool = False) -> Iterator[RenderableType]:
    """The lines and the table about a pattern.

    Args:
        atoms: whether single atoms are listed.
    """
    yield Text(cuts.text, "bold")
    yield Text.assemble(("canonical id ", "dim"), cuts.canonical_id)
    yield Text()
    if cuts.epochs:
        yield Text(NOT_CUT, "yellow")
        return
    listing = cuts.for_people(atoms=atoms)
    if listing.rows:
        yield _table(listing)
        yield Text()
    yield _count(listing)
    for note in _notes(listing):
        yield Text(note, "dim")
    failed = {failure.condition for row in listing.rows for failure in row.failures}
    if failed:
        yield Text()
        yield Text("conditions that fail here", "dim")
        for name, meaning in CONDITIONS.items():
            if name in failed:
                yield Text.assemble("  ", (f"{name:<7}", "bold"), (meaning, "dim"))


def _table(listing: Listing) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("", width=1)
    table.add_column("stands as", no_wrap=True)
    table.add_column("sub-pattern", overflow="fold", ratio=3)
    table.add_column("", overflow="fold", ratio=2)
    for row in listing.rows:
        mark = Text("✓", "bold green") if row.allowed else Text("✗", "red")
        table.add_row(mark, row.stand, Text(_text(row), "green" if row.allowed else ""), _remark(row))
    return table


def _text(row: Candidate) -> str:
    text = format_pattern(row.pattern)
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]} … {text[-half:]}"


def _remark(row: Candidate) -> Text:
    """Why it may not be cut out; or, if it may, what goes into its detector and what that hands on."""
    if row.failures:
        return Text("\n").join(
            Text.assemble((failure.condition, "bold red"), f": {failure.reason}") for failure in row.failures
        )
    said = [f"by {', '.join(map(quote_name, row.key))}"] if row.key else []
    said += [f"within {format_duration(row.window)}"] if row.window is not None else []
    said += [f"hands on {', '.join(map(quote_name, sorted(row.exports)))}"] if row.exports else []
    return Text(", ".join(said), "dim")


def _count(listing: Listing) -> Text:
    total, allowed = len(listing.rows), listing.allowed
    if not total:
        return Text("nothing but single atoms: there is nothing to cut")
    shown = "sub-pattern listed" if total == 1 else "sub-patterns listed"
    return Text.assemble(
        f"{total} {shown}: ",
        (f"{allowed} may become {'a detector of its own' if allowed == 1 else 'detectors of their own'}", "green"),
        f", {total - allowed} may not",
    )


def _notes(listing: Listing) -> Iterator[str]:
    if listing.runs_left:
        yield (
            f"left out: {listing.runs_left:,} runs of neighbouring parts, for of what has more than {MOST_PARTS} parts "
            "only prefixes and single parts are listed; --json lists all"
        )
    if listing.atoms_left:
        atoms = "1 single atom" if listing.atoms_left == 1 else f"{listing.atoms_left:,} single atoms"
        yield (
            f"left out: {atoms}, hardly worth a detector, for whoever reads it can as well read the events; "
            "--verbose lists them"
        )

"""Cut candidates of a pattern, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from textwrap import wrap
from typing import Final

from rich.text import Text

from distced.detectors.cutting.candidates import CONDITIONS, Candidate
from distced.detectors.cutting.cut_report import MOST_PARTS, NOT_CUT, Cuts, Listing
from distced.detectors.drawing.folding import fold
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.sets.expressions import quote_name

_MOST_TEXT: Final = 240
"""Maximum length of a sub-pattern's text, in characters; JSON has all of it."""

_GAP: Final = 2
_NARROWEST: Final = 24


def cuts_as_text(cuts: Cuts, width: int, *, atoms: bool = False) -> Iterator[Text]:
    """The lines of a pattern.

    Args:
        width: how many columns there are.
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
        yield from _table(listing, width)
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


def _table(listing: Listing, width: int) -> Iterator[Text]:
    """A line for each sub-pattern, or several for long texts or reasons."""
    rows = [(row, _text(row), _remarks(row)) for row in listing.rows]
    stands = max(len("stands as"), *(len(row.stand) for row in listing.rows))
    room = width - 1 - stands - 3 * _GAP
    longest_remark = max((len(text) for _, _, remarks in rows for _, text in remarks), default=0)
    remark_room = max(_NARROWEST, min(longest_remark, room * 2 // 5))
    longest = max(len("sub-pattern"), *(len(text) for _, text, _ in rows))
    text_room = max(_NARROWEST, min(longest, room - remark_room))
    left = 1 + _GAP + stands + _GAP
    yield Text(f"{'':{1 + _GAP}}{'stands as':<{stands + _GAP}}sub-pattern", "dim")
    for row, text, remarks in rows:
        said = [line for condition, remark in remarks for line in _remark_lines(condition, remark, remark_room)]
        for place, (part, remark) in enumerate(zip_longest(fold(text, text_room), said)):
            line = Text(" " * left)
            if place == 0:
                line = Text.assemble(("✓", "bold green") if row.allowed else ("✗", "red"), " " * _GAP)
                line.append(f"{row.stand:<{stands + _GAP}}")
            line.append(part or "", "green" if row.allowed else "")
            if remark is not None:
                line.append(" " * (text_room - len(part or "") + _GAP)).append_text(remark)
            yield line


def _text(row: Candidate) -> str:
    text = format_pattern(row.pattern)
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]} … {text[-half:]}"


def _remarks(row: Candidate) -> list[tuple[str, str]]:
    """The conditions a sub-pattern fails; or, for a permitted one, the inputs and exports of its detector."""
    if row.failures:
        return [(failure.condition, f"{failure.condition}: {failure.reason}") for failure in row.failures]
    said = [f"by {', '.join(map(quote_name, row.key))}"] if row.key else []
    said += [f"within {format_duration(row.window)}"] if row.window is not None else []
    said += [f"hands on {', '.join(map(quote_name, sorted(row.exports)))}"] if row.exports else []
    return [("", ", ".join(said))] if said else []


def _remark_lines(condition: str, remark: str, room: int) -> list[Text]:
    wrapped = wrap(remark, room, subsequent_indent="  ", break_on_hyphens=False)
    lines = [Text(line, "" if condition else "dim") for line in wrapped]
    lines[0].stylize("bold red", 0, len(condition))
    return lines


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
            f"left out: {atoms}, hardly worth a detector, as a reader can as well read the events; --verbose lists them"
        )

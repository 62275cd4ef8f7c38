"""Text of a pattern in lines of a given width, broken where it reads well.

A sign goes with what follows it, a comparison with both sides; quoted text stays together, and so do brackets that fit.
"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import Final

_BLANK: Final = "\0"
"""A blank that is no place for a break."""

_BREAK: Final = "\1"
"""The place of a break."""

_KEPT: Final = (r"'[^']*'|\"[^\"]*\"|`[^`]*`", r"\{[^{}]*\}", r"\([^()]*\)", r"\[[^\[\]]*\]")
_SIGNS: Final = re.compile(r"(?<!\S)(?:;|\||&|<=|⊆|@|and|or|where|as|set|->|within|by) | (?:=|==|!=|<|>|>=) ")
_NARROWEST: Final = 10


def fold(text: str, columns: int, most: int | None = None) -> list[str]:
    """The text in at most n lines (None for no limit) of at most n characters; an ellipsis marks an omission."""
    if len(text) <= columns:
        return [text]
    indent = "  " if columns > _NARROWEST else ""
    for kept in _KEPT:
        text = re.sub(kept, lambda found: _together(found[0], columns), text)
    text = _SIGNS.sub(lambda found: found[0].replace(" ", _BLANK), text)
    lines: list[str] = []
    for part in text.split(f" {_BREAK}"):
        before = indent if lines else ""
        lines += wrap(
            part.replace(_BREAK, ""), columns, initial_indent=before, subsequent_indent=indent, break_on_hyphens=False
        )
    lines = [line.replace(_BLANK, " ") for line in lines]
    return lines if most is None or len(lines) <= most else [*lines[: most - 1], "…"]


def _together(text: str, columns: int) -> str:
    """A bracket without breaks if it fits; else an atom begins a line."""
    if len(text) <= columns - 2:
        return text.replace(" ", _BLANK)
    return f"{_BREAK}{text}" if text.startswith("[") else text

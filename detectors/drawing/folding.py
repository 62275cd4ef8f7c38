"""The text of a pattern in lines of a given width, broken where it reads well.

Breaks lie between parts before they lie inside one, and before the sign that joins two. What stands in quotes is not
torn apart.
"""

from __future__ import annotations

from typing import Final

_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
_QUOTES: Final = "'`\""
_SIGNS: Final = (";", "|", "&", "<=", "⊆", "@", "and", "or", "where", "as", "set", "->", "within", "by")
_COMPARING: Final = ("=", "==", "!=", "<", ">", ">=")
_INDENT: Final = "  "
_DEEPEST: Final = 5
_NARROWEST: Final = 10


def fold(text: str, columns: int, most: int | None = None) -> list[str]:
    """The text in lines of at most n columns.

    Args:
        most: maximum of lines; an ellipsis marks an omission. None for no limit.
    """
    lines = _fold(text, columns)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], "…"]
    return lines


def _fold(text: str, columns: int) -> list[str]:
    if len(text) <= columns:
        return [text]
    pieces = _pieces(text)
    indent = ""
    for inside in range(1, _DEEPEST):
        if len(pieces) == 1:
            # No break further out; what goes on inside a part is indented.
            pieces, indent = _pieces(text, inside), _INDENT
    if len(pieces) == 1:
        return [text[start : start + columns] for start in range(0, len(text), columns)]
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + 1 + len(piece) <= columns:
            lines[-1] += f" {piece}"
        else:
            before = indent if lines and columns > _NARROWEST else ""
            lines += [before + line for line in _fold(piece, columns - len(before))]
    return lines


def _pieces(text: str, inside: int = 0) -> list[str]:
    """The text split at blanks up to a depth of n brackets.

    A sign goes with what follows it, a comparison with both sides.
    """
    words = [""]
    depth, quote = 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        else:
            depth += (character in _OPENING) - (character in _CLOSING)
        if character == " " and depth <= inside and not quote:
            words.append("")
        else:
            words[-1] += character
    pieces: list[str] = []
    joins = False
    for word in words:
        if joins or (word in _COMPARING and pieces):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
        joins = word in _SIGNS or word in _COMPARING
    return pieces

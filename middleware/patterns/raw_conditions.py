"""Conditions that are given as text: what has to hold so that they stay one condition where they are put."""

from __future__ import annotations

import re
from typing import Final

from distced.middleware.model.errors import PatternError

_QUOTED: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]+`")


def check_text(text: str) -> str:
    """The text, on one line; `PatternError` where it would reach beyond its place: an open quote or bracket."""
    plain = _QUOTED.sub("", text)
    if any(sign in plain for sign in "'\"`#[];{}"):
        raise PatternError(
            "not a condition", given=text, allowed="an expression, without brackets, open quotes and comments"
        )
    depth = 0
    for sign in plain:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            break
    if depth or not text.strip():
        raise PatternError("not a condition", given=text, allowed="an expression whose parentheses match")
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text

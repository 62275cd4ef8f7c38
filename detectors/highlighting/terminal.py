"""Patterns with the styles of a terminal."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from rich.text import Text

from distced.detectors.frontends.languages import CORE
from distced.detectors.highlighting.word_rules import HIGHLIGHTED, Kind

STYLES: Final = {
    Kind.COMMENT: "dim italic",
    Kind.STRING: "green",
    Kind.NUMBER: "cyan",
    Kind.KEYWORD: "magenta",
    Kind.FUNCTION: "blue",
}
"""Names and signs have the style of the text."""


def highlighted(text: str, language: str = CORE, style: str = "") -> Text:
    """A text in a language, with a style of all of it."""
    shown = Text(text, style)
    kinds = [kind for kind, _ in HIGHLIGHTED[language].rules]
    for match in _expression(language).finditer(text):
        if kind := STYLES.get(kinds[int(str(match.lastgroup)[1:])]):
            shown.stylize(kind, *match.span())
    return shown


@cache
def _expression(language: str) -> re.Pattern[str]:
    """The rules in one expression, the first of them first."""
    rules = enumerate(pattern for _, pattern in HIGHLIGHTED[language].rules)
    return re.compile("|".join(f"(?P<r{place}>{pattern})" for place, pattern in rules))

"""Named constants of pattern files: `COLD = 15`, `SOON = 5min`, `ROOMS = ('FE02', 'FE04')`.

A definition of a value instead of a pattern. The parser puts the value in the place of the name, in expressions, after
`in`, and where a duration or a number of times is wanted; trees have values alone. So a constant is in no canonical
form, and patterns that differ in the names of constants are one. Constants as a node of trees were rejected: every pass
would have to look through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distced.detectors.language.scanner import Scanner
from distced.middleware.model.errors import PatternError
from distced.middleware.sets.expressions import Literal


@dataclass(frozen=True, slots=True)
class Constant:
    """Value of a name: one literal, or several if `listed`; `duration` for one that was written as a duration."""

    values: tuple[Literal, ...]
    listed: bool = False
    duration: bool = False


def at_constant(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether a definition is a constant, by its first word that is not a parenthesis or a sign."""
    try:
        scanner = Scanner(text, start, end)
        while scanner.take("(", "-"):
            pass
        return scanner.word.kind in ("number", "duration", "string") or scanner.at("true", "false", "null", "inf")
    except PatternError:
        return False


def constants_in(definitions: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the definitions that are constants."""
    return tuple(name for name, text in definitions.items() if at_constant(text))

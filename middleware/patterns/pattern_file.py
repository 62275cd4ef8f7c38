"""Pattern files of the Python binding: several patterns that are detected together, and the types they derive."""

from __future__ import annotations

from dataclasses import dataclass

from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.pattern import Pattern, PatternLike, Publication, as_pattern
from distced.middleware.patterns.variable_names import derivations
from distced.middleware.patterns.writing import write, write_derivation


@dataclass(frozen=True, eq=False)
class PatternFile:
    """The statements of a pattern file. `str` of it is its text.

    Attributes:
        patterns: what is detected, with what is published or without.
    """

    patterns: tuple[Pattern | Publication, ...]

    def __str__(self) -> str:
        types = {each.name: each for pattern in self.patterns for each in derivations(pattern)}
        lines = [write_derivation(each) for each in types.values()]
        lines += [write(each) for each in self.patterns]
        return "\n".join(lines) + "\n"


def pattern_file(*patterns: Publication | PatternLike) -> PatternFile:
    """A pattern file; one of the patterns may read what another publishes."""
    if not patterns:
        raise PatternError("a pattern file without a pattern", allowed="one or more")
    return PatternFile(tuple(each if isinstance(each, Publication) else as_pattern(each) for each in patterns))

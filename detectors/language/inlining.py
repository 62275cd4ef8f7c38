"""Inlining of definitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from distced.detectors.language.depth import MOST_LEVELS, too_deep
from distced.detectors.language.scanner import error_at
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.tree import Delegated, Pattern, PatternFile, Publication, Reference
from distced.middleware.sets.expressions import Span

MOST_NODES: Final = 100_000
"""Maximum of nodes of a pattern with inlined definitions; definitions that use definitions multiply."""


def inline(pattern: Pattern, definitions: Mapping[str, Pattern], *, text: str = "") -> Pattern:
    """The pattern, with its source text, without references. Raises `PatternError` for a recursive definition."""
    return _Inliner(definitions, text, one_text=False).inline(pattern)


def inline_file(file: PatternFile, *, text: str = "") -> tuple[Publication, ...]:
    """The publications of a file without references."""
    inliner = _Inliner(dict(file.definitions), text, one_text=True)
    return tuple(replace(each, pattern=inliner.inline(each.pattern)) for each in file.publications)


def undelegated(pattern: Pattern) -> Pattern:
    """The pattern with its delegated parts put back."""
    return pattern.whole if isinstance(pattern, Delegated) else rebuild(pattern, undelegated)


class _Inliner:
    """Inlines definitions by name, which stand in the same text if `one_text`, and counts nodes."""

    def __init__(self, definitions: Mapping[str, Pattern], text: str, *, one_text: bool) -> None:
        self.definitions = definitions
        self.text = text
        self.one_text = one_text
        self.nodes = 0

    def inline(self, pattern: Pattern) -> Pattern:
        self.nodes = 0
        return self._inline(pattern, (), None, 0)

    def _inline(self, pattern: Pattern, open_names: tuple[str, ...], outermost: Span | None, level: int) -> Pattern:
        """The pattern inside definitions being inlined; `outermost` is the place of the first of them."""
        span = pattern.span if self.one_text or not open_names else outermost
        self.nodes += 1
        if level > MOST_LEVELS:
            raise too_deep(self.text, span)
        if self.nodes > MOST_NODES:
            raise error_at(
                self.text, span, "definitions that multiply beyond measure", allowed=f"{MOST_NODES} parts altogether"
            )
        if not isinstance(pattern, Reference):
            return rebuild(pattern, lambda part: self._inline(part, open_names, span, level + 1))
        name = pattern.name
        if name in open_names:
            chain = " -> ".join((*open_names[open_names.index(name) :], name))
            raise error_at(self.text, span, "a definition that leads back to itself", given=chain)
        if name not in self.definitions:
            known = ", ".join(sorted(self.definitions)) or "none is defined"
            raise error_at(self.text, span, "no definition of this name", given=name, allowed=known)
        return self._inline(self.definitions[name], (*open_names, name), span, level)

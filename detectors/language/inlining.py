"""Inlining of definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from distced.detectors.language.depth import MOST_LEVELS, too_deep
from distced.detectors.language.private import check_names, check_read, in_reading_order, with_privates
from distced.detectors.language.scanner import error_at
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.tree import Delegated, Pattern, PatternFile, Publication, Reference
from distced.middleware.sets.expressions import Span

MOST_NODES: Final = 100_000
"""Maximum of nodes of a pattern with inlined definitions; definitions that use definitions multiply."""


def inline(pattern: Pattern, definitions: Mapping[str, Pattern], *, text: str = "") -> Pattern:
    """The pattern, with its source text, without references. Raises `PatternError` for a recursive definition."""
    return _Inliner(definitions, text, one_text=False).inline(pattern)


def inline_publication(
    publication: Publication,
    definitions: Mapping[str, Pattern],
    privates: Iterable[tuple[Publication, str]] = (),
    *,
    text: str = "",
) -> Publication:
    """The publication, with its source text, without references, and with those that it reads of the private ones, with
    their texts."""
    beside = [_Inliner(definitions, each, one_text=False).publication(private) for private, each in privates]
    made = _Inliner(definitions, text, one_text=False).publication(publication)
    return with_privates(made, in_reading_order(beside, ""), text)


def inline_file(file: PatternFile, *, text: str = "") -> tuple[Publication, ...]:
    """The publications of a file without references, each with the private ones that it reads."""
    inliner = _Inliner(dict(file.definitions), text, one_text=True)
    taken = {each.output.type_name: "another publication" for each in file.publications if each.output is not None}
    taken |= {each.name: "a derived type" for each in file.types}
    taken |= {name: "a definition" for name, _ in file.definitions}
    check_names(file.privates, taken, text)
    privates = in_reading_order((inliner.publication(each) for each in file.privates), text)
    made = tuple(with_privates(inliner.publication(each), privates, text) for each in file.publications)
    check_read(privates, made, text)
    return made


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

    def publication(self, publication: Publication) -> Publication:
        privates = tuple(map(self.publication, publication.privates))
        return replace(publication, pattern=self.inline(publication.pattern), privates=privates)

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

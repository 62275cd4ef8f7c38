"""Translation of a text of another language into statements of the core language (frontends, section 1).

A front end is a function from a text and the event types to a `Translation`. It has no engine, no policy and no wire
format: what is detected is cut, shared, placed, moved and replayed as any pattern.

Places: each core node of the file carries, as its span, the place in the source that it comes of; so errors of later
stages show the text that was written. A table from nodes to places was rejected: nodes are values, and equal ones come
of several places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from distced.detectors.language.scanner import place_of
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import PatternFile
from distced.middleware.sets.expressions import Spanned


@dataclass(frozen=True, slots=True)
class Translation:
    """Core statements that a text means.

    Attributes:
        file: the statements; nodes have spans of the source. Its publications are the answers of the text; what is
            only read by them is private.
        results: a name for each publication, in order: the type that it publishes, or another where it publishes none.
        source: the text.
        notes: warnings.
    """

    file: PatternFile
    results: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()

    def place(self, node: Spanned) -> str | None:
        """Line and column of the source that a core node comes of; None for one that was made up."""
        return place_of(self.source, node.span)


Translate: TypeAlias = Callable[[str, TypeRegistry], Translation]
"""Front end: raises `PatternError`, with the place in the text, for one that it refuses."""


def result_names(names: list[str]) -> tuple[str, ...]:
    """Names of queries, `Out`, `Out2` and so on of those that publish nothing."""
    taken, made, number = set(names), list[str](), 1
    for name in names:
        while not name:
            wish = "Out" if number == 1 else f"Out{number}"
            number += 1
            name = "" if wish in taken else wish
        made.append(name)
    return tuple(made)

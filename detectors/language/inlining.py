"""Definitions put in the place of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from detectors.language.scanner import error_at
from detectors.language.tree import (
    Alternation,
    Atom,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Parallel,
    Pattern,
    PatternFile,
    Publication,
    Reference,
    Scope,
    Sequence,
    Timing,
    Window,
)


def inline(pattern: Pattern, definitions: Mapping[str, Pattern], *, text: str = "") -> Pattern:
    """The pattern without references; a definition that leads back to itself is a `PatternError`."""
    return _inline(pattern, definitions, (), text)


def inline_file(file: PatternFile, *, text: str = "") -> tuple[Publication, ...]:
    """The publications of a file without references."""
    definitions = dict(file.definitions)
    return tuple(replace(each, pattern=inline(each.pattern, definitions, text=text)) for each in file.publications)


def rebuild(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """The pattern with `change` applied to each pattern directly inside it."""
    match pattern:
        case Atom() | Reference():
            return pattern
        case Concatenation(parts=parts) | Sequence(parts=parts) | Alternation(parts=parts):
            return replace(pattern, parts=tuple(change(part) for part in parts))
        case Parallel(left=left, right=right):
            return replace(pattern, left=change(left), right=change(right))
        case Timing(first=first, second=second):
            return replace(pattern, first=change(first), second=change(second))
        case (
            Iteration(body=body)
            | Scope(body=body)
            | Hidden(body=body)
            | Window(body=body)
            | Keyed(body=body)
            | Init(body=body)
        ):
            return replace(pattern, body=change(body))


def _inline(pattern: Pattern, definitions: Mapping[str, Pattern], open_names: tuple[str, ...], text: str) -> Pattern:
    if not isinstance(pattern, Reference):
        return rebuild(pattern, lambda part: _inline(part, definitions, open_names, text))
    name = pattern.name
    if name in open_names:
        chain = " -> ".join((*open_names[open_names.index(name) :], name))
        raise error_at(text, pattern.span, "a definition that leads back to itself", given=chain)
    if name not in definitions:
        raise error_at(
            text, pattern.span, "no definition of this name", given=name, allowed=", ".join(sorted(definitions)) or None
        )
    return _inline(definitions[name], definitions, (*open_names, name), text)

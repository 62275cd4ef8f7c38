"""Whether composite events of a pattern may be without constituents: they are then one, however far apart.

Design, section 1: the id of a composite event is a digest of its constituents' ids and its attributes, and each id is
told once.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from distced.middleware.patterns.tree import Alternation, Atom, Hidden, Iteration, Timing
from distced.middleware.sets.describable import TypeSet


def may_lack_constituents(tree: object, timers: frozenset[str] = frozenset()) -> bool:
    """Whether a match of a pattern may have no constituents at all."""
    if isinstance(tree, Hidden):
        return True
    if isinstance(tree, Atom):
        return bool(_names(tree.label) & timers)
    if isinstance(tree, Alternation):
        return any(may_lack_constituents(each, timers) for each in tree.parts)
    if isinstance(tree, Iteration) and tree.least == 0:
        return True
    if isinstance(tree, Timing):
        timers |= {tree.timer}
    parts = [part for part in _parts(tree) if _is_pattern(part)]
    return all(may_lack_constituents(each, timers) for each in parts)


def _parts(tree: object) -> list[object]:
    if not is_dataclass(tree) or isinstance(tree, type):
        return []
    values = [getattr(tree, each.name) for each in fields(tree)]
    return [part for value in values for part in (value if isinstance(value, tuple) else (value,))]


def _is_pattern(part: object) -> bool:
    return is_dataclass(part) and type(part).__module__ == Atom.__module__


def _names(described: object) -> set[str]:
    """The types that are named anywhere in a set."""
    if isinstance(described, TypeSet):
        return {described.name}
    return set().union(*(_names(each) for each in _parts(described)))

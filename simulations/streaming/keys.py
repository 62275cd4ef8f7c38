"""By which attributes the events of a stream are dealt out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

from detectors.compilation import Compiled
from detectors.language.tree import Alternation, Atom, Hidden, Iteration, Timing
from middleware.errors import DistcedError
from middleware.sets.describable import TypeSet
from simulations.replay.groups import key_of_group
from simulations.replay.reach import reach_of


def stream_key(patterns: Sequence[Compiled], by: Sequence[str] | None = None) -> tuple[str, ...]:
    """The attributes whose values are told apart; none where one task detects everything.

    Args:
        by: those of them that are wanted; None for all.

    Raises:
        DistcedError: where the patterns cannot be detected by one of them.
    """
    key, hindrance = key_of_group(patterns)
    if any(may_lack_constituents(each.plain) for each in patterns):
        # Ids tell constituents: without any, the composite events of two values of a key are one.
        key, hindrance = (), "a match may have nothing but hidden events and time events"
    if by is None:
        return key
    strange = [name for name in by if name not in key]
    if strange:
        raise DistcedError(
            "patterns that cannot be detected by this key", given=", ".join(strange),
            allowed=", ".join(key) or f"none: {hindrance}", advice="leave by out",
        )  # fmt: skip
    return tuple(by)


def stream_reach(patterns: Sequence[Compiled]) -> int | None:
    """How long an event counts for what comes later, ns, so that a key can be forgotten; None for ever."""
    # Ids without constituents come again and again, and the first of them counts.
    return None if any(may_lack_constituents(each.plain) for each in patterns) else reach_of(patterns)


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

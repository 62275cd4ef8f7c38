"""What patterns name: the columns that have to be read for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass

from detectors.compilation import Compiled

_ALWAYS = ("type", "lo", "hi", "source", "seq", "constituents")


def columns_read(patterns: Sequence[Compiled], columns: Iterable[str]) -> list[str]:
    """Those of the columns that patterns may look at: all whose names stand anywhere in them."""
    from middleware.recorded.native import PREFIX
    from middleware.recorded.tables import WHOLE

    named = set(_ALWAYS)
    for each in patterns:
        named |= _texts((each.publication, each.plain, each.thinnings, each.automaton.key))
    return [name for name in columns if name in _ALWAYS or name.removeprefix(WHOLE).removeprefix(PREFIX) in named]


def _texts(value: object) -> set[str]:
    """All texts inside a tree."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, tuple | list | frozenset):
        return set().union(*map(_texts, value))
    if is_dataclass(value) and not isinstance(value, type):
        return set().union(*(_texts(getattr(value, each.name)) for each in fields(value)))
    return set()

"""What patterns name: the columns that have to be read for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass

from distced.detectors.compiler import Compiled

_ALWAYS = ("type", "lo", "hi", "source", "seq", "constituents")


def names_in(patterns: Sequence[Compiled]) -> frozenset[str]:
    """All names that stand anywhere in patterns: the attributes that they look at are among them."""
    parts = [(each.publication, each.plain, each.thinnings, each.automaton.key) for each in patterns]
    return frozenset().union(*map(_texts, parts))


def columns_read(names: frozenset[str] | None, columns: Iterable[str]) -> list[str]:
    """Those of the columns that patterns with these names may look at; all for None."""
    from distced.middleware.event_files.native import PREFIX
    from distced.middleware.event_files.tables import WHOLE

    if names is None:
        return list(columns)
    return [name for name in columns if name in _ALWAYS or name.removeprefix(WHOLE).removeprefix(PREFIX) in names]


def _texts(value: object) -> set[str]:
    """All texts inside a tree."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, tuple | list | frozenset):
        return set().union(*map(_texts, value))
    if is_dataclass(value) and not isinstance(value, type):
        return set().union(*(_texts(getattr(value, each.name)) for each in fields(value)))
    return set()

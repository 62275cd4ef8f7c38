"""Reasons of rejected rows, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from distced.middleware.mapping.rules import Rejected

MOST_REASONS: Final = 100
"""Reasons that are counted separately; further ones count together."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reason(Generic[T]):
    """Reason of rejected rows: the rule of the mapping (empty for a native form), the problem, their number, and the
    first of them."""

    rule: str
    problem: str
    count: int
    first: T


class Reasons(Generic[T]):
    """Reasons of all rejected rows."""

    def __init__(self, shown: Callable[[Rejected], T], known: Iterable[Reason[T]] = ()) -> None:
        """`shown`: what is kept of the first row of a reason; `known`: reasons counted before."""
        self._shown = shown
        self._found = {(each.rule, each.problem): (each.count, each.first) for each in known}

    def add(self, rejected: Rejected) -> None:
        """Count a rejection."""
        key = (rejected.rule, rejected.error.problem)
        known = self._found.get(key)
        if known is None and len(self._found) >= MOST_REASONS:
            key = ("", "other reasons")
            known = self._found.get(key)
        self._found[key] = (1, self._shown(rejected)) if known is None else (known[0] + 1, known[1])

    def sorted(self) -> list[Reason[T]]:
        """The reasons, the most frequent first, equally frequent ones as they came."""
        found = [Reason(*key, *each) for key, each in self._found.items()]
        return sorted(found, key=lambda each: -each.count)

"""What went before each match that may begin: the gaps of a detector whose composite events are parts of patterns.

Design, section 2, "Cutting". Who uses a detector's composite events as part of a pattern has to know whether a match
began with the first start event after some moment. That depends on the events that were in the *domain* of the start
alternative before: whatever they did there, they were looked at first. An alternation at the start has one alternative
for each branch, which is a start state each; a key has one for each of its values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from distced.middleware.model.events import Event, Gap, OrderKey

KeyValues: TypeAlias = dict[frozenset[int], tuple[object, ...]]
"""For inner keys that may be entered together, the values an event has of them."""

Place: TypeAlias = tuple[int, object, frozenset[int], tuple[object, ...]]
"""A start state, the value of the pattern's key, inner keys and the values chosen for them."""

NO_KEYS: frozenset[int] = frozenset()


class StartGaps:
    """The last event, and the greatest `lo`, in the domain of each start alternative.

    Attributes:
        seen: by alternative. It grows with the values that keys have shown.
        answered: by the type of a delegated part the pattern may begin with, and by key: the least gap that it may
            still hand upwards.
        touched: the values of the pattern's key of which there may be news.
        told: the least open gap by key that was told last.
        floor: what went before anything was noted, of every alternative; None where nothing did.
    """

    def __init__(self, floor: tuple[OrderKey, int] | None = None) -> None:
        self.floor = floor
        self.seen: dict[Place, tuple[OrderKey, int]] = {}
        self.answered: dict[tuple[str, object], Gap] = {}
        self.touched: set[object] = set()
        self.told: dict[object, Gap] = {}

    def before(
        self, state: int, key: object, chosen: frozenset[int], values: KeyValues
    ) -> tuple[OrderKey | None, int | None]:
        """The gap of the alternative in which these inner keys have these values, the others any that nobody shows."""
        found = self.seen.get((state, key, NO_KEYS, ()), self.floor)
        if not values:
            return (None, None) if found is None else found
        every = [] if found is None else [found]
        for keys, each in values.items():
            if keys <= chosen:
                seen = self.seen.get((state, key, keys, each))
                every += [] if seen is None else [seen]
        if not every:
            return None, None
        return max(previous for previous, _ in every), max(lo for _, lo in every)

    def note(self, state: int, key: object, keys: frozenset[int], values: KeyValues, event: Event) -> None:
        """An event was looked at, for the reason that needs these inner keys to be chosen."""
        place = (state, key, keys, values[keys] if keys else ())
        found = self.seen.get(place)
        self.touched.add(key)
        if found is None:
            self.seen[place] = (event.key, event.lo)
        else:
            previous, lo = found
            self.seen[place] = (max(previous, event.key), max(lo, event.lo))


def least(gaps: Iterable[Gap]) -> Gap:
    """The lesser of each part; nothing is less than what is None."""
    previous: list[OrderKey | None] = []
    greatest: list[int | None] = []
    for gap in gaps:
        previous.append(gap.previous)
        greatest.append(gap.greatest_lo)
    known, los = [each for each in previous if each is not None], [each for each in greatest if each is not None]
    return Gap(
        min(known) if known and len(known) == len(previous) else None,
        min(los) if los and len(los) == len(greatest) else None,
    )

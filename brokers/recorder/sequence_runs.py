"""Sequence numbers of the events received, by source, as runs without gaps: small, whatever their number.

By its number an event delivered again long after, by a source that was away and repeats unacknowledged events for
example, is told from a late one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Final

from distced.detectors.snapshot_format import WIDE
from distced.middleware.model.events import EventId

RUNS: Final = 16
"""Runs remembered of a source: those of the greatest numbers."""

SOURCES: Final = 50_000
"""Sources remembered: those received from last."""


class Runs:
    """Runs of sequence numbers, by source. Numbers that are digests form none."""

    def __init__(self, state: Mapping[str, Sequence[Sequence[int]]] | None = None) -> None:
        """From the result of `state`."""
        self._runs = {source: [list(run) for run in runs] for source, runs in (state or {}).items()}

    def __contains__(self, identity: EventId) -> bool:
        source, number = identity
        return any(first <= number <= last for first, last in self._runs.get(source, ()))

    def add(self, identity: EventId) -> None:
        """Add the id of an event received."""
        source, number = identity
        if number >= WIDE:
            return
        # Ordered by last reception.
        runs = self._runs[source] = self._runs.pop(source, [])
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
            return
        if len(self._runs) > SOURCES:
            del self._runs[next(iter(self._runs))]
        _insert(runs, number)
        if len(runs) > RUNS:
            del runs[0]

    def state(self) -> dict[str, list[list[int]]]:
        """Runs as plain values, to be remembered."""
        return self._runs


def _insert(runs: list[list[int]], number: int) -> None:
    """Insert a number into ordered, disjoint runs."""
    place = bisect(runs, number, key=lambda run: run[0])
    if place and number <= runs[place - 1][1]:
        return
    begins = place < len(runs) and runs[place][0] == number + 1
    if place and runs[place - 1][1] + 1 == number:
        runs[place - 1][1] = runs.pop(place)[1] if begins else number
    elif begins:
        runs[place][0] = number
    else:
        runs.insert(place, [number, number])

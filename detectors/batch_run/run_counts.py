"""Counts of a run over a recording."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class RunCounts:
    """Counts of a recording.

    Attributes:
        events: events in it, repeated ones not counted.
        consumed: those of a type that some pattern reads.
        repeated: events whose id came before; they are left out, as second deliveries.
        disordered: events behind a later one, which were put in their place.
        found: composite events by the place of their pattern.
        running: whether a time event was still running at the end.
    """

    events: int
    consumed: int
    repeated: int
    disordered: int
    found: Counter[int]
    running: bool = False

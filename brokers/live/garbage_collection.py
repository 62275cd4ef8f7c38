"""Garbage collection of a process that is broker nodes: fewer, longer collections.

Python looks for circles among young objects after 700 new ones, and among all of them whenever their number has risen
by a quarter. A node with ten thousand detectors keeps most of what it makes, so half of its time went into collections
that found nothing. To switch collection off was rejected: errors with their frames are circles, and a node runs for
months.
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = 50_000, 20, 50
"""New objects before the youngest generation is looked through (1 ms at most), and how often before the next one is."""


def adapt_garbage_collection() -> None:
    """Exempt the objects present from garbage collection, and collect the others less often; for a process of its own,
    once its nodes are connected."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)

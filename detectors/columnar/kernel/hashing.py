"""One hash of two numbers, by a multiplication with the golden ratio."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.kernel.jit import inlined

MIX = np.uint64(0x9E3779B97F4A7C15)
ONE = np.uint64(1)


@inlined
def mix(left, right):
    """One hash of two numbers."""
    mixed = (np.uint64(left) * MIX ^ np.uint64(right)) * MIX
    return np.int64((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(1))


@inlined
def masked(number, length):
    """A hash reduced to an index in a table whose length is a power of two; unsigned, to avoid numba's handling of
    negative indexes.
    """
    return np.uint64(number) & np.uint64(length - 1)

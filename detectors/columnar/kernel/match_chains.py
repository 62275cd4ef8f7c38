"""Matches copied out of the loop: chains as consecutive positions, with bindings and registers."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.kernel.jit import allocating


@allocating
def lengths(state, number):
    """Offsets of the constituents of the first `number` matches."""
    found, links = state.found, state.links
    counts = np.zeros(number + 1, np.int64)
    for place in range(number):
        link = found[place, word_offsets.F_LINK]
        count = 0
        while link >= 0:
            count += 1
            link = links[link, 0]
        counts[place + 1] = counts[place] + count
    return counts


@allocating
def flattened(state, number, offsets):
    """The positions of the constituents of the first matches, concatenated."""
    found, links = state.found, state.links
    positions = np.empty(offsets[number], np.int64)
    for place in range(number):
        link = found[place, word_offsets.F_LINK]
        at = offsets[place + 1]
        while link >= 0:
            at -= 1
            positions[at] = links[link, 1]
            link = links[link, 0]
    return positions


@allocating
def taken_along(program, state, number):
    """Extra blocks of matches (bindings and registers), concatenated; the blocks are freed. From here patterns are
    identified by their numbers.
    """
    found, memory = state.found, program.memory
    total = 0
    for place in range(number):
        if found[place, word_offsets.F_EXTRA] >= 0:
            total += memory[found[place, word_offsets.F_UNIT] + word_offsets.U_EXTRA]
    shown = np.empty(total, np.int64)
    at = 0
    for place in range(number):
        extra = found[place, word_offsets.F_EXTRA]
        if extra >= 0:
            size = memory[found[place, word_offsets.F_UNIT] + word_offsets.U_EXTRA]
            for word in range(size):
                shown[at + word] = state.extras[extra + word]
            state.extras[extra] = state.spare[size]
            state.spare[size] = extra
            found[place, word_offsets.F_EXTRA] = at
            at += size
    for place in range(number):
        found[place, word_offsets.F_UNIT] = memory[found[place, word_offsets.F_UNIT] + word_offsets.U_NUMBER]
    return shown

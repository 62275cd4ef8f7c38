"""Matches out of the loop: chains as positions one after the other, and what was bound and counted."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.kernel.jit import allocating


@allocating
def lengths(state, number):
    """How many constituents each of the first matches has."""
    found, links = state.found, state.links
    counts = np.zeros(number + 1, np.int64)
    for place in range(number):
        link = found[place, layout.F_LINK]
        count = 0
        while link >= 0:
            count += 1
            link = links[link, 0]
        counts[place + 1] = counts[place] + count
    return counts


@allocating
def flattened(state, number, offsets):
    """The positions of the constituents of the first matches, one after the other."""
    found, links = state.found, state.links
    positions = np.empty(offsets[number], np.int64)
    for place in range(number):
        link = found[place, layout.F_LINK]
        at = offsets[place + 1]
        while link >= 0:
            at -= 1
            positions[at] = links[link, 1]
            link = links[link, 0]
    return positions


@allocating
def taken_along(program, state, number):
    """What matches took along of what was bound and counted, one after the other; the blocks are free again. Patterns
    go by their numbers from now on."""
    found, memory = state.found, program.memory
    total = 0
    for place in range(number):
        if found[place, layout.F_EXTRA] >= 0:
            total += memory[found[place, layout.F_UNIT] + layout.U_EXTRA]
    shown = np.empty(total, np.int64)
    at = 0
    for place in range(number):
        extra = found[place, layout.F_EXTRA]
        if extra >= 0:
            size = memory[found[place, layout.F_UNIT] + layout.U_EXTRA]
            for word in range(size):
                shown[at + word] = state.extras[extra + word]
            state.extras[extra] = state.spare[size]
            state.spare[size] = extra
            found[place, layout.F_EXTRA] = at
            at += size
    for place in range(number):
        found[place, layout.F_UNIT] = memory[found[place, layout.F_UNIT] + layout.U_NUMBER]
    return shown

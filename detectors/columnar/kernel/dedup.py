"""Dedup within a moment: instances that became equal, and matches with the same constituents.

Design, section 1: two instances equal in all parts are one, and so are two composite events with one id. A moment is
the consumption of one event, or of all time events that are due together. Entries of an earlier moment have another
stamp, so that nothing has to be cleared.
"""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.kernel.extra_blocks import extra_of
from distced.detectors.columnar.kernel.hashing import mix
from distced.detectors.columnar.kernel.jit import allocating, compiled, inlined
from distced.detectors.columnar.word_offsets import (
    C_SEEN,
    C_STAMP,
    F_LINK,
    F_UNIT,
    R_KEY,
    R_LAST,
    R_LINK,
    R_LO,
    R_STATE,
    R_TAG,
    TAG_MASK,
    U_EXTRA,
    UNIT_SHIFT,
)


@inlined
def next_moment(state):
    """Begin a moment: invalidate the entries of the table."""
    state.counters[C_SEEN] = 0
    state.counters[C_STAMP] += 1


@compiled
def seen_before(program, state, row):
    """Whether an instance of this moment equal in all parts exists; if not, it is added."""
    counters, rows, seen = state.counters, state.rows, state.seen
    hashed = mix(mix(rows[row, R_STATE], rows[row, R_LO]), rows[row, R_KEY])
    link = rows[row, R_LINK]
    if link >= 0:
        hashed = mix(hashed, state.links[link, 2])
    size = program.memory[(rows[row, R_STATE] >> UNIT_SHIFT) + U_EXTRA]
    for word in range(size):
        hashed = mix(hashed, state.extras[extra_of(rows, row) + word])
    mask = len(seen) - 1
    place = hashed & mask
    while seen[place, 0] == counters[C_STAMP]:
        other = seen[place, 2]
        if seen[place, 1] == hashed and other >= 0 and same_instance(state, row, other, size):
            return row != other
        place = (place + 1) & mask
    seen[place, 0], seen[place, 1], seen[place, 2] = counters[C_STAMP], hashed, row
    counters[C_SEEN] += 1
    return False


@compiled
def same_instance(state, row, other, size):
    """Whether two instances are equal in all parts."""
    rows, extras = state.rows, state.extras
    if rows[row, R_STATE] != rows[other, R_STATE] or rows[row, R_LO] != rows[other, R_LO]:
        return False
    if rows[row, R_LAST] != rows[other, R_LAST] or rows[row, R_KEY] != rows[other, R_KEY]:
        return False
    if (rows[row, R_TAG] ^ rows[other, R_TAG]) & TAG_MASK != 0:
        return False
    for word in range(size):
        if extras[extra_of(rows, row) + word] != extras[extra_of(rows, other) + word]:
            return False
    return same_chain(state, rows[row, R_LINK], rows[other, R_LINK])


@compiled
def same_chain(state, link, other):
    """Whether two chains hold the same events."""
    links = state.links
    while link != other:
        if link < 0 or other < 0 or links[link, 2] != links[other, 2] or links[link, 1] != links[other, 1]:
            return False
        link, other = links[link, 0], links[other, 0]
    return True


@compiled
def match_before(state, unit, link, number):
    """The match of this moment with the same constituents; -1 if there is none, and this one is added."""
    counters, seen, found = state.counters, state.seen, state.found
    hashed = mix(unit, state.links[link, 2] if link >= 0 else np.int64(0))
    mask = len(seen) - 1
    place = hashed & mask
    while seen[place, 0] == counters[C_STAMP]:
        other = -1 - seen[place, 2]
        if (
            seen[place, 1] == hashed
            and other >= 0
            and found[other, F_UNIT] == unit
            and same_chain(state, link, found[other, F_LINK])
        ):
            return other
        place = (place + 1) & mask
    seen[place, 0], seen[place, 1], seen[place, 2] = counters[C_STAMP], hashed, -1 - number
    counters[C_SEEN] += 1
    return np.int64(-1)


@allocating
def seen_again(seen, stamp, length):
    """Rehash the entries of this moment into a larger table."""
    made = np.zeros((length, 3), np.int64)
    mask = length - 1
    for entry in range(len(seen)):
        if seen[entry, 0] == stamp:
            place = seen[entry, 1] & mask
            while made[place, 0] == stamp:
                place = (place + 1) & mask
            made[place] = seen[entry]
    return made

"""Instances as rows: creation, buckets, removal.

An instance waits in a bucket, a list through the rows. States that wait for the same types share buckets, whatever
pattern they are of; they are distinguished by the value of a key, or by one that their domain asks an attribute for.
So an event comes by the instances it may concern and no others, however many patterns there are: Cayuga's AN and AI
indexes in one (cayuga-algebra-cesar, section 4.3).
"""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import FLOAT, INTEGER
from distced.detectors.columnar.kernel.dedup import seen_before
from distced.detectors.columnar.kernel.extra_blocks import extra_of, free_extra
from distced.detectors.columnar.kernel.hashing import MIX, ONE, masked, mix
from distced.detectors.columnar.kernel.jit import allocating, compiled, inlined
from distced.detectors.columnar.kernel.timers import push
from distced.detectors.columnar.word_offsets import (
    C_BUCKETS,
    C_EXTRAS,
    C_FOUND,
    C_FREE,
    C_INNER,
    C_LINKS,
    C_LIVE,
    C_MOST_EXTRA,
    C_MOST_TIMERS,
    C_NUMBERS,
    C_ROWS,
    C_SEEN,
    C_SLACK,
    C_SPENT,
    C_TIMERS,
    C_TOGETHER,
    DEAD,
    EXTRA_SHIFT,
    HEAD_MASK,
    MERGES,
    NAME_SHIFT,
    NONE,
    R_HI,
    R_KEY,
    R_LAST,
    R_LINK,
    R_LO,
    R_NEXT,
    R_STATE,
    R_TAG,
    S_GROUP,
    S_VALUE,
    STATE_MASK,
    TAG_BITS,
    TAG_MASK,
    U_EXTRA,
    U_FLAGS,
    U_TIMERS,
    U_WINDOWS,
    UNIT_SHIFT,
    USED_MASK,
)


@inlined
def link_behind(state, link, position):
    """Append a link to a chain."""
    links, number = state.links, state.counters[C_LINKS]
    state.counters[C_LINKS] = number + 1
    before = np.uint64(links[link, 2]) if link >= 0 else np.uint64(0)
    mixed = (before ^ np.uint64(position)) * MIX
    links[number, 0], links[number, 1] = link, position
    links[number, 2] = np.int64(mixed ^ (mixed >> np.uint64(29)))
    return number


@compiled
def add_link(state, link, position):
    """Append a link to a chain, from outside the loop."""
    return link_behind(state, link, position)


@inlined
def bear(program, state, place, unit, link, lo, hi, position, key, tag, extra):
    """Create an instance. Later events find it in its bucket; the current event is not offered to it."""
    counters, rows, memory = state.counters, state.rows, program.memory
    row = counters[C_FREE]
    if row >= 0:
        counters[C_FREE] = rows[row, R_NEXT]
        used = rows[row, R_TAG]
    else:
        row = counters[C_ROWS]
        counters[C_ROWS] = row + 1
        used = np.int64(0)
    value = memory[place + S_VALUE]
    if value >= 0:
        tag, key = program.constants[value, 0], program.constants[value, 1]
    elif value < -1:
        tag, key = found_by(state, extra - 2 - value)
    rows[row, R_STATE] = np.int64(unit) << UNIT_SHIFT | place
    rows[row, R_LINK] = link
    rows[row, R_LO] = lo
    rows[row, R_HI] = hi
    rows[row, R_LAST] = position
    rows[row, R_KEY] = key
    rows[row, R_TAG] = (np.int64(extra) + 1) << EXTRA_SHIFT | used | tag
    counters[C_LIVE] += 1
    if memory[unit + U_FLAGS] & MERGES != 0 and seen_before(program, state, row):
        discard(program, state, row)
    else:
        settle(program, state, row)
        timers = memory[unit + U_TIMERS]
        if timers > 0:
            set_off(program, state, row, extra + memory[unit + U_WINDOWS], timers)


@compiled
def found_by(state, slot):
    """The index value of an instance whose state compares with a captured value, in the format of key columns."""
    tag, bits = state.extras[slot], state.extras[slot + 1]
    if tag == FLOAT:
        state.stack[0] = bits
        number = state.floats[0]
        if -(2.0**63) <= number < 2.0**63 and number == np.floor(number):
            return np.int64(INTEGER), np.int64(number)
    return tag, bits


@inlined
def settle(program, state, row):
    """Put an instance into its bucket."""
    rows = state.rows
    group = program.memory[(rows[row, R_STATE] & STATE_MASK) + S_GROUP]
    entry = find_or_make(state, group, rows[row, R_TAG] & TAG_MASK, rows[row, R_KEY])
    rows[row, R_NEXT] = first_in(state.table, entry)
    put_first(state.table, entry, row)


@compiled
def settle_all(program, state, places):
    """Put the instances in these rows into their buckets, and start their time events."""
    rows, memory = state.rows, program.memory
    for place in range(len(places)):
        row = places[place]
        settle(program, state, row)
        unit = rows[row, R_STATE] >> UNIT_SHIFT
        timers = memory[unit + U_TIMERS]
        if timers > 0:
            set_off(program, state, row, extra_of(rows, row) + memory[unit + U_WINDOWS], timers)


@compiled
def set_off(program, state, row, first, timers):
    """Start the time events of an instance."""
    counters = state.counters
    for timer in range(timers):
        if state.extras[first + timer] != NONE:
            counters[C_NUMBERS] += 1
            push(state, state.extras[first + timer], counters[C_NUMBERS], row, state.rows[row, R_TAG], timer)


@inlined
def room(state, need):
    """Whether there is room for everything one instance may produce."""
    left = state.counters[C_SLACK] - need
    if left >= 0:
        state.counters[C_SLACK] = left
        return True
    return room_left(state, need)


@compiled
def room_left(state, need):
    """Whether there is room, after recomputing the reserve."""
    counters = state.counters
    slack = len(state.rows) - counters[C_ROWS]
    slack = min(slack, len(state.links) - counters[C_LINKS], len(state.found) - counters[C_FOUND])
    slack = min(slack, len(state.seen) // 2 - 2 * counters[C_SEEN], len(state.table) // 2 - counters[C_BUCKETS])
    if counters[C_MOST_TIMERS] > 0:
        slack = min(slack, (len(state.timers) - counters[C_TIMERS]) // counters[C_MOST_TIMERS])
    if counters[C_MOST_EXTRA] > 0:
        slack = min(slack, (len(state.extras) - counters[C_EXTRAS]) // (3 * counters[C_MOST_EXTRA]) - 1)
    if counters[C_INNER] > 0:
        # What events consumed together have spent is written down behind the last of them.
        slack = min(slack, len(state.spent) - counters[C_SPENT] - counters[C_TOGETHER])
    # Of what is counted down, some may be free again; but no more than was looked at may be given away.
    counters[C_SLACK] = max(slack, 0)
    if slack < need:
        return False
    counters[C_SLACK] = slack - need
    return True


@inlined
def discard(program, state, row):
    """Free the row of an ended instance."""
    rows, counters = state.rows, state.counters
    if rows[row, R_STATE] != DEAD:
        size = program.memory[(rows[row, R_STATE] >> UNIT_SHIFT) + U_EXTRA]
        if size > 0:
            free_extra(state, extra_of(rows, row), size)
        counters[C_LIVE] -= 1
    rows[row, R_STATE] = -1
    # Once more used, and with no tag and no block.
    rows[row, R_TAG] = ((rows[row, R_TAG] & USED_MASK & ~np.int64(TAG_MASK)) + (np.int64(1) << TAG_BITS)) & USED_MASK
    rows[row, R_NEXT] = counters[C_FREE]
    counters[C_FREE] = row


@inlined
def first_in(table, entry):
    """The first instance of a bucket; negative for an empty one."""
    return (table[entry, 1] & HEAD_MASK) - 1


@inlined
def put_first(table, entry, row):
    """Set the first instance of a bucket, or none."""
    table[entry, 1] = (table[entry, 1] & ~np.int64(HEAD_MASK)) | (row + 1)


@inlined
def find(state, group, tag, value):
    """The bucket of a group and a value; -1 if there is none."""
    table = state.table
    name = (np.int64(group) << TAG_BITS | tag) + 1
    entry = masked(mix(name, value), len(table))
    while table[entry, 1] != 0:
        if table[entry, 0] == value and table[entry, 1] >> NAME_SHIFT == name:
            return np.int64(entry)
        entry = masked(entry + ONE, len(table))
    return np.int64(-1)


@inlined
def find_or_make(state, group, tag, value):
    """The bucket of a group and a value, created where missing."""
    table = state.table
    name = (np.int64(group) << TAG_BITS | tag) + 1
    entry = masked(mix(name, value), len(table))
    while table[entry, 1] != 0:
        if table[entry, 0] == value and table[entry, 1] >> NAME_SHIFT == name:
            return np.int64(entry)
        entry = masked(entry + ONE, len(table))
    table[entry, 0], table[entry, 1] = value, name << NAME_SHIFT
    state.counters[C_BUCKETS] += 1
    return np.int64(entry)


@allocating
def rehashed(table, length):
    """The buckets rehashed into a larger table."""
    made = np.zeros((length, 2), np.int64)
    mask = length - 1
    for entry in range(len(table)):
        if table[entry, 1] != 0:
            place = mix(table[entry, 1] >> NAME_SHIFT, table[entry, 0]) & mask
            while made[place, 1] != 0:
                place = (place + 1) & mask
            made[place] = table[entry]
    return made

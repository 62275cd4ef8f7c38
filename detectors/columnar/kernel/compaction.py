"""Compaction of the loop's arrays: drops links, time events and spent keys that no instance refers to any more."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.kernel.extra_blocks import extra_of
from distced.detectors.columnar.kernel.instances import discard, find_or_make, first_in, put_first
from distced.detectors.columnar.kernel.jit import allocating
from distced.detectors.columnar.word_offsets import DEAD, STATE_MASK, TAG_MASK, UNIT_SHIFT


@allocating
def sweep(program, state, latest):
    """Drop instances whose window has closed for all later events, and rebuild the buckets of the others."""
    rows, counters, memory = state.rows, state.counters, program.memory
    state.table[:] = 0
    counters[word_offsets.C_BUCKETS] = 0
    for row in range(counters[word_offsets.C_ROWS]):
        where = rows[row, word_offsets.R_STATE]
        if where == DEAD:
            discard(program, state, row)
        elif where >= 0:
            unit = where >> UNIT_SHIFT
            wide = memory[unit + word_offsets.U_WINDOW]
            lo = rows[row, word_offsets.R_LO]
            if memory[(where & STATE_MASK) + word_offsets.S_LOCAL] < 0:
                # Its pattern was removed.
                discard(program, state, row)
                continue
            if wide >= 0 and latest > lo and np.uint64(latest) - np.uint64(lo) > np.uint64(program.wide[wide]):
                discard(program, state, row)
                continue
            group = memory[(where & STATE_MASK) + word_offsets.S_GROUP]
            entry = find_or_make(state, group, rows[row, word_offsets.R_TAG] & TAG_MASK, rows[row, word_offsets.R_KEY])
            rows[row, word_offsets.R_NEXT] = first_in(state.table, entry)
            put_first(state.table, entry, row)


@allocating
def compact_links(state):
    """Keep links of chains only; a link stays behind its predecessor."""
    rows, links, counters = state.rows, state.links, state.counters
    number = counters[word_offsets.C_LINKS]
    new = np.full(number, -1, np.int64)
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] >= 0 and rows[row, word_offsets.R_LINK] >= 0:
            new[rows[row, word_offsets.R_LINK]] = 0
    for link in range(number - 1, -1, -1):
        if new[link] == 0 and links[link, 0] >= 0:
            new[links[link, 0]] = 0
    count = 0
    for link in range(number):
        if new[link] == 0:
            new[link] = count
            before = links[link, 0]
            links[count, 0] = new[before] if before >= 0 else -1
            links[count, 1], links[count, 2] = links[link, 1], links[link, 2]
            count += 1
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] >= 0 and rows[row, word_offsets.R_LINK] >= 0:
            rows[row, word_offsets.R_LINK] = new[rows[row, word_offsets.R_LINK]]
    counters[word_offsets.C_LINKS] = count


@allocating
def compact_times(program, state):
    """Keep the time events referred to by an instance."""
    rows, times, counters, memory, extras = state.rows, state.times, state.counters, program.memory, state.extras
    number = counters[word_offsets.C_TIMES]
    if number == 0:
        return
    new = np.full(number, -1, np.int64)
    count = 0
    kept = np.empty((number, 3), np.int64)
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] < 0:
            continue
        unit = rows[row, word_offsets.R_STATE] >> UNIT_SHIFT
        begin = extra_of(rows, row) + memory[unit + word_offsets.U_WINDOWS] + memory[unit + word_offsets.U_TIMERS]
        for each in range(-1, memory[unit + word_offsets.U_VARIABLES]):
            position = rows[row, word_offsets.R_LAST] if each < 0 else extras[begin + each]
            if position < 0 and position != word_offsets.NONE:
                place = -1 - position
                if new[place] < 0:
                    new[place] = count
                    kept[count] = times[place]
                    count += 1
                if each < 0:
                    rows[row, word_offsets.R_LAST] = -1 - new[place]
                else:
                    extras[begin + each] = -1 - new[place]
    times[:count] = kept[:count]
    counters[word_offsets.C_TIMES] = count


@allocating
def compact_spent(program, state):
    """Keep the closed values of inner keys referred to by an instance."""
    rows, counters, memory, extras, spent = state.rows, state.counters, program.memory, state.extras, state.spent
    kept = np.empty((counters[word_offsets.C_SPENT], 3), np.int64)
    count = 0
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] < 0:
            continue
        word = memory[(rows[row, word_offsets.R_STATE] >> UNIT_SHIFT) + word_offsets.U_SPENT]
        if word == 0:
            continue
        head = extra_of(rows, row) + word - 1
        entry, last = extras[head], 0
        while entry > 0:
            kept[count, 0], kept[count, 1], kept[count, 2] = last, spent[entry - 1, 1], spent[entry - 1, 2]
            count += 1
            last = count
            entry = spent[entry - 1, 0]
        extras[head] = last
    spent[:count] = kept[:count]
    counters[word_offsets.C_SPENT] = count


@allocating
def referred_to(program, state):
    """The positions referred to by instances, with duplicates."""
    rows, counters, memory = state.rows, state.counters, program.memory
    total = counters[word_offsets.C_LINKS]
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] >= 0:
            total += 1 + memory[(rows[row, word_offsets.R_STATE] >> UNIT_SHIFT) + word_offsets.U_VARIABLES]
    found = np.empty(total, np.int64)
    at = 0
    for link in range(counters[word_offsets.C_LINKS]):
        found[at] = state.links[link, 1]
        at += 1
    for row in range(counters[word_offsets.C_ROWS]):
        if rows[row, word_offsets.R_STATE] >= 0:
            found[at] = rows[row, word_offsets.R_LAST]
            at += 1
            unit = rows[row, word_offsets.R_STATE] >> UNIT_SHIFT
            begin = extra_of(rows, row) + memory[unit + word_offsets.U_WINDOWS] + memory[unit + word_offsets.U_TIMERS]
            for each in range(memory[unit + word_offsets.U_VARIABLES]):
                found[at] = state.extras[begin + each]
                at += 1
    return found

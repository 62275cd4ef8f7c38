"""Keeping house: what no instance refers to any more is let go, now and then."""

from __future__ import annotations

from typing import Final

import numpy as np

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.kernel.extra_blocks import extra_of
from distced.detectors.columnar.kernel.instances import discard, find_or_make, first_in, put_first
from distced.detectors.columnar.kernel.jit import allocating
from distced.detectors.columnar.results.store import Store
from distced.detectors.columnar.state import Program, State, Words
from distced.detectors.columnar.word_offsets import DEAD, STATE_MASK, TAG_MASK, UNIT_SHIFT

LEAST: Final = 524_288
"""Below this nothing is looked through."""

LEAST_LEFT: Final = 4096
"""For fewer patterns that were removed neither."""


def crowded(state: State, store: Store) -> bool:
    """Whether it may pay to look what is still referred to: as much again has come since as was left the last time."""
    return _used(state.counters, store) > int(state.counters[layout.C_CROWD])


def many_left(state: State, store: Store, removed: int) -> bool:
    """Whether so many patterns were removed that what they have left takes more than it costs to look for it."""
    return removed > max(LEAST_LEFT, _used(state.counters, store) // 32)


def _used(counters: Words, store: Store) -> int:
    looked = (layout.C_LINKS, layout.C_TIMES, layout.C_ROWS, layout.C_BUCKETS, layout.C_SPENT)
    return max(store.held // 2, *(int(counters[each]) for each in looked))


def look_soon(state: State) -> None:
    """Look with the next batch, however little has come."""
    state.counters[layout.C_CROWD] = -1


def collect(program: Program, state: State, store: Store, latest: int) -> None:
    """Let go of what is not referred to. There are no matches then, and no instance is about to be born."""
    counters = state.counters
    sweep(program, state, latest)
    compact_links(state)
    compact_times(program, state)
    if counters[layout.C_SPENT] > 0:
        compact_spent(program, state)
    referred = np.unique(referred_to(program, state))
    store.let_go(referred[referred >= 0])
    counters[layout.C_CROWD] = LEAST + 2 * _used(counters, store)


@allocating
def sweep(program, state, latest):
    """Drop instances whose window has closed for every event to come, and put all others in their places anew."""
    rows, counters, memory = state.rows, state.counters, program.memory
    state.table[:] = 0
    counters[layout.C_BUCKETS] = 0
    for row in range(counters[layout.C_ROWS]):
        where = rows[row, layout.R_STATE]
        if where == DEAD:
            discard(program, state, row)
        elif where >= 0:
            unit = where >> UNIT_SHIFT
            wide = memory[unit + layout.U_WINDOW]
            lo = rows[row, layout.R_LO]
            if memory[(where & STATE_MASK) + layout.S_LOCAL] < 0:
                # Its pattern was removed.
                discard(program, state, row)
                continue
            if wide >= 0 and latest > lo and np.uint64(latest) - np.uint64(lo) > np.uint64(program.wide[wide]):
                discard(program, state, row)
                continue
            group = memory[(where & STATE_MASK) + layout.S_GROUP]
            entry = find_or_make(state, group, rows[row, layout.R_TAG] & TAG_MASK, rows[row, layout.R_KEY])
            rows[row, layout.R_NEXT] = first_in(state.table, entry)
            put_first(state.table, entry, row)


@allocating
def compact_links(state):
    """Leave the links of chains only. A link stands behind the one before it, and so it does afterwards."""
    rows, links, counters = state.rows, state.links, state.counters
    number = counters[layout.C_LINKS]
    new = np.full(number, -1, np.int64)
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] >= 0 and rows[row, layout.R_LINK] >= 0:
            new[rows[row, layout.R_LINK]] = 0
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
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] >= 0 and rows[row, layout.R_LINK] >= 0:
            rows[row, layout.R_LINK] = new[rows[row, layout.R_LINK]]
    counters[layout.C_LINKS] = count


@allocating
def compact_times(program, state):
    """Leave the time events that an instance knows of."""
    rows, times, counters, memory, extras = state.rows, state.times, state.counters, program.memory, state.extras
    number = counters[layout.C_TIMES]
    if number == 0:
        return
    new = np.full(number, -1, np.int64)
    count = 0
    kept = np.empty((number, 3), np.int64)
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] < 0:
            continue
        unit = rows[row, layout.R_STATE] >> UNIT_SHIFT
        begin = extra_of(rows, row) + memory[unit + layout.U_WINDOWS] + memory[unit + layout.U_TIMERS]
        for each in range(-1, memory[unit + layout.U_VARIABLES]):
            position = rows[row, layout.R_LAST] if each < 0 else extras[begin + each]
            if position < 0 and position != layout.NONE:
                place = -1 - position
                if new[place] < 0:
                    new[place] = count
                    kept[count] = times[place]
                    count += 1
                if each < 0:
                    rows[row, layout.R_LAST] = -1 - new[place]
                else:
                    extras[begin + each] = -1 - new[place]
    times[:count] = kept[:count]
    counters[layout.C_TIMES] = count


@allocating
def compact_spent(program, state):
    """Leave the values of inner keys that an instance knows to have gone their own way."""
    rows, counters, memory, extras, spent = state.rows, state.counters, program.memory, state.extras, state.spent
    kept = np.empty((counters[layout.C_SPENT], 3), np.int64)
    count = 0
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] < 0:
            continue
        word = memory[(rows[row, layout.R_STATE] >> UNIT_SHIFT) + layout.U_SPENT]
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
    counters[layout.C_SPENT] = count


@allocating
def referred_to(program, state):
    """The positions that instances refer to, some of them more than once."""
    rows, counters, memory = state.rows, state.counters, program.memory
    total = counters[layout.C_LINKS]
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] >= 0:
            total += 1 + memory[(rows[row, layout.R_STATE] >> UNIT_SHIFT) + layout.U_VARIABLES]
    found = np.empty(total, np.int64)
    at = 0
    for link in range(counters[layout.C_LINKS]):
        found[at] = state.links[link, 1]
        at += 1
    for row in range(counters[layout.C_ROWS]):
        if rows[row, layout.R_STATE] >= 0:
            found[at] = rows[row, layout.R_LAST]
            at += 1
            unit = rows[row, layout.R_STATE] >> UNIT_SHIFT
            begin = extra_of(rows, row) + memory[unit + layout.U_WINDOWS] + memory[unit + layout.U_TIMERS]
            for each in range(memory[unit + layout.U_VARIABLES]):
                found[at] = state.extras[begin + each]
                at += 1
    return found

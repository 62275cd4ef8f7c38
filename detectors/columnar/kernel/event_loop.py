"""The compiled loop: events are offered to instances, rules 1 to 3 of design, section 1, over rows of numbers.

The same as the stepwise engine's matcher, once for all automata: what differs from pattern to pattern is read from the
program. A loop written and compiled for each pattern was rejected: it is some two times as fast, takes seconds to
compile, and there may be 400,000 patterns.

When an array is full, the loop stops *before* the next instance, records its position, and is called again after the
array has grown; so nothing is done twice.
"""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import NULL
from distced.detectors.columnar.kernel.dedup import next_moment
from distced.detectors.columnar.kernel.extra_blocks import extra_of, free_extra, root
from distced.detectors.columnar.kernel.instances import discard, find, first_in, put_first, room, settle
from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.kernel.start_lookup import passes, slot_of
from distced.detectors.columnar.kernel.timers import pop
from distced.detectors.columnar.kernel.transitions import (
    KEPT,
    MOVED,
    follow,
    in_domain,
    labelled,
    note_affected,
    spend,
    step,
    take,
)
from distced.detectors.columnar.word_offsets import (
    ALIKE,
    C_CURRENT,
    C_DUE,
    C_EVENT,
    C_FIRST,
    C_LIVE,
    C_MOST_RECURRED,
    C_NUMBERS,
    C_PHASE,
    C_PREVIOUS,
    C_RECURRED,
    C_SEEN,
    C_STOP,
    C_TIMERS,
    C_TIMES,
    C_TOGETHER,
    C_TOUCHED,
    C_VISIT,
    DEAD,
    DONE,
    E_MOVE,
    E_VISIT,
    ENTERS,
    EVERYTHING,
    I_LENGTH,
    I_OFFSET,
    KEYED,
    LOOK,
    M_FLAGS,
    NONE,
    OFTEN,
    R_LAST,
    R_LO,
    R_NEXT,
    R_STATE,
    R_TAG,
    ROOM,
    S_TIMERS,
    S_VISITS,
    SINGLE_MOVE,
    STARTING,
    STATE_MASK,
    TAG_BITS,
    U_EXTRA,
    U_FLAGS,
    U_KEYS,
    U_NUMBER,
    U_WINDOW,
    UNIT_SHIFT,
    V_COUNT,
    V_FLAGS,
    V_NEED,
    V_OPENS,
    V_UNIT,
    WAITING,
)


@compiled
def run(program, events, state, until):
    """Consume the events of a batch from the loop's position to `until`; the reason for stopping."""
    counters = state.counters
    while 0 <= counters[C_EVENT] < until:
        if counters[C_TOUCHED] > counters[C_STOP]:
            return LOOK
        event = counters[C_EVENT]
        hi = events.hi[event]
        if counters[C_TIMERS] > 0 and state.timers[0, 0] < hi:
            reason = fire(program, events, state, hi - 1)
            if reason != DONE:
                return reason
        if counters[C_DUE] != NONE:
            next_moment(state)
            counters[C_DUE] = NONE
        kind = events.types[event]
        lists = events.lists
        if counters[C_PHASE] == WAITING:
            if offer(program, events, state, event, lists[kind, 0], lists[kind, 2]) == ROOM:
                return ROOM
            counters[C_PHASE] = STARTING
            counters[C_VISIT] = 0
        if lists[kind, 1] > 0 and begin(program, events, state, event, lists[kind, 1]) == ROOM:
            return ROOM
        if len(events.together) > 0:
            end_together(program, events, state, event)
        counters[C_PHASE] = WAITING
        counters[C_VISIT] = 0
        if counters[C_SEEN] > 0:
            next_moment(state)
        counters[C_EVENT] = event + 1
    return DONE


@inlined
def offer(program, events, state, event, groups, kind):
    """Offer an event to the instances that wait for its type."""
    if groups <= 0:
        return DONE
    counters, memory, rows = state.counters, program.memory, state.rows
    lo, hi = events.lo[event], events.hi[event]
    position = counters[C_FIRST] + event
    together, first = is_together(events, event), position
    if together:
        first = counters[C_FIRST] + events.together[event]
    number = memory[groups]
    while counters[C_VISIT] < number:
        item = groups + 1 + 2 * counters[C_VISIT]
        column = memory[item + 1]
        tag, value = np.int64(NULL), np.int64(0)
        if column >= 0:
            tag, value = np.int64(events.tags[column, event]), events.payload[column, event]
        entry = find(state, memory[item], tag, value)
        if entry < 0:
            counters[C_VISIT] += 1
            continue
        previous, current = counters[C_PREVIOUS], counters[C_CURRENT]
        if previous == 0 and current == 0:
            previous, current = np.int64(-1), first_in(state.table, entry)
        else:
            # Where it stopped; one more than the rows.
            previous, current = previous - 1, current - 1
        while current >= 0:
            following = rows[current, R_NEXT]
            where = rows[current, R_STATE]
            gone, moved = where < 0, False
            # What was born in this moment is not offered what is of it.
            if not gone and rows[current, R_LAST] < first:
                unit = where >> UNIT_SHIFT
                wide = memory[unit + U_WINDOW]
                if wide >= 0 and np.uint64(hi) - np.uint64(rows[current, R_LO]) > np.uint64(program.wide[wide]):
                    # Whatever it takes is beyond its window.
                    gone = True
                else:
                    visit = visit_of(program, where & STATE_MASK, kind)
                    if visit > 0:
                        full = together and counters[C_TOGETHER] + 2 > len(state.affected)
                        if full or not room(state, memory[visit + V_NEED]):
                            counters[C_PREVIOUS], counters[C_CURRENT] = previous + 1, current + 1
                            return ROOM
                        counters[C_TOUCHED] += 1
                        state.touched[memory[visit + V_COUNT]] += 1
                        if memory[visit + V_FLAGS] & SINGLE_MOVE != 0 and not together:
                            became = step(program, events, state, visit, unit, current, event, position, lo, hi)
                            gone, moved = became != KEPT, became == MOVED
                        else:
                            gone = take(program, events, state, visit, unit, current, event, position, lo, hi, together)
                            if gone and together:
                                # It is there for the others, too.
                                note_affected(state, current, np.int64(-1), np.int64(0))
                                gone = False
            if gone:
                if previous < 0 and first_in(state.table, entry) != current:
                    # Others have come before it meanwhile.
                    previous = first_in(state.table, entry)
                    while rows[previous, R_NEXT] != current:
                        previous = rows[previous, R_NEXT]
                if previous >= 0:
                    rows[previous, R_NEXT] = following
                else:
                    put_first(state.table, entry, following)
                if moved:
                    settle(program, state, current)
                else:
                    discard(program, state, current)
            else:
                previous = current
            current = following
        counters[C_PREVIOUS] = counters[C_CURRENT] = 0
        counters[C_VISIT] += 1
    return DONE


@inlined
def visit_of(program, place, kind):
    """The visit of events of a type in a state; 0 where they are not read."""
    memory = program.memory
    visits = memory[place + S_VISITS]
    for each in range(memory[visits]):
        if memory[visits + 1 + 2 * each] == kind:
            return memory[visits + 2 + 2 * each]
    return np.int32(0)


@inlined
def begin(program, events, state, event, signatures):
    """Begin matches with an event: start states are always active, and stay."""
    counters, memory, lookup, entries = state.counters, program.memory, program.lookup, program.entries
    lo, hi = events.lo[event], events.hi[event]
    position = counters[C_FIRST] + event
    number = memory[signatures]
    while counters[C_VISIT] < number:
        item = signatures + 1 + 3 * counters[C_VISIT]
        first, second = memory[item + 1], memory[item + 2]
        if first >= 0:
            name = np.int64(memory[item]) << (2 * TAG_BITS) | np.int64(events.tags[first, event])
            one, other = events.payload[first, event], np.int64(0)
            if second >= 0:
                name |= np.int64(events.tags[second, event]) << TAG_BITS
                other = events.payload[second, event]
            slot = slot_of(lookup, name + 1, one, other)
        else:
            slot = np.int64(second)
        offset, length = lookup[slot, I_OFFSET], lookup[slot, I_LENGTH]
        while counters[C_CURRENT] < length:
            entry = offset + counters[C_CURRENT]
            known = passes(program, events, entry, event)
            if known != 0:
                visit, move = entries[entry, E_VISIT], entries[entry, E_MOVE]
                if not room(state, memory[visit + V_NEED]):
                    return ROOM
                start(program, events, state, visit, move, known, event, position, lo, hi)
            counters[C_CURRENT] += 1
        counters[C_CURRENT] = 0
        counters[C_VISIT] += 1
    return DONE


@inlined
def start(program, events, state, visit, move, known, event, position, lo, hi):
    """Begin a match with a move out of a start state, if the event satisfies it."""
    memory = program.memory
    unit = np.int64(memory[visit + V_UNIT])
    key, tag = np.int64(0), np.int64(NULL)
    if memory[unit + U_FLAGS] & KEYED != 0:
        column = memory[unit + U_KEYS]
        key, tag = events.payload[column, event], np.int64(events.tags[column, event])
        if tag == NULL:
            return
    blank = root(program, state, unit)
    if known != 2:
        flags = memory[visit + V_FLAGS]
        opens = memory[visit + V_OPENS]
        shown = opens > 0 and events.tags[opens - 1, event] != NULL
        if memory[move + M_FLAGS] & ENTERS != 0 and not shown:
            return
        if flags & (EVERYTHING | ALIKE) == 0 and not in_domain(
            program, events, state, visit, unit, blank, event, lo, hi, shown
        ):
            return
        if not labelled(program, events, state, move, unit, blank, event, lo, hi):
            return
    count = memory[visit + V_COUNT]
    if state.begun[count] != position:
        # The start is one instance, however many transitions it has.
        state.begun[count] = position
        state.counters[C_TOUCHED] += 1
        state.touched[count] += 1
    none = np.int64(-1)
    follow(program, events, state, unit, move, none, blank, none, lo, hi, event, position, lo, hi, key, tag)


@compiled
def end_all(program, state, places):
    """End the instances in these rows, perhaps between two instances of a run."""
    for place in range(len(places)):
        end(program, state, places[place])


@compiled
def fire(program, events, state, until):
    """Fire every time event due at or before `until`, in order."""
    counters, memory, rows, timers = state.counters, program.memory, state.rows, state.timers
    most = counters[C_RECURRED] + counters[C_MOST_RECURRED] * max(counters[C_LIVE], 1)
    while counters[C_TIMERS] > 0 and timers[0, 0] <= until:
        if counters[C_MOST_RECURRED] > 0 and counters[C_RECURRED] > most:
            return OFTEN
        due, row, timer = timers[0, 0], timers[0, 2], timers[0, 4]
        if rows[row, R_STATE] < 0 or rows[row, R_TAG] != timers[0, 3]:
            pop(state)
            continue
        unit = rows[row, R_STATE] >> UNIT_SHIFT
        visit = memory[memory[(rows[row, R_STATE] & STATE_MASK) + S_TIMERS] + timer]
        if visit == 0:
            pop(state)
            continue
        if not room(state, memory[visit + V_NEED]) or counters[C_TIMES] == len(state.times):
            return ROOM
        pop(state)
        if due != counters[C_DUE]:
            next_moment(state)
            counters[C_DUE] = due
        counters[C_NUMBERS] += 1
        counters[C_TOUCHED] += 1
        state.touched[memory[visit + V_COUNT]] += 1
        position = -1 - counters[C_TIMES]
        fired = counters[C_TIMES]
        state.times[fired, 0], state.times[fired, 1], state.times[fired, 2] = due, counters[C_NUMBERS], timer
        counters[C_TIMES] += 1
        state.fired[memory[unit + U_NUMBER], 0] = due
        state.fired[memory[unit + U_NUMBER], 1] = counters[C_NUMBERS]
        if take(program, events, state, visit, unit, row, np.int64(-1), position, due, due, np.bool_(False)):
            end(program, state, row)
    return DONE


@inlined
def end(program, state, row):
    """End an instance that has moved or failed; its row is freed with the next pass over its bucket."""
    rows = state.rows
    unit = rows[row, R_STATE] >> UNIT_SHIFT
    size = program.memory[unit + U_EXTRA]
    if size > 0:
        free_extra(state, extra_of(rows, row), size)
    rows[row, R_STATE] = DEAD
    state.counters[C_LIVE] -= 1


@inlined
def is_together(events, event):
    """Whether an event is consumed together with others: by epochs, or because it was detected in two ways."""
    firsts = events.together
    if len(firsts) == 0:
        return False
    return firsts[event] != event or (event + 1 < len(firsts) and firsts[event + 1] == event)


@compiled
def end_together(program, events, state, event):
    """Finish a group of events consumed together: end all instances and key values it affected."""
    counters = state.counters
    if event + 1 < len(events.together) and events.together[event + 1] == events.together[event]:
        return
    for each in range(counters[C_TOGETHER]):
        row = state.affected[each, 0]
        if state.affected[each, 1] < 0 and state.rows[row, R_STATE] >= 0:
            end(program, state, row)
    for each in range(counters[C_TOGETHER]):
        row = state.affected[each, 0]
        if state.affected[each, 1] >= 0 and state.rows[row, R_STATE] >= 0:
            spend(program, state, row, state.affected[each, 1], state.affected[each, 2])
    counters[C_TOGETHER] = 0

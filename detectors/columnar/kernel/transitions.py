"""Rules 1 to 3 of design, section 1, over rows of numbers: the transitions of an instance on an event.

Equivalent to the stepwise engine's matcher, with one code for all automata.
"""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import FLOAT, INTEGER, NULL
from distced.detectors.columnar.kernel.condition_vm import call_out, evaluate, holds
from distced.detectors.columnar.kernel.dedup import match_before, seen_before
from distced.detectors.columnar.kernel.extra_blocks import copied, extra_of, free_extra, new_extra
from distced.detectors.columnar.kernel.instances import bear, link_behind
from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.word_offsets import (
    ACCEPTING,
    ALIKE,
    ASIDE,
    C_CALLBACK,
    C_ENDED,
    C_FOUND,
    C_RECURRED,
    C_SPENT,
    C_TOGETHER,
    CHOSEN,
    D_CODE,
    D_ENTERS,
    D_INITS,
    DUE,
    ENTERS,
    EVERYTHING,
    F_EXTRA,
    F_HI,
    F_KEY,
    F_LINK,
    F_LO,
    F_MOMENT,
    F_TAG,
    F_UNIT,
    GOES_ON,
    HIDDEN,
    LATEST,
    M_CAPTURES,
    M_FLAGS,
    M_HANDED,
    M_INITS,
    M_JOINT,
    M_LABEL,
    M_STATE,
    M_TARGETS,
    M_UNIT,
    M_UPDATES,
    M_VARIABLE,
    M_WINDOWS,
    MERGES,
    NONE,
    OPENED,
    R_HI,
    R_KEY,
    R_LAST,
    R_LINK,
    R_LO,
    R_STATE,
    R_TAG,
    S_VALUE,
    SET_OFF,
    SHARES,
    SHOWN,
    SIMPLE,
    STRAIGHT,
    STRONG,
    T_ARMS,
    T_CLEARS,
    T_DELAYS,
    T_FLAGS,
    T_RECURS,
    T_STATE,
    TAG_BITS,
    TAG_MASK,
    TEST,
    U_EXTRA,
    U_FILTER,
    U_FLAGS,
    U_NUMBER,
    U_SPENT,
    U_WINDOW,
    U_WINDOWS,
    UNIT_SHIFT,
    V_FLAGS,
    V_INNER,
    V_JOINT,
    V_LOOP,
    V_MOVES,
    V_OPENS,
    V_TESTS,
)

KEPT = 0
GONE = 1
MOVED = 2
"""Fates of an instance: unchanged, ended, or in another state."""


@inlined
def step(program, events, state, visit, unit, row, event, position, lo, hi):
    """Offer an event to an instance in a state with one straight way out: a fast path for the most frequent case."""
    memory, rows = program.memory, state.rows
    flags = memory[visit + V_FLAGS]
    if flags & STRONG != 0 and lo <= rows[row, R_HI]:
        return KEPT
    move = memory[memory[visit + V_MOVES] + 1]
    code = memory[move + M_LABEL]
    if code > 0 and not holds(program, events, state, code, event, lo, hi, np.int64(-1)):
        return GONE if flags & EVERYTHING != 0 else KEPT
    least = min(lo, rows[row, R_LO])
    wide = memory[unit + U_WINDOW]
    if wide >= 0 and np.uint64(hi) - np.uint64(least) > np.uint64(program.wide[wide]):
        return GONE
    link = rows[row, R_LINK]
    if memory[move + M_FLAGS] & HIDDEN == 0:
        link = link_behind(state, link, position)
    place, own = memory[move + M_STATE], np.int64(memory[move + M_UNIT])
    if place <= 0:
        key, tag = rows[row, R_KEY], rows[row, R_TAG] & TAG_MASK
        report(program, events, state, own, position, least, hi, link, np.int64(-1), key, tag)
        return GONE
    value = memory[place + S_VALUE]
    if value >= 0:
        rows[row, R_KEY] = program.constants[value, 1]
        rows[row, R_TAG] = (rows[row, R_TAG] & ~np.int64(TAG_MASK)) | program.constants[value, 0]
    rows[row, R_STATE] = np.int64(own) << UNIT_SHIFT | place
    rows[row, R_LINK] = link
    rows[row, R_LO], rows[row, R_HI], rows[row, R_LAST] = least, hi, position
    return MOVED


@compiled
def take(program, events, state, visit, unit, row, event, position, lo, hi, together):
    """Offer an event to an instance; whether the instance is gone afterwards, moved or failed.

    Args:
        together: whether other events are consumed together with this one, so that the instance has to stay as it was.
    """
    memory, rows = program.memory, state.rows
    flags = memory[visit + V_FLAGS]
    apart = lo > rows[row, R_HI]
    if flags & STRONG != 0 and not apart:
        return False
    extra = extra_of(rows, row)
    bound = memory[visit + V_JOINT]
    if bound != 0 and lo <= state.extras[extra + bound - 1]:
        # Where there is no bound it is less than every instant.
        return False
    alike = flags & (ALIKE | EVERYTHING) == ALIKE
    # Where an inner key may be entered there are two turns: for the instance of the event's value of it, which goes its
    # own way, and for the one that stands for all values that no event has shown yet.
    splits = memory[visit + V_OPENS] > 0 and splits_off(program, events, state, visit, unit, extra, event, lo, hi)
    entered, gone = splits, False
    moves = memory[visit + V_MOVES]
    loop = 0 if together else memory[visit + V_LOOP]
    while True:
        looked = entered or flags & (ALIKE | EVERYTHING) != 0
        if looked or in_domain(program, events, state, visit, unit, extra, event, lo, hi, np.bool_(False)):
            gone = not (alike or entered)
            for each in range(memory[moves]):
                move = memory[moves + 1 + each]
                if move == loop or (memory[move + M_FLAGS] & ENTERS != 0 and not entered):
                    continue
                strong = memory[move + M_FLAGS] & STRONG != 0 and not apart
                if strong and not alike:
                    continue
                if not labelled(program, events, state, move, unit, extra, event, lo, hi):
                    continue
                gone = gone or not entered
                if strong:
                    continue
                key, tag, link = rows[row, R_KEY], rows[row, R_TAG] & TAG_MASK, rows[row, R_LINK]
                least = min(lo, rows[row, R_LO])
                follow(
                    program, events, state, unit, move, row, extra, link, lo, hi, event, position, least, hi, key, tag
                )
        if not entered:
            break
        entered = False
    if splits and not gone:
        note_spent(program, events, state, visit, row, event, together)
    if loop != 0:
        # It goes on where it is, and only what it matched last has changed.
        least = min(lo, rows[row, R_LO])
        wide = memory[unit + U_WINDOW]
        if wide >= 0 and np.uint64(hi) - np.uint64(least) > np.uint64(program.wide[wide]):
            return True
        rows[row, R_LO], rows[row, R_HI], rows[row, R_LAST] = least, hi, position
        return memory[unit + U_FLAGS] & MERGES != 0 and seen_before(program, state, row)
    return gone


@compiled
def splits_off(program, events, state, visit, unit, extra, event, lo, hi):
    """Whether the instance of this event's inner-key value has not split off yet, and reads the event."""
    if event < 0:
        return False
    column = program.memory[visit + V_OPENS] - 1
    tag = np.int64(events.tags[column, event])
    if tag == NULL:
        return False
    name = np.int64(program.memory[visit + V_INNER]) << TAG_BITS | tag
    if is_spent(program, state, unit, extra, name, events.payload[column, event]):
        return False
    return in_domain(program, events, state, visit, unit, extra, event, lo, hi, np.bool_(True))


@compiled
def note_spent(program, events, state, visit, row, event, together):
    """Split off the instance of this event's inner-key value."""
    column = program.memory[visit + V_OPENS] - 1
    name = np.int64(program.memory[visit + V_INNER]) << TAG_BITS | np.int64(events.tags[column, event])
    value = events.payload[column, event]
    if together:
        note_affected(state, row, name, value)
    else:
        spend(program, state, row, name, value)


@compiled
def is_spent(program, state, unit, extra, name, value):
    """Whether the instance of this inner-key value has split off."""
    entry = state.extras[extra + program.memory[unit + U_SPENT] - 1]
    while entry > 0:
        if state.spent[entry - 1, 1] == name and state.spent[entry - 1, 2] == value:
            return True
        entry = state.spent[entry - 1, 0]
    return False


@compiled
def spend(program, state, row, name, value):
    """Record that the instance of this inner-key value has split off."""
    unit = state.rows[row, R_STATE] >> UNIT_SHIFT
    head = extra_of(state.rows, row) + program.memory[unit + U_SPENT] - 1
    place = state.counters[C_SPENT]
    state.spent[place, 0], state.spent[place, 1], state.spent[place, 2] = state.extras[head], name, value
    state.counters[C_SPENT] = place + 1
    state.extras[head] = place + 1


@compiled
def note_affected(state, row, name, value):
    """Record an ended instance or a closed key value, for the end of the events consumed together."""
    place = state.counters[C_TOGETHER]
    state.affected[place, 0], state.affected[place, 1], state.affected[place, 2] = row, name, value
    state.counters[C_TOGETHER] = place + 1


@compiled
def in_domain(program, events, state, visit, unit, extra, event, lo, hi, entered):
    """Whether an event is in the domain of a state for an instance, with an inner key entered or not."""
    memory = program.memory
    tests = memory[visit + V_TESTS]
    for each in range(memory[tests]):
        test = tests + 1 + each * TEST
        if memory[test + D_ENTERS] != 0 and not entered:
            continue
        code = memory[test + D_CODE]
        if code == 0:
            return True
        known = extra
        if memory[test + D_INITS] != 0:
            known = copied(program, state, unit, extra, ASIDE)
            assign(program, events, state, memory[test + D_INITS], event, lo, hi, known)
        if holds(program, events, state, code, event, lo, hi, known):
            return True
    return False


@compiled
def labelled(program, events, state, move, unit, extra, event, lo, hi):
    """Whether an event of the right type satisfies the rest of a move's label."""
    memory = program.memory
    code = memory[move + M_LABEL]
    if code == 0:
        return True
    if memory[move + M_INITS] != 0:
        extra = copied(program, state, unit, extra, ASIDE)
        assign(program, events, state, memory[move + M_INITS], event, lo, hi, extra)
    return holds(program, events, state, code, event, lo, hi, extra)


@compiled
def assign(program, events, state, pairs, event, lo, hi, extra):
    """Assign new values to registers, in sequence."""
    memory = program.memory
    for each in range(memory[pairs]):
        slot, code = memory[pairs + 1 + 2 * each], memory[pairs + 2 + 2 * each]
        tag = evaluate(program, events, state, code, event, lo, hi, extra, 0)
        state.extras[extra + slot] = tag
        state.extras[extra + slot + 1] = state.stack[0]


@inlined
def follow(program, events, state, unit, move, row, extra, link, lo, hi, event, position, least, most, key, tag):
    """Follow a transition, unless a window has closed: report a completed match, continue as a new instance.

    Args:
        row: the instance; below 0 for a start.
        extra, link: its extra block and the last link of its chain.
        event: the number of the event in the batch; below 0 for a time event.
        lo, hi: of the event, ns.
        position: of the event, or of the time event.
        least, most: the whole timestamp afterwards, ns.
    """
    memory = program.memory
    wide = memory[unit + U_WINDOW]
    if wide >= 0 and np.uint64(most) - np.uint64(least) > np.uint64(program.wide[wide]):
        return
    flags = memory[move + M_FLAGS]
    if flags & STRAIGHT != 0:
        if flags & HIDDEN == 0:
            link = link_behind(state, link, position)
        place, own = memory[move + M_STATE], np.int64(memory[move + M_UNIT])
        if place > 0:
            bear(program, state, place, own, link, least, hi, position, key, tag, np.int64(-1))
        else:
            report(program, events, state, own, position, least, most, link, np.int64(-1), key, tag)
        return
    follow_any(program, events, state, unit, move, row, extra, link, lo, hi, event, position, least, most, key, tag)


@compiled
def follow_any(program, events, state, unit, move, row, extra, link, lo, hi, event, position, least, most, key, tag):
    """Follow a transition that changes more than the chain, or leads to several states."""
    memory = program.memory
    flags = memory[move + M_FLAGS]
    made = np.int64(-1)
    size = memory[unit + U_EXTRA]
    if size > 0:
        made = copied(program, state, unit, extra, new_extra(state, size))
        if memory[unit + U_SPENT] > 0:
            state.extras[made + memory[unit + U_SPENT] - 1] = 0
        if flags & SIMPLE == 0 and not changed(program, events, state, move, unit, row, made, event, lo, hi, position):
            free_extra(state, made, size)
            return
    if flags & HIDDEN == 0 and position >= 0:
        link = link_behind(state, link, position)
    targets = memory[move + M_TARGETS]
    count = memory[targets]
    for each in range(count):
        target = memory[targets + 1 + each]
        goes = memory[target + T_FLAGS]
        if goes & ACCEPTING != 0:
            report(program, events, state, unit, position, least, most, link, made, key, tag)
        if goes & GOES_ON != 0:
            own = made
            if size > 0:
                if each < count - 1:
                    own = copied(program, state, unit, made, new_extra(state, size))
                else:
                    made = np.int64(-1)
                arrive(program, events, state, target, unit, own, lo, hi, position)
            bear(program, state, memory[target + T_STATE], unit, link, least, hi, position, key, tag, own)
    if made >= 0:
        free_extra(state, made, size)


@compiled
def changed(program, events, state, move, unit, row, made, event, lo, hi, position):
    """Apply the changes of a move to an extra block; whether all its windows are open."""
    memory, extras = program.memory, state.extras
    windows = memory[move + M_WINDOWS]
    if windows != 0:
        for each in range(memory[windows]):
            item = windows + 1 + 3 * each
            word = made + memory[item]
            start = lo if memory[item + 2] != 0 else min(lo, extras[word])
            if np.uint64(hi) - np.uint64(start) > np.uint64(program.wide[memory[item + 1]]):
                return False
            extras[word] = start
    if memory[move + M_INITS] != 0:
        assign(program, events, state, memory[move + M_INITS], event, lo, hi, made)
    if memory[move + M_VARIABLE] >= 0:
        extras[made + memory[move + M_VARIABLE]] = position
    if memory[move + M_HANDED] != 0:
        handed_on(program, events, state, memory[move + M_HANDED], made, event, lo, hi, position)
    if memory[move + M_CAPTURES] != 0:
        capture(program, events, state, memory[move + M_CAPTURES], made, event, lo, hi)
    if memory[move + M_UPDATES] != 0:
        assign(program, events, state, memory[move + M_UPDATES], event, lo, hi, made)
    joint = memory[move + M_JOINT]
    if joint > 0:
        # The other side has to follow what was there before.
        extras[made + joint - 1] = state.rows[row, R_HI] if memory[move + M_FLAGS] & STRONG != 0 and row >= 0 else NONE
    elif joint < 0:
        extras[made - joint - 1] = NONE
    return True


@compiled
def capture(program, events, state, captures, made, event, lo, hi):
    """Capture the values of an event that are read later."""
    memory, extras = program.memory, state.extras
    for each in range(memory[captures]):
        slot, column = made + memory[captures + 1 + 2 * each], memory[captures + 2 + 2 * each]
        if column == -1:
            extras[slot], extras[slot + 1] = INTEGER, lo
        elif column == -2:
            extras[slot], extras[slot + 1] = INTEGER, hi
        elif event >= 0:
            extras[slot], extras[slot + 1] = events.tags[column, event], events.payload[column, event]
        else:
            extras[slot], extras[slot + 1] = NULL, 0


@compiled
def handed_on(program, events, state, handed, made, event, lo, hi, position):
    """Copy the variables bound by a part; the bound events are in its composite event."""
    memory = program.memory
    for each in range(memory[handed]):
        item = handed + 1 + 3 * each
        if events.tags[memory[item], event] != NULL:
            state.extras[made + memory[item + 1]] = position
            if memory[item + 2] != 0:
                capture(program, events, state, memory[item + 2], made, event, lo, hi)


@compiled
def start(program, state, extra, item, hi):
    """Start a time event, from the triple (word, timer, when) and the instant that it is counted from."""
    memory = program.memory
    when = memory[item + 2]
    if when >= 0:
        delay = program.wide[when]
        state.extras[extra + memory[item]] = hi + delay if hi <= LATEST - delay else NONE
    else:
        state.stack[0] = hi
        call_out(state.counters[C_CALLBACK], np.int64(DUE) | np.int64(-1 - when) << 8, 0)
        state.extras[extra + memory[item]] = state.stack[0]


@compiled
def delayed(program, events, state, code, lo, hi, extra):
    """Due instant of a time event with a calculated delay; none where it is no number, negative, or beyond 64 bits."""
    tag = evaluate(program, events, state, code, np.int64(-1), lo, hi, extra, 0)
    delay = np.int64(-1)
    if tag == INTEGER:
        delay = state.stack[0]
    elif tag == FLOAT and 0 <= state.floats[0] < 2.0**63:
        delay = np.int64(state.floats[0])
    return hi + delay if delay >= 0 and hi <= LATEST - delay else NONE


@compiled
def arrive(program, events, state, target, unit, extra, lo, hi, position):
    """End scopes that are over on arrival in a state, and start its time events."""
    memory, extras = program.memory, state.extras
    clears = memory[target + T_CLEARS]
    if clears != 0:
        for each in range(memory[clears]):
            kind = memory[clears + 2 + 2 * each]
            extras[extra + memory[clears + 1 + 2 * each]] = (
                LATEST if kind == OPENED else NONE if kind == SET_OFF else NULL
            )
    if position < 0:
        # A time event happens once, unless it recurs.
        fired = state.times[-1 - position, 2]
        extras[extra + memory[unit + U_WINDOWS] + fired] = NONE
        recurs = memory[target + T_RECURS]
        if recurs != 0 and state.counters[C_ENDED] == 0:
            for each in range(memory[recurs]):
                if memory[recurs + 2 + 3 * each] == fired:
                    start(program, state, extra, recurs + 1 + 3 * each, hi)
                    state.counters[C_RECURRED] += 1
    arms = memory[target + T_ARMS]
    if arms != 0:
        for each in range(memory[arms]):
            start(program, state, extra, arms + 1 + 3 * each, hi)
    delays = memory[target + T_DELAYS]
    if delays != 0:
        for each in range(memory[delays]):
            item = delays + 1 + 2 * each
            extras[extra + memory[item]] = delayed(program, events, state, memory[item + 1], lo, hi, extra)


@inlined
def report(program, events, state, unit, position, lo, hi, link, made, key, tag):
    """Report a complete match, unless the final filter rejects it."""
    memory, counters, found = program.memory, state.counters, state.found
    code = memory[unit + U_FILTER]
    if code != 0 and not holds(program, events, state, code, np.int64(-1), lo, hi, made):
        return
    flags = memory[unit + U_FLAGS]
    if flags & SHARES != 0 and first_of(state, link) < state.fired[memory[unit + U_NUMBER], 2]:
        return
    number = counters[C_FOUND]
    if flags & (MERGES | CHOSEN) == MERGES | CHOSEN:
        known = match_before(state, unit, link, number)
        if known >= 0:
            # The one that began first counts.
            found[known, F_LO] = min(found[known, F_LO], lo)
            return
    counters[C_FOUND] = number + 1
    found[number, F_UNIT], found[number, F_MOMENT] = unit, position
    found[number, F_LO], found[number, F_HI] = lo, hi
    found[number, F_LINK] = link
    found[number, F_KEY], found[number, F_TAG] = key, tag
    found[number, F_EXTRA] = -1
    size = memory[unit + U_EXTRA]
    if flags & SHOWN != 0 and size > 0:
        found[number, F_EXTRA] = copied(program, state, unit, made, new_extra(state, size))


@compiled
def first_of(state, link):
    """The position of the first constituent of a chain."""
    while state.links[link, 0] >= 0:
        link = state.links[link, 0]
    return state.links[link, 1]

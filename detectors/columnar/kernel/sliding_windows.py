"""Aggregates over sliding windows, event by event: values come, and go when their time is over.

The values of all keys wait in one ring in the order of consumption, which is that of their ends, so that what leaves is
always at its begin. The same as `stepwise.sliding`, where each key has a queue of its own. When an array is full, the
loop stops before the event, as that of the automata, and is called again after the array has grown.
"""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import FLOAT, INTEGER, NULL
from distced.detectors.columnar.kernel.condition_vm import evaluate, holds
from distced.detectors.columnar.kernel.exact_sum import (
    INFINITE,
    SIGN,
    add,
    clear,
    float_of,
    is_infinite,
    rounded,
    size_of,
    whole,
)
from distced.detectors.columnar.kernel.hashing import masked, mix
from distced.detectors.columnar.kernel.jit import compiled
from distced.detectors.columnar.kernel.key_table import find, free, is_full, key_at, key_of, plain, put
from distced.detectors.columnar.word_offsets import (
    AVG,
    C_DISTINCT,
    C_DISTINCT_FREE,
    C_LAST,
    C_RING_BEGIN,
    C_RING_END,
    C_STAGE_EVENT,
    COUNT,
    D_BITS,
    D_COUNT,
    D_NEXT,
    D_SLOT,
    D_TAG,
    DISTINCT,
    DONE,
    FIRST_VALUE,
    G_BITS,
    G_HI,
    G_NEXT,
    G_PREVIOUS,
    G_SLOT,
    G_TAG,
    LIMBS,
    MAX,
    MIN,
    NONE,
    ROOM,
    SUM,
    W_COUNT,
    W_DISTINCT,
    W_FIRST,
    W_FLOATS,
    W_HIGH,
    W_LAST,
    W_LOW,
    W_MINUS,
    W_PLUS,
)


@compiled
def slide(program, events, state, own, function, kind, condition, code, column, length, out, until):
    """Put an aggregate beside the events of a type, from the position of the stage to `until`; the reason for stopping.

    Args:
        own: arrays of the stage.
        kind: number of the type in the batch.
        condition: code of the condition; 0 for none.
        code, column: code of the value, and its column where it is a bare attribute; -1 for none.
        length: of the window, ns.
        out: row of the columns for the results.
    """
    counters, tags, payload = own.counters, events.tags, events.payload
    while counters[C_STAGE_EVENT] < until:
        event = counters[C_STAGE_EVENT]
        hi = events.hi[event]
        tags[out, event] = NULL
        payload[out, event] = 0
        if events.types[event] == kind and (
            condition == 0 or holds(program, events, state, condition, event, events.lo[event], hi, 0)
        ):
            hashed = key_at(events, own, event)
            if hashed >= 0:
                if has_no_room(own):
                    return ROOM
                if column >= 0:
                    tag, bits = np.int64(tags[column, event]), payload[column, event]
                else:
                    tag = evaluate(program, events, state, code, event, events.lo[event], hi, 0, 0)
                    bits = state.stack[0]
                slot = consume(own, function, hashed, hi, tag, bits, length)
                tag, bits = value_of(own, function, slot)
                tags[out, event] = tag
                payload[out, event] = bits
        counters[C_STAGE_EVENT] = event + 1
    return DONE


@compiled
def fill(own, function, keys, values, until):
    """Take over values in the order of their ends: `keys` has the words of the key of each, `values` its end, tag and
    bits; the reason for stopping, as `slide`."""
    counters = own.counters
    while counters[C_STAGE_EVENT] < until:
        place = counters[C_STAGE_EVENT]
        if has_no_room(own):
            return ROOM
        consume(own, function, key_of(own, keys, place), values[place, 0], values[place, 1], values[place, 2], -1)
        counters[C_STAGE_EVENT] = place + 1
    return DONE


@compiled
def has_no_room(own):
    """Whether an array is full."""
    counters = own.counters
    return (
        is_full(own)
        or counters[C_RING_END] - counters[C_RING_BEGIN] == len(own.ring)
        or (counters[C_DISTINCT_FREE] < 0 and counters[C_DISTINCT] == len(own.distinct))
    )


@compiled
def consume(own, function, hashed, hi, tag, bits, length):
    """Add a value to the window of the key in `key`, behind what has left the windows of all; its slot, -1 for an empty
    one. A negative length lets nothing leave."""
    counters = own.counters
    if counters[C_LAST] > hi:
        hi = counters[C_LAST]
    counters[C_LAST] = hi
    if length >= 0 and hi >= NONE + length:
        expire(own, function, hi - length)
    slot = find(own, hashed)
    if function == COUNT or function == DISTINCT:
        counts = tag != NULL
    elif function == FIRST_VALUE:
        counts = True
    else:
        counts = tag == INTEGER or tag == FLOAT
    if counts:
        if slot < 0:
            slot = put(own, hashed)
            begin(own, slot)
        come(own, function, slot, hi, tag, bits)
    return slot


@compiled
def begin(own, slot):
    """An empty window."""
    windows = own.windows
    windows[slot, W_COUNT] = windows[slot, W_FLOATS] = windows[slot, W_PLUS] = windows[slot, W_MINUS] = 0
    windows[slot, W_DISTINCT] = 0
    windows[slot, W_FIRST] = windows[slot, W_LAST] = -1
    windows[slot, W_LOW], windows[slot, W_HIGH] = LIMBS, -1


@compiled
def expire(own, function, begin):
    """Drop the values of events that ended before an instant."""
    ring, counters, windows = own.ring, own.counters, own.windows
    position, end = counters[C_RING_BEGIN], counters[C_RING_END]
    while position < end:
        row = masked(position, len(ring))
        if ring[row, G_HI] >= begin:
            break
        slot = ring[row, G_SLOT]
        # Others have been replaced by a greater or lesser one.
        if slot >= 0:
            windows[slot, W_COUNT] -= 1
            if windows[slot, W_COUNT] == 0 and function != DISTINCT:
                if function == SUM or function == AVG:
                    clear(own, slot)
                free(own, slot)
            else:
                leave(own, function, slot, row)
                if windows[slot, W_COUNT] == 0:
                    free(own, slot)
        position += 1
    counters[C_RING_BEGIN] = position


@compiled
def come(own, function, slot, hi, tag, bits):
    """Add a value that counts to a window."""
    ring, counters, windows = own.ring, own.counters, own.windows
    position = counters[C_RING_END]
    counters[C_RING_END] = position + 1
    row = masked(position, len(ring))
    ring[row, G_HI], ring[row, G_SLOT], ring[row, G_TAG], ring[row, G_BITS] = hi, slot, tag, bits
    windows[slot, W_COUNT] += 1
    if function == SUM or function == AVG:
        if tag == FLOAT:
            windows[slot, W_FLOATS] += 1
        if tag == FLOAT and is_infinite(bits):
            windows[slot, W_PLUS if bits >= 0 else W_MINUS] += 1
        else:
            add(own, slot, tag, bits, 1)
    elif function == DISTINCT:
        ring[row, G_NEXT] = count_in(own, slot, tag, bits)
    elif function != COUNT:
        last = windows[slot, W_LAST]
        if function == MIN or function == MAX:
            # Only values that may still become the least, or the greatest, are kept.
            while last >= 0:
                other = masked(last, len(ring))
                if not precedes(function, tag, bits, ring[other, G_TAG], ring[other, G_BITS]):
                    break
                ring[other, G_SLOT] = -1
                windows[slot, W_COUNT] -= 1
                last = ring[other, G_PREVIOUS]
        ring[row, G_PREVIOUS], ring[row, G_NEXT] = last, -1
        if last >= 0:
            ring[masked(last, len(ring)), G_NEXT] = position
        else:
            windows[slot, W_FIRST] = position
        windows[slot, W_LAST] = position


@compiled
def leave(own, function, slot, row):
    """Take back the first value of a window, in which others are left."""
    ring, windows = own.ring, own.windows
    tag, bits = ring[row, G_TAG], ring[row, G_BITS]
    if function == SUM or function == AVG:
        if tag == FLOAT:
            windows[slot, W_FLOATS] -= 1
        if tag == FLOAT and is_infinite(bits):
            windows[slot, W_PLUS if bits >= 0 else W_MINUS] -= 1
        else:
            add(own, slot, tag, bits, -1)
    elif function == DISTINCT:
        count_out(own, ring[row, G_NEXT])
    elif function != COUNT:
        following = ring[row, G_NEXT]
        windows[slot, W_FIRST] = following
        ring[masked(following, len(ring)), G_PREVIOUS] = -1


@compiled
def value_of(own, function, slot):
    """Tag and bits of the aggregate of a window; -1 for an empty one."""
    windows, ring = own.windows, own.ring
    if function == COUNT:
        return np.int64(INTEGER), windows[slot, W_COUNT] if slot >= 0 else np.int64(0)
    if function == DISTINCT:
        return np.int64(INTEGER), windows[slot, W_DISTINCT] if slot >= 0 else np.int64(0)
    if slot < 0:
        return np.int64(INTEGER if function == SUM else NULL), np.int64(0)
    if function == SUM or function == AVG:
        return sum_of(own, function, slot)
    row = masked(windows[slot, W_FIRST], len(ring))
    return ring[row, G_TAG], ring[row, G_BITS]


@compiled
def sum_of(own, function, slot):
    """Tag and bits of the sum, or the mean, of a window."""
    windows = own.windows
    plus, minus = windows[slot, W_PLUS], windows[slot, W_MINUS]
    if plus > 0 or minus > 0:
        if plus > 0 and minus > 0:
            return np.int64(NULL), np.int64(0)
        return np.int64(FLOAT), np.int64(INFINITE) if plus > 0 else np.int64(INFINITE | SIGN)
    negative = size_of(own, slot)
    if function == AVG:
        return np.int64(FLOAT), rounded(own, slot, negative, windows[slot, W_COUNT])
    if windows[slot, W_FLOATS] == 0:
        found, fits = whole(own, slot, negative)
        if fits:
            return np.int64(INTEGER), found
    return np.int64(FLOAT), rounded(own, slot, negative, 1)


@compiled
def precedes(function, tag, bits, other_tag, other_bits):
    """Whether a number is less than another, or for the greatest greater."""
    if function == MIN:
        return below(tag, bits, other_tag, other_bits)
    return below(other_tag, other_bits, tag, bits)


@compiled
def below(tag, bits, other_tag, other_bits):
    """Whether a number is less than another, exactly: not every integer is a float."""
    if tag == INTEGER and other_tag == INTEGER:
        return bits < other_bits
    if tag == INTEGER:
        other = float_of(other_bits)
        if other >= 2.0**63:
            return True
        if other < -(2.0**63):
            return False
        floor = np.floor(other)
        return bits < np.int64(floor) or (bits == np.int64(floor) and other > floor)
    number = float_of(bits)
    if other_tag != INTEGER:
        return number < float_of(other_bits)
    if number >= 2.0**63:
        return False
    if number < -(2.0**63):
        return True
    return np.int64(np.floor(number)) < other_bits


# Distinct values: how often each is in a window.


@compiled
def count_in(own, slot, tag, bits):
    """Note one more of a value in a window; where it is noted."""
    table, distinct, counters = own.distinct_table, own.distinct, own.counters
    tag, bits = plain(tag, bits)
    place = masked(mix(mix(slot, tag), bits), len(table))
    found = table[place] - 1
    while found >= 0:
        if distinct[found, D_SLOT] == slot and distinct[found, D_TAG] == tag and distinct[found, D_BITS] == bits:
            distinct[found, D_COUNT] += 1
            return found
        found = distinct[found, D_NEXT]
    found = counters[C_DISTINCT_FREE]
    if found >= 0:
        counters[C_DISTINCT_FREE] = distinct[found, D_NEXT]
    else:
        found = counters[C_DISTINCT]
        counters[C_DISTINCT] = found + 1
    distinct[found, D_SLOT], distinct[found, D_TAG], distinct[found, D_BITS] = slot, tag, bits
    distinct[found, D_COUNT], distinct[found, D_NEXT] = 1, table[place] - 1
    table[place] = found + 1
    own.windows[slot, W_DISTINCT] += 1
    return found


@compiled
def count_out(own, found):
    """Note one less of a value."""
    table, distinct, counters = own.distinct_table, own.distinct, own.counters
    distinct[found, D_COUNT] -= 1
    if distinct[found, D_COUNT] > 0:
        return
    slot = distinct[found, D_SLOT]
    own.windows[slot, W_DISTINCT] -= 1
    place = masked(mix(mix(slot, distinct[found, D_TAG]), distinct[found, D_BITS]), len(table))
    if table[place] == found + 1:
        table[place] = distinct[found, D_NEXT] + 1
    else:
        before = table[place] - 1
        while distinct[before, D_NEXT] != found:
            before = distinct[before, D_NEXT]
        distinct[before, D_NEXT] = distinct[found, D_NEXT]
    distinct[found, D_NEXT] = counters[C_DISTINCT_FREE]
    counters[C_DISTINCT_FREE] = found


@compiled
def rebuild_distinct(own):
    """Put all distinct values into a table that is new and empty."""
    table, distinct = own.distinct_table, own.distinct
    for found in range(own.counters[C_DISTINCT]):
        if distinct[found, D_COUNT] > 0:
            hashed = mix(mix(distinct[found, D_SLOT], distinct[found, D_TAG]), distinct[found, D_BITS])
            place = masked(hashed, len(table))
            distinct[found, D_NEXT] = table[place] - 1
            table[place] = found + 1


@compiled
def move_ring(ring, longer, begin, end):
    """Copy the values of a ring to a longer one, each to its position."""
    for position in range(begin, end):
        row, there = masked(position, len(ring)), masked(position, len(longer))
        for word in range(ring.shape[1]):
            longer[there, word] = ring[row, word]

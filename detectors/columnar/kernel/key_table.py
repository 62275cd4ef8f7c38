"""Open hash table of keys: the slot of each key of a stage, with chains for those of one hash."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import FLOAT, INTEGER, NULL
from distced.detectors.columnar.kernel.exact_sum import float_of
from distced.detectors.columnar.kernel.hashing import masked, mix
from distced.detectors.columnar.kernel.jit import compiled
from distced.detectors.columnar.word_offsets import (
    C_SLOT_FREE,
    C_SLOTS,
    C_SLOTS_LIVE,
    W_HASH,
    W_LIVE,
    W_NEXT,
)


@compiled
def plain(tag, bits):
    """Tag and bits of a value as part of a key: whole floats as integers, to which they are equal."""
    if tag == FLOAT:
        number = float_of(bits)
        if -(2.0**63) <= number < 2.0**63 and np.floor(number) == number:
            return np.int64(INTEGER), np.int64(number)
    return np.int64(tag), np.int64(bits)


@compiled
def key_at(events, own, event):
    """Write the key of an event to `key`; its hash, -1 where a value is null."""
    key, columns = own.key, own.columns
    hashed = np.int64(0)
    for place in range(len(columns)):
        column = columns[place]
        tag, bits = plain(events.tags[column, event], events.payload[column, event])
        if tag == NULL:
            return np.int64(-1)
        key[2 * place], key[2 * place + 1] = tag, bits
        hashed = mix(hashed + tag, bits)
    return hashed


@compiled
def key_of(own, keys, place):
    """Write a key from rows of words to `key`; its hash."""
    hashed = np.int64(0)
    for word in range(len(own.columns)):
        tag, bits = keys[place, 2 * word], keys[place, 2 * word + 1]
        own.key[2 * word], own.key[2 * word + 1] = tag, bits
        hashed = mix(hashed + tag, bits)
    return hashed


@compiled
def find(own, hashed):
    """Slot of the key in `key`; -1 for none."""
    windows, keys, key, width = own.windows, own.keys, own.key, 2 * len(own.columns)
    slot = own.table[masked(hashed, len(own.table))] - 1
    while slot >= 0:
        if windows[slot, W_HASH] == hashed:
            same = True
            for place in range(width):
                if keys[slot, place] != key[place]:
                    same = False
            if same:
                return slot
        slot = windows[slot, W_NEXT]
    return np.int64(-1)


@compiled
def is_full(own):
    """Whether there is no room for one more key."""
    return own.counters[C_SLOT_FREE] < 0 and own.counters[C_SLOTS] == len(own.windows)


@compiled
def put(own, hashed):
    """A new slot for the key in `key`; its other words are left as they are."""
    windows, counters, table = own.windows, own.counters, own.table
    slot = counters[C_SLOT_FREE]
    if slot >= 0:
        counters[C_SLOT_FREE] = windows[slot, W_NEXT]
    else:
        slot = counters[C_SLOTS]
        counters[C_SLOTS] = slot + 1
    for place in range(2 * len(own.columns)):
        own.keys[slot, place] = own.key[place]
    place = masked(hashed, len(table))
    windows[slot, W_HASH] = hashed
    windows[slot, W_NEXT] = table[place] - 1
    windows[slot, W_LIVE] = 1
    table[place] = slot + 1
    counters[C_SLOTS_LIVE] += 1
    return slot


@compiled
def free(own, slot):
    """Forget a key."""
    windows, table, counters = own.windows, own.table, own.counters
    place = masked(windows[slot, W_HASH], len(table))
    if table[place] == slot + 1:
        table[place] = windows[slot, W_NEXT] + 1
    else:
        before = table[place] - 1
        while windows[before, W_NEXT] != slot:
            before = windows[before, W_NEXT]
        windows[before, W_NEXT] = windows[slot, W_NEXT]
    windows[slot, W_LIVE] = 0
    windows[slot, W_NEXT] = counters[C_SLOT_FREE]
    counters[C_SLOT_FREE] = slot
    counters[C_SLOTS_LIVE] -= 1


@compiled
def rebuild(own):
    """Put all keys into a table that is new and empty."""
    windows, table = own.windows, own.table
    for slot in range(own.counters[C_SLOTS]):
        if windows[slot, W_LIVE] == 1:
            place = masked(windows[slot, W_HASH], len(table))
            windows[slot, W_NEXT] = table[place] - 1
            table[place] = slot + 1

"""Lookup of the moves with which an event may begin a match, in the start table (`program.start_table`)."""

from __future__ import annotations

from distced.detectors.columnar.batch.values import FLOAT, INTEGER
from distced.detectors.columnar.kernel.hashing import mix
from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.word_offsets import (
    E_EXACT,
    E_FIRST,
    E_SECOND,
    I_FIRST,
    I_NAME,
    I_SECOND,
    TAG_BITS,
)

EXACT = 2**53


@compiled
def is_general(name):
    """Whether a key stands for all events of a type, whatever their values: no tags. Such a key stays in the table,
    because the lists of types refer to its slot.
    """
    return (name - 1) & ((1 << 2 * TAG_BITS) - 1) == 0


@compiled
def taken_out(lookup, slot):
    """Remove a key from a table, and move up those displaced by it; whether one of them was general.

    To leave it, and to put all others into a new table now and then, was rejected: that is a pause for all patterns.
    """
    mask = len(lookup) - 1
    hole = probe = slot
    general = False
    while True:
        probe = (probe + 1) & mask
        if lookup[probe, I_NAME] == 0:
            break
        home = mix(mix(lookup[probe, I_NAME], lookup[probe, I_FIRST]), lookup[probe, I_SECOND]) & mask
        if (probe - home) & mask >= (probe - hole) & mask:
            general = general or is_general(lookup[probe, I_NAME])
            for word in range(6):
                lookup[hole, word] = lookup[probe, word]
            hole = probe
    for word in range(6):
        lookup[hole, word] = 0
    return general


@compiled
def slot_of(lookup, name, first, second):
    """The slot of a signature with these values, or the free slot it would take."""
    mask = len(lookup) - 1
    slot = mix(mix(name, first), second) & mask
    while lookup[slot, I_NAME] != 0:
        if lookup[slot, I_NAME] == name and lookup[slot, I_FIRST] == first and lookup[slot, I_SECOND] == second:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def moved(lookup, made):
    """Move all entries of a table into a larger one."""
    for place in range(len(lookup)):
        if lookup[place, I_NAME] != 0:
            slot = slot_of(made, lookup[place, I_NAME], lookup[place, I_FIRST], lookup[place, I_SECOND])
            for word in range(6):
                made[slot, word] = lookup[place, word]


@inlined
def passes(program, events, entry, event):
    """Verdict of an entry's ranges on an event: 0 for no match, 1 for a possible match, 2 for a certain one."""
    entries, bounds = program.entries, program.bounds
    exact = entries[entry, E_EXACT]
    column = entries[entry, E_FIRST]
    if column >= 0:
        tag = events.tags[column, event]
        if tag == FLOAT:
            value = events.floats[column, event]
        elif tag == INTEGER:
            value = float(events.payload[column, event])
            if not -EXACT <= events.payload[column, event] <= EXACT:
                exact = 0
        else:
            return 0
        if not bounds[entry, 0] <= value <= bounds[entry, 1]:
            return 0
        column = entries[entry, E_SECOND]
        if column >= 0:
            tag = events.tags[column, event]
            if tag == FLOAT:
                value = events.floats[column, event]
            elif tag == INTEGER:
                value = float(events.payload[column, event])
                if not -EXACT <= events.payload[column, event] <= EXACT:
                    exact = 0
            else:
                return 0
            if not bounds[entry, 2] <= value <= bounds[entry, 3]:
                return 0
    return 2 if exact != 0 else 1

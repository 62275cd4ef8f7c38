"""Marks of throttled types, event by event: the first event of each interval and key, or one behind a quiet time; and
values of expressions over events. The same as `stepwise.throttling`."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import BOOLEAN, NULL
from distced.detectors.columnar.kernel.condition_vm import evaluate, holds
from distced.detectors.columnar.kernel.jit import compiled
from distced.detectors.columnar.kernel.key_table import find, free, is_full, key_at, key_of, put
from distced.detectors.columnar.word_offsets import (
    C_SLOTS,
    C_SLOTS_LIVE,
    C_STAGE_EVENT,
    C_SWEEP,
    DONE,
    NONE,
    ROOM,
    W_LIVE,
    W_VALUE,
)

SWEEP = 4096
"""Keys at which those that no longer matter are dropped for the first time."""


@compiled
def mark(program, events, state, own, kind, condition, every, quiet, out, until):
    """Mark the events of a type that pass, from the position of the stage to `until`; the reason for stopping.

    Args: as of `sliding_windows.slide`; `every` is the interval, ns, or `quiet` the time that has to pass, the other 0.
    """
    counters, tags, payload, windows = own.counters, events.tags, events.payload, own.windows
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
                if is_full(own):
                    return ROOM
                value = hi if every == 0 else hi // every
                slot = find(own, hashed)
                if slot < 0:
                    slot = put(own, hashed)
                    passes = True
                else:
                    passes = not holds_up(windows[slot, W_VALUE], value, quiet)
                if passes:
                    windows[slot, W_VALUE] = value
                    tags[out, event], payload[out, event] = BOOLEAN, 1
                    if counters[C_SLOTS_LIVE] >= counters[C_SWEEP]:
                        sweep(own, value, quiet)
        counters[C_STAGE_EVENT] = event + 1
    return DONE


@compiled
def fill(own, keys, values, until):
    """Take over the interval of the event that passed last, or its end, by key; the reason for stopping, as `mark`."""
    counters = own.counters
    while counters[C_STAGE_EVENT] < until:
        place = counters[C_STAGE_EVENT]
        if is_full(own):
            return ROOM
        slot = put(own, key_of(own, keys, place))
        own.windows[slot, W_VALUE] = values[place]
        counters[C_STAGE_EVENT] = place + 1
    return DONE


@compiled
def holds_up(passed, value, quiet):
    """Whether the event that passed last keeps one from passing: it is of the same interval, or too near."""
    if quiet == 0:
        return passed >= value
    return value < NONE + quiet or passed > value - quiet


@compiled
def sweep(own, value, quiet):
    """Drop keys whose events keep none from passing any more."""
    counters = own.counters
    for slot in range(counters[C_SLOTS]):
        if own.windows[slot, W_LIVE] == 1 and not holds_up(own.windows[slot, W_VALUE], value, quiet):
            free(own, slot)
    counters[C_SWEEP] = max(np.int64(SWEEP), 2 * counters[C_SLOTS_LIVE])


@compiled
def compute(program, events, state, kind, code, out, until):
    """Put the value of an expression beside the events of a type."""
    for event in range(until):
        if events.types[event] == kind:
            tag = evaluate(program, events, state, code, event, events.lo[event], events.hi[event], 0, 0)
            events.tags[out, event] = tag
            events.payload[out, event] = state.stack[0]

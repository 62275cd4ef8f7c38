"""Heap of pending time events, ordered by instant."""

from __future__ import annotations

from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.word_offsets import C_TIMERS, NONE, R_STATE, R_TAG


@compiled
def push(state, due, number, row, used, timer):
    """Start a time event."""
    timers, counters = state.timers, state.counters
    place = counters[C_TIMERS]
    counters[C_TIMERS] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if not before(due, timer, number, timers[parent, 0], timers[parent, 4], timers[parent, 1]):
            break
        shift(timers, parent, place)
        place = parent
    timers[place, 0], timers[place, 1], timers[place, 2] = due, number, row
    timers[place, 3], timers[place, 4] = used, timer


@compiled
def pop(state):
    """Pop the time event due first."""
    timers, counters = state.timers, state.counters
    last = counters[C_TIMERS] - 1
    counters[C_TIMERS] = last
    due, number, timer = timers[last, 0], timers[last, 1], timers[last, 4]
    row, used = timers[last, 2], timers[last, 3]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        other = child + 1
        if other < last and before(
            timers[other, 0], timers[other, 4], timers[other, 1], timers[child, 0], timers[child, 4], timers[child, 1]
        ):
            child = other
        if not before(timers[child, 0], timers[child, 4], timers[child, 1], due, timer, number):
            break
        shift(timers, child, place)
        place = child
    timers[place, 0], timers[place, 1], timers[place, 2] = due, number, row
    timers[place, 3], timers[place, 4] = used, timer


@inlined
def shift(timers, origin, place):
    """Move a heap entry to another's index."""
    for word in range(5):
        timers[place, word] = timers[origin, word]


@inlined
def before(due, timer, number, other_due, other_timer, other_number):
    """Whether a time event precedes another: by instant, then by timer, then by start."""
    if due != other_due:
        return due < other_due
    if timer != other_timer:
        return timer < other_timer
    return number < other_number


@compiled
def next_due(state):
    """The instant the next time event is due; NONE without a pending one."""
    timers, counters = state.timers, state.counters
    while counters[C_TIMERS] > 0:
        row = timers[0, 2]
        if state.rows[row, R_STATE] >= 0 and state.rows[row, R_TAG] == timers[0, 3]:
            return timers[0, 0]
        pop(state)
    return NONE

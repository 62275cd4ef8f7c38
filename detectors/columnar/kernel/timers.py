"""Time events that were set off, as a heap by instant."""

from __future__ import annotations

from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.word_offsets import C_ALARMS, NONE, R_STATE, R_TAG


@compiled
def push(state, due, number, row, used, timer):
    """Set off a time event."""
    alarms, counters = state.alarms, state.counters
    place = counters[C_ALARMS]
    counters[C_ALARMS] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if not before(due, timer, number, alarms[parent, 0], alarms[parent, 4], alarms[parent, 1]):
            break
        shift(alarms, parent, place)
        place = parent
    alarms[place, 0], alarms[place, 1], alarms[place, 2] = due, number, row
    alarms[place, 3], alarms[place, 4] = used, timer


@compiled
def pop(state):
    """Take the time event that is due first off the heap."""
    alarms, counters = state.alarms, state.counters
    last = counters[C_ALARMS] - 1
    counters[C_ALARMS] = last
    due, number, timer = alarms[last, 0], alarms[last, 1], alarms[last, 4]
    row, used = alarms[last, 2], alarms[last, 3]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        other = child + 1
        if other < last and before(
            alarms[other, 0], alarms[other, 4], alarms[other, 1], alarms[child, 0], alarms[child, 4], alarms[child, 1]
        ):
            child = other
        if not before(alarms[child, 0], alarms[child, 4], alarms[child, 1], due, timer, number):
            break
        shift(alarms, child, place)
        place = child
    alarms[place, 0], alarms[place, 1], alarms[place, 2] = due, number, row
    alarms[place, 3], alarms[place, 4] = used, timer


@inlined
def shift(alarms, origin, place):
    """Put one of the heap in another's place."""
    for word in range(5):
        alarms[place, word] = alarms[origin, word]


@inlined
def before(due, timer, number, other_due, other_timer, other_number):
    """Whether a time event comes before another: by instant, then by the timer, then as they were set off."""
    if due != other_due:
        return due < other_due
    if timer != other_timer:
        return timer < other_timer
    return number < other_number


@compiled
def next_due(state):
    """The instant the next time event is due; NONE if none is set off."""
    alarms, counters = state.alarms, state.counters
    while counters[C_ALARMS] > 0:
        row = alarms[0, 2]
        if state.rows[row, R_STATE] >= 0 and state.rows[row, R_TAG] == alarms[0, 3]:
            return alarms[0, 0]
        pop(state)
    return NONE

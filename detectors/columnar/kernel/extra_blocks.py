"""Extra blocks: additional words of an instance, as many as its pattern needs; most patterns need none."""

from __future__ import annotations

import numpy as np

from distced.detectors.columnar.batch.values import NULL
from distced.detectors.columnar.kernel.jit import compiled, inlined
from distced.detectors.columnar.word_offsets import (
    C_EXTRAS,
    EXTRA_SHIFT,
    LATEST,
    NONE,
    R_TAG,
    ROOT,
    U_EXTRA,
    U_JOINTS,
    U_TIMERS,
    U_VARIABLES,
    U_WINDOWS,
)


@inlined
def root(program, state, unit):
    """The extra block of a start."""
    memory, extras = program.memory, state.extras
    size = memory[unit + U_EXTRA]
    if size == 0:
        return np.int64(-1)
    windows = memory[unit + U_WINDOWS]
    instants = windows + memory[unit + U_TIMERS] + memory[unit + U_VARIABLES] + memory[unit + U_JOINTS]
    for word in range(windows):
        extras[ROOT + word] = LATEST
    for word in range(windows, instants):
        extras[ROOT + word] = NONE
    for word in range(instants, size):
        extras[ROOT + word] = NULL
    return np.int64(ROOT)


@inlined
def new_extra(state, size):
    """Allocate an extra block of this length."""
    free = state.spare[size]
    if free >= 0:
        state.spare[size] = state.extras[free]
        return free
    made = state.counters[C_EXTRAS]
    state.counters[C_EXTRAS] = made + size
    return made


@inlined
def free_extra(state, extra, size):
    """Free an extra block."""
    state.extras[extra] = state.spare[size]
    state.spare[size] = extra


@compiled
def copied(program, state, unit, extra, made):
    """Copy an extra block, if there is one."""
    for word in range(program.memory[unit + U_EXTRA]):
        state.extras[made + word] = state.extras[extra + word]
    return np.int64(made)


@inlined
def extra_of(rows, row):
    """The offset of an instance's extra block; negative for none."""
    return (rows[row, R_TAG] >> EXTRA_SHIFT) - 1

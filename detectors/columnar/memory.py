"""The arrays of the columnar engine, as the compiled loop sees them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.columnar import layout

Words = NDArray[np.int64]


class Program(NamedTuple):
    """What is run.

    Attributes:
        memory: the records, as `layout` has them (int32).
        wide: numbers that need 64 bits.
        constants: tag and bits of the constants of expressions, a row each.
    """

    memory: NDArray[np.int32]
    wide: Words
    constants: Words


class Events(NamedTuple):
    """A batch of events.

    Attributes:
        types: by event.
        lists: for each type two lists in the program, of what waits for it and what it begins, and the columns.
        lo, hi: ns.
        tags, payload: by column and event.
    """

    types: NDArray[np.int32]
    lists: NDArray[np.int32]
    lo: Words
    hi: Words
    tags: NDArray[np.uint8]
    payload: Words


class State(NamedTuple):
    """What changes while it is run.

    Attributes:
        rows: the instances.
        heads: for each state of a pattern without a key, its first instance; -1 for none.
        table: for each state and value of a key the first instance: the state above the tag and one more than that, the
            bits of the value, the first instance.
        links: the chains: the link before, the position of the event, a hash of the whole.
        extras: the extra blocks.
        spare: by length the first free extra block; its first word leads to the next.
        alarms: a heap of (due, number, instance, tag and use of its row, timer).
        found: the matches.
        born: instances that are not in their place yet.
        seen: what was seen in the moment at hand: the stamp, a hash, which.
        fired: of each pattern the due instant of the time event that fired last, and its number; NONE before.
        times: of each time event that fired its due instant, its number, its timer.
        stack, floats, tags: of the expression that is evaluated; `floats` is `stack` read as floats.
        counters: as `layout` has them.
    """

    rows: Words
    heads: Words
    table: Words
    links: Words
    extras: Words
    spare: Words
    alarms: Words
    found: Words
    born: Words
    seen: Words
    fired: Words
    times: Words
    stack: Words
    floats: NDArray[np.float64]
    tags: Words
    counters: Words


def empty_state() -> State:
    """A state in which nothing has happened."""
    stack = np.zeros(layout.STACK + 6, np.int64)
    state = State(
        rows=np.empty((256, layout.ROW), np.int64),
        heads=np.full(16, -1, np.int64),
        table=np.zeros((256, 3), np.int64),
        links=np.empty((256, 3), np.int64),
        extras=np.empty(4 * layout.LARGEST, np.int64),
        spare=np.full(layout.LARGEST + 1, -1, np.int64),
        alarms=np.empty((64, 5), np.int64),
        found=np.empty((256, layout.FOUND), np.int64),
        born=np.empty(256, np.int64),
        seen=np.zeros((256, 3), np.int64),
        fired=np.full((16, 2), layout.NONE, np.int64),
        times=np.empty((64, 3), np.int64),
        stack=stack,
        floats=stack.view(np.float64),
        tags=np.zeros(len(stack), np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
    )
    state.counters[layout.C_FREE] = -1
    state.counters[layout.C_STAMP] = 1
    state.counters[layout.C_EXTRAS] = 2 * layout.LARGEST
    state.counters[layout.C_CROWD] = 262_144
    state.counters[layout.C_DUE] = layout.NONE
    return state


def longer(array: NDArray[Any], length: int, fill: int | None = None) -> NDArray[Any]:
    """A longer copy."""
    made = np.empty((length, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    if fill is not None:
        made[len(array) :] = fill
    return made

"""The arrays of the columnar engine, as the compiled loop sees them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar import word_offsets as layout
from distced.detectors.columnar.kernel.array_bundles import ANY, Bundle, Rows

Words = NDArray[np.int64]

FIRST = 64
"""For how many of each there is room at first; a power of two."""


class Program(Bundle):
    """What is run.

    Attributes:
        memory: the records, as `layout` has them (int32).
        wide: numbers that need 64 bits.
        constants: tag and bits of the constants of expressions, a row each.
        lookup, entries, bounds: what may begin a match, as `starts` has them.
    """

    memory: NDArray[np.int32]
    wide: Words
    constants: Words
    lookup: Words
    entries: NDArray[np.int32]
    bounds: NDArray[np.float64]

    arrays: ClassVar = {
        "memory": Rows(np.int32),
        "wide": Rows(np.int64),
        "constants": Rows(np.int64, 2),
        "lookup": Rows(np.int64, 6),
        "entries": Rows(np.int32, 5),
        "bounds": Rows(np.float64, 4),
    }


class Events(Bundle):
    """A batch of events.

    Attributes:
        types: by event.
        lists: for each type the list of groups that wait for it, of pairs (group, column), the list of signatures of
            what it may begin, of triples (signature, column, column), and its number.
        lo, hi: ns.
        tags, payload: by column and event; `floats` is `payload` read as floats.
        together: for each event the first of those it is consumed together with; empty where each is consumed by
            itself.
    """

    types: NDArray[np.int32]
    lists: NDArray[np.int32]
    lo: Words
    hi: Words
    tags: NDArray[np.uint8]
    payload: Words
    floats: NDArray[np.float64]
    together: NDArray[np.int32]

    arrays: ClassVar = {
        "types": Rows(np.int32),
        "lists": Rows(np.int32, 3),
        "lo": Rows(np.int64),
        "hi": Rows(np.int64),
        "tags": Rows(np.uint8, ANY),
        "payload": Rows(np.int64, ANY),
        "floats": Rows(np.float64, ANY),
        "together": Rows(np.int32),
    }


class State(Bundle):
    """What changes while it is run.

    Attributes:
        rows: the instances.
        table: the buckets, for each group of states and value that its instances are found by, in an open hash table:
            the bits of the value, and the group above the tag and one more than that, above the first instance and one
            more than that.
        links: the chains: the link before, the position of the event, a hash of the whole.
        extras: the extra blocks.
        spare: by length the first free extra block; its first word leads to the next.
        alarms: a heap of (due, number, instance, tag and use of its row, timer).
        found: the matches.
        seen: what was seen in the moment at hand: the stamp, a hash, which.
        fired: of each pattern the due instant of the time event that fired last, and its number; NONE before; and the
            position from which on it is there.
        times: of each time event that fired its due instant, its number, its timer.
        affected: the instances that events consumed together have affected: the row and -1, or a key and its value as
            in `spent`.
        spent: of the values of inner keys that have gone their own way the one before, the number of the key above the
            tag, and the bits.
        stack, floats, tags: of the expression that is evaluated; `floats` is `stack` read as floats.
        counters: as `layout` has them.
    """

    rows: Words
    table: Words
    links: Words
    extras: Words
    spare: Words
    alarms: Words
    found: Words
    seen: Words
    fired: Words
    times: Words
    affected: Words
    spent: Words
    stack: Words
    floats: NDArray[np.float64]
    tags: Words
    counters: Words

    arrays: ClassVar = {
        "rows": Rows(np.int64, layout.ROW),
        "table": Rows(np.int64, 2),
        "links": Rows(np.int64, 3),
        "extras": Rows(np.int64),
        "spare": Rows(np.int64),
        "alarms": Rows(np.int64, 5),
        "found": Rows(np.int64, layout.FOUND),
        "seen": Rows(np.int64, 3),
        "fired": Rows(np.int64, 3),
        "times": Rows(np.int64, 3),
        "affected": Rows(np.int64, 3),
        "spent": Rows(np.int64, 3),
        "stack": Rows(np.int64),
        "floats": Rows(np.float64),
        "tags": Rows(np.int64),
        "counters": Rows(np.int64),
    }


def empty_state() -> State:
    """A state in which nothing has happened."""
    stack = np.zeros(layout.STACK + 6, np.int64)
    state = State(
        rows=np.empty((FIRST, layout.ROW), np.int64),
        table=np.zeros((FIRST, 2), np.int64),
        links=np.empty((FIRST, 3), np.int64),
        extras=np.empty(4 * layout.LARGEST, np.int64),
        spare=np.full(layout.LARGEST + 1, -1, np.int64),
        alarms=np.empty((FIRST, 5), np.int64),
        found=np.empty((FIRST, layout.FOUND), np.int64),
        seen=np.zeros((FIRST, 3), np.int64),
        fired=np.full((16, 3), layout.NONE, np.int64),
        times=np.empty((FIRST, 3), np.int64),
        affected=np.empty((FIRST, 3), np.int64),
        spent=np.empty((FIRST, 3), np.int64),
        stack=stack,
        floats=stack.view(np.float64),
        tags=np.zeros(len(stack), np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
    )
    state.counters[layout.C_FREE] = -1
    state.counters[layout.C_STAMP] = 1
    state.counters[layout.C_EXTRAS] = 2 * layout.LARGEST
    state.counters[layout.C_CROWD] = 524_288
    state.counters[layout.C_DUE] = layout.NONE
    return state


def longer(array: NDArray[Any], length: int, fill: int | None = None) -> NDArray[Any]:
    """A longer copy."""
    made = np.empty((length, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    if fill is not None:
        made[len(array) :] = fill
    return made

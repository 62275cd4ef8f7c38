"""Arrays of the columnar engine, in bundles that the compiled loop receives as one address each.

A bundle is a table of addresses and lengths, read where used (`kernel.array_bundles`). Rejected: named tuples of twenty
arrays, which numba takes apart into 150 words per call, half the compile time of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Self, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar import word_offsets

Words = NDArray[np.int64]

FIRST = 64
"""Initial capacity of each array; a power of two."""


ANY: Final = -1
"""A width unknown when the loop is compiled."""

TABLE_WORDS: Final = 3
"""Words of the table for each array: address, length, width."""


@dataclass(frozen=True)
class ArrayShape:
    """Type of an array's numbers and width of its rows; 0 for one dimension, `ANY` where it differs."""

    dtype: Any
    width: int = 0

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the array."""
        return 2 if self.width else 1


def _shape(hint: Any) -> ArrayShape:
    """The shape of `NDArray[T]`, or of `Annotated[NDArray[T], width]`."""
    array, *width = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return ArrayShape(get_args(get_args(array)[1])[0], *width)


class ArrayBundle:
    """Arrays by name, annotated with the width of their rows. A bundle with other arrays is another bundle."""

    arrays: ClassVar[dict[str, ArrayShape]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        cls.arrays = {name: _shape(hint) for name, hint in hints.items() if name != "arrays"}

    def __init__(self, **arrays: Any) -> None:
        for name, rows in self.arrays.items():
            array = arrays.pop(name)
            fits = array.dtype == rows.dtype and array.flags.c_contiguous and array.ndim == rows.dimensions
            if not fits or (rows.width > 0 and array.shape[1] != rows.width):
                raise TypeError(f"{name} of {type(self).__name__} is {array.dtype} {array.shape}, not {rows}")
            setattr(self, name, array)
        if arrays:
            raise TypeError(f"{type(self).__name__} has no {', '.join(arrays)}")

    def replaced(self, **arrays: Any) -> Self:
        """The bundle with other arrays."""
        return type(self)(**{name: getattr(self, name) for name in self.arrays} | arrays)

    @cached_property
    def _table(self) -> Any:
        words: list[int] = []
        for name in self.arrays:
            array = getattr(self, name)
            words += [array.ctypes.data, len(array), array.shape[-1]]
        return np.array(words, np.int64)

    @cached_property
    def address(self) -> int:
        """Address of the table: address, length and width of each array."""
        return int(self._table.ctypes.data)


class Program(ArrayBundle):
    """Records (int32, as in `word_offsets`), 64-bit numbers, tag and bits of constants by row, start table."""

    memory: NDArray[np.int32]
    wide: Words
    constants: Annotated[Words, 2]
    lookup: Annotated[Words, 6]
    entries: Annotated[NDArray[np.int32], 5]
    bounds: Annotated[NDArray[np.float64], 4]


class Events(ArrayBundle):
    """A batch of events.

    Attributes:
        lists: for each type its list of waiting groups, pairs (group, column), its list of start signatures, triples
            (signature, column, column), and its number.
        lo, hi: ns.
        tags, payload: by column and event; `floats` is `payload` read as floats.
        together: for each event the first consumed with it; empty where each is consumed by itself.
    """

    types: NDArray[np.int32]
    lists: Annotated[NDArray[np.int32], 3]
    lo: Words
    hi: Words
    tags: Annotated[NDArray[np.uint8], ANY]
    payload: Annotated[Words, ANY]
    floats: Annotated[NDArray[np.float64], ANY]
    together: NDArray[np.int32]


class LoopState(ArrayBundle):
    """Arrays that change during a run.

    Attributes:
        rows: instances.
        table: buckets by group of states and value, an open hash table: bits of the value; group above the tag and one
            more; above the first instance and one more.
        links: chains: previous link, position of the event, hash of the whole.
        extras, spare: extra blocks; by length the first free one, whose first word leads to the next.
        timers: heap of (due, number, instance, tag and use of its row, timer).
        found: matches.
        seen: in the current instant: stamp, hash, which.
        fired: by pattern the due instant (NONE before), number and position of the last fired time event.
        touched: instances touched, by place of the count.
        begun: position of the last event that began a match there, which is counted once; NONE before.
        times: due instant, number and timer of each fired time event.
        affected: instances affected by events consumed together: row and -1, or a key and its value as in `spent`.
        spent: of closed values of inner keys the one before, number of the key above the tag, bits.
        stack, floats, tags: of the current expression; `floats` is `stack` read as floats.
        counters: as in `word_offsets`.
    """

    rows: Annotated[Words, word_offsets.ROW]
    table: Annotated[Words, 2]
    links: Annotated[Words, 3]
    extras: Words
    spare: Words
    timers: Annotated[Words, 5]
    found: Annotated[Words, word_offsets.FOUND]
    seen: Annotated[Words, 3]
    fired: Annotated[Words, 3]
    touched: Words
    begun: Words
    times: Annotated[Words, 3]
    affected: Annotated[Words, 3]
    spent: Annotated[Words, 3]
    stack: Words
    floats: NDArray[np.float64]
    tags: Words
    counters: Words


def empty_state() -> LoopState:
    """The initial state."""
    stack = np.zeros(word_offsets.STACK + 6, np.int64)
    state = LoopState(
        rows=np.empty((FIRST, word_offsets.ROW), np.int64),
        table=np.zeros((FIRST, 2), np.int64),
        links=np.empty((FIRST, 3), np.int64),
        extras=np.empty(4 * word_offsets.LARGEST, np.int64),
        spare=np.full(word_offsets.LARGEST + 1, -1, np.int64),
        timers=np.empty((FIRST, 5), np.int64),
        found=np.empty((FIRST, word_offsets.FOUND), np.int64),
        seen=np.zeros((FIRST, 3), np.int64),
        fired=np.full((16, 3), word_offsets.NONE, np.int64),
        touched=np.zeros(16, np.int64),
        begun=np.full(16, word_offsets.NONE, np.int64),
        times=np.empty((FIRST, 3), np.int64),
        affected=np.empty((FIRST, 3), np.int64),
        spent=np.empty((FIRST, 3), np.int64),
        stack=stack,
        floats=stack.view(np.float64),
        tags=np.zeros(len(stack), np.int64),
        counters=np.zeros(word_offsets.COUNTERS, np.int64),
    )
    state.counters[word_offsets.C_FREE] = -1
    state.counters[word_offsets.C_STAMP] = 1
    state.counters[word_offsets.C_EXTRAS] = 2 * word_offsets.LARGEST
    state.counters[word_offsets.C_CROWD] = 524_288
    state.counters[word_offsets.C_STOP] = word_offsets.LATEST
    state.counters[word_offsets.C_DUE] = word_offsets.NONE
    return state


class StageState(ArrayBundle):
    """Arrays of a stage before the automata.

    Attributes:
        table: first slot of each hash and one more.
        keys: tag and bits of each value of the key, by slot.
        windows, limbs: windows of keys by slot, and their sums.
        ring: values of all windows in order, at their positions by the length of the ring.
        distinct, distinct_table: distinct values in windows, and the first of each hash and one more.
        columns: of the values of the key.
        key, scratch: the key, and the sum, at hand.
        counters: as in `word_offsets`.
    """

    table: Words
    keys: Annotated[Words, ANY]
    windows: Annotated[Words, word_offsets.WINDOW]
    limbs: Annotated[Words, word_offsets.LIMBS]
    ring: Annotated[Words, word_offsets.RING]
    distinct: Annotated[Words, word_offsets.DISTINCT_VALUE]
    distinct_table: Words
    columns: Words
    key: Words
    scratch: Words
    counters: Words


def empty_stage(columns: Sequence[int], *, sums: bool = False) -> StageState:
    """The initial state of a stage, keyed by some columns; `sums`: whether it needs limbs."""
    width = 2 * len(columns)
    state = StageState(
        table=np.zeros(FIRST, np.int64),
        keys=np.zeros((FIRST, max(width, 1)), np.int64),
        windows=np.zeros((FIRST, word_offsets.WINDOW), np.int64),
        limbs=np.zeros((FIRST if sums else 1, word_offsets.LIMBS), np.int64),
        ring=np.zeros((FIRST, word_offsets.RING), np.int64),
        distinct=np.zeros((FIRST, word_offsets.DISTINCT_VALUE), np.int64),
        distinct_table=np.zeros(FIRST, np.int64),
        columns=np.array(columns, np.int64),
        key=np.zeros(max(width, 1), np.int64),
        scratch=np.zeros(word_offsets.LIMBS + 2, np.int64),
        counters=np.zeros(word_offsets.STAGE_COUNTERS, np.int64),
    )
    state.counters[word_offsets.C_SLOT_FREE] = state.counters[word_offsets.C_DISTINCT_FREE] = -1
    state.counters[word_offsets.C_LAST] = word_offsets.NONE
    return state


def longer(array: NDArray[Any], length: int, fill: int | None = None) -> NDArray[Any]:
    """A longer copy."""
    made = np.empty((length, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    if fill is not None:
        made[len(array) :] = fill
    return made

"""Implementations of `seq3` over columns: columnar engine, loops compiled for it alone, DuckDB, a bare pass."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import compile_pattern

NAMES: Final = ("A", "B", "C", "D")
BATCH: Final = 100_000  # number of events in a batch for the engine
JOINED: Final = 1_000_000  # greatest number of events for DuckDB: its join grows faster than the events


@dataclass(frozen=True, slots=True)
class SeqColumns:
    """The input as columns."""

    types: NDArray[np.int32]  # the place of each event's type in `NAMES`
    hi: NDArray[np.int64]  # ns
    keys: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.types)

    def first(self, count: int) -> SeqColumns:
        """The first n events."""
        return SeqColumns(self.types[:count], self.hi[:count], self.keys[:count])


def by_engine(columns: SeqColumns, text: str) -> int:
    """The columnar engine, in batches; matches are counted as arrays."""
    engine = ColumnarEngine([compile_pattern(text)])
    matches = 0
    for start in range(0, len(columns), BATCH):
        end = start + BATCH
        attributes = {"key": columns.keys[start:end]}
        batch = Batch.of_arrays(columns.types[start:end], NAMES, columns.hi[start:end], attributes, first=start)
        matches += len(engine.feed_batch(batch))
    return matches


def by_pass(columns: SeqColumns) -> None:
    """Read every column once."""
    _passed(columns.types, columns.hi, columns.keys)


def first_compiled(columns: SeqColumns, window: int) -> int:
    """The first B and C after each A."""
    return int(_first(columns.types, columns.hi, columns.keys, window, int(columns.keys.max(initial=0)) + 1))


def every_compiled(columns: SeqColumns, window: int) -> int:
    """Every B and C after each A."""
    return int(_every(columns.types, columns.hi, columns.keys, window, int(columns.keys.max(initial=0)) + 1))


def joined(columns: SeqColumns, window: int) -> int | None:
    """Every B and C after each A, by DuckDB on one core; None where it is not installed."""
    if find_spec("duckdb") is None:
        return None
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    table = {"type": columns.types, "t": columns.hi, "key": columns.keys}
    connection.register("events", table)
    query = f"""
        SELECT count(*) FROM events a
        JOIN events b ON b.key = a.key AND b.t > a.t AND b.t <= a.t + {window}
        JOIN events c ON c.key = a.key AND c.t > b.t AND c.t <= a.t + {window}
        WHERE a.type = 0 AND b.type = 1 AND c.type = 2
    """
    row = connection.execute(query).fetchone()
    connection.close()
    return int(row[0]) if row is not None else 0


@numba.njit(cache=True)
def _passed(types: Any, hi: Any, keys: Any) -> Any:
    total = 0
    for event in range(len(types)):
        total += types[event] ^ hi[event] ^ keys[event]
    return total


@numba.njit(cache=True)
def _first(types: Any, hi: Any, keys: Any, window: Any, count: Any) -> Any:
    """For each key the As that wait for a B, and those that wait for a C, as linked lists through the events."""
    before = np.empty(len(types), np.int32)
    for_b, for_c = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    matches = 0
    for event in range(len(types)):
        kind, key = types[event], keys[event]
        if kind == 0:
            before[event] = for_b[key]
            for_b[key] = event
        elif kind == 1:
            waiting = for_b[key]
            for_b[key] = -1
            while waiting >= 0:
                following = before[waiting]
                if hi[event] - hi[waiting] <= window:
                    before[waiting] = for_c[key]
                    for_c[key] = waiting
                waiting = following
        elif kind == 2:
            waiting = for_c[key]
            for_c[key] = -1
            while waiting >= 0:
                matches += hi[event] - hi[waiting] <= window
                waiting = before[waiting]
    return matches


@numba.njit(cache=True)
def _every(types: Any, hi: Any, keys: Any, window: Any, count: Any) -> Any:
    """For each key the As, and the Bs, the latest first, as linked lists through the events."""
    before = np.empty(len(types), np.int32)
    all_a, all_b = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    matches = 0
    for event in range(len(types)):
        kind, key, now = types[event], keys[event], hi[event]
        if kind == 0:
            before[event] = all_a[key]
            all_a[key] = event
        elif kind == 1:
            before[event] = all_b[key]
            all_b[key] = event
        elif kind == 2:
            second = all_b[key]
            while second >= 0 and now - hi[second] <= window:
                first = all_a[key]
                while first > second:
                    first = before[first]
                while first >= 0 and now - hi[first] <= window:
                    matches += 1
                    first = before[first]
                second = before[second]
    return matches

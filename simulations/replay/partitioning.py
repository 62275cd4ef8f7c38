"""Partition events by the values of a key.

Values that are equal go to one place, 3 and 3.0 among them. The numbers are hashed; of texts those in the dictionary
are, once each. An event without a value has no part in a keyed pattern, wherever it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distced.detectors.columnar.batch.columns import Column
from distced.detectors.columnar.batch.values import FLOAT, INTEGER, TEXT
from distced.middleware.event_files.tables import column_of
from distced.simulations.replay.batches import column_values
from distced.simulations.replay.file_ranges import appearing

_MIX = np.uint64(0x9E3779B97F4A7C15)


def slots_of(table: Any, by: Sequence[str], slots: int) -> NDArray[np.int64]:
    """The slot of each row of a table, by its key; -1 where a value is missing."""
    hashed = np.zeros(len(table), np.uint64)
    missing = np.zeros(len(table), np.bool_)
    for name in by:
        column = column_values(table, column_of(name))
        if column is None:
            return np.full(len(table), -1)
        tags = np.broadcast_to(np.asarray(column.tags, np.uint8), len(table))
        missing |= tags == 0
        hashed = (hashed ^ _hashed(column, tags)) * _MIX
        hashed ^= hashed >> np.uint64(31)
    found = (hashed % np.uint64(slots)).astype(np.int64)
    found[missing] = -1
    return found


def _hashed(column: Column, tags: NDArray[np.uint8]) -> NDArray[np.uint64]:
    payload = column.payload.copy()
    if column.texts:
        texts = tags == TEXT
        numbers = np.array([crc32(each.encode("utf-8", "surrogatepass")) for each in column.texts], np.int64)
        payload[texts] = numbers[payload[texts]]
    floats = tags == FLOAT
    if floats.any():
        values = column.payload.view(np.float64)
        whole = floats & (values >= -(2.0**63)) & (values < 2.0**63)
        whole[whole] = values[whole] == np.floor(values[whole])
        payload[whole] = values[whole].astype(np.int64)
    kinds = np.where(tags == FLOAT, INTEGER, tags).astype(np.uint64)
    return (payload.view(np.uint64) + kinds) * _MIX


def write_partitions(table: Any, by: Sequence[str], slots: int, path: Path) -> None:
    """Write the rows of a table that is not empty to a file with a batch for each slot, in order."""
    numbers = slots_of(table, by, slots)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(slots + 1))
    # In batches of one file texts count in one dictionary.
    (batch,) = table.unify_dictionaries().combine_chunks().take(pa.array(order)).combine_chunks().to_batches()
    with appearing(path) as part, pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for slot in range(slots):
            writer.write_batch(batch.slice(int(ends[slot]), int(ends[slot + 1] - ends[slot])))


def read_partition(path: Path, slot: int) -> Any:
    """The rows of a slot in a file, as a table of pyarrow."""
    with pa.memory_map(str(path)) as source:
        return pa.Table.from_batches([pa.ipc.open_file(source).get_batch(slot)])

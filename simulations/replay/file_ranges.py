"""Ranges of the files of a history, as tasks read them, and their partitions by the values of a key.

Equal values go to one slot, 3 and 3.0 among them. Numbers are hashed; of texts those in the dictionary are, once each.
An event without a value has no part in a keyed pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from distced.detectors.columnar.batch.columns import Column
from distced.detectors.columnar.batch.table_batch import column_values
from distced.detectors.columnar.batch.values import FLOAT, INTEGER, TEXT
from distced.middleware.event_files.tables import column_of, columns_read
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.history.row_groups import Rows, read_groups

_ALL: Final = 2**31

UNIT: Final = 1_048_576
"""Least number of rows of a range in a longer file."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Consecutive row groups of a file with events of one day and type, from `first` until before `last`.

    Attributes:
        rejected: rows of the file that are left out, packed.
    """

    path: str
    day: str
    type: str
    first: int
    last: int
    rows: int
    rejected: bytes = b""

    @property
    def name(self) -> str:
        """Unique among the file ranges of a history."""
        return f"{self.day}.{self.type}.{Path(self.path).stem}.{self.first}"


class Trouble(NamedTuple):
    """A file or row group that could not be read: the path, the reason, and the number of rows not read."""

    where: str
    error: str
    rows: int


def units_of(file: HistoryFile, rejected: Rows | None = None) -> tuple[FileRange, ...]:
    """File ranges of a file without rejected rows: several where it is long."""
    left_out = b"" if rejected is None else rejected.tobytes()
    # Workers may have another current folder.
    path = str(file.path.absolute())
    if file.rows <= UNIT:
        return (FileRange(path, file.day, file.type, 0, _ALL, file.rows, left_out),)
    metadata = parquet.read_metadata(file.path)
    found: list[FileRange] = []
    first = rows = 0
    for number in range(metadata.num_row_groups):
        rows += metadata.row_group(number).num_rows
        if rows >= UNIT or number == metadata.num_row_groups - 1:
            found.append(FileRange(path, file.day, file.type, first, number + 1, rows, left_out))
            first, rows = number + 1, 0
    return tuple(found)


def read(unit: FileRange, names: frozenset[str] | None, begin: int, until: int, troubles: list[Trouble]) -> Any:
    """The events of a unit with `begin <= hi <= until`, as a table of pyarrow; all columns, or those of `names_in`.

    What cannot be read goes to `troubles`; the table is None where that is everything.
    """
    try:
        table, unread = read_groups(
            unit.path,
            columns=lambda shown: columns_read(names, shown),
            groups=(unit.first, unit.last),
            span=(begin, until),
            rejected=np.frombuffer(unit.rejected, np.int64),
        )
    except (OSError, pa.ArrowException) as error:
        troubles.append(Trouble(unit.path, str(error), unit.rows))
        return None
    troubles += [Trouble(unit.path, each.error, each.rows) for each in unread]
    return table


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Temporary path of a file that is to appear whole or not at all: a worker presumed lost may still write it."""
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


_MIX = np.uint64(0x9E3779B97F4A7C15)


def slots_of(table: Any, by: Sequence[str], slots: int) -> NDArray[np.int64]:
    """Slot of each row of a table by its key; -1 where a value is missing."""
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
    """Write the rows of a table that is not empty into a file with a batch for each slot, in order."""
    numbers = slots_of(table, by, slots)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(slots + 1))
    # In batches of one file texts count in one dictionary.
    (batch,) = table.unify_dictionaries().combine_chunks().take(pa.array(order)).combine_chunks().to_batches()
    with appearing(path) as part, pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for slot in range(slots):
            writer.write_batch(batch.slice(int(ends[slot]), int(ends[slot + 1] - ends[slot])))


def read_partition(path: Path, slot: int) -> Any:
    """Rows of a slot in a file, a table of pyarrow."""
    with pa.memory_map(str(path)) as source:
        return pa.Table.from_batches([pa.ipc.open_file(source).get_batch(slot)])

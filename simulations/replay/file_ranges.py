"""What tasks read: stretches of the files of a history, and what was dealt out of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from distced.middleware.history.history import HistoryFile
from distced.middleware.history.layout import day_number
from distced.simulations.replay.column_names import columns_read
from distced.simulations.replay.partitioning import slots_of

_ALL: Final = 2**31

UNIT: Final = 1_048_576
"""Rows of a file that one task reads at least, where there are more."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some row groups of a file.

    Attributes:
        path: the file.
        day, type: what it holds.
        first, last: row groups, the last one not included.
        rows: how many rows there are in them.
    """

    path: str
    day: str
    type: str
    first: int
    last: int
    rows: int

    @property
    def name(self) -> str:
        """A name of its own among the units of a history."""
        return f"{self.day}.{self.type}.{Path(self.path).stem}.{self.first}"


class Trouble(NamedTuple):
    """Something that could not be read, and what it holds.

    Attributes:
        where: the path.
        error: what was wrong.
        rows: how many rows were not read, as far as that is known.
    """

    where: str
    error: str
    rows: int


def units_of(file: HistoryFile) -> list[Unit]:
    """The stretches of a file: several where it is long."""
    # Workers need not stand in the same folder.
    path = str(file.path.absolute())
    if file.rows <= UNIT:
        return [Unit(path, file.day, file.type, 0, _ALL, file.rows)]
    metadata = parquet.read_metadata(file.path)
    found: list[Unit] = []
    first = rows = 0
    for number in range(metadata.num_row_groups):
        rows += metadata.row_group(number).num_rows
        if rows >= UNIT or number == metadata.num_row_groups - 1:
            found.append(Unit(path, file.day, file.type, first, number + 1, rows))
            first, rows = number + 1, 0
    return found


def read(unit: Unit, names: frozenset[str] | None, begin: int, until: int) -> Any:
    """The events of a unit with `begin <= hi <= until`; a table of pyarrow.

    Args:
        names: those in the patterns (`names_in`), so that only columns are read that they may look at; None for all.
    """
    with parquet.ParquetFile(unit.path, page_checksum_verification=True) as file:
        metadata = file.metadata
        column = file.schema_arrow.get_field_index("hi")
        wanted = []
        whole = True
        for number in range(unit.first, min(unit.last, metadata.num_row_groups)):
            statistics = metadata.row_group(number).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                if statistics.max < begin or statistics.min > until:
                    continue
                whole = whole and begin <= statistics.min and statistics.max <= until
            else:
                whole = False
            wanted.append(number)
        columns = columns_read(names, file.schema_arrow.names)
        table = file.read_row_groups(wanted, columns=columns, use_threads=False)
        rows = sum(metadata.row_group(number).num_rows for number in wanted)
    if len(table) != rows:
        # A page whose head is damaged may be passed over without a word.
        raise pa.ArrowInvalid(f"{len(table):,} rows of {rows:,}")
    if whole:
        return table
    hi = table["hi"]
    return table.filter(pc.and_(pc.greater_equal(hi, begin), pc.less_equal(hi, until)))


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Where to write a file that is to appear whole or not at all: a worker that is thought to be lost may still be
    writing the same."""
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def days_of(units: Iterable[Unit]) -> list[list[Unit]]:
    """Units day by day."""
    days: dict[str, list[Unit]] = {}
    for each in units:
        days.setdefault(each.day, []).append(each)
    return [days[day] for day in sorted(days, key=day_number)]


def deal(table: Any, by: Sequence[str], slots: int, path: Path) -> None:
    """Write the rows of a table that is not empty to a file with a batch for each slot, in order."""
    numbers = slots_of(table, by, slots)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(slots + 1))
    # In batches of one file texts count in one dictionary.
    (batch,) = table.unify_dictionaries().combine_chunks().take(pa.array(order)).combine_chunks().to_batches()
    with appearing(path) as part, pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for slot in range(slots):
            writer.write_batch(batch.slice(int(ends[slot]), int(ends[slot + 1] - ends[slot])))


def dealt(path: Path, slot: int) -> Any:
    """What a slot was dealt of a file, as a table of pyarrow."""
    with pa.memory_map(str(path)) as source:
        return pa.Table.from_batches([pa.ipc.open_file(source).get_batch(slot)])

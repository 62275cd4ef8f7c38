"""Ranges of the files of a history, as tasks read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from distced.middleware.history.history import HistoryFile
from distced.middleware.history.layout import day_number
from distced.simulations.replay.pattern_properties import columns_read

_ALL: Final = 2**31

UNIT: Final = 1_048_576
"""Least number of rows of a file that one task reads, where there are more."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Consecutive row groups of a file.

    Attributes:
        path: the file.
        day, type: of its events.
        first, last: row groups, the last one not included.
        rows: number of rows in them.
    """

    path: str
    day: str
    type: str
    first: int
    last: int
    rows: int

    @property
    def name(self) -> str:
        """A name unique among the units of a history."""
        return f"{self.day}.{self.type}.{Path(self.path).stem}.{self.first}"


class Trouble(NamedTuple):
    """A file or unit that could not be read, and its contents.

    Attributes:
        where: the path.
        error: the reason.
        rows: number of rows not read, as far as known.
    """

    where: str
    error: str
    rows: int


def units_of(file: HistoryFile) -> list[FileRange]:
    """The units of a file: several where it is long."""
    # Workers may have another current folder.
    path = str(file.path.absolute())
    if file.rows <= UNIT:
        return [FileRange(path, file.day, file.type, 0, _ALL, file.rows)]
    metadata = parquet.read_metadata(file.path)
    found: list[FileRange] = []
    first = rows = 0
    for number in range(metadata.num_row_groups):
        rows += metadata.row_group(number).num_rows
        if rows >= UNIT or number == metadata.num_row_groups - 1:
            found.append(FileRange(path, file.day, file.type, first, number + 1, rows))
            first, rows = number + 1, 0
    return found


def read(unit: FileRange, names: frozenset[str] | None, begin: int, until: int) -> Any:
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
        # A page with a damaged head may be skipped silently.
        raise pa.ArrowInvalid(f"{len(table):,} rows of {rows:,}")
    if whole:
        return table
    hi = table["hi"]
    return table.filter(pc.and_(pc.greater_equal(hi, begin), pc.less_equal(hi, until)))


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Temporary path of a file that is to appear whole or not at all: a worker presumed lost may still be writing the
    same.
    """
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def days_of(units: Iterable[FileRange]) -> list[list[FileRange]]:
    """Units day by day."""
    days: dict[str, list[FileRange]] = {}
    for each in units:
        days.setdefault(each.day, []).append(each)
    return [days[day] for day in sorted(days, key=day_number)]

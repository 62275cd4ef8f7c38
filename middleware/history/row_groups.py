"""Rows of a file of a history as a table, by row group, without unreadable ones.

All readers of a history use it, so that all leave out the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distced.middleware.event_files.tables import import_pyarrow, noted_types
from distced.middleware.history.history_file import HistoryFile, Problem, shown_columns
from distced.middleware.model.errors import HistoryError

Rows = NDArray[np.int64]
"""Places of rows in a file, ascending."""


class Unread(NamedTuple):
    """Row group that cannot be read: the first of its rows, their number, and the reason."""

    first: int
    rows: int
    error: str


def read_groups(
    path: Path | str,
    *,
    columns: Callable[[list[str]], Iterable[str]] = lambda names: names,
    groups: tuple[int, int] | None = None,
    span: tuple[int, int] | None = None,
    rejected: Rows | None = None,
) -> tuple[Any, list[Unread]]:
    """Rows of a file as a table of pyarrow, and the row groups that cannot be read.

    Args:
        columns: those to read, of those with events and attributes of the noted type.
        groups: the first row group to read, and the one after the last.
        span: least and greatest `hi` of the rows, ns.
        rejected: rows that are left out (`row_check`).

    A file that cannot be opened is an `OSError` or an error of pyarrow.
    """
    pyarrow = import_pyarrow()
    compute = pyarrow.compute
    tables, unread = [], []
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        metadata, schema = file.metadata, file.schema_arrow
        types = noted_types(schema, str(path)) or ()
        shown = shown_columns(schema, types[0]) if len(types) == 1 else list(schema.names)
        wanted = list(columns(shown))
        first, place = 0, schema.get_field_index("hi")
        begin, end = (0, metadata.num_row_groups) if groups is None else groups
        for number in range(metadata.num_row_groups):
            start, first = first, first + metadata.row_group(number).num_rows
            if not begin <= number < end:
                continue
            statistics = metadata.row_group(number).column(place).statistics
            known = statistics is not None and statistics.has_min_max
            if span is not None and known and (statistics.max < span[0] or statistics.min > span[1]):
                continue
            try:
                table = file.read_row_group(number, columns=wanted, use_threads=False)
                if len(table) != first - start:
                    # A page with a damaged head may be skipped silently.
                    raise pyarrow.ArrowInvalid(f"{len(table):,} rows of {first - start:,}")
            except (OSError, pyarrow.ArrowException) as error:
                unread.append(Unread(start, first - start, f"row group {number}: {error}"))
                continue
            if rejected is not None:
                low, high = np.searchsorted(rejected, (start, first))
                if low < high:
                    kept = np.ones(len(table), np.bool_)
                    kept[rejected[low:high] - start] = False
                    table = table.filter(pyarrow.array(kept))
            if span is not None and not (known and span[0] <= statistics.min and statistics.max <= span[1]):
                hi = table["hi"]
                table = table.filter(compute.and_(compute.greater_equal(hi, span[0]), compute.less_equal(hi, span[1])))
            tables.append(table)
        if not tables:
            return file.read_row_groups([], columns=wanted), unread
    return (tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables)), unread


def read_table(file: HistoryFile, columns: Iterable[str] | None = None) -> Any:
    """Rows of a file as a table of pyarrow, with those of the columns that it has; `HistoryError` if unreadable."""
    pyarrow = import_pyarrow()
    try:
        wanted = None if columns is None else set(columns)
        table, unread = read_groups(
            file.path, columns=lambda names: [name for name in names if wanted is None or name in wanted]
        )
    except (OSError, pyarrow.ArrowException) as error:
        raise HistoryError("a file that cannot be read", given=str(file.path), advice=str(error)) from None
    if unread:
        raise HistoryError("a file that cannot be read", given=str(file.path), advice=unread[0].error)
    return table


def unread_problem(where: str, unread: Unread) -> Problem:
    """Problem of a row group that cannot be read."""
    advice = f"{unread.rows:,} events left out"
    error = HistoryError("a file that cannot be read", given=unread.error, where=where, advice=advice)
    return Problem(where, error, unread.rows)

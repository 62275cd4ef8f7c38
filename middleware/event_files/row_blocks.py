"""Rows of files and tables, one by one and as blocks of columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from distced.middleware.model.errors import DistcedError, EventError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Fields: TypeAlias = dict[str, object]

BLOCK_ROWS: Final = 65_536

LIST_ROWS: Final = 16_384
"""Rows of a block that are objects; with more, the garbage collector is kept busy."""


UNREADABLE: Final = (OSError, EOFError, zlib.error, EventError)
"""Errors of a file that cannot be read, or not to its end."""

_T = TypeVar("_T")


def batches_until_error(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    """Items in lists of this size; those before an error come before it."""
    pending: list[_T] = []
    try:
        for item in items:
            pending.append(item)
            if len(pending) == size:
                yield pending
                pending = []
    except DistcedError:
        if pending:
            yield pending
        raise
    if pending:
        yield pending


class Row(NamedTuple):
    """Row of a file or table, with the number of its (last) line, or the problem why it cannot be read."""

    number: int
    fields: Fields
    problem: DistcedError | None = None


class RowBlock(NamedTuple):
    """Consecutive rows as columns.

    Attributes:
        table: of pyarrow; columns of rows that are all text are strings.
        numbers: of the rows' lines.
        problems: rows that cannot be read, each with the number of rows of the table before it.
    """

    table: Any
    numbers: NDArray[np.int64]
    problems: list[tuple[int, Row]]


def block_of(rows: Sequence[Row], names: Sequence[str]) -> RowBlock:
    """Rows of text as a block."""
    import numpy
    import pyarrow

    good = [row for row in rows if row.problem is None]
    columns = {name: pyarrow.array([row.fields[name] for row in good], pyarrow.string()) for name in names}
    problems: list[tuple[int, Row]] = []
    for place, row in enumerate(rows):
        if row.problem is not None:
            problems.append((place - len(problems), row))
    return RowBlock(pyarrow.table(columns), numpy.array([row.number for row in good], numpy.int64), problems)

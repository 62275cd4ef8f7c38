"""Rows of files and tables, one by one and as blocks of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from distced.middleware.model.errors import DistcedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Fields: TypeAlias = dict[str, object]

BLOCK_ROWS: Final = 65_536

LIST_ROWS: Final = 16_384
"""Rows of a block that are objects; with more, the garbage collector is kept busy."""


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

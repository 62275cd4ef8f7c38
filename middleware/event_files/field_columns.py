"""Fields of rows as columns, at the paths that a mapping reads: each distinct value once, with the rows that hold it.

Values are those of the rows as dictionaries, of one kind where they are equal: 1, 1.0 and true are three values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distced.middleware.event_files.cells import (
    FRACTION,
    MISSING,
    WHOLE_NUMBER,
    Ints,
    Numbers,
    arrow_texts,
    numbers_of,
    numpy_of,
    plain_texts,
)
from distced.middleware.event_files.native_columns import batch_rows_of, rows_at
from distced.middleware.event_files.row_blocks import LIST_ROWS, Fields, Row, RowBlock
from distced.middleware.event_files.rows import Rows
from distced.middleware.event_files.tables import WHOLE
from distced.middleware.mapping.extraction import descend
from distced.middleware.mapping.reads import Steps
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

_KINDS: Final = {int: WHOLE_NUMBER, float: FRACTION, type(None): MISSING}


class FieldColumn:
    """Values at a path, by row.

    Attributes:
        values: distinct values.
        codes: index of each row's value.
    """

    def __init__(self, values: Sequence[object], codes: Ints) -> None:
        self.values = values
        self.codes = codes

    @property
    def texts(self) -> Any | None:
        """Values as an array of Arrow; None where one is neither a text nor null."""
        return None

    @cached_property
    def numbers(self) -> Numbers | None:
        """Numbers, and those in texts; None where a value is neither a text, a number nor null."""
        return None if self.texts is None else numbers_of(self.texts)

    def inside(self, steps: Steps) -> FieldColumn:
        """Values further down a path."""
        if not steps:
            return self
        return FieldColumn([descend(value, steps) for value in self.values], self.codes)


Places: TypeAlias = Ints


class _Texts(FieldColumn):
    """Texts, in an array of Arrow."""

    def __init__(self, column: Any) -> None:
        self._texts = plain_texts(column)

    @property
    def texts(self) -> Any | None:
        return self._texts

    @cached_property
    def _coded(self) -> tuple[list[object], Ints]:
        coded = self._texts.dictionary_encode()
        values, codes = coded.dictionary.to_pylist(), numpy_of(coded.indices)
        if coded.null_count:
            codes = np.where(numpy_of(pc.is_null(coded.indices)), len(values), codes)
            values.append(None)
        return values, codes.astype(np.int64)

    @property
    def values(self) -> Sequence[object]:  # type: ignore[override]
        return self._coded[0]

    @property
    def codes(self) -> Ints:  # type: ignore[override]
        return self._coded[1]


class _Objects(FieldColumn):
    """Python's values."""

    def __init__(self, objects: Sequence[object]) -> None:
        self._objects = objects
        self._kinds = frozenset(map(type, objects))

    @cached_property
    def texts(self) -> Any | None:
        if not self._kinds <= {str, type(None)}:
            return None
        return arrow_texts(self._objects)  # type: ignore[arg-type]

    @cached_property
    def numbers(self) -> Numbers | None:
        if not self._kinds <= _KINDS.keys():
            return super().numbers
        objects = self._objects
        contents = np.array([_KINDS[type(each)] for each in objects], np.uint8)
        whole = [each if type(each) is int else 0 for each in objects]
        if not all(INSTANT_MIN <= each <= INSTANT_MAX for each in (min(whole, default=0), max(whole, default=0))):
            return None
        fractions = np.array([each if type(each) is float else 0.0 for each in objects], np.float64)
        return Numbers(contents, np.array(whole, np.int64), fractions)

    @cached_property
    def _coded(self) -> tuple[list[object], Ints]:
        known: dict[object, int] = {}
        values: list[object] = []
        plain = self._kinds <= {str, type(None)}
        keys = self._objects if plain else [each if type(each) is str else (repr(each),) for each in self._objects]
        codes = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
        if plain:
            return list(known), codes
        _, firsts = np.unique(codes, return_index=True)
        values = [self._objects[place] for place in firsts.tolist()]
        return values, codes

    @property
    def values(self) -> Sequence[object]:  # type: ignore[override]
        return self._coded[0]

    @property
    def codes(self) -> Ints:  # type: ignore[override]
        return self._coded[1]


class FieldBlock:
    """Consecutive rows, with the columns that are asked for.

    Attributes:
        numbers: of the rows' lines.
        problems: rows that cannot be read, each with the number of rows before it.
    """

    def __init__(self, numbers: Ints, problems: Sequence[tuple[int, Row]]) -> None:
        self.numbers = numbers
        self.problems = problems
        self._columns: dict[Steps, FieldColumn] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, steps: Steps) -> FieldColumn:
        """Values at a path; null where there are none."""
        found = self._columns.get(steps)
        if found is None:
            found = self._columns[steps] = self._column(steps)
        return found

    def rows(self, places: Places) -> Iterator[Fields]:
        """Rows as dictionaries."""
        raise NotImplementedError

    def _column(self, steps: Steps) -> FieldColumn:
        raise NotImplementedError


class TableBlock(FieldBlock):
    """Rows of a table."""

    def __init__(self, block: RowBlock) -> None:
        super().__init__(block.numbers, block.problems)
        self._table = block.table
        self._names = frozenset(block.table.schema.names)

    def rows(self, places: Places) -> Iterator[Fields]:
        return rows_at(self._table, places)

    def _column(self, steps: Steps) -> FieldColumn:
        name, *rest = steps
        if name not in self._names or name.startswith(WHOLE):
            return FieldColumn([None], np.zeros(len(self), np.int64))
        if rest:
            return self.column((name,)).inside(tuple(rest))
        column, types = self._table[name], pa.types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if WHOLE + name not in self._names and (
            types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        ):
            return _Texts(column)
        return _Objects([row.get(name) for row in batch_rows_of(self._table.select(self._with_whole(name)))])

    def _with_whole(self, name: str) -> list[str]:
        return [name, WHOLE + name] if WHOLE + name in self._names else [name]


class ListBlock(FieldBlock):
    """Rows that have columns of their own."""

    def __init__(self, fields: Sequence[Fields], numbers: Sequence[int], problems: Sequence[tuple[int, Row]]) -> None:
        super().__init__(np.array(numbers, np.int64), problems)
        self._fields = fields

    def rows(self, places: Places) -> Iterator[Fields]:
        return (self._fields[place] for place in places.tolist())

    def _column(self, steps: Steps) -> FieldColumn:
        name, *rest = steps
        if rest:
            return _Objects([descend(fields.get(name), rest) for fields in self._fields])
        return _Objects([fields.get(name) for fields in self._fields])


def blocks_of(rows: Rows) -> Iterator[FieldBlock]:
    """Rows of a file or table in blocks."""
    blocks = rows.blocks()
    if blocks is not None:
        yield from map(TableBlock, blocks)
        return
    fields: list[Fields] = []
    numbers: list[int] = []
    problems: list[tuple[int, Row]] = []
    # Without the rows' tuples, for the garbage collector goes through all that are kept.
    try:
        for row in rows.rows():
            if row.problem is not None:
                problems.append((len(fields), row))
                continue
            fields.append(row.fields)
            numbers.append(row.number)
            if len(fields) == LIST_ROWS:
                yield ListBlock(fields, numbers, problems)
                fields, numbers, problems = [], [], []
    except DistcedError:
        yield ListBlock(fields, numbers, problems)
        raise
    yield ListBlock(fields, numbers, problems)

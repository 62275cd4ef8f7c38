"""Tables of recorded events as one batch of events in the order of consumption.

Columns go from Arrow to the columnar engine without an object for each event; only constituents of composite events
become objects. `Batch.of_events` was rejected: it takes ten times as long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distced.detectors.columnar.batch.columns import Batch, Column, Handed, Ints
from distced.detectors.columnar.batch.values import BOOLEAN, FLOAT, INTEGER, NULL, TEXT, Texts
from distced.middleware.event_files.cells import numpy_of
from distced.middleware.event_files.native import OWN_COLUMNS, PREFIX, constituents_of
from distced.middleware.event_files.tables import WHOLE, column_of
from distced.middleware.history.row_check import digits
from distced.middleware.model.events import COMPOSITE, PRIMITIVE, CompositeEvent, Event

_LIMBS = 2


class TableBatch(Batch):
    """Events of tables of the native form, in the order of consumption; `order` has the row of each in them."""

    def __init__(self, tables: Sequence[pa.Table], attributes: Mapping[str, Sequence[str]] | None = None) -> None:
        """Tables in any order, sorted in any way; events of one id that are equal in time are one, the first.

        `attributes`: of the events of some types; the others have those of their tables.
        """
        self._by_type = attributes or {}
        self.tables = [each for each in tables if len(each)]
        names, types = _coded([each["type"] for each in self.tables])
        self._sources, sources = _coded([each["source"] for each in self.tables])
        lo, hi = (_joined([_ints(each[name]) for each in self.tables], np.int64) for name in ("lo", "hi"))
        self._numbers = [_digits(each["seq"]) for each in self.tables]
        self._starts = np.cumsum([0, *map(len, self.tables)])
        self._attributes = [
            [
                name.removeprefix(PREFIX)
                for name in each.schema.names
                if name not in OWN_COLUMNS and not name.startswith(WHOLE)
            ]
            for each in self.tables
        ]
        order, repeated = self._in_order(lo, hi, sources)
        super().__init__(types[order].astype(np.int32), names, lo[order], hi[order])
        self.order = order
        self.repeated = repeated
        self._codes = sources
        self._columns: dict[str, Column | None] = {}
        self._starts_list = self._starts.tolist()
        self._attribute_columns: dict[int | str, list[tuple[str, Column | None]]] = {}
        self._made: dict[int, Event] = {}

    def column(self, name: str | Handed) -> Column | None:
        if isinstance(name, Handed):
            return None
        if name not in self._columns:
            self._columns[name] = self._column(column_of(name))
        return self._columns[name]

    def event(self, place: int) -> Event:
        # What is part of one match is often part of others, and bound to a variable besides.
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = self._event(place)
        return made

    def _event(self, place: int) -> Event:
        row = int(self.order[place])
        number = bisect_right(self._starts_list, row) - 1
        table, inside = self.tables[number], row - self._starts_list[number]
        high, low = self._numbers[number]
        own = (
            self.type_names[int(self.types[place])],
            int(self.lo[place]),
            int(self.hi[place]),
            self._sources[int(self._codes[row])],
            int(high[inside]) << 64 | int(low[inside]),
            {
                name: None if column is None else column.value(place)
                for name, column in self._columns_of(number, self.type_names[int(self.types[place])])
            },
        )
        constituents = table["constituents"][inside].as_py() if "constituents" in table.schema.names else None
        if constituents is None:
            return Event(*own)
        return CompositeEvent(*own, constituents=tuple(constituents_of(constituents)))

    def _columns_of(self, number: int, type_name: str) -> list[tuple[str, Column | None]]:
        """Attributes of the events of a type in a table."""
        known = self._by_type.get(type_name)
        key = number if known is None else type_name
        found = self._attribute_columns.get(key)
        if found is None:
            found = [(name, self.column(name)) for name in (self._attributes[number] if known is None else known)]
            self._attribute_columns[key] = found
        return found

    def select(self, places: Ints) -> Batch:
        return Batch.of_events([self.event(place) for place in places.tolist()])

    def stretch(self, begin: int, end: int) -> Batch:
        """Events between two positions."""
        return _Stretch(self, begin, end)

    def _in_order(self, lo: Ints, hi: Ints, sources: Ints) -> tuple[Ints, int]:
        """Rows in the order of consumption without duplicates, and the number of duplicates."""
        order = np.argsort(hi, kind="stable")
        sorted_hi = hi[order]
        same = np.flatnonzero(sorted_hi[1:] == sorted_hi[:-1])
        if not len(same):
            return order, 0
        # What is of one instant is put in order by the rest of its keys, all such instants at once.
        tied = np.zeros(len(hi), np.bool_)
        tied[same] = tied[same + 1] = True
        places = np.flatnonzero(tied)
        rows = order[places]
        ranks = _joined([_ranks(each) for each in self.tables], np.int64)
        by_name = np.empty(len(self._sources), np.int64)
        by_name[sorted(range(len(self._sources)), key=self._sources.__getitem__)] = np.arange(len(self._sources))
        high, low = (_joined([each[limb] for each in self._numbers], np.uint64) for limb in range(_LIMBS))
        keys = (low[rows], high[rows], by_name[sources[rows]], ranks[rows], lo[rows], hi[rows])
        rows = rows[np.lexsort(keys)]
        order[places] = rows
        alike = np.ones(len(rows) - 1, np.bool_)
        for each in (low, high, sources, lo, hi):
            alike &= each[rows[1:]] == each[rows[:-1]]
        if not alike.any():
            return order, 0
        kept = np.ones(len(order), np.bool_)
        kept[places[1:][alike]] = False
        return order[kept], int(alike.sum())

    def _column(self, name: str) -> Column | None:
        present = [each for each in self.tables if name in each.schema.names]
        if not present:
            return None
        total = int(self._starts[-1])
        tags, payload = np.zeros(total, np.uint8), np.zeros(total, np.int64)
        texts = Texts()
        for number, table in enumerate(self.tables):
            if name not in table.schema.names:
                continue
            here = slice(int(self._starts[number]), int(self._starts[number + 1]))
            fill(tags[here], payload[here], table, name, texts)
        tags, payload = tags[self.order], payload[self.order]
        return Column(tags, payload, texts.texts if texts.texts else None)


class _Stretch(Batch):
    """Consecutive events of a batch."""

    def __init__(self, whole: TableBatch, begin: int, end: int) -> None:
        super().__init__(whole.types[begin:end], whole.type_names, whole.lo[begin:end], whole.hi[begin:end])
        self._whole, self._begin, self._end = whole, begin, end

    def column(self, name: str | Handed) -> Column | None:
        found = self._whole.column(name)
        if found is None:
            return None
        tags = found.tags if isinstance(found.tags, int) else found.tags[self._begin : self._end]
        return Column(tags, found.payload[self._begin : self._end], found.texts)

    def event(self, place: int) -> Event:
        return self._whole.event(self._begin + place)

    def select(self, places: Ints) -> Batch:
        return self._whole.select(self._begin + places)


def column_values(table: Any, name: str) -> Column | None:
    """A column of a table in the form of the columnar engine; None where it is missing."""
    if name not in table.schema.names:
        return None
    tags, payload, texts = np.zeros(len(table), np.uint8), np.zeros(len(table), np.int64), Texts()
    fill(tags, payload, table, name, texts)
    return Column(tags, payload, texts.texts or None)


def fill(tags: NDArray[np.uint8], payload: Ints, table: Any, name: str, texts: Texts) -> None:
    """Copy the values of a column that are not null, with the whole numbers among fractions."""
    _fill(tags, payload, table[name], texts)
    if WHOLE + name in table.schema.names:
        _fill(tags, payload, table[WHOLE + name], texts)


def _fill(tags: NDArray[np.uint8], payload: Ints, values: Any, texts: Texts) -> None:
    """Copy the values of a column that are not null."""
    there: Any = slice(None) if values.null_count == 0 else numpy_of(pc.is_valid(values))
    kind = values.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        names, codes = _coded([values])
        numbers = np.array(texts.numbers(names) or [0], np.int64)
        payload[there], tags[there] = numbers[codes[there]], TEXT
    elif pa.types.is_boolean(kind):
        payload[there], tags[there] = numpy_of(values)[there], BOOLEAN
    elif pa.types.is_floating(kind):
        floats = numpy_of(values).astype(np.float64, copy=False)
        # NaN reads as null.
        kept = ~np.isnan(floats)
        if values.null_count:
            kept &= there
        payload[kept], tags[kept] = floats.view(np.int64)[kept], FLOAT
    elif pa.types.is_integer(kind):
        payload[there], tags[there] = numpy_of(values).astype(np.int64, copy=False)[there], INTEGER
    else:
        tags[there] = NULL


def _coded(columns: Iterable[Any]) -> tuple[list[str], Ints]:
    """Texts as indices into a list of them; null has index 0."""
    names: dict[str, int] = {}
    parts = []
    for column in columns:
        for chunk in column.chunks:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            mapped = np.array([names.setdefault(each, len(names)) for each in coded.dictionary.to_pylist()], np.int64)
            codes = numpy_of(coded.indices)
            if coded.null_count:
                codes = np.where(numpy_of(pc.is_valid(coded)), codes, 0)
            parts.append(mapped[codes] if len(mapped) else np.zeros(len(codes), np.int64))
    return list(names), _joined(parts, np.int64)


def _ranks(table: Any) -> Ints:
    """Kind of each event, primitive or composite; a type may have both."""
    if "constituents" not in table.schema.names:
        return np.full(len(table), PRIMITIVE)
    return np.where(numpy_of(pc.is_valid(table["constituents"])), COMPOSITE, PRIMITIVE)


def _digits(column: Any) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Sequence numbers as their upper and lower 64 bits."""
    if pa.types.is_decimal(column.type):
        return digits(column)
    return np.zeros(len(column), np.uint64), _ints(column).view(np.uint64)


def _ints(column: Any) -> Ints:
    return np.ascontiguousarray(numpy_of(column), dtype=np.int64)


def _joined(parts: Sequence[Any], kind: Any) -> Any:
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0], dtype=kind)
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False)

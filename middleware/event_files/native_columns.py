"""Tables of the native form read as columns: the events, and the rejected rows, that `native` reads row by row.

Columns of a block of rows are checked as wholes. Rows that fail go to the row-wise reader, which says why. A block goes
there altogether where columns cannot do it: composite events, sequence numbers beyond 64 bits, parts of events as
numbers that are none (binary, decimal), and rows that pass there, spelt in a way that columns do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distced.middleware.event_files.cells import (
    MISSING,
    WHOLE_NUMBER,
    WRONG,
    Ints,
    Mask,
    arrow_mask,
    arrow_of,
    arrow_texts,
    instants_of,
    nulled,
    numbers_of,
    numpy_of,
    plain_texts,
)
from distced.middleware.event_files.event_chunks import EventChunk, chunk_of
from distced.middleware.event_files.native import EventBuilder, Headings, TableForm, instant_of_cell
from distced.middleware.event_files.row_blocks import Row, RowBlock
from distced.middleware.event_files.rows import Rows
from distced.middleware.event_files.tables import WHOLE, batch_rows, column_of
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, Kind, event_type, kind_of
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MAX

_EXACT: Final = 2**53

Reject = Callable[[Row, DistcedError], None]


class KindChangedError(Exception):
    """A column of text is not of the kind that its first rows have, so that reading begins again."""


class _Unknown(Exception):  # noqa: N818
    """A block that columns do not know; the row-wise reader does."""


class NativeColumns:
    """Reader of blocks of rows in the native form.

    Attributes:
        kinds: of attributes in columns of text, by column; what the first rows show, so that it may change.
    """

    def __init__(
        self,
        rows: Rows,
        headings: Headings,
        noted: Sequence[EventType] | None,
        default_source: str,
        attributes: frozenset[str] | None,
        kinds: dict[str, Kind],
    ) -> None:
        """`attributes`: those to be read, None for all; `kinds`: as they were found by an interrupted reading."""
        self._typed = rows.typed
        self._headings = headings
        self._noted = None if noted is None else headings.noted(noted)
        self._default_source = default_source
        self._attributes = attributes
        self.kinds = kinds
        self._form = TableForm(rows, headings)
        self._form.kinds = self.kinds
        self._form.present = self._noted or {}
        self._builder = EventBuilder(default_source)
        # By type, the columns that any row has, and those that any event has a value for.
        self._present: dict[str, set[str]] = {}
        self._valued: dict[str, set[str]] = {}
        self._column_kinds: dict[str, Kind] = {}
        self._good_types: dict[str, bool] = {}

    def attributes(self) -> dict[str, list[str]]:
        """Attributes of the events of each type, in their order."""
        if self._noted is not None:
            return {
                name: [self._headings.attributes[column] for column in columns] for name, columns in self._noted.items()
            }
        one = len(self._present) == 1
        return {
            name: [attribute for column, attribute in self._headings.attributes.items() if one or column in present]
            for name, present in self._present.items()
        }

    def types(self) -> tuple[EventType, ...]:
        """Event types of the events read; an attribute that is null throughout is taken for a number."""
        columns = {attribute: column for column, attribute in self._headings.attributes.items()}
        found = []
        attributes = self.attributes()
        for name, valued in self._valued.items():
            kinds = {
                each: self._kind(columns[each]) if columns[each] in valued else "number"
                for each in attributes.get(name, self._headings.attributes.values())
            }
            found.append(event_type(name, kinds))
        return tuple(found)

    def read(self, block: RowBlock, reject: Reject) -> EventChunk:
        """Events of a block; rejected rows, in their order, go to `reject`."""
        table = block.table
        if any(row.problem is not None for _, row in block.problems):
            self._present.setdefault("None", set())
        rejected: list[tuple[int, Row, DistcedError]] = [
            (place, row, row.problem) for place, row in block.problems if row.problem is not None
        ]
        try:
            chunk, wrong = self._columns(table, block.numbers)
        except _Unknown:
            chunk, wrong = self._by_rows(table, block.numbers)
        # A row that cannot be read comes before the row of the table that follows it.
        merged = sorted([*((place, 0, row, why) for place, row, why in rejected),
                         *((place, 1, row, why) for place, row, why in wrong)], key=lambda each: each[:2])  # fmt: skip
        for _, _, row, why in merged:
            reject(row, why)
        return chunk

    def _kind(self, column: str) -> Kind:
        return self._column_kinds.get(column, "number") if self._typed else self.kinds.get(column, "number")

    def _columns(self, table: Any, numbers: Ints) -> tuple[EventChunk, list[tuple[int, Row, DistcedError]]]:
        count = len(table)
        good = np.ones(count, np.bool_)
        codes, names = _coded(self._text(table, "type"))
        types = np.array([self._is_type(name) for name in names] + [False])
        good &= types[codes]
        columns = self._read_attributes(table, codes, names, good)
        if "constituents" in self._own and not _missing(table[self._own["constituents"]]).all():
            raise _Unknown
        lo, hi, timed = self._times(table)
        good &= timed & (lo <= hi)
        sequence, numbered, right = self._numbers(table)
        good &= right
        wrong, recovered = self._checked(table, numbers, good)
        if recovered:
            raise _Unknown
        sources, source_names = _coded(self._text(table, "source"))
        sources = np.where(sources < 0, len(source_names), sources)
        source_names = [*source_names, self._default_source]
        self._count(sequence, sources, source_names, good & ~numbered)
        numbers_found, firsts = np.unique(codes[good], return_index=True)
        for number in numbers_found[np.argsort(firsts)].tolist():
            self._valued.setdefault(names[number], set())
        for column, (_, there) in columns.items():
            for number in np.flatnonzero(np.bincount(codes[good & there], minlength=len(names))).tolist():
                self._valued[names[number]].add(column)
        data = {
            "type": _dictionary(codes, names),
            "lo": arrow_of(lo),
            "hi": arrow_of(hi),
            "source": _dictionary(sources, source_names),
            "seq": arrow_of(sequence),
        }
        for column, (arrays, _) in columns.items():
            name = self._headings.attributes[column]
            if self._attributes is None or name in self._attributes:
                data |= {prefix + column_of(name): array for prefix, array in arrays.items()}
        found = pa.table(data)
        if not good.all():
            found = found.filter(arrow_mask(good))
        return EventChunk((found,), np.arange(len(found))), wrong

    @property
    def _own(self) -> dict[str, str]:
        return self._headings.own

    def _is_type(self, name: str) -> bool:
        known = self._good_types.get(name)
        if known is None:
            try:
                known = bool(event_type(name))
            except DistcedError:
                known = False
            self._good_types[name] = known
        return known

    def _text(self, table: Any, part: str) -> Any | None:
        """Texts of a part of events, null where there are none."""
        column = self._own.get(part)
        if column is None:
            return pa.nulls(len(table), pa.string())
        values = table[column]
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            if pa.types.is_null(kind):
                return pa.nulls(len(table), pa.string())
            raise _Unknown
        return values

    def _times(self, table: Any) -> tuple[Ints, Ints, Mask]:
        """Begins and ends of the timestamps, and which rows have one."""
        found = {name: self._instants(table[self._own[name]]) for name in ("time", "lo", "hi") if name in self._own}
        nothing = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_), np.ones(len(table), np.bool_)
        (time, there, known), (lo, has_lo, lo_known), (hi, has_hi, hi_known) = (
            found.get(name, nothing) for name in ("time", "lo", "hi")
        )
        both = has_lo & has_hi & lo_known & hi_known & ~there
        alone = there & known & ~has_lo & ~has_hi
        return np.where(there, time, lo), np.where(there, time, hi), both | alone

    def _instants(self, values: Any) -> tuple[Ints, Mask, Mask]:
        """Instants of a column, which cells hold anything, and which of those an instant."""
        there = ~_missing(values)
        kind = values.type
        if pa.types.is_timestamp(kind):
            try:
                values = values.cast(pa.timestamp("ns", kind.tz))
            except pa.ArrowInvalid:
                raise _Unknown from None
            return numpy_of(values), there, there
        if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
            return numpy_of(values).astype(np.int64), there, there
        if pa.types.is_floating(kind):
            floats = np.where(there, numpy_of(values).astype(np.float64), 0.0)
            there &= ~np.isnan(floats)
            whole = there & (floats == np.floor(floats)) & (np.abs(floats) <= _EXACT)
            return np.where(whole, floats, 0).astype(np.int64), there, whole
        if pa.types.is_null(kind):
            return np.zeros(len(values), np.int64), there, there
        if pa.types.is_date(kind) or _is_text(kind):
            found, known = instants_of(plain_texts(values), instant_of_cell)
            return found, there, known
        raise _Unknown

    def _numbers(self, table: Any) -> tuple[Ints, Mask, Mask]:
        """Sequence numbers, which rows have one, and in which all is right."""
        nothing = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_), np.ones(len(table), np.bool_)
        if "seq" not in self._own:
            return nothing
        values = table[self._own["seq"]]
        if _is_text(values.type):
            read = numbers_of(plain_texts(values), exactly=False)
            there = read.contents != MISSING
            return read.whole.copy(), there, ~there | ((read.contents == WHOLE_NUMBER) & (read.whole >= 0))
        numbers, there, known = self._instants(values) if not pa.types.is_timestamp(values.type) else _raise()
        return numbers.copy(), there, ~there | (known & (numbers >= 0))

    def _read_attributes(
        self, table: Any, codes: Ints, names: Sequence[str], good: Mask
    ) -> dict[str, tuple[dict[str, Any], Mask]]:
        """By column, arrays with the values by prefix of their column, and which rows have one."""
        found = {}
        seen = [self._present.setdefault(name, set()) for name in names]
        if (codes < 0).any():
            self._present.setdefault("None" if self._typed else "", set())
        by_type = np.array([0])
        for column in self._headings.attributes:
            asked: Mask | None = None
            if self._noted is not None:
                # What is noted of a type is all that its events have.
                by_type = np.array([column in self._noted.get(name, (column,)) for name in names] + [True])
                asked = by_type[codes]
            if self._typed:
                arrays, there, right = self._typed_values(table, column)
            else:
                arrays, there, right = self._text_values(table, column)
            # An empty text is a value, but it does not say that events of this type have the attribute.
            filled = there & ~_missing(table[column]) if self._typed and _is_text(table[column].type) else there
            for number in np.flatnonzero(np.bincount(codes[filled & (codes >= 0)], minlength=len(names))).tolist():
                seen[number].add(column)
            good &= right if asked is None else right | ~asked
            found[column] = arrays, there if asked is None else there & asked
        return found

    def _text_values(self, table: Any, column: str) -> tuple[dict[str, Any], Mask, Mask]:
        texts = plain_texts(table[column])
        there = ~_missing(texts)
        declared = self._headings.declared.get(column)
        kind = declared or self.kinds.get(column)
        right = np.ones(len(texts), np.bool_)
        wanted = self._attributes is None or self._headings.attributes[column] in self._attributes
        if kind in (None, "number"):
            numbers = numbers_of(texts)
            right = numbers.contents != WRONG
            if right.all() or declared:
                self.kinds[column] = "number"
                fractions, whole = numbers.arrays()
                return _both(fractions, whole, len(texts)), there, right
            kind = self._guess(column, "boolean")
        if kind == "boolean":
            coded = texts.dictionary_encode()
            lowered = [each.lower() for each in coded.dictionary.to_pylist()]
            indices = numpy_of(coded.indices)
            known = np.array([each in ("true", "false") for each in lowered] + [False])[indices]
            true = np.array([each == "true" for each in lowered] + [False])[indices]
            right = known | ~there
            if right.all() or declared:
                self.kinds[column] = "boolean"
                return {"": nulled(arrow_mask(true), there)}, there, right
            self._guess(column, "string")
            right = np.ones(len(texts), np.bool_)
        self.kinds[column] = "string"
        return {"": nulled(texts, there)} if wanted else {}, there, right

    def _guess(self, column: str, kind: Kind) -> Kind:
        """Go on with another kind; what was read before must have been empty."""
        self.kinds[column] = kind
        if any(column in present for present in self._present.values()):
            raise KindChangedError
        return kind

    def _typed_values(self, table: Any, column: str) -> tuple[dict[str, Any], Mask, Mask]:
        values = table[column]
        kind = values.type
        there = ~_missing(values, empty=False)
        right = np.ones(len(values), np.bool_)
        if WHOLE + column in table.schema.names:
            whole = table[WHOLE + column]
            has_whole = ~_missing(whole, empty=False)
            if not (pa.types.is_floating(kind) and pa.types.is_int64(whole.type)) or (there & has_whole).any():
                raise _Unknown
            self._column_kinds[column] = "number"
            present = _not_nan(values, there)
            return (
                _both(nulled(_one(values).cast(pa.float64()), present), _one(whole), len(values)),
                there | has_whole,
                right,
            )
        if pa.types.is_integer(kind):
            if pa.types.is_uint64(kind) and len(values) and (pc.max(values).as_py() or 0) > INSTANT_MAX:
                raise _Unknown
            self._column_kinds[column] = "number"
            return {"": _one(values).cast(pa.int64())}, there, right
        if pa.types.is_floating(kind):
            self._column_kinds[column] = "number"
            return {"": nulled(_one(values).cast(pa.float64()), _not_nan(values, there))}, there, right
        if pa.types.is_boolean(kind):
            self._column_kinds[column] = "boolean"
            return {"": _one(values)}, there, right
        if pa.types.is_null(kind):
            return {"": pa.nulls(len(values), pa.float64())}, there, right
        if pa.types.is_duration(kind):
            self._column_kinds[column] = "number"
            return {"": _one(values).cast(pa.int64())}, there, right
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            values = values.cast(pa.timestamp(kind.unit, "UTC"))
        elif not (_is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)):
            raise _Unknown
        self._column_kinds[column] = "string"
        return {"": plain_texts(values)}, there, right

    def _checked(self, table: Any, numbers: Ints, good: Mask) -> tuple[list[tuple[int, Row, DistcedError]], bool]:
        """Reasons of the rows that are not good; whether one is good after all."""
        found: list[tuple[int, Row, DistcedError]] = []
        for place, row in _rows(table, numbers, np.flatnonzero(~good)):
            made = self._build(row, EventBuilder(self._default_source))
            if isinstance(made, Event):
                return [], True
            found.append((place, row, made))
        return found, False

    def _by_rows(self, table: Any, numbers: Ints) -> tuple[EventChunk, list[tuple[int, Row, DistcedError]]]:
        """The same, row by row."""
        events, wrong = [], []
        for place, row in _rows(table, numbers, np.arange(len(table))):
            made = self._build(row, self._builder)
            if not isinstance(made, Event):
                wrong.append((place, row, made))
                continue
            events.append(made)
            valued = self._valued.setdefault(made.type, set())
            for column, name in self._headings.attributes.items():
                kind = kind_of(made.attributes.get(name))
                if kind is not None:
                    valued.add(column)
                    self._column_kinds.setdefault(column, kind)
        if not self._typed or self._noted is None:
            self._look(table)
        return chunk_of(events), wrong

    def _look(self, table: Any) -> None:
        """Note the columns of each type, as `TableForm` does."""
        for row in batch_rows_of(table):
            present = self._present.setdefault(str(row.get(self._own["type"])), set())
            present |= {column for column in self._headings.attributes if row.get(column) not in (None, "")}

    def _build(self, row: Row, builder: EventBuilder) -> Event | DistcedError:
        try:
            return builder.build(self._form.of_row(row.fields))
        except DistcedError as error:
            return error

    def _count(self, sequence: Ints, sources: Ints, names: Sequence[str], uncounted: Mask) -> None:
        """Give the events without a sequence number the next ones of their sources."""
        places = np.flatnonzero(uncounted)
        if not len(places):
            return
        order = places[np.argsort(sources[places], kind="stable")]
        begins = np.flatnonzero(np.diff(sources[order], prepend=-1))
        ends = np.append(begins[1:], len(order))
        counted = self._builder.counted
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            name = names[int(sources[order[begin]])]
            first = counted.get(name, 0)
            sequence[order[begin:end]] = np.arange(first, first + end - begin)
            counted[name] = first + end - begin


def _raise() -> Any:
    raise _Unknown


def _rows(table: Any, numbers: Ints, places: Ints) -> Iterator[tuple[int, Row]]:
    if len(places):
        for place, fields in zip(places.tolist(), rows_at(table, places), strict=True):
            yield place, Row(int(numbers[place]), fields)


def rows_at(table: Any, places: Ints) -> Iterator[dict[str, object]]:
    """Rows of a table at some places."""
    if np.array_equal(places, np.arange(len(table))):
        return batch_rows_of(table)
    try:
        return batch_rows_of(table.take(arrow_of(places.astype(np.int64))))
    except pa.ArrowNotImplementedError:  # not for polars' texts
        return (row for place in places.tolist() for row in batch_rows_of(table.slice(place, 1)))


def batch_rows_of(table: Any) -> Iterator[dict[str, object]]:
    """Rows of a table."""
    for batch in table.to_batches():
        yield from batch_rows(batch)


def _one(column: Any) -> Any:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    return column


def _is_text(kind: Any) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _missing(column: Any, *, empty: bool = True) -> Mask:
    """Which cells hold nothing: null, or (`empty`) an empty text."""
    found = numpy_of(pc.is_null(column)) if column.null_count else np.zeros(len(column), np.bool_)
    if empty and _is_text(column.type):
        texts = plain_texts(column)
        found = found | (numpy_of(pc.binary_length(texts)) == 0)
    return found


def _not_nan(column: Any, there: Mask) -> Mask:
    found: Mask = there & ~np.isnan(numpy_of(column))
    return found


def _both(fractions: Any | None, whole: Any | None, count: int) -> dict[str, Any]:
    """Numbers as columns of the native form."""
    if fractions is None:
        return {"": whole if whole is not None else pa.nulls(count, pa.float64())}
    return {"": fractions} if whole is None else {"": fractions, WHOLE: whole}


def _coded(column: Any) -> tuple[Ints, list[str]]:
    """Texts as indices into the list of them; -1 for null and for an empty one."""
    coded = plain_texts(column).dictionary_encode()
    names = coded.dictionary.to_pylist()
    missing = _missing(coded.indices)
    codes = np.where(missing, -1, numpy_of(coded.indices).astype(np.int64))
    if "" in names:
        codes[codes == names.index("")] = -1
    return codes, names


def _dictionary(codes: Ints, names: Sequence[str]) -> Any:
    """Texts by their indices; what is not there is anything."""
    indices = arrow_of(np.maximum(codes, 0).astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, arrow_texts(names or [""]))

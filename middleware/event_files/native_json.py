"""JSON lines of the native form read as columns: the events, and the rejected rows, that `native` reads row by row.

A block goes row by row where a row would be rejected, or has what columns do not know: composite events, numbers beyond
64 bits, sequence numbers in some rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from distced.middleware.event_files.cells import Ints, arrow_mask, arrow_of, arrow_texts, instants_of, nulled
from distced.middleware.event_files.event_chunks import EventChunk, chunk_of
from distced.middleware.event_files.native import EventBuilder, JsonEvent, instant_of_cell, of_json
from distced.middleware.event_files.row_blocks import LIST_ROWS, Row, batches_until_error
from distced.middleware.event_files.rows import JsonTextRows
from distced.middleware.event_files.tables import WHOLE, column_of
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import Kind, event_type
from distced.middleware.model.events import Attribute, Event

_decode: Final = msgspec.json.Decoder(JsonEvent).decode
_NONE: Final = frozenset({type(None)})


class _Unknown(Exception):  # noqa: N818
    """A block that columns do not know; the row-wise reader does."""


class NativeJson:
    """Reader of JSON rows in the native form; rejected rows, in their order, go to `reject`.

    Attributes:
        builder: what is known of the types and sources.
    """

    def __init__(self, rows: JsonTextRows, default_source: str, reject: Callable[[Row, DistcedError], None]) -> None:
        self.builder = EventBuilder(default_source)
        self._rows = rows
        self._default_source = default_source
        self._reject = reject

    def blocks(self) -> Iterator[tuple[int, EventChunk]]:
        """Numbers of rows, and their events."""
        for some in batches_until_error(self._rows.lines(), LIST_ROWS):
            yield len(some), self._read(some)

    def _read(self, lines: Sequence[tuple[int, bytes]]) -> EventChunk:
        try:
            # What is read at once is what is read as any object first, where it can be read.
            return self._columns([_decode(text) for _, text in lines])
        except (_Unknown, ValueError, RecursionError, DistcedError, OverflowError):
            return chunk_of([event for number, text in lines if (event := self._event(number, text)) is not None])

    def _event(self, number: int, text: bytes) -> Event | None:
        row = self._rows.row(number, text)
        try:
            if row.problem is not None:
                raise row.problem
            return self.builder.build(of_json(row.fields))
        except DistcedError as error:
            self._reject(row, error)
        return None

    def _columns(self, rows: Sequence[JsonEvent]) -> EventChunk:
        if any(each.constituents is not None for each in rows):
            raise _Unknown
        lo, hi = _times(rows)
        if (lo > hi).any():
            raise _Unknown
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, each in enumerate(rows):
            groups.setdefault((each.type, *each.attributes), []).append(place)
        # Nothing is noted of a block before all of it is known to be right.
        kinds = {name: dict(known) for name, known in self.builder.kinds.items()}
        columns = []
        for (name, *attributes), places in groups.items():
            event_type(name)
            known = kinds.setdefault(name, {})
            mine = [rows[place].attributes for place in places]
            columns.append({each: _column(name, each, [row[each] for row in mine], known) for each in attributes})
        names: dict[str, int] = {}
        sources = [self._default_source if each.source is None else each.source for each in rows]
        codes = np.array([names.setdefault(each, len(names)) for each in sources], np.int64)
        if "" in names:
            raise _Unknown
        seq = self._numbers([each.seq for each in rows], codes, list(names))
        self.builder.kinds = kinds
        tables, order = [], []
        texts = arrow_texts(list(names))
        for (name, *_), places, arrays in zip(groups, groups.values(), columns, strict=True):
            some = np.array(places, np.int64)
            data = {
                "type": pa.DictionaryArray.from_arrays(arrow_of(np.zeros(len(some), np.int32)), arrow_texts([name])),
                "lo": arrow_of(lo[some]),
                "hi": arrow_of(hi[some]),
                "source": pa.DictionaryArray.from_arrays(arrow_of(codes[some].astype(np.int32)), texts),
                "seq": arrow_of(seq[some]),
            }
            for attribute, found in arrays.items():
                data |= {prefix + column_of(attribute): array for prefix, array in found.items()}
            tables.append(pa.table(data))
            order.append(some)
        return EventChunk(tables, np.concatenate([np.empty(0, np.int64), *order]))

    def _numbers(self, given: Sequence[int | None], codes: Ints, names: Sequence[str]) -> Ints:
        """Sequence numbers; counted where no row has one."""
        if None not in given:
            seq = np.array(given, np.int64)
            if len(seq) and seq.min() < 0:
                raise _Unknown
            return seq
        if any(each is not None for each in given):
            raise _Unknown
        order = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
        counts = np.diff(begins, append=len(order))
        counted = self.builder.counted
        firsts = np.array([counted.get(names[code], 0) for code in codes[order[begins]].tolist()], np.int64)
        seq = np.empty(len(order), np.int64)
        seq[order] = np.arange(len(order)) + np.repeat(firsts - begins, counts)
        for code, first, count in zip(codes[order[begins]].tolist(), firsts.tolist(), counts.tolist(), strict=True):
            counted[names[code]] = first + count
        return seq


def _times(rows: Sequence[JsonEvent]) -> tuple[Ints, Ints]:
    time = [each.time for each in rows]
    lo, hi = [each.lo for each in rows], [each.hi for each in rows]
    if _kinds(time) == _NONE:
        return _instants(lo), _instants(hi)
    if _kinds(lo) | _kinds(hi) != _NONE:
        raise _Unknown
    found = _instants(time)
    return found, found


def _instants(values: Sequence[Any]) -> Ints:
    kinds = _kinds(values)
    if kinds <= {int}:
        return np.array(values, np.int64)
    if kinds != {str}:
        raise _Unknown
    found, known = instants_of(arrow_texts(values), instant_of_cell)
    if not known.all():
        raise _Unknown
    return found


def _kinds(values: Sequence[object]) -> frozenset[type]:
    return frozenset(map(type, values))


def _column(type_name: str, name: str, values: Sequence[Attribute], known: dict[str, Kind | None]) -> dict[str, Any]:
    """Arrays of an attribute by prefix of their column; its kind is noted."""
    kinds = _kinds(values) - _NONE
    found: set[Kind | None] = {"boolean" if each is bool else "string" if each is str else "number" for each in kinds}
    if len(found) > 1:
        raise _Unknown
    kind = next(iter(found), None)
    if name not in known:
        event_type(type_name, {name: kind or "number"})
        known[name] = kind
    elif kind is not None:
        if known[name] not in (None, kind):
            raise _Unknown
        known[name] = kind
    there = np.array([each is not None for each in values], np.bool_)
    if kind == "string":
        return {"": arrow_texts(values)}  # type: ignore[arg-type]
    if kind == "boolean":
        return {"": nulled(arrow_mask(np.array([each is True for each in values], np.bool_)), there)}
    if kind is None:
        return {"": pa.nulls(len(values), pa.float64())}
    arrays = {}
    for each, prefix, instead in ((float, "", 0.0), (int, WHOLE if float in kinds else "", 0)):
        if each in kinds:
            mine = there if len(kinds) == 1 else np.array([type(value) is each for value in values], np.bool_)
            filled = values if mine.all() else [value if type(value) is each else instead for value in values]
            numbers = np.array(filled, np.float64 if each is float else np.int64)
            if each is float and np.isnan(numbers).any():
                raise _Unknown
            arrays[prefix] = arrow_of(numbers, mine)
    return arrays

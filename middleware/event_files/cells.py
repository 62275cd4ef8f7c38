"""Cells of a text column as numbers and instants, many at a time.

Only spellings whose value is beyond doubt are read here: digits with a sign and a point, ISO 8601 of the common forms.
The others are left to the functions for single cells, once for each distinct text, so that the values are those of the
row-wise reader to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distced.middleware.mapping.conversion import to_number
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MAX, INSTANT_MIN, MINUTE, SECOND

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MISSING: Final = 0
WHOLE_NUMBER: Final = 1
FRACTION: Final = 2
WRONG: Final = 3
"""Contents of a cell: nothing, an integer, a float, something else."""

_DIGITS: Final = 18  # decimal digits that surely fit into 64 bits
_LONGEST: Final = 40  # characters of a number read here
_DATE_AND_TIME: Final = len("2000-01-01T00:00:00")
_ZERO, _NINE, _MINUS, _POINT = b"09-."


# pyarrow imports pandas for every array that is made of a list or of numpy's; buffers need no such thing.


def numpy_of(array: Any) -> NDArray[Any]:
    """Values of an Arrow array of numbers, instants or booleans, without a copy where it can be; null is anything."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            return numpy_of(array.chunk(0))
        return np.concatenate([np.empty(0, _dtype(array.type)), *map(numpy_of, array.chunks)])
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
        return numpy_of(array).astype(np.bool_)
    data = array.buffers()[1]
    kind = _dtype(array.type)
    return np.empty(0, kind) if data is None else np.frombuffer(data, kind)[array.offset : array.offset + len(array)]


def _dtype(kind: Any) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype(np.bool_)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return np.dtype(np.int64)
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return found


def arrow_of(values: NDArray[Any], there: Mask | None = None) -> Any:
    """Arrow array of numbers, null where they are not `there`."""
    kind = pa.from_numpy_dtype(values.dtype)
    valid = None if there is None or there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def arrow_mask(mask: Mask) -> Any:
    """Arrow array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))])


def nulled(array: Any, there: Mask) -> Any:
    """Arrow array (of no nested type) with nulls where nothing is `there`, and nowhere else."""
    if there.all():
        return array
    bits = np.packbits(np.concatenate([np.zeros(array.offset, np.bool_), there]), bitorder="little")
    return pa.Array.from_buffers(
        array.type, len(array), [pa.py_buffer(bits), *array.buffers()[1:]], offset=array.offset
    )


def arrow_texts(texts: Sequence[str | None]) -> Any:
    """Arrow array of texts; None is null."""
    encoded = [b"" if each is None else each.encode() for each in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    there = np.array([each is not None for each in texts], np.bool_)
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


class Numbers(NamedTuple):
    """Numbers of a column: contents of each cell, and its value as an integer or a float."""

    contents: NDArray[np.uint8]
    whole: Ints
    fractions: NDArray[np.float64]

    def of(self, rows: Ints | Mask) -> Numbers:
        """Numbers of some rows."""
        return Numbers(self.contents[rows], self.whole[rows], self.fractions[rows])

    def arrays(self) -> tuple[Any | None, Any | None]:
        """Arrow arrays of the floats and of the integers; None where there are none."""
        found = []
        for kind, values in ((FRACTION, self.fractions), (WHOLE_NUMBER, self.whole)):
            mine = self.contents == kind
            found.append(arrow_of(values, mine) if mine.any() else None)
        return found[0], found[1]


class _Texts:
    """Texts of a column as bytes; a null is empty."""

    def __init__(self, column: Any) -> None:
        self.column = _without_null(column) if column.null_count else column
        count = len(column)
        _, offsets, data = self.column.buffers()
        starts = np.frombuffer(offsets, np.int32)[column.offset if self.column is column else self.column.offset :]
        self.starts = starts[: count + 1].astype(np.int64)
        held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        self.data = held[self.starts[0] : self.starts[-1]]
        self.starts = self.starts - self.starts[0]
        self.lengths = np.diff(self.starts)


def _without_null(column: Any) -> Any:
    """A column of strings with an empty one for each null."""
    nothing = [None, pa.py_buffer(np.zeros(len(column) + 1, np.int32)), pa.py_buffer(b"")]
    return pc.if_else(pc.is_valid(column), column, pa.Array.from_buffers(pa.string(), len(column), nothing))


def plain_texts(column: Any) -> Any:
    """A column of texts of any representation as one array of strings."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def numbers_of(column: Any, *, exactly: bool = True) -> Numbers:
    """Numbers of a column of strings, as `to_number` reads each; or only those of the plainest spelling."""
    texts = _Texts(column)
    count = len(texts.lengths)
    contents = np.where(texts.lengths == 0, MISSING, WHOLE_NUMBER).astype(np.uint8)
    whole, fractions = np.zeros(count, np.int64), np.zeros(count, np.float64)
    places = np.flatnonzero((texts.data - np.uint8(_ZERO)) > _NINE - _ZERO)
    digits = texts.lengths
    if len(places):
        cells = np.searchsorted(texts.starts, places, "right") - 1
        signs, inside = texts.data[places], places - texts.starts[cells]
        minus = (signs == _MINUS) & (inside == 0)
        point = signs == _POINT
        # A point stands between digits.
        lone = point & ((inside == 0) | (inside == texts.lengths[cells] - 1))
        after = np.zeros(len(places), np.bool_)
        after[1:] = minus[:-1] & (places[1:] == places[:-1] + 1)
        wrong = ~(minus | point) | lone | (point & after)
        contents[np.bincount(cells[point], minlength=count) == 1] = FRACTION
        contents[np.bincount(cells[point], minlength=count) > 1] = WRONG
        contents[cells[wrong]] = WRONG
        digits = texts.lengths - np.bincount(cells[minus], minlength=count)
        contents[(digits == 0) & (texts.lengths > 0)] = WRONG
    contents[(contents == WHOLE_NUMBER) & (digits > _DIGITS)] = WRONG
    contents[texts.lengths > _LONGEST] = WRONG
    for kind, values, target in ((WHOLE_NUMBER, whole, pa.int64()), (FRACTION, fractions, pa.float64())):
        mine = contents == kind
        if mine.all():
            values[:] = numpy_of(texts.column.cast(target))
        elif mine.any():
            values[mine] = numpy_of(texts.column.filter(arrow_mask(mine)).cast(target))
    doubtful = np.flatnonzero(contents == WRONG) if exactly else np.empty(0, np.int64)
    for value, rows in _distinct(texts.column, doubtful, to_number):
        if type(value) is int:
            contents[rows], whole[rows] = WHOLE_NUMBER, value
        elif value is not None:
            contents[rows], fractions[rows] = FRACTION, value
    return Numbers(contents, whole, fractions)


def instants_of(column: Any, read: Callable[[str], int], *, counts: bool = True) -> tuple[Ints, Mask]:
    """Instants of a column of strings, and which cells hold one: ISO 8601 and, where `counts`, numbers of ns.

    `read` reads one text that is spelt otherwise.
    """
    texts = _Texts(column)
    at_once = _all_counts(texts) if counts else None
    if at_once is None:
        at_once = _all_iso(texts)
    if at_once is not None:
        return at_once, texts.lengths > 0
    found, known = np.zeros(len(texts.lengths), np.int64), np.zeros(len(texts.lengths), np.bool_)
    for length in np.unique(texts.lengths).tolist():
        rows = np.flatnonzero(texts.lengths == length)
        for read_all, least, most in ((_counts, 1, _DIGITS + 1), (_iso, _DATE_AND_TIME, _LONGEST))[not counts :]:
            if least <= length <= most and len(rows):
                cells = texts.data[texts.starts[rows][:, None] + np.arange(length)]
                good, values = read_all(cells)
                found[rows[good]], known[rows[good]] = values[good], True
                rows = rows[~good]
    doubtful = np.flatnonzero(~known & (texts.lengths > 0))
    for value, rows in _distinct(texts.column, doubtful, read):
        if value is not None and INSTANT_MIN <= value <= INSTANT_MAX:
            found[rows], known[rows] = value, True
    return found, known


def _all_counts(texts: _Texts) -> Ints | None:
    """Instants of texts that are all whole numbers of ns and surely fit into 64 bits; None for others."""
    if not len(texts.lengths) or not 0 < texts.lengths.min() <= texts.lengths.max() <= _DIGITS + 1:
        return None
    if ((texts.data - np.uint8(_ZERO)) > _NINE - _ZERO).any():
        return None
    if (texts.data[texts.starts[:-1][texts.lengths > _DIGITS]] == _NINE).any():
        return None
    return numpy_of(texts.column.cast(pa.int64()))


def _all_iso(texts: _Texts) -> Ints | None:
    """Instants of texts that Arrow reads all; None where it does not, or where they may exceed 64 bits."""
    if not len(texts.lengths) or texts.lengths.min() < _DATE_AND_TIME:
        return None
    first, second, fifth = (texts.data[texts.starts[:-1] + place] for place in (0, 1, 4))
    early = (first == ord("1")) & (second >= ord("7"))
    if not ((early | ((first == ord("2")) & (second <= ord("1")))) & (fifth == _MINUS)).all():
        return None
    # An attempt that fails takes Arrow ten times as long, so it is made where it is likely to succeed.
    zoned = bool(np.isin(texts.data[_DATE_AND_TIME : texts.lengths[0]], np.frombuffer(b"Z+-", np.uint8)).any())
    try:
        return numpy_of(texts.column.cast(pa.timestamp("ns", "UTC" if zoned else None)))
    except pa.ArrowInvalid:
        return None


def _distinct(column: Any, rows: Ints, read: Callable[[str], Any]) -> list[tuple[Any, Ints]]:
    """Values of the distinct texts in some rows, None for errors, each with the rows that hold it."""
    if not len(rows):
        return []
    coded = column.take(arrow_of(rows)).dictionary_encode()
    codes = numpy_of(coded.indices)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
    found = []
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            value = read(text)
        except (DistcedError, ValueError, OverflowError):
            value = None
        found.append((value, rows[order[ends[number] : ends[number + 1]]]))
    return found


def _counts(cells: NDArray[np.uint8]) -> tuple[Mask, Ints]:
    """Whole numbers of ns."""
    values = cells.astype(np.int64) - _ZERO
    minus = cells[:, 0] == _MINUS
    values[minus, 0] = 0
    good = ((values >= 0) & (values <= 9)).all(axis=1) & ~(minus & (cells.shape[1] == 1))
    if cells.shape[1] > _DIGITS:
        good &= values[:, 0] < 9
    found = values @ 10 ** np.arange(cells.shape[1] - 1, -1, -1, dtype=np.int64)
    return good, np.where(minus, -found, found)


_MONTHS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_BEFORE: Final = np.concatenate([[0], np.cumsum(_MONTHS)])
_YEARS: Final = (1678, 2261)  # whole years within 64 bits of ns
_ZONES: Final = (b"Z", b"+00:00")


def _iso(cells: NDArray[np.uint8]) -> tuple[Mask, Ints]:
    """Dates with times in UTC: `2026-11-21T08:00:00`, with up to nine digits of a second and `Z` or `+00:00`."""
    count, length = cells.shape
    good = np.ones(count, np.bool_)
    for place, allowed in ((4, b"-"), (7, b"-"), (10, b"T "), (13, b":"), (16, b":")):
        good &= np.isin(cells[:, place], np.frombuffer(allowed, np.uint8))
    fraction = np.zeros(count, np.int64)
    rest = length - 19
    if rest:
        # All that ends in one way has as many digits; the ways do not overlap.
        ends = np.zeros(count, np.bool_)
        for zone in (b"", *_ZONES):
            digits = rest - len(zone)
            if digits < 0 or digits == 1 or digits > 10:
                continue
            mine = (cells[:, length - len(zone) :] == np.frombuffer(zone, np.uint8)).all(axis=1)
            if digits:
                tens = cells[:, 20 : 19 + digits].astype(np.int64) - _ZERO
                mine &= (cells[:, 19] == _POINT) & ((tens >= 0) & (tens <= 9)).all(axis=1)
                values = tens @ 10 ** np.arange(8, 9 - digits, -1, dtype=np.int64)
                fraction[mine] = values[mine]
            ends |= mine
        good &= ends
    parts = []
    for begin, end in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)):
        tens = cells[:, begin:end].astype(np.int64) - _ZERO
        good &= ((tens >= 0) & (tens <= 9)).all(axis=1)
        parts.append(tens @ 10 ** np.arange(end - begin - 1, -1, -1, dtype=np.int64))
    year, month, day, hour, minute, second = parts
    good &= (year >= _YEARS[0]) & (year <= _YEARS[1]) & (month >= 1) & (month <= 12)
    month = np.where(good, month, 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    good &= (day >= 1) & (day <= _MONTHS[month] + (leap & (month == 2)))
    good &= (hour < 24) & (minute < 60) & (second < 60)
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400
    days += _BEFORE[month] + (leap & (month > 2)) + day - 719_163
    return good, np.where(good, days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction, 0)

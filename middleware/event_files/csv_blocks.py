"""Blocks of a CSV file as columns of text, read by Arrow.

Arrow reads a line that is quoted as the format says. From one that is not (a quote inside a cell or not closed, a cell
with an end of line, a lone carriage return) the rows are read as `CsvRows` reads them, up to a row that is whole again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from distced.middleware.event_files.row_blocks import UNREADABLE, Row, RowBlock, block_of
from distced.middleware.model.errors import EventError, MappingError

BLOCK: Final = 4 * 2**20
"""Bytes read at once."""

_LIMIT: Final = 100_000  # bytes of a line, below the limit of Python's csv module for a cell
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_QUOTE, _NEWLINE, _RETURN, _NUL = b'"\n\r\0'


class ByteLines:
    """Bytes of a file in blocks of whole lines, or line by line; lines can be put back."""

    def __init__(self, file: IO[bytes], longest: int, name: str) -> None:
        """A line that is longer than `longest` is an `EventError`."""
        self._file = cast("io.BufferedReader", file)
        self._longest = longest
        self._name = name
        self._error: Exception | None = None
        self._held, self._at = self._read().removeprefix(b"\xef\xbb\xbf"), 0
        self._lines: list[str] = []

    def block(self) -> bytes:
        """Some whole lines in UTF-8; empty at the end."""
        end = self._held.rfind(b"\n") + 1
        if end <= self._at:
            while self._more() and not (end := self._held.rfind(b"\n") + 1):
                pass
            if end <= self._at:
                end = len(self._held)
        block, self._held, self._at = self._held[self._at : end], self._held[end:], 0
        return _utf8(block)

    def put_back(self, data: bytes) -> None:
        """Read this next."""
        self._held, self._at = data + self._held[self._at :], 0

    def put_back_lines(self, lines: Sequence[str]) -> None:
        """Read these lines next, and the others that were part of the last one."""
        self.put_back("".join([*lines, *self._lines[::-1]]).encode())
        self._lines = []

    def __iter__(self) -> Iterator[str]:
        """Lines of text, which may end with a lone carriage return, too."""
        while True:
            while not self._lines:
                end = self._held.find(b"\n", self._at) + 1
                if not end:
                    if self._more():
                        continue
                    end = len(self._held)
                if end == self._at:
                    return
                line, self._at = self._held[self._at : end], end
                self._lines = _LINE.findall(_utf8(line).decode())[::-1]
            yield self._lines.pop()

    def _more(self) -> bool:
        data = self._read()
        self._held, self._at = self._held[self._at :] + data, 0
        if len(self._held) > self._longest and self._held.find(b"\n", 0, self._longest) < 0:
            raise EventError("a line that is too long", allowed=f"{self._longest >> 20} MiB", where=self._name)
        return bool(data)

    def _read(self) -> bytes:
        """Some bytes; those before the place that cannot be read come before the error."""
        parts: list[bytes] = []
        size = 0
        while size < BLOCK and self._error is None:
            try:
                part = self._file.read1(BLOCK - size)
            except UNREADABLE as error:
                self._error = error
                break
            if not part:
                break
            parts.append(part)
            size += len(part)
        if self._error is not None and not parts:
            raise self._error
        return b"".join(parts)


def _utf8(data: bytes) -> bytes:
    """Bytes that are no UTF-8 as backslash escapes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace").encode()
    return data


def regular_part(block: bytes, separator: bytes) -> int:
    """Length of the lines at the beginning of a block that Arrow reads as Python's csv module does."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    irregular = [len(data)]
    lengths = np.diff(ends, prepend=-1, append=len(data))
    long = np.flatnonzero(lengths > _LIMIT)
    if len(long):
        irregular.append(int(ends[long[0] - 1]) + 1 if long[0] else 0)
    if b"\0" in block:
        irregular.append(block.index(b"\0"))
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        returns = np.flatnonzero(data == _RETURN)
        follows = np.append(data, np.uint8(0))[returns + 1]
        irregular += returns[follows != _NEWLINE][:1].tolist()
    if b'"' in block:
        irregular += _irregular_quotes(data, ends, separator[0])
    first = min(irregular)
    if first == len(data):
        return first
    line = int(np.searchsorted(ends, first))
    return int(ends[line - 1]) + 1 if line else 0


def _irregular_quotes(data: NDArray[np.uint8], ends: NDArray[np.int64], separator: int) -> list[int]:
    """Place of the first quote that neither begins nor ends a cell, nor is one of a pair within."""
    quotes = np.flatnonzero(data == _QUOTE)
    lines = np.searchsorted(ends, quotes)
    odd = np.flatnonzero(np.bincount(lines, minlength=1) % 2)
    found = [int(quotes[np.searchsorted(lines, odd[0])])] if len(odd) else []
    if found:
        quotes = quotes[quotes < found[0]]
    padded = np.concatenate([[_NEWLINE], data, [_NEWLINE]]).astype(np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = padded[opening], padded[closing + 2]
    good = (before == separator) | (before == _NEWLINE)
    good[1:] |= opening[1:] == closing[:-1] + 1
    ended = (after == separator) | (after == _NEWLINE) | (after == _RETURN)
    ended[:-1] |= opening[1:] == closing[:-1] + 1
    found += opening[~good][:1].tolist() + closing[~ended][:1].tolist()
    return found


def read_regular(block: bytes, names: Sequence[str], separator: str, first: int) -> RowBlock:
    """Rows of regular lines, the first of which has this number."""
    bad: list[Any] = []

    def skip(row: Any) -> str:
        bad.append((row.number, row.actual_columns, row.text))
        return "skip"

    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    # Lines without anything are no rows, but they count.
    lengths = np.diff(ends, prepend=-1)
    empty = (lengths == 1) | ((lengths == 2) & (data[np.minimum(ends - 1, len(data) - 1)] == _RETURN))
    numbers = np.flatnonzero(~empty) + first
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), check_utf8=False, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:  # Nothing but bad rows, of which Arrow says otherwise.
        if len(bad) != len(numbers):
            raise
        table = pa.table({name: pa.array([], pa.string()) for name in names})
    problems: list[tuple[int, Row]] = []
    if bad:
        places = np.array([number - 1 for number, _, _ in bad])
        for count, (place, (_, columns, text)) in enumerate(zip(places.tolist(), bad, strict=True)):
            given = separator.join(next(csv.reader([text], delimiter=separator)))
            problem = MappingError(f"{columns} columns in place of {len(names)}", given=given)
            problems.append((place - count, Row(int(numbers[place]), {}, problem)))
        numbers = np.delete(numbers, places)
    return RowBlock(table, numbers, problems)


def csv_blocks(
    file: IO[bytes],
    separator: str,
    names_of: Callable[[Iterator[list[str]]], list[str]],
    some_rows: Callable[[Iterator[str], int, Sequence[str]], tuple[list[Row], list[str], int]],
    *,
    longest: int,
    name: str,
) -> Iterator[RowBlock]:
    """Rows of a CSV file in blocks.

    Args:
        names_of: the names of the columns; it reads a heading.
        some_rows: rows read one by one from lines, with the lines read too much and the number of the last line.
        longest: length of a line that no record has, in a file of this `name`.
    """
    lines = ByteLines(file, longest, name)
    number = 0

    def heading() -> Iterator[str]:
        nonlocal number
        for line in lines:
            number += 1
            yield line

    names = names_of(csv.reader(heading(), delimiter=separator))
    lines.put_back_lines([])
    while block := lines.block():
        length = regular_part(block, separator.encode())
        if length:
            yield read_regular(block[:length], names, separator, number + 1)
            number += block.count(b"\n", 0, length) + (block[length - 1] != _NEWLINE)
        if length < len(block):
            lines.put_back(block[length:])
            rows, again, number = some_rows(iter(lines), number, names)
            lines.put_back_lines(again)
            if rows:
                yield block_of(rows, names)

"""Rows of text files: CSV, JSON lines and arrays, and lines cut up by a separator or a regular expression.

Rows come one by one, with their place in the file, or in blocks of columns, as Arrow reads them. Both are the same
rows, and one bad row is one bad row.

What is decompressed and the length of a line are bounded, so that a file that explodes ends in an error at once.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, AnyStr, Final, cast

import msgspec

from distced.middleware.event_files.row_blocks import (
    BLOCK_ROWS,
    UNREADABLE,
    Fields,
    Row,
    RowBlock,
    batches_until_error,
    block_of,
)
from distced.middleware.mapping.extraction import decode_json, split_columns
from distced.middleware.mapping.schema import FileFormat
from distced.middleware.model.errors import EventError, MappingError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.utf8_text import check_not_utf16

_BY_ROWS: Final = 64  # rows of a CSV file read one by one where a line is irregular


class Rows:
    """Rows of a file or table, read from the start as often as needed; none unless a subclass gives them.

    Attributes:
        name: the path, or a table's name in reports.
        typed: whether values have kinds of their own, or are all text.
        is_text: whether they are in a text file.
    """

    typed = True
    is_text = True

    def __init__(self, name: Path | str) -> None:
        self.name = str(name)

    @property
    def size(self) -> int | None:
        """Bytes of a text file; None for others."""
        path = Path(self.name)
        return path.stat().st_size if self.is_text and path.exists() else None

    def rows(self) -> Iterator[Row]:
        """The rows in their order."""
        return iter(())

    def blocks(self) -> Iterator[RowBlock] | None:
        """The rows in their order, as columns, by pyarrow; None where rows have columns of their own."""
        names = self.columns()
        return None if names is None else _blocks(self.rows(), names)

    def columns(self) -> Sequence[str] | None:
        """Names of the columns; None where each row has its own."""
        return None

    def types(self) -> Sequence[EventType] | None:
        """Event types noted in the file; None for none."""
        return None


def _blocks(rows: Iterator[Row], names: Sequence[str]) -> Iterator[RowBlock]:
    return (block_of(some, names) for some in batches_until_error(rows, BLOCK_ROWS))


class CsvRows(Rows):
    """Rows of a CSV file."""

    typed = False

    def __init__(self, path: Path, columns: Sequence[str] = (), separator: str | None = None) -> None:
        super().__init__(path)
        self._path = path
        self._columns = list(columns)
        self._separator = separator or ","

    def rows(self) -> Iterator[Row]:
        with opened_text(self._path) as file:
            lines = _Lines(bounded_lines(file, self.name))
            reader = self._reader(lines)
            yield from self._parse(lines, reader, self._heading(reader))

    def _parse(self, lines: _Lines, reader: Iterator[list[str]], names: Sequence[str]) -> Iterator[Row]:
        count = len(names)
        while True:
            lines.row.clear()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                first = lines.but_the_first_again()
                yield Row(lines.number, {}, MappingError("not a row of CSV", given=first, advice=str(error)))
                continue
            if len(lines.row) > 1 and lines.ended:
                first = lines.but_the_first_again()
                yield Row(lines.number, {}, MappingError("a quote that is not closed", given=first))
            elif len(cells) == count:
                yield Row(lines.number, dict(zip(names, cells, strict=True)))
            elif cells:
                problem = MappingError(f"{len(cells)} columns in place of {count}", given=self._separator.join(cells))
                yield Row(lines.number, {}, problem)

    def blocks(self) -> Iterator[RowBlock] | None:
        names = self.columns()
        if not names or len(set(names)) < len(names) or not self._separator.isascii() or self._separator in '"\r\n':
            return super().blocks()
        from distced.middleware.event_files.ahead import one_ahead

        return one_ahead(self._by_arrow())

    def _by_arrow(self) -> Generator[RowBlock, None, None]:
        from distced.middleware.event_files.csv_blocks import csv_blocks

        with opened(self._path) as file:
            yield from csv_blocks(
                file, self._separator, self._heading, self._some, longest=LONGEST_LINE, name=self.name
            )

    def _some(self, text: Iterator[str], number: int, names: Sequence[str]) -> tuple[list[Row], list[str], int]:
        """Some rows, read one by one; the lines to be read again, and the number of the last one."""
        lines = _Lines(text, number)
        rows: list[Row] = []
        try:
            rows.extend(islice(self._parse(lines, self._reader(lines), names), _BY_ROWS))
        except UNREADABLE:
            # It comes again with the next line.
            if not rows:
                raise
        return rows, lines.again, lines.number

    def columns(self) -> Sequence[str]:
        with opened_text(self._path) as file:
            return self._heading(self._reader(bounded_lines(file, self.name)))

    def _reader(self, file: Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(file, delimiter=self._separator)

    def _heading(self, lines: Iterator[list[str]]) -> list[str]:
        if self._columns:
            return self._columns
        try:
            names = next(lines, [])
        except csv.Error as error:
            raise MappingError("no heading", where=self.name, advice=str(error)) from None
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise MappingError(
                "columns of one name", given=", ".join(sorted(twice)), allowed="each name once", where=self.name,
                advice="rename them, or give file.columns in the mapping",
            )  # fmt: skip
        return names


class _Lines:
    """Lines of a file, of which those of a row can be read again: a quote that is not closed spoils one line only.

    Attributes:
        row: lines since it was cleared.
        number: of the last one, counted from 1.
        ended: whether there are no more.
    """

    def __init__(self, lines: Iterator[str], number: int = 0) -> None:
        self.row: list[str] = []
        self.number = number
        self.ended = False
        self._lines = lines
        self._again: list[str] = []

    @property
    def again(self) -> list[str]:
        """Lines to be read again."""
        return self._again[::-1]

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else next(self._lines, None)
        if line is None:
            self.ended = True
            raise StopIteration
        self.number += 1
        self.row.append(line)
        return line

    def but_the_first_again(self) -> str:
        """First line of the row; the others come again."""
        first, *others = self.row
        self._again += reversed(others)
        self.number -= len(others)
        self.ended = False
        return first.rstrip("\r\n")


class JsonTextRows(Rows):
    """Rows of JSON, each an object in a text of its own."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Texts of the rows, each with its number."""
        raise NotImplementedError

    def row(self, number: int, text: bytes) -> Row:
        """Row of a text."""
        try:
            fields = decode_json(text)
            if not isinstance(fields, dict):
                raise MappingError("not a JSON object", given=text, allowed='{"name": value, ...}')
            return Row(number, fields)
        except MappingError as error:
            return Row(number, {}, error)

    def rows(self) -> Iterator[Row]:
        return (self.row(number, text) for number, text in self.lines())


class JsonRows(JsonTextRows):
    """Rows of a file of JSON lines."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        with opened_utf8(Path(self.name)) as file:
            for number, line in enumerate(bounded_lines(file, self.name), 1):
                text = (line if number > 1 else line.removeprefix(_BOM)).strip()
                if text:
                    yield number, text
                if number == 1 and text.startswith(b"["):
                    return

    def row(self, number: int, text: bytes) -> Row:
        if number == 1 and text.startswith(b"["):
            return Row(1, {}, MappingError("a JSON array, not JSON lines", given=text, advice=_ARRAY_ADVICE))
        return super().row(number, text)


_BOM: Final = b"\xef\xbb\xbf"
_ARRAY_ADVICE: Final = "call the file .json, or give file.format = 'json' in the mapping"
_elements: Final = msgspec.json.Decoder(list[msgspec.Raw])


class JsonFileRows(JsonTextRows):
    """Rows of a JSON file: the objects of an array, or one object. Numbers of rows are those of the elements.

    An object followed by others is a file of JSON lines with the wrong name, and read as such.
    """

    def lines(self) -> Iterator[tuple[int, bytes]]:
        with opened_utf8(Path(self.name)) as file:
            text = file.read().removeprefix(_BOM).strip()
        if not text:
            return
        if not text.startswith(b"["):
            try:
                msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                if "trailing characters" in str(error):
                    yield from JsonRows(self.name).lines()
                    return
            yield 1, text
            return
        try:
            elements = _elements.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise EventError(
                "not a JSON array", given=self.name, allowed='[{"name": value, ...}, ...]', advice=str(error)
            ) from None
        yield from enumerate(map(bytes, elements), 1)


class TextRows(Rows):
    """Lines of a text file: named columns, the named groups of a regular expression, or one field `value`."""

    typed = False

    def __init__(
        self, path: Path, pattern: str | None = None, columns: Sequence[str] = (), separator: str | None = None
    ) -> None:
        super().__init__(path)
        self._path = path
        self._pattern = None if pattern is None else re.compile(pattern)
        self._columns = list(columns)
        self._separator = separator or " "

    def rows(self) -> Iterator[Row]:
        with opened_text(self._path) as file:
            # Only at ends of lines that editors know too, so that the numbers agree.
            for number, line in enumerate(bounded_lines(file, self.name), 1):
                text = line.rstrip("\r\n")
                if not text.strip():
                    continue
                try:
                    yield Row(number, self._fields(text))
                except MappingError as error:
                    yield Row(number, {}, error)

    def _fields(self, text: str) -> Fields:
        if self._pattern is not None:
            match = self._pattern.search(text)
            if match is None:
                raise MappingError("a line unlike file.pattern", given=text, allowed=self._pattern.pattern)
            return match.groupdict()
        return split_columns(text, self._columns, self._separator) if self._columns else {"value": text}

    def columns(self) -> Sequence[str] | None:
        if self._pattern is not None:
            return list(self._pattern.groupindex)
        return self._columns or ["value"]


FORMATS: Final[dict[str, FileFormat]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".log": "text",
    ".txt": "text",
    ".dat": "text",
}


def format_of(path: Path) -> FileFormat:
    """Format of a file by its name, a final `.gz` aside."""
    suffix = Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix
    found = FORMATS.get(suffix.lower())
    if found is None:
        raise EventError(
            "a file name without a known format",
            given=str(path),
            allowed=f"{', '.join(FORMATS)}, each with .gz",
            advice="rename it, or give file.format in its mapping",
        )
    return found


LONGEST_LINE: Final = 16 << 20
MOST_EXPANSION: Final = 200
"""Bytes of a compressed byte. Recorded events have 5 to 130, one row that is repeated has 350 or more."""

EXPANDED_FREELY: Final = 4 << 20  # bytes that are decompressed at once, of which the expansion counts


def bounded_lines(file: IO[AnyStr], name: str) -> Iterator[AnyStr]:
    """Lines of a file; `EventError` for one that no record has."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise EventError("a line that is too long", allowed=f"{LONGEST_LINE >> 20} MiB", where=name)
        yield line


class _Packed:
    """Compressed bytes, read a few at a time, so that it is known how many were taken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.taken = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, io.DEFAULT_BUFFER_SIZE))
        self.taken += len(data)
        return data


class _Decompressed(io.RawIOBase):
    """Content of a compressed file, which must not explode: some of it is decompressed before any of that is read."""

    def __init__(self, packed: IO[bytes], name: str) -> None:
        super().__init__()
        self._packed = _Packed(packed)
        self._content = gzip.GzipFile(fileobj=cast("IO[bytes]", self._packed), mode="rb")
        self._name = name
        self._ahead = memoryview(b"")
        self._error: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._ahead:
            self._ahead = memoryview(self._decompressed())
        data, self._ahead = self._ahead[: len(buffer)], self._ahead[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _decompressed(self) -> bytes:
        """Some bytes; those before the place that cannot be read come before the error."""
        if self._error is not None:
            raise self._error
        found, before = bytearray(), self._packed.taken
        try:
            while len(found) < EXPANDED_FREELY and (part := self._content.read1(EXPANDED_FREELY - len(found))):
                found += part
        except (OSError, EOFError, zlib.error) as error:
            self._error = error
            if not found:
                raise
        taken = self._packed.taken - before
        if len(found) >= EXPANDED_FREELY and len(found) > MOST_EXPANSION * taken:
            raise EventError(
                "a compressed file that explodes", given=f"{len(found):,} bytes out of {taken:,}",
                allowed=f"{MOST_EXPANSION} bytes out of one", where=self._name,
                advice="decompress it first, if that is meant",
            )  # fmt: skip
        return bytes(found)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Bytes of a file, decompressed where its name ends in `.gz`; `EventError` where it cannot be read."""
    try:
        # The block runs inside, because a broken file shows only while it is read.
        with path.open("rb") as file:
            yield io.BufferedReader(_Decompressed(file, str(path)), 1 << 18) if path.suffix.lower() == ".gz" else file
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> EventError:
    """Error of a recording that cannot be read."""
    if not isinstance(error, FileNotFoundError):
        return EventError("cannot read the recording", given=str(path), advice=str(error))
    folder = path.parent
    near = get_close_matches(path.name, [each.name for each in folder.iterdir()], n=1) if folder.is_dir() else []
    if near:
        advice = f"did you mean {folder / near[0]}?"
    else:
        advice = f"write its path as seen from {Path.cwd()}" if folder.is_dir() else f"there is no folder {folder}"
    allowed = "a file of recorded events, or the folder of an event history"
    return EventError("no such recording", given=str(path), allowed=allowed, advice=advice)


@contextmanager
def opened_utf8(path: Path) -> Iterator[io.BufferedReader]:
    """Bytes of a text file; `EventError` where it is in UTF-16."""
    with opened(path) as file:
        try:
            check_not_utf16(file.peek(4))
        except ValueError as error:
            raise unreadable(path, error) from None
        yield file


@contextmanager
def opened_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Text of a file in UTF-8; other bytes are kept, as backslash escapes."""
    with opened_utf8(path) as file, io.TextIOWrapper(file, "utf-8-sig", errors="backslashreplace", newline="") as text:
        yield text


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """File to be written to, compressed where its name ends in `.gz`; it appears whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as raw:
            if path.suffix.lower() == ".gz":
                # Without the time, so that the same events give the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield raw
        part.replace(path)
    except OSError as error:
        raise EventError("cannot write the recording", given=str(path), advice=str(error)) from None
    finally:
        # Where nothing could be written there is nothing to be removed.
        with suppress(OSError):
            part.unlink(missing_ok=True)

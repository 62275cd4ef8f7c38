"""Rows of Parquet files and of Arrow, pandas and polars tables, and events as an Arrow table.

Tables come through the Arrow C stream interface (`__arrow_c_stream__`), so neither pandas nor polars is imported or
needed. Dates and times become ISO 8601 text, which mappings and the native form both read.

The native form of Parquet files is exact to the kind of number. A number attribute with whole numbers and fractions has
two columns, as Arrow has no column of both: the fractions under its name, the whole numbers under `whole.` and its
name, each null where the other has the value. Floats for all of them were rejected: the id of a composite event tells 3
from 3.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import msgspec

from distced.middleware.event_files.native import OWN_COLUMNS, PREFIX
from distced.middleware.event_files.row_blocks import BLOCK_ROWS, Row, RowBlock
from distced.middleware.event_files.rows import Rows, opened
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import EventType, Kind
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX

TYPES_KEY: Final = b"distced.types"  # entry of a Parquet schema with the event types
WHOLE: Final = "whole."
"""Stands before the second column of a number attribute, which holds the whole numbers among fractions."""

_ALWAYS: Final = ("type", "lo", "hi", "source", "seq", "constituents")
_PANDAS_INDEX: Final = "__index_level_"
_encoder: Final = msgspec.json.Encoder()
_types: Final = msgspec.json.Decoder(list[EventType])


def import_pyarrow() -> Any:
    """pyarrow, or an `EventError` that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise EventError(
            "Parquet files and tables need pyarrow", advice="install the extra: pip install 'distced[tables]'"
        ) from None
    return pyarrow


class TableRows(Rows):
    """Rows of a table in memory."""

    is_text = False

    def __init__(self, table: object, name: str) -> None:
        super().__init__(name)
        pyarrow = import_pyarrow()
        if not isinstance(table, pyarrow.Table) and not hasattr(table, "__arrow_c_stream__"):
            raise EventError(
                "not a table",
                given=type(table).__name__,
                allowed="a table of pyarrow, pandas (2.2 or later) or polars",
                where=name,
            )
        try:
            self._table = pyarrow.table(table)
        except pyarrow.ArrowException as error:
            raise EventError(
                "a table that Arrow cannot hold", where=name, advice=f"give each column one type: {error}"
            ) from None

    def rows(self) -> Iterator[Row]:
        return _numbered(self._table.to_batches(max_chunksize=BLOCK_ROWS))

    def blocks(self) -> Iterator[RowBlock]:
        return _blocks(self._table.to_batches(max_chunksize=BLOCK_ROWS))

    def columns(self) -> Sequence[str]:
        return _names(self._table.schema)

    def types(self) -> Sequence[EventType] | None:
        return noted_types(self._table.schema, self.name)


class ParquetRows(Rows):
    """Rows of a Parquet file."""

    is_text = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import_pyarrow()
        self._path = path

    def rows(self) -> Iterator[Row]:
        with self._file() as file:
            yield from _numbered(file.iter_batches(batch_size=BLOCK_ROWS))

    def blocks(self) -> Iterator[RowBlock]:
        with self._file() as file:
            yield from _blocks(file.iter_batches(batch_size=BLOCK_ROWS, use_threads=False))

    def columns(self) -> Sequence[str]:
        with self._file() as file:
            return _names(file.schema_arrow)

    def types(self) -> Sequence[EventType] | None:
        with self._file() as file:
            return noted_types(file.schema_arrow, self.name)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        pyarrow = import_pyarrow()
        with opened(self._path) as source, arrow_errors(self.name):
            # Parquet is read from its end, which a packed file cannot do.
            packed = self._path.suffix.lower() == ".gz"
            whole = pyarrow.BufferReader(source.read()) if packed else source
            yield pyarrow.parquet.ParquetFile(whole, page_checksum_verification=True)


def _blocks(batches: Iterable[Any]) -> Iterator[RowBlock]:
    import numpy

    pyarrow = import_pyarrow()
    number = 1
    for batch in batches:
        yield RowBlock(pyarrow.table(batch), numpy.arange(number, number + len(batch)), [])
        number += len(batch)


def _numbered(batches: Iterable[Any]) -> Iterator[Row]:
    return map(Row, count(1), chain.from_iterable(map(batch_rows, batches)))


@contextmanager
def arrow_errors(name: str) -> Iterator[None]:
    """Turn errors of Arrow into an `EventError` that names the file."""
    pyarrow = import_pyarrow()
    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise EventError("not something Parquet can do", given=name, advice=str(error)) from None


def batch_rows(batch: Any) -> Iterator[dict[str, object]]:
    """Rows of an Arrow record batch as dictionaries of plain Python values."""
    places = {name: place for place, name in enumerate(batch.schema.names)}
    kept = [place for place, name in enumerate(batch.schema.names) if _is_shown(name)]
    names = [batch.schema.names[place] for place in kept]
    columns: list[Sequence[object]] = []
    for name, place in zip(names, kept, strict=True):
        values: Sequence[object] = _values(batch.column(place))
        if WHOLE + name in places:
            whole = _values(batch.column(places[WHOLE + name]))
            values = [one if other is None else other for one, other in zip(values, whole, strict=True)]
        columns.append(values)
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: Any) -> list[object]:
    pyarrow = import_pyarrow()
    types = pyarrow.types
    kind = column.type
    if types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if types.is_timestamp(kind):
        # In UTC, because the text of another zone needs a zone database that may not be there.
        utc = column if kind.tz is None else column.cast(pyarrow.timestamp(kind.unit, "UTC"))
        return utc.cast(pyarrow.string()).to_pylist()  # type: ignore[no-any-return]
    if types.is_date(kind) or types.is_time(kind):
        return column.cast(pyarrow.string()).to_pylist()  # type: ignore[no-any-return]
    if types.is_duration(kind):
        return column.cast(pyarrow.int64()).to_pylist()  # type: ignore[no-any-return]
    if types.is_decimal(kind):
        values = column.to_pylist()
        return [value if value is None else int(value) if value == int(value) else float(value) for value in values]
    return column.to_pylist()  # type: ignore[no-any-return]


def _names(schema: Any) -> list[str]:
    return [name for name in schema.names if _is_shown(name)]


def _is_shown(name: str) -> bool:
    return not name.startswith((_PANDAS_INDEX, WHOLE))


def noted_types(schema: Any, name: str) -> Sequence[EventType] | None:
    """Event types that the schema of a file notes; None for none."""
    noted = (schema.metadata or {}).get(TYPES_KEY)
    if noted is None:
        return None
    try:
        return _types.decode(noted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventError("event types that cannot be read", given=noted, where=name, advice=str(error)) from None


DIGITS: Final = 29  # of the greatest sequence number of a composite event, a digest of 96 bits


def table_of(
    events: Sequence[Event],
    kinds: Mapping[str, Kind | None],
    types: Iterable[EventType],
    noted: Mapping[bytes, bytes] | None = None,
) -> Any:
    """Events as a table of pyarrow.

    Args:
        kinds: the kind of each attribute; None for one that is null throughout.
        types, noted: event types and further entries to note in the schema.
    """
    pyarrow = import_pyarrow()
    # Where one of them is a digest all are that wide.
    wide = any(event.seq > INSTANT_MAX for event in events)
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    data: list[tuple[str, Any, list[Any]]] = [
        ("type", names, [event.type for event in events]),
        ("lo", pyarrow.int64(), [event.lo for event in events]),
        ("hi", pyarrow.int64(), [event.hi for event in events]),
        ("source", names, [event.source for event in events]),
        ("seq", pyarrow.decimal128(DIGITS, 0) if wide else pyarrow.int64(), [event.seq for event in events]),
    ]
    if any(isinstance(event, CompositeEvent) for event in events):
        data.append(("constituents", pyarrow.string(), [constituents_text(event) for event in events]))
    for name, kind in kinds.items():
        data += _columns(column_of(name), kind, [event.attributes.get(name) for event in events])
    metadata = {TYPES_KEY: _encoder.encode(list(types)), **(noted or {})}
    schema = pyarrow.schema([pyarrow.field(name, kind) for name, kind, _ in data], metadata=metadata)
    return pyarrow.Table.from_arrays([pyarrow.array(values, kind) for _, kind, values in data], schema=schema)


def column_of(attribute: str) -> str:
    """Column of an attribute."""
    return PREFIX + attribute if attribute in OWN_COLUMNS else attribute


def columns_read(names: frozenset[str] | None, columns: Iterable[str]) -> list[str]:
    """Columns of events with these attributes; all for None."""
    if names is None:
        return list(columns)
    return [name for name in columns if name in _ALWAYS or name.removeprefix(WHOLE).removeprefix(PREFIX) in names]


def constituents_text(event: Event) -> str | None:
    """Cell with the ids of the constituents; None for a primitive event."""
    if not isinstance(event, CompositeEvent):
        return None
    return json.dumps(event.constituents, ensure_ascii=False, separators=(",", ":"))


def _columns(name: str, kind: Kind | None, values: list[Attribute]) -> list[tuple[str, Any, list[Any]]]:
    pyarrow = import_pyarrow()
    if kind == "string":
        return [(name, pyarrow.string(), values)]
    if kind == "boolean":
        return [(name, pyarrow.bool_(), values)]
    found = set(map(type, values))
    if float not in found:
        return [(name, pyarrow.int64() if int in found else pyarrow.float64(), values)]
    if int not in found:
        return [(name, pyarrow.float64(), values)]
    fractions = [value if type(value) is float else None for value in values]
    whole = [value if type(value) is int else None for value in values]
    return [(name, pyarrow.float64(), fractions), (WHOLE + name, pyarrow.int64(), whole)]

"""Reading of recorded events from files and tables, with a mapping or in their native form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from distced.middleware.event_files.native import EventBuilder, Headings, JsonEvent, TableForm, of_json
from distced.middleware.event_files.row_blocks import Fields, Row
from distced.middleware.event_files.rows import CsvRows, JsonFileRows, JsonRows, JsonTextRows, Rows, TextRows, format_of
from distced.middleware.event_files.tables import ParquetRows, TableRows
from distced.middleware.mapping import FileSpec, Mapping, Rejected
from distced.middleware.mapping.reasons import Reasons
from distced.middleware.mapping.rules import located
from distced.middleware.model.errors import DistcedError, EventError
from distced.middleware.model.event_types import EventType, Kind
from distced.middleware.model.events import Event

if TYPE_CHECKING:
    from distced.middleware.event_files.event_chunks import EventChunk

SMALL: Final = 256 << 10
"""Bytes of a text file below which it is read by rows before pyarrow is imported."""

REJECTED_KEPT: Final = 1_000  # rejected rows kept of one pass; all are counted


class ReadingAgainError(Exception):
    """Reading as columns begins again: a later row has shown what a column is."""


class EventReader(Iterable[Event]):
    """Events of a recording, in its order; each pass starts afresh, one at a time.

    Attributes:
        name: the path, or the name of the table.
        rejected: first `REJECTED_KEPT` rows, of the present pass, that should have given an event and did not.
        reasons: those of all rejected rows of the present pass, with the first row of each.
        counts: of the present pass: `row`, `event`, `rejected`.
        mapping: the mapping of the present pass, with its own counts; None for a native form.
        on_rejected: called with every rejected row.
        is_incomplete: whether the present pass left out parts of what was recorded, as of a damaged history; rejected
            rows of a recording are expected.
        attributes: after a pass of `chunks`, the attributes of events by type; None where each table has its own.
    """

    def __init__(self, rows: Rows, mapping: Mapping | None) -> None:
        self.name = rows.name
        self.mapping = mapping
        self._begin_pass()
        self.on_rejected: Callable[[Rejected], None] = lambda _: None
        self.is_incomplete = False
        self._rows = rows
        self.attributes: dict[str, list[str]] | None = None
        self._kinds: dict[str, Kind] = {}
        self._reported = 0
        self._read: Callable[[Fields], JsonEvent] | None = None
        self._types: tuple[EventType, ...] | None = None if mapping is None else mapping.types

    @property
    def types(self) -> tuple[EventType, ...]:
        """Event types: declared by the mapping, else found, which may take a pass of its own."""
        if self._types is None:
            noted = self._rows.types()
            if noted is None:
                builder = self._builder()
                for row in self._rows.rows():
                    self._build(builder, row)
                noted = builder.types()
            self._types = tuple(noted)
        return self._types

    def __iter__(self) -> Iterator[Event]:
        self._begin_pass()
        return self._native() if self.mapping is None else self._mapped(self.mapping)

    in_order: ClassVar[bool] = False
    """Whether chunks come in the order of consumption, none with an instant of another one."""

    @property
    def has_columns(self) -> bool:
        """Whether `chunks` is to be used: with pyarrow, unless the file is small, or a mapping remembers messages."""
        size = self._rows.size
        if find_spec("pyarrow") is None or (size is not None and size < SMALL):
            return False
        return self.mapping is None or self.mapping.has_columns

    @property
    def has_exact_tables(self) -> bool:
        """Whether `chunks` is to be used, and its tables have the attributes of their events and no others."""
        return self.has_columns and self.mapping is None and isinstance(self._rows, JsonTextRows)

    def between(self, begin: int, end: int) -> EventReader:
        """The recording, or where it has an index at least the part of it with `begin <= hi <= end`."""
        return self

    def expected(self, types: frozenset[str] | None) -> int:
        """Number of events of some types, None for all, as far as known before they are read."""
        return 0

    def chunks(self, attributes: frozenset[str] | None = None) -> Iterator[EventChunk]:
        """The same events as tables, where it `has_columns`; with these attributes at least, None for all.

        It is a pass as well. `ReadingAgainError` says that it begins again: what it gave before is void.
        """
        from distced.middleware.event_files.native_columns import KindChangedError, NativeColumns

        self._begin_pass()
        if self.mapping is not None:
            yield from self._mapped_chunks(self.mapping)
            return
        blocks, columns = self._rows.blocks(), self._rows.columns()
        if blocks is None or columns is None:
            assert isinstance(self._rows, JsonTextRows)
            yield from self._json_chunks(self._rows)
            return
        headings, noted = Headings(self.name, columns), self._rows.types()
        reading = NativeColumns(self._rows, headings, noted, self._default_source, attributes, self._kinds)
        try:
            for block in blocks:
                self.counts["row"] += len(block.numbers) + len(block.problems)
                try:
                    chunk = reading.read(block, self._reject_row)
                except KindChangedError:
                    self._reported = self.counts["rejected"]
                    raise ReadingAgainError from None
                self.counts["event"] += len(chunk)
                yield chunk
        finally:
            # Also where the recording cannot be read to its end.
            self.attributes = reading.attributes()
        self._reported = 0
        if self._types is None:
            self._types = tuple(noted or reading.types())

    def _mapped_chunks(self, mapping: Mapping) -> Iterator[EventChunk]:
        from distced.middleware.event_files.field_columns import blocks_of
        from distced.middleware.event_files.mapped_columns import MappedColumns

        mapping = self.mapping = mapping.fresh()
        reading = MappedColumns(self.name, mapping)
        for block in blocks_of(self._rows):
            self.counts["row"] += len(block) + len(block.problems)
            chunk = reading.read(block, self._reject)
            self.counts["event"] += len(chunk)
            yield chunk

    def _json_chunks(self, rows: JsonTextRows) -> Iterator[EventChunk]:
        from distced.middleware.event_files.native_json import NativeJson

        reading = NativeJson(rows, self._default_source, self._reject_row)
        for count, chunk in reading.blocks():
            self.counts["row"] += count
            self.counts["event"] += len(chunk)
            yield chunk
        if self._types is None:
            self._types = reading.builder.types()

    def _mapped(self, mapping: Mapping) -> Iterator[Event]:
        mapping = self.mapping = mapping.fresh()
        for row in self._rows.rows():
            self.counts["row"] += 1
            where = f"{self.name}, row {row.number}"
            if row.problem is not None:
                self._reject(Rejected(where, "", "row", located(row.problem, where), row.problem.given))
                continue
            events, rejected = mapping.map_row(row.fields, where)
            for each in rejected:
                self._reject(each)
            self.counts["event"] += len(events)
            yield from events

    def _native(self) -> Iterator[Event]:
        builder = self._builder()
        for row in self._rows.rows():
            self.counts["row"] += 1
            made = self._build(builder, row)
            if isinstance(made, Event):
                self.counts["event"] += 1
                yield made
            else:
                self._reject(made)
        if self._types is None:
            self._types = tuple(self._rows.types() or builder.types())

    def _builder(self) -> EventBuilder:
        if self._read is None:
            columns = self._rows.columns()
            self._read = of_json if columns is None else TableForm.of(self._rows, columns).of_row
        return EventBuilder(self._default_source)

    @property
    def _default_source(self) -> str:
        return Path(self.name).name.split(".")[0] or "recording"

    def _build(self, builder: EventBuilder, row: Row) -> Event | Rejected:
        assert self._read is not None
        try:
            if row.problem is not None:
                raise row.problem
            return builder.build(self._read(row.fields))
        except DistcedError as error:
            return self._rejection(row, error)

    def _rejection(self, row: Row, error: DistcedError) -> Rejected:
        where = f"{self.name}, row {row.number}"
        return Rejected(where, "", "row", located(error, where), row.fields or error.given)

    def _reject_row(self, row: Row, error: DistcedError) -> None:
        self._reject(self._rejection(row, error))

    def _begin_pass(self) -> None:
        self.rejected: list[Rejected] = []
        self.reasons = Reasons(_first)
        self.counts: Counter[str] = Counter()

    def _reject(self, rejected: Rejected) -> None:
        self.counts["rejected"] += 1
        self.reasons.add(rejected)
        # What is read again is rejected again.
        if self.counts["rejected"] > self._reported:
            self.on_rejected(rejected)
        if len(self.rejected) < REJECTED_KEPT:
            self.rejected.append(rejected)


def _first(rejected: Rejected) -> Rejected:
    return rejected


def read_events(path: Path | str, mapping: Mapping | None = None) -> EventReader:
    """Events of a file: `.csv`, `.jsonl`, `.json`, `.parquet`, or `.log`, `.txt` and `.dat`, each also with `.gz`.

    Without a mapping rows are in the native form. Bad rows are kept in the reader and the others go on; a file that
    cannot be read is an `EventError`.
    """
    path = Path(path)
    spec = FileSpec() if mapping is None else mapping.file
    form = spec.format or format_of(path)
    if form == "parquet":
        return EventReader(ParquetRows(path), mapping)
    if form == "jsonl":
        return EventReader(JsonRows(path), mapping)
    if form == "json":
        return EventReader(JsonFileRows(path), mapping)
    if form == "csv":
        return EventReader(CsvRows(path, spec.columns, spec.separator), mapping)
    if mapping is None:
        raise EventError(
            "a text file without a mapping", given=str(path), allowed="csv, jsonl, json and parquet without one",
            advice="say in a mapping what its lines mean",
        )  # fmt: skip
    return EventReader(TextRows(path, spec.pattern, spec.columns, spec.separator), mapping)


def events_of_table(table: object, mapping: Mapping | None = None, *, name: str = "table") -> EventReader:
    """Events of a table of pyarrow, pandas, polars or another Arrow stream, called `name` in reports."""
    return EventReader(TableRows(table, name), mapping)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events in the total order in which they are consumed (`Event.key`)."""
    return sorted(events, key=lambda event: event.key)

"""Events of a recording as tables, each id once: kept until the recording is read, then written by day and type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from distced.middleware.event_files import EventReader
from distced.middleware.event_files.cells import Ints, Mask, arrow_mask, arrow_of, numpy_of
from distced.middleware.event_files.event_chunks import EventChunk, SeenIds
from distced.middleware.event_files.kept_tables import Kept, KeptTables
from distced.middleware.event_files.native import OWN_COLUMNS, PREFIX
from distced.middleware.event_files.tables import WHOLE, TableRows, column_of, import_pyarrow
from distced.middleware.history import HistoryWriter
from distced.middleware.history.layout import day_text
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, INSTANT_MIN
from distced.simulations.ingest.recordings import ClockJump
from distced.simulations.ingest.table_joining import joined

ByType: TypeAlias = Mapping[str, Sequence[str]] | None
"""Attributes of events by type; None where each table has its own."""

_COMPOSITE: Final = "constituents"


class RecordedTables:
    """Events of a recording.

    Attributes:
        added: number of events, each id once.
        clocks: clocks of the sources.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: for what does not fit into memory."""
        self.added = 0
        self.clocks = ClockWatch()
        self._kept, self._repeated = KeptTables(folder), KeptTables(folder)
        self._seen = SeenIds()

    def take(self, chunk: EventChunk) -> None:
        """Keep the events of a chunk."""
        new = self._seen.new(chunk)
        self.clocks.see(chunk, new)
        begin = 0
        for table in chunk.tables:
            mask = new[chunk.places[begin : begin + len(table)]]
            begin += len(table)
            fresh = table if mask.all() else table.filter(arrow_mask(mask))
            if len(fresh):
                self._kept.add(Kept(0, 0, fresh))
                self.added += len(fresh)
            if len(fresh) < len(table):
                self._repeated.add(Kept(0, 0, table.filter(arrow_mask(~mask))))

    def repeated(self, attributes: ByType) -> Iterator[tuple[Event, int]]:
        """Events whose id came before, each with the number of those that are equal and were read at about the same
        time."""
        for each in self._repeated.tables:
            alike = each.table.unify_dictionaries().group_by(each.table.schema.names, use_threads=False)
            table = alike.aggregate([([], "count_all")])
            times = table["count_all"].to_pylist()
            table = table.drop_columns(["count_all"])
            own = _attributes([table])
            for event, number in zip(EventReader(TableRows(table, "repeated"), None), times, strict=True):
                names = own if attributes is None else attributes[event.type]
                kept = {name: event.attributes.get(name) for name in names}
                yield msgspec.structs.replace(event, attributes=kept), number

    def write(self, writer: HistoryWriter, attributes: ByType, rows: int) -> None:
        """Write the events, each id once, about `rows` of them at once."""
        pending: list[Any] = []
        for each in self._kept.tables:
            pending.append(each.table)
            if sum(map(len, pending)) >= rows:
                _write(writer, pending, attributes)
                pending = []
        _write(writer, pending, attributes)


def _write(writer: HistoryWriter, tables: Sequence[Any], attributes: ByType) -> None:
    groups: dict[tuple[str, str], list[Any]] = {}
    for table in tables:
        for key, part in _by_day_and_type(table):
            groups.setdefault(key, []).append(part)
    for (day, type_name), parts in groups.items():
        names = _attributes(parts) if attributes is None else attributes[type_name]
        kinds, noted = writer.declared(type_name, {name: _kind(parts, column_of(name)) for name in names})
        composite = any(_COMPOSITE in each.schema.names for each in parts)
        table, _ = joined(parts, kinds, noted, composite=composite, distinct=True)
        writer.write_table(day, noted, table, None)


def _by_day_and_type(table: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Events of a table by day and type."""
    names, codes = _coded(table["type"])
    days, numbers = np.unique(numpy_of(table["hi"]) // DAY, return_inverse=True)
    keys = numbers * len(names) + codes
    order = np.argsort(keys, kind="stable")
    bounds = [*np.flatnonzero(np.diff(keys[order], prepend=-1)).tolist(), len(keys)]
    if len(bounds) > 2:
        table = table.take(arrow_of(order))
    for begin, end in pairwise(bounds):
        day, code = divmod(int(keys[order[begin]]), len(names))
        yield (day_text(int(days[day])), names[code]), table.slice(begin, end - begin)


def _coded(column: Any) -> tuple[list[str], Ints]:
    """Texts of a dictionary column: the distinct ones, and the index of each row's."""
    whole = column.unify_dictionaries().combine_chunks()
    return whole.dictionary.to_pylist(), numpy_of(whole.indices).astype(np.int64)


def _attributes(tables: Sequence[Any]) -> list[str]:
    columns = dict.fromkeys(name for each in tables for name in each.schema.names)
    return [name.removeprefix(PREFIX) for name in columns if name not in OWN_COLUMNS and not name.startswith(WHOLE)]


def _kind(tables: Sequence[Any], column: str) -> Kind | None:
    """Kind of an attribute; None where it is null throughout."""
    types = import_pyarrow().types
    for table in tables:
        for name in (column, WHOLE + column):
            if name in table.schema.names and table[name].null_count < len(table):
                kind = table.schema.field(name).type
                text = types.is_string(kind) or types.is_dictionary(kind)
                return "string" if text else "boolean" if types.is_boolean(kind) else "number"
    return None


class ClockWatch:
    """Detects clock jumps of sources, in the order of sequence numbers."""

    def __init__(self) -> None:
        # Number, lo and hi of each source's last event.
        self._latest: dict[str, tuple[int, int, int]] = {}
        self._jumps: dict[str, list[int]] = {}

    def see(self, chunk: EventChunk, new: Mask) -> None:
        """Check the `new` events of a chunk; the number of a composite one is a digest, and gives no order."""
        numbers: dict[str, int] = {}
        wide = any(import_pyarrow().types.is_decimal(each["seq"].type) for each in chunk.tables)
        codes, lo, hi = (np.zeros(len(chunk), np.int64) for _ in range(3))
        seq = np.zeros(len(chunk), object if wide else np.int64)
        kept = new.copy()
        begin = 0
        for table in chunk.tables:
            places = chunk.places[begin : begin + len(table)]
            begin += len(table)
            names, mine = _coded(table["source"])
            codes[places] = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)[mine]
            lo[places], hi[places] = numpy_of(table["lo"]), numpy_of(table["hi"])
            seq[places] = [int(each) for each in table["seq"].to_pylist()] if wide else numpy_of(table["seq"])
            if _COMPOSITE in table.schema.names:
                kept[places] &= numpy_of(table[_COMPOSITE].is_null())
        order = np.flatnonzero(kept)
        order = order[np.argsort(codes[order], kind="stable")]
        sources = list(numbers)
        bounds = [*np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist(), len(order)]
        for first, end in pairwise(bounds):
            places = order[first:end]
            self._see(sources[int(codes[places[0]])], seq[places], lo[places], hi[places])

    def _see(self, source: str, seq: Any, lo: Ints, hi: Ints) -> None:
        """Check events of a source."""
        before = self._latest.get(source)
        least, earlier = (-1, INSTANT_MIN) if before is None else before[:2]
        greatest = np.maximum.accumulate(np.concatenate([np.array([least], seq.dtype), seq]))
        grows = seq > greatest[:-1]
        if not grows.all():
            seq, lo, hi = seq[grows], lo[grows], hi[grows]
        if not len(seq):
            return
        behind = np.concatenate([[earlier], lo[:-1]])
        for place in np.flatnonzero(hi < behind).tolist():
            back = int(self._latest_hi(before, hi, place)) - int(hi[place])
            jump = self._jumps.setdefault(source, [0, 0, 0, 0])
            jump[0] += 1
            if back > jump[1]:
                jump[1:] = back, int(seq[place]), int(hi[place])
        self._latest[source] = (int(seq[-1]), int(lo[-1]), int(hi[-1]))

    @staticmethod
    def _latest_hi(before: tuple[int, int, int] | None, hi: Ints, place: int) -> int:
        """The `hi` before that at a place."""
        if place:
            return int(hi[place - 1])
        return INSTANT_MIN if before is None else before[2]

    def jumps(self) -> tuple[ClockJump, ...]:
        """Sources whose time went back, the farthest first."""
        found = [ClockJump(source, times, most, seq, hi) for source, (times, most, seq, hi) in self._jumps.items()]
        return tuple(sorted(found, key=lambda each: (-each.most, each.source)))

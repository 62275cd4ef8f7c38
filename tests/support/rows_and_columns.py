"""The two ways of reading a recording, row by row and as columns, and all that each of them gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distced.detectors.columnar.batch.table_batch import TableBatch
from distced.middleware.event_files import EventReader
from distced.middleware.event_files.event_chunks import EventChunk
from distced.middleware.model.events import Event


def assert_same_by_rows_and_columns(make: Callable[[], EventReader]) -> tuple[int, int]:
    """Compare the two ways of a reader; the numbers of events and of rejected rows."""
    by_rows, by_columns = make(), make()
    assert by_columns.has_columns
    expected, found = list(by_rows), events_by_columns(by_columns)
    # As texts, for 3 is not 3.0, nor 0.0 -0.0.
    assert list(map(repr, found)) == list(map(repr, expected))
    wanted = _besides(by_rows)
    for name, value in _besides(by_columns).items():
        assert value == wanted[name], name
    return len(expected), by_rows.counts["rejected"]


def events_by_columns(reader: EventReader) -> list[Event]:
    """Events of a recording, read as columns."""
    return [event for chunk in reader.chunks() for event in events_of_chunk(chunk)]


def events_of_chunk(chunk: EventChunk) -> list[Event]:
    """Events of a chunk, in its order."""
    made: dict[int, Event] = {}
    places = iter(chunk.places.tolist())
    for table in chunk.tables:
        batch = TableBatch([table])
        inside = {row: place for place, row in enumerate(batch.order.tolist())}
        made.update({next(places): batch.event(inside[row]) for row in range(len(table))})
    assert sorted(made) == list(range(len(chunk)))
    return [made[place] for place in range(len(chunk))]


def _besides(reader: EventReader) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": +reader.counts, "types": reader.types}
    found["rejected"] = [
        (each.where, each.rule, each.reason, each.error.as_dict(), repr(each.given)) for each in reader.rejected
    ]
    if reader.mapping is not None:
        found["counts"] = +reader.mapping.counts
        found["missing"] = reader.mapping.missing_paths
        found["clocks"] = dict(sorted((name, repr(clock)) for name, clock in reader.mapping.memory.sources.items()))
    return found

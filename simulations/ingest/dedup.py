"""Deduplication against files: duplicates are left out, events with the id of another event are rejected.

Files note the least and the greatest number of each source, so that only those are read that may hold an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from distced.middleware.event_files import json_line
from distced.middleware.event_files.reader import EventReader
from distced.middleware.event_files.tables import ParquetRows
from distced.middleware.history.history import HistoryFile, read_table
from distced.middleware.mapping import Rejected
from distced.middleware.model.errors import DistcedError, EventError, HistoryError
from distced.middleware.model.events import CompositeEvent, Event, EventId


class DedupResult(NamedTuple):
    """Result of the comparison of events with those of files.

    Attributes:
        fresh: those that are in none of the files.
        repeated: number of duplicates, the same in all parts.
        taken: those whose id another event has there, with that event.
    """

    fresh: list[Event]
    repeated: int
    taken: list[tuple[Event, Event]]


def deduplicate(events: Sequence[Event], files: Iterable[HistoryFile]) -> DedupResult:
    """Compare events with those of files.

    Args:
        files: the same event is looked for in each; the first one counts.
    """
    wanted = {event.id for event in events}
    known: dict[EventId, Event] = {}
    for file in files:
        if wanted - known.keys() & wanted and not wanted.isdisjoint(ids_of(file)):
            for event in events_of(file):
                if event.id in wanted:
                    known.setdefault(event.id, event)
    fresh, taken = [], []
    for event in events:
        other = known.get(event.id)
        if other is None:
            fresh.append(event)
        elif not alike(event, other):
            taken.append((event, other))
    return DedupResult(fresh, len(events) - len(fresh) - len(taken), taken)


def overlapping(sources: Mapping[str, tuple[int, int, int]], files: Iterable[HistoryFile]) -> list[HistoryFile]:
    """The files that may hold one of these ids.

    Args:
        sources: by source the number of events, and the least and the greatest sequence number, as in a file's note.
    """
    return [each for each in files if _may_share(sources, each.note.sources)]


def _may_share(one: Mapping[str, tuple[int, int, int]], other: Mapping[str, tuple[int, int, int]]) -> bool:
    if len(other) < len(one):
        one, other = other, one
    for source, (_, least, greatest) in one.items():
        there = other.get(source)
        if there is not None and there[1] <= greatest and least <= there[2]:
            return True
    return False


def ids_of(file: HistoryFile) -> Iterator[EventId]:
    """The ids in a file."""
    with _of_history(file):
        table = read_table(file, ["source", "seq"])
    return zip(table["source"].to_pylist(), map(int, table["seq"].to_pylist()), strict=True)


def events_of(file: HistoryFile) -> Iterator[Event]:
    """The events in a file."""
    with _of_history(file):
        yield from EventReader(ParquetRows(file.path), None)


@contextmanager
def _of_history(file: HistoryFile) -> Iterator[None]:
    try:
        yield
    except DistcedError as error:
        raise HistoryError(
            "a file of the history that cannot be read", given=str(file.path),
            advice=f"put it elsewhere, and give the same command again: {error.advice}",
        ) from None  # fmt: skip


def alike(one: Event, other: Event) -> bool:
    """Whether two events are the same in all parts; a missing attribute is null."""
    return _parts(one) == _parts(other)


def _parts(event: Event) -> tuple[object, ...]:
    # By their texts, for 3 is not 3.0 nor true.
    attributes = sorted((name, repr(value)) for name, value in event.attributes.items() if value is not None)
    made_of = event.constituents if isinstance(event, CompositeEvent) else None
    return event.type, event.lo, event.hi, event.id, attributes, made_of


def taken_id(event: Event, other: Event, where: str) -> Rejected:
    """The rejection of an event whose id another event has."""
    error = EventError(
        "an id that another event has", given=f"{event.source} {event.seq}",
        allowed="a source counts each of its events once", where=where,
        advice=f"there it is {json_line(other).decode()[:300]}; where a mapping counts the events of several "
        "recordings, ingest them into a new history with --count-on, or give them sources that tell them apart",
    )  # fmt: skip
    return Rejected(where, "", "id", error, json_line(event).decode())

"""Chunks of events as tables of the native form, and their ids: which came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from distced.middleware.event_files.cells import Ints, Mask, numpy_of
from distced.middleware.event_files.tables import table_of
from distced.middleware.model.event_types import Kind, event_type, kind_of
from distced.middleware.model.events import Event

_RUN: Final = ("source", "first", "last")


class EventChunk(NamedTuple):
    """Consecutive events of a recording.

    Attributes:
        tables: of pyarrow, in the native form.
        places: in the recording's order, of the events of all tables one after the other.
    """

    tables: Sequence[Any]
    places: Ints

    def __len__(self) -> int:
        return len(self.places)


def chunk_of(events: Sequence[Event]) -> EventChunk:
    """Events as tables, one for all that have the same type and the same attributes."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, event in enumerate(events):
        kinds = tuple((name, kind_of(value)) for name, value in event.attributes.items())
        alike.setdefault((event.type, event.rank, *kinds), []).append(place)
    tables = []
    for (name, _, *signature), places in alike.items():
        of_name: dict[str, Kind | None] = dict(signature)  # type: ignore[arg-type]
        typed = event_type(str(name), {each: kind or "number" for each, kind in of_name.items()})
        tables.append(table_of([events[place] for place in places], of_name, [typed]))
    return EventChunk(tables, np.array([place for places in alike.values() for place in places], np.int64))


class SeenIds:
    """Ids of events that have been seen, as runs of consecutive sequence numbers by source.

    Sources whose numbers grow, the common case, take one comparison.
    """

    def __init__(self) -> None:
        self._sources: dict[str, int] = {}
        self._last = np.empty(0, np.int64)
        # Source, first and last number of each run; disjoint.
        self._runs: list[tuple[Ints, Ints, Ints]] = []
        self._wide: set[tuple[str, int]] = set()

    def new(self, chunk: EventChunk) -> Mask:
        """Which events of a chunk, by their places in it, are the first of their ids, which are seen from now on."""
        found = np.ones(len(chunk), np.bool_)
        codes, numbers = np.empty(len(chunk), np.int64), np.empty(len(chunk), np.int64)
        begin, narrow = 0, np.ones(len(chunk), np.bool_)
        for table in chunk.tables:
            places = chunk.places[begin : begin + len(table)]
            begin += len(table)
            if pa.types.is_decimal(table["seq"].type):
                narrow[places] = False
                ids = zip(table["source"].to_pylist(), map(int, table["seq"].to_pylist()), strict=True)
                for place, each in sorted(zip(places.tolist(), ids, strict=True)):
                    found[place] = each not in self._wide
                    self._wide.add(each)
                continue
            codes[places], numbers[places] = self._coded(table["source"]), numpy_of(table["seq"])
        places = np.flatnonzero(narrow)
        if len(places):
            found[places] = self._new(codes[places], numbers[places])
        return found

    def _coded(self, column: Any) -> Ints:
        parts = [np.empty(0, np.int64)]
        for chunk in column.chunks:
            mapped = [self._sources.setdefault(each, len(self._sources)) for each in chunk.dictionary.to_pylist()]
            parts.append(np.array(mapped, np.int64)[numpy_of(chunk.indices)])
        if len(self._sources) > len(self._last):
            added = np.full(2 * len(self._sources) - len(self._last), -1)
            self._last = np.concatenate([self._last, added])
        return np.concatenate(parts)

    def _new(self, codes: Ints, numbers: Ints) -> Mask:
        narrow = codes.astype(np.uint16) if len(self._sources) < 2**16 else codes
        order = np.argsort(narrow, kind="stable")
        by_source, values = codes[order], numbers[order]
        begins = np.flatnonzero(np.diff(by_source, prepend=-1))
        ends = np.append(begins[1:], len(values)) - 1
        inside = np.ones(len(values), np.bool_)
        inside[begins] = False
        grows = (np.diff(values, prepend=values[0]) > 0) | ~inside
        if grows.all() and (values[begins] > self._last[by_source[begins]]).all():
            self._last[by_source[begins]] = values[ends]
            self._add(by_source, values)
            return np.ones(len(codes), np.bool_)
        # Sorted by the numbers, too; the first of equal ones is the first in the recording.
        order = np.lexsort((np.arange(len(codes)), numbers, codes))
        by_source, values = codes[order], numbers[order]
        again = np.zeros(len(codes), np.bool_)
        again[1:] = (by_source[1:] == by_source[:-1]) & (values[1:] == values[:-1])
        again |= self._held(by_source, values)
        found = np.ones(len(codes), np.bool_)
        found[order[again]] = False
        by_source, values = by_source[~again], values[~again]
        np.maximum.at(self._last, by_source, values)
        self._add(by_source, values)
        return found

    def _held(self, codes: Ints, values: Ints) -> Mask:
        """Which ids are in runs."""
        nothing = np.empty(0, np.int64)
        sources, firsts, lasts = (
            np.concatenate([nothing, *(run[part] for run in self._runs)]) for part in range(len(_RUN))
        )
        order = np.lexsort((firsts, sources))
        sources, firsts, lasts = sources[order], firsts[order], lasts[order]
        self._runs = [(sources, firsts, lasts)]
        if not len(sources):
            return np.zeros(len(codes), np.bool_)
        kinds = np.concatenate([np.zeros(len(sources), np.int8), np.ones(len(codes), np.int8)])
        both = np.lexsort((kinds, np.concatenate([firsts, values]), np.concatenate([sources, codes])))
        # The last run at or before each id.
        before = np.cumsum(kinds[both] == 0) - 1
        asked = kinds[both] == 1
        runs = np.empty(len(codes), np.int64)
        runs[both[asked] - len(sources)] = before[asked]
        held = np.maximum(runs, 0)
        found: Mask = (runs >= 0) & (sources[held] == codes) & (lasts[held] >= values)
        return found

    def _add(self, codes: Ints, values: Ints) -> None:
        """Add ids sorted by source and number."""
        if not len(codes):
            return
        begins = np.ones(len(codes), np.bool_)
        begins[1:] = (codes[1:] != codes[:-1]) | (values[1:] != values[:-1] + 1)
        places = np.flatnonzero(begins)
        ends = np.append(places[1:], len(codes)) - 1
        self._runs.append((codes[places], values[places], values[ends]))

"""Recorded events as tables: those that patterns read, in stretches of time, one after the other.

A recording is read once. What the patterns read of it is kept as columns, a tenth of the memory of event objects.
Recordings are nearly in order as a rule: a stretch holds the events before all later chunks, so that the whole is never
sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from distced.detectors.batch_run.run_counts import RunCounts
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.batch.table_batch import TableBatch
from distced.detectors.compiler import Compiled
from distced.detectors.runtime.batch_engine import BatchEngine
from distced.middleware.event_files.cells import arrow_mask, numpy_of
from distced.middleware.event_files.event_chunks import EventChunk, SeenIds
from distced.middleware.event_files.kept_tables import Kept
from distced.middleware.model.timestamps import INSTANT_MIN


class TableReading:
    """Reading of a recording as tables.

    Attributes:
        last: the greatest `hi` so far, ns.
    """

    def __init__(self, counts: RunCounts, types: frozenset[str] | None) -> None:
        """Args: types: those that are consumed; None for all."""
        self.last = INSTANT_MIN
        self._counts = counts
        self._types = types
        self._seen = SeenIds()

    def take(self, chunk: EventChunk) -> list[Kept]:
        """Count the events of a chunk; those to be consumed."""
        counts, new = self._counts, self._seen.new(chunk)
        hi = np.empty(len(chunk), np.int64)
        found, begin = [], 0
        for table in chunk.tables:
            places = chunk.places[begin : begin + len(table)]
            begin += len(table)
            ends = numpy_of(table["hi"])
            hi[places] = ends
            mask = new[places]
            if self._types is not None:
                mask = mask & self._read(table["type"])
            if not mask.any():
                continue
            kept, ends = (table, ends) if mask.all() else (table.filter(arrow_mask(mask)), ends[mask])
            found.append(Kept(int(ends.min()), int(ends.max()), kept))
            counts.consumed += len(kept)
        hi = hi[new]
        counts.repeated += len(new) - len(hi)
        counts.events += len(hi)
        if len(hi):
            latest = np.maximum.accumulate(np.concatenate([[self.last], hi]))
            counts.disordered += int((hi < latest[:-1]).sum())
            self.last = int(latest[-1])
        return found

    def _read(self, column: Any) -> Any:
        """Which events are of a type that is consumed."""
        assert self._types is not None
        parts = [np.empty(0, np.bool_)]
        for part in column.chunks:
            wanted = np.array([name in self._types for name in part.dictionary.to_pylist()], np.bool_)
            parts.append(wanted[numpy_of(part.indices)])
        return np.concatenate(parts)


def stretches(kept: Sequence[Kept]) -> Iterator[list[Any]]:
    """Tables with events of one stretch of time after the other; an instant is not torn apart."""
    order = sorted(kept, key=lambda each: each.first)
    pending: list[Kept] = []
    for place, each in enumerate(order):
        pending.append(each)
        if place + 1 == len(order):
            yield [each.table for each in pending]
            return
        until = order[place + 1].first
        ready, waiting = [], []
        for held in pending:
            if held.last < until:
                ready.append(held.table)
            elif held.first >= until:
                waiting.append(held)
            else:
                table = held.table
                hi = numpy_of(table["hi"])
                before = hi < until
                ready.append(table.filter(arrow_mask(before)))
                waiting.append(Kept(int(hi[~before].min()), held.last, table.filter(arrow_mask(~before))))
        if ready:
            pending = waiting
            yield ready


def batches_of(
    tables: Iterable[list[Any]], attributes: Mapping[str, Sequence[str]] | None, engine: BatchEngine
) -> Iterator[tuple[Batch, int]]:
    """Events in batches that suit the engine, each with the instant of its last; `attributes`: by type."""
    for some in tables:
        batch = TableBatch(some, attributes)
        begin = 0
        while begin < len(batch):
            end = min(begin + engine.step, len(batch))
            # An instant is not torn apart, so that what is found does not depend on where stretches end.
            end = int(np.searchsorted(batch.hi, batch.hi[end - 1], "right"))
            yield batch.stretch(begin, end), int(batch.hi[end - 1])
            begin = end


def names_in(patterns: Sequence[Compiled]) -> frozenset[str]:
    """All names that occur in patterns, the attributes that they read among them."""
    parts = [
        (each.publication, each.plain, each.throttlings, each.computations, each.automaton.key) for each in patterns
    ]
    return frozenset().union(*map(_texts, parts))


def _texts(value: object) -> set[str]:
    """All texts inside a tree."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, tuple | list | frozenset):
        return set().union(*map(_texts, value))
    if is_dataclass(value) and not isinstance(value, type):
        return set().union(*(_texts(getattr(value, each.name)) for each in fields(value)))
    return set()

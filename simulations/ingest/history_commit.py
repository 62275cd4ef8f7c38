"""Commit of a recording into the history: compared with what is there, then moved into place.

One recording at a time, in the order they were given, so that of two events with one id the first counts, in whatever
order Spark reads them. It may be broken off anywhere: the result of the comparison is noted before anything is moved,
and files that are moved are gone where they came from.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.history import HistoryFile
from distced.middleware.history.layout import folder_of, write_whole
from distced.middleware.mapping.rules import rejected_line
from distced.middleware.model.errors import HistoryError
from distced.simulations.ingest.dedup import deduplicate, events_of, overlapping, taken_id
from distced.simulations.ingest.recording_task import NOTE, READ, REJECTED
from distced.simulations.ingest.recordings import Ingested, Recording, read_note, together

FRESH: Final = "fresh"
DEDUP_NOTE: Final = "dedup.json"
TAKEN: Final = "taken.jsonl"


class Deduplication(msgspec.Struct, frozen=True):
    """Result of the deduplication of a recording.

    Attributes:
        ingested: the result.
        dropped: files whose events are not moved as they are; the remaining events were written again.
    """

    ingested: Ingested
    dropped: tuple[str, ...]


def place(recording: Recording, files: Sequence[HistoryFile]) -> tuple[Ingested, list[HistoryFile]]:
    """Move the events read of a recording into the history.

    Args:
        files: those of the history.

    Returns:
        The result, and the new files.
    """
    work = recording.work
    read = _files(work / READ)
    if (work / DEDUP_NOTE).exists():
        deduplication = msgspec.json.decode((work / DEDUP_NOTE).read_bytes(), type=Deduplication)
    else:
        deduplication = _dedup(recording, read, files)
        write_whole(work / DEDUP_NOTE, msgspec.json.encode(deduplication))
    made = []
    dropped = frozenset(deduplication.dropped)
    for file in [*(each for each in read if each.path.name not in dropped), *_files(work / FRESH)]:
        folder = folder_of(recording.root, file.day, file.type)
        folder.mkdir(parents=True, exist_ok=True)
        made.append(replace(file, path=file.path.replace(folder / file.path.name)))
    _keep_rejected(recording)
    recording.done.parent.mkdir(exist_ok=True)
    if not deduplication.ingested.trouble or deduplication.ingested.events:
        write_whole(recording.done, msgspec.json.encode(deduplication.ingested))
    shutil.rmtree(work)
    return deduplication.ingested, made


def _dedup(recording: Recording, read: Sequence[HistoryFile], files: Sequence[HistoryFile]) -> Deduplication:
    work = recording.work
    note = read_note(work / NOTE)
    if note is None:
        raise HistoryError("a recording that has not been read", given=str(recording.path))
    shutil.rmtree(work / FRESH, ignore_errors=True)
    repeated, dropped = 0, []
    days: Counter[str] = Counter()
    types: Counter[str] = Counter()
    taken = 0
    free = _free_numbers(files) if recording.count_on else None
    with (work / TAKEN).open("wb") as rejected:
        for file in read:
            rows = file.rows
            if free is not None and not free.keys().isdisjoint(file.note.sources):
                dropped.append(file.path.name)
                counted = [
                    structs.replace(event, seq=event.seq + free.get(event.source, 0)) for event in events_of(file)
                ]
                HistoryWriter(work / FRESH, recording.recorder, [file.event_type]).write(counted)
                days[file.day] += rows
                types[file.type] += rows
                continue
            there = overlapping(file.note.sources, files)
            result = deduplicate(list(events_of(file)), there) if there else None
            if result is not None and len(result.fresh) < rows:
                dropped.append(file.path.name)
                rows = len(result.fresh)
                repeated += result.repeated
                taken += len(result.taken)
                for event, other in result.taken:
                    where = f"{recording.path}, event {event.source} {event.seq}"
                    rejected.write(rejected_line(taken_id(event, other, where)))
                HistoryWriter(work / FRESH, recording.recorder, [file.event_type]).write(result.fresh)
            if rows:
                days[file.day] += rows
                types[file.type] += rows
    ingested = structs.replace(
        note,
        added=sum(days.values()),
        repeated=note.repeated + repeated,
        rejected=together(note.rejected, {"id": taken} if taken else {}),
        days=dict(sorted(days.items())),
        types=dict(sorted(types.items())),
        counted_on=recording.count_on,
    )
    return Deduplication(ingested, tuple(dropped))


def _free_numbers(files: Sequence[HistoryFile]) -> dict[str, int]:
    """Next sequence number of each source in the history."""
    free: dict[str, int] = {}
    for file in files:
        for source, (_, _, greatest) in file.note.sources.items():
            free[source] = max(free.get(source, 0), greatest + 1)
    return free


def _files(root: Path) -> list[HistoryFile]:
    """The files of a recording's events; none where there are no events."""
    if not root.exists():
        return []
    history = History(root)
    if history.problems:
        raise history.problems[0].error
    return list(history.files)


def _keep_rejected(recording: Recording) -> None:
    """Move the rejected rows to their permanent place."""
    work = recording.work
    parts = [part for part in (work / REJECTED, work / TAKEN) if part.exists() and part.stat().st_size]
    if not parts:
        return
    recording.rejected.parent.mkdir(exist_ok=True)
    together_ = recording.rejected.with_name(f".{recording.rejected.name}.part")
    with together_.open("wb") as whole:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole)
    together_.replace(recording.rejected)

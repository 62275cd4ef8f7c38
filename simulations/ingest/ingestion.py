"""Ingestion of recordings into a history: read in parallel, committed one after the other.

Recordings are committed in the given order, so that of two events with one id the first counts, in whatever order Spark
reads. It may be broken off anywhere: the result of the comparison with the history is noted before files are moved, and
moved files are gone where they came from.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_file
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.history_file import HistoryFile
from distced.middleware.history.layout import folder_of, make_history, write_whole
from distced.middleware.mapping import load_mapping
from distced.middleware.mapping.rules import rejected_line
from distced.middleware.model.errors import DistcedError, EventError, HistoryError, MappingError
from distced.middleware.model.events import Event
from distced.simulations.ingest.recording_task import (
    CHUNK,
    NOTE,
    READ,
    REJECTED,
    RecordingTask,
    deduplicate,
    events_of,
    overlapping,
    taken_id,
)
from distced.simulations.ingest.recordings import (
    IN_PROGRESS,
    Ingested,
    Recording,
    noted_reasons,
    read_note,
    reasons_of,
    recording_of,
    writing,
)
from distced.simulations.replay.runners import Inline, Runner

FRESH: Final = "fresh"
DEDUP_NOTE: Final = "dedup.json"
TAKEN: Final = "taken.jsonl"


class Deduplication(msgspec.Struct, frozen=True):
    """Deduplicated recording: its result, and the files whose events are not moved but written again, as far as they
    are new.
    """

    ingested: Ingested
    dropped: tuple[str, ...]


_deduplications: Final = msgspec.json.Decoder(Deduplication)


def place(
    recording: Recording, files: Sequence[HistoryFile], *, strict: bool = False
) -> tuple[Ingested, list[HistoryFile]]:
    """Move the events read of a recording into the history; returns the result and the new files.

    A `strict` one with rejected rows adds nothing.
    """
    work = recording.work
    read = _files(work / READ)
    if (work / DEDUP_NOTE).exists():
        deduplication = _deduplications.decode((work / DEDUP_NOTE).read_bytes())
    else:
        deduplication = _dedup(recording, read, files)
        write_whole(work / DEDUP_NOTE, msgspec.json.encode(deduplication))
    if strict and deduplication.ingested.refused:
        _keep_rejected(recording)
        shutil.rmtree(work)
        return _refused(recording, deduplication.ingested), []
    made = []
    dropped = frozenset(deduplication.dropped)
    for file in [*(each for each in read if each.path.name not in dropped), *_files(work / FRESH)]:
        folder = folder_of(recording.root, file.day, file.type)
        folder.mkdir(parents=True, exist_ok=True)
        made.append(replace_file(file, path=file.path.replace(folder / file.path.name)))
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
    repeated, taken, dropped = 0, 0, []
    days: Counter[str] = Counter()
    types: Counter[str] = Counter()
    free = _free_numbers(files) if recording.count_on else {}
    reasons = reasons_of(note.reasons)
    with (work / TAKEN).open("wb") as rejected:
        for file in read:
            kept: list[Event] | None = None
            if not free.keys().isdisjoint(file.note.sources):
                kept = [replace(event, seq=event.seq + free.get(event.source, 0)) for event in events_of(file)]
            elif there := overlapping(file.note.sources, files):
                result = deduplicate(list(events_of(file)), there)
                repeated += result.repeated
                taken += len(result.taken)
                for event, other in result.taken:
                    found = taken_id(event, other, recording)
                    reasons.add(found)
                    rejected.write(rejected_line(found))
                if len(result.fresh) < file.rows:
                    kept = result.fresh
            if kept is not None:
                dropped.append(file.path.name)
                HistoryWriter(work / FRESH, recording.recorder, [file.event_type]).write(kept)
            if rows := file.rows if kept is None else len(kept):
                days[file.day] += rows
                types[file.type] += rows
    ingested = replace(
        note,
        added=sum(days.values()),
        repeated=note.repeated + repeated,
        rejected=dict(sorted((Counter(note.rejected) + Counter(id=taken)).items())),
        days=dict(sorted(days.items())),
        types=dict(sorted(types.items())),
        counted_on=recording.count_on,
        reasons=noted_reasons(reasons),
    )
    return Deduplication(ingested, tuple(dropped))


def _refused(recording: Recording, read: Ingested) -> Ingested:
    """Result of a recording that was read strictly, and has rejected rows."""
    error = EventError(
        "rejected rows in a recording that must have none (--strict)", given=f"{read.refused:,} of {read.rows:,} rows",
        where=str(recording.path), advice="nothing of it is added: mend the recording or the mapping",
    )  # fmt: skip
    return replace(read, added=0, days={}, types={}, trouble=str(error))


def _free_numbers(files: Sequence[HistoryFile]) -> dict[str, int]:
    """Next sequence number of each source."""
    free: dict[str, int] = {}
    for file in files:
        for source, (_, _, greatest) in file.note.sources.items():
            free[source] = max(free.get(source, 0), greatest + 1)
    return free


def _files(root: Path) -> list[HistoryFile]:
    """Files of a recording's events, which may be none."""
    if not root.exists():
        return []
    history = History(root)
    if history.problems:
        raise history.problems[0].error
    return list(history.files)


def _keep_rejected(recording: Recording) -> None:
    """Move the rejected rows to their permanent place."""
    parts = [part for name in (REJECTED, TAKEN) if (part := recording.work / name).exists() and part.stat().st_size]
    if not parts:
        return
    recording.rejected.parent.mkdir(exist_ok=True)
    whole = recording.rejected.with_name(f".{recording.rejected.name}.part")
    with whole.open("wb") as target:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, target)
    whole.replace(recording.rejected)


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """Outcome of the ingestion of a recording.

    Attributes:
        path: as given.
        recording: None where there is no such file.
        before: whether it is in the history already.
    """

    path: Path
    recording: Recording | None
    ingested: Ingested
    before: bool = False

    @property
    def rejected(self) -> Path | None:
        """File of its rejected rows; None for none."""
        return self.recording.rejected if self.recording is not None and self.recording.rejected.exists() else None


class Ingest:
    """Ingestion of recordings into a history: those `open`, and the `outcomes` of the others."""

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path,
        *,
        mapping: Path | None = None,
        recorder: str,
        count_on: bool = False,
        strict: bool = False,
        chunk: int = CHUNK,
    ) -> None:
        """
        Args:
            root: folder of the history, made where there is none.
            count_on: continue the sequence numbers of sources in the history.
            strict: add nothing of a recording with rejected rows.
            chunk: number of events held in memory.

        Raises:
            MappingError: to count on events with numbers of their own.
        """
        loaded = None if mapping is None else load_mapping(mapping)
        lookups = () if loaded is None else loaded.lookups
        if count_on and (loaded is None or not loaded.counts_all):
            raise MappingError(
                "events that bring numbers of their own cannot be counted on",
                given="no mapping" if mapping is None else str(mapping), allowed="a mapping without sequence",
            )  # fmt: skip
        make_history(root)
        self.root = root
        self.open: list[Recording] = []
        self.outcomes: list[IngestOutcome] = []
        self._chunk = chunk
        self._strict = strict
        self._again: list[tuple[Path, Recording]] = []
        for path in dict.fromkeys(paths):
            try:
                recording = recording_of(path, mapping, root, recorder, lookups=lookups, count_on=count_on)
            except DistcedError as error:
                self.outcomes.append(IngestOutcome(path, None, Ingested(str(path), trouble=str(error))))
                continue
            done = read_note(recording.done)
            if done is not None:
                shutil.rmtree(recording.work, ignore_errors=True)
                done = _counted(recording, done)
                if strict and done.refused and not done.trouble:
                    done = replace(done, trouble=f"{done.refused:,} of its rows were rejected then")
                self.outcomes.append(IngestOutcome(path, recording, done, before=True))
            elif recording.identity in {each.identity for each in self.open}:
                self._again.append((path, recording))
            else:
                self.open.append(recording)

    @property
    def work(self) -> Path:
        """The folder of work in progress."""
        return self.root / IN_PROGRESS

    def perform(self, runner: Runner, watch: Callable[[int], None] = lambda _: None) -> None:
        """Read all recordings and commit them; `watch` gets the number of events read."""
        readings = [RecordingTask(each, self._chunk) for each in self.open]

        def look() -> None:
            watch(sum(each.read for each in readings))

        if isinstance(runner, Inline):
            for reading in readings:
                reading.perform(time.perf_counter, lambda _: look())
        else:
            runner.perform([each for each in readings if not each.note.exists()], look)
        look()
        files = list(History(self.root).files) if readings else []
        for recording in list(self.open):
            with writing(self.root):
                ingested, made = place(recording, files, strict=self._strict)
            files += made
            self.open.remove(recording)
            self.outcomes.append(IngestOutcome(recording.path, recording, ingested))
            self.outcomes += [
                IngestOutcome(path, recording, ingested, before=True)
                for path, other in self._again
                if other.identity == recording.identity
            ]

    def clear(self) -> None:
        """Remove the folder of work in progress, unless it is in use."""
        with suppress(OSError):
            self.work.rmdir()


def _counted(recording: Recording, done: Ingested) -> Ingested:
    """Earlier result of a recording; with a trouble where it should have been counted on."""
    if not recording.count_on or done.counted_on or "id" not in done.rejected:
        return done
    error = MappingError(
        "a recording that was ingested without --count-on, and lost events by it", given=str(recording.path),
        advice="ingest all of them into a new history",
    )  # fmt: skip
    return replace(done, trouble=str(error))

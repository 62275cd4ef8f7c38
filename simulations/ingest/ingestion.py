"""Ingestion of recordings into a history: read in parallel, committed one after the other."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from distced.middleware.history import History
from distced.middleware.history.layout import make_history
from distced.middleware.mapping import load_mapping
from distced.middleware.model.errors import DistcedError, MappingError
from distced.simulations.ingest.history_commit import place
from distced.simulations.ingest.recording_task import CHUNK, RecordingTask
from distced.simulations.ingest.recordings import UNDER_WAY, Ingested, Recording, read_note, recording_of, writing
from distced.simulations.replay.runners import Inline, Runner


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """Outcome of the ingestion of a recording.

    Attributes:
        path: as given.
        recording: None where there is no such file.
        ingested: the result.
        before: whether it was in the history before.
    """

    path: Path
    recording: Recording | None
    ingested: Ingested
    before: bool = False


class Ingest:
    """Ingestion of recordings into a history.

    Attributes:
        open: those that are not in the history yet.
        outcomes: of those that are done.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        root: Path,
        *,
        mapping: Path | None = None,
        recorder: str,
        count_on: bool = False,
        chunk: int = CHUNK,
    ) -> None:
        """
        Args:
            root: the folder of the history, which is made where there is none.
            count_on: number the events that the mapping counts on from those of their sources in the history.
            chunk: how many events are held in memory.

        Raises:
            MappingError: where events are to be counted on whose sources have numbers of their own.
        """
        if count_on and (mapping is None or not load_mapping(mapping).counts_all):
            raise MappingError(
                "events that bring numbers of their own cannot be counted on",
                given="no mapping" if mapping is None else str(mapping), allowed="a mapping without sequence",
            )  # fmt: skip
        make_history(root)
        self.root = root
        self.open: list[Recording] = []
        self.outcomes: list[IngestOutcome] = []
        self._chunk = chunk
        self._again: list[tuple[Path, Recording]] = []
        for path in dict.fromkeys(paths):
            try:
                recording = recording_of(path, mapping, root, recorder, count_on=count_on)
            except DistcedError as error:
                self.outcomes.append(IngestOutcome(path, None, Ingested(str(path), trouble=str(error))))
                continue
            done = read_note(recording.done)
            if done is not None:
                shutil.rmtree(recording.work, ignore_errors=True)
                self.outcomes.append(IngestOutcome(path, recording, _counted(recording, done), before=True))
            elif recording.identity in {each.identity for each in self.open}:
                self._again.append((path, recording))
            else:
                self.open.append(recording)

    @property
    def work(self) -> Path:
        """The folder of work in progress."""
        return self.root / UNDER_WAY

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
                ingested, made = place(recording, files)
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
    """Earlier result of a recording; with a problem where it is to be counted on, and was not."""
    if not recording.count_on or done.counted_on or "id" not in done.rejected:
        return done
    error = MappingError(
        "a recording that was ingested without --count-on, and lost events by it", given=str(recording.path),
        advice="ingest all of them into a new history",
    )  # fmt: skip
    return replace(done, trouble=str(error))

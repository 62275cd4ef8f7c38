"""Compaction of a history: small files of a day and type that fit in one table exactly are merged, on Spark or here,
and small days into months and years.

Files fit where every attribute has one kind in all of them, or no value; whole numbers and fractions have a column
each. Casting was rejected: values would differ from those written.

A new file names those it replaces, so that readers see each event once, whenever it is broken off: the old files count
until the new one is there, and not from then on, though they still exist. Files left by an earlier run are removed
first; a file that replaces others goes after them, or they would be seen again.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from distced.middleware.event_files.tables import WHOLE, column_of, import_pyarrow
from distced.middleware.history import History, HistoryWriter
from distced.middleware.history.history_file import HistoryFile, file_notes
from distced.middleware.history.layout import NOTE_KEY, FileNote, folder_of, replaced_path, write_whole
from distced.middleware.history.row_check import check_rows
from distced.middleware.history.row_groups import read_table
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType, Kind, event_type
from distced.simulations.ingest.table_joining import joined
from distced.simulations.replay.runners import Runner

ROWS: Final = 2_000_000
"""Number of events of a file that is large enough."""

BYTES: Final = 128 * 1024 * 1024
"""Bytes of a file that is large enough."""


AT_ONCE: Final = 16
"""Files that are read or removed at once: what each waits for takes longer than the work."""


class Form(NamedTuple):
    """Properties that decide whether files fit together.

    Attributes:
        kinds: of the attributes; None without a value.
        composite: whether its events are composite, which differ in the order of consumption.
    """

    kinds: dict[str, Kind | None]
    composite: bool

    def with_other(self, other: Form) -> Form | None:
        """Form of both; None where they do not fit."""
        if self.composite != other.composite:
            return None
        kinds = dict(self.kinds)
        for name, kind in other.kinds.items():
            known = kinds.get(name)
            if None not in (known, kind) and known != kind:
                return None
            kinds[name] = known or kind
        return Form(kinds, self.composite)


@dataclass(frozen=True, slots=True)
class Merger:
    """Files of one type to be merged into one of a day, month or year, in the order of time, and the form of all."""

    day: str
    files: tuple[HistoryFile, ...]
    form: Form

    @property
    def rows(self) -> int:
        """Number of their events, duplicates included."""
        return sum(each.rows for each in self.files)


def periods_of(files: Sequence[HistoryFile], rows: int = ROWS, size: int = BYTES) -> dict[str, str]:
    """Period that the files of a day or month go to: the longest of year and month that is small with all its types.

    Readers hold a period at a time.
    """
    totals: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for each in files:
        for period in _periods(each.day):
            totals[period] += each.rows
            sizes[period] += each.bytes
    return {
        day: next((each for each in _periods(day) if 2 * totals[each] < rows and 2 * sizes[each] < size), day)
        for day in {each.day for each in files}
    }


def _periods(day: str) -> list[str]:
    """Periods that hold a day or month, the longest first."""
    parts = day.split("-")
    return ["-".join(parts[:count]) for count in range(1, len(parts))] if len(parts[0]) == 4 else []


def mergers_of(
    files: Iterable[HistoryFile],
    form_of: Callable[[HistoryFile], Form],
    *,
    rows: int = ROWS,
    size: int = BYTES,
    periods: Mapping[str, str] | None = None,
) -> list[Merger]:
    """Files to be merged.

    Args:
        periods: by day the period to merge it into, itself where it is missing.
        form_of: form of a file; called where small files beside each other are of different event types only.
        rows, size: of a file; one at least half as large stays, and none becomes much larger.
    """
    folders: dict[tuple[str, str], list[HistoryFile]] = {}
    for each in files:
        if 2 * each.rows < rows and 2 * each.bytes < size:
            folders.setdefault(((periods or {}).get(each.day, each.day), each.type), []).append(each)
    found = []
    for (day, _), small in sorted(folders.items()):
        if len(small) > 1:
            small.sort(key=lambda file: (file.note.first, file.note.last, file.path.name))
            found += _mergers(day, small, form_of, rows, size)
    return found


def _mergers(
    day: str, files: Sequence[HistoryFile], form_of: Callable[[HistoryFile], Form], rows: int, size: int
) -> list[Merger]:
    if all(_noted_form(each) == _noted_form(files[0]) for each in files):
        # They fit whatever attributes have no value, so that no file needs to be opened.
        form_of = _noted_form
    full: list[Merger] = []
    filling: list[Merger] = []
    for file in files:
        form = form_of(file)
        for place, merger in enumerate(filling):
            both = merger.form.with_other(form)
            if both is not None:
                merger = Merger(day, (*merger.files, file), both)
                if merger.rows >= rows or sum(each.bytes for each in merger.files) >= size:
                    full.append(merger)
                    del filling[place]
                else:
                    filling[place] = merger
                break
        else:
            filling.append(Merger(day, (file,), form))
    return [each for each in (*full, *filling) if len(each.files) > 1]


def _noted_form(file: HistoryFile) -> Form:
    """Form of a file by its event type, where every attribute has a kind."""
    return Form(dict(file.event_type.attributes), file.is_composite)


def form_of(file: HistoryFile) -> Form:
    """Form of a file, from its metadata."""
    metadata = import_pyarrow().parquet.read_metadata(file.path)
    names = metadata.schema.to_arrow_schema().names
    empty = set(names)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place, name in enumerate(names):
            statistics = group.column(place).statistics
            nulls = statistics.null_count if statistics is not None and statistics.has_null_count else 0
            if nulls < group.num_rows:
                empty.discard(name)
    kinds: dict[str, Kind | None] = {}
    for name, kind in file.event_type.attributes.items():
        column = column_of(name)
        has_value = {column, WHOLE + column} & set(names) - empty
        kinds[name] = kind if has_value else None
    return Form(kinds, file.is_composite)


WORK: Final = ".compact"
COMPACTION: Final = "compaction"
"""Recorder in files merged from several recorders."""


class Compacted(msgspec.Struct, frozen=True):
    """Result of a merger.

    Attributes:
        files, bytes: number and size of the old files.
        rows: number of events in the new file.
        repeated: number of duplicates in several files.
        size: of the new file, bytes.
        trouble: why they were not merged; else empty.
    """

    day: str
    type: str
    files: int
    bytes: int
    rows: int = 0
    repeated: int = 0
    size: int = 0
    trouble: str = ""


_compacted: Final = msgspec.json.Decoder(Compacted)


@dataclass(frozen=True, slots=True)
class Compacting:
    """Task that merges some files; `note` is the path of its result, `keep` leaves the old files to the next run."""

    root: Path
    note: Path
    merger: Merger
    keep: bool = False

    def perform(self, clock: Callable[[], float]) -> None:
        """Perform the task, unless it is done."""
        if self.note.exists():
            return
        files = self.merger.files
        done = Compacted(self.merger.day, files[0].type, len(files), sum(each.bytes for each in files))
        try:
            path, repeated = self._written()
            if not self.keep:
                remove_all(self.root, {each.path: each.note for each in files})
            rows = import_pyarrow().parquet.read_metadata(path).num_rows
            done = msgspec.structs.replace(done, rows=rows, repeated=repeated, size=path.stat().st_size)
        except (DistcedError, OSError) as error:
            done = msgspec.structs.replace(done, trouble=str(error))
        write_whole(self.note, msgspec.json.encode(done))

    def _written(self) -> tuple[Path, int]:
        files = self.merger.files
        day = self.merger.day
        names = tuple(
            each.path.name if each.day == day else each.path.relative_to(self.root).as_posix() for each in files
        )
        folder = folder_of(self.root, day, files[0].type)
        # A task that was lost and runs again may find its file.
        for path in folder.glob("*.parquet"):
            note = note_in(path)
            if note is not None and note.replaces == names:
                return path, 0
        recorders = {each.note.recorder for each in files}
        noted = _noted(self.merger)
        check = check_rows(files)
        if check.rejected:
            raise check.rejected[0].error(str(check.rejected[0].file.path))
        # Readers take the files by their names, and the first event of an id.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tables = list(pool.map(read_table, sorted(files, key=lambda file: file.path)))
        table, repeated = joined(tables, self.merger.form.kinds, noted, composite=self.merger.form.composite)
        if len(table) + repeated != sum(each.rows for each in files):
            raise HistoryError("files that have changed", given=", ".join(names), where=str(folder))
        watermarks = [each.note.watermark for each in files if each.note.watermark is not None]
        writer = HistoryWriter(self.root, recorders.pop() if len(recorders) == 1 else COMPACTION)
        path = writer.write_table(day, noted, table, max(watermarks, default=None), names)
        # It outlives a power failure, as the files that it replaces do not.
        for part in (path, path.parent, path.parent.parent, self.root):
            _flush(part)
        return path, repeated


class Compaction:
    """Compaction of a history.

    Attributes:
        history: as it was before.
        mergers: files to be merged.
        left: number of files of an earlier run that were removed.
        done: results.
    """

    def __init__(self, root: Path, *, rows: int = ROWS, size: int = BYTES, across_days: bool = False) -> None:
        """
        Args:
            rows, size: of a file that is large enough.
            across_days: merge small days, too, into months and years.
        """
        self.root = root
        self.history = History(root)
        self.left = self._clean(self.history)
        if self.left:
            self.history = History(root)
        periods = periods_of(self.history.files, rows, size) if across_days else None
        self.mergers = mergers_of(self.history.files, form_of, rows=rows, size=size, periods=periods)
        self.done: list[Compacted] = []

    @property
    def work(self) -> Path:
        """The folder of work in progress."""
        return self.root / WORK

    @property
    def rows(self) -> int:
        """Number of events in files to be merged."""
        return sum(each.rows for each in self.mergers)

    def perform(self, runner: Runner, watch: Callable[[int], None] = lambda _: None, *, keep: bool = False) -> None:
        """Merge the files.

        Args:
            watch: gets the number of events done.
            keep: leave the old files to the next run, for present readers.
        """
        # Notes of a run that was broken off are about files that may be gone.
        shutil.rmtree(self.work / "done", ignore_errors=True)
        (self.work / "done").mkdir(parents=True)
        tasks = [
            Compacting(self.root, self.work / "done" / f"{number}.json", each, keep)
            for number, each in enumerate(self.mergers)
        ]

        def look() -> None:
            watch(sum(each.merger.rows for each in tasks if each.note.exists()))

        runner.perform(tasks, look)
        look()
        self.done = [_compacted.decode(each.note.read_bytes()) for each in tasks]
        shutil.rmtree(self.work / "done")

    def clear(self) -> None:
        """Remove the folder of work in progress."""
        with suppress(OSError):
            self.work.rmdir()

    @staticmethod
    def _clean(history: History) -> int:
        notes = {each.path: each.note for each in history.replaced}
        paths = {replaced_path(history.root, each.path, name) for each in history.files for name in each.note.replaces}
        return remove_all(history.root, {path: notes.get(path) for path in paths})


def remove_all(root: Path, notes: Mapping[Path, FileNote | None]) -> int:
    """Remove replaced files, many at once, by their notes, None for unknown; returns the number of files removed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(lambda path: _remove(root, path, notes[path]), notes))


def _remove(root: Path, path: Path, note: FileNote | None = None) -> int:
    """Remove a replaced file after those that it replaces itself; returns the number of files removed."""
    note = note or note_in(path)
    count = sum(_remove(root, replaced_path(root, path, name)) for name in (note.replaces if note is not None else ()))
    try:
        path.unlink()
    except FileNotFoundError:
        return count
    # Not empty is no error.
    with suppress(OSError):
        path.parent.rmdir()
        path.parent.parent.rmdir()
    return count + 1


def _flush(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def note_in(path: Path) -> FileNote | None:
    """Metadata of a file; None where it cannot be read."""
    pyarrow = import_pyarrow()
    try:
        noted: Any = (pyarrow.parquet.read_schema(path).metadata or {}).get(NOTE_KEY)
        return None if noted is None else file_notes.decode(noted)
    except (OSError, pyarrow.ArrowException, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _noted(merger: Merger) -> EventType:
    declared: dict[str, Kind] = {}
    for each in merger.files:
        declared |= each.event_type.attributes
    kinds = {name: merger.form.kinds.get(name) or kind for name, kind in declared.items()}
    return event_type(merger.files[0].type, kinds)

"""History: its files, types, watermarks and problems, and its events in the order of consumption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from distced.middleware.event_files.reader import EventReader, in_order
from distced.middleware.event_files.rows import Rows
from distced.middleware.event_files.tables import ParquetRows, import_pyarrow, noted_types
from distced.middleware.history.layout import (
    NOTE_KEY,
    RECORDERS,
    FileNote,
    RecorderNote,
    check_history,
    day_number,
    day_of,
    day_text,
    is_day,
    place_of,
)
from distced.middleware.mapping.rules import Rejected
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event

# Files are read in threads, which may not be the first to decode a type.
file_notes: Final = msgspec.json.Decoder(FileNote)
_recorder_notes: Final = msgspec.json.Decoder(RecorderNote)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """File of a history, with the event type as it was when the file was written, and its note."""

    path: Path
    day: str
    type: str
    rows: int
    bytes: int
    event_type: EventType
    note: FileNote


class Problem(NamedTuple):
    """Problem in a history, at a path, a day or a type."""

    where: str
    error: DistcedError


class History:
    """History as it was when it was read.

    Attributes:
        root: its folder.
        files: by day, type and name; those that others replace are left out.
        replaced: those.
        problems: files that cannot be read; the others can.
        recorders: progress by name.
    """

    def __init__(self, root: Path | str) -> None:
        """Read the notes of all files; `HistoryError` where there is no history."""
        self.root = Path(root)
        check_history(self.root)
        import_pyarrow()
        self.problems: list[Problem] = []
        paths = sorted(each for each in self.root.glob("day=*/type=*/*.parquet") if not each.name.startswith("."))
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(self._file, paths))
        self.problems += [each for each in found if isinstance(each, Problem)]
        files = [each for each in found if isinstance(each, HistoryFile)]
        replaced = {each.path.parent / name for each in files for name in each.note.replaces}
        self.files = tuple(each for each in files if each.path not in replaced)
        self.replaced = tuple(each for each in files if each.path in replaced)
        self.recorders = self._recorders()

    @property
    def rows(self) -> int:
        """Number of events."""
        return sum(each.rows for each in self.files)

    @cached_property
    def types(self) -> dict[str, EventType]:
        """Event types by name, with every attribute they ever had, of the kind it had last."""
        found: dict[str, EventType] = {}
        for each in sorted(self.files, key=lambda file: file.note.last):
            known = found.get(each.type)
            attributes = {} if known is None else known.attributes
            found[each.type] = EventType(each.type, attributes | each.event_type.attributes)
        return dict(sorted(found.items()))

    @property
    def first(self) -> int | None:
        """Least `hi`, ns; None where there are no events."""
        return min((each.note.first for each in self.files), default=None)

    @property
    def last(self) -> int | None:
        """Greatest `hi`, ns; None where there are no events."""
        return max((each.note.last for each in self.files), default=None)

    def until(self, types: Iterable[str] | None = None) -> int | None:
        """Watermark of these types: their last event, or as far as a recorder of theirs has received.

        Where no recorder has noted that, it is the last event of any type.
        """
        wanted = None if types is None else frozenset(types)
        heard = [
            each.watermark
            for each in self.recorders.values()
            if each.watermark is not None and (wanted is None or wanted & set(each.types))
        ]
        ends = [each.note.last for each in self.files if not heard or wanted is None or each.type in wanted]
        return max((*heard, *ends), default=None)

    def select(
        self, types: Iterable[str] | None = None, begin: int | None = None, end: int | None = None
    ) -> list[HistoryFile]:
        """Files that may hold events of these types with `begin <= hi <= end`."""
        wanted = None if types is None else frozenset(types)
        return [
            each
            for each in self.files
            if (wanted is None or each.type in wanted)
            and (begin is None or each.note.last >= begin)
            and (end is None or each.note.first <= end)
        ]

    def changes(self) -> list[Problem]:
        """Attributes that came, went or changed their kind, where a file shows it first."""
        found: list[Problem] = []
        known: dict[str, list[str]] = {}
        for each in sorted(self.files, key=lambda file: (file.note.first, file.path)):
            kinds = each.event_type.attributes.items()
            signature = ", ".join(f"{name}: {kind}" for name, kind in kinds) or "no attributes"
            before = known.setdefault(each.type, [])
            if signature in before:
                continue
            before.append(signature)
            if len(before) > 1:
                error = HistoryError(
                    f"the type {each.type!r} has changed",
                    given=signature,
                    allowed=before[-2],
                    where=f"{each.day}, {each.path.name}",
                    advice="an attribute that is not there reads as null",
                )
                found.append(Problem(each.type, error))
        return found

    def missing_days(self) -> list[str]:
        """Days between the first and the last without any file."""
        days = {day_number(each.day) for each in self.files}
        return [day_text(day) for day in range(min(days), max(days)) if day not in days] if days else []

    def _file(self, path: Path) -> HistoryFile | Problem:
        pyarrow = import_pyarrow()
        where = path.relative_to(self.root).as_posix()
        place = place_of(self.root, path)
        try:
            if place is None or not is_day(place[0]):
                raise HistoryError("not a file of a history", allowed="day=YYYY-MM-DD/type=NAME/….parquet", where=where)
            metadata = pyarrow.parquet.read_metadata(path)
            schema = metadata.schema.to_arrow_schema()
            note = _noted(schema, where)
            types = noted_types(schema, where) or ()
            if len(types) != 1 or types[0].name != place[1]:
                raise HistoryError("a file whose types are not those of its folder", given=types, where=where)
            _check_columns(pyarrow, schema, where)
            if place[0] != day_of(note.first) or place[0] != day_of(note.last):
                days = f"{day_of(note.first)} to {day_of(note.last)}"
                raise HistoryError(
                    "a file whose events are not of the day of its folder", given=days, where=where,
                    advice="move it to the folder of its day",
                )  # fmt: skip
            return HistoryFile(path, *place, metadata.num_rows, path.stat().st_size, types[0], note)
        except (OSError, pyarrow.ArrowException, ValueError, OverflowError) as error:
            return Problem(where, HistoryError("a file that cannot be read", where=where, advice=str(error)))
        except DistcedError as error:
            return Problem(where, error)

    def _recorders(self) -> dict[str, RecorderNote]:
        found = {}
        for path in sorted((self.root / RECORDERS).glob("*.json")):
            try:
                found[path.stem] = _recorder_notes.decode(path.read_bytes())
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                where = path.relative_to(self.root).as_posix()
                problem = HistoryError("what a recorder noted cannot be read", where=where, advice=str(error))
                self.problems.append(Problem(where, problem))
        return found


def _check_columns(pyarrow: Any, schema: Any, where: str) -> None:
    """Raise `HistoryError` for columns that hold no events; readers rely on them."""
    types = pyarrow.types
    texts = (types.is_string, types.is_dictionary)
    own = {
        "type": texts,
        "source": texts,
        "lo": (types.is_int64,),
        "hi": (types.is_int64,),
        "seq": (types.is_int64, types.is_decimal128),
    }
    values = (*texts, types.is_boolean, types.is_float64, types.is_int64)
    missing = [name for name in own if name not in schema.names]
    if missing:
        raise HistoryError("a file without columns that events have", given=", ".join(missing), where=where)
    for field in schema:
        if not any(fits(field.type) for fits in own.get(field.name, values)):
            raise HistoryError(
                f"a column {field.name!r} of a kind that events do not have", given=str(field.type), where=where,
                advice="bring it in with distced ingest",
            )  # fmt: skip


def _noted(schema: Any, where: str) -> FileNote:
    noted = (schema.metadata or {}).get(NOTE_KEY)
    if noted is None:
        raise HistoryError(
            "a Parquet file that no recorder has written", where=where, advice="bring it in with distced ingest"
        )
    try:
        return file_notes.decode(noted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError("a note that cannot be read", given=noted, where=where, advice=str(error)) from None


def by_day(files: Iterable[HistoryFile]) -> Iterator[list[HistoryFile]]:
    """Files day by day."""
    days: dict[str, list[HistoryFile]] = {}
    for each in files:
        days.setdefault(each.day, []).append(each)
    for day in sorted(days, key=day_number):
        yield days[day]


def events_of_history(
    history: History,
    types: Iterable[str] | None = None,
    begin: int | None = None,
    end: int | None = None,
    on_problem: Callable[[Problem], None] = lambda _: None,
) -> Iterator[Event]:
    """Events of these types with `begin <= hi <= end`, each id once, in the order of consumption, day by day.

    Problems of files and rows go to `on_problem`; the others are read.
    """
    for files in by_day(history.select(types, begin, end)):
        kept: dict[tuple[str, int], Event] = {}
        for file in files:
            for event in _events(file, on_problem):
                if (begin is None or event.hi >= begin) and (end is None or event.hi <= end):
                    kept.setdefault(event.id, event)
        yield from in_order(kept.values())


class HistoryReader(EventReader):
    """Events of a history as those of a recording. A file that cannot be read counts as one row."""

    def __init__(self, history: History) -> None:
        super().__init__(Rows(history.root), None)
        self._history = history

    @property
    def types(self) -> tuple[EventType, ...]:
        return tuple(self._history.types.values())

    def __iter__(self) -> Iterator[Event]:
        self.rejected, self.counts = [], Counter()
        for problem in self._history.problems:
            self._problem(problem)
        for event in events_of_history(self._history, on_problem=self._problem):
            self.counts["row"] += 1
            self.counts["event"] += 1
            yield event

    def _problem(self, problem: Problem) -> None:
        self.counts["row"] += 1
        self._reject(Rejected(problem.where, "", "row", problem.error, problem.where))


def read_table(file: HistoryFile, columns: Iterable[str] | None = None) -> Any:
    """Rows of a file as a table of pyarrow, with those of the columns that it has; `HistoryError` if unreadable."""
    pyarrow = import_pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(file.path, page_checksum_verification=True) as opened:
            wanted = None if columns is None else [name for name in columns if name in opened.schema_arrow.names]
            return opened.read(columns=wanted)
    except (OSError, pyarrow.ArrowException) as error:
        raise HistoryError("a file that cannot be read", given=str(file.path), advice=str(error)) from None


def _events(file: HistoryFile, on_problem: Callable[[Problem], None]) -> Iterator[Event]:
    reader = EventReader(ParquetRows(file.path), None)
    try:
        yield from reader
        rows = reader.counts["row"]
        if rows < file.rows:
            # A page whose head is damaged may be passed over without a word.
            raise HistoryError("a file that cannot be read", given=f"{rows:,} rows", allowed=f"{file.rows:,}")
    except DistcedError as error:
        on_problem(Problem(str(file.path), error))
    for each in reader.rejected:
        on_problem(Problem(each.where, each.error))

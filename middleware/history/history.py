"""History: its files, types, watermarks and problems, and its events in the order of consumption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from distced.middleware.event_files.reader import EventReader, in_order
from distced.middleware.event_files.rows import Rows
from distced.middleware.event_files.tables import TableRows, columns_read, import_pyarrow
from distced.middleware.history.history_file import HistoryFile, Problem, open_file
from distced.middleware.history.layout import (
    RECORDERS,
    NotedLoss,
    RecorderNote,
    by_day,
    check_history,
    day_text,
    replaced_path,
)
from distced.middleware.mapping.rules import Rejected
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

if TYPE_CHECKING:
    from distced.middleware.event_files.event_chunks import EventChunk
    from distced.middleware.history.row_check import RejectedRows, RowCheck


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
            found = list(pool.map(partial(open_file, self.root), paths))
        self.problems += [each for each in found if isinstance(each, Problem)]
        files = [each for each in found if isinstance(each, HistoryFile)]
        replaced = {replaced_path(self.root, each.path, name) for each in files for name in each.note.replaces}
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

    def missing(
        self, types: Iterable[str] | None, begin: int, end: int
    ) -> tuple[list[tuple[int, int]], list[NotedLoss]]:
        """Gaps of reception, and losses, of the recorders of these types between two instants, ns, both included."""
        wanted = None if types is None else frozenset(types)
        notes = [each for each in self.recorders.values() if wanted is None or wanted & set(each.types)]
        gaps = [each for note in notes for each in note.gaps if each[0] <= end and each[1] >= begin]
        losses = [each for note in notes for each in note.losses if each[0] < end and each[1] >= begin]
        return gaps, losses

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

    def days(self, types: Iterable[str] | None = None) -> frozenset[int]:
        """Days with events of these types, counted from 1 January 1970."""
        return frozenset().union(*(each.days for each in self.select(types)))

    def missing_days(self) -> list[str]:
        """Days between the first and the last without any file."""
        days = self.days()
        return [day_text(day) for day in range(min(days), max(days)) if day not in days] if days else []

    def _recorders(self) -> dict[str, RecorderNote]:
        return notes_of(self.root, self.problems.append)


def notes_of(root: Path, on_problem: Callable[[Problem], None] = lambda _: None) -> dict[str, RecorderNote]:
    """Notes of the recorders of a history, by name; those that cannot be read go to `on_problem`."""
    found = {}
    for path in sorted((root / RECORDERS).glob("*.json")):
        try:
            found[path.stem] = _recorder_notes.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            where = path.relative_to(root).as_posix()
            problem = HistoryError("what a recorder noted cannot be read", where=where, advice=str(error))
            on_problem(Problem(where, problem))
    return found


def events_of_history(
    history: History,
    types: Iterable[str] | None = None,
    begin: int | None = None,
    end: int | None = None,
    on_problem: Callable[[Problem], None] = lambda _: None,
    check: RowCheck | None = None,
) -> Iterator[Event]:
    """Events of these types with `begin <= hi <= end`, each id once, in the order of consumption, day by day.

    Problems of files and rows go to `on_problem`; the others are read. Rows are checked day by day, unless they have
    been (`check`).
    """
    # numpy and pyarrow, which only what is read needs.
    from distced.middleware.history.row_check import check_rows

    span = (INSTANT_MIN if begin is None else begin, INSTANT_MAX if end is None else end)
    for files in by_day(history.select(types, begin, end)):
        checked = check
        if checked is None:
            checked = check_rows(files)
            for each in checked.rejected:
                on_problem(each.problem(history.root))
        kept: dict[tuple[str, int], Event] = {}
        for file in files:
            for event in _events(file, span, checked.rows.get(file.path), on_problem):
                kept.setdefault(event.id, event)
        yield from in_order(kept.values())


class HistoryReader(EventReader):
    """Events of a history as those of a recording. A part that cannot be read counts as one row."""

    def __init__(self, history: History, begin: int = INSTANT_MIN, end: int = INSTANT_MAX) -> None:
        """Events with `begin <= hi <= end`."""
        super().__init__(Rows(history.root), None)
        self._history = history
        self._span = (begin, end)
        self._files = history.select(None, begin, end)

    @property
    def types(self) -> tuple[EventType, ...]:
        return tuple(self._history.types.values())

    def __iter__(self) -> Iterator[Event]:
        check = self._begin()
        for event in events_of_history(self._history, None, *self._span, self._problem, check):
            self.counts["row"] += 1
            self.counts["event"] += 1
            yield event

    in_order = True
    has_columns = True
    has_exact_tables = True

    def between(self, begin: int, end: int) -> EventReader:
        return HistoryReader(self._history, begin, end)

    def expected(self, types: frozenset[str] | None) -> int:
        return sum(each.rows for each in self._history.select(types))

    def chunks(self, attributes: frozenset[str] | None = None) -> Iterator[EventChunk]:
        """The same events as tables, day by day."""
        import numpy as np

        from distced.middleware.event_files.cells import arrow_mask, numpy_of
        from distced.middleware.event_files.event_chunks import EventChunk, SeenIds

        check = self._begin()
        for files in by_day(self._files):
            tables = [
                table
                for file in files
                for table in _tables(file, self._span, check.rows.get(file.path), attributes, self._problem)
                if len(table)
            ]
            if not tables:
                continue
            hi = np.concatenate([numpy_of(table["hi"]) for table in tables])
            places = np.empty(len(hi), np.int64)
            places[np.argsort(hi, kind="stable")] = np.arange(len(hi))
            # Two files may have an event in common.
            new = SeenIds().new(EventChunk(tables, np.arange(len(hi))))
            self.counts["row"] += int(new.sum())
            self.counts["event"] += int(new.sum())
            if not new.all():
                bounds = np.cumsum([0, *map(len, tables)])
                masks = [new[first:last] for first, last in pairwise(bounds.tolist())]
                tables = [table.filter(arrow_mask(mask)) for table, mask in zip(tables, masks, strict=True)]
                places = np.argsort(np.argsort(places[new]))
            yield EventChunk(tables, places)

    def _begin(self) -> RowCheck:
        """Begin a pass: what is known to be wrong."""
        from distced.middleware.history.row_check import check_rows

        self._begin_pass()
        self.is_incomplete = False
        for problem in self._history.problems:
            self._problem(problem)
        check = check_rows(self._files, self._history.files)
        for each in check.rejected:
            self._rejected_rows(each)
        return check

    def _problem(self, problem: Problem) -> None:
        self.counts["row"] += 1
        self.is_incomplete = True
        self._reject(Rejected(problem.where, "", "row", problem.error, problem.where))

    def _rejected_rows(self, rows: RejectedRows) -> None:
        self.is_incomplete = True
        self.counts["row"] += len(rows.rows)
        for place, given in rows.shown():
            error = rows.error(str(rows.file.path), place)
            self._reject(Rejected(error.where or "", "", "row", error, given))


def _tables(
    file: HistoryFile,
    span: tuple[int, int],
    rejected: Any,
    attributes: frozenset[str] | None,
    on_problem: Callable[[Problem], None],
) -> Iterator[Any]:
    """Rows of a file that are not rejected, with these attributes, as a table; none where it cannot be read."""
    from distced.middleware.history.row_groups import read_groups, unread_problem

    where = str(file.path)
    try:
        table, unread = read_groups(
            file.path, columns=lambda names: columns_read(attributes, names), span=span, rejected=rejected
        )
    except (OSError, import_pyarrow().ArrowException) as error:
        problem = HistoryError("a file that cannot be read", where=where, advice=str(error))
        on_problem(Problem(where, problem, file.rows))
        return
    for each in unread:
        on_problem(unread_problem(where, each))
    yield table


def _events(
    file: HistoryFile, span: tuple[int, int], rejected: Any, on_problem: Callable[[Problem], None]
) -> Iterator[Event]:
    from distced.middleware.history.row_groups import read_groups, unread_problem

    where = str(file.path)
    try:
        table, unread = read_groups(file.path, span=span, rejected=rejected)
        for each in unread:
            on_problem(unread_problem(where, each))
        reader = EventReader(TableRows(table, where), None)
        yield from reader
        for row in reader.rejected:
            on_problem(Problem(row.where, row.error, 1))
    except (OSError, import_pyarrow().ArrowException) as error:
        problem = HistoryError("a file that cannot be read", where=where, advice=str(error))
        on_problem(Problem(where, problem, file.rows))
    except DistcedError as error:
        on_problem(Problem(where, error, file.rows))


_recorder_notes: Final = msgspec.json.Decoder(RecorderNote)

"""Reading of the events of a history, in the order of consumption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from distced.middleware.event_files.reader import EventReader, in_order
from distced.middleware.event_files.rows import Rows
from distced.middleware.event_files.tables import ParquetRows, import_pyarrow
from distced.middleware.history.history import History, HistoryFile, Problem, by_day
from distced.middleware.mapping.rejected import Rejected
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event


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

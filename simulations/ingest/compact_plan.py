"""Plan of a compaction: small files of one day and type that fit in one table exactly.

Files fit where every attribute has one kind in all of them, or no value; whole numbers and fractions have a column
each. Casting was rejected: values read afterwards would differ from those written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from distced.middleware.event_files.tables import WHOLE, column_of, import_pyarrow
from distced.middleware.history.history import HistoryFile
from distced.middleware.model.event_types import Kind

ROWS: Final = 2_000_000
"""Number of events from which a file is large enough."""

BYTES: Final = 128 * 1024 * 1024
"""Size from which a file is large enough, bytes."""


class Form(NamedTuple):
    """Properties that decide whether files fit together.

    Attributes:
        kinds: of the attributes; None of those without a value.
        composite: whether its events are composite: what is not has another place in the order of consumption.
    """

    kinds: dict[str, Kind | None]
    composite: bool

    def with_other(self, other: Form) -> Form | None:
        """The form of both; None where they do not fit."""
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
    """Files to be merged into one.

    Attributes:
        files: of one day and type, in the order of time.
        form: that of all of them.
    """

    files: tuple[HistoryFile, ...]
    form: Form

    @property
    def rows(self) -> int:
        """Number of their events, duplicates included."""
        return sum(each.rows for each in self.files)


def mergers_of(
    files: Iterable[HistoryFile], form_of: Callable[[HistoryFile], Form], *, rows: int = ROWS, size: int = BYTES
) -> list[Merger]:
    """The files to be merged.

    Args:
        form_of: the form of a file; asked for those only that are small and not alone.
        rows, size: target size; a file at least half as large stays as it is, and no file becomes much larger.
    """
    folders: dict[tuple[str, str], list[HistoryFile]] = {}
    for each in files:
        if 2 * each.rows < rows and 2 * each.bytes < size:
            folders.setdefault((each.day, each.type), []).append(each)
    found = []
    for _, small in sorted(folders.items()):
        if len(small) > 1:
            small.sort(key=lambda file: (file.note.first, file.note.last, file.path.name))
            found += _mergers(small, form_of, rows, size)
    return found


def _mergers(
    files: Iterable[HistoryFile], form_of: Callable[[HistoryFile], Form], rows: int, size: int
) -> list[Merger]:
    full: list[Merger] = []
    filling: list[Merger] = []
    for file in files:
        form = form_of(file)
        for place, merger in enumerate(filling):
            both = merger.form.with_other(form)
            if both is not None:
                merger = Merger((*merger.files, file), both)
                if merger.rows >= rows or sum(each.bytes for each in merger.files) >= size:
                    full.append(merger)
                    del filling[place]
                else:
                    filling[place] = merger
                break
        else:
            filling.append(Merger((file,), form))
    return [each for each in (*full, *filling) if len(each.files) > 1]


def form_of(file: HistoryFile) -> Form:
    """The form of a file, from its metadata."""
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
    return Form(kinds, "constituents" in names)

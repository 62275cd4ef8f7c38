"""File of a history: its place, event type and note, and what is wrong with it as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from distced.middleware.event_files.tables import WHOLE, column_of, import_pyarrow, noted_types
from distced.middleware.history.footer import read_footer
from distced.middleware.history.layout import NOTE_KEY, FileNote, day_number, day_of, period_of, place_of
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType, Kind, event_type
from distced.middleware.model.timestamps import DAY

# Files are read in threads, which may not be the first to decode a type.
file_notes: Final = msgspec.json.Decoder(FileNote)

OWN: Final = ("type", "lo", "hi", "source", "seq")
"""Columns that each file has."""


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """File of a history, with the event type as it was when the file was written, and its note.

    Attributes:
        day: of its folder; of merged days their month or year (`layout.period_of`).
        checked: whether its rows were checked when it was written, and nobody has written it again.
        strange: columns of another kind than the event type says; they hold no values.
        is_composite: whether it has a column for constituents.
    """

    path: Path
    day: str
    type: str
    rows: int
    bytes: int
    event_type: EventType
    note: FileNote
    checked: bool = False
    strange: tuple[str, ...] = ()
    is_composite: bool = False

    @property
    def days(self) -> frozenset[int]:
        """Days with events, counted from 1 January 1970."""
        if isinstance(self.note.days, msgspec.UnsetType):
            return frozenset(range(self.note.first // DAY, self.note.last // DAY + 1))
        return frozenset(map(day_number, self.note.days))


class Problem(NamedTuple):
    """Problem in a history, at a path, a day or a type; `rows` are left out for it, as far as known."""

    where: str
    error: DistcedError
    rows: int = 0


def open_file(root: Path, path: Path) -> HistoryFile | Problem:
    """File of a history by its footer, or why it cannot be read."""
    pyarrow = import_pyarrow()
    where = path.relative_to(root).as_posix()
    place = place_of(root, path)
    try:
        period = None if place is None else _period(place[0])
        if place is None or period is None:
            raise HistoryError("not a file of a history", allowed="day=YYYY-MM-DD/type=NAME/….parquet")
        metadata, checked = read_footer(path)
        schema = metadata.schema.to_arrow_schema()
        note = _noted(schema)
        types = noted_types(schema, where) or ()
        if len(types) != 1 or types[0].name != place[1]:
            raise HistoryError("a file whose types are not those of its folder", given=types)
        event_type(types[0].name, types[0].attributes)
        _check_columns(pyarrow, schema)
        if not period[0] <= note.first // DAY <= note.last // DAY <= period[1]:
            days = f"{day_of(note.first)} to {day_of(note.last)}"
            raise HistoryError(
                "a file whose events are not of the day of its folder", given=days,
                advice="move it to the folder of its day",
            )  # fmt: skip
        size = path.stat().st_size
        strange = strange_columns(schema, types[0])
        found = HistoryFile(
            path, *place, metadata.num_rows, size, types[0], note, checked, strange, "constituents" in schema.names
        )
        if not all(period[0] <= each <= period[1] for each in found.days):
            raise HistoryError("a note that cannot be read", given=note.days, allowed="days of its folder")
        return found
    except (OSError, pyarrow.ArrowException, ValueError, OverflowError) as error:
        return Problem(where, HistoryError("a file that cannot be read", where=where, advice=str(error)))
    except DistcedError as error:
        at = error.where or where
        located = HistoryError(error.problem, given=error.given, allowed=error.allowed, where=at, advice=error.advice)
        return Problem(where, located)


def _period(text: str) -> tuple[int, int] | None:
    try:
        return period_of(text)
    except ValueError:
        return None


def shown_columns(schema: Any, known: EventType) -> list[str]:
    """Columns of a file's events and of the attributes of their type; others are not read."""
    wanted = {*OWN, "constituents"}
    for name in known.attributes:
        wanted |= {column_of(name), WHOLE + column_of(name)}
    return [name for name in schema.names if name in wanted]


def strange_columns(schema: Any, known: EventType) -> tuple[str, ...]:
    """Columns of another kind than the event type says."""
    found = []
    for name, kind in known.attributes.items():
        for column, fits in ((column_of(name), _FITS[kind]), (WHOLE + column_of(name), ("int64",))):
            if column in schema.names and not _is_of(schema.field(column).type, fits):
                found.append(column)
    return tuple(found)


_TEXT: Final = ("string", "dictionary")
_FITS: Final[dict[Kind, tuple[str, ...]]] = {"number": ("float64", "int64"), "string": _TEXT, "boolean": ("boolean",)}
_OWN_KINDS: Final = {
    "type": _TEXT,
    "source": _TEXT,
    "lo": ("int64",),
    "hi": ("int64",),
    "seq": ("int64", "decimal128"),
    "constituents": _TEXT,
    "time": (),
}


def _is_of(kind: Any, names: Iterable[str]) -> bool:
    types = import_pyarrow().types
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def _check_columns(pyarrow: Any, schema: Any) -> None:
    """Raise `HistoryError` for columns that hold no events; readers rely on them."""
    missing = [name for name in OWN if name not in schema.names]
    if missing:
        raise HistoryError("a file without columns that events have", given=", ".join(missing))
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise HistoryError("columns of one name", given=", ".join(sorted(twice)), allowed="each name once")
    values = (*_TEXT, "boolean", "float64", "int64")
    for field in schema:
        if not _is_of(field.type, _OWN_KINDS.get(field.name, values)):
            raise HistoryError(
                f"a column {field.name!r} of a kind that events do not have", given=str(field.type),
                advice="bring it in with distced ingest",
            )  # fmt: skip


def _noted(schema: Any) -> FileNote:
    noted = (schema.metadata or {}).get(NOTE_KEY)
    if noted is None:
        raise HistoryError("a Parquet file that no recorder has written", advice="bring it in with distced ingest")
    try:
        return file_notes.decode(noted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError("a note that cannot be read", given=noted, advice=str(error)) from None

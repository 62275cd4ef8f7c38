"""Writing of a history: events as they become stable, or whole tables of one type and day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from distced.middleware.event_files.reader import in_order
from distced.middleware.event_files.tables import import_pyarrow, table_of
from distced.middleware.history.footer import seal_footer
from distced.middleware.history.history_file import strange_columns
from distced.middleware.history.layout import (
    NOTE_KEY,
    RECORDERS,
    FileNote,
    NotedLoss,
    RecorderNote,
    day_of,
    day_text,
    folder_of,
    make_history,
    period_of,
    raise_version,
    write_whole,
)
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.event_types import EventType, Kind, event_type, kind_of
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, format_instant

ORDER: Final = ("hi", "lo", "source", "seq")
"""The columns that files are sorted by: the order of consumption (`Event.key`) among events of one type."""

ROW_GROUP: Final = 262_144  # rows read at once


class HistoryWriter:
    """Writer of events into a history.

    Each call makes a file for each day and type, so it is best given many events. Files appear whole or not at all, and
    the same events make the same file again.

    Attributes:
        root: folder of the history.
        recorder: name of the writer; two at a time need two names.
    """

    def __init__(self, root: Path | str, recorder: str, types: Iterable[EventType] = ()) -> None:
        """Writer of these types; other types have the attributes that their events have."""
        check_recorder(recorder)
        self.root = Path(root)
        self.recorder = recorder
        self._types = {each.name: each for each in types}
        import_pyarrow()
        make_history(self.root)

    def write(self, events: Iterable[Event], watermark: int | None = None) -> list[Path]:
        """Write events; the files that were made.

        Args:
            events: in any order, of any types, each id once.
            watermark: no other event of these types with `hi` at or before it will come, ns; None for unknown.
        """
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in in_order(events):
            groups.setdefault((day_of(event.hi), event.type), []).append(event)
        made = []
        for (day, type_name), group in groups.items():
            for kinds, alike in _of_one_schema(group):
                kinds, noted = self.declared(type_name, kinds)
                made.append(self.write_table(day, noted, table_of(alike, kinds, [noted]), watermark))
        return made

    def declared(self, type_name: str, kinds: Mapping[str, Kind | None]) -> tuple[dict[str, Kind | None], EventType]:
        """Kinds of a type's attributes, declared ones added, and the type to note; None is taken for a number."""
        known = self._types[type_name].attributes if type_name in self._types else {}
        found = {name: kinds.get(name) or known.get(name) for name in {**known, **kinds}}
        return found, event_type(type_name, {name: kind or "number" for name, kind in found.items()})

    def write_table(
        self, day: str, noted: EventType, table: Any, watermark: int | None, replaces: Sequence[str] = ()
    ) -> Path:
        """Write a table of events of one type and day, in the native form and in the order of consumption.

        The day may be a month or a year, of which the table has several days.
        """
        from distced.middleware.history.row_check import is_sound

        note = note_of(table, watermark, self.recorder, replaces)
        if not _is_one_day(day):
            note = msgspec.structs.replace(note, days=_by_day(table))
            raise_version(self.root)
        path = folder_of(self.root, day, noted.name) / _name(note)
        pyarrow = import_pyarrow()
        metadata = {**(table.schema.metadata or {}), NOTE_KEY: msgspec.json.encode(note)}
        part = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # With checksums, for what a disk has changed is to be no event of another time.
            pyarrow.parquet.write_table(
                table.replace_schema_metadata(metadata), part, compression="zstd", row_group_size=ROW_GROUP,
                write_page_checksum=True,
            )  # fmt: skip
            sound = not strange_columns(table.schema, noted) and is_sound(table, noted, note.first, note.last)
            seal_footer(part, checked=sound)
            part.replace(path)
        except (OSError, pyarrow.ArrowException) as error:
            raise HistoryError("cannot write the history", given=str(path), advice=str(error)) from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        return path

    def note(
        self,
        types: Iterable[str],
        watermark: int | None,
        since: int | None = None,
        gaps: Iterable[tuple[int, int]] = (),
        losses: Iterable[NotedLoss] = (),
    ) -> Path:
        """Note the progress of this recorder, events or none; the arguments are those of `RecorderNote`."""
        path = self.root / RECORDERS / f"{self.recorder}.json"
        note = RecorderNote(tuple(sorted(types)), watermark, since, tuple(gaps), tuple(losses))
        try:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, msgspec.json.encode(note))
        except OSError as error:
            raise HistoryError("cannot write the history", given=str(path), advice=str(error)) from None
        return path


def check_recorder(name: str) -> None:
    """Raise `HistoryError` where a text cannot be a recorder's name."""
    if not name or "/" in name or name.startswith("."):
        raise HistoryError("not a name for a recorder", given=name, allowed="a text without / that begins with no .")


def note_of(table: Any, watermark: int | None, recorder: str, replaces: Sequence[str] = ()) -> FileNote:
    """Note in the file of this table of one day."""
    compute = import_pyarrow().compute
    hi, lo = compute.min_max(table["hi"]).as_py(), compute.min(table["lo"]).as_py()
    # For the few events of a day threads cost more than they bring.
    groups = table.select(["source", "seq"]).group_by("source", use_threads=False)
    by_source = groups.aggregate([("seq", "count"), ("seq", "min_max")])
    sources = {
        each["source"]: (each["seq_count"], int(each["seq_min_max"]["min"]), int(each["seq_min_max"]["max"]))
        for each in by_source.to_pylist()
    }
    return FileNote(lo, hi["min"], hi["max"], watermark, dict(sorted(sources.items())), recorder, tuple(replaces))


def _is_one_day(text: str) -> bool:
    first, last = period_of(text)
    return first == last


def _by_day(table: Any) -> dict[str, int]:
    """Number of events by day."""
    import numpy as np

    days, counts = np.unique(table["hi"].to_numpy() // DAY, return_counts=True)
    return {day_text(day): count for day, count in zip(days.tolist(), counts.tolist(), strict=True)}


def _name(note: FileNote) -> str:
    """Name that sorts by time and is the same for the same events."""
    digest = blake2b(msgspec.json.encode(note), digest_size=6).hexdigest()
    moment = "".join(each for each in format_instant(note.first)[:19] if each.isdigit() or each == "T")
    return f"{moment}-{digest}.parquet"


def _of_one_schema(events: Sequence[Event]) -> list[tuple[dict[str, Kind | None], list[Event]]]:
    """Events by the columns they fit in: more than one group only where an attribute changes its kind."""
    groups: list[tuple[dict[str, Kind | None], list[Event]]] = []
    for event in events:
        kinds = {name: kind_of(value) for name, value in event.attributes.items()}
        for known, group in groups:
            if all(kind is None or known.get(name) in (None, kind) for name, kind in kinds.items()):
                known.update({name: kind or known.get(name) for name, kind in kinds.items()})
                group.append(event)
                break
        else:
            groups.append((kinds, [event]))
    return groups

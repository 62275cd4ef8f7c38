"""Layout of a history: a folder by day, in it one by type, in it files that are sorted and never change.

    PATH/history.json                                    mark of a history
    PATH/day=2026-11-22/type=Login/20261122T0815-3f0c.parquet
    PATH/recorders/office.json                           progress of a recorder
    PATH/late/20261122T081500-office-3f0c.jsonl          late events (`middleware.history.late_events`)

The names are those that Spark, DuckDB and pyarrow read as partitions. The day is that of the event's `hi`, in UTC. The
schema of a file notes its contents (`FileNote`), so that nothing else has to be kept in step with the files; a table of
contents beside them was rejected, because two writers would have to agree on it. A compacted file names the files it
replaces, and readers leave these out while they are still there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from distced.middleware.model.errors import HistoryError
from distced.middleware.model.timestamps import DAY

VERSION: Final = 1
NOTE_KEY: Final = b"distced.history"  # entry of a Parquet schema with the `FileNote`
MARK: Final = "history.json"
RECORDERS: Final = "recorders"

_FOLDER: Final = "a history, or a new or empty folder"

_PLACE: Final = re.compile(r"day=(-?\d+-\d\d-\d\d)/type=([^/]+)/([^/]+\.parquet)")


class Mark(msgspec.Struct, frozen=True):
    """Contents of `history.json`."""

    format: str = "distced history"
    version: int = VERSION


_marks: Final = msgspec.json.Decoder(Mark)


class FileNote(msgspec.Struct, frozen=True):
    """Note in a file of a history.

    Attributes:
        lo: least `lo` of its events, ns.
        first, last: least and greatest `hi`, ns.
        watermark: every event of this type with `hi` at or before it was in the history when the file was written; None
            for unknown.
        sources: by source the number of events, and the least and the greatest sequence number.
        recorder: that wrote it.
        replaces: names of files in the same folder whose events are all in this one.
    """

    lo: int
    first: int
    last: int
    watermark: int | None
    sources: dict[str, tuple[int, int, int]]
    recorder: str
    replaces: tuple[str, ...] = ()


class RecorderNote(msgspec.Struct, frozen=True):
    """Progress of a recorder.

    Attributes:
        types: it records.
        watermark: every event of these types with `hi` at or before it is in the history, ns.
        since: when it began, ns; None for unknown.
        gaps: from when to when it received nothing, ns; events published then may be missing.
    """

    types: tuple[str, ...]
    watermark: int | None
    since: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()


def day_of(hi: int) -> str:
    """Day of an event with this `hi`, in UTC."""
    return day_text(hi // DAY)


def day_text(number: int) -> str:
    """Text of a day, counted from 1 January 1970."""
    from datetime import date

    return date.fromordinal(719_163 + number).isoformat()


def is_day(text: str) -> bool:
    """Whether a text names a day."""
    try:
        return day_text(day_number(text)) == text
    except ValueError:
        return False


def day_number(text: str) -> int:
    """Day of such a text, counted from 1 January 1970."""
    from datetime import date

    return date.fromisoformat(text).toordinal() - 719_163


def folder_of(root: Path, day: str, type_name: str) -> Path:
    """Folder of the files of a day and a type."""
    return root / f"day={day}" / f"type={type_name}"


def place_of(root: Path, path: Path) -> tuple[str, str] | None:
    """Day and type of a file by its path; None where it is none of a history's files."""
    found = _PLACE.fullmatch(path.relative_to(root).as_posix())
    return None if found is None else (found[1], found[2])


def check_history(root: Path) -> None:
    """Raise `HistoryError` where there is no history, or one of a later version."""
    try:
        mark = _marks.decode((root / MARK).read_bytes())
    except FileNotFoundError:
        raise HistoryError(
            "no history here", given=str(root), allowed=f"a folder with {MARK}",
            advice="record one (distced record), or make one of recordings (distced ingest)",
        ) from None  # fmt: skip
    except NotADirectoryError:
        raise HistoryError(
            "a file where a history should be", given=str(root), allowed=f"a folder with {MARK}"
        ) from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError("a history that cannot be read", given=str(root / MARK), advice=str(error)) from None
    if mark.format != Mark().format or mark.version > VERSION:
        raise HistoryError(
            "not a history, or one of a later version", given=f"{mark.format} {mark.version}",
            allowed=f"{Mark().format} up to {VERSION}", where=str(root / MARK),
        )  # fmt: skip


def make_history(root: Path) -> None:
    """Make a folder a history, unless it is one."""
    try:
        strange = root.is_dir() and any(each.name != _part(MARK) for each in root.iterdir())
        # Looked at last: another recorder may be making the same folder a history.
        if not (root / MARK).exists():
            if strange or (root.exists() and not root.is_dir()):
                raise HistoryError("a history needs a folder of its own", given=str(root), allowed=_FOLDER)
            root.mkdir(parents=True, exist_ok=True)
            write_whole(root / MARK, msgspec.json.encode(Mark()))
            return
    except OSError as error:
        if not (root / MARK).exists():
            raise HistoryError(
                "no folder for a history can be made here", given=str(root), allowed=_FOLDER, advice=str(error)
            ) from None
    check_history(root)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file; it appears whole or not at all."""
    part = path.with_name(_part(path.name))
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        # Else a power failure might leave an empty file under the name.
        os.fsync(file.fileno())
    part.replace(path)


def _part(name: str) -> str:
    return f".{name}.part"

"""Layout of a history: a folder by day, in it one by type, in it files that are sorted and never change.

    PATH/history.json                                    mark of a history
    PATH/day=2026-11-22/type=Login/20261122T0815-3f0c.parquet
    PATH/day=2025/type=Login/20250101T0703-81aa.parquet  small days of a year or month, merged (version 2)
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from distced.middleware.model.errors import HistoryError
from distced.middleware.model.timestamps import DAY, INSTANT_MIN, format_instant

VERSION: Final = 2
"""The greatest version that is understood; a history has version 1 until days of it are merged."""

NOTE_KEY: Final = b"distced.history"  # entry of a Parquet schema with the `FileNote`
MARK: Final = "history.json"
RECORDERS: Final = "recorders"

_FOLDER: Final = "a history, or a new or empty folder"

_PLACE: Final = re.compile(r"day=(-?\d+(?:-\d\d){0,2})/type=([^/]+)/([^/]+\.parquet)")


class Mark(msgspec.Struct, frozen=True):
    """Contents of `history.json`."""

    format: str = "distced history"
    version: int = 1


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
        replaces: files whose events are all in this one: names in its folder, or, with `/`, paths in the history.
        days: number of events by day, in a file with several days.
    """

    lo: int
    first: int
    last: int
    watermark: int | None
    sources: dict[str, tuple[int, int, int]]
    recorder: str
    replaces: tuple[str, ...] = ()
    days: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


NotedLoss: TypeAlias = tuple[int, int, str]
"""Interval of event time in which events are missing for good, the first instant exclusive, ns; with the reason."""


class RecorderNote(msgspec.Struct, frozen=True):
    """Progress of a recorder.

    Attributes:
        types: it records.
        watermark: every event of these types with `hi` at or before it is in the history, ns.
        since: when it began, ns; None for unknown.
        gaps: from when to when it received nothing, ns; events published then may be missing.
        losses: in which events of its types are missing for good.
    """

    types: tuple[str, ...]
    watermark: int | None
    since: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    losses: tuple[NotedLoss, ...] = ()


def loss_text(loss: NotedLoss) -> str:
    """Text of a loss."""
    since, until, reason = loss
    begin = "the beginning" if since == INSTANT_MIN else format_instant(since)
    return f"from {begin} to {format_instant(until)} ({reason})"


def day_of(hi: int) -> str:
    """Day of an event with this `hi`, in UTC."""
    return day_text(hi // DAY)


def day_text(number: int) -> str:
    """Text of a day, counted from 1 January 1970."""
    from datetime import date

    return date.fromordinal(719_163 + number).isoformat()


def period_of(text: str) -> tuple[int, int]:
    """First and last day of a folder's period: a day, a month (`2026-11`), or a year; `ValueError` for other texts."""
    from calendar import monthrange

    year, *rest = text.split("-")
    if len(rest) > 1 or (not rest[:1] and len(year) != 4):
        found = day_number(text)
        if day_text(found) != text:
            raise ValueError(f"not a day: {text}")
        return found, found
    month, last = (rest[0], rest[0]) if rest else ("01", "12")
    return day_number(f"{year}-{month}-01"), day_number(f"{year}-{last}-{monthrange(int(year), int(last))[1]}")


class _OfPeriod(Protocol):
    @property
    def day(self) -> str: ...


_F = TypeVar("_F", bound=_OfPeriod)


def by_day(files: Iterable[_F]) -> Iterator[list[_F]]:
    """Files, or ranges of them, day by day; those of a month or year together with all of its days."""
    group: list[tuple[int, _F]] = []
    reach = None
    starts = sorted(
        ((period_of(each.day), place, each) for place, each in enumerate(files)), key=lambda found: found[:2]
    )
    for (first, last), place, each in starts:
        if reach is not None and first > reach:
            yield [file for _, file in sorted(group, key=lambda found: found[0])]
            group, reach = [], None
        group.append((place, each))
        reach = last if reach is None else max(reach, last)
    if group:
        yield [file for _, file in sorted(group, key=lambda found: found[0])]


def replaced_path(root: Path, path: Path, name: str) -> Path:
    """Path of a file that the one at a path replaces, by its name there."""
    return root / name if "/" in name else path.parent / name


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


def raise_version(root: Path) -> None:
    """Note that days of a history are merged, so that programs that do not know that refuse to read it."""
    if _marks.decode((root / MARK).read_bytes()).version < VERSION:
        write_whole(root / MARK, msgspec.json.encode(Mark(version=VERSION)))


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

"""Contents of a history: days and types, recorders, late events, and problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from distced.middleware.history.history import History
from distced.middleware.history.history_file import HistoryFile, Problem
from distced.middleware.history.late_events import late_files
from distced.middleware.history.layout import NotedLoss, period_of
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.timestamps import DAY

if TYPE_CHECKING:
    from distced.middleware.history.row_check import RowCheck


class DayReport(msgspec.Struct, frozen=True):
    """Events of one type on one day, or in a month or year whose days have been merged.

    Attributes:
        rows, bytes, files: number of events, rejected rows left out, and size.
        sources: number of events by source.
        watermark: everything with `hi` at or before it is there, ns; None for unknown.
        whole: whether that is the whole day.
        gaps: how often its recorders received nothing on that day.
        losses: number of intervals of that day in which events are missing for good.
        recorders: that wrote them.
    """

    day: str
    type: str
    rows: int
    bytes: int
    files: int
    sources: dict[str, int]
    watermark: int | None
    whole: bool
    gaps: int
    recorders: tuple[str, ...]
    losses: int = 0


class RecorderReport(msgspec.Struct, frozen=True):
    """Progress of a recorder; the attributes are those of `RecorderNote`."""

    name: str
    types: tuple[str, ...]
    watermark: int | None
    since: int | None
    gaps: tuple[tuple[int, int], ...]
    losses: tuple[NotedLoss, ...] = ()


class HistoryReport(msgspec.Struct, frozen=True):
    """Contents of a history.

    Attributes:
        days: by day and type.
        types: attributes of each, with their kinds.
        first, last: least and greatest `hi`, ns; None without events.
        rows, bytes, files: of all days and types.
        rejected: number of rows that are left out.
        n_days: number of days with events.
        late, late_files: number of late events, and of their files.
        problems: what cannot be read, as the parts of an error.
        changes: attributes that came, went, or changed their kind; in the same form.
        missing_days: days between the first and the last without any file.
    """

    path: str
    days: tuple[DayReport, ...]
    types: dict[str, dict[str, str]]
    first: int | None
    last: int | None
    rows: int
    bytes: int
    files: int
    recorders: tuple[RecorderReport, ...]
    late: int
    late_files: int
    problems: tuple[dict[str, str], ...]
    changes: tuple[dict[str, str], ...]
    missing_days: tuple[str, ...]
    rejected: int = 0
    n_days: int = 0


def history_report(history: History) -> HistoryReport:
    """Contents of a history."""
    from distced.middleware.history.row_check import check_rows

    groups: dict[tuple[str, str], list[HistoryFile]] = {}
    for file in history.files:
        groups.setdefault((file.day, file.type), []).append(file)
    rejected = check_rows(history.files)
    days = tuple(
        _day(history, *key, groups[key], rejected)
        for key in sorted(groups, key=lambda key: (period_of(key[0])[0], key))
    )
    problems = [*history.problems, *(each.problem(history.root) for each in rejected.rejected)]
    late, files = 0, late_files(history.root)
    for path in files:
        try:
            late += path.read_bytes().count(b"\n")
        except OSError as error:
            where = path.relative_to(history.root).as_posix()
            problems.append(Problem(where, HistoryError("a file that cannot be read", where=where, advice=str(error))))
    recorders = (
        RecorderReport(name, note.types, note.watermark, note.since, note.gaps, note.losses)
        for name, note in history.recorders.items()
    )
    return HistoryReport(
        str(history.root),
        days,
        {name: dict(each.attributes) for name, each in history.types.items()},
        history.first,
        history.last,
        history.rows - len(rejected),
        sum(each.bytes for each in days),
        len(history.files),
        tuple(recorders),
        late,
        len(files),
        tuple(each.error.as_dict() for each in problems),
        tuple(each.error.as_dict() for each in history.changes()),
        tuple(history.missing_days()),
        len(rejected),
        len(history.days()),
    )


def _day(history: History, day: str, type_name: str, files: Sequence[HistoryFile], rejected: RowCheck) -> DayReport:
    sources: dict[str, int] = {}
    for file in files:
        for source, (count, _, _) in file.note.sources.items():
            sources[source] = sources.get(source, 0) + count
    first, last = period_of(day)
    begin, end, wrote = first * DAY, (last + 1) * DAY, {file.note.recorder for file in files}
    # One that began after that day, and has written nothing of it, cannot say.
    recorders = [
        each
        for name, each in history.recorders.items()
        if type_name in each.types and (name in wrote or each.since is None or each.since < end)
    ]
    watermarks = [*(file.note.watermark for file in files), *(each.watermark for each in recorders)]
    watermark = max((each for each in watermarks if each is not None), default=None)
    gaps = [gap for each in recorders for gap in each.gaps if gap[0] < end and gap[1] >= begin]
    losses = [loss for each in recorders for loss in each.losses if loss[0] < end and loss[1] >= begin]
    return DayReport(
        day,
        type_name,
        sum(file.rows - len(rejected.rows.get(file.path, ())) for file in files),
        sum(file.bytes for file in files),
        len(files),
        dict(sorted(sources.items())),
        watermark,
        watermark is not None and watermark >= end - 1,
        len(gaps),
        tuple(sorted(wrote)),
        len(losses),
    )

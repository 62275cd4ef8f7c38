"""Retention: files of a history before a day, and their removal.

Only the history's own files are removed, the ones they replace, and late events. Other files, and those that cannot be
read, stay and are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from distced.middleware.history.history import History
from distced.middleware.history.history_file import Problem
from distced.middleware.history.late_events import late_events, late_files
from distced.middleware.history.layout import day_number, day_text, period_of
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.timestamps import DAY


class Dropping(msgspec.Struct, frozen=True):
    """Files before a day.

    Attributes:
        before: the first day that stays.
        days: of the files, without those of late events; merged days as their month or year, which goes as a whole.
        rows, late, bytes: events, late events, and size of the files.
        spanning: merged days of which some are later; they stay.
        left: files of these days that are not removed, and files of late events that cannot be read.
    """

    before: str
    paths: tuple[Path, ...]
    days: tuple[str, ...]
    rows: int
    late: int
    bytes: int
    left: tuple[str, ...]
    spanning: tuple[str, ...] = ()


def before_day(text: str) -> str:
    """Day in a text, or a `HistoryError`."""
    try:
        return day_text(day_number(text))
    except ValueError as error:
        raise HistoryError("not a day", given=text, allowed="YYYY-MM-DD", advice=str(error)) from None


def older_than(duration: int, now: int) -> str:
    """First day that does not lie entirely more than a duration back; none is before the first of all days."""
    return day_text(max((now - duration) // DAY, day_number("0001-01-01")))


def lies_before(history: History, before: str) -> Dropping:
    """Files to remove before a day."""
    limit = day_number(before)
    replaced = [each for each in history.replaced if period_of(each.day)[1] < limit]
    current = [each for each in history.files if period_of(each.day)[1] < limit]
    # Those that are replaced first: without what replaces them they would be seen again.
    files = [*replaced, *current]
    known = {each.path for each in files}
    late, unread = _late(history, limit * DAY)
    left = unread + [
        path.relative_to(history.root).as_posix()
        for day in sorted(history.root.glob("day=*"))
        if _is_before(day.name.removeprefix("day="), limit)
        for path in sorted(day.rglob("*"))
        if path.is_file() and path not in known
    ]
    return Dropping(
        before,
        (*(each.path for each in files), *(path for path, _ in late)),
        tuple(sorted({each.day for each in files}, key=period_of)),
        sum(each.rows for each in current),
        sum(count for _, count in late),
        sum(each.bytes for each in files) + sum(path.stat().st_size for path, _ in late),
        tuple(left),
        tuple(sorted({each.day for each in history.files if _spans(each.day, limit)})),
    )


def drop(paths: Iterable[Path]) -> Iterator[Path]:
    """Remove files, one after the other, and the folders that are empty then."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise HistoryError("a file that cannot be removed", given=str(path), advice=str(error)) from None
        # Not empty is no error: somebody else's things stay.
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()
        yield path


def _late(history: History, end: int) -> tuple[list[tuple[Path, int]], list[str]]:
    """Files of late events before an instant, with the number in each; and those that cannot be read."""
    found: list[tuple[Path, int]] = []
    unread: list[str] = []
    for path in late_files(history.root):
        problems: list[Problem] = []
        his = [event.hi for _, event in late_events(path, problems.append)]
        if problems:
            unread.append(path.relative_to(history.root).as_posix())
        elif max(his, default=end) < end:
            found.append((path, len(his)))
    return found, unread


def _spans(day: str, limit: int) -> bool:
    first, last = period_of(day)
    return first < limit <= last


def _is_before(day: str, limit: int) -> bool:
    try:
        return period_of(day)[1] < limit
    except ValueError:
        return False

"""Local times: hour, minute, weekday and date of an instant in a time zone, by the IANA time zone database.

Days of the week are numbered as in ISO 8601: Monday is 1, Sunday 7. The zone is a constant of the pattern, so that an
unknown one is an error of the pattern; one by attribute was rejected, because it would be an event's, and silent.

From 1970 to 2050 the changes of a zone's offset are in a table, which engines share; `datetime` takes five times as
long, and is asked for other instants.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND

DEFAULT_ZONE: Final = "UTC"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL: Final = _EPOCH.toordinal()
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_THURSDAY: Final = 3  # weekday of the epoch, Monday at 0
_UNTIL: Final = 80 * 366 * _DAY
# No zone changes twice in less.
_STEP: Final = 3 * _DAY
_CLOSE: Final = 0.8  # likeness of a name that is suggested


class OffsetTable(NamedTuple):
    """Offsets of a zone, s east of UTC, each from an instant on, s since the epoch; the last instant is the end of the
    table."""

    instants: tuple[int, ...]
    offsets: tuple[int, ...]


def _of_local_time(compute: Callable[[int], Attribute]) -> Callable[[Attribute, Attribute], Attribute]:
    """Function of an instant, ns, and a zone, by one of the local time in s."""

    def computed(instant: Attribute, zone: Attribute) -> Attribute:
        if not isinstance(instant, int | float) or type(instant) is bool or not INSTANT_MIN <= instant <= INSTANT_MAX:
            return None
        seconds = int(instant // SECOND)
        offset = _offset(zone, seconds) if isinstance(zone, str) else None
        return None if offset is None else compute(seconds + offset)

    return computed


LOCAL_TIMES: Final[dict[str, tuple[Callable[[Attribute, Attribute], Attribute], str]]] = {
    "hour": (_of_local_time(lambda seconds: seconds // _HOUR % 24), "number"),
    "minute": (_of_local_time(lambda seconds: seconds // _MINUTE % 60), "number"),
    "weekday": (_of_local_time(lambda seconds: (seconds // _DAY + _THURSDAY) % 7 + 1), "number"),
    "date": (_of_local_time(lambda seconds: date.fromordinal(_EPOCH_ORDINAL + seconds // _DAY).isoformat()), "string"),
}
"""Functions of an instant, ns since the Unix epoch, and the name of a zone; each with the kind of its value."""


def _offset(zone: str, seconds: int) -> int | None:
    """Offset of a zone at an instant, s; None for an unknown zone."""
    table = offset_table(zone)
    if table is None:
        return None
    if 0 <= seconds < _UNTIL:
        return table.offsets[bisect_right(table.instants, seconds) - 1]
    return _offset_by_datetime(zone, seconds)


def _offset_by_datetime(zone: str, seconds: int) -> int:
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(time_zone(zone)).utcoffset() or timedelta()
    return round(offset.total_seconds())


@lru_cache(maxsize=256)
def offset_table(zone: str) -> OffsetTable | None:
    """Offsets of a zone from 1970 to 2050; None for an unknown zone."""
    if time_zone(zone) is None:
        return None
    instants, offsets = [0], [_offset_by_datetime(zone, 0)]
    for end in range(_STEP, _UNTIL + 1, _STEP):
        offset = _offset_by_datetime(zone, end)
        if offset == offsets[-1]:
            continue
        before, behind = end - _STEP, end
        while behind - before > 1:
            middle = (before + behind) // 2
            if _offset_by_datetime(zone, middle) == offset:
                behind = middle
            else:
                before = middle
        instants.append(behind)
        offsets.append(offset)
    return OffsetTable((*instants, _UNTIL), (*offsets, 0))


@lru_cache(maxsize=256)
def time_zone(name: str) -> ZoneInfo | None:
    """Zone of a name; None for an unknown one."""
    try:
        zone = ZoneInfo(name)
        zone.utcoffset(None)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return zone


def near_zone(name: str) -> str | None:
    """Known zone whose name, or whose city, is like an unknown one."""
    wanted = name.lower().replace(" ", "_")
    zones = {each.lower(): each for each in sorted(available_timezones())}
    cities = {each.rpartition("/")[2]: zone for each, zone in zones.items() if "/" in each and "etc/" not in each}
    for names in zones, cities:
        if wanted in names:
            return names[wanted]
    for names in zones, cities:
        if found := get_close_matches(wanted, names, n=1, cutoff=_CLOSE):
            return names[found[0]]
    return None

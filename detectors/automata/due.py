"""Due instants of time events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from distced.middleware.model.timestamps import DAY, HOUR, INSTANT_MAX, MINUTE, SECOND
from distced.middleware.patterns.tree import Instant, Relative, TimeOfDay, When

_MIDNIGHT_ORDINAL = 719_163  # 1970-01-01 in the proleptic Gregorian calendar


def due_instant(when: When, end: int) -> int | None:
    """The due instant, ns, of a time event started at `end`, the `hi` of the event that sets it off; None for never, as
    an absolute instant that is past. A time of day is the next one at or after `end`."""
    match when:
        case Relative(delay=delay):
            due = end + delay
            return due if due <= INSTANT_MAX else None
        case Instant(instant=instant):
            return instant if instant >= end else None
        case TimeOfDay(nanosecond=nanosecond, zone=int(minutes)):
            due = end + (nanosecond - minutes * MINUTE - end) % DAY
            return due if due <= INSTANT_MAX else None
        case TimeOfDay(nanosecond=nanosecond, zone=str(name)):
            return _next_in_zone(nanosecond, ZoneInfo(name), end)
    raise TypeError(when)


def _next_in_zone(nanosecond: int, zone: ZoneInfo, end: int) -> int | None:
    # In a zone with summer time days differ in length, so candidates are made day by day. A time that a spring night
    # leaves out is read by the offset before it, one that an autumn night has twice is the first (PEP 495, fold 0).
    day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=end // SECOND)).astimezone(zone).toordinal()
    for ordinal in range(day - 1, day + 3):
        midnight = datetime.fromordinal(ordinal)
        local = midnight.replace(
            hour=nanosecond // HOUR, minute=nanosecond // MINUTE % 60, second=nanosecond // SECOND % 60, tzinfo=zone
        )
        offset = local.utcoffset() or timedelta()
        due = (ordinal - _MIDNIGHT_ORDINAL) * DAY + nanosecond - round(offset.total_seconds()) * SECOND
        if due >= end:
            return due if due <= INSTANT_MAX else None
    return None

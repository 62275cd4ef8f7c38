"""Durations and due times, from text or Python's values to nodes of the tree."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.timestamps import HOUR, MICROSECOND, MINUTE, SECOND, parse_duration, parse_instant
from distced.middleware.patterns.tree import Instant, Relative, TimeOfDay, When

CLOCK_TIME: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?")
"""A time of day, with the offset of its zone if it has one."""

_ZONE: Final = re.compile(r" *'([^'\n]+)'")
_ALLOWED: Final = "at 19:00, at 19:00 'Europe/London', at 2026-11-21T08:00Z"


def duration(given: str | timedelta) -> int:
    """Nanoseconds of a duration, 0 or more."""
    if isinstance(given, timedelta):
        nanoseconds = (given // timedelta(microseconds=1)) * MICROSECOND
        if nanoseconds < 0:
            raise PatternError("a duration that goes back", given=str(given), allowed="0 or more")
        return nanoseconds
    return parse_duration(given)


def when(given: str | timedelta | time | datetime) -> When:
    """Due time of a time event."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise PatternError("a moment without a zone", given=str(given), advice="give it a tzinfo, such as UTC")
        return Instant(parse_instant(given.isoformat()))
    if isinstance(given, time):
        return _time_of_day(given)
    if isinstance(given, str) and given.startswith("at "):
        return _moment(given.removeprefix("at ").strip())
    return Relative(duration(given))


def clock_time(match: re.Match[str]) -> TimeOfDay:
    """Time of day that `CLOCK_TIME` matched; `PatternError` for one beyond 23:59:59."""
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    zone = (int(match[7]) * 60 + int(match[8])) * (1 if match[6] == "+" else -1) if match[6] else 0
    if hour > 23 or minute > 59 or second > 59 or abs(zone) >= 24 * 60:
        raise PatternError("not a time of day", given=match[0], allowed="00:00 to 23:59:59")
    return TimeOfDay(hour * HOUR + minute * MINUTE + second * SECOND + int((match[4] or "0").ljust(9, "0")), zone)


def _moment(text: str) -> When:
    match = CLOCK_TIME.match(text)
    if match is not None:
        zone = _ZONE.fullmatch(text, match.end())
        if match.end() == len(text) or (zone and not match[5] and not match[6]):
            time_of_day = clock_time(match)
            return TimeOfDay(time_of_day.nanosecond, zone[1]) if zone else time_of_day
    try:
        return Instant(parse_instant(text))
    except DistcedError:
        raise PatternError("not a moment", given=f"at {text}", allowed=_ALLOWED) from None


def _time_of_day(given: time) -> TimeOfDay:
    seconds = given.hour * HOUR + given.minute * MINUTE + given.second * SECOND
    nanosecond = seconds + given.microsecond * MICROSECOND
    if given.tzinfo is None:
        return TimeOfDay(nanosecond)
    if isinstance(given.tzinfo, ZoneInfo):
        return TimeOfDay(nanosecond, given.tzinfo.key)
    offset = given.utcoffset()
    if offset is None:
        raise PatternError(
            "a zone without an offset", given=str(given.tzinfo), allowed="UTC, timezone(...), ZoneInfo(...)"
        )
    return TimeOfDay(nanosecond, round(offset.total_seconds() / 60))

"""Durations and moments as they are written in patterns."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.timestamps import (
    MICROSECOND,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)

_TIME_OF_DAY: Final = re.compile(r"\d\d?:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d| *'[^'\n]+')?")


def duration(given: str | timedelta) -> str:
    """A duration's text, checked."""
    if isinstance(given, timedelta):
        nanoseconds = (given // timedelta(microseconds=1)) * MICROSECOND
        if nanoseconds < 0:
            raise PatternError("a duration that goes back", given=str(given), allowed="0 or more")
        return format_duration(nanoseconds)
    return format_duration(parse_duration(given))


def when(given: str | timedelta | time | datetime) -> str:
    """When a time event is due, as it stands behind `@ T =`."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise PatternError("a moment without a zone", given=str(given), advice="give it a tzinfo, such as UTC")
        return f"at {format_instant(parse_instant(given.isoformat()))}"
    if isinstance(given, time):
        return f"at {_clock(given)}"
    if isinstance(given, str) and given.startswith("at "):
        moment = given.removeprefix("at ").strip()
        if not _TIME_OF_DAY.fullmatch(moment):
            try:
                parse_instant(moment)
            except DistcedError:
                raise PatternError(
                    "not a moment", given=given, allowed="at 19:00, at 19:00 'Europe/London', at 2026-11-21T08:00Z"
                ) from None
        return f"at {moment}"
    return duration(given)


def _clock(given: time) -> str:
    text = given.replace(tzinfo=None).isoformat()
    text = text.removesuffix(":00") if given.second == given.microsecond == 0 else text
    zone = given.tzinfo
    if zone is None:
        return text
    if isinstance(zone, ZoneInfo):
        return f"{text} '{zone.key}'"
    offset = given.utcoffset()
    if offset is None:
        raise PatternError("a zone without an offset", given=str(zone), allowed="UTC, timezone(...), ZoneInfo(...)")
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{text}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"

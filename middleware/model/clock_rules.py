"""Clocks: types whose events come by themselves, at aligned instants, in no source.

A clock is named by its rule, behind a sign that no name of a type has: `%every 1h`, `%0 8 * * mon-fri in
Europe/London`.
So two types with one rule are one clock wherever they are compiled, and texts of patterns carry what is needed to
compute the instants. `every` is aligned to the epoch, as intervals of throttled types are. The five fields of cron are
read by cronsim, which follows Debian's cron when clocks are changed: a time that a spring night leaves out comes at the
end of the gap, one that an autumn night has twice comes once; of rules by the hour or the minute each one comes.
Rejected: rules that count from the first event, which would differ between readers; fields for seconds, for which there
is `every`; a calendar of our own, as rules of cron have many corners.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND, format_duration, parse_duration

CLOCK_PREFIX: Final = "%"
_EVERY: Final = f"{CLOCK_PREFIX}every "
_IN: Final = " in "
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = 24 * 60 * 60
_BEFORE: Final = 3 * 60 * 60
_FIRST: Final = INSTANT_MIN // SECOND + 2 * _DAY
_LAST_YEAR: Final = 2262
"""Of all instants."""

_ALLOWED: Final = "minute, hour, day, month and day of the week, such as '0 8 * * mon-fri'"


def is_clock(name: str) -> bool:
    """Whether the name of a type is that of a clock."""
    return name[:1] == CLOCK_PREFIX


def every_clock(interval: int) -> str:
    """Name of the clock with an event at each multiple of `interval`, ns. Raises `TypeRegistryError`."""
    if not 0 < interval <= INSTANT_MAX:
        raise TypeRegistryError("not an interval of a clock", given=format_duration(interval), allowed="from 1ns")
    return _EVERY + format_duration(interval)


def cron_clock(fields: str, zone: str = "UTC") -> str:
    """Name of the clock by the five fields of cron in a time zone. Raises `TypeRegistryError`."""
    words = fields.lower().split()
    if len(words) != 5:
        raise TypeRegistryError("not the five fields of a clock", given=fields, allowed=_ALLOWED)
    name = f"{CLOCK_PREFIX}{' '.join(words)}{_IN}{zone}"
    check_clock(name)
    return name


@lru_cache(maxsize=1024)
def check_clock(name: str) -> str:
    """The name of a clock. Raises `TypeRegistryError` for another."""
    if name.startswith(_EVERY):
        try:
            made = every_clock(parse_duration(name.removeprefix(_EVERY)))
        except TypeRegistryError:
            raise
        except Exception as error:
            raise TypeRegistryError("not an interval of a clock", given=name, allowed="every 1h") from error
        if made != name:
            raise TypeRegistryError("not an interval of a clock", given=name, allowed=made)
        return name
    fields, _, zone = name.removeprefix(CLOCK_PREFIX).rpartition(_IN)
    if not is_clock(name) or fields != " ".join(fields.lower().split()) or len(fields.split()) != 5:
        raise TypeRegistryError("not the five fields of a clock", given=name, allowed=_ALLOWED)
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        raise TypeRegistryError("unknown time zone", given=zone, allowed="a name such as 'Europe/London'") from None
    from cronsim import CronSim, CronSimError

    try:
        next(CronSim(fields, _EPOCH))
    except (CronSimError, StopIteration, ValueError, AssertionError) as error:
        reason = str(error) or "it never comes"
        raise TypeRegistryError(
            f"not the fields of a clock: {reason[:1].lower()}{reason[1:]}", given=fields, allowed=_ALLOWED
        ) from None
    return name


def interval_of(name: str) -> int | None:
    """Interval between the events of a clock, ns; None for one by the calendar."""
    return parse_duration(name.removeprefix(_EVERY)) if name.startswith(_EVERY) else None


def format_clock(name: str) -> str:
    """The rule of a clock as it is written behind `clock`."""
    if name.startswith(_EVERY):
        return name.removeprefix(CLOCK_PREFIX)
    fields, _, zone = name.removeprefix(CLOCK_PREFIX).rpartition(_IN)
    return f'"{fields}"' if zone == "UTC" else f'"{fields}" in "{zone}"'


def next_instant(name: str, after: int) -> int | None:
    """First instant of a clock behind another, ns; None where none comes any more."""
    interval = interval_of(name)
    if interval is None:
        return _next_by_calendar(name, after // SECOND)
    found = (after // interval + 1) * interval
    return found if found <= INSTANT_MAX else None


def clock_event(name: str, instant: int) -> Event:
    """Event of a clock. Its number is the instant, and unique before the epoch, too."""
    return Event(name, instant, instant, name, instant if instant >= 0 else 2**64 + instant, {})


def _next_by_calendar(name: str, second: int) -> int | None:
    """First instant behind a second: instants are whole minutes."""
    day: int | None = max(second, _FIRST) // _DAY
    while day is not None:
        instants, later = _instants_of(name, day)
        place = bisect_right(instants, second)
        if place < len(instants):
            return instants[place] * SECOND if instants[place] * SECOND <= INSTANT_MAX else None
        day = None if later is None else later // _DAY
    return None


@lru_cache(maxsize=1024)
def _instants_of(name: str, day: int) -> tuple[tuple[int, ...], int | None]:
    """Instants of a day of UTC, and the next behind it, s. Remembered, as all readers of a clock ask for them."""
    from cronsim import CronSim

    fields, _, zone = name.removeprefix(CLOCK_PREFIX).rpartition(_IN)
    # Where clocks are changed what cronsim finds may depend on where it begins within the hour.
    begin = _EPOCH + timedelta(seconds=day * _DAY - _BEFORE)
    found: list[int] = []
    for local in CronSim(fields, begin if zone == "UTC" else begin.astimezone(ZoneInfo(zone))):
        second = round((local - _EPOCH) / timedelta(seconds=1))
        if second >= (day + 1) * _DAY:
            return tuple(sorted(set(found))), None if local.year > _LAST_YEAR else second
        if second >= day * _DAY:
            found.append(second)
    return tuple(sorted(set(found))), None

"""Local times: hour, minute, weekday and date of an instant in a time zone, by the IANA time zone database.

Days of the week are numbered as in ISO 8601: Monday is 1, Sunday 7. The zone is a constant of the pattern, so that an
unknown one is an error of the pattern; one by attribute was rejected, because it would be an event's, and silent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND

DEFAULT_ZONE: Final = "UTC"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOSE: Final = 0.8  # likeness of a name that is suggested


def _of_local_time(compute: Callable[[datetime], Attribute]) -> Callable[[Attribute, Attribute], Attribute]:
    def computed(instant: Attribute, zone: Attribute) -> Attribute:
        if not isinstance(instant, int | float) or type(instant) is bool or not INSTANT_MIN <= instant <= INSTANT_MAX:
            return None
        known = time_zone(zone) if isinstance(zone, str) else None
        if known is None:
            return None
        return compute((_EPOCH + timedelta(seconds=int(instant // SECOND))).astimezone(known))

    return computed


LOCAL_TIMES: Final[dict[str, tuple[Callable[[Attribute, Attribute], Attribute], str]]] = {
    "hour": (_of_local_time(lambda moment: moment.hour), "number"),
    "minute": (_of_local_time(lambda moment: moment.minute), "number"),
    "weekday": (_of_local_time(datetime.isoweekday), "number"),
    "date": (_of_local_time(lambda moment: moment.date().isoformat()), "string"),
}
"""Functions of an instant, ns since the Unix epoch, and the name of a zone; each with the kind of its value."""


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

"""Interval timestamps, their two orders and their union, and the text of durations and instants.

A timestamp is a closed interval of integer nanoseconds since the Unix epoch: clock uncertainty for a primitive event,
the span of its constituents for a composite one (composite-event-framework-2004, "Time Model" and Appendix A, equations
3-5). Floating-point seconds were rejected: two nodes must agree to the last bit about which event came first.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from distced.middleware.model.errors import DistcedError

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# Instants stay inside 64 bits, so that every engine and the wire can carry them.
INSTANT_MIN: Final = -(2**63)
INSTANT_MAX: Final = 2**63 - 1

UNITS: Final[dict[str, int]] = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "min": MINUTE,
    "h": HOUR,
    "d": DAY,
}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|h|d)")


class Timestamp(NamedTuple):
    """Closed interval `[lo, hi]` of integer nanoseconds since the Unix epoch, `lo <= hi`."""

    lo: int
    hi: int

    def before(self, other: Timestamp) -> bool:
        """Strong order `<`: this one ended before the other began (equation 3)."""
        return self.hi < other.lo

    def weakly_before(self, other: Timestamp) -> bool:
        """Weak order `≺`, total up to equal timestamps: by `hi`, then by `lo` (equation 4)."""
        return (self.hi, self.lo) < (other.hi, other.lo)

    def union(self, other: Timestamp) -> Timestamp:
        """Smallest interval that holds both (equation 5)."""
        return Timestamp(min(self.lo, other.lo), max(self.hi, other.hi))


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as `15ns`, `5s`, `2min`, `1h` or `1.5d`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise DistcedError(
            "not a duration", given=text, allowed=f"a number and a unit out of {', '.join(UNITS)}", advice="write 5min"
        )
    return duration_of(match[1], match[2])


def duration_of(number: str, unit: str) -> int:
    """Nanoseconds of a decimal number of units, exactly; a fraction of a nanosecond is an error."""
    whole, _, fraction = number.partition(".")
    scaled = int(whole + fraction) * UNITS[unit]
    fractions: int = 10 ** len(fraction)
    nanoseconds, rest = divmod(scaled, fractions)
    if rest:
        raise DistcedError("a duration finer than a nanosecond", given=number + unit, allowed="whole nanoseconds")
    return nanoseconds


def format_duration(nanoseconds: int) -> str:
    """Shortest text that `parse_duration` reads back as the same duration."""
    for unit in ("d", "h", "min", "s", "ms", "us"):
        if nanoseconds and nanoseconds % UNITS[unit] == 0:
            return f"{nanoseconds // UNITS[unit]}{unit}"
    return f"{nanoseconds}ns"


def parse_instant(text: str) -> int:
    """Nanoseconds since the Unix epoch of an ISO 8601 date and time; UTC where it names no zone.

    `datetime` alone would cut the fraction at microseconds, so that is read here to the nanosecond.
    """
    head, fraction, tail = _split_fraction(text.strip())
    try:
        moment = datetime.fromisoformat(head + tail)
    except ValueError as error:
        raise DistcedError(
            "not an instant", given=text, allowed="ISO 8601, such as 2026-11-21T08:00:00Z", advice=str(error)
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    instant = (delta.days * 86_400 + delta.seconds) * SECOND + fraction
    if not INSTANT_MIN <= instant <= INSTANT_MAX:
        raise DistcedError("an instant beyond 64 bits of nanoseconds", given=text, allowed="1677-09-22 to 2262-04-11")
    return instant


def instant_of(text: str) -> int:
    """Nanoseconds since the Unix epoch: a number of them, or ISO 8601 text."""
    text = text.strip()
    if not re.fullmatch(r"[+-]?\d{1,24}", text):
        return parse_instant(text)
    instant = int(text)
    if not INSTANT_MIN <= instant <= INSTANT_MAX:
        raise DistcedError("an instant beyond 64 bits of nanoseconds", given=text, allowed="-2^63 to 2^63 - 1")
    return instant


def format_instant(instant: int) -> str:
    """ISO 8601 in UTC, to the nanosecond where it needs to be."""
    seconds, fraction = divmod(instant, SECOND)
    day, second = divmod(seconds, 86_400)
    moment = datetime.fromordinal(719_163 + day)
    text = f"{moment:%Y-%m-%d}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") + "Z" if fraction else f"{text}Z"


def _split_fraction(text: str) -> tuple[str, int, str]:
    match = re.fullmatch(r"(.*:\d\d)\.(\d{1,9})(\D.*)?", text)
    if match is None:
        return text, 0, ""
    return match[1], int(match[2].ljust(9, "0")), match[3] or ""

"""Timestamps of a mapping's events: instants of messages in common formats, and corrections of their clocks.

A clock is judged by the arrival of its messages: a message arrives after it was sent, and soon after as a rule. So the
smallest difference between arrival and claim seen from a source bounds a constant error of its clock from above (the
minimum filter of NTP, RFC 5905, section 10), and a difference near a multiple of a quarter of an hour is a time zone,
for all zones in use are such multiples.

A local time that occurs twice, in the hour when summer time ends, is two instants; where the arrival does not tell
which, the claim reaches over both. A format that lacks the year (syslog's) gets the one that places the instant before
the arrival, or after the previous one from the same source, but for 30 days in which a clock may go astray: that rolls
over at New Year and bears a clock that jumps back across it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from distced.middleware.mapping.extraction import DeviceMessage, compile_path, compile_value
from distced.middleware.mapping.schema import TimeSpec
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.timestamps import (
    DAY,
    HOUR,
    INSTANT_MAX,
    INSTANT_MIN,
    MINUTE,
    SECOND,
    UNITS,
    format_duration,
    parse_duration,
    parse_instant,
)

ZONE_STEP: Final = 15 * MINUTE
EASTERNMOST: Final = 14 * HOUR  # most that zones are ahead of UTC
WESTERNMOST: Final = 12 * HOUR  # most that zones are behind UTC


@dataclass(slots=True)
class SourceClock:
    """Clock of a source, as remembered.

    Attributes:
        seq: sequence number of its last event; -1 before the first. It only grows, so ids are unique.
        claim: last `hi` of its clock, ns, uncorrected; None before the first.
        hi: greatest `hi` of its timestamps, ns; None before the first.
        offset: correction of its clock, ns; None for unknown.
    """

    seq: int
    claim: int | None = None
    hi: int | None = None
    offset: int | None = None


class Settled(NamedTuple):
    """Timestamp in ns, and how it came about: `held`, `by arrival`, `offset relearnt`."""

    lo: int
    hi: int
    remarks: tuple[str, ...] = ()


class ClockPolicy:
    """Policy that settles the timestamp of an event by the claim and the arrival of its message.

    Attributes:
        needs_arrival: whether a claim says nothing without an arrival to compare it with.
        is_monotone: whether times that go back are held.
        before, after: what is added for uncertainty to either end of a claim, ns.
    """

    def __init__(self, spec: TimeSpec, by_arrival: bool) -> None:
        self._mode = spec.clock
        self._by_arrival = by_arrival
        self.needs_arrival = by_arrival or spec.clock in ("offset", "zone")
        self.is_monotone = spec.clock == "monotone"
        self._fall_back = by_arrival or spec.otherwise == "arrival"
        uncertainty = _duration("uncertainty", spec.uncertainty)
        self.before = uncertainty + _duration("before", spec.before)
        self.after = uncertainty + _duration("after", spec.after)
        self._delay = _duration("delay", spec.delay)
        self._skew = None if spec.skew is None else _duration("skew", spec.skew)
        if self._mode == "offset" and self._skew is None:
            raise MappingError(
                "clock = 'offset' needs a skew", allowed="skew = '1min'",
                advice="give the difference beyond which the clock must have been reset",
            )  # fmt: skip

    def settle(
        self, claim: Claim | None, problem: MappingError | None, arrival: int | None, state: SourceClock
    ) -> Settled:
        """Timestamp of an event, or a `MappingError` where it has none; updates `state`.

        Args:
            problem: why there is no claim, where the message has one that cannot be read.
            arrival: of the message, ns; None for unknown.
        """
        lo, hi, remarks = self._interval(claim, problem, arrival, state)
        if self.is_monotone and state.hi is not None and hi < state.hi:
            # Either this clock reading is wrong or an earlier one was; the interval reaches over both.
            hi = state.hi
            remarks = (*remarks, "held")
        if not INSTANT_MIN <= lo <= hi <= INSTANT_MAX:
            raise MappingError("a timestamp beyond 64 bits of nanoseconds", given=f"[{lo}, {hi}]")
        state.hi = hi if state.hi is None else max(hi, state.hi)
        if claim is not None:
            state.claim = claim.hi
        return Settled(lo, hi, remarks)

    def _interval(
        self, claim: Claim | None, problem: MappingError | None, arrival: int | None, state: SourceClock
    ) -> Settled:
        if claim is None:
            return self._arrived(problem or MappingError("no time", advice="see time.otherwise"), arrival)
        lo, hi = claim
        remarks: tuple[str, ...] = ()
        if self._mode == "offset" or self._mode == "zone":
            if arrival is None:
                raise MappingError("no arrival to set the clock by", allowed="live messages, or file.arrival")
            if self._mode == "zone":
                shift = _zone(arrival - hi)
                if not -EASTERNMOST <= shift <= WESTERNMOST:
                    return self._arrived(_wrong(arrival - hi, "the time of a zone on Earth"), arrival)
            else:
                shift, remarks = self._offset(arrival - hi, state)
            lo, hi = lo + shift, hi + shift
        if self._skew is not None and arrival is not None and abs(arrival - hi) > self._skew:
            allowed = f"at most {format_duration(self._skew)} from the arrival"
            return self._arrived(_wrong(arrival - hi, allowed), arrival)
        lo, hi = lo - self.before, hi + self.after
        if self._mode == "offset" and arrival is not None:
            # It cannot have happened after it arrived.
            hi = min(hi, arrival)
            lo = min(lo, hi)
        return Settled(lo, hi, remarks)

    def _arrived(self, problem: MappingError, arrival: int | None) -> Settled:
        if arrival is None or not self._fall_back:
            raise problem
        return Settled(arrival - self._delay, arrival, () if self._by_arrival else ("by arrival",))

    def _offset(self, difference: int, state: SourceClock) -> tuple[int, tuple[str, ...]]:
        assert self._skew is not None
        if state.offset is None or difference < state.offset:
            state.offset = difference
        elif difference - state.offset > self._skew:
            state.offset = difference
            return difference, ("offset relearnt",)
        return state.offset, ()


def _zone(difference: int) -> int:
    """Multiple of a quarter of an hour next to the difference."""
    return (difference + ZONE_STEP // 2) // ZONE_STEP * ZONE_STEP


def _wrong(difference: int, allowed: str) -> MappingError:
    given = format_duration(abs(difference)) + (" behind" if difference > 0 else " ahead")
    return MappingError("a clock that is wrong", given=given, allowed=allowed)


def _duration(key: str, text: str) -> int:
    try:
        return parse_duration(text)
    except DistcedError as error:
        raise MappingError(f"{key} is no duration", given=text, allowed=error.allowed, advice=error.advice) from None


_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_EPOCH_UNITS: Final = ("s", "ms", "us", "ns")
_LEAP_YEAR: Final = 2000
_FIXED: Final = re.compile(r"([+-])(\d\d):?(\d\d)")
_CACHED: Final = 1024
_ASTRAY: Final = 30 * DAY


class Claim(NamedTuple):
    """Time that a message claims, before anything is added for uncertainty: `[lo, hi]`, ns."""

    lo: int
    hi: int


class InstantReader:
    """Reader of instants in one format.

    Attributes:
        unit: of numbers, ns; 0 for texts.
        is_iso: whether texts are ISO 8601, those without a zone in UTC.
        lacks_year: whether the format has no year.
    """

    def __init__(self, form: str, zone: str = "UTC", year: int | None = None) -> None:
        self._form = form
        self.unit = UNITS[form] if form in _EPOCH_UNITS else 0
        self._zone = parse_zone(zone)
        self.is_iso = form == "iso" and self._zone is UTC
        self._year = year
        self.lacks_year = False
        if not self.unit and form != "iso":
            self._check_strptime(form)
        elif year is not None:
            raise MappingError("a year for a format that has one", given=year, allowed="only with strptime formats")
        self._parse = lru_cache(maxsize=_CACHED)(self._parse_text)
        self._in_year = lru_cache(maxsize=_CACHED)(self._place_in_year)

    def _check_strptime(self, form: str) -> None:
        directives = set(re.findall(r"%(.)", form))
        try:
            datetime.strptime(datetime(_LEAP_YEAR, 3, 1, 23, 59, 58, tzinfo=UTC).strftime(form), form)
        except (ValueError, re.error) as error:
            raise self._bad_format(form, str(error)) from None
        if not (directives & set("cxjV") or ("d" in directives and directives & set("mbB"))):
            raise self._bad_format(form, "it has no month and day")
        self.lacks_year = not directives & set("YycxG")
        if self._year is not None and not self.lacks_year:
            raise MappingError("a year for a format that has one", given=self._year, allowed="no year beside %Y or %y")

    def _bad_format(self, form: str, reason: str) -> MappingError:
        return MappingError(
            "not a format for a time", given=form, allowed="iso, s, ms, us, ns, or strptime's, such as %Y%m%d%H%M",
            advice=reason,
        )  # fmt: skip

    def read(self, value: object, arrival: int | None, previous: int | None = None) -> Claim:
        """Instant of a value; two where a local time occurs twice and the arrival does not tell which.

        Args:
            previous: the previous claim of the same source, for formats without a year.
        """
        if self.unit:
            instant = self._count(value)
            return Claim(instant, instant)
        if type(value) is not str:
            raise self._unreadable(value, "it is no text")
        parsed = self._parse(value)
        if isinstance(parsed, datetime):
            parsed = self._with_year(value, parsed, arrival, previous)
        if arrival is not None and parsed.lo != parsed.hi:
            nearest = min(parsed, key=lambda instant: abs(instant - arrival))
            return Claim(nearest, nearest)
        return parsed

    def _count(self, value: object) -> int:
        if type(value) is int:
            instant = value * self.unit
        elif type(value) is float or type(value) is str:
            try:
                # By its shortest text a float such as 1585673980.123 is exactly the decimal that was sent.
                exact = Decimal(str(value)) * self.unit
                instant = int(exact) if INSTANT_MIN <= exact <= INSTANT_MAX else INSTANT_MAX + 1
            except (ArithmeticError, ValueError):
                raise self._unreadable(value, "it is no number") from None
        else:
            raise self._unreadable(value, "it is no number")
        if not INSTANT_MIN <= instant <= INSTANT_MAX:
            raise self._unreadable(value, "it is beyond 64 bits of nanoseconds")
        return instant

    def _parse_text(self, text: str) -> Claim | datetime:
        """Instant of a text; the moment in a leap year where the format has no year."""
        if self._form == "iso":
            return self._parse_iso(text)
        try:
            if self.lacks_year:
                # With a leap year in front, because 29 February is no day of strptime's own default, 1900.
                return datetime.strptime(f"{_LEAP_YEAR} {text.strip()}", f"%Y {self._form}")
            moment = datetime.strptime(text.strip(), self._form)
        except ValueError as error:
            raise self._unreadable(text, str(error)) from None
        return self._place(text, moment)

    def _parse_iso(self, text: str) -> Claim:
        try:
            if self._zone is not UTC and datetime.fromisoformat(text.strip()).tzinfo is None:
                return local_instants(parse_instant(text), self._zone)
            instant = parse_instant(text)
        except (DistcedError, ValueError) as error:
            raise self._unreadable(text, str(error)) from None
        return Claim(instant, instant)

    def _place(self, text: str, moment: datetime) -> Claim:
        local = moment.replace(tzinfo=None) - _EPOCH
        wall = (local.days * 86_400 + local.seconds) * SECOND + local.microseconds * 1000
        if moment.tzinfo is not None:
            offset = moment.utcoffset() or timedelta()
            wall -= (offset.days * 86_400 + offset.seconds) * SECOND
            claim = Claim(wall, wall)
        else:
            claim = local_instants(wall, self._zone)
        if not INSTANT_MIN <= claim.lo <= claim.hi <= INSTANT_MAX:
            raise self._unreadable(text, "it is beyond 64 bits of nanoseconds")
        return claim

    def _with_year(self, text: str, moment: datetime, arrival: int | None, previous: int | None) -> Claim:
        reference = previous if arrival is None else arrival
        if reference is not None:
            about = datetime.fromordinal(_EPOCH_DAY + reference // DAY).year
            years: tuple[int, ...] = (about - 1, about, about + 1)
        elif self._year is not None:
            years = (self._year,)
        else:
            raise self._unreadable(text, "it has no year, and there is neither an arrival nor a year to start with")
        claims = [claim for year in years if (claim := self._in_year(text, moment, year)) is not None]
        if not claims:
            raise self._unreadable(text, f"there is no such day in {', '.join(map(str, years))}")
        if arrival is not None:
            return max((each for each in claims if each.lo <= arrival + _ASTRAY), default=claims[0])
        if previous is not None:
            return min((each for each in claims if each.lo >= previous - _ASTRAY), default=claims[-1])
        return claims[0]

    def _place_in_year(self, text: str, moment: datetime, year: int) -> Claim | None:
        """Claim of a moment in a year; None for 29 February in a common year."""
        try:
            return self._place(text, moment.replace(year=year))
        except ValueError:
            return None

    def _unreadable(self, value: object, reason: str) -> MappingError:
        return MappingError("not a time", given=value, allowed=f"format {self._form}", advice=reason)


class TimeReader:
    """Reader of a message's time, as its rule says.

    Attributes:
        instant: reader of its values.
        by_arrival: whether a message has no time of its own.
    """

    def __init__(self, spec: TimeSpec, outside: Callable[[str], bool]) -> None:
        self.instant = InstantReader(spec.format, spec.timezone, spec.year)
        self._point = compile_value(spec.path, spec.text, outside)
        self._start = None if spec.start is None else compile_path(spec.start, outside)
        self._end = None if spec.end is None else compile_path(spec.end, outside)
        if (self._start is None) != (self._end is None):
            raise MappingError("one end of an interval", given=spec.start or spec.end, allowed="both start and end")
        if self._point is not None and self._start is not None:
            raise MappingError("both a time and an interval", allowed="path or text, or start and end")
        self.by_arrival = self._point is None and self._start is None
        self.lacks_year = self.instant.lacks_year

    def read(self, message: DeviceMessage, arrival: int | None, previous: int | None) -> Claim | None:
        """Claim of a message; None without one. `MappingError` where it cannot be read."""
        if self._point is not None:
            value = self._point(message)
            return None if value is None or value == "" else self.instant.read(value, arrival, previous)
        if self._start is None or self._end is None:
            return None
        start, end = self._start(message), self._end(message)
        if start is None or end is None or start == "" or end == "":
            return None
        lo = self.instant.read(start, arrival, previous).lo
        hi = self.instant.read(end, arrival, lo if previous is None else previous).hi
        if lo > hi:
            raise MappingError(
                "an interval that ends before it starts", given=f"{start} to {end}", allowed="start <= end"
            )
        return Claim(lo, hi)


def parse_zone(text: str) -> tzinfo:
    """Time zone by name or by its offset from UTC."""
    if text in ("UTC", "Z"):
        return UTC
    fixed = _FIXED.fullmatch(text)
    if fixed is not None and int(fixed[2]) < 24 and int(fixed[3]) < 60:
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        return timezone(timedelta(minutes=-minutes if fixed[1] == "-" else minutes))
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise MappingError(
            "not a time zone", given=text, allowed="UTC, +01:00, or a name such as Europe/Berlin",
            advice="on a machine without time zones, install the package tzdata",
        ) from None  # fmt: skip


def local_instants(wall: int, zone: tzinfo) -> Claim:
    """Instants of a local clock's reading, ns since 1970-01-01T00:00 there: one, or the first and the second of two."""
    if zone is UTC:
        return Claim(wall, wall)
    seconds, fraction = divmod(wall, SECOND)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=zone)
    instants = []
    for fold in (0, 1):
        offset = moment.replace(fold=fold).utcoffset() or timedelta()
        instants.append((seconds - offset.days * 86_400 - offset.seconds) * SECOND + fraction)
    # In the hour that summer time leaves out the two come in the wrong order.
    return Claim(min(instants), max(instants))

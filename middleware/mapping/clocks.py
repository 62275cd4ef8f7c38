"""Timestamps from the claims of clocks, judged by the arrival of their messages.

A message arrives after it was sent, and soon after as a rule. So the smallest difference between arrival and claim seen
from a source bounds a constant error of its clock from above (the minimum filter of NTP, RFC 5905, section 10), and a
difference near a multiple of a quarter of an hour is a time zone, for all zones in use are such multiples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from distced.middleware.mapping.instants import Claim
from distced.middleware.mapping.schema import TimeSpec
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.timestamps import HOUR, INSTANT_MAX, INSTANT_MIN, MINUTE, format_duration, parse_duration

ZONE_STEP: Final = 15 * MINUTE
EASTERNMOST: Final = 14 * HOUR
WESTERNMOST: Final = 12 * HOUR
"""How far zones are ahead of UTC, and behind it, at most."""


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
    """

    def __init__(self, spec: TimeSpec, by_arrival: bool) -> None:
        self._mode = spec.clock
        self._by_arrival = by_arrival
        self.needs_arrival = by_arrival or spec.clock in ("offset", "zone")
        self._fall_back = by_arrival or spec.otherwise == "arrival"
        uncertainty = _duration("uncertainty", spec.uncertainty)
        self._before = uncertainty + _duration("before", spec.before)
        self._after = uncertainty + _duration("after", spec.after)
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
        if self._mode == "monotone" and state.hi is not None and hi < state.hi:
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
        lo, hi = lo - self._before, hi + self._after
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

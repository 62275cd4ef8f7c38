"""Aggregates over sliding windows, `type Warmth = Temp with (mean = avg(temp) over 10min) by room`.

For each key the values of the last while are kept, and what is aggregated of them is changed by those that come and go:
memory is bounded by the window, and an event costs the same however many there are. A value depends on the
events of the window alone, not on those before it, so that detection may begin anywhere (replay by slices):
sums are exact and rounded once, for a sum of floats from which the oldest is subtracted does not forget it. Rejected:
two stacks of partial sums, which forget, but whose rounding depends on where they were begun.
"""

from __future__ import annotations

from collections import deque
from math import inf, isinf, nan
from typing import Any, Final

from distced.detectors.language.derived import Throttling
from distced.detectors.stepwise.plans import key_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.sets import values
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.expressions import Field

LARGE: Final = 2.0**900
"""Bound of scales by which a quotient is surely no subnormal float."""


class _Window:
    """Values of a key with their instants; of those that do not count only the others are kept."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: deque[tuple[int, Any]] = deque()

    def come(self, hi: int, value: Attribute) -> None:
        """Add the value of an event."""
        if value is not None:
            self.kept.append((hi, value))

    def expire(self, begin: int) -> None:
        """Drop the values of events that ended before an instant."""
        kept = self.kept
        while kept and kept[0][0] < begin:
            self.gone(kept.popleft()[1])

    def gone(self, value: Attribute) -> None:
        """Take back a value."""

    def value(self) -> Attribute:
        """The number of values that are not null."""
        return len(self.kept)

    def step(self, begin: int, hi: int, value: Attribute) -> Attribute:
        """`expire`, `come` and `value` in one, for each event."""
        kept = self.kept
        while kept and kept[0][0] < begin:
            self.gone(kept.popleft()[1])
        self.come(hi, value)
        return self.value()


class _Count(_Window):
    __slots__ = ()

    def step(self, begin: int, hi: int, value: Attribute) -> Attribute:
        kept = self.kept
        while kept and kept[0][0] < begin:
            kept.popleft()
        if value is not None:
            kept.append((hi, value))
        return len(kept)


class _First(_Window):
    __slots__ = ()

    def come(self, hi: int, value: Attribute) -> None:
        self.kept.append((hi, value))

    def value(self) -> Attribute:
        return self.kept[0][1] if self.kept else None


class _Sum(_Window):
    """Exact sum of numbers: in units of 2 to the minus `exponent`, of which each finite float so far is a multiple, and
    the infinite ones by themselves.

    Attributes:
        units: sum of the finite values that are kept.
        scale: units in 1, a float; NaN where it is beyond the floats, so that no product with it counts.
        integers: number of integers that are kept; the others are floats.
        infinite: number of infinite floats that are kept, by sign; None for none so far.
        plain: whether there have been only finite floats, of a scale up to `LARGE`.
    """

    __slots__ = ("exponent", "infinite", "integers", "plain", "scale", "units")

    is_mean = False

    def __init__(self) -> None:
        super().__init__()
        self.exponent = self.units = self.integers = 0
        self.scale = 1.0
        self.infinite: dict[float, int] | None = None
        self.plain = True

    def come(self, hi: int, value: Attribute) -> None:
        kind = type(value)
        if kind is float:
            self.kept.append((hi, value))
            # It may make the units finer.
            units = self._units(value, 1)  # type: ignore[arg-type]
            self.units += units
        elif kind is int:
            self.kept.append((hi, value))
            self.integers += 1
            self.plain = False
            self.units += value << self.exponent  # type: ignore[operator]

    def gone(self, value: Any) -> None:
        if type(value) is float:
            self.units -= self._units(value, -1)
        else:
            self.integers -= 1
            self.units -= value << self.exponent

    def step(self, begin: int, hi: int, value: Attribute) -> Attribute:
        # Floats that are multiples of the unit, without a call. A product with a power of two is exact, or infinite.
        kept, scale, units = self.kept, self.scale, self.units
        while kept and kept[0][0] < begin:
            gone = kept.popleft()[1]
            if type(gone) is float and (scaled := gone * scale).is_integer():
                units -= int(scaled)
            else:
                self.units = units
                self.gone(gone)
                units = self.units
        if type(value) is float and (scaled := value * scale).is_integer():
            kept.append((hi, value))
            self.units = units + int(scaled)
        else:
            self.units = units
            self.come(hi, value)
        count = len(kept)
        if not self.plain or not count:
            return self.value()
        # Rounded once: what is divided by the scale is at least 1 by the count, which does not become subnormal.
        try:
            return (self.units / count if self.is_mean else self.units) / self.scale
        except OverflowError:
            return self.value()

    def value(self) -> Attribute:
        count = len(self.kept)
        if count == self.integers and not self.is_mean:
            return values.number(self.units >> self.exponent)
        if not count:
            return None
        if self.infinite is not None and any(self.infinite.values()):
            return values.number(sum(each for each, number in self.infinite.items() if number))
        try:
            return self.units / ((count if self.is_mean else 1) << self.exponent)
        except OverflowError:
            return inf if self.units > 0 else -inf

    def _units(self, value: float, sign: int) -> int:
        """A float in units, which become finer where it is no multiple; 0 for an infinite one, which is counted."""
        if isinf(value):
            if self.infinite is None:
                self.infinite, self.plain = {inf: 0, -inf: 0}, False
            self.infinite[value] += sign
            return 0
        numerator, denominator = value.as_integer_ratio()
        finer = denominator.bit_length() - 1 - self.exponent
        if finer <= 0:
            return numerator << -finer
        self.exponent += finer
        self.scale = 2.0**self.exponent if self.exponent < 1024 else nan
        self.plain = self.plain and self.scale <= LARGE
        self.units <<= finer
        return numerator


class _Mean(_Sum):
    __slots__ = ()

    is_mean = True


class _Least(_Window):
    """Only values that may still become the least are kept."""

    __slots__ = ()

    def come(self, hi: int, value: Attribute) -> None:
        if type(value) in (int, float):
            while self.kept and self.kept[-1][1] > value:
                self.kept.pop()
            self.kept.append((hi, value))

    def value(self) -> Attribute:
        return self.kept[0][1] if self.kept else None


class _Greatest(_Least):
    __slots__ = ()

    def come(self, hi: int, value: Attribute) -> None:
        if type(value) in (int, float):
            while self.kept and self.kept[-1][1] < value:
                self.kept.pop()
            self.kept.append((hi, value))


class _Distinct(_Window):
    """Number of different values; `counts`: of each value those that are kept. True is not 1, and stands in a tuple."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[object, int] = {}

    def come(self, hi: int, value: Attribute) -> None:
        if value is not None:
            self.kept.append((hi, value))
            key = value if value.__class__ is not bool else (value,)
            self.counts[key] = self.counts.get(key, 0) + 1

    def gone(self, value: Attribute) -> None:
        key = value if value.__class__ is not bool else (value,)
        count = self.counts[key]
        if count > 1:
            self.counts[key] = count - 1
        else:
            del self.counts[key]

    def value(self) -> Attribute:
        return len(self.counts)

    def step(self, begin: int, hi: int, value: Attribute) -> Attribute:
        # As above, without a call.
        kept, counts = self.kept, self.counts
        while kept and kept[0][0] < begin:
            gone = kept.popleft()[1]
            key = gone if gone.__class__ is not bool else (gone,)
            count = counts[key]
            if count > 1:
                counts[key] = count - 1
            else:
                del counts[key]
        if value is not None:
            kept.append((hi, value))
            key = value if value.__class__ is not bool else (value,)
            counts[key] = counts.get(key, 0) + 1
        return len(counts)


_WINDOWS: Final[dict[str, type[_Window]]] = {
    "count": _Count,
    "sum": _Sum,
    "avg": _Mean,
    "min": _Least,
    "max": _Greatest,
    "first": _First,
    "distinct": _Distinct,
}


class SlidingAggregate:
    """Stage that puts the value of an aggregate beside each event; `passed` are the windows by key.

    By best effort a late event counts as if it ended with the last one before it, `latest`, ns, in place of its own
    time: so what is in a window does not depend on when others were looked at.
    """

    def __init__(self, throttling: Throttling) -> None:
        assert throttling.sliding is not None
        self.throttling = throttling
        self.types = throttling.types
        self.passed: dict[object, Any] = {}
        self._new = _WINDOWS[throttling.sliding.function]
        self._length = throttling.sliding.length
        self._condition = compile_condition(throttling.condition, Scope())
        argument = throttling.sliding.argument
        self._value = compile_value(argument, Scope())
        self._key = key_of(throttling.by) if throttling.by else None
        # The usual ones are read without a call.
        self._argument = argument.attribute if isinstance(argument, Field) and not argument.variable else None
        self._by = throttling.by[0] if len(throttling.by) == 1 else None
        self.latest = self._sweep_at = INSTANT_MIN

    def value(self, event: Event) -> Attribute:
        """The aggregate of the events up to this one; null for an event that is not of the type or has no key."""
        if self._condition is not True and (self._condition is False or not self._condition(event, (), ())):
            return None
        attributes = event.attributes
        key: object
        if self._by is not None:
            key = attributes.get(self._by)
            if key.__class__ is bool:
                key = (key,)
        else:
            key = self._key(event) if self._key is not None else ()
        if key is None:
            return None
        hi = event.hi
        if hi > self.latest:
            self.latest = hi
        else:
            hi = self.latest
        window = self.passed.get(key)
        if window is None:
            window = self.passed[key] = self._new()
        value = attributes.get(self._argument) if self._argument is not None else self._value(event, (), ())
        found: Attribute = window.step(hi - self._length, hi, value)
        if hi >= self._sweep_at:
            # Each key is looked at once in the length of a window.
            self._sweep_at = hi + self._length
            self._sweep(hi - self._length)
        return found

    def _sweep(self, begin: int) -> None:
        for window in self.passed.values():
            window.expire(begin)
        self.passed = {key: window for key, window in self.passed.items() if window.kept}

    def packed(self) -> dict[object, Any]:
        """The state as values, for a snapshot; `latest` by no key."""
        found: dict[object, Any] = {key: list(window.kept) for key, window in self.passed.items() if window.kept}
        return found if self.latest == INSTANT_MIN else {**found, None: self.latest}

    def unpack(self, passed: dict[object, Any]) -> None:
        """Continue from a state."""
        self.passed = {}
        self.latest = INSTANT_MIN
        for key, kept in passed.items():
            if key is None:
                self.latest = max(kept, self.latest)
                continue
            window = self.passed[key] = self._new()
            for hi, value in kept:
                window.come(hi, value)
                # Those of a snapshot without the latest have come in order, but for late ones.
                self.latest = max(hi, self.latest)

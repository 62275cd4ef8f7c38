"""Aggregates over sliding windows, `type Warmth = Temp with (mean = avg(temp) over 10min) by room`.

For each key the values of the last while are kept, and what is aggregated of them is changed by those that come and go:
memory is bounded by the window, and an event costs the same however many there are. A value depends on the
events of the window alone, not on those before it, so that detection may begin anywhere (replay by slices):
sums are exact and rounded once, for a sum of floats from which the oldest is subtracted does not forget it. Rejected:
two stacks of partial sums, which forget, but whose rounding depends on where they were begun.
"""

from __future__ import annotations

from collections import deque
from math import inf, isinf
from typing import Any, Final

from distced.detectors.language.derived import Throttling
from distced.detectors.stepwise.plans import key_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.sets import values
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value


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


class _First(_Window):
    __slots__ = ()

    def come(self, hi: int, value: Attribute) -> None:
        self.kept.append((hi, value))

    def value(self) -> Attribute:
        return self.kept[0][1] if self.kept else None


class _Sum(_Window):
    """Exact sum of numbers: in units of 2 to the minus `exponent`, of which each finite float so far is a multiple, and
    the infinite ones by themselves."""

    __slots__ = ("exponent", "floats", "infinite", "units")

    def __init__(self) -> None:
        super().__init__()
        self.exponent = self.units = self.floats = 0
        self.infinite = {inf: 0, -inf: 0}

    def come(self, hi: int, value: Attribute) -> None:
        kind = type(value)
        if kind is int:
            self.kept.append((hi, value))
            self.units += value << self.exponent  # type: ignore[operator]
        elif kind is float:
            self.kept.append((hi, value))
            self.floats += 1
            self._add(value)  # type: ignore[arg-type]

    def gone(self, value: Any) -> None:
        if type(value) is int:
            self.units -= value << self.exponent
        else:
            self.floats -= 1
            if isinf(value):
                self.infinite[value] -= 1
            else:
                self._add(-value)

    def _add(self, value: float) -> None:
        try:
            numerator, denominator = value.as_integer_ratio()
        except OverflowError:
            self.infinite[value] += 1
            return
        finer = denominator.bit_length() - 1 - self.exponent
        if finer <= 0:
            self.units += numerator << -finer
        else:
            self.exponent += finer
            self.units = (self.units << finer) + numerator

    def value(self) -> Attribute:
        return self.rounded(1) if self.floats else values.number(self.units >> self.exponent)

    def rounded(self, count: int) -> Attribute:
        """The sum divided by a number, rounded once, a float."""
        if self.floats and (self.infinite[inf] or self.infinite[-inf]):
            return values.number(sum(each for each, number in self.infinite.items() if number))
        try:
            return self.units / (count << self.exponent)
        except OverflowError:
            return inf if self.units > 0 else -inf


class _Mean(_Sum):
    __slots__ = ()

    def value(self) -> Attribute:
        return self.rounded(len(self.kept)) if self.kept else None


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
    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[tuple[bool, Attribute], int] = {}

    def come(self, hi: int, value: Attribute) -> None:
        if value is not None:
            self.kept.append((hi, value))
            # True is not 1.
            key = type(value) is bool, value
            self.counts[key] = self.counts.get(key, 0) + 1

    def gone(self, value: Attribute) -> None:
        key = type(value) is bool, value
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]

    def value(self) -> Attribute:
        return len(self.counts)


_WINDOWS: Final[dict[str, type[_Window]]] = {
    "count": _Window,
    "sum": _Sum,
    "avg": _Mean,
    "min": _Least,
    "max": _Greatest,
    "first": _First,
    "distinct": _Distinct,
}


class SlidingAggregate:
    """Stage that puts the value of an aggregate beside each event; `passed` are the windows by key."""

    def __init__(self, throttling: Throttling) -> None:
        assert throttling.sliding is not None
        self.throttling = throttling
        self.types = throttling.types
        self.passed: dict[object, Any] = {}
        self._new = _WINDOWS[throttling.sliding.function]
        self._length = throttling.sliding.length
        self._condition = compile_condition(throttling.condition, Scope())
        self._value = compile_value(throttling.sliding.argument, Scope())
        self._key = key_of(throttling.by) if throttling.by else None
        self._sweep_at = INSTANT_MIN

    def value(self, event: Event) -> Attribute:
        """The aggregate of the events up to this one; null for an event that is not of the type or has no key."""
        if self._condition is not True and (self._condition is False or not self._condition(event, (), ())):
            return None
        key = self._key(event) if self._key is not None else ()
        if key is None:
            return None
        begin = event.hi - self._length
        window = self.passed.get(key)
        if window is None:
            window = self.passed[key] = self._new()
        window.expire(begin)
        window.come(event.hi, self._value(event, (), ()))
        if event.hi >= self._sweep_at:
            # Each key is looked at once in the length of a window.
            self._sweep_at = event.hi + self._length
            self._sweep(begin)
        found: Attribute = window.value()
        return found

    def _sweep(self, begin: int) -> None:
        for window in self.passed.values():
            window.expire(begin)
        self.passed = {key: window for key, window in self.passed.items() if window.kept}

    def packed(self) -> dict[object, Any]:
        """The state as values, for a snapshot."""
        return {key: list(window.kept) for key, window in self.passed.items()}

    def unpack(self, passed: dict[object, Any]) -> None:
        """Continue from a state."""
        self.passed = {}
        for key, kept in passed.items():
            window = self.passed[key] = self._new()
            for hi, value in kept:
                window.come(hi, value)

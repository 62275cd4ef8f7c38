"""Values that records refer to by a number, each once, as long as something refers to it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from distced.detectors.columnar.state import Words, longer

Value = TypeVar("Value", int, tuple[int, int])


class Pool(Generic[Value]):
    """Values by number; the number of one that nothing refers to any more is given to another.

    Attributes:
        rows: the values as the loop sees them.
    """

    def __init__(self, *shape: int) -> None:
        """
        Args:
            shape: of a value.
        """
        self.rows: Words = np.zeros((16, *shape), np.int64)
        self._numbers: dict[Value, int] = {}
        self._values: list[Value] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, value: Value) -> int:
        """The number of a value, for one more that refers to it."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._counts.append(0)
                if number == len(self.rows):
                    self.rows = longer(self.rows, 2 * number)
            self._numbers[value] = number
            words: Any = value
            self.rows[number] = words
        self._counts[number] += 1
        return number

    def release(self, number: int) -> None:
        """One less refers to it."""
        self._counts[number] -= 1
        if self._counts[number] == 0:
            del self._numbers[self._values[number]]
            self._free.append(number)

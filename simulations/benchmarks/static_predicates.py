"""The static predicates of first steps alone: the baseline of `distced bench patterns`.

cayuga-algebra-cesar, section 4.3: a publish/subscribe engine determines the static predicates an event satisfies, and
automata go on from there, so this part alone bounds the rate of an engine of automata. It is compiled for this
workload, two equalities and two ranges each, and shares no code with the engine.

The two equalities are hashed together with the pair of columns they ask for, and an event is looked up once for each
pair. Rejected: looking up one equality and testing the other, which visits a hundred times as many predicates; a table
for every pair of values, which holds small numbers only. Equal predicates are kept apart, as of different subscribers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from distced.middleware.sets.expressions import Binary, Expression, Literal, Name, operands

Row: TypeAlias = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, float, float], ...]]
"""Predicate: values of two attributes, bounds of two others, by name."""

FREE: Final = -1


class StaticPredicates:
    """Predicates that events are checked against, as `read` returns them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        given = list(rows)
        # Names, with the number of the column of their values.
        self._discrete, self._continuous, pairs = _Numbers(), _Numbers(), _Numbers()
        asked = np.empty((len(given), 3), np.int64)
        columns = np.empty((len(given), 2), np.int64)
        bounds = np.empty((len(given), 4), np.float64)
        for place, (((one, value), (other, other_value)), ((first, *limits), (second, *more))) in enumerate(given):
            pair = pairs[self._discrete[one], self._discrete[other]]
            asked[place] = (pair, value, other_value)
            columns[place] = (self._continuous[first], self._continuous[second])
            bounds[place] = (*limits, *more)
        found, which, lengths = np.unique(asked, axis=0, return_inverse=True, return_counts=True)
        # Predicates of one slot side by side.
        order = np.argsort(which.reshape(-1), kind="stable")
        self._columns, self._bounds = columns[order], bounds[order]
        self._table = np.full((1 << (2 * len(found) + 1).bit_length(), 5), FREE, np.int64)
        _fill(self._table, np.column_stack((found, np.cumsum(lengths) - lengths, lengths)))
        self._pairs = np.array(list(pairs), np.int64).reshape(-1, 2)

    def count(self, columns: Mapping[str, NDArray[Any]]) -> int:
        """Number of pairs of an event and a predicate that it satisfies."""
        if not len(self._pairs):
            return 0
        discrete = np.stack([columns[name] for name in self._discrete])
        continuous = np.stack([columns[name] for name in self._continuous])
        return int(_count(self._pairs, self._table, self._columns, self._bounds, discrete, continuous))


class _Numbers(dict[Any, int]):
    """Indices of values, in the order of their first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def read(condition: Expression) -> Row:
    """The values of a condition of two equalities with whole numbers and of two ranges."""
    equal: dict[str, int] = {}
    least: dict[str, float] = {}
    most: dict[str, float] = {}
    for operand in operands(condition, "and"):
        match operand:
            case Binary("==", Name(name), Literal(int(value))) if name not in equal:
                equal[name] = value
            case Binary(">=", Name(name), Literal(int() | float() as value)) if name not in least:
                least[name] = value
            case Binary("<=", Name(name), Literal(int() | float() as value)) if name not in most:
                most[name] = value
            case _:
                raise ValueError(f"not a value or a bound: {operand}")
    if not len(equal) == len(least) == len(most) == 2 or least.keys() != most.keys():
        raise ValueError(f"not two values and two ranges: {condition}")
    return tuple(sorted(equal.items())), tuple((name, least[name], most[name]) for name in sorted(least))


@numba.njit(cache=True)
def _slot(table: Any, pair: Any, one: Any, other: Any) -> Any:
    """Slot of a pair of columns with these values, or the free one for it."""
    mixed = (np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(one)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ np.uint64(other)) * np.uint64(0x9E3779B97F4A7C15)
    mask = len(table) - 1
    slot = np.int64((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(1)) & mask
    while table[slot, 0] != FREE:
        if table[slot, 0] == pair and table[slot, 1] == one and table[slot, 2] == other:
            break
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True)
def _fill(table: Any, found: Any) -> None:
    for place in range(len(found)):
        slot = _slot(table, found[place, 0], found[place, 1], found[place, 2])
        table[slot] = found[place]


@numba.njit(cache=True)
def _count(pairs: Any, table: Any, columns: Any, bounds: Any, discrete: Any, continuous: Any) -> Any:
    satisfied = 0
    for event in range(discrete.shape[1]):
        for pair in range(len(pairs)):
            slot = _slot(table, pair, discrete[pairs[pair, 0], event], discrete[pairs[pair, 1], event])
            if table[slot, 0] == FREE:
                continue
            begin = table[slot, 3]
            for place in range(begin, begin + table[slot, 4]):
                first = continuous[columns[place, 0], event]
                if not bounds[place, 0] <= first <= bounds[place, 1]:
                    continue
                second = continuous[columns[place, 1], event]
                satisfied += bounds[place, 2] <= second <= bounds[place, 3]
    return satisfied

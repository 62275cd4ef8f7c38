"""A mixed-integer programme, row by row, for HiGHS (`scipy.optimize.milp`).

networkx has no p-median, and an own solver was rejected: HiGHS comes with scipy, and bounds the gap to the optimum.
scipy is imported only when something is solved.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import inf

from distced.middleware.model.errors import DistcedError
from distced.simulations.replay.runners import redirected


class OutOfTimeError(DistcedError):
    """No solution within the solver's time limit."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Values of the variables other than 0, their objective, its lower bound, and whether they are proven the best."""

    values: dict[Hashable, float]
    objective: float
    bound: float
    proven: bool

    def chosen(self, name: Hashable) -> bool:
        """Whether a variable of 0 or 1 is 1."""
        return self.values.get(name, 0.0) > 0.5


class Programme:
    """Variables, from 0 to 1 by default; rows that bound their sums; a sum to be minimised."""

    def __init__(self) -> None:
        # By name: cost, whether it is whole, upper bound.
        self._variables: dict[Hashable, tuple[float, bool, float]] = {}
        self._rows: list[tuple[list[tuple[Hashable, float]], float, float]] = []

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of variables and rows."""
        return len(self._variables), len(self._rows)

    def variable(self, name: Hashable, cost: float = 0.0, *, whole: bool = False, upper: float = 1.0) -> None:
        """A variable, added once; its costs are summed. A `whole` one is 0 or 1 and nothing in between."""
        known = self._variables.get(name, (0.0, False, upper))
        self._variables[name] = (known[0] + cost, known[1] or whole, known[2])

    def __contains__(self, name: Hashable) -> bool:
        return name in self._variables

    def row(self, terms: Iterable[tuple[Hashable, float]], least: float = -inf, most: float = inf) -> None:
        """Add a row: a sum of variables, each with a factor, between two bounds."""
        self._rows.append((list(terms), least, most))

    def solve(self, seconds: float, tolerance: float) -> Solved | None:
        """The values with the least cost within a relative tolerance; None where no values satisfy the rows.

        After `seconds` the best so far counts; without any that is an `OutOfTimeError`.
        """
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_array
        except ImportError:
            raise DistcedError(
                "the optimum needs scipy, which is not installed", advice="pip install 'distced[place]'"
            ) from None
        numbers = {name: number for number, name in enumerate(self._variables)}
        costs, integrality, upper = zip(*self._variables.values(), strict=True)
        terms = [(factor, row, numbers[name]) for row, (some, _, _) in enumerate(self._rows) for name, factor in some]
        data, rows, columns = zip(*terms, strict=True)
        matrix = csr_array((data, (rows, columns)), shape=(len(self._rows), len(numbers)))
        # Costs of about one, whatever they are counted in: solvers take what is too small for nothing.
        scale = max(map(abs, costs), default=1.0) or 1.0
        with _silence():
            found = milp(
                [cost / scale for cost in costs],
                integrality=integrality,
                bounds=Bounds([0.0] * len(upper), upper),
                constraints=LinearConstraint(
                    matrix, [least for _, least, _ in self._rows], [most for _, _, most in self._rows]
                ),
                options={"time_limit": seconds, "mip_rel_gap": tolerance},
            )
        if found.status == 2:
            return None
        if found.x is None:
            raise OutOfTimeError(
                "no placement was found in time", given=f"{seconds:g} s", advice="give it more time, or fewer patterns"
            )
        values = {name: float(found.x[number]) for name, number in numbers.items() if found.x[number] > 1e-9}
        bound = found.mip_dual_bound if found.mip_dual_bound is not None else found.fun
        return Solved(values, found.fun * scale, min(bound, found.fun) * scale, found.status == 0)


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress standard output, where HiGHS writes whatever its options, and JSON may follow."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    with ExitStack() as stack:
        # Standard output may be closed.
        with suppress(OSError):
            stack.enter_context(redirected(1, os.devnull))
        stack.callback(libc.fflush, None)
        yield

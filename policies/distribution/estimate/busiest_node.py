"""Expected use of the busiest node, with the errors of the loads it is computed from.

composite-event-framework-2004, "Distribution Policies": the minimum-impact policy spreads load evenly. A load that does
not make its node the busiest one adds nothing, a load a little larger does. So with loads that are estimates the
busiest node is busier, on average, than by the estimates themselves: the mean of a maximum, not the maximum of means.
The errors were measured over 155 random scenarios of `simulations.benchmarks.policy_comparison`, as the standard
deviation of the logarithm of the later load by the one that was known at the decision.

Rejected: a least distance to the busiest node, which is too large for many detectors or too small for others; sampling,
which costs more than the rest of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nlargest
from math import erfc, exp, hypot, isfinite, pi, sqrt
from typing import Final

ESTIMATED: Final = 0.55
"""Standard error of the load of a detector without measurements, as a share of the load."""

INFORMED: Final = 0.35
"""The same where the distribution of the values of its events is known."""

MEASURED: Final = 0.1
"""The same of a measured load: it changes."""

COUNTED: Final = 0.2
"""Variance of a measured load by the load, per second: it is a count of some twenty seconds, four for each instance."""

_FAR: Final = 6.0
"""Number of standard errors beyond which the busiest node is certain."""


class BusiestNode:
    """The busiest node of all, with a load added to one of them.

    Attributes:
        uses: use of each node without that load.
    """

    def __init__(self, uses: Mapping[str, float], capacity: Callable[[str], float]) -> None:
        """`capacity`: of a node, instances per second; 1 for all where uses are loads."""
        self.uses = uses
        self._capacity = capacity
        # The two nodes that are used the most tell the busiest of all but one.
        self._most = nlargest(2, uses, key=lambda node: uses[node])

    def beside(self, node: str) -> str | None:
        """The busiest of the other nodes; None where there is no other."""
        return next((each for each in self._most if each != node), None)

    def rise(self, node: str, load: float, error: float) -> float:
        """Expected use of the busiest node that a load on a node adds; `error`: standard error of the load."""
        capacity, beside = self._capacity(node), self.beside(node)
        before, doubt = self.uses[node], self._error(node)
        if beside is not None:
            before -= self.uses[beside]
            doubt = hypot(doubt, self._error(beside))
        after = before + load / capacity
        return _excess(after, hypot(doubt, error / capacity)) - _excess(before, doubt)

    def _error(self, node: str) -> float:
        """Standard error of the use of a node."""
        capacity = self._capacity(node)
        return error_of(self.uses[node] * capacity) / capacity


def error_of(load: float) -> float:
    """Standard error of a measured load, instances per second."""
    return hypot(MEASURED * load, sqrt(COUNTED * load)) if load > 0 else 0.0


def _excess(mean: float, error: float) -> float:
    """Mean of the positive part of a normal distribution."""
    if abs(mean) >= _FAR * error or not isfinite(error):
        return max(mean, 0.0)
    score = mean / error
    return error * exp(-score * score / 2) / sqrt(2 * pi) + mean * erfc(-score / sqrt(2)) / 2

"""Objectives of the named policies: the costs of a candidate that matter, most important first.

composite-event-framework-2004, "Distribution Policies", Table 1; design, section 3. The first number decides, the
others break ties: a detector placed for its delay should not be dear where that gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from distced.policies.distribution.candidate import Candidate, Rank

Objective: TypeAlias = Callable[[Candidate], Rank]
"""Function from a candidate to its rank."""


def least_delay(candidate: Candidate) -> Rank:
    """Shortest delay to subscribers."""
    return (candidate.delay, candidate.bytes, candidate.own)


def least_bytes(candidate: Candidate) -> Rank:
    """Fewest bytes added to links, whatever a byte costs there."""
    return (candidate.bytes, candidate.delay, candidate.own)


def least_impact(candidate: Candidate) -> Rank:
    """Smallest share added to links and to the busiest node.

    A difference below a hundredth is within the error of the estimates; then the least used node is the safest, for an
    expected load may turn out to be twice as high.
    """
    return (round(candidate.impact, 2), candidate.own, candidate.bytes)


def least_load(candidate: Candidate) -> Rank:
    """Least use of the busiest node, then of the hosts."""
    return (candidate.peak, candidate.own, candidate.bytes)


def most_reliable(candidate: Candidate) -> Rank:
    """All replicas, at as many sites as possible; then the least impact."""
    return (float(candidate.missing), -float(candidate.sites), *least_impact(candidate))

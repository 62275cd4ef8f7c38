"""What the named policies want: the figures of a candidate that matter to each, the most important first.

composite-event-framework-2004, "Distribution Policies", Table 1; design, section 3. An objective is a function from a
`Candidate` to numbers, of which less is better, so it is no longer than its name; a policy of one's own has one like
these. What makes no difference to the first number is decided by the others: a detector that is placed for its delay
should not be dear where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from distced.policies.distribution.candidate import Candidate, Rank

Objective: TypeAlias = Callable[[Candidate], Rank]
"""What a policy wants: the less the numbers, the better."""


def least_delay(candidate: Candidate) -> Rank:
    """The subscribers hear of it the soonest."""
    return (candidate.delay, candidate.bytes, candidate.own)


def least_bytes(candidate: Candidate) -> Rank:
    """The fewest bytes are added to links, whatever a byte costs there."""
    return (candidate.bytes, candidate.delay, candidate.own)


def least_impact(candidate: Candidate) -> Rank:
    """Links and the busiest node have the least more to do than before, each as a share of that.

    What differs by less than a hundredth differs by less than the estimates are good for; then the node that is used
    the least is the safest, for a load that is expected may turn out to be twice as much.
    """
    return (round(candidate.impact, 2), candidate.own, candidate.bytes)


def least_load(candidate: Candidate) -> Rank:
    """The busiest node is used the least; where that makes no difference, the nodes that get something to do are."""
    return (candidate.peak, candidate.own, candidate.bytes)


def most_reliable(candidate: Candidate) -> Rank:
    """As many nodes as wanted, at as many sites as can be; then the least impact."""
    return (float(candidate.missing), -float(candidate.sites), *least_impact(candidate))

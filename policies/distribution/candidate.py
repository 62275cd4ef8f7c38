"""Candidates of a policy, an alternative on a set of nodes with estimated costs, and the objectives that rank them.

composite-event-framework-2004, "Distribution Policies", Table 1; design, section 3. All policies have the same costs;
an objective orders those that matter: the first number decides, the others break ties, so that a short delay is not
costly without gain. Frozen dataclasses were rejected for msgspec structs: six times as slow, a thousand per suggestion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

CUT_MARGIN: Final = 0.05
"""Share of the use of the busiest node that new parts have to save."""

Action: TypeAlias = Literal["create", "reuse", "replicate"]
"""Make a new detector, listen to the running one, or replicate that to further nodes."""

Rank: TypeAlias = tuple[float, ...]
"""Numbers that candidates are compared by, the first difference decides; less is better."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One alternative on one set of nodes, with its estimated costs.

    Attributes:
        alternative: number of the alternative.
        node, replicas: host of the detector, of a replica the new one; further hosts.
        delay, farthest: ns from the last event of a match to its arrival, mean over subscribers; for the farthest.
        bytes, cost: bytes per second it adds, summed over links; their cost per second.
        load: instances per second it adds, at all nodes.
        own: use of the most used of its nodes, with those of parts to be made: load by capacity, or load where no
            capacity is known.
        peak: use of the busiest node of all.
        rise: expected use that it adds to the busiest node, errors of loads included (`estimate.busiest_node`).
        bytes_before, peak_before: bytes and use of the busiest node of everything at present, with a detector that runs
            already.
        missing: number of missing replicas.
        sites: number of sites with a host, up to the number of replicas.
        limited: whether capacities are known, so that uses are shares.
        parts: number of new detectors that it reads as parts.
    """

    action: Action
    alternative: int
    node: str
    replicas: tuple[str, ...]
    delay: float
    farthest: float
    bytes: float
    cost: float
    load: float
    own: float
    peak: float
    rise: float
    bytes_before: float
    peak_before: float
    missing: int = 0
    sites: int = 1
    limited: bool = False
    parts: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node, *self.replicas)

    @property
    def overloaded(self) -> bool:
        """Whether one of its nodes would be used beyond its capacity."""
        return self.limited and self.own > 1.0

    @property
    def impact(self) -> float:
        """Bytes over links and expected use of the busiest node that it adds, each as a share of the present, or of one
        byte or instance per second where there is nothing yet.

        Shares of all there is, a running detector included, are the same for all detectors and groups of them: each
        move to less impact makes the product of bytes and of the use of the busiest node less. Shares of what there is
        without the detector were rejected: several detectors that each gained by them took turns, and in the end there
        were more bytes and hardly less load than before.
        """
        return self.bytes / (self.bytes_before or 1.0) + self.more_use

    @property
    def more_use(self) -> float:
        """Expected use that it adds to the busiest node, as a share of the present."""
        return self.rise / (self.peak_before or 1.0)


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

    Below a hundredth the least used node is safest.
    """
    return (round(candidate.impact, 2), candidate.own, candidate.bytes)


def least_load(candidate: Candidate) -> Rank:
    """Least use of the busiest node, then of the hosts.

    A pattern is cut where that saves a twentieth: together its parts have more load, which later detectors find.
    """
    return (candidate.peak * (1 + CUT_MARGIN * bool(candidate.parts)), candidate.own, candidate.bytes)


def most_reliable(candidate: Candidate) -> Rank:
    """All replicas, at as many sites as possible; then the least impact."""
    return (float(candidate.missing), -float(candidate.sites), *least_impact(candidate))

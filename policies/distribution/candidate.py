"""Candidates of a policy: an alternative on a set of nodes, with its estimated costs.

The costs are the same for all policies; `Policy.rank` says which of them matter. So a policy of an application's own is
an objective of a line or two. Candidates are msgspec structs because one suggestion makes a thousand of them; frozen
dataclasses take six times as long.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Action: TypeAlias = Literal["create", "reuse", "replicate"]
"""Make a new detector, listen to the running one, or replicate that to further nodes."""

Rank: TypeAlias = tuple[float, ...]
"""Numbers that candidates are compared by, the first difference decides; less is better."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One alternative on one set of nodes, with its estimated costs.

    Attributes:
        way: number of the alternative.
        node: host of the detector; of a replica the new host.
        replicas: further hosts.
        delay: ns from the last event of a match to its arrival, mean over subscribers.
        farthest: the same for the farthest subscriber.
        bytes: bytes per second it adds, summed over links.
        cost: cost of these per second, by the links' cost of a byte.
        load: instances per second it adds, at all nodes.
        own: use of the most used of its nodes: load by capacity, or load where no capacity is known.
        peak: use of the busiest node of all.
        bytes_before, peak_before: the same of everything at present.
        missing: number of replicas that are missing.
        sites: number of sites with a host, up to the number of replicas.
        limited: whether capacities are known, so that uses are shares.
    """

    action: Action
    way: int
    node: str
    replicas: tuple[str, ...]
    delay: float
    farthest: float
    bytes: float
    cost: float
    load: float
    own: float
    peak: float
    bytes_before: float
    peak_before: float
    missing: int = 0
    sites: int = 1
    limited: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node, *self.replicas)

    @property
    def overloaded(self) -> bool:
        """Whether one of its nodes would be used beyond its capacity."""
        return self.limited and self.own > 1.0

    @property
    def impact(self) -> float:
        """Bytes over links and use of the busiest node that it adds, each as a share of the present; of one byte or one
        instance per second where there is nothing yet."""
        more = max(self.peak - self.peak_before, 0.0)
        return self.bytes / (self.bytes_before or 1.0) + more / (self.peak_before or 1.0)

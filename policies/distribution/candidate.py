"""What a policy chooses from: a way to serve a subscription, and what it is estimated to mean.

The figures are the same for all policies; a policy says by `rank` which of them matter, and in what order. So a policy
of one's own is an objective of a line or two, and knows nothing of networks or patterns. Candidates are msgspec structs
because a thousand of them are made for one suggestion; frozen dataclasses take six times as long to make.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Action: TypeAlias = Literal["create", "reuse", "replicate"]
"""What is to be done: have a new detector made, listen to the one there is, or have it replicated to further nodes."""

Rank: TypeAlias = tuple[float, ...]
"""What candidates are compared by: the less, the better; the first number that differs decides."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One way to serve a subscription, with what it is estimated to mean.

    Attributes:
        way: which of the ways to detect the pattern, as a number.
        node: the node that hosts the detector; of a replica the node that gets it.
        replicas: further nodes that are to host it.
        delay: ns from the last event of a match until a subscriber hears of it, mean over subscribers.
        farthest: the same for the subscriber it is longest for.
        bytes: bytes a second it adds, summed over links.
        cost: what these cost a second, by the links' cost of a byte.
        load: instances a second it adds, at all nodes together.
        own: how much the node would be used, of its nodes the one that is used the most: load by capacity, or the load
            itself where no capacity is known.
        peak: how much the busiest node of all would be used.
        bytes_before, peak_before: the same of everything, as it is now.
        missing: how many of the nodes that are to host it there are not.
        sites: at how many sites it is hosted, counted up to the number of nodes that are to host it.
        limited: whether capacities of nodes are known, so that uses are shares of them.
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
        """The node, and those of the replicas."""
        return (self.node, *self.replicas)

    @property
    def overloaded(self) -> bool:
        """Whether one of its nodes would have more to do than it can."""
        return self.limited and self.own > 1.0

    @property
    def impact(self) -> float:
        """What it adds to the bytes over links, and to the use of the busiest node, each as a share of what was there
        before. Where there was nothing, it is a share of one byte, or of one instance, a second."""
        more = max(self.peak - self.peak_before, 0.0)
        return self.bytes / (self.bytes_before or 1.0) + more / (self.peak_before or 1.0)

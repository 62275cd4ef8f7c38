"""Links in one direction, with the queue before them, and what went over them.

A channel sends one message after the other at its bandwidth; whatever comes meanwhile waits (store and forward). On the
wire a message takes the link's latency and some jitter. Several connections share a channel and its queue; order is
kept within each of them (`ways`), not between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from distced.policies.topology.model import Link
from distced.policies.topology.topology import Topology

if TYPE_CHECKING:
    from distced.simulations.network.transport.ways import Way


class Channel:
    """A link in one direction.

    Attributes:
        origin, target: the sites it leads from and to.
        latency, jitter: ns, as of `Link`.
        bandwidth: bytes per second; 0 for unlimited.
        cost: of a byte.
        free: when it has sent everything that waits, ns.
        down: how many faults keep it down at present.
        held: what waits for it to come up, in order: the way, the place on it, and the message.
        traffic: messages and bytes by what they are about: the area of their topic, or `mqtt` for what connections need
            themselves.
    """

    __slots__ = (
        "bandwidth", "cost", "down", "free", "held", "jitter", "latency", "origin", "target", "traffic",
    )  # fmt: skip

    def __init__(self, origin: str, target: str, link: Link) -> None:
        self.origin = origin
        self.target = target
        self.latency = link.latency
        self.jitter = link.jitter
        self.bandwidth = link.bandwidth or 0
        self.cost = link.cost
        self.free = 0
        self.down = 0
        self.held: list[tuple[Way, int, Any, int, str]] = []
        self.traffic: dict[str, list[int]] = {}

    def count(self, area: str, size: int) -> None:
        """A message goes over it."""
        counted = self.traffic.get(area)
        if counted is None:
            counted = self.traffic[area] = [0, 0]
        counted[0] += 1
        counted[1] += size

    def fail(self) -> None:
        """It is down; what comes waits."""
        self.down += 1

    def mend(self) -> None:
        """One fault less; where it was the last, what has waited goes on in order."""
        self.down -= 1
        if not self.down:
            held, self.held = self.held, []
            for way, place, item, size, area in held:
                way.cross(place, item, size, area)

    @property
    def messages(self) -> int:
        """How many messages have gone over it."""
        return sum(messages for messages, _ in self.traffic.values())

    @property
    def bytes(self) -> int:
        """How many bytes have gone over it."""
        return sum(size for _, size in self.traffic.values())


class Channels:
    """The channels of a topology, and the ways through them.

    Attributes:
        all: by the sites they lead from and to.
    """

    def __init__(self, topology: Topology) -> None:
        self.all: dict[tuple[str, str], Channel] = {
            (origin, target): Channel(origin, target, link)
            for link in topology.links
            for origin, target in link.directions
        }

    def of_link(self, one: str, other: str) -> list[Channel]:
        """The channels between two sites."""
        return [each for pair in ((one, other), (other, one)) if (each := self.all.get(pair)) is not None]

    def of_site(self, site: str) -> list[Channel]:
        """The channels from and to a site."""
        return [each for each in self.all.values() if site in (each.origin, each.target)]

    def along(self, hops: Iterable[tuple[str, str]]) -> tuple[Channel, ...]:
        """The channels of a way, each given by the sites it leads from and to."""
        return tuple(self.all[hop] for hop in hops)

"""Paths through a topology, and trees from one place to many.

Shortest by one of three measures; ties by the other measures, then by the names of sites, so every node finds the same
path. networkx's shortest paths were rejected: among equals they return the first found. Dijkstra's algorithm over
(measure, other measures, number of links, names) is correct without latency or cost, too: the number of links grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.timestamps import SECOND
from distced.policies.topology.model import Link, Place

Measure: TypeAlias = Literal["latency", "cost", "hops"]
MEASURES: Final[tuple[Measure, ...]] = ("latency", "cost", "hops")

Rank: TypeAlias = tuple[float, float, float]
"""Length of a path: by the measure, then by the others."""


class Hop(NamedTuple):
    """A link, crossed in one direction between two sites."""

    origin: str
    target: str
    link: Link


class ServerRoute(NamedTuple):
    """A path between servers: length, sites and links in order, latency in ns, cost of a byte."""

    rank: Rank
    sites: tuple[str, ...]
    hops: tuple[Hop, ...]
    latency: int
    cost: float


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """Path of a message between two places.

    Attributes:
        sites, hops: sites of the servers it passes; links between servers, none within a site.
        latency: least, of a small message, ns, local links included.
        cost: of a byte; local links are free.
    """

    source: Place
    target: Place
    sites: tuple[str, ...]
    hops: tuple[Hop, ...]
    latency: int
    cost: float

    @property
    def jitter(self) -> int:
        """Greatest additional delay, ns."""
        return sum(hop.link.jitter for hop in self.hops)

    @property
    def bandwidth(self) -> int | None:
        """Bytes per second of the narrowest link; None for unlimited."""
        return min((hop.link.bandwidth for hop in self.hops if hop.link.bandwidth is not None), default=None)

    def time(self, size: int) -> int:
        """Least delay of a message of n bytes, ns: servers receive it whole before they pass it on."""
        return self.latency + sum(_transfer(size, hop.link.bandwidth) for hop in self.hops)

    def bytes_over_links(self, size: int) -> int:
        """Bytes over all links for a message of n bytes."""
        return size * len(self.hops)


@dataclass(frozen=True, slots=True)
class Tree:
    """Paths of a message from one place to many, by target; `hops`: links of all, each crossed once."""

    source: Place
    paths: Mapping[Place, NetworkPath]
    hops: tuple[Hop, ...]

    @property
    def latency(self) -> int:
        """Least time until a small message has arrived everywhere, ns."""
        return max((path.latency for path in self.paths.values()), default=0)

    @property
    def cost(self) -> float:
        """Of a byte."""
        return sum((hop.link.cost for hop in self.hops), 0.0)

    def bytes_over_links(self, size: int) -> int:
        """Bytes over all links for a message of n bytes."""
        return size * len(self.hops)


def rank_by(measure: Measure, latency: float, cost: float, hops: int) -> Rank:
    """Length by a measure, then by the others."""
    match measure:
        case "latency":
            return latency, cost, hops
        case "cost":
            return cost, latency, hops
        case "hops":
            return hops, latency, cost


def tree_of(source: Place, paths: Iterable[NetworkPath]) -> Tree:
    """Union of paths from one place."""
    each = {path.target: path for path in paths}
    return Tree(source, each, tuple(dict.fromkeys(hop for path in each.values() for hop in path.hops)))


def routes_from(site: str, leaving: Mapping[str, Sequence[Hop]], measure: Measure) -> dict[str, ServerRoute]:
    """Shortest paths from a site to each reachable one, nearest first: a tree; `leaving`: links out of each site."""
    found: dict[str, ServerRoute] = {}
    # Compared by rank, then by names, which never are the same for two of them.
    waiting = [ServerRoute((0, 0, 0), (site,), (), 0, 0.0)]
    while waiting:
        route = heappop(waiting)
        here = route.sites[-1]
        if here in found:
            continue
        found[here] = route
        for hop in leaving.get(here, ()):
            if hop.target not in found:
                latency, cost, hops = route.latency + hop.link.latency, route.cost + hop.link.cost, (*route.hops, hop)
                rank = rank_by(measure, latency, cost, len(hops))
                heappush(waiting, ServerRoute(rank, (*route.sites, hop.target), hops, latency, cost))
    return found


def _transfer(size: int, bandwidth: int | None) -> int:
    """Time to send n bytes, ns, rounded up."""
    return 0 if bandwidth is None else -(-size * SECOND // bandwidth)

"""Random topologies for experiments, by a seed.

Usual kinds of overlays. Links differ by tier: tens of milliseconds and ample bandwidth over distance, narrow and
expensive at the edge, as the article's wireless link (composite-event-framework-2004, "Evaluation and Results").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, cycle, islice
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.timestamps import MICROSECOND, MILLISECOND
from distced.policies.topology.errors import TopologyError, unknown
from distced.policies.topology.model import BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.topology import Topology

RandomKind: TypeAlias = Literal["star", "ring", "tree", "geometric", "metro"]
RANDOM_KINDS: Final[tuple[RandomKind, ...]] = ("star", "ring", "tree", "geometric", "metro")

TYPES: Final = ("A", "B", "C", "D", "E")
"""Default event types of publishers."""

PLANE: Final = 3000.0
"""Side of the plane of geometric topologies, km."""

_NS_PER_KM: Final = 5 * MICROSECOND
_STEP: Final = 100 * MICROSECOND
_MB: Final = 1_000_000


class _Shape(NamedTuple):
    """Sites as numbers, links, and preferred sites, first choice first: of nodes; of publishers and subscribers."""

    links: list[tuple[int, int, _Tier, int]]
    node_sites: Sequence[int]
    edge_sites: Sequence[int]


class _Tier(NamedTuple):
    """Ranges of a tier of links: latency, ns; bandwidths; cost of a byte."""

    least: int
    most: int
    bandwidths: tuple[int, ...]
    cost: float


_BACKBONE: Final = _Tier(2 * MILLISECOND, 15 * MILLISECOND, (1250 * _MB,), 1.0)
_WIDE: Final = _Tier(2 * MILLISECOND, 40 * MILLISECOND, (10 * _MB, 100 * _MB, 125 * _MB), 1.0)
_ACCESS: Final = _Tier(3 * MILLISECOND, 25 * MILLISECOND, (_MB // 2, _MB, 5 * _MB), 4.0)


def random_topology(
    kind: RandomKind,
    random: Random,
    *,
    sites: int = 6,
    nodes: int = 6,
    publishers: int = 8,
    subscribers: int = 3,
    types: Sequence[str] = TYPES,
) -> Topology:
    """Random topology with these numbers of parts; each publisher publishes one or two of the types.

    Args:
        kind: `star`, all linked to the first; `ring`; `tree`, each linked to an earlier one; `geometric`, near points
            of a plane linked, latency by distance; `metro`, a few linked centres with leaves, nodes first at centres,
            clients at leaves.
    """
    if kind not in _KINDS:
        raise unknown("not a kind of random topology", kind, RANDOM_KINDS)
    least = 3 if kind == "ring" else 1
    wanted = {"sites": sites, "nodes": nodes, "publishers": publishers, "subscribers": subscribers}
    for what, count in wanted.items():
        fewest = least if what == "sites" else 0
        if count < fewest:
            raise TopologyError(f"too few {what} for a {kind}", given=str(count), allowed=f"from {fewest}")
    if publishers and not types:
        raise TopologyError("publishers without event types to publish", allowed="at least one type")
    shape = _KINDS[kind](sites, random)
    name = _namer("site", sites)
    made = [
        Link(
            (name(one), name(other)),
            latency,
            _rounded(latency * random.choice((0, 0.05, 0.1, 0.2))),
            random.choice(tier.bandwidths),
            tier.cost,
        )
        for one, other, tier, latency in shape.links
    ]
    return Topology(
        [Site(name(number)) for number in range(sites)],
        _nodes([name(number) for number in shape.node_sites], nodes, random),
        _publishers([name(number) for number in shape.edge_sites], publishers, types, random),
        _subscribers([name(number) for number in shape.edge_sites], subscribers, random),
        made,
    )


# Participants.


def _nodes(sites: Sequence[str], count: int, random: Random) -> list[BrokerNode]:
    name = _namer("node", count)
    return [
        BrokerNode(name(number), site, float(random.choice((1_000, 2_000, 5_000, 10_000))))
        for number, site in enumerate(islice(cycle(sites), count))
    ]


def _publishers(sites: Sequence[str], count: int, types: Sequence[str], random: Random) -> list[Publisher]:
    name = _namer("publisher", count)
    made = []
    for number in range(count):
        chosen = tuple(sorted(random.sample(list(types), min(len(types), random.choice((1, 1, 2))))))
        rates = {each: round(10 ** random.uniform(-1, 1.3), 2) for each in chosen}
        uncertainty = random.choice((0, 1, 5, 20)) * MILLISECOND
        made.append(Publisher(name(number), random.choice(sites), chosen, rates, uncertainty))
    return made


def _subscribers(sites: Sequence[str], count: int, random: Random) -> list[Subscriber]:
    name = _namer("subscriber", count)
    return [Subscriber(name(number), random.choice(sites)) for number in range(count)]


def _namer(prefix: str, count: int) -> Callable[[int], str]:
    """Names that sort by their numbers."""
    digits = len(str(count))
    return lambda number: f"{prefix}-{number + 1:0{digits}}"


# Shapes.


def _geometric(sites: int, random: Random) -> _Shape:
    points = [(random.uniform(0, PLANE), random.uniform(0, PLANE)) for _ in range(sites)]
    # So far that on average a site has some four neighbours.
    radius = PLANE * math.sqrt(4 / (math.pi * sites))
    pairs = combinations(range(sites), 2)
    by_distance = sorted((math.dist(points[one], points[other]), one, other) for one, other in pairs)
    # Groups that are joined: the shortest links that join two are taken, however long they are.
    group = list(range(sites))
    links = []
    for distance, one, other in by_distance:
        joins = group[one] != group[other]
        if distance <= radius or joins:
            links.append((one, other, _WIDE, _rounded(MILLISECOND / 2 + distance * _NS_PER_KM)))
        if joins:
            group = [group[one] if each == group[other] else each for each in group]
    order = random.sample(range(sites), sites)
    return _Shape(links, order, order)


def _metro(sites: int, random: Random) -> _Shape:
    centres = min(sites, max(1, round(math.sqrt(sites))))
    links = [(one, other, _BACKBONE, _latency(_BACKBONE, random)) for one, other in combinations(range(centres), 2)]
    for leaf in range(centres, sites):
        # One leaf in five is linked twice.
        homes = random.sample(range(centres), min(centres, 1 + (random.random() < 0.2)))
        links += [(home, leaf, _ACCESS, _latency(_ACCESS, random)) for home in sorted(homes)]
    leaves = range(centres, sites)
    return _Shape(links, [*range(centres), *random.sample(leaves, len(leaves))], leaves or range(centres))


_KINDS: Final[dict[str, Callable[[int, Random], _Shape]]] = {
    "star": lambda sites, random: _anywhere(sites, ((0, other) for other in range(1, sites)), random),
    "ring": lambda sites, random: _anywhere(sites, ((one, (one + 1) % sites) for one in range(sites)), random),
    "tree": lambda sites, random: _anywhere(sites, [(random.randrange(one), one) for one in range(1, sites)], random),
    "geometric": _geometric,
    "metro": _metro,
}


def _anywhere(sites: int, links: Iterable[tuple[int, int]], random: Random) -> _Shape:
    """Wide links, and participants at random sites."""
    made = [(one, other, _WIDE, _latency(_WIDE, random)) for one, other in links]
    order = random.sample(range(sites), sites)
    return _Shape(made, order, order)


def _latency(tier: _Tier, random: Random) -> int:
    return _rounded(random.uniform(tier.least, tier.most))


def _rounded(nanoseconds: float) -> int:
    """Rounded to tenths of a millisecond, for display."""
    return round(nanoseconds / _STEP) * _STEP

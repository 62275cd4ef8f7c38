"""A topology: all parts of a deployment, checked, with paths between them.

Input of distribution policies, simulated networks and placement. Immutable; paths and distances computed on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.server_address import parse_address
from distced.policies.topology.errors import TopologyError, unknown
from distced.policies.topology.model import (
    KINDS,
    TABLES,
    BrokerNode,
    Link,
    Participant,
    Place,
    PlaceKind,
    Publisher,
    Site,
    Subscriber,
)
from distced.policies.topology.paths import (
    MEASURES,
    Hop,
    Measure,
    NetworkPath,
    ServerRoute,
    Tree,
    rank_by,
    routes_from,
    tree_of,
)

if TYPE_CHECKING:
    import networkx

_Part = TypeVar("_Part", Site, BrokerNode, Publisher, Subscriber)


class Topology:
    """A deployment: sites, participants, links. Equal to any topology with the same parts, in any order.

    Attributes:
        sites, nodes, publishers, subscribers: by name, in the order given.
        directory: site of the directory's server.
        links: in the order given; at most one between two sites in each direction.
        allow_partitions: whether sites may be unreachable from each other.
    """

    def __init__(
        self,
        sites: Iterable[Site],
        nodes: Iterable[BrokerNode] = (),
        publishers: Iterable[Publisher] = (),
        subscribers: Iterable[Subscriber] = (),
        links: Iterable[Link] = (),
        *,
        directory: str = "",
        allow_partitions: bool = False,
    ) -> None:
        """Check the parts; raises `TopologyError`. `directory` is the first site by default."""
        self.sites: Mapping[str, Site] = _by_name("site", sites)
        self.nodes: Mapping[str, BrokerNode] = _by_name("node", nodes)
        self.publishers: Mapping[str, Publisher] = _by_name("publisher", publishers)
        self.subscribers: Mapping[str, Subscriber] = _by_name("subscriber", subscribers)
        self.links: tuple[Link, ...] = tuple(links)
        self.allow_partitions = allow_partitions
        self._leaving: dict[str, list[Hop]] = {name: [] for name in self.sites}
        self._routes: dict[tuple[str, Measure], dict[str, ServerRoute]] = {}
        self._distances: dict[Measure, Mapping[str, Mapping[str, float]]] = {}
        if not self.sites:
            raise TopologyError(
                "a topology without a site", allowed="at least one", advice="write [sites.NAME], with a name of yours"
            )
        self.directory = directory or next(iter(self.sites))
        if self.directory not in self.sites:
            raise unknown("there is no site of this name", directory, self.sites, "directory")
        self._homes: dict[str, str] | None = None
        for participant in self.participants:
            if participant.site not in self.sites:
                place = participant.place
                where = f"{TABLES[place.kind]}.{place.name}"
                raise unknown("there is no site of this name", participant.site, self.sites, where)
        self._join_links()
        if not allow_partitions:
            self._check_connected()

    # What is there.

    @property
    def participants(self) -> tuple[Participant, ...]:
        """Nodes, publishers, subscribers."""
        return (*self.nodes.values(), *self.publishers.values(), *self.subscribers.values())

    @property
    def types(self) -> tuple[str, ...]:
        """Published event types, by name."""
        return tuple(sorted({name for each in self.publishers.values() for name in each.types}))

    def part(self, place: Place) -> Site | Participant:
        """The part at a place; raises `TopologyError`."""
        if place.kind not in TABLES:
            raise unknown("not a kind of place", place.kind, KINDS)
        table: Mapping[str, Site | Participant] = getattr(self, TABLES[place.kind])
        if place.name not in table:
            raise unknown(f"there is no {place.kind} of this name", place.name, table)
        return table[place.name]

    def site_of(self, place: Place) -> Site:
        """Site of a participant; a site itself."""
        found = self.part(place)
        return found if isinstance(found, Site) else self.sites[found.site]

    def home_of(self, site: str) -> str:
        """Home server of a site, as entries of the directory name it: the site, or empty for that of the directory."""
        return "" if site == self.directory else site

    def site_of_home(self, home: str) -> Site:
        """Site of a home server: URL in any form, or site; empty for the directory's server.

        Raises:
            TopologyError: for any other server.
        """
        if not home:
            return self.sites[self.directory]
        if home in self.sites:
            return self.sites[home]
        if self._homes is None:
            urls = [(each.url, name) for name, each in self.sites.items() if each.url]
            # Of two sites with one server, the first; as it is written counts before what it amounts to.
            self._homes = {_server(url): name for url, name in reversed(urls)} | dict(reversed(urls))
        name = self._homes.get(home) or self._homes.get(_server(home))
        if name is None:
            known = {*self.sites, *(_server(each.url) for each in self.sites.values() if each.url)}
            raise unknown("there is no site with this server", _server(home), known)
        return self.sites[name]

    def nodes_at(self, site: str) -> tuple[BrokerNode, ...]:
        return tuple(each for each in self.nodes.values() if each.site == site)

    def publishers_at(self, site: str) -> tuple[Publisher, ...]:
        return tuple(each for each in self.publishers.values() if each.site == site)

    def subscribers_at(self, site: str) -> tuple[Subscriber, ...]:
        return tuple(each for each in self.subscribers.values() if each.site == site)

    def publishers_of(self, type_name: str) -> tuple[Publisher, ...]:
        """Publishers of a type."""
        return tuple(each for each in self.publishers.values() if type_name in each.types)

    def hops_from(self, site: str) -> Sequence[Hop]:
        """Links that leave a site, by the name of their target."""
        return tuple(self._leaving[self.site_of(Place("site", site)).name])

    @cached_property
    def graph(self) -> networkx.DiGraph:
        """The topology as a frozen graph of networkx.

        Nodes are `Place`s, with `kind`, `name`, `site` (name of its site) and `part` (the `Site`, `BrokerNode`, ...).
        Edges are directed, two for a link unless one-way: between sites with `latency`, `jitter` (ns), `cost` (per
        byte), `local` (False), `link` (the `Link`) and, where limited, `bandwidth` (bytes per second); between a
        participant and its site with `latency`, `jitter` (0), `cost` (0) and `local` (True). networkx's flows take no
        capacity as unlimited.
        """
        import networkx

        graph = networkx.DiGraph()
        for each in (*self.sites.values(), *self.participants):
            site = each.name if isinstance(each, Site) else each.site
            graph.add_node(each.place, kind=each.place.kind, name=each.name, site=site, part=each)
        for each in self.participants:
            home = self.sites[each.site]
            for one, other in ((each.place, home.place), (home.place, each.place)):
                graph.add_edge(one, other, latency=home.local_latency, jitter=0, cost=0.0, local=True)
        for link in self.links:
            limit: dict[str, Any] = {} if link.bandwidth is None else {"bandwidth": link.bandwidth}
            for origin, target in link.directions:
                here, there = Place("site", origin), Place("site", target)
                costs = {"latency": link.latency, "jitter": link.jitter, "cost": link.cost}
                graph.add_edge(here, there, **costs, local=False, link=link, **limit)
        return networkx.freeze(graph)

    # Ways.

    def find_path(self, source: Place, target: Place, by: Measure = "latency") -> NetworkPath | None:
        """Shortest path of a message between two places, along servers; None for none."""
        origin, end = self.site_of(source), self.site_of(target)
        if source == target:
            return NetworkPath(source, target, (origin.name,), (), 0, 0.0)
        route = self._routes_from(origin.name, by).get(end.name)
        if route is None:
            return None
        local = sum(site.local_latency for site, place in ((origin, source), (end, target)) if place.kind != "site")
        return NetworkPath(source, target, route.sites, route.hops, local + route.latency, route.cost)

    def path(self, source: Place, target: Place, by: Measure = "latency") -> NetworkPath:
        """Shortest path of a message between two places, along servers; raises `TopologyError`."""
        found = self.find_path(source, target, by)
        if found is None:
            raise TopologyError("there is no way between them", given=f"from {source} to {target}")
        return found

    def latency(self, source: Place, target: Place) -> int:
        """Least latency of a small message, ns."""
        return self.path(source, target).latency

    def tree(self, source: Place, targets: Iterable[Place], by: Measure = "latency") -> Tree:
        """Union of the paths from one place to many: a message crosses a link once."""
        return tree_of(source, [self.path(source, target, by) for target in targets])

    def distances(self, by: Measure = "latency") -> Mapping[str, Mapping[str, float]]:
        """Distances between servers that reach each other: ns, cost of a byte, or number of links. Read only."""
        known = self._distances.get(by)
        if known is None:
            known = self._distances[by] = {
                site: {end: route.rank[0] for end, route in self._routes_from(site, by).items()} for site in self.sites
            }
        return known

    def nodes_from(self, place: Place, by: Measure = "latency") -> list[BrokerNode]:
        """Broker nodes reached from a place, nearest first."""
        return self._nearest_first([(node, self.find_path(place, node.place, by)) for node in self.nodes.values()], by)

    def nodes_to(self, place: Place, by: Measure = "latency") -> list[BrokerNode]:
        """Broker nodes that reach a place, nearest first."""
        return self._nearest_first([(node, self.find_path(node.place, place, by)) for node in self.nodes.values()], by)

    def nearest_node(self, place: Place, by: Measure = "latency") -> BrokerNode:
        """Nearest broker node from a place; raises `TopologyError`."""
        found = self.nodes_from(place, by)
        if not found:
            raise TopologyError(
                "no broker node can be reached", given=str(place), advice="add a node, or a link to a site that has one"
            )
        return found[0]

    def _nearest_first(self, paths: Iterable[tuple[BrokerNode, NetworkPath | None]], by: Measure) -> list[BrokerNode]:
        found = []
        for node, path in paths:
            if path is not None:
                found.append((rank_by(by, path.latency, path.cost, len(path.hops)), node.name, node))
        return [node for _, _, node in sorted(found, key=lambda each: each[:2])]

    def _routes_from(self, site: str, by: Measure) -> dict[str, ServerRoute]:
        known = self._routes.get((site, by))
        if known is None:
            if by not in MEASURES:
                raise unknown("not a measure of distance", by, MEASURES)
            known = self._routes[site, by] = routes_from(site, self._leaving, by)
        return known

    # Checking.

    def _join_links(self) -> None:
        crossed: dict[tuple[str, str], int] = {}
        for number, link in enumerate(self.links, 1):
            where = f"links {number} ({link.name})"
            for name in link.between:
                if name not in self.sites:
                    raise unknown("there is no site of this name", name, self.sites, where)
            for origin, target in link.directions:
                if (origin, target) in crossed:
                    raise TopologyError(
                        "two links between the same sites",
                        given=f"{origin} → {target}",
                        allowed=f"one in each direction; links {crossed[origin, target]} is the other",
                        where=where,
                        advice="take one out; two that differ by direction are one_way = true both",
                    )
                crossed[origin, target] = number
                self._leaving[origin].append(Hop(origin, target, link))
        for hops in self._leaving.values():
            hops.sort(key=lambda hop: hop.target)

    def _check_connected(self) -> None:
        """Check that every site reaches every other: the first reaches all, and all reach the first."""
        first = next(iter(self.sites))
        arriving: dict[str, list[Hop]] = {name: [] for name in self.sites}
        for hop in (hop for hops in self._leaving.values() for hop in hops):
            arriving[hop.target].append(Hop(hop.target, hop.origin, hop.link))
        not_reached = self.sites.keys() - routes_from(first, self._leaving, "hops").keys()
        not_reaching = self.sites.keys() - routes_from(first, arriving, "hops").keys()
        if not_reached or not_reaching:
            lost = ", ".join(sorted(not_reached or not_reaching))
            raise TopologyError(
                "sites that do not reach each other",
                given=f"no way from {first} to {lost}" if not_reached else f"no way to {first} from {lost}",
                allowed="every site reaches every other",
                where="links",
                advice="add a link, or say allow_partitions = true at the top",
            )

    def __eq__(self, other: object) -> bool:
        return self._contents() == other._contents() if isinstance(other, Topology) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = (f"{len(getattr(self, name))} {name}" for name in (*TABLES.values(), "links"))
        return f"Topology({', '.join(counts)})"

    def _contents(self) -> tuple[object, ...]:
        parts = (dict(getattr(self, name)) for name in TABLES.values())
        return (*parts, frozenset(self.links), self.directory, self.allow_partitions)


def _server(url: str) -> str:
    """Server of a URL, without user and password; the text itself where it is none."""
    try:
        return str(parse_address(url))
    except DistcedError:
        return url


def _by_name(kind: PlaceKind, parts: Iterable[_Part]) -> Mapping[str, _Part]:
    found: dict[str, _Part] = {}
    for each in parts:
        if each.name in found:
            raise TopologyError(f"two {TABLES[kind]} of one name", given=each.name, allowed="each name once")
        found[each.name] = each
    return found

"""Topologies: what is there, and the ways between; against every simple path on small graphs, and against networkx."""

from __future__ import annotations

import pickle
from itertools import combinations, pairwise, permutations
from random import Random

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Place, Publisher, Site, Subscriber
from distced.policies.topology.paths import MEASURES, Measure
from distced.policies.topology.topology import Topology

MS = MILLISECOND


def server(name: str) -> Place:
    return Place("site", name)


@pytest.fixture
def office() -> Topology:
    """Two floors and a street; the way out is cheaper, wider and shorter in one direction; a detour that is free."""
    return Topology(
        [Site("one"), Site("two"), Site("street", local_latency=30 * MS), Site("cellar")],
        [BrokerNode("n2", "two", 5000.0), BrokerNode("n3", "one"), BrokerNode("n1", "one")],
        [
            Publisher("badges", "one", ("Pers",), {"Pers": 4.0}),
            Publisher("both", "two", ("Pers", "Temp"), {"Temp": 0.5}),
        ],
        [Subscriber("pda", "street"), Subscriber("badges", "two")],
        [
            Link(("two", "one"), 1 * MS, 2 * MS, 1_000_000),
            Link(("one", "street"), 60 * MS, bandwidth=64_000, cost=20.0, one_way=True),
            Link(("street", "one"), 80 * MS, bandwidth=16_000, cost=20.0, one_way=True),
            Link(("one", "cellar"), 50 * MS, cost=0.0),
            Link(("cellar", "two"), 50 * MS, cost=0.25),
        ],
    )


# What is there.


def test_topology_knows_participants(office: Topology) -> None:
    assert [node.name for node in office.nodes_at("one")] == ["n3", "n1"]
    assert [each.name for each in office.publishers_at("two")] == ["both"]
    assert [each.name for each in office.subscribers_at("street")] == ["pda"]
    assert [each.name for each in office.publishers_of("Pers")] == ["badges", "both"]
    assert office.types == ("Pers", "Temp")
    assert office.site_of(Place("subscriber", "badges")).name == "two"
    assert office.site_of(Place("publisher", "badges")).name == "one"
    assert office.part(Place("node", "n2")) == BrokerNode("n2", "two", 5000.0)
    assert [hop.target for hop in office.hops_from("one")] == ["cellar", "street", "two"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (Place("node", "n9"), r"no node of this name: n9 \(allowed: n1, n2, n3\)"),
        (Place("site", "strete"), "no site of this name: strete .*did you mean street"),
        (Place("broker", "n1"), "not a kind of place: broker .*node"),  # type: ignore[arg-type]
    ],
)
def test_unknown_part_is_named(office: Topology, place: Place, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        office.path(place, server("one"))


def test_topologies_are_equal_in_any_order(office: Topology) -> None:
    turned = Topology(
        reversed(office.sites.values()),
        reversed(office.nodes.values()),
        reversed(office.publishers.values()),
        reversed(office.subscribers.values()),
        reversed(office.links),
        directory=office.directory,
    )
    assert turned == office
    assert turned != Topology(office.sites.values(), links=office.links)
    assert Link(("b", "a"), 1) == Link(("a", "b"), 1)
    assert Link(("b", "a"), 1, one_way=True) != Link(("a", "b"), 1, one_way=True)


def test_used_topology_can_be_pickled(office: Topology) -> None:
    office.path(server("one"), server("two"))
    assert office.graph
    assert pickle.loads(pickle.dumps(office)) == office


# Ways.


def test_path_goes_from_server_to_server(office: Topology) -> None:
    path = office.path(office.nodes["n2"].place, office.subscribers["pda"].place)
    assert path.sites == ("two", "one", "street")
    assert [(hop.origin, hop.target) for hop in path.hops] == [("two", "one"), ("one", "street")]
    assert path.latency == LOCAL_LATENCY + 1 * MS + 60 * MS + 30 * MS
    assert path.jitter == 2 * MS
    assert path.cost == 21.0
    assert path.bandwidth == 64_000
    assert path.bytes_over_links(1000) == 2000
    # A thousand bytes at a million a second, then at 64,000.
    assert path.time(1000) == path.latency + SECOND // 1000 + SECOND // 64
    back = office.path(office.subscribers["pda"].place, office.nodes["n2"].place)
    assert back.latency == LOCAL_LATENCY + 1 * MS + 80 * MS + 30 * MS


def test_transfer_time_is_rounded_up() -> None:
    topology = Topology([Site("a"), Site("b")], links=[Link(("a", "b"), 7, bandwidth=3 * SECOND)])
    assert [topology.path(server("a"), server("b")).time(size) for size in (0, 1, 3, 4)] == [7, 8, 8, 9]


def test_within_site_message_goes_through_server(office: Topology) -> None:
    path = office.path(office.publishers["badges"].place, office.nodes["n1"].place)
    assert (path.sites, path.hops, path.latency) == (("one",), (), 2 * LOCAL_LATENCY)
    assert (path.cost, path.bandwidth, path.bytes_over_links(1000), path.time(1000)) == (0.0, None, 0, path.latency)
    assert office.latency(server("one"), office.nodes["n1"].place) == LOCAL_LATENCY
    assert office.latency(office.nodes["n1"].place, office.nodes["n1"].place) == 0


def test_each_measure_has_its_path(office: Topology) -> None:
    paths = {by: office.path(server("one"), server("two"), by) for by in MEASURES}
    assert paths["latency"].sites == paths["hops"].sites == ("one", "two")
    assert paths["cost"].sites == ("one", "cellar", "two")
    assert paths["cost"].cost == 0.25
    assert office.distances("cost")["one"]["two"] == 0.25
    assert office.distances("latency")["one"]["two"] == 1 * MS
    assert office.distances("hops")["cellar"]["street"] == 2
    assert office.distances("hops") is office.distances("hops")
    with pytest.raises(TopologyError, match=r"not a measure of distance: bandwidth \(allowed: cost, hops, latency\)"):
        office.path(server("one"), server("two"), "bandwidth")  # type: ignore[arg-type]


def test_among_equally_short_paths_other_measures_decide_and_then_names() -> None:
    def diamond(**costs: float) -> tuple[str, ...]:
        links = [Link(("start", name), 5, cost=cost) for name, cost in costs.items()]
        links += [Link((name, "end"), 5) for name in costs]
        topology = Topology([Site(name) for name in ("start", *costs, "end")], links=links)
        return topology.path(server("start"), server("end")).sites

    assert diamond(c=1.0, a=1.0, b=1.0) == ("start", "a", "end")
    assert diamond(c=1.0, a=2.0, b=1.0) == ("start", "b", "end")


@pytest.mark.parametrize(
    ("by", "direct", "first", "second", "wanted"),
    [
        # Latency and cost of a link from start to end, and of the two by way of a third site.
        ("latency", (4, 2.0), (2, 0.5), (2, 0.5), 2),
        ("latency", (4, 1.0), (2, 0.5), (2, 0.5), 1),
        ("cost", (4, 1.0), (1, 0.5), (1, 0.5), 2),
        ("cost", (2, 1.0), (1, 0.5), (1, 0.5), 1),
        ("hops", (9, 9.0), (1, 0.5), (1, 0.5), 1),
    ],
)
def test_measures_decide_in_order(
    by: Measure, direct: tuple[int, float], first: tuple[int, float], second: tuple[int, float], wanted: int
) -> None:
    given = {("start", "end"): direct, ("start", "a"): first, ("a", "end"): second}
    links = [Link(pair, latency, cost=cost) for pair, (latency, cost) in given.items()]
    topology = Topology([Site("start"), Site("a"), Site("end")], links=links)
    assert len(topology.path(server("start"), server("end"), by).hops) == wanted


def test_faster_path_wins_among_equal_hops() -> None:
    links = [Link(("start", "a"), 2, cost=1.0), Link(("start", "b"), 1, cost=9.0)]
    links += [Link((name, "end"), 1) for name in "ab"]
    topology = Topology([Site(name) for name in ("start", "a", "b", "end")], links=links)
    assert topology.path(server("start"), server("end"), "hops").sites == ("start", "b", "end")


def test_free_links_still_count_as_hops() -> None:
    links = [Link((one, other), 0, cost=0.0) for one, other in pairwise("adcbe")] + [Link(("a", "e"), 0, cost=0.0)]
    topology = Topology([Site(name) for name in "abcde"], links=links)
    assert topology.path(server("a"), server("b")).sites == ("a", "e", "b")


def test_tree_crosses_each_link_once(office: Topology) -> None:
    targets = [office.subscribers["pda"].place, office.nodes["n1"].place, office.nodes["n2"].place, server("cellar")]
    tree = office.tree(office.nodes["n2"].place, targets)
    assert sorted((hop.origin, hop.target) for hop in tree.hops) == [
        ("one", "street"),
        ("two", "cellar"),
        ("two", "one"),
    ]
    assert tree.bytes_over_links(10) == 30
    assert tree.cost == 1.0 + 20.0 + 0.25
    assert tree.latency == office.latency(office.nodes["n2"].place, office.subscribers["pda"].place)
    assert list(tree.paths) == targets
    alone = office.tree(office.nodes["n2"].place, [])
    assert (alone.cost, alone.latency, alone.bytes_over_links(10)) == (0.0, 0, 0)


def test_nodes_are_sorted_by_distance(office: Topology) -> None:
    pda = office.subscribers["pda"].place
    assert [node.name for node in office.nodes_from(pda)] == ["n1", "n3", "n2"]
    assert [node.name for node in office.nodes_to(office.publishers["both"].place, "hops")] == ["n2", "n1", "n3"]
    assert office.nearest_node(pda, "cost").name == "n1"
    assert office.nearest_node(server("cellar"), "latency").name == "n1"
    # One way there is not the way back.
    apart = Topology(
        [Site("a"), Site("b")],
        [BrokerNode("n", "b")],
        links=[Link(("a", "b"), 1, one_way=True)],
        allow_partitions=True,
    )
    assert [node.name for node in apart.nodes_from(server("a"))] == ["n"]
    assert apart.nodes_to(server("a")) == []
    with pytest.raises(TopologyError, match="no broker node can be reached: site one"):
        Topology([Site("one")]).nearest_node(server("one"))


def test_disconnected_sites_need_allow_partitions() -> None:
    apart = Topology([Site("a"), Site("b"), Site("c")], links=[Link(("a", "b"), 1)], allow_partitions=True)
    assert apart.find_path(server("a"), server("c")) is None
    assert apart.distances()["a"] == {"a": 0, "b": 1}
    with pytest.raises(TopologyError, match="no way between them: from site a to site c"):
        apart.path(server("a"), server("c"))
    with pytest.raises(TopologyError, match="no way between"):
        apart.tree(server("a"), [server("b"), server("c")])


# Against other computations of the same.


@st.composite
def overlays(draw: st.DrawFn) -> Topology:
    """Up to six sites with any links; values from so few that there are many equally short ways."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 6)))]
    links = []
    for one, other in combinations(names, 2):
        for pair in draw(st.sampled_from(([], [(one, other)], [(one, other)], [(one, other), (other, one)]))):
            latency, cost = draw(st.integers(0, 2)), draw(st.sampled_from((0.0, 0.5, 1.0)))
            links.append(Link(pair, latency, cost=cost, one_way=draw(st.booleans())))
    directions = [direction for link in links for direction in link.directions]
    links = [link for link in links if all(directions.count(each) == 1 for each in link.directions)]
    return Topology([Site(name) for name in names], links=links, allow_partitions=True)


def lengths(topology: Topology, sites: tuple[str, ...], by: Measure) -> tuple[float, ...] | None:
    """What a way is judged by; None where a link is missing."""
    links = {direction: link for link in topology.links for direction in link.directions}
    crossed = [links.get(pair) for pair in pairwise(sites)]
    if None in crossed:
        return None
    known = {
        "latency": sum(link.latency for link in crossed if link),
        "cost": sum(link.cost for link in crossed if link),
        "hops": len(crossed),
    }
    first = {"latency": "latency cost hops", "cost": "cost latency hops", "hops": "hops latency cost"}
    return tuple(known[each] for each in first[by].split())


@given(overlays(), st.sampled_from(MEASURES))
@settings(max_examples=100)
def test_path_is_best_of_all(topology: Topology, by: Measure) -> None:
    for origin in topology.sites:
        for end in topology.sites:
            between = [name for name in topology.sites if name not in (origin, end)]
            paths = [(origin,)] if origin == end else [
                (origin, *middle, end) for count in range(len(between) + 1) for middle in permutations(between, count)
            ]  # fmt: skip
            judged = [(rank, path) for path in paths if (rank := lengths(topology, path, by)) is not None]
            found = topology.find_path(server(origin), server(end), by)
            assert (found.sites if found else None) == (min(judged)[1] if judged else None)


@given(overlays(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_path_is_independent_of_order_and_history(topology: Topology, random: Random) -> None:
    sites, links = list(topology.sites.values()), list(topology.links)
    random.shuffle(sites)
    random.shuffle(links)
    other = Topology(sites, links=links, allow_partitions=True)
    for origin, end in permutations(topology.sites, 2):
        assert other.find_path(server(origin), server(end)) == topology.find_path(server(origin), server(end))


@given(overlays())
@settings(max_examples=100)
def test_paths_to_many_are_tree(topology: Topology) -> None:
    for origin in topology.sites:
        tree = topology.tree(server(origin), [server(end) for end in topology.distances()[origin]])
        arrivals = [hop.target for hop in tree.hops]
        assert sorted([*arrivals, origin]) == sorted(topology.distances()[origin])


# The graph.


def test_graph_holds_all_parts(office: Topology) -> None:
    graph = office.graph
    assert set(graph) == {each.place for each in (*office.sites.values(), *office.participants)}
    assert graph.nodes[Place("node", "n2")] == {
        "kind": "node", "name": "n2", "site": "two", "part": office.nodes["n2"]
    }  # fmt: skip
    down = graph.edges[server("one"), server("street")]
    assert (down["latency"], down["bandwidth"], down["cost"], down["local"]) == (60 * MS, 64_000, 20.0, False)
    assert graph.edges[server("street"), server("one")]["bandwidth"] == 16_000
    assert "bandwidth" not in graph.edges[server("one"), server("cellar")]
    assert graph.edges[Place("subscriber", "pda"), server("street")] == {
        "latency": 30 * MS, "jitter": 0, "cost": 0.0, "local": True
    }  # fmt: skip
    assert networkx.is_frozen(graph)
    assert graph is office.graph


def test_networkx_finds_same_distances(office: Topology) -> None:
    by_networkx = dict(networkx.all_pairs_dijkstra_path_length(office.graph, weight="latency"))
    for one, other in permutations(office.graph, 2):
        assert office.latency(one, other) == by_networkx[one][other]
    pda, node = office.subscribers["pda"].place, office.nodes["n2"].place
    assert networkx.maximum_flow_value(office.graph, node, pda, capacity="bandwidth") == 64_000


# What cannot be.


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda: Topology([]), "without a site"),
        (lambda: Topology([Site("a"), Site("a")]), "two sites of one name: a"),
        (lambda: Topology([Site("a")], [BrokerNode("n", "b")]), r"no site of this name: b .*at nodes\.n"),
        (lambda: Topology([Site("a"), Site("b")]), "do not reach each other: no way from a to b"),
        (lambda: BrokerNode("n", "a", float("nan")), r"not a number for capacity: nan .*at nodes\.n"),
        (lambda: Publisher("p", "a", loss=-0.1), "not a probability of loss: -0.1"),
        (lambda: Publisher("p", "a", uncertainty=-1), "not a duration for uncertainty: -1"),
        (lambda: Subscriber("", "a"), "not a name for a subscriber: ''"),
        (lambda: Site("a\n"), "not a name for a site"),
        (lambda: Site("a", local_latency=2**63), "not a duration for local_latency: .*within 64 bits"),
        (lambda: Link(("a", "a"), 1), "from a site to itself: a"),
        (lambda: Link(("a", "b"), 1, bandwidth=0), "not a bandwidth: 0"),
        (lambda: Link(("a", "b"), 1, cost=float("inf")), "not a cost per byte: inf"),
    ],
)
def test_invalid_topology_is_refused(parts, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TopologyError, match=message):
        parts()

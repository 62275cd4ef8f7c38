"""Random topologies: numbers of parts and shape as requested, the same for the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.timestamps import MILLISECOND
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.random_topology import PLANE, RANDOM_KINDS, RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology, topology_as_toml


def degrees(topology: Topology) -> Counter[str]:
    return Counter(name for link in topology.links for name in link.between)


@given(
    st.sampled_from(RANDOM_KINDS),
    st.integers(0, 2**32),
    st.integers(3, 15),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 8),
)
@settings(max_examples=60)
def test_random_topology_has_requested_numbers(
    kind: RandomKind, seed: int, sites: int, nodes: int, publishers: int, subscribers: int
) -> None:
    def made() -> Topology:
        return random_topology(
            kind, Random(seed), sites=sites, nodes=nodes, publishers=publishers, subscribers=subscribers
        )

    topology = made()
    counts = topology.sites, topology.nodes, topology.publishers, topology.subscribers
    assert tuple(map(len, counts)) == (sites, nodes, publishers, subscribers)
    # The same again, also through a file; every site reached is checked by Topology itself.
    assert topology_as_toml(made()) == topology_as_toml(topology)
    assert parse_topology(topology_as_toml(topology)) == topology
    # Nobody has two nodes while somebody has none.
    assert max(len(topology.nodes_at(name)) for name in topology.sites) <= -(-nodes // sites)
    assert list(topology.sites) == sorted(topology.sites)


@pytest.mark.parametrize("seed", range(5))
def test_random_topology_has_requested_shape(seed: int) -> None:
    star, ring, tree = (random_topology(kind, Random(seed), sites=9) for kind in ("star", "ring", "tree"))  # type: ignore[arg-type]
    assert degrees(star) == {"site-1": 8} | {f"site-{number}": 1 for number in range(2, 10)}
    assert set(degrees(ring).values()) == {2}
    assert len(ring.links) == 9
    assert len(tree.links) == 8
    assert len({tree.links, random_topology("tree", Random(seed + 100), sites=9).links}) == 2


@pytest.mark.parametrize("seed", range(5))
def test_geometric_latencies_are_distances(seed: int) -> None:
    topology = random_topology("geometric", Random(seed), sites=25)
    longest = 0.5 * MILLISECOND + PLANE * 2**0.5 * 5_000
    assert all(0.5 * MILLISECOND <= link.latency <= longest for link in topology.links)
    # Points that are linked are nearer than most: a detour is never much shorter than the link, but for rounding.
    for link in topology.links:
        one, other = link.between
        assert topology.distances()[one][other] >= link.latency - 0.5 * MILLISECOND
    assert networkx.is_connected(networkx.Graph([link.between for link in topology.links]))


@pytest.mark.parametrize("seed", range(5))
def test_metro_has_nodes_at_its_centres_and_clients_at_its_leaves(seed: int) -> None:
    topology = random_topology("metro", Random(seed), sites=16, nodes=4, publishers=20, subscribers=10)
    centres = {f"site-{number:02}" for number in range(1, 5)}
    assert {node.site for node in topology.nodes.values()} == centres
    assert centres.isdisjoint(each.site for each in topology.publishers.values())
    assert centres.isdisjoint(each.site for each in topology.subscribers.values())
    backbone = [link for link in topology.links if centres.issuperset(link.between)]
    access = [link for link in topology.links if link not in backbone]
    assert len(backbone) == 6
    assert all(len(centres.intersection(link.between)) == 1 and link.cost == 4 for link in access)
    assert {link.cost for link in backbone} == {1.0}


def test_random_topology_has_requested_types() -> None:
    topology = random_topology("star", Random(1), publishers=30, types=("Pers", "Door"))
    assert topology.types == ("Door", "Pers")
    assert all(each.rates.keys() == set(each.types) for each in topology.publishers.values())
    only = random_topology("star", Random(1), publishers=3, types=("Pers",))
    assert {each.types for each in only.publishers.values()} == {("Pers",)}


def test_random_topology_of_one_site() -> None:
    for kind in RANDOM_KINDS:
        if kind != "ring":
            assert random_topology(kind, Random(0), sites=1).links == ()


def test_names_are_in_order_of_numbers() -> None:
    names = list(random_topology("tree", Random(0), sites=101).sites)
    assert all(one < other for one, other in pairwise(names))
    assert names[0] == "site-001"


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("mesh", {}, r"not a kind of random topology: mesh \(allowed: geometric, metro, ring, star, tree\)"),
        ("ring", {"sites": 2}, r"too few sites for a ring: 2 \(allowed: from 3\)"),
        ("star", {"sites": 0}, "too few sites for a star: 0"),
        ("star", {"nodes": -1}, "too few nodes for a star: -1"),
        ("star", {"types": ()}, "publishers without event types"),
    ],
)
def test_impossible_random_topology_is_refused(kind, parts, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TopologyError, match=message):
        random_topology(kind, Random(0), **parts)

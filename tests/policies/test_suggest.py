"""Suggestions: the best of everything that may be done, by figures computed here independently."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given, settings

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry, Hints, NodeEntry
from distced.policies.distribution.choose.suggest import Request, Suggestion, suggest
from distced.policies.distribution.policy import NAMED, parse_policy
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import AT_DIRECTORY, Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.policies.topology.topology_file import parse_topology
from tests.support.deployments import (
    directory_of,
    patterns,
    random_situation,
    request_for,
    seeds,
    situation_of,
    subscriber_of,
)

LINE = parse_topology(
    """
    directory = "middle"
    [sites]
    west = {}
    middle = {}
    east = {}
    [nodes]
    w = { site = "west" }
    m = { site = "middle" }
    e = { site = "east" }
    [publishers]
    pa = { site = "west", types = ["A"], rates = { A = 10 } }
    pb = { site = "west", types = ["B"], rates = { B = 5 } }
    pc = { site = "east", types = ["C"], rates = { C = 2 } }
    [subscribers]
    s = { site = "east" }
    t = { site = "west" }
    [[links]]
    between = ["west", "middle"]
    latency = "10ms"
    [[links]]
    between = ["middle", "east"]
    latency = "20ms"
    """
)
EAST, WEST = (Place("subscriber", "s"),), (Place("subscriber", "t"),)


def asked(pattern: str, name: str, situation: Situation, subscribers: tuple[Place, ...], **hints: object) -> Suggestion:
    policy = parse_policy(name)
    request = request_for(pattern, policy, situation, subscribers, Hints(**hints))  # type: ignore[arg-type]
    return suggest(policy, situation, request)


def running(situation: Situation, identity: str, node: str, **more: object) -> Situation:
    """With a detector of A ; B."""
    fields: dict[str, object] = {"home": situation.home_of_node(node), **more}
    entry = DetectorEntry(node, "[A] ; [B]", "guaranteed", ("A", "B"), **fields)  # type: ignore[arg-type]
    changed = situation.copy()
    changed.changed("detector", identity, entry)
    return changed


def identity_of(pattern: str, situation: Situation) -> str:
    return request_for(pattern, NAMED["min-latency"], situation, EAST).id


# The named policies, where one can see what they should do.


def test_named_policies_choose_expected_nodes() -> None:
    situation = situation_of(LINE)
    # Whoever waits for both ends hears the soonest where he is himself.
    assert asked("[A] ; [C]", "min-latency", situation, EAST).node == "e"
    assert asked("[A] ; [C]", "min-latency", situation, WEST).node == "w"
    # Where it is all the same to the subscriber, bytes decide: both sources are in the west.
    assert asked("[A] ; [B]", "min-latency", situation, EAST).node == "w"
    assert asked("[A] ; [B]", "min-bandwidth", situation, EAST).node == "w"
    assert asked("[A] ; [B]", "min-bandwidth", situation, WEST).node == "w"
    assert asked("[A] ; [B]", "min-impact", situation, WEST).node == "w"
    both = asked("[A] ; [B]", "max-reliability", situation, EAST)
    assert both.action == "create"
    assert len({both.node, *both.replicas}) == 2
    assert set(both.homes) == {situation.home_of_node(each) for each in (both.node, *both.replicas)}


def test_suggestion_matches_hand_calculation() -> None:
    found = asked("[A] ; [B]", "min-latency", situation_of(LINE), EAST, nodes=("e",))
    message = message_sizes.MESSAGE
    events = 15 * (message_sizes.EVENT + message)
    beats = 2 * message_sizes.HEARTBEATS * (message_sizes.HEARTBEAT + message)
    # Both sources and their heartbeats cross two links; the subscriber is where the detector is.
    assert found.chosen.bytes == pytest.approx(2 * (events + beats))
    assert found.links == {
        ("west", "middle"): pytest.approx(events + beats),
        ("middle", "east"): pytest.approx(events + beats),
    }
    # Every A begins an instance, and is taken on by the next B: a touch at the start and one where it waits.
    assert (found.expected.load, found.expected.rate, found.expected.events) == (20.0, 10.0, 15.0)
    assert found.chosen.load == 20.0
    latency = 30_000_000 + 4 * 150_000
    assert latency + 150_000 <= found.chosen.delay <= latency + 150_000 + 1e9 / message_sizes.HEARTBEATS
    assert found.home == "east"
    assert found.homes == ("east",)
    assert "min-latency: a new detector on e" in found.reason
    assert "there was no other choice" in found.reason


def test_min_load_spreads_detectors() -> None:
    situation = situation_of(LINE)
    taken = []
    for number in range(3):
        found = asked(f"[A where x > {number}] ; [B]", "min-load", situation, EAST)
        identity = identity_of(f"[A where x > {number}] ; [B]", situation)
        situation = running(situation, identity, found.node)
        situation.expect(identity, found.expected)
        taken.append(found.node)
    assert sorted(taken) == ["e", "m", "w"]


def test_suggestion_avoids_overloaded_node() -> None:
    situation = situation_of(LINE)
    for name in ("w", "m", "e"):
        situation.changed(
            "node", name, NodeEntry(0, home=situation.home_of_node(name), capacity=5 if name == "e" else 90)
        )
    found = asked("[A] ; [C]", "min-latency", situation, EAST)
    assert found.node == "m"
    assert found.alternatives[-1].node == "e"
    assert found.alternatives[-1].overloaded


# Reuse, by its dimension.


def test_reuse_none_makes_replicas_while_there_are_nodes() -> None:
    situation = situation_of(LINE)
    identity = identity_of("[A] ; [B]", situation)
    found = asked("[A] ; [B]", "none none subscribers", running(situation, identity, "e"), EAST)
    assert (found.action, found.node) == ("replicate", "w")
    everywhere = running(situation, identity, "e", replicas={"m": "", "w": "west"})
    found = asked("[A] ; [B]", "none none subscribers", everywhere, EAST)
    assert (found.action, found.node, found.homes) == ("reuse", "e", ("east",))


def test_reuse_local_only_serves_near_subscribers() -> None:
    situation = situation_of(LINE)
    there = running(situation, identity_of("[A] ; [B]", situation), "e")
    near = asked("[A] ; [B]", "min-latency", there, EAST)
    assert (near.action, near.node, near.homes) == ("reuse", "e", ("east",))
    far = asked("[A] ; [B]", "min-latency", there, WEST)
    assert (far.action, far.node, far.homes) == ("replicate", "w", ("west",))


def test_reuse_maximum_serves_all_where_cheaper() -> None:
    situation = situation_of(LINE)
    there = running(situation, identity_of("[A] ; [B]", situation), "w")
    found = asked("[A] ; [B]", "min-bandwidth", there, EAST)
    assert (found.action, found.node, found.homes) == ("reuse", "w", ("west",))
    # The composite events of this one are more than the events they are made of.
    size = there.measures.of(identity_of("[A] ; [B]", situation))
    assert size.rate > 0


def test_reuse_at_least_two_makes_second_replica() -> None:
    situation = situation_of(LINE)
    identity = identity_of("[A] ; [B]", situation)
    one = asked("[A] ; [B]", "max-reliability", running(situation, identity, "w"), EAST)
    assert one.action == "replicate"
    assert one.node in ("m", "e")
    assert set(one.homes) == {"west", situation.home_of_node(one.node)}
    two = running(situation, identity, "w", replicas={"e": "east"}, distribution="max-reliability")
    both = asked("[A] ; [B]", "max-reliability", two, EAST)
    assert (both.action, both.homes) == ("reuse", ("west", "east"))


def test_reuse_rules_hold_for_parts() -> None:
    situation = situation_of(LINE)
    identity = identity_of("[A] ; [B]", situation)
    one, two = running(situation, identity, "w"), running(situation, identity, "w", replicas={"e": "east"})
    pattern = "[A] ; [B] ; [C]"

    def parts(name: str, there: Situation) -> set[tuple[str, ...]]:
        request = request_for(pattern, parse_policy(name), there, EAST)
        return {graph.plans[graph.roots[0]].parts for graph in request.graphs}

    assert parts("for-reuse none publishers", one) == {()}
    assert parts("for-reuse maximum publishers", one) == {(), (identity,)}
    assert parts("for-reuse local-only publishers", one) == {()}
    assert parts("for-reuse local-only publishers", two) == {(), (identity,)}
    assert parts("max-reliability", one) == {()}
    assert parts("max-reliability", two) == {(), (identity,)}
    assert parts("min-latency", one) == {()}
    assert parts("full none none", one) == {(), (identity,)}


def test_detector_read_as_part_sends_more_to_listeners() -> None:
    situation = situation_of(LINE)
    identity = identity_of("[A] ; [B]", situation)
    policy = parse_policy("for-reuse maximum publishers")
    added = {}
    for readers in (0, 3):
        there = running(situation, identity, "w", readers={"east": readers} if readers else {})
        request = request_for("[A] ; [B] ; [C]", policy, there, EAST)
        found = suggest(policy, there, request)
        reading = next(number for number, graph in enumerate(request.graphs) if graph.plans[graph.roots[0]].parts)
        every = [
            each for each in (found.chosen, *found.alternatives) if each.alternative == reading and each.node == "w"
        ]
        added[readers] = every[0].bytes
        louder = there.measures.louder(identity)
    # Two sources, the slower one heard nine times a second, instead of once.
    watermarks = 2 * (5 + message_sizes.HEARTBEATS) - message_sizes.QUIET
    rate = there.measures.of(identity).rate
    assert louder == pytest.approx(
        watermarks * (message_sizes.FRAME + message_sizes.MESSAGE)
        + rate * (message_sizes.DERIVATION + 2 * message_sizes.INSIDE)
    )
    assert added[3] - added[0] == pytest.approx(3 * 2 * louder)


def test_detector_on_ruled_out_node_is_not_read() -> None:
    situation = situation_of(LINE)
    there = running(situation, identity_of("[A] ; [B]", situation), "w")
    found = asked("[A] ; [B]", "min-bandwidth", there, EAST, avoid=("w",))
    assert found.action == "replicate"
    assert found.node != "w"
    request = request_for("[A] ; [B] ; [C]", NAMED["min-bandwidth"], there, EAST, Hints(avoid=("w",)))
    assert len(request.graphs) == 1


# The best of all, compared with everything there is.


def every_placement(situation: Situation, request: Request, replicas: int) -> Iterable[tuple[int, tuple[str, ...]]]:
    for number in range(len(request.graphs)):
        for nodes in combinations(sorted(situation.nodes), replicas):
            yield number, nodes


def bytes_by_hand(situation: Situation, request: Request, found: Suggestion, nodes: tuple[str, ...]) -> float:
    """What a whole detector on some nodes adds to links: for each stream that its node does not read yet the links on
    the way, and for each subscriber those from the node's server."""
    topology = situation.topology
    assert topology is not None
    total = 0.0
    root = request.graphs[0].plans[request.graphs[0].roots[0]]
    types = root.compiled.automaton.type_names() or frozenset()
    output = found.expected.size + watermark_rate_by_hand(situation, types) * message_sizes.MESSAGE

    def links(origin: str, target: str) -> int:
        return len(topology.path(Place("site", origin), Place("site", target)).hops)

    read_everywhere = {
        node: {each for name, entry in situation.detectors.items() if node in (entry.node, *entry.replicas)
               for each in situation.reading.streams_of(name)}
        for node in situation.nodes
    }  # fmt: skip
    for node in nodes:
        at, read = topology.nodes[node].site, read_everywhere[node]
        beats = {(AT_DIRECTORY, sum(not each.home for each in situation.sources.values()))}
        for name, source in situation.sources.items():
            for each in set(source.types) & types:
                if source.home:
                    beats.add((Stream("heartbeat", source.home, source.publisher or name), 1))
                if Stream("event", each, name) not in read:
                    flow = topology.publishers[name].rates[each] * (message_sizes.EVENT + message_sizes.MESSAGE)
                    total += flow * links(situation.site_of_home(source.home), at)
        for stream, publishers in beats:
            if stream not in read:
                flow = publishers * message_sizes.HEARTBEATS * (message_sizes.HEARTBEAT + message_sizes.MESSAGE)
                total += flow * links(situation.site_of_home(stream.type), at)
        total += sum(output * links(at, situation.site_of(place)) for place in request.subscribers)
    return total


def watermark_rate_by_hand(situation: Situation, types: frozenset[str]) -> float:
    assert situation.topology is not None
    heard = [
        message_sizes.HEARTBEATS + sum(rate for name, rate in each.rates.items() if name in types)
        for each in situation.topology.publishers.values()
        if set(each.types) & types
    ]
    return min(len(heard) * min(heard, default=0.0), message_sizes.QUIET)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_min_bandwidth_adds_fewest_bytes(seed: int) -> None:
    situation = random_situation(seed)
    policy = parse_policy("none none publishers")
    request = request_for("[A where x == 7] ; [B]", policy, situation, subscriber_of(situation.topology))
    found = suggest(policy, situation, request)
    by_hand = {node: bytes_by_hand(situation, request, found, (node,)) for node in situation.nodes}
    assert found.chosen.bytes == pytest.approx(by_hand[found.node])
    assert by_hand[found.node] == pytest.approx(min(by_hand.values()))
    for each in found.alternatives:
        assert each.bytes == pytest.approx(by_hand[each.node])


@settings(max_examples=40, deadline=None)
@given(seeds, patterns)
def test_every_objective_finds_its_best(seed: int, pattern: str) -> None:
    situation = random_situation(seed)
    subscribers = subscriber_of(situation.topology)
    for policy in NAMED.values():
        request = request_for(pattern, policy, situation, subscribers)
        found = suggest(policy, situation, request)
        chosen = policy.rank(found.chosen)
        for other in found.alternatives:
            assert tuple(f"{each:.9g}" for each in chosen) == tuple(f"{each:.9g}" for each in policy.rank(other)) or (
                [round(each, 6) for each in chosen] <= [round(each, 6) for each in policy.rank(other)]
            )
        if found.action == "create":
            considered = {(each.alternative, tuple(sorted(each.nodes))) for each in (found.chosen, *found.alternatives)}
            assert considered == set(every_placement(situation, request, policy.replicas))


@settings(max_examples=30, deadline=None)
@given(seeds, patterns)
def test_replicas_are_on_different_nodes_and_sites(seed: int, pattern: str) -> None:
    situation = random_situation(seed)
    policy = NAMED["max-reliability"]
    request = request_for(pattern, policy, situation, subscriber_of(situation.topology))
    found = suggest(policy, situation, request)
    there = situation.hosts(request.id)
    hosts = {*there, found.node, *found.replicas}
    assert len(hosts) >= 2
    if found.action == "create":
        sites = {situation.site_of_node(each) for each in hosts}
        assert len(sites) == min(2, len({situation.site_of_node(each) for each in situation.nodes}))


@settings(max_examples=30, deadline=None)
@given(seeds, patterns)
def test_suggestion_leaves_situation_unchanged(seed: int, pattern: str) -> None:
    situation = random_situation(seed)
    before = (situation.bytes_over_links, situation.busiest, dict(situation.detectors))
    for policy in NAMED.values():
        request = request_for(pattern, policy, situation, subscriber_of(situation.topology))
        once, again = suggest(policy, situation, request), suggest(policy, situation, request)
        assert once.reason == again.reason
        assert once.chosen == again.chosen
        assert suggest(policy, situation.copy(), request).chosen == once.chosen
    assert before == (situation.bytes_over_links, situation.busiest, dict(situation.detectors))


def test_ties_are_spread() -> None:
    topology = parse_topology("[sites.a]\n" + "".join(f'[nodes.n{each}]\nsite = "a"\n' for each in range(8)))
    situation = Situation.of(directory_of(topology), topology)
    place = (Place("site", "a"),)
    taken = {asked(f"[A where x == {each}] ; [B]", "min-latency", situation, place).node for each in range(40)}
    assert len(taken) >= 6


# Many nodes, so that sets are not all looked at.


def test_large_node_sets_are_searched_greedily() -> None:
    situation = random_situation(5, running=0, sites=20, nodes=60)
    policy = parse_policy("none at-least-2 none 3")
    request = request_for("[A] ; [B]", policy, situation, subscriber_of(situation.topology))
    found = suggest(policy, situation, request)
    assert len({found.node, *found.replicas}) == 3
    assert found.chosen.sites == 3
    single = [each for each in found.alternatives if each.node == found.node]
    assert single


# What cannot be.


def test_suggestion_error_lists_nodes() -> None:
    situation = situation_of(LINE)
    with pytest.raises(DistcedError, match=r"none of the nodes that the hints allow.*nowhere.*e, m, w"):
        asked("[A] ; [B]", "min-latency", situation, EAST, nodes=("nowhere",))
    with pytest.raises(DistcedError, match=r"2 replicas need as many nodes: 1 there: m .*take back hints"):
        asked("[A] ; [B]", "max-reliability", situation, EAST, nodes=("m",))
    empty = Situation(LINE)
    with pytest.raises(DistcedError, match="no broker node is there"):
        asked("[A] ; [B]", "min-latency", empty, EAST)


def test_no_node_reaches_sources() -> None:
    topology = parse_topology(
        """
        allow_partitions = true
        [sites.a]
        [sites.b]
        [nodes.n]
        site = "a"
        [publishers.p]
        site = "b"
        types = ["A", "B"]
        [subscribers.s]
        site = "a"
        """
    )
    with pytest.raises(DistcedError, match=r"no node reaches the sources.*sources at b; subscribers at a"):
        asked("[A] ; [B]", "min-bandwidth", situation_of(topology), (Place("subscriber", "s"),))


def test_home_servers_are_sites_without_topology() -> None:
    entries = directory_of(LINE)
    situation = Situation.of(entries)
    place = Place("site", "east")
    found = asked("[A] ; [C]", "min-latency", situation, (place,))
    assert found.node == "e"
    assert set(found.links) == {("west", "east")}
    assert asked("[A] ; [B]", "min-bandwidth", situation, (place,)).node == "w"

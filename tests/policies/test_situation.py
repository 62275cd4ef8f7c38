"""The situation: kept up to date, and what follows from it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    Hints,
    LoadEntry,
    Measured,
    NodeEntry,
    SourceEntry,
)
from distced.policies.distribution.choose.hints import allowed_nodes, check_hints
from distced.policies.distribution.estimate.delays import arrivals
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.server_distance import ASSUMED_LATENCY
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import LOCAL_LATENCY, Place
from distced.policies.topology.topology_file import parse_topology
from tests.support.deployments import random_situation, seeds

THREE = parse_topology(
    """
    directory = "b"
    [sites]
    a = { url = "mqtt://a.example" }
    b = {}
    c = {}
    [nodes]
    one = { site = "a", capacity = 100 }
    two = { site = "b" }
    [publishers]
    p = { site = "a", types = ["A", "B"], rates = { A = 4, B = 1 } }
    [[links]]
    between = ["a", "b"]
    latency = "10ms"
    [[links]]
    between = ["b", "c"]
    latency = "20ms"
    """
)


def three(**tables: dict[str, object]) -> Situation:
    entries = Entries()
    entries.nodes.update(one=NodeEntry(0, home="mqtt://a.example"), two=NodeEntry(0))
    entries.sources["p"] = SourceEntry(("A", "B"), 0, publisher="p", home="mqtt://a.example")
    for name, table in tables.items():
        entries.table(name.removesuffix("s")).update(table)
    return Situation.of(entries, THREE)


def detector(node: str, *reads: str, **more: object) -> DetectorEntry:
    return DetectorEntry(node, "[A]", "guaranteed", reads, **more)  # type: ignore[arg-type]


def reported(situation: Situation) -> tuple[object, ...]:
    """Everything that policies look at."""
    reading = {node: dict(situation.reading.at(node)) for node in sorted(situation.nodes) if situation.reading.at(node)}
    return (
        reading,
        {name: situation.load(name) for name in sorted(situation.nodes)},
        {name: situation.capacity(name) for name in sorted(situation.nodes)},
        situation.busiest,
        {link: round(amount, 6) for link, amount in situation.bytes_by_link.items() if round(amount, 6)},
        round(situation.bytes_over_links, 6),
        {name: arrivals(situation, name) for name in sorted(situation.detectors)},
        {name: situation.measures.of(name) for name in sorted(situation.detectors)},
    )


# Places.


def test_situation_knows_places() -> None:
    situation = three(clients={"app": ClientEntry(0, "mqtt://a.example:1883"), "other": ClientEntry(0)})
    assert situation.site_of_node("one") == "a"
    assert situation.place_of("app") == Place("site", "a")
    assert situation.place_of("other") == Place("site", "b")
    assert situation.place_of("gone") == Place("site", "b")
    assert situation.place_of("node:one") == Place("node", "one")
    assert situation.home_of_node("one") == "mqtt://a.example"
    situation.changed("node", "new", NodeEntry(0, home="mqtt://a.example"))
    assert situation.site_of_node("new") == "a"
    # A server nobody has drawn is a site of its own.
    situation.changed("node", "far", NodeEntry(0, home="mqtt://far.example"))
    assert situation.to_node("", "far") == ASSUMED_LATENCY + LOCAL_LATENCY


def test_measured_latencies_count_more_than_topology() -> None:
    situation = three()
    assert situation.to_node("", "one") == 10_000_000 + LOCAL_LATENCY
    situation.changed("load", "one", LoadEntry(latencies={"": 3_000_000}))
    assert situation.to_node("", "one") == 3_000_000
    assert situation.to_node("mqtt://a.example", "one") == LOCAL_LATENCY
    assert situation.to_place("", Place("node", "one")) == 3_000_000
    assert situation.to_place("", Place("site", "c")) == 20_000_000 + LOCAL_LATENCY


# Bytes.


def test_bytes_over_links_match_hand_calculation() -> None:
    situation = three(
        detectors={
            "d": detector("two", "A", home="", readers={"c": 2}),
            "e": detector("two", "A", "B", home=""),
            "f": detector("one", "A", home=""),
        }
    )
    event = message_sizes.EVENT + message_sizes.MESSAGE
    beats = message_sizes.HEARTBEATS * (message_sizes.HEARTBEAT + message_sizes.MESSAGE)
    output = {name: situation.measures.flow(Stream("composite", "", name)) for name in "def"}
    assert situation.bytes_by_link == {
        # Two detectors on one node read A once; that on the site of the source reads it for nothing, and its home is b.
        ("a", "b"): pytest.approx(5 * event + beats + output["f"]),
        ("b", "c"): pytest.approx(2 * output["d"]),
    }
    assert situation.bytes_over_links == pytest.approx(sum(situation.bytes_by_link.values()))


def test_nodes_that_read_part_are_not_counted_twice() -> None:
    situation = three(
        detectors={
            "part": detector("two", "A", home="", readers={"mqtt://a.example": 1}),
            "whole": detector("one", parts=("part",), home="mqtt://a.example"),
        }
    )
    output = situation.measures.flow(Stream("composite", "", "part"))
    assert situation.bytes_by_link["b", "a"] == pytest.approx(output)


def test_nearest_replica_is_heard_or_all_for_reliability() -> None:
    replicas: dict[str, object] = {"home": "", "replicas": {"one": "mqtt://a.example"}}
    near = three(detectors={"d": detector("two", "A", **replicas)})
    assert near.homes_heard("d", "a") == ("mqtt://a.example",)
    assert near.homes_heard("d", "c") == ("",)
    both = three(detectors={"d": detector("two", "A", distribution="max-reliability", **replicas)})
    assert both.homes_heard("d", "a") == ("", "mqtt://a.example")
    both.changed("node", "two", None)
    assert both.hosts("d") == {"one": "mqtt://a.example"}
    assert both.homes_heard("d", "c") == ("mqtt://a.example",)


# Rates and loads.


def test_measurement_precedes_announced_rate() -> None:
    situation = three(detectors={"d": detector("two", "A"), "e": detector("two", "A", "B")})
    measures = situation.measures
    assert (measures.rate("p", "A"), measures.rate("p", "B")) == (4, 1)
    assert measures.of("d").load == 4 * message_sizes.TOUCHES
    situation.expect("d", Measured(load=7.0))
    assert measures.of("d").load == 7
    assert situation.load("two") == 7 + 5 * message_sizes.TOUCHES
    heard = Measured(load=9.0, inputs={"p": 800.0}, events=10)
    situation.changed("load", "two", LoadEntry(12.0, {"d": heard}))
    assert measures.rate("p", "A") == 10
    assert measures.rate("p", "B") == 1
    # Three that it has to do beside its detectors, nine that were measured, and another detector is new.
    assert situation.load("two") == pytest.approx(3 + 9 + 11 * message_sizes.TOUCHES)


def test_source_of_several_types_is_divided() -> None:
    situation = three(detectors={"e": detector("two", "A", "B")})
    situation.changed("load", "two", LoadEntry(0.0, {"e": Measured(inputs={"p": 1000.0}, events=20)}))
    assert situation.measures.rate("p", "A") == pytest.approx(16)
    assert situation.measures.rate("p", "B") == pytest.approx(4)


def test_unknown_capacity_is_mean_of_known_ones() -> None:
    situation = three()
    assert (situation.capacity("one"), situation.capacity("two")) == (100, 100)
    situation.changed("node", "two", NodeEntry(0, capacity=50))
    assert (situation.capacity("one"), situation.capacity("two")) == (100, 50)
    assert Situation.of(Entries(), None).capacity("any") == 1


def test_cycle_of_parts_is_harmless() -> None:
    situation = three(
        detectors={"d": detector("one", parts=("e",), home=""), "e": detector("two", parts=("d",), home="")}
    )
    assert set(arrivals(situation, "d")) == {""}
    assert situation.bytes_over_links >= 0
    assert situation.measures.of("d").load >= 0


# Keeping up.

_CHANGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(seeds, _CHANGES)
def test_updated_situation_equals_new_one(seed: int, changes: list[tuple[int, int]]) -> None:
    kept = random_situation(seed, running=3, sites=4, nodes=4)
    for kind, number in changes:
        _change(kept, kind, Random(number))
        reported(kept)
    fresh = Situation(kept.topology)
    for name, table in (
        ("nodes", kept.nodes),
        ("sources", kept.sources),
        ("detectors", kept.detectors),
        ("loads", kept.loads),
    ):
        getattr(fresh, name).update(table)
    fresh.measures.expected.update(kept.measures.expected)
    assert reported(kept) == reported(fresh)
    assert reported(kept.copy()) == reported(fresh)


def _change(situation: Situation, kind: int, random: Random) -> None:
    nodes, detectors = sorted(situation.nodes), sorted(situation.detectors)
    node = random.choice(nodes) if nodes else "none"
    match kind:
        case 0 if detectors:
            situation.changed("detector", random.choice(detectors), None)
        case 1:
            name = f"made-{random.randrange(3)}"
            reads = tuple(random.sample(["A", "B", "C", "Made"], 2))
            publishes = random.choice(["", "Made"])
            parts = (random.choice(detectors),) if detectors else ()
            replicas = {each: "" for each in nodes[:1] if each != node}
            entry = DetectorEntry(
                node, "x", "guaranteed", reads, publishes, parts=parts, replicas=replicas, readers={"": 2}
            )
            situation.changed("detector", name, entry)
        case 2 if nodes:
            inputs = {name: random.uniform(10, 1000) for name in sorted(situation.sources)}
            does = {name: Measured(random.random(), 1.0, 500.0, inputs, 30.0) for name in detectors}
            situation.changed("load", node, LoadEntry(random.uniform(0, 9), does, {"": 5_000_000}))
        case 3:
            situation.changed("source", f"s{random.randrange(2)}", SourceEntry(("A", "E"), 0))
        case 4 if len(nodes) > 1:
            situation.changed("node", node, None)
        case _:
            situation.changed("load", node, None)
            situation.changed("node", f"n{random.randrange(2)}", NodeEntry(0, capacity=random.choice([0.0, 500.0])))


# Hints.


@pytest.mark.parametrize(
    ("hints", "problem"),
    [
        (Hints(nodes=("onee",)), "no node of this name for the hint nodes: onee .*did you mean one"),
        (Hints(avoid=("three",)), "hint avoid: three .*one, two"),
        (Hints(avoid=("one", "two")), "hints that leave no node: avoid one, two"),
        (Hints(nodes=("one",), avoid=("one",)), "hints that leave no node"),
        (Hints(rates={"A": -1.0}), "not a rate for A: -1.0"),
        (Hints(rates={"A": float("nan")}), "not a rate for A"),
        (Hints(selectivity=float("inf")), "not a selectivity: inf"),
    ],
)
def test_invalid_hints_are_refused(hints: Hints, problem: str) -> None:
    from distced.middleware.model.errors import DistcedError

    for known in (THREE, ["one", "two"]):
        with pytest.raises(DistcedError, match=problem):
            check_hints(hints, known)


def test_valid_hints_pass() -> None:
    hints = Hints(nodes=("two", "one"), avoid=("one",), rates={"A": 0.0}, selectivity=2.0)
    assert check_hints(hints, THREE) is hints
    situation = three()
    assert allowed_nodes(hints, situation) == ("two",)
    assert allowed_nodes(Hints(), situation) == ("one", "two")
    situation.changed("node", "two", None)
    assert allowed_nodes(hints, situation) == ()

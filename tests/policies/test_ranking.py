"""Suggestions compared with everything there is, computed slowly: each figure for each node from what the directory
says now, with nothing that was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import prod, sqrt
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from distced.detectors.cutting.cut import DetectorGraph
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, Hints, LoadEntry, Measured, NodeEntry
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.choose.ranking import Request
from distced.policies.distribution.choose.suggest import suggest
from distced.policies.distribution.estimate.busiest_node import COUNTED, ESTIMATED, MEASURED
from distced.policies.distribution.estimate.delays import STEPS, Input, arrivals, from_detector, from_source, waited
from distced.policies.distribution.estimate.detector_estimate import Rates, expected, streams_of
from distced.policies.distribution.policy import NAMED, Policy
from distced.policies.distribution.situation import message_sizes
from distced.policies.distribution.situation.readers import Stream, inputs
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from tests.policies.test_suggest import EAST, LINE
from tests.support.deployments import PATTERNS, patterns, random_situation, request_for, seeds, situation_of

STEPS_OF_NORMAL = 2_000


class Computed:
    """The figures of one alternative on some nodes, and what they are ranked by."""

    def __init__(
        self, situation: Situation, request: Request, policy: Policy, alternative: int, nodes: Sequence[str]
    ) -> None:
        self.nodes, self.alternative, self.policy = nodes, alternative, policy
        self.bytes, self.load = 0.0, 0.0
        graph = request.graphs[alternative]
        plan = graph.plans[graph.roots[0]]
        rates = Rates(situation, request.hints, {})
        streams = streams_of(plan, situation)
        does = expected(plan, situation, request.hints)
        output = does.size + message_sizes.MESSAGE * rates.watermark_rate(
            streams, read=plan.compiled.automaton.output is not None
        )
        self.bytes += sum(louder(situation, name) for name in inputs(streams)[1])
        delays: list[list[float]] = []
        for node in nodes:
            site, home = situation.site_of_node(node), situation.home_of_node(node)
            for stream in streams:
                if not is_read(situation, stream, node):
                    self.bytes += sum(
                        rates.bytes_of(stream) * hops(situation, situation.site_of_home(each), site)
                        for each in situation.homes_of(stream, site)
                    )
            arrived = wait(situation, streams, rates, node) + situation.to_node(home, node)
            delays.append([arrived + situation.to_place(home, place) for place in request.subscribers])
            for place in request.subscribers:
                self.bytes += output * hops(situation, situation.site_of_home(home), situation.site_of(place))
        heard = [min(each) for each in zip(*delays, strict=True)]
        self.delay, self.farthest = sum(heard) / len(heard), max(heard)
        before = {node: load(situation, node) / situation.capacity(node) for node in situation.nodes}
        added = does.load * situation.measures.correction
        after = {node: before[node] + added / situation.capacity(node) for node in nodes}
        self.own, self.peak = max(after.values()), max([*before.values(), *after.values()])
        self.peak_before, self.bytes_before = max(before.values()), sum(situation.bytes_by_link.values())
        self.rise = max(
            rise(
                situation, before, node, added / situation.capacity(node), ESTIMATED * added / situation.capacity(node)
            )
            for node in nodes
        )
        self.sites = len({situation.site_of_node(node) for node in nodes})

    @property
    def impact(self) -> float:
        return self.bytes / (self.bytes_before or 1.0) + self.rise / (self.peak_before or 1.0)

    def rank(self, impact: float) -> tuple[float, ...]:
        """By what the policy is after, in the words of the documentation.

        Args:
            impact: the same as its own but for rounding, which decides between one hundredth and the next.
        """
        match self.policy.name:
            case "min-latency":
                return (self.delay, self.bytes, self.own)
            case "min-bandwidth":
                return (self.bytes, self.delay, self.own)
            case "min-impact":
                return (round(impact, 2), self.own, self.bytes)
            case "min-load":
                return (self.peak, self.own, self.bytes)
            case _:
                return (-self.sites, round(impact, 2), self.own, self.bytes)


def rise(situation: Situation, uses: Mapping[str, float], node: str, added: float, error: float) -> float:
    """Expected use of the busiest node that a load adds, by quadrature of its definition."""
    beside = max((other for other in uses if other != node), key=lambda other: uses[other], default=None)

    def variance(each: str) -> float:
        return ((MEASURED * uses[each]) ** 2) + COUNTED * uses[each] / situation.capacity(each)

    doubt = variance(node) + (0.0 if beside is None else variance(beside))
    free = uses[node] - (0.0 if beside is None else uses[beside])
    return mean_excess(free + added, sqrt(doubt + error**2)) - mean_excess(free, sqrt(doubt))


def mean_excess(mean: float, error: float) -> float:
    """Mean of what is above zero of a normal distribution."""
    if not error:
        return max(mean, 0.0)
    low, high = max(mean - 9 * error, 0.0), max(mean + 9 * error, 0.0)
    step = (high - low) / STEPS_OF_NORMAL
    density = NormalDist(mean, error).pdf
    return sum(x * density(x) for x in (low + (number + 0.5) * step for number in range(STEPS_OF_NORMAL))) * step


def hops(situation: Situation, origin: str, target: str) -> int:
    return situation.network.path(origin, target).hops


def is_read(situation: Situation, stream: Stream, node: str) -> bool:
    return any(
        stream in situation.reading.streams(entry.reads, entry.parts, but=name)
        for name, entry in situation.detectors.items()
        if node in (entry.node, *entry.replicas)
    )


def louder(situation: Situation, detector: str) -> float:
    more = situation.measures.louder(detector)
    total = 0.0
    for listener, count in situation.detectors[detector].readers.items():
        site = situation.site_of_home(listener)
        for home in situation.homes_heard(detector, site):
            total += more * count * hops(situation, situation.site_of_home(home), site)
    return total


def wait(situation: Situation, streams: tuple[Stream, ...], rates: Rates, node: str) -> float:
    heard = []
    sources, detectors = inputs(streams)
    for source, types in sources:
        rate = rates.of_source(source, types)
        heard.append(Input(from_source(situation, source, node), rate, message_sizes.HEARTBEATS + rate))
    for each in detectors:
        latency = from_detector(situation, arrivals(situation, each), node)
        heard.append(Input(latency, rates.of_detector(each), rates.heard(each)))
    return waited(heard)


def load(situation: Situation, node: str) -> float:
    entry = situation.loads.get(node)
    beside = 0.0
    if entry is not None:
        beside = max(entry.load - sum(each.load for each in entry.detectors.values()), 0.0)
    hosted = [name for name, each in situation.detectors.items() if node in (each.node, *each.replicas)]
    return beside + sum(situation.measures.at(name, node).load for name in hosted)


def stirred(situation: Situation, random: Random) -> Situation:
    """With replicas, reports and listeners, which come one after the other while somebody looks on."""
    names, nodes = sorted(situation.detectors), sorted(situation.nodes)
    homes = sorted({each.home for each in situation.sources.values()})
    for step in random.sample(range(3 * len(nodes)), 2 * len(nodes)):
        node = nodes[step % len(nodes)]
        if names and step < len(nodes):
            name = random.choice(names)
            entry = situation.detectors[name]
            replicas = {} if node == entry.node else {node: situation.home_of_node(node)}
            readers = {random.choice(homes): random.randint(1, 4)}
            situation.changed("detector", name, replace(entry, replicas=replicas, readers=readers))
        elif step < 2 * len(nodes):
            does = {name: reported(situation, name, random) for name in names if random.random() < 0.4}
            latencies = {home: random.randint(1, 40) * 1_000_000 for home in homes if random.random() < 0.7}
            situation.changed("load", node, LoadEntry(random.uniform(0, 80), does, latencies))
        else:
            capacity = random.choice([0.0, 300.0, 2000.0])
            situation.changed("node", node, NodeEntry(0, home=situation.home_of_node(node), capacity=capacity))
        _ = situation.bytes_over_links, situation.busiest
    if names and random.random() < 0.3:
        situation.changed("detector", random.choice(names), None)
    return situation


def reported(situation: Situation, name: str, random: Random) -> Measured:
    sources, parts = situation.reading.inputs_of(name)
    heard = {each: random.uniform(10, 900) for each in (*(source for source, _ in sources), *parts)}
    return Measured(
        random.uniform(0, 60), random.uniform(0, 5), random.uniform(0, 900), heard, sum(heard.values()) / 70
    )


def parts_run(situation: Situation, graph: DetectorGraph) -> bool:
    return all(situation.hosts(part) for part in graph.plans[graph.roots[0]].parts)


def rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{each:.9g}") for each in values)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds, patterns)
def test_suggestion_is_best_of_all_candidates(seed: int, pattern: str) -> None:
    random = Random(seed)
    kept = stirred(random_situation(seed, running=random.choice([0, 4, 8])), random)
    fresh = kept.copy()
    people = random.sample(sorted(kept.topology.subscribers), random.randint(1, 3))  # type: ignore[union-attr]
    subscribers = tuple(Place("subscriber", each) for each in people)
    for policy in NAMED.values():
        request = request_for(pattern, policy, kept, subscribers)
        found = suggest(policy, kept, request)
        if found.action != "create":
            continue
        # Where parts of parts end up is for the policy itself to say.
        known = [alternative for alternative, graph in enumerate(request.graphs) if parts_run(fresh, graph)]
        every = {
            (alternative, frozenset(nodes)): Computed(fresh, request, policy, alternative, nodes)
            for alternative in known
            for nodes in combinations(sorted(fresh.nodes), policy.replicas)
        }
        candidates = [each for each in (found.chosen, *found.alternatives) if each.alternative in known]
        assert {(each.alternative, frozenset(each.nodes)) for each in candidates} == every.keys()
        for each in candidates:
            own = every[each.alternative, frozenset(each.nodes)]
            for name in ("delay", "farthest", "bytes", "own", "peak", "bytes_before", "peak_before"):
                assert getattr(each, name) == pytest.approx(getattr(own, name), rel=1e-6, abs=1e-6), name
            for name in ("rise", "impact"):
                assert getattr(each, name) == pytest.approx(getattr(own, name), rel=1e-4, abs=1e-6), name
        computed = [(each, every[each.alternative, frozenset(each.nodes)]) for each in candidates]
        ranks = [(each.overloaded, rounded(own.rank(each.impact))) for each, own in computed]
        for before, after in pairwise(ranks):
            assert before <= after or before == pytest.approx(after), policy.name


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=2, max_size=9))
def test_mean_wait_is_documented_integral(drawn: list[tuple[int, int]]) -> None:
    spans = [(latency * 1e6, SECOND / heard) for latency, heard in drawn]
    start, end = (
        max(latency for latency, _ in spans),
        max(latency + period for latency, period in spans),
    )
    step = (end - start) / STEPS
    total = 0.0
    for number in range(STEPS):
        x = start + (number + 0.5) * step
        total += 1 - prod(min((x - latency) / period, 1.0) for latency, period in spans)
    assert waited([Input(latency * 1e6, 1.0, heard) for latency, heard in drawn]) == pytest.approx(start + step * total)


# Reports, one after the other.


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_incremental_reports_equal_union(seed: int) -> None:
    random = Random(seed)
    kept = stirred(random_situation(seed, running=6), random)
    fresh = kept.copy()
    streams = {each for name in kept.detectors for each in kept.reading.streams_of(name)}
    assert {each: kept.measures.flow(each) for each in streams} == {each: fresh.measures.flow(each) for each in streams}
    for name in kept.detectors:
        for read in (False, True):
            assert kept.measures.watermark_rate(name, read=read) == fresh.measures.watermark_rate(name, read=read)
    assert kept.measures.payload == fresh.measures.payload
    assert kept.uses == fresh.uses
    assert kept.bytes_over_links == fresh.bytes_over_links


def test_detector_without_input_is_waited_for() -> None:
    """What a detector tells that others read follows from what they wait for, also where that changes."""
    situation = situation_of(LINE)

    def detector(*reads: str, parts: tuple[str, ...] = ()) -> DetectorEntry:
        return DetectorEntry("w", "[A]", "guaranteed", reads, parts=parts, home="west", readers={"east": 1})

    situation.changed("detector", "whole", detector("C", parts=("part",)))
    situation.changed("load", "w", LoadEntry(1.0, {"whole": Measured(1.0, 1.0, 100.0, {"pc": 50.0}, 2.0)}))
    watermark_rate = []
    for part in (detector("A", "B"), detector("Nothing"), detector("A"), None):
        situation.changed("detector", "part", part)
        stream = Stream("composite", "", "whole")
        assert situation.measures.flow(stream) == situation.copy().measures.flow(stream)
        assert situation.bytes_over_links == situation.copy().bytes_over_links
        watermark_rate.append(situation.measures.watermark_rate("whole"))
    assert watermark_rate == [message_sizes.QUIET, 0.0, message_sizes.QUIET, message_sizes.QUIET]


# Nodes that were started for one detector.


def reserved(situation: Situation, node: str, detector: str) -> None:
    situation.changed("node", node, replace(situation.nodes[node], reserved=detector))


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_node_that_is_reserved_gets_no_other_detector(seed: int) -> None:
    random = Random(seed)
    situation = random_situation(seed)
    taken = random.sample(sorted(situation.nodes), 2)
    for node in taken:
        reserved(situation, node, "another")
    assert not set(taken) & set(allowed_nodes(Hints(), situation))
    for policy in NAMED.values():
        request = request_for(random.choice(PATTERNS), policy, situation, (Place("node", taken[0]),))
        found = suggest(policy, situation, request)
        for each in (found.chosen, *found.alternatives):
            if each.action != "reuse":
                assert not set(taken) & set(each.nodes)


def test_detector_on_reserved_node_is_read() -> None:
    situation = situation_of(LINE)
    policy = NAMED["min-bandwidth"]
    identity = request_for("[A] ; [B]", policy, situation, EAST).id
    entry = DetectorEntry("w", "[A] ; [B]", "guaranteed", ("A", "B"), home="west")
    situation.changed("detector", identity, entry)
    reserved(situation, "w", identity)
    found = suggest(policy, situation, request_for("[A] ; [B]", policy, situation, EAST))
    assert (found.action, found.node, found.homes) == ("reuse", "w", ("west",))
    assert len(request_for("[A] ; [B] ; [C]", policy, situation, EAST).graphs) == 2
    avoided = request_for("[A] ; [B]", policy, situation, EAST, Hints(avoid=("w",)))
    assert suggest(policy, situation, avoided).action == "replicate"


def test_reserved_nodes_alone_take_no_detector() -> None:
    situation = situation_of(LINE)
    for node in list(situation.nodes):
        reserved(situation, node, "another")
    policy = NAMED["min-latency"]
    with pytest.raises(DistcedError, match="no broker node is there"):
        suggest(policy, situation, request_for("[A] ; [B]", policy, situation, EAST))

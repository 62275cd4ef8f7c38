"""`distced bench place`: time to place one more detector where a thousand run.

Measured is the cost of a policy for a subscription at a node: to handle changes of the directory, to enumerate the
alternatives with running detectors, and to ask the policy. Compiling the pattern is the same for all policies, and is
left out. Before each round a node reports new figures of all its detectors, so that no earlier result computed from
them holds. The baseline is a node that keeps no situation and makes it again from the directory each time. Times are of
the processor: other load of the machine makes little difference.

The detectors are patterns of two to four types on random nodes of a random deployment, each with the figures a host
would measure; one in three has others as parts. Reported separately is the decision on a whole node (`DecidingNode`),
which besides parses and names its pattern and looks for detectors to reuse: the code of `brokers` that nodes run,
without encoding and sending.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from distced.brokers.core.directory import Directory
from distced.brokers.node.placement import Decision, Placement
from distced.brokers.node.planning import Planner
from distced.brokers.node.policy_settings import PolicySettings
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.timestamps import MILLISECOND
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    LoadEntry,
    Measured,
    NodeEntry,
    SourceEntry,
    SubscriptionEntry,
    TopologyEntry,
)
from distced.policies.distribution.choose.alternatives import alternatives
from distced.policies.distribution.choose.place_all import catalogue_of
from distced.policies.distribution.choose.suggest import Request, suggest
from distced.policies.distribution.policy import NAMED, DistributionPolicy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import topology_as_toml
from distced.simulations.plots import bars
from distced.simulations.report import Column, OnProgress, Report, ReportTable, no_progress, number_columns

TYPES: Final = tuple(f"T{number}" for number in range(20))
SITES: Final = 20
PUBLISHERS: Final = 60


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """Times of one policy, by round."""

    policy: str
    update_ms: tuple[float, ...]  # to handle an entry of a detector and one of a node's load
    alternatives_ms: tuple[float, ...]  # to enumerate the alternatives
    suggest_ms: tuple[float, ...]  # for the suggestion, consequences of the new entries included
    again_ms: tuple[float, ...]  # for the whole with a situation that is made again
    candidates: int  # greatest number compared
    sites: int  # number of different sites of the detectors

    @property
    def total_ms(self) -> list[float]:
        """Total time, ms, by round."""
        return [sum(each) for each in zip(self.update_ms, self.alternatives_ms, self.suggest_ms, strict=True)]


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """Times on a whole node under one policy, by round."""

    policy: str
    update_ms: tuple[float, ...]  # to handle an entry of a detector and one of a node's load
    identify_ms: tuple[float, ...]  # to parse and to name the pattern
    decide_ms: tuple[float, ...]  # to enumerate the alternatives and to decide

    @property
    def total_ms(self) -> list[float]:
        """Total time, ms, by round."""
        return [sum(each) for each in zip(self.update_ms, self.identify_ms, self.decide_ms, strict=True)]


@dataclass(frozen=True, slots=True)
class PlaceFigures:
    """Results of the benchmark."""

    rows: tuple[PlacedRow, ...]
    decided: tuple[DecidedRow, ...]  # cost on a whole node
    nodes: int
    detectors: int
    sources: int
    first_ms: float  # to make the situation from the directory and all that follows from it, once


@dataclass(frozen=True, slots=True)
class PlaceDeployment:
    """A deployment with its directory, and the detectors that may be read as parts."""

    topology: Topology
    entries: Entries
    catalogue: Catalogue


class DecidingNode:
    """The deciding part of a node, with a directory; `decided` is its last decision."""

    def __init__(self, entries: Entries, topology: Topology) -> None:
        self.decided: Decision | None = None
        self._directory = Directory()
        self._delegating = Planner("decider", self._directory)
        self._deciding = Placement(self._directory, self._delegating, PolicySettings())
        for name in sorted({each for source in entries.sources.values() for each in source.types}):
            self._take_in("type", name, EventType(name, {"x": "number"}))
        for each in topology.subscribers.values():
            self._take_in("client", each.name, ClientEntry(0, _home(topology, each.site)))
        for kind in ("node", "source", "detector", "load"):
            for name, entry in entries.table(kind).items():
                self._take_in(kind, name, entry)
        self._take_in("topology", "network", TopologyEntry(topology_as_toml(topology)))
        # The patterns of running detectors are compiled once, when the node receives them first.
        self._delegating.index_parts(self._directory.registry())
        _ = self._deciding.situation.bytes_over_links, self._deciding.situation.busiest

    def decide(
        self, policy: str, pattern: str, client: str, detector: str, node: str, load: LoadEntry
    ) -> tuple[float, float, float]:
        """Handle a renewed detector and a load report, then decide for a subscription; returns the ms of handling, of
        naming the pattern, and of deciding.
        """
        entry = SubscriptionEntry(client, pattern, distribution=policy)
        began = time.process_time()
        self._take_in("detector", detector, self._directory.detectors[detector])
        self._take_in("load", node, load)
        updated = time.process_time()
        registry = self._directory.registry()
        found = self._delegating.identify(entry, registry)
        identified = time.process_time()
        self.decided = self._deciding.decide(found, entry, registry)
        ended = time.process_time()
        return (updated - began) * 1000, (identified - updated) * 1000, (ended - identified) * 1000

    def _take_in(self, kind: str, name: str, entry: Any) -> None:
        self._deciding.changed(self._directory.put(kind, name, entry))


def measure(
    detectors: int = 1000, nodes: int = 100, rounds: int = 20, seed: int = 1, on_progress: OnProgress = no_progress
) -> PlaceFigures:
    """Place one more detector beside n running ones, under each named policy, repeatedly."""
    random = Random(seed)
    deployment = deploy(random, detectors, nodes, on_progress)
    began = time.process_time()
    situation = Situation.of(deployment.entries, deployment.topology)
    _ = situation.bytes_over_links, situation.busiest
    first_ms = (time.process_time() - began) * 1000
    rows, decided = [], []
    for number, policy in enumerate(NAMED.values(), 1):
        rows.append(_measure_policy(policy, deployment, situation, rounds, random))
        on_progress("placing", number, len(NAMED))
    node = DecidingNode(deployment.entries, deployment.topology)
    for number, policy in enumerate(NAMED.values(), 1):
        decided.append(_measure_node(policy, deployment, node, rounds, random))
        on_progress("deciding", number, len(NAMED))
    return PlaceFigures(tuple(rows), tuple(decided), nodes, detectors, len(situation.sources), first_ms)


def deploy(random: Random, detectors: int, nodes: int, on_progress: OnProgress = no_progress) -> PlaceDeployment:
    """A random deployment with n detectors."""
    topology = random_topology(
        "metro", random, sites=SITES, nodes=nodes, publishers=PUBLISHERS, subscribers=SITES, types=TYPES
    )
    entries = Entries()
    for node in topology.nodes.values():
        entries.nodes[node.name] = NodeEntry(0, home=_home(topology, node.site), capacity=1e6)
    for each in topology.publishers.values():
        home = _home(topology, each.site)
        entries.sources[each.name] = SourceEntry(each.types, 0, publisher=each.name, home=home)
    names = sorted(entries.nodes)
    measured: dict[str, dict[str, Measured]] = {name: {} for name in names}
    for identity, entry in _running(random, topology, names, detectors):
        entries.detectors[identity] = entry
        measured[entry.node][identity] = _measured(random, topology, entry)
        on_progress("starting detectors", len(entries.detectors), detectors)
    homes = sorted({each.home for each in entries.sources.values()})
    for name in names:
        does = measured[name]
        latencies = {home: random.randint(1, 40) * MILLISECOND for home in homes}
        entries.loads[name] = LoadEntry(sum(each.load for each in does.values()), does, latencies)
    return PlaceDeployment(topology, entries, catalogue_of(Situation.of(entries, topology), TypeRegistry(open=True)))


def fresh_pattern(random: Random) -> Compiled:
    """A pattern without subscriptions."""
    types = random.sample(TYPES, random.randint(3, 4))
    return compile_pattern(" ; ".join(f"[{name} where x > {random.random()}]" for name in types))


def _measure_policy(
    policy: DistributionPolicy, deployment: PlaceDeployment, situation: Situation, rounds: int, random: Random
) -> PlacedRow:
    update_ms, alternatives_ms, suggest_ms, again_ms = [], [], [], []
    candidates, sites = 0, set()
    catalogue, entries, topology = deployment.catalogue, deployment.entries, deployment.topology
    subscribers = sorted(topology.subscribers)
    for _ in range(rounds):
        compiled, subscriber = fresh_pattern(random), (Place("subscriber", random.choice(subscribers)),)
        detector, node, load = _news(random, entries)
        began = time.process_time()
        situation.changed("detector", detector, entries.detectors[detector])
        situation.changed("load", node, load)
        updated = time.process_time()
        graphs = tuple(alternatives(compiled, policy, catalogue, situation=situation, subscribers=subscriber))
        laid_out = time.process_time()
        suggestion = suggest(policy, situation, Request(graphs[0].roots[0], graphs, subscriber))
        ended = time.process_time()
        update_ms.append((updated - began) * 1000)
        alternatives_ms.append((laid_out - updated) * 1000)
        suggest_ms.append((ended - laid_out) * 1000)
        candidates = max(candidates, len(suggestion.alternatives) + 1)
        sites.add(situation.site_of_node(suggestion.node))
        again_ms.append(_from_directory(policy, compiled, deployment, subscriber))
    return PlacedRow(
        policy.name,
        tuple(update_ms),
        tuple(alternatives_ms),
        tuple(suggest_ms),
        tuple(again_ms),
        candidates,
        len(sites),
    )


def _measure_node(
    policy: DistributionPolicy, deployment: PlaceDeployment, node: DecidingNode, rounds: int, random: Random
) -> DecidedRow:
    clients = sorted(deployment.topology.subscribers)
    times = [
        node.decide(policy.text, fresh_pattern(random).text, random.choice(clients), *_news(random, deployment.entries))
        for _ in range(rounds)
    ]
    update_ms, identify_ms, decide_ms = zip(*times, strict=True)
    return DecidedRow(policy.name, update_ms, identify_ms, decide_ms)


def _news(random: Random, entries: Entries) -> tuple[str, str, LoadEntry]:
    """Changes of the directory before a round: a renewed detector, a node, and the node's present load."""
    detector, node = random.choice(sorted(entries.detectors)), random.choice(sorted(entries.nodes))
    return detector, node, _wavering(random, entries.loads[node])


def _from_directory(
    policy: DistributionPolicy, compiled: Compiled, deployment: PlaceDeployment, subscriber: tuple[Place, ...]
) -> float:
    """Time of the same with the situation built again, ms; the paths through the network are known."""
    began = time.process_time()
    situation = Situation.of(deployment.entries, deployment.topology)
    graphs = tuple(alternatives(compiled, policy, deployment.catalogue, situation=situation, subscribers=subscriber))
    suggest(policy, situation, Request(graphs[0].roots[0], graphs, subscriber))
    return (time.process_time() - began) * 1000


def _running(random: Random, topology: Topology, nodes: list[str], count: int) -> Iterator[tuple[str, DetectorEntry]]:
    made: set[str] = set()
    while len(made) < count:
        types = random.sample(TYPES, random.randint(2, 4))
        compiled = compile_pattern(" ; ".join(f"[{name}]" for name in types))
        identity = compiled.canonical_id
        if identity in made:
            continue
        node = random.choice(nodes)
        parts: tuple[str, ...] = ()
        if made and random.random() < 1 / 3:
            parts, types = (random.choice(sorted(made)),), types[-1:]
        made.add(identity)
        reader = _home(topology, random.choice(sorted(topology.sites)))
        entry = DetectorEntry(
            node,
            compiled.text,
            "guaranteed",
            tuple(sorted(types)),
            subscriptions=1,
            parts=parts,
            home=_home(topology, topology.nodes[node].site),
            distribution="min-impact",
            readers={reader: 1},
        )
        yield identity, entry


def _measured(random: Random, topology: Topology, entry: DetectorEntry) -> Measured:
    inputs = {
        each.name: sum(each.rates[name] for name in each.types if name in (entry.reads or ())) * 70
        for each in topology.publishers.values()
        if set(each.types) & set(entry.reads or ())
    }
    inputs |= dict.fromkeys(entry.parts, random.uniform(200, 2000))
    events = sum(inputs.values()) / 70
    return Measured(
        events * random.uniform(1, 3), random.uniform(0.1, 5), random.uniform(400, 4000), inputs, events, 9000
    )


def _wavering(random: Random, load: LoadEntry) -> LoadEntry:
    """The next load report of a node: every figure differs, so that nothing computed before can be kept."""

    def scaled(each: Measured, factor: float) -> Measured:
        inputs = {source: amount * factor for source, amount in each.inputs.items()}
        scale = {"load": each.load * factor, "size": each.size * factor, "events": each.events * factor}
        return replace(each, inputs=inputs, **scale)

    does = {name: scaled(each, random.uniform(0.7, 1.3)) for name, each in load.detectors.items()}
    return LoadEntry(sum(each.load for each in does.values()), does, load.latencies)


def _home(topology: Topology, site: str) -> str:
    return "" if site == topology.directory else site


def report(figures: PlaceFigures) -> Report:
    """The figures as a report."""

    def part(name: str, of: str, unit: str = "") -> Column:
        return Column(name, unit, ".2f", lambda each: median(getattr(each, of)))

    total = (
        part("median", "total_ms", "ms"),
        Column("best", "", ".2f", lambda each: min(each.total_ms)),
        Column("worst", "", ".2f", lambda each: max(each.total_ms)),
        part("update", "update_ms"),
    )
    placed = ReportTable.of(
        figures.rows,
        Column("policy"),
        *total,
        part("alternatives", "alternatives_ms"),
        part("suggest", "suggest_ms"),
        part("again", "again_ms", "ms"),
        *number_columns(",", "candidates", "sites"),
    )
    own = (Column("a node decides", of="policy"), *total, part("identify", "identify_ms"), part("decide", "decide_ms"))
    note = (
        f"{figures.detectors:,} detectors on {figures.nodes:,} nodes, {figures.sources:,} sources. Times of the "
        "processor; update, alternatives, suggest, identify, decide: medians of the parts; again: with a situation "
        f"made for each. It was made from the directory in {figures.first_ms:.0f} ms."
    )
    medians = [(each.policy, median(each.total_ms)) for each in figures.rows]
    medians += [(f"a node, {each.policy}", median(each.total_ms)) for each in figures.decided]
    title = f"Place one more beside {figures.detectors:,} detectors on {figures.nodes:,} nodes"
    plots = {"place.svg": partial(bars, medians, title=title, unit="ms")}
    return Report("place", figures, [placed, ReportTable.of(figures.decided, *own, name="node")], [note], plots=plots)

"""Placement problems for tests: small networks and patterns, and all placements there are, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.event_types import EventType, event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.topology.model import BrokerNode, Place
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.random_scenario import random_patterns, streams_by_rates
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from distced.simulations.placement.problem import PlacementProblem, expected_figures

TYPES = tuple(event_type(name, {"k": "number", "v": "number"}) for name in "ABCDE")
VALUES = {each.name: {"k": tuple(range(5)), "v": tuple(range(10))} for each in TYPES}

START = 1_795_248_000 * SECOND


def kinds(name: str) -> Mapping[str, str] | None:
    """Of the attributes of a type."""
    return next((each.attributes for each in TYPES if each.name == name), None)


def small_instance(seed: int, *, nodes: int = 3, patterns: int = 2, capacity: float | None = None) -> PlacementProblem:
    """An instance that is small enough for all placements to be looked at."""
    random = Random(seed)
    topology = random_topology(
        random.choice(RANDOM_KINDS), random, sites=4, nodes=nodes, publishers=5, subscribers=2, types="AB"
    )
    topology = Topology(
        topology.sites.values(),
        [BrokerNode(each.name, each.site, capacity) for each in topology.nodes.values()],
        topology.publishers.values(),
        topology.subscribers.values(),
        topology.links,
    )
    texts = random_patterns(random, topology.types, patterns, shared=0.8)
    return instance_of_texts(texts, topology, random)


def instance_of_texts(texts: Sequence[str], topology: Topology, random: Random) -> PlacementProblem:
    """An instance of patterns that somebody at random wants, with what policies expect of them."""
    space = space_of_texts(texts, topology, random)
    return PlacementProblem(topology, space, expected_figures(topology, space), {})


def space_of_texts(texts: Sequence[str], topology: Topology, random: Random) -> SearchSpace:
    """What patterns may be made of that somebody at random wants."""
    subscribers = sorted(topology.subscribers)
    return space_of(
        [
            PatternRequest(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
            for number, text in enumerate(texts, 1)
        ]
    )


def all_placements(instance: PlacementProblem, hosts: int = 1) -> Iterator[dict[str, DetectorEntry]]:
    """Every way to cut the patterns, with every set of nodes of this size for each detector that is needed."""
    space, nodes = instance.space, sorted(instance.topology.nodes)
    text = "max-reliability" if hosts > 1 else ""
    for cuts in _cuts(space, list(dict.fromkeys(space.roots)), {}):
        names = list(cuts)
        for places in product(combinations(nodes, hosts), repeat=len(names)):
            entries = {
                name: instance.entry(space.alternatives[name][cuts[name]], place, distribution=text)
                for name, place in zip(names, places, strict=True)
            }
            yield instance.heard(entries)


def _cuts(space: SearchSpace, waiting: list[str], chosen: dict[str, str]) -> Iterator[dict[str, str]]:
    """A way for each detector that is needed."""
    if not waiting:
        yield chosen
        return
    name, *rest = waiting
    if name in chosen:
        yield from _cuts(space, rest, chosen)
        return
    for key, plan in space.alternatives[name].items():
        yield from _cuts(space, [*rest, *plan.parts], {**chosen, name: key})


def random_events(topology: Topology, seed: int, seconds: int) -> list[Event]:
    """Events by the rates of a topology, in the order of consumption."""
    streams = streams_by_rates(topology, TYPES, Random(seed), start=START, duration=seconds * SECOND, values=VALUES)
    events = [event for stream in streams for send in stream.sends for event in send.events]
    return sorted(events, key=lambda event: event.key)


def published(topology: Topology) -> dict[str, tuple[str, ...]]:
    """What each publisher publishes."""
    return {each.name: each.types for each in topology.publishers.values()}


def used(types: Sequence[EventType], topology: Topology) -> list[EventType]:
    """Those that somebody publishes."""
    return [each for each in types if each.name in topology.types]

"""Directories for topologies, as they would be where everybody at them has come."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.catalogue import Catalogue
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import Hints, NodeEntry, SourceEntry
from distced.policies.distribution.choose.alternatives import alternatives
from distced.policies.distribution.choose.place_all import catalogue_of, place
from distced.policies.distribution.choose.suggest import Request
from distced.policies.distribution.policy import NAMED, Policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.policies.topology.random_topology import RANDOM_KINDS, random_topology
from distced.policies.topology.topology import Topology

PATTERNS = (
    "[A] ; [B]",
    "[A] ; [B] ; [C]",
    "[B] ; [C]",
    "[A where x > 3] ; [B]",
    "[A] & [C]",
    "([A] ; [B]) | [D]",
    "([A], [B]) @ T = 5s",
    "[D] ; [E] within 10s",
    "([A] ; [B]) within 5s by room",
    "[C] ; [D] -> Alarm(x = 1)",
)


def home_of(topology: Topology, site: str) -> str:
    """How entries name the server of a site in a simulation."""
    return "" if site == topology.directory else site


def directory_of(topology: Topology) -> Entries:
    """Every node and every publisher of the topology is there."""
    entries = Entries()
    for node in topology.nodes.values():
        entries.nodes[node.name] = NodeEntry(0, home=home_of(topology, node.site))
    for each in topology.publishers.values():
        home = home_of(topology, each.site)
        entries.sources[each.name] = SourceEntry(each.types, 0, publisher=each.name, home=home)
    return entries


def situation_of(topology: Topology) -> Situation:
    return Situation.of(directory_of(topology), topology)


def subscriber_of(topology: Topology) -> tuple[Place, ...]:
    return (next(iter(topology.subscribers.values())).place,)


def random_situation(seed: int, *, running: int = 4, sites: int = 5, nodes: int = 5) -> Situation:
    """A small random deployment where some patterns run already, placed under any of the named policies."""
    random = Random(seed)
    kind = random.choice(RANDOM_KINDS)
    topology = random_topology(kind, random, sites=sites, nodes=nodes, publishers=6, subscribers=4)
    situation = situation_of(topology)
    for _ in range(running):
        policy = random.choice(list(NAMED.values()))
        pattern, subscriber = random.choice(PATTERNS), random.choice(list(topology.subscribers.values()))
        situation = place(pattern, policy, situation, [subscriber.place]).situation
    return situation


def request_for(
    pattern: str,
    policy: Policy,
    situation: Situation,
    subscribers: Sequence[Place],
    hints: Hints | None = None,
    catalogue: Catalogue | None = None,
) -> Request:
    """The request for a pattern, with the ways to detect it."""
    hints = hints or Hints()
    known = catalogue_of(situation, TypeRegistry(open=True)) if catalogue is None else catalogue
    graphs = alternatives(
        compile_pattern(pattern), policy, known, situation=situation, subscribers=subscribers, hints=hints
    )
    return Request(graphs[0].roots[0], tuple(graphs), tuple(subscribers), hints)


seeds = st.integers(0, 10_000)
patterns = st.sampled_from(PATTERNS)
policies = st.sampled_from(sorted(NAMED)).map(NAMED.__getitem__)

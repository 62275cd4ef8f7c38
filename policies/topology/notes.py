"""Notes on a topology: unusual, though no error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Final

from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology

_LISTED: Final = 6


def notes_on(topology: Topology) -> list[str]:
    """Notes for display, each a sentence."""
    return [*_on_nodes(topology), *_on_events(topology), *_on_paths(topology)]


def _on_nodes(topology: Topology) -> Iterator[str]:
    if not topology.nodes:
        yield "there is no broker node, so no detector can be placed"
        return
    bare = [name for name in topology.sites if not topology.nodes_at(name)]
    busy = [name for name in bare if topology.publishers_at(name) or topology.subscribers_at(name)]
    if busy:
        yield f"no broker node at {listed(busy)}: nothing is detected there"
    idle = [name for name in bare if name not in busy]
    if idle:
        yield f"no participants at {listed(idle)}: messages only pass through"
    unknown = [name for name, node in topology.nodes.items() if node.capacity is None]
    if unknown and len(unknown) < len(topology.nodes):
        yield f"no capacity is known of {listed(unknown)}, of the other nodes it is"


def _on_events(topology: Topology) -> Iterator[str]:
    if not topology.publishers:
        yield "no publisher"
    if not topology.subscribers:
        yield "no subscriber"
    silent = [name for name, each in topology.publishers.items() if not each.types]
    if silent:
        yield f"no event types are given for {listed(silent)}"


def _on_paths(topology: Topology) -> Iterator[str]:
    if not topology.allow_partitions:
        return
    apart = [
        f"{one} → {other}"
        for one, other in permutations(topology.sites, 2)
        if topology.find_path(Place("site", one), Place("site", other), "hops") is None
    ]
    if apart:
        yield f"no path {listed(apart)}"


def listed(names: Sequence[str], most: int = _LISTED) -> str:
    """Names in a row, up to a limit, and the number of others."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"

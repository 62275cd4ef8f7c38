"""Directory of a deployment as its topology describes it, and the places of subscribers.

Rates and capacities are those of the file. Homes are names of sites, as in a simulation: a site may lack a URL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import NodeEntry, SourceEntry
from distced.policies.topology.errors import TopologyError, unknown
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology


def entries_of(topology: Topology) -> Entries:
    """Directory with all broker nodes and publishers of a topology."""
    entries = Entries()
    for node in topology.nodes.values():
        entries.nodes[node.name] = NodeEntry(0, home=_home(topology, node.site), capacity=node.capacity or 0.0)
    for each in topology.publishers.values():
        home = _home(topology, each.site)
        entries.sources[each.name] = SourceEntry(each.types, 0, publisher=each.name, home=home)
    return entries


def subscribers_of(topology: Topology, names: Sequence[str], sites: Sequence[str], where: str) -> tuple[Place, ...]:
    """Places of named subscribers and sites; the only subscriber of a topology by default.

    Raises:
        TopologyError: for an unknown name, or without names unless exactly one exists; `where` names the place.
    """
    found = [Place("subscriber", name) for name in names] + [Place("site", site) for site in sites]
    for place in found:
        known: Collection[str] = topology.subscribers if place.kind == "subscriber" else topology.sites
        if place.name not in known:
            raise unknown(f"there is no {place.kind} of this name", place.name, known, where)
    if not found and len(topology.subscribers) == 1:
        found = [each.place for each in topology.subscribers.values()]
    if not found:
        raise TopologyError(
            "no subscriber is named",
            allowed=f"--subscriber {' | '.join(topology.subscribers) or '(there is none)'}, "
            f"--near {' | '.join(topology.sites)}",
            where=where,
        )
    return tuple(dict.fromkeys(found))


def unpublished(topology: Topology, types: Iterable[str]) -> list[str]:
    """Notes on types without a publisher in the topology."""
    notes = []
    for name in sorted(set(types) - set(topology.types)):
        advice = unknown("", name, topology.types).advice
        hint = f" ({advice})" if advice else ""
        notes.append(f"the topology has no publisher of {name}{hint}: its rate is that of --rate, or 0")
    return notes


def _home(topology: Topology, site: str) -> str:
    return "" if site == topology.directory else site

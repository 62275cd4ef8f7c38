"""Topologies of experiments: random ones of usual kinds, the article's two servers, or a topology file.

composite-event-framework-2004, Fig. 10: two servers, and an expensive wireless link to the subscribers. Nodes have no
limit of capacity, lest a policy be better for what it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import msgspec

from distced.middleware.model.timestamps import MILLISECOND
from distced.middleware.model.toml_text import read_toml
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import Link
from distced.policies.topology.random_topology import random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import topology_of
from distced.simulations.experiments.model import SpecError
from distced.simulations.experiments.spec_checks import at_key, check_range

TWO_SITES: Final = "two-site"

WIRELESS: Final = Link(("building", "mobile"), 20 * MILLISECOND, 10 * MILLISECOND, 125_000, 20.0)
"""The wireless link: 1 Mbit/s, 20 to 30 ms, twenty times the cost of a byte on a wire."""

_MOST: Final = {"sites": 500, "nodes": 500, "publishers": 1_000, "subscribers": 1_000}


class TopologySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topology of an experiment: a random kind with numbers, another one for each seed; or a file; or its tables."""

    name: str
    kind: Literal["", "two-site", "star", "ring", "tree", "geometric", "metro"] = ""
    file: str = ""
    tables: dict[str, Any] = {}
    sites: int = 6
    nodes: int = 6
    publishers: int = 8
    subscribers: int = 3


def resolved(spec: TopologySpec, folder: Path, path: Sequence[str | int]) -> TopologySpec:
    """The spec with the tables of its file."""
    if not spec.file:
        return spec
    with at_key(*path, "file"):
        tables = read_toml(folder / spec.file, "topology", TopologyError)
    return msgspec.structs.replace(spec, file="", tables=tables)


def check_topology(spec: TopologySpec, path: Sequence[str | int]) -> None:
    """Check a spec; raises `SpecError`."""
    if bool(spec.kind) == bool(spec.tables):
        raise SpecError("a topology needs a kind, a file or tables", path, given=spec.name, allowed="one of them")
    if spec.tables:
        with at_key(*path):
            made = topology_of(spec.tables)
        for parts, what in ((made.nodes, "broker nodes"), (made.publishers, "publishers"),
                            (made.subscribers, "subscribers")):  # fmt: skip
            if not parts:
                raise SpecError(f"a topology without {what}", path, given=spec.name, allowed="at least one")
        return
    for key, most in _MOST.items():
        least = {"ring": 3, TWO_SITES: 2}.get(spec.kind, 1) if key == "sites" else 1
        check_range(getattr(spec, key), least, most, (*path, key), f"number of {key}")


def build(spec: TopologySpec, random: Random) -> Topology:
    """The topology, random ones from this random source."""
    if spec.tables:
        made = topology_of(spec.tables)
    elif spec.kind == TWO_SITES:
        made = _two_sites(spec, random)
    elif spec.kind:
        made = random_topology(
            spec.kind, random, sites=spec.sites, nodes=spec.nodes, publishers=spec.publishers,
            subscribers=spec.subscribers,
        )  # fmt: skip
    nodes = [replace(each, capacity=None) for each in made.nodes.values()]
    return Topology(made.sites.values(), nodes, made.publishers.values(), made.subscribers.values(), made.links)


def _two_sites(spec: TopologySpec, random: Random) -> Topology:
    """Publishers at one site, subscribers at the other, nodes at both in turn."""
    made = random_topology(
        "star", random, sites=2, nodes=spec.nodes, publishers=spec.publishers, subscribers=spec.subscribers
    )
    wired, mobile = WIRELESS.between
    nodes = [replace(each, site=(wired, mobile)[place % 2]) for place, each in enumerate(made.nodes.values())]
    return Topology(
        [replace(site, name=name) for site, name in zip(made.sites.values(), (wired, mobile), strict=True)],
        nodes,
        [replace(each, site=wired) for each in made.publishers.values()],
        [replace(each, site=mobile) for each in made.subscribers.values()],
        [WIRELESS],
    )


LINK_CLASSES: Final = ("wired", "access", "wireless")


def link_class(cost: float) -> str:
    """Class of a link, by the cost of a byte: wired up to 1, access up to 10, wireless beyond."""
    return "wired" if cost <= 1 else "access" if cost <= 10 else "wireless"

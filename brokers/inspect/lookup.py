"""Look-up of nodes, sources and detectors by name and the beginning of an id, short ids, sites of home servers."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

import msgspec

from distced.brokers.core.directory import Directory
from distced.middleware.cli.output import few
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.server_address import parse_address
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology


class At(msgspec.Struct, frozen=True):
    """Place of a participant.

    Attributes:
        home: server of its site; empty for that of the directory.
        site: name of the site; None without a topology.
    """

    home: str
    site: str | None

    def __str__(self) -> str:
        """Name of the site, else of its server."""
        if self.site is not None:
            return self.site
        with suppress(DistcedError):
            return str(parse_address(self.home)) if self.home else "directory"
        return self.home


class Sites:
    """Sites of a directory, by its topology; None for none, or an unreadable one."""

    def __init__(self, directory: Directory) -> None:
        self.topology: Topology | None = None
        # As nodes take it: the first by name.
        for name in sorted(directory.topologies)[:1]:
            with suppress(DistcedError):
                self.topology = parse_topology(directory.topologies[name].text, name=f"topology {name}")

    def at(self, home: str) -> At:
        """The place of a home server."""
        if self.topology is not None:
            with suppress(DistcedError):
                return At(home, self.topology.site_of_home(home).name)
        return At(home, None)


SHORTEST: Final = 6
"""Least number of characters of an id shown; shorter prefixes would collide sooner with new detectors."""

_MOST: Final = 8


def check_node(directory: Directory, name: str) -> None:
    """Raise `DistcedError` for an unknown node; a lost one is known by its detectors."""
    known = directory.nodes.keys() | {entry.node for entry in directory.detectors.values()}
    if name not in known:
        near = get_close_matches(name, sorted(known), n=1)
        raise DistcedError(
            "no broker node of this name",
            given=name or "''",
            allowed=few(sorted(known), _MOST) or "none is there",
            advice=f"did you mean {near[0]}?" if near else "distced nodes lists them",
        )


def check_source(directory: Directory, name: str) -> None:
    """Raise `DistcedError` for an unknown source."""
    known = sorted(directory.sources)
    if name not in directory.sources:
        near = get_close_matches(name, known, n=1)
        raise DistcedError(
            "no source of this name",
            given=name or "''",
            allowed=few(known, _MOST) or "none is there",
            advice=f"did you mean {near[0]}?" if near else "its entry is gone: detectors to come do not wait for it",
        )


def find_detector(directory: Directory, prefix: str, *, node: str | None = None) -> str:
    """Id of the one detector, on this node where one is named, with this prefix.

    Raises:
        DistcedError: where there is none, or more than one and none is called just this.
    """
    known = [name for name, entry in sorted(directory.detectors.items()) if node in (None, entry.node, *entry.replicas)]
    if prefix in known:
        return prefix
    found = [name for name in known if name.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    short = short_ids(directory.detectors)
    if found:
        raise DistcedError(
            "several detectors whose ids begin so",
            given=prefix or "''",
            allowed=few([short[name] for name in found], _MOST),
            advice="give more of the id",
        )
    on_it = "" if node is None else f" on the node {node}"
    if prefix in directory.detectors:
        raise DistcedError(
            f"a detector that is not{on_it}", given=prefix, where=f"node {directory.detectors[prefix].node}"
        )
    # An id is compared as far as it was given.
    heads = {name[: max(len(prefix), SHORTEST)]: short[name] for name in known}
    near = [heads[head] for head in get_close_matches(prefix, list(heads), n=3)]
    raise DistcedError(
        f"no detector with this id prefix{on_it}",
        given=prefix,
        allowed=few([short[name] for name in known], _MOST) or "none is there",
        advice=f"did you mean {' or '.join(near)}?" if near else "distced detectors lists them",
    )


def short_ids(names: Collection[str]) -> dict[str, str]:
    """Shortest unique prefix of each id, or the whole id."""
    ordered = sorted(names)
    short: dict[str, str] = {}
    for place, name in enumerate(ordered):
        beside = ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2]
        common = max((_common(name, other) for other in beside), default=0)
        head = name[: max(common + 1, SHORTEST)]
        # What comes behind the point is a policy, and reads as such in full only.
        short[name] = name if "." in head else head
    return short


def _common(one: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))

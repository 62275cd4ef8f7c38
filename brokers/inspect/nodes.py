"""What the directory says of broker nodes, put together for people and programs: see `brokers.inspect.detectors`."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import Related, short_ids
from distced.brokers.inspect.sites import At, Sites
from distced.middleware.wire.directory_entries import LoadEntry, NodeEntry

_LETTERS: Final = "dead letters, "


class NodeReport(msgspec.Struct, frozen=True):
    """A broker node.

    Attributes:
        node: its name.
        since: when it came up, ns.
        detectors: the ids of those that the directory has there.
        hosted: how many it has itself said it hosts, when it said last what it has counted.
        events, composite_events, late: how many it has counted since.
        dead_letters: how many by reason; late events are among them.
        counts: all that it has counted, in its own words.
        at: its site.
        copies: the ids of detectors of which it hosts a copy.
        load: instances touched a second; None where it has not said so yet.
        capacity: how many it can touch a second; None where nobody knows.
        latencies: how long a message takes to a server and back, halved, ns, by home.
        isolates: whether it can have a process started for a detector of its own.
        reserved: the detector it was started for, and the only one it hosts; None for any.
    """

    node: str
    since: int
    detectors: tuple[str, ...]
    hosted: int
    events: int
    composite_events: int
    late: int
    dead_letters: dict[str, int]
    counts: dict[str, int]
    at: At
    copies: tuple[str, ...]
    load: float | None
    capacity: float | None
    latencies: dict[str, int]
    isolates: bool
    reserved: Related | None

    @property
    def use(self) -> float | None:
        """The load as a share of the capacity; None where one of them is not known."""
        return None if self.load is None or not self.capacity else self.load / self.capacity


class RecorderReport(msgspec.Struct, frozen=True):
    """A recorder: no node, but sources wait for it as they do for nodes.

    Attributes:
        recorder: its name.
        since: when it came up, ns.
        types: the types it records; None for all.
        at: its site.
    """

    recorder: str
    since: int
    types: tuple[str, ...] | None
    at: At


class Totals(msgspec.Struct, frozen=True):
    """The same of all nodes together."""

    nodes: int
    detectors: int
    events: int
    composite_events: int
    late: int
    dead_letters: int
    copies: int
    load: float


class NodesReport(msgspec.Struct, frozen=True):
    """All broker nodes.

    Attributes:
        nodes: by name.
        totals: their sums.
        left_over: detectors of nodes that are gone; other nodes take them over, or clear them.
        recorders: by name.
    """

    nodes: tuple[NodeReport, ...]
    totals: Totals
    left_over: tuple[Related, ...]
    recorders: tuple[RecorderReport, ...]


def nodes_report(directory: Directory) -> NodesReport:
    """All broker nodes."""
    hosted, copies = defaultdict(list), defaultdict(list)
    for name, entry in sorted(directory.detectors.items()):
        hosted[entry.node].append(name)
        for node in entry.copies:
            copies[node].append(name)
    reserved = {entry.reserved for entry in directory.nodes.values() if entry.reserved}
    short, sites = short_ids(directory.detectors.keys() | reserved), Sites(directory)

    def related(name: str) -> Related:
        known = directory.detectors.get(name)
        return Related(name, short[name], None if known is None else known.node)

    nodes = tuple(
        _report(
            name, entry, directory.loads.get(name), tuple(hosted.get(name, ())), tuple(copies.get(name, ())),
            sites.at(entry.home), related(entry.reserved) if entry.reserved else None,
        )
        for name, entry in sorted(directory.nodes.items())
    )  # fmt: skip
    totals = Totals(
        len(nodes),
        sum(len(each.detectors) for each in nodes),
        sum(each.events for each in nodes),
        sum(each.composite_events for each in nodes),
        sum(each.late for each in nodes),
        sum(sum(each.dead_letters.values()) for each in nodes),
        sum(len(each.copies) for each in nodes),
        sum(each.load or 0.0 for each in nodes),
    )
    left_over = tuple(
        related(name) for name, entry in sorted(directory.detectors.items()) if entry.node not in directory.nodes
    )
    recorders = tuple(
        RecorderReport(name, entry.since, entry.types, sites.at(entry.home))
        for name, entry in sorted(directory.recorders.items())
    )
    return NodesReport(nodes, totals, left_over, recorders)


def _report(
    name: str, entry: NodeEntry, load: LoadEntry | None, detectors: tuple[str, ...], copies: tuple[str, ...], at: At,
    reserved: Related | None,
) -> NodeReport:  # fmt: skip
    counts = entry.counts
    letters = {key.removeprefix(_LETTERS): count for key, count in counts.items() if key.startswith(_LETTERS)}
    events, composite_events, late = (counts.get(key, 0) for key in ("events", "composite events", "late"))
    return NodeReport(
        name,
        entry.since,
        detectors,
        entry.detectors,
        events,
        composite_events,
        late,
        letters,
        dict(counts),
        at,
        copies,
        None if load is None else load.load,
        entry.capacity or None,
        {} if load is None else dict(load.latencies),
        entry.isolates,
        reserved,
    )

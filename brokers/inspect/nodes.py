"""Read-only view of broker nodes and recorders: a report for programs, and a table for a terminal."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import Related
from distced.brokers.inspect.lookup import At, Sites, short_ids
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND, format_instant
from distced.policies.distribution.choose.reasons import show_figure

_LETTERS: Final = "dead letters, "

_FOLDED: Final = {"up since": 10, "composite events": 9, "dead letters": 9}
"""Columns that shrink in a narrow terminal, and their least widths: with one site, 80 columns suffice."""


class NodeReport(msgspec.Struct, frozen=True):
    """Report on a broker node.

    Attributes:
        since: start, ns.
        detectors: ids of the detectors that the directory has there.
        hosted: number of detectors by its own last entry.
        events, composite_events, late: counters since the start.
        dead_letters: number by reason; late events are among them.
        counts: all counters of its entry.
        at: its site.
        replicas: ids of the detectors of which it hosts a replica.
        load: instances touched per second; None before the first measurement.
        capacity: instances it can touch per second; None for unknown.
        latencies: half the round trip of a message to a server, ns, by home.
        isolates: whether it can start processes for isolated detectors.
        reserved: the only detector it hosts; None for any.
        draining: whether its detectors move away, and none come.
        behind: age of the oldest message that it has not consumed, ns; 0 for less than a second.
        waiting: number of messages about the directory, and of requests, that wait in it.
        silent: sources that its detectors wait for, with their last message, ns.
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
    replicas: tuple[str, ...]
    load: float | None
    capacity: float | None
    latencies: dict[str, int]
    isolates: bool
    reserved: Related | None
    draining: bool
    behind: int
    waiting: int
    silent: dict[str, int]

    @property
    def use(self) -> float | None:
        """Load as a share of the capacity; None where one of them is unknown."""
        return None if self.load is None or not self.capacity else self.load / self.capacity


class RecorderReport(msgspec.Struct, frozen=True):
    """Report on a recorder, for which sources wait as for nodes.

    Attributes:
        since: start, ns.
        types: the types it records; None for all.
    """

    recorder: str
    since: int
    types: tuple[str, ...] | None
    at: At


class Totals(msgspec.Struct, frozen=True):
    """Sums over all nodes."""

    nodes: int
    detectors: int
    events: int
    composite_events: int
    late: int
    dead_letters: int
    replicas: int
    load: float


class NodesReport(msgspec.Struct, frozen=True):
    """Report on all broker nodes.

    Attributes:
        left_over: detectors of lost nodes; other nodes take them over, or clear them.
    """

    nodes: tuple[NodeReport, ...]
    totals: Totals
    left_over: tuple[Related, ...]
    recorders: tuple[RecorderReport, ...]


def nodes_report(directory: Directory) -> NodesReport:
    """Report on all broker nodes."""
    hosted, replicas = defaultdict(list), defaultdict(list)
    for name, entry in sorted(directory.detectors.items()):
        hosted[entry.node].append(name)
        for host in entry.replicas:
            replicas[host].append(name)
    reserved = {entry.reserved for entry in directory.nodes.values() if entry.reserved}
    short, sites = short_ids(directory.detectors.keys() | reserved), Sites(directory)

    def related(name: str) -> Related:
        known = directory.detectors.get(name)
        return Related(name, short[name], None if known is None else known.node)

    nodes = []
    for name, node in sorted(directory.nodes.items()):
        counts, load = node.counts, directory.loads.get(name)
        nodes.append(
            NodeReport(
                name,
                node.since,
                tuple(hosted[name]),
                node.detectors,
                counts.get("events", 0),
                counts.get("composite events", 0),
                counts.get("late", 0),
                {key.removeprefix(_LETTERS): count for key, count in counts.items() if key.startswith(_LETTERS)},
                dict(counts),
                sites.at(node.home),
                tuple(replicas[name]),
                None if load is None else load.load,
                node.capacity or None,
                {} if load is None else dict(load.latencies),
                node.isolates,
                related(node.reserved) if node.reserved else None,
                node.draining,
                0 if load is None else load.behind,
                0 if load is None else load.waiting,
                {} if load is None else dict(load.silent),
            )
        )
    totals = Totals(
        len(nodes),
        sum(len(each.detectors) for each in nodes),
        sum(each.events for each in nodes),
        sum(each.composite_events for each in nodes),
        sum(each.late for each in nodes),
        sum(sum(each.dead_letters.values()) for each in nodes),
        sum(len(each.replicas) for each in nodes),
        sum(each.load or 0.0 for each in nodes),
    )
    left_over = tuple(
        related(name) for name, entry in sorted(directory.detectors.items()) if entry.node not in directory.nodes
    )
    recorders = tuple(
        RecorderReport(name, entry.since, entry.types, sites.at(entry.home))
        for name, entry in sorted(directory.recorders.items())
    )
    return NodesReport(tuple(nodes), totals, left_over, recorders)


# Text.


class _Column(NamedTuple):
    """Column of the table, with a cell for each node and a total; aligned `left` where it is text."""

    heading: str
    cells: list[Text]
    total: str
    left: bool = False


def nodes_text(report: NodesReport, now: int) -> Iterator[RenderableType]:
    """Parts to be printed below one another: a table of nodes with their totals, recorders, entries left by lost nodes.

    Args:
        now: time up to which uptimes are shown, ns.
    """
    if report.nodes:
        yield _table(_columns(report, now))
    else:
        yield Text("no broker nodes: start one with `distced broker`", "yellow")
    for source, heard in sorted(_silent(report).items()):
        text = Text("detectors wait for the source ", "yellow", overflow="fold", no_wrap=False).append(source, "cyan")
        yield text.append(f", silent for {lasting(now - heard)}: distced fence {shlex.quote(source)}, if it is gone")
    if report.recorders:
        yield Text()
        yield from (_recorder(each, now) for each in report.recorders)
    if report.left_over:
        left = ", ".join(f"{each.short} ({each.node})" for each in report.left_over)
        yield Text()
        yield Text(f"left over from nodes that are gone: {left}", "yellow", overflow="fold", no_wrap=False)


def _silent(report: NodesReport) -> dict[str, int]:
    """Silent sources, each with its last message at any node, ns."""
    silent: dict[str, int] = {}
    for node in report.nodes:
        for source, heard in node.silent.items():
            silent[source] = max(heard, silent.get(source, heard))
    return silent


def _recorder(recorder: RecorderReport, now: int) -> Text:
    what = "all types" if recorder.types is None else ", ".join(recorder.types)
    site = f" at {recorder.at}" if recorder.at.home or recorder.at.site else ""
    text = Text("recorder ", overflow="fold", no_wrap=False).append(recorder.recorder, "cyan")
    return text.append(f"{site}, for {lasting(now - recorder.since)}, of {what}")


def _columns(report: NodesReport, now: int) -> Iterator[_Column]:
    """Columns with content: no site where all nodes are at the server of the directory, and so on."""
    nodes, totals = report.nodes, report.totals
    yield _Column("node", [Text(each.node, "cyan") for each in nodes], _counted(totals.nodes, "node"), True)
    if any(each.at.home or each.at.site for each in nodes):
        yield _Column("site", [Text(str(each.at)) for each in nodes], "", True)
    up = [format_instant(each.since - each.since % SECOND).replace("T", " ") for each in nodes]
    yield _Column("up since", list(map(Text, up)), "", True)
    yield _Column("for", [Text(lasting(now - each.since)) for each in nodes], "", True)
    if any(each.reserved for each in nodes):
        yield _Column("only for", [Text(each.reserved.short if each.reserved else "") for each in nodes], "", True)
    if any(each.draining for each in nodes):
        yield _Column("state", [Text("draining" if each.draining else "", "yellow") for each in nodes], "", True)
    yield _numbers("detectors", [len(each.detectors) for each in nodes], totals.detectors)
    if totals.replicas:
        yield _numbers("replicas", [len(each.replicas) for each in nodes], totals.replicas)
    if any(each.load is not None for each in nodes):
        loads = ["" if each.load is None else f"{show_figure(each.load)}/s" for each in nodes]
        yield _Column("load", list(map(Text, loads)), f"{show_figure(totals.load)}/s")
    if any(each.capacity for each in nodes):
        yield _Column("of its capacity", list(map(_use, nodes)), "")
    if any(each.behind for each in nodes):
        yield _Column("behind", [Text(lasting(each.behind) if each.behind else "", "bold red") for each in nodes], "")
    if any(each.waiting for each in nodes):
        yield _numbers("waiting", [each.waiting for each in nodes], sum(each.waiting for each in nodes))
    yield _numbers("events", [each.events for each in nodes], totals.events)
    yield _numbers("composite events", [each.composite_events for each in nodes], totals.composite_events)
    yield _numbers("late", [each.late for each in nodes], totals.late)
    refused = [each.counts.get("subscriptions refused", 0) for each in nodes]
    if any(refused):
        yield _numbers("refused", refused, sum(refused))
    yield _Column("dead letters", list(map(_letters, nodes)), f"{totals.dead_letters:,}", True)


def _numbers(heading: str, numbers: list[int], total: int) -> _Column:
    return _Column(heading, [Text(f"{each:,}") for each in numbers], f"{total:,}")


def _use(node: NodeReport) -> Text:
    if node.capacity is None:
        return Text()
    if node.use is None:
        return Text(f"{show_figure(node.capacity)}/s")
    share = f"{show_figure(node.use * 100)} % of {show_figure(node.capacity)}/s"
    return Text(share, "bold red" if node.use > 1 else "")


def _letters(node: NodeReport) -> Text:
    letters = ", ".join(f"{count:,} {reason}" for reason, count in sorted(node.dead_letters.items()) if count)
    return Text(letters or "0", "yellow" if letters else "")


def _table(columns: Iterator[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    shown = list(columns)
    for each in shown:
        folded = _FOLDED.get(each.heading)
        justify: Literal["left", "right"] = "left" if each.left else "right"
        table.add_column(each.heading, justify=justify, overflow="fold", no_wrap=folded is None, min_width=folded)
    for cells in zip(*(each.cells for each in shown), strict=True):
        table.add_row(*cells)
    table.add_row(*(each.total for each in shown), style="bold")
    return table


def lasting(nanoseconds: int) -> str:
    """Duration for people: its two largest units, and 0 s where a clock is behind."""
    left = max(nanoseconds, 0)
    said: list[str] = []
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        if left >= size or said or unit == "s":
            said.append(f"{left // size} {unit}")
            left %= size
    return " ".join(each for each in said[:2] if not each.startswith("0 ")) or "0 s"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

"""What the directory says of broker nodes, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from distced.brokers.inspect.nodes import NodeReport, NodesReport, RecorderReport
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND, format_instant
from distced.policies.distribution.choose.reasons import show_figure

_FOLDED: Final = {"up since": 10, "composite events": 9, "dead letters": 9}
"""The columns that give way in a narrow terminal, and how far: 80 columns will do where there is one site."""


class _Column(NamedTuple):
    """A column.

    Attributes:
        cells: one for each node.
        total: below them.
        left: whether it is text.
    """

    heading: str
    cells: list[Text]
    total: str
    left: bool = False


def nodes_text(report: NodesReport, now: int) -> Iterator[RenderableType]:
    """The parts to be printed below one another: a table of nodes with their totals, recorders, what is left of lost
    nodes.

    Args:
        now: the time, ns, from which it is counted how long nodes are up.
    """
    if report.nodes:
        yield _table(_columns(report, now))
    else:
        yield Text("no broker nodes: start one with `distced broker`", "yellow")
    if report.recorders:
        yield Text()
        yield from (_recorder(each, now) for each in report.recorders)
    if report.left_over:
        left = ", ".join(f"{each.short} ({each.node})" for each in report.left_over)
        yield Text()
        yield Text(f"left over from nodes that are gone: {left}", "yellow", overflow="fold", no_wrap=False)


def _recorder(recorder: RecorderReport, now: int) -> Text:
    what = "all types" if recorder.types is None else ", ".join(recorder.types)
    site = f" at {recorder.at}" if recorder.at.home or recorder.at.site else ""
    text = Text("recorder ", overflow="fold", no_wrap=False).append(recorder.recorder, "cyan")
    return text.append(f"{site}, for {lasting(now - recorder.since)}, of {what}")


def _columns(report: NodesReport, now: int) -> Iterator[_Column]:
    """What is worth a column: where all nodes are at the one server, it is not told where they are, and so on."""
    nodes, totals = report.nodes, report.totals
    yield _Column("node", [Text(each.node, "cyan") for each in nodes], _counted(totals.nodes, "node"), True)
    if any(each.at.home or each.at.site for each in nodes):
        yield _Column("site", [Text(str(each.at)) for each in nodes], "", True)
    up = [format_instant(each.since - each.since % SECOND).replace("T", " ") for each in nodes]
    yield _Column("up since", list(map(Text, up)), "", True)
    yield _Column("for", [Text(lasting(now - each.since)) for each in nodes], "", True)
    if any(each.reserved for each in nodes):
        yield _Column("only for", [Text(each.reserved.short if each.reserved else "") for each in nodes], "", True)
    yield _numbers("detectors", [len(each.detectors) for each in nodes], totals.detectors)
    if totals.copies:
        yield _numbers("copies", [len(each.copies) for each in nodes], totals.copies)
    if any(each.load is not None for each in nodes):
        loads = ["" if each.load is None else f"{show_figure(each.load)}/s" for each in nodes]
        yield _Column("load", list(map(Text, loads)), f"{show_figure(totals.load)}/s")
    if any(each.capacity for each in nodes):
        yield _Column("of its capacity", list(map(_use, nodes)), "")
    yield _numbers("events", [each.events for each in nodes], totals.events)
    yield _numbers("composite events", [each.composite_events for each in nodes], totals.composite_events)
    yield _numbers("late", [each.late for each in nodes], totals.late)
    yield _Column("dead letters", list(map(_letters, nodes)), f"{totals.dead_letters:,}", True)


def _numbers(heading: str, numbers: list[int], total: int) -> _Column:
    return _Column(heading, [Text(f"{each:,}") for each in numbers], f"{total:,}")


def _use(node: NodeReport) -> Text:
    if node.capacity is None:
        return Text()
    if node.use is None:
        return Text(f"{show_figure(node.capacity)}/s")
    return Text(
        f"{show_figure(node.use * 100)} % of {show_figure(node.capacity)}/s", "bold red" if node.use > 1 else ""
    )


def _letters(node: NodeReport) -> Text:
    letters = ", ".join(f"{count:,} {reason}" for reason, count in sorted(node.dead_letters.items()) if count)
    return Text(letters or "0", "yellow" if letters else "")


def _table(columns: Iterator[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    shown = list(columns)
    for each in shown:
        folded = _FOLDED.get(each.heading)
        table.add_column(
            each.heading,
            justify="left" if each.left else "right",
            overflow="fold",
            no_wrap=folded is None,
            min_width=folded,
        )
    for cells in zip(*(each.cells for each in shown), strict=True):
        table.add_row(*cells)
    table.add_row(*(each.total for each in shown), style="bold")
    return table


def lasting(nanoseconds: int) -> str:
    """A duration for people: its two largest units, and 0 s where a clock is behind."""
    left = max(nanoseconds, 0)
    said: list[str] = []
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        if left >= size or said or unit == "s":
            said.append(f"{left // size} {unit}")
            left %= size
    return " ".join(each for each in said[:2] if not each.startswith("0 ")) or "0 s"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"

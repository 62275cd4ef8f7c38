"""What there is to say about a history, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from distced.middleware.cli.event_lines import COLOURS, span
from distced.middleware.history.contents import DayReport, HistoryReport, RecorderReport
from distced.middleware.model.timestamps import format_instant

FEW: Final = 3
"""How many sources, types or gaps are named; of more there is the number."""


def history_text(report: HistoryReport) -> Iterator[RenderableType]:
    """The parts to be printed below one another: days and types, recorders, and what is wrong."""
    if report.days:
        yield _days(report)
    else:
        yield Text(
            "no events; a recorder writes them when they have waited for a minute (--flush-every), and when it ends",
            "yellow",
        )
    if report.recorders:
        yield Text()
        yield _recorders(report.recorders)
    if report.late:
        yield Text()
        late, files = _counted(report.late, "event"), _counted(report.late_files, "file")
        yield Text(f"{late} came too late, kept in {files} (distced history show --late)", "yellow")
    wrong = [_problem(each, "bold red") for each in report.problems]
    wrong += [_problem(each, "yellow") for each in report.changes]
    if report.missing_days:
        wrong.append(Text(f"days without anything: {few(report.missing_days, 10)}", "yellow"))
    if wrong:
        yield Text()
        yield from wrong


def size(count: int) -> str:
    """Bytes for people, to three digits."""
    for unit, bound in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bound:
            return f"{count / bound:.3g} {unit}" if count < 1000 * bound else f"{count / bound:,.0f} {unit}"
    return f"{count} B"


def few(names: Sequence[str], most: int = FEW) -> str:
    """Names, or some of them and how many more there are."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def _days(report: HistoryReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading, left in (
        ("day", True), ("type", True), ("events", False), ("size", False), ("files", False), ("sources", False),
        ("complete until", True), ("recorded by", True),
    ):  # fmt: skip
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(report.types)}
    before = ""
    for each in report.days:
        table.add_row(
            Text("" if each.day == before else each.day, "dim"), Text(each.type, colours.get(each.type, "")),
            f"{each.rows:,}", size(each.bytes), f"{each.files:,}", f"{len(each.sources):,}",
            _complete(each), Text(few(each.recorders), "dim"),
        )  # fmt: skip
        before = each.day
    days, sources = {each.day for each in report.days}, {name for each in report.days for name in each.sources}
    table.add_row(
        _counted(len(days), "day"), _counted(len(report.types), "type"), f"{report.rows:,}", size(report.bytes),
        f"{report.files:,}", f"{len(sources):,}", "", "", style="bold",
    )  # fmt: skip
    return table


def _complete(day: DayReport) -> Text:
    if day.watermark is None:
        return Text("not known", "dim")
    until = "whole day" if day.whole else format_instant(day.watermark)
    if day.gaps:
        return Text(f"{until}, with {_counted(day.gaps, 'gap')}", "yellow")
    return Text(until, "green" if day.whole else "yellow")


def _recorders(recorders: Sequence[RecorderReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading in ("recorder", "has come to", "since", "types", "heard nothing"):
        table.add_column(heading, no_wrap=heading != "types", overflow="fold")
    for each in recorders:
        gaps = ", ".join(f"{format_instant(begin)} for {span(end - begin)}" for begin, end in each.gaps[-FEW:])
        if len(each.gaps) > FEW:
            gaps += f", {len(each.gaps):,} times in all"
        table.add_row(
            Text(each.name, "cyan"),
            Text("nowhere", "dim") if each.watermark is None else Text(format_instant(each.watermark)),
            Text("") if each.since is None else Text(format_instant(each.since)),
            Text(few(each.types, 10)),
            Text(gaps, "yellow"),
        )
    return table


def _problem(parts: dict[str, str], style: str) -> Text:
    text = Text.assemble((parts["problem"], style))
    if "given" in parts:
        text.append(f": {parts['given']}")
    if "allowed" in parts:
        text.append(f" (before: {parts['allowed']})" if "has changed" in parts["problem"] else f" ({parts['allowed']})")
    if "where" in parts:
        text.append(f", at {parts['where']}", "dim")
    if "advice" in parts:
        text.append(f"; {parts['advice']}", "dim")
    return text


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"

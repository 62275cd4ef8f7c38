"""`history`, which has verbs of its own: `ls`, `show`, `export` and `drop`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from distced.middleware.cli.options import duration_option, verb
from distced.middleware.cli.output import (
    COLOURS,
    FEW,
    AsJson,
    EventLines,
    few,
    messages,
    output,
    print_json,
    progress,
    show_error,
    show_notes,
    size,
    span,
)
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.event_files import json_line, write_events
from distced.middleware.history import History, Problem, events_of_history
from distced.middleware.history.contents import DayReport, HistoryReport, RecorderReport, history_report
from distced.middleware.history.late_events import late_events, late_files
from distced.middleware.history.layout import NotedLoss, loss_text
from distced.middleware.history.retention import Dropping, before_day, drop, lies_before, older_than
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, format_instant, instant_of

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")

history = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Look into a history, take events out of it, and drop what is old.",
)


PathArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PATH", help="The folder of the history.", show_default=False)
]


class Selection(msgspec.Struct, frozen=True):
    """Selection of events of a history: types and sources, None for all, and bounds of `hi`, ns, None for no bound."""

    types: tuple[str, ...] | None = None
    sources: frozenset[str] | None = None
    begin: int | None = None
    end: int | None = None


def selection(types: Iterable[str], sources: Iterable[str], begin: str | None, end: str | None) -> Selection:
    """Selection given on a command line; an end that is a day includes it."""
    first = None if begin is None else instant_of(begin)
    last = None if end is None else instant_of(end)
    if end is not None and last is not None and _DAY.fullmatch(end):
        last += DAY - 1
    if first is not None and last is not None and first > last:
        raise HistoryError("an end before its beginning", given=f"--from {begin} --to {end}", allowed="--from <= --to")
    return Selection(tuple(types) or None, frozenset(sources) or None, first, last)


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Options of every verb of `distced history`."""

    path: PathArgument
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(HistoryOptions):
    """Options that select events."""

    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Events of this type only; repeatable.")
    ] = None
    sources: Annotated[
        list[str] | None, typer.Option("--source", metavar="SOURCE", help="Events of this source only; repeatable.")
    ] = None
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Least hi, ISO 8601 or ns; default: no bound.")
    ] = None
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="Greatest hi, a day to its end; default: no bound.", show_default=False
        ),
    ] = None

    @property
    def selection(self) -> Selection:
        return selection(self.types or (), self.sources or (), self.begin, self.end)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(SelectionOptions):
    """Options of `distced history show`."""

    limit: Annotated[int, typer.Option(help="Number of events at most; 0 for all.", min=0)] = 100
    late: Annotated[bool, typer.Option("--late", help="Show late events instead.")] = False


@dataclass(frozen=True, kw_only=True)
class ExportOptions(SelectionOptions):
    """Options of `distced history export`."""

    target: Annotated[
        Path, typer.Argument(metavar="FILE", help=".jsonl, .csv, each with .gz, or .parquet.", show_default=False)
    ]
    force: ForceOption = False


@dataclass(frozen=True, kw_only=True)
class DropOptions(HistoryOptions):
    """Options of `distced history drop`; `older` in ns."""

    before: Annotated[
        str | None, typer.Option("--before", metavar="DAY", help="Drop the days before this one.", show_default=False)
    ] = None
    older: Annotated[int | None, duration_option("--older", help="Drop the days that are older than this.")] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Drop without asking.")] = False


@history.command("ls")
@verb
def ls(options: HistoryOptions) -> int:
    """Show the content of a history: days, types, recorders, problems.

    For each day and type: number of events, size, number of sources, and the instant up to which they are complete: the
    watermark of a recorder over all sources. Below: recorders with their watermarks and gaps, late events, unreadable
    files, changed attributes, days without events.
    The exit code is 1 if a file is unreadable.

    \b
    Examples:
      distced history ls office-history
      distced history ls office-history --json
    """
    report = history_report(History(options.path))
    if options.as_json:
        print_json(msgspec.to_builtins(report))
    else:
        console = output()
        for each in history_text(report):
            console.print(each)
    return 1 if report.problems else 0


@history.command("show")
@verb
def show(options: ShowOptions) -> int:
    """Show events of a history, in the order in which they are consumed.

    With --json one JSON object a line, in the form that `distced run` reads. The exit code is 1 where files cannot be
    read; what the others hold is shown.

    \b
    Examples:
      distced history show office-history --type Login --from 2026-11-21T08:00:00Z --limit 10
      distced history show office-history --from 2026-11-21 --to 2026-11-21 --json --limit 0
      distced history show office-history --late
    """
    history, wanted, limit = History(options.path), options.selection, options.limit
    problems: list[Problem] = []
    if options.late:
        shown: Iterator[Event | bytes] = _late(history, wanted, problems.append, as_json=options.as_json)
    else:
        shown = _chosen(history, wanted, problems.append)
    lines, console, count, more = EventLines(), output(), 0, False
    try:
        for each in shown:
            if limit and count == limit:
                more = True
                break
            count += 1
            if isinstance(each, bytes) or options.as_json:
                sys.stdout.write((each if isinstance(each, bytes) else json_line(each)).decode() + "\n")
            else:
                console.print(lines.line(each))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader has closed the pipe, on which rich exits; flushing the buffer must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if more:
        show_notes([f"there are more than {limit:,}: --limit 0 shows all"])
    return _report([*history.problems, *problems])


@history.command("export")
@verb
def export(options: ExportOptions) -> int:
    """Write events of a history to one file, in the order in which they are consumed.

    The file is in the native form, which `distced run` and `distced publish --file` read.

    \b
    Examples:
      distced history export office-history november.jsonl.gz --from 2026-11-01 --to 2026-11-30
      distced history export office-history logins.csv --type Login
    """
    history, wanted, target = History(options.path), options.selection, options.target
    check_output("FILE", target, force=options.force, inputs=(each.path for each in history.files))
    problems: list[Problem] = []
    total = sum(each.rows for each in history.select(wanted.types, wanted.begin, wanted.end))
    with progress("exporting", total) as watch:

        def counted() -> Iterator[Event]:
            for count, event in enumerate(_chosen(history, wanted, problems.append), 1):
                if count % 1_000 == 0:
                    watch(count)
                yield event

        written = write_events(counted(), target)
    if options.as_json:
        print_json({"events": written, "file": str(target), "bytes": target.stat().st_size}, indent=None)
    else:
        output().print(f"{written:,} event{'s' * (written != 1)} written to {target}, {size(target.stat().st_size)}")
    return _report([*history.problems, *problems])


@history.command("drop")
@verb
def drop_days(options: DropOptions) -> int:
    """Drop whole old days, after a confirmation.

    The confirmation lists the days and their size. Late events are dropped with the events of their day. Unreadable and
    foreign files stay, and are listed. A recorder may write at the same time. The exit
    code is 1 if the confirmation is refused.

    \b
    Examples:
      distced history drop office-history --before 2026-11-01
      distced history drop office-history --older 90d --yes
    """
    before, older = options.before, options.older
    if (before is None) == (older is None):
        problem = "no day to drop before" if before is None else "both a day and an age"
        raise HistoryError(problem, allowed="--before 2026-11-01, or --older 90d")
    history = History(options.path)
    found = lies_before(
        history, before_day(before) if before is not None else older_than(older or 0, SystemClock().now())
    )
    if found.paths and not options.yes:
        messages().print(Text.assemble(("to be dropped: ", "bold"), _what(found)))
        if options.as_json or not sys.stdin.isatty():
            raise HistoryError("nothing was dropped: no terminal for the confirmation", advice="say --yes")
        if not typer.confirm("Drop them?", err=True):
            messages().print("nothing was dropped")
            return 1
    with progress("dropping", len(found.paths), left=False) as watch:
        for count, _ in enumerate(drop(found.paths), 1):
            watch(count)
    if options.as_json:
        print_json({
            "before": found.before, "days": found.days, "events": found.rows, "late": found.late,
            "files": len(found.paths), "bytes": found.bytes, "left": found.left,
            "spanning": found.spanning,
        })  # fmt: skip
    elif found.paths:
        output().print(f"dropped {_what(found)}")
    else:
        output().print(f"there is nothing before {found.before}")
    if found.spanning:
        show_notes([f"left, for they hold later days, too: {few(found.spanning, 10)}"])
    if found.left:
        show_notes([f"left, for they are not known: {few(found.left, 10)}"])
    return 0


def _what(found: Dropping) -> str:
    late = f", and {found.late:,} that came too late" if found.late else ""
    days = _counted(len(found.days), "day")
    if found.days:
        days += f", {found.days[0]}" + (f" to {found.days[-1]}" if len(found.days) > 1 else "")
    events, files = _counted(found.rows, "event"), _counted(len(found.paths), "file")
    return f"{events} of {days}{late}, in {files}, {size(found.bytes)}"


def _chosen(history: History, wanted: Selection, on_problem: Callable[[Problem], None]) -> Iterator[Event]:
    _check_names("type", wanted.types, history.types)
    _check_names("source", wanted.sources, {name for each in history.files for name in each.note.sources})
    for event in events_of_history(history, wanted.types, wanted.begin, wanted.end, on_problem):
        if wanted.sources is None or event.source in wanted.sources:
            yield event


def _late(
    history: History, wanted: Selection, on_problem: Callable[[Problem], None], *, as_json: bool
) -> Iterator[Event | bytes]:
    """Late events as they are kept, or to be shown."""
    for path in late_files(history.root):
        for line, event in late_events(path, on_problem):
            if (
                (wanted.types is None or event.type in wanted.types)
                and (wanted.sources is None or event.source in wanted.sources)
                and (wanted.begin is None or event.hi >= wanted.begin)
                and (wanted.end is None or event.hi <= wanted.end)
            ):
                yield line if as_json else event


def _check_names(what: str, wanted: Iterable[str] | None, known: Collection[str]) -> None:
    for name in sorted(wanted or ()):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise HistoryError(
                f"no events of this {what}", given=name, allowed=few(sorted(known), 10) or "there are none",
                advice=f"did you mean {near[0]}?" if near else None,
            )  # fmt: skip


def _report(problems: list[Problem]) -> int:
    """Show problems; the exit code."""
    for each in problems:
        show_error(each.error)
    return 1 if problems else 0


# The contents of a history as text.


def history_text(report: HistoryReport) -> Iterator[RenderableType]:
    """Parts to be printed below one another: days and types, recorders, and problems."""
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
    sources = {name for each in report.days for name in each.sources}
    table.add_row(
        _counted(report.n_days, "day"), _counted(len(report.types), "type"), f"{report.rows:,}", size(report.bytes),
        f"{report.files:,}", f"{len(sources):,}", "", "", style="bold",
    )  # fmt: skip
    return table


def _complete(day: DayReport) -> Text:
    if day.watermark is None:
        return Text("not known", "dim")
    until = "whole day" if day.whole else format_instant(day.watermark)
    if day.gaps or day.losses:
        missing = [_counted(day.gaps, "gap")] if day.gaps else []
        missing += [f"{day.losses:,} loss{'es' * (day.losses != 1)}"] if day.losses else []
        return Text(f"{until}, with {' and '.join(missing)}", "yellow")
    return Text(until, "green" if day.whole else "yellow")


def _recorders(recorders: Sequence[RecorderReport]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    headings = ["recorder", "has come to", "since", "types", "heard nothing"]
    headings += ["lost"] if any(each.losses for each in recorders) else []
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in ("types", "lost"), overflow="fold")
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
            *([Text(_losses(each.losses), "yellow")] if "lost" in headings else ()),
        )
    return table


def _losses(losses: Sequence[NotedLoss]) -> str:
    text = ", ".join(loss_text(each) for each in losses[-FEW:])
    return f"{text}, {len(losses):,} times in all" if len(losses) > FEW else text


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

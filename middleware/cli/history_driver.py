"""The drivers of `distced history`: what is in one, its events, and what is to be dropped."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec
import typer
from rich.text import Text

from distced.middleware.cli.event_lines import EventLines
from distced.middleware.cli.output import messages, output, print_json, show_error, show_notes
from distced.middleware.event_files import json_line, write_events
from distced.middleware.history import History, Problem, events_of_history
from distced.middleware.history.contents import history_report
from distced.middleware.history.contents_text import few, history_text, size
from distced.middleware.history.late_events import late_events, late_files
from distced.middleware.history.retention import Dropping, before_day, drop, lies_before, older_than
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, instant_of

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


class Choice(msgspec.Struct, frozen=True):
    """Which events of a history are asked for.

    Attributes:
        types, sources: their names; None for all.
        begin, end: the least and the greatest `hi`, ns; None for no bound.
    """

    types: tuple[str, ...] | None = None
    sources: frozenset[str] | None = None
    begin: int | None = None
    end: int | None = None


def choice(types: Iterable[str], sources: Iterable[str], begin: str | None, end: str | None) -> Choice:
    """What is asked for on a command line; an end that is a day includes it."""
    first = None if begin is None else instant_of(begin)
    last = None if end is None else instant_of(end)
    if end is not None and last is not None and _DAY.fullmatch(end):
        last += DAY - 1
    if first is not None and last is not None and first > last:
        raise HistoryError("an end before its beginning", given=f"--from {begin} --to {end}", allowed="--from <= --to")
    return Choice(tuple(types) or None, frozenset(sources) or None, first, last)


def show_contents(path: Path, *, as_json: bool) -> int:
    """Print what is in a history; 1 where something of it cannot be read."""
    report = history_report(History(path))
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        console = output()
        for each in history_text(report):
            console.print(each)
    return 1 if report.problems else 0


def show_events(path: Path, wanted: Choice, limit: int, *, late: bool, as_json: bool) -> int:
    """Print events; 1 where some cannot be read."""
    history = History(path)
    problems: list[Problem] = []
    if late:
        shown: Iterator[Event | bytes] = _late(history, wanted, problems.append, as_json=as_json)
    else:
        shown = _chosen(history, wanted, problems.append)
    lines, console, count, more = EventLines(), output(), 0, False
    try:
        for each in shown:
            if limit and count == limit:
                more = True
                break
            count += 1
            if isinstance(each, bytes) or as_json:
                sys.stdout.write((each if isinstance(each, bytes) else json_line(each)).decode() + "\n")
            else:
                console.print(lines.line(each))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # Whoever read has had enough, for which rich exits; what is in the buffer must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if more:
        show_notes([f"there are more than {limit:,}: --limit 0 shows all"])
    return _told([*history.problems, *problems])


def export_events(path: Path, target: Path, wanted: Choice, *, overwrite: bool, as_json: bool) -> int:
    """Write events to a file; 1 where some cannot be read."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    history = History(path)
    if target.is_dir():
        raise HistoryError("a folder where a file should be written", given=str(target), advice=f"say {target}/x.jsonl")
    if target.exists() and not overwrite:
        raise HistoryError("a file that is there already", given=str(target), advice="say --overwrite to replace it")
    problems: list[Problem] = []
    total = sum(each.rows for each in history.select(wanted.types, wanted.begin, wanted.end))
    console = messages()
    columns = (SpinnerColumn(), TextColumn("exporting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)

        def counted() -> Iterator[Event]:
            for count, event in enumerate(_chosen(history, wanted, problems.append), 1):
                if count % 1_000 == 0:
                    progress.update(task, completed=count)
                yield event

        written = write_events(counted(), target)
    if as_json:
        print_json({"events": written, "file": str(target), "bytes": target.stat().st_size}, indent=None)
    else:
        output().print(f"{written:,} event{'s' * (written != 1)} written to {target}, {size(target.stat().st_size)}")
    return _told([*history.problems, *problems])


def drop_days(path: Path, before: str | None, older: int | None, now: int, *, yes: bool, as_json: bool) -> int:
    """Remove what lies before a day; 1 where nobody has agreed."""
    if (before is None) == (older is None):
        problem = "no day to drop before" if before is None else "both a day and an age"
        raise HistoryError(problem, allowed="--before 2026-11-01, or --older 90d")
    history = History(path)
    found = lies_before(history, before_day(before) if before is not None else older_than(older or 0, now))
    if found.paths and not yes:
        _say(found)
        if as_json or not sys.stdin.isatty():
            raise HistoryError("nothing was dropped: nobody is here to be asked", advice="say --yes")
        if not typer.confirm("Drop them?", err=True):
            messages().print("nothing was dropped")
            return 1
    _drop_all(found)
    if as_json:
        print_json({
            "before": found.before, "days": found.days, "events": found.rows, "late": found.late,
            "files": len(found.paths), "bytes": found.bytes, "left": found.left,
        })  # fmt: skip
    elif found.paths:
        output().print(f"dropped {_what(found)}")
    else:
        output().print(f"there is nothing before {found.before}")
    if found.left:
        show_notes([f"left, for they are not known: {few(found.left, 10)}"])
    return 0


def _drop_all(found: Dropping) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = messages()
    columns = (TextColumn("dropping"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(found.paths))
        for _ in drop(found.paths):
            progress.advance(task)


def _say(found: Dropping) -> None:
    messages().print(Text.assemble(("to be dropped: ", "bold"), _what(found)))


def _what(found: Dropping) -> str:
    late = f", and {found.late:,} that came too late" if found.late else ""
    days = f"{len(found.days)} day{'s' * (len(found.days) != 1)}"
    if found.days:
        days += f", {found.days[0]}" + (f" to {found.days[-1]}" if len(found.days) > 1 else "")
    events = f"{found.rows:,} event{'s' * (found.rows != 1)}"
    files = f"{len(found.paths):,} file{'s' * (len(found.paths) != 1)}"
    return f"{events} of {days}{late}, in {files}, {size(found.bytes)}"


def _chosen(history: History, wanted: Choice, on_problem: Callable[[Problem], None]) -> Iterator[Event]:
    _check_names("type", wanted.types, history.types)
    _check_names("source", wanted.sources, {name for each in history.files for name in each.note.sources})
    for event in events_of_history(history, wanted.types, wanted.begin, wanted.end, on_problem):
        if wanted.sources is None or event.source in wanted.sources:
            yield event


def _late(
    history: History, wanted: Choice, on_problem: Callable[[Problem], None], *, as_json: bool
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


def _told(problems: list[Problem]) -> int:
    """Say what could not be read; the exit code."""
    for each in problems:
        show_error(each.error)
    return 1 if problems else 0

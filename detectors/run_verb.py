"""The driver of `distced run`: reads, detects, writes, and shows how far it is."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from detectors.compilation import Consumption
from detectors.engines import EngineName
from detectors.pattern_source import compile_source, read_source
from detectors.running import Replay, declared_types, misfits
from detectors.running_report import Summary, event_as_dict
from middleware.console_output import messages, print_json, show_notes
from middleware.errors import DistcedError, EventError
from middleware.events import CompositeEvent
from middleware.eventtypes import TypeRegistry
from middleware.mapping import load_mapping
from middleware.recorded import EventReader, json_line, read_events, write_events
from middleware.recorded.files import written

TABLES: Final = (".csv", ".parquet")
"""The endings of files that are written as tables, always in the native form."""

Write: TypeAlias = Callable[[list[CompositeEvent]], None]


@dataclass(frozen=True, slots=True)
class Run:
    """What `distced run` was asked for; the names are those of its options.

    Attributes:
        registry: the event types of a file of types; None where none was given.
    """

    pattern: str
    recording: Path
    mapping: Path | None
    registry: TypeRegistry | None
    out: Path | None
    with_events: bool
    native: bool
    finish: bool
    rejected: Path | None
    consumption: Consumption
    engine: EngineName
    as_json: bool


def run_patterns(wanted: Run) -> Summary:
    """Run patterns over a recording and write what they find."""
    source = read_source(wanted.pattern)
    # A mistake in the pattern shows before the recording is read.
    compile_source(source, wanted.registry, consumption=wanted.consumption)
    mapping = None if wanted.mapping is None else load_mapping(wanted.mapping)
    declared = declared_types(wanted.recording, mapping)
    registry = wanted.registry or (None if declared is None else TypeRegistry(declared))
    patterns = compile_source(source, registry, consumption=wanted.consumption)
    show_notes(patterns.notes)
    reader = read_events(wanted.recording, mapping)
    replay = Replay(patterns.compiled, reader, finish=wanted.finish, engine=wanted.engine)
    with _writing(wanted) as write, _progress(wanted) as progress:
        started = time.perf_counter()
        task = progress.add_task("reading", total=None)
        replay.read(lambda events: progress.update(task, completed=events))
        progress.update(task, total=replay.counts.events)
        read = time.perf_counter()
        task = progress.add_task("detecting", total=max(1, len(replay.events)))
        for step in replay.steps():
            write(step.found)
            progress.update(task, completed=step.consumed)
        detected = time.perf_counter()
    misfit = misfits(source, reader.types, wanted.consumption) if registry is None else None
    summary = Summary(replay, reader, read - started, detected - read)
    if wanted.rejected is not None:
        _write_rejected(reader, wanted.rejected)
    _show(summary, wanted, misfit)
    return summary


def _show(summary: Summary, wanted: Run, misfit: DistcedError | None) -> None:
    notes = [] if misfit is None else [f"the recording does not fit the pattern: {DistcedError._message(misfit)}"]
    if summary.replay.counts.running and not wanted.finish:
        notes.append("time events were still running when the recording ended; with --finish they fire")
    if wanted.as_json:
        print_json({"summary": summary.as_dict(), "notes": notes}, indent=None)
        return
    console = messages()
    for line in summary.lines():
        console.print(line)
    show_notes(notes, console)


@contextmanager
def _writing(wanted: Run) -> Iterator[Write]:
    """Where composite events go: standard output, a file of JSON lines, or a table."""
    if wanted.out is None:
        yield lambda found: _print(found, wanted)
        return
    if _suffix(wanted.out) in TABLES:
        kept: list[CompositeEvent] = []
        if not wanted.out.parent.is_dir():
            raise EventError("no such folder", given=str(wanted.out.parent))
        yield kept.extend
        write_events(kept, wanted.out)
        return
    with _opened(wanted.out) as file:
        yield lambda found: file.writelines(_line(each, wanted) + b"\n" for each in found)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if path.exists() and not path.is_file():
        # A device or a pipe is written to; a file would appear in its place.
        try:
            with path.open("wb") as file:
                yield file
        except OSError as error:
            raise EventError("cannot write the composite events", given=str(path), advice=str(error)) from None
        return
    with written(path) as file:
        yield file


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _print(found: list[CompositeEvent], wanted: Run) -> None:
    for each in found:
        sys.stdout.write(_line(each, wanted).decode() + "\n")
    if found:
        sys.stdout.flush()


def _line(event: CompositeEvent, wanted: Run) -> bytes:
    if wanted.native:
        return json_line(event)
    shown = event_as_dict(event, with_events=wanted.with_events)
    return json.dumps(shown, ensure_ascii=False, separators=(", ", ": ")).encode()


def _write_rejected(reader: EventReader, path: Path) -> None:
    with _opened(path) as file:
        for each in reader.rejected:
            shown = {"where": each.where, "rule": each.rule, "reason": each.reason, **each.error.as_dict()}
            shown["row"] = each.given  # type: ignore[assignment]
            file.write(json.dumps(shown, ensure_ascii=False, default=repr).encode() + b"\n")


def _progress(wanted: Run) -> Progress:
    """A bar on standard error, unless nobody sees it or results are scrolling past."""
    console = messages()
    hidden = not console.is_terminal or (wanted.out is None and sys.stdout.isatty())
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=hidden,
    )

"""The driver of `distced run`: reads, detects, writes, and shows how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from distced.detectors.batch_run.output import opened_for_writing, progress_bars, writing_found
from distced.detectors.batch_run.report import Summary
from distced.detectors.batch_run.runner import Replay, declared_types, misfits, reader_of
from distced.detectors.compiler import Consumption
from distced.detectors.pattern_files import compile_source, read_source
from distced.detectors.runtime.engines import EngineName
from distced.middleware.cli.output import messages, print_json, show_notes
from distced.middleware.event_files import EventReader
from distced.middleware.mapping import load_mapping
from distced.middleware.mapping.rejected import rejected_line
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry


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
    reader = reader_of(wanted.recording, mapping)
    replay = Replay(patterns.compiled, reader, finish=wanted.finish, engine=wanted.engine)
    with (
        writing_found(wanted.out, native=wanted.native, with_events=wanted.with_events) as write,
        progress_bars(wanted.out) as progress,
    ):
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


def _write_rejected(reader: EventReader, path: Path) -> None:
    with opened_for_writing(path) as file:
        for each in reader.rejected:
            file.write(rejected_line(each))

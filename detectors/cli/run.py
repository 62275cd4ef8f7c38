"""The verb `run`: patterns over recorded events, and their composite events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from distced.detectors.batch_run.report import Summary, opened_for_writing, progress_bars, writing_found
from distced.detectors.batch_run.runner import Replay, declared_types, found_types, misfits, reader_of
from distced.detectors.cli.pattern_options import (
    ConsumptionOption,
    EngineOption,
    LanguageOption,
    PatternArgument,
    TypesOption,
    registry_of,
)
from distced.detectors.pattern_files import compile_source, read_source
from distced.detectors.runtime.engines import EngineName, notice
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, messages, print_json, show_notes
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.event_files import EventReader
from distced.middleware.mapping import Rejected, load_mapping
from distced.middleware.mapping.rules import rejected_line
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry


@dataclass(frozen=True)
class RunOptions:
    """Options of `distced run`."""

    pattern: PatternArgument
    recording: Annotated[
        Path,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Recorded events: .csv, .jsonl, .json, .log, .txt, .dat (also .gz), .parquet, or a history.",
        ),
    ]
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="Mapping (TOML) of rows to events; required for log files; default: native form.",
        ),
    ] = None
    types: TypesOption = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Output file for composite events, by suffix; default: JSON lines on standard output.",
        ),
    ] = None
    with_events: Annotated[bool, typer.Option("--events", help="Write constituents as events; default: their ids.")] = (
        False
    )
    native: Annotated[
        bool, typer.Option("--native", help="Write events that --input reads again; always so for .csv and .parquet.")
    ] = False
    finish: Annotated[
        bool,
        typer.Option(
            "--finish", help="Fire pending time events after the last event; default: time ends with the last event."
        ),
    ] = False
    rejected: Annotated[
        Path | None,
        typer.Option(
            "--rejected", metavar="FILE", help="Output file for rejected rows with reasons; default: counted only."
        ),
    ] = None
    force: ForceOption = False
    consumption: ConsumptionOption = "ordered"
    language: LanguageOption = ""
    engine: EngineOption = "auto"
    as_json: AsJson = False


@verb
def run(options: RunOptions) -> int:
    """Run patterns over recorded events; print the composite events.

    Composite events go to standard output as JSON lines, or to --out FILE. The patterns of a file run together: one may
    read what another publishes. Events are sorted first, so those of the types that the patterns read have to fit into
    memory. A summary goes to standard error; with --json it is the last line of standard output. The exit code is 1
    where files or rows of a history could not be read.

    \b
    Examples:
      distced run '[Motion] ; [Door] within 1min' --input events.jsonl.gz
      distced run office.pattern --input office.csv.gz --mapping office.toml --out found.jsonl
      distced run '[A] ; [B] -> Pair()' --input a.csv --native --out pairs.jsonl
      distced run '[Pair] ; [Pair] within 1h' --input pairs.jsonl
    """
    inputs: list[Path | str | None] = [options.recording, options.pattern, options.mapping, options.types]
    check_output("--out", options.out, force=options.force, inputs=[*inputs, options.rejected])
    check_output("--rejected", options.rejected, force=options.force, inputs=inputs)
    source, given = read_source(options.pattern, options.language), registry_of(options.types, None)
    # A mistake in the pattern shows before the recording is read.
    if given is not None or not source.needs_types:
        compile_source(source, given, consumption=options.consumption)
    mapping = None if options.mapping is None else load_mapping(options.mapping)
    declared = declared_types(options.recording, mapping)
    registry = given or (None if declared is None else TypeRegistry(declared))
    undeclared = registry is None
    if undeclared and source.needs_types:
        registry = found_types(options.recording)
    patterns = compile_source(source, registry, consumption=options.consumption)
    show_notes(patterns.notes)
    reader = reader_of(options.recording, mapping)
    replay = Replay(patterns.compiled, reader, finish=options.finish, engine=options.engine, whole=options.with_events)
    with (
        _writing_rejected(reader, options.rejected),
        writing_found(options.out, native=options.native, with_events=options.with_events) as write,
        progress_bars(options.out) as progress,
    ):
        started = time.perf_counter()
        task = progress.add_task("reading", total=None)
        replay.read(lambda events: progress.update(task, completed=events))
        progress.update(task, total=replay.counts.events)
        read = time.perf_counter()

        def say(engine: EngineName) -> None:
            note = notice(engine, replay.expected)
            if note is not None:
                progress.console.print(note)

        say(options.engine)
        replay.on_switch = lambda: say("columnar")
        task = progress.add_task("detecting", total=max(1, replay.expected))
        for step in replay.steps():
            write(step.found)
            progress.update(task, completed=step.consumed)
        detected = time.perf_counter()
    misfit = misfits(source, reader.types, options.consumption) if undeclared else None
    _show(Summary(replay, reader, read - started, detected - read), options, misfit)
    return int(reader.is_incomplete)


def _show(summary: Summary, options: RunOptions, misfit: DistcedError | None) -> None:
    notes = [] if misfit is None else [f"the recording does not fit the pattern: {DistcedError._message(misfit)}"]
    if summary.replay.counts.running and not options.finish:
        notes.append("time events were still running when the recording ended; with --finish they fire")
    if options.as_json:
        print_json({"summary": summary.as_dict(), "notes": notes}, indent=None)
        return
    console = messages()
    for line in summary.lines():
        console.print(line)
    show_notes(notes, console)


@contextmanager
def _writing_rejected(reader: EventReader, path: Path | None) -> Iterator[None]:
    """File of all rejected rows, written as they are read."""
    if path is None:
        yield
        return
    with opened_for_writing(path) as file:

        def write(rejected: Rejected) -> None:
            file.write(rejected_line(rejected))

        reader.on_rejected = write
        yield

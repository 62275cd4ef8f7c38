"""`distced replay`: patterns over an event history, in parallel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from distced.detectors.cli.pattern_options import ConsumptionOption, EngineOption, LanguageOption, PatternArgument
from distced.middleware.cli.output import AsJson, show_notes
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import DistcedError
from distced.simulations.options import HistoryOption, MasterOption

_AT_ONCE: Final = 1024
"""Composite events written at once."""


def replay(
    pattern: PatternArgument,
    history: HistoryOption,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="INSTANT", help="First hi, ISO 8601 or ns; default: no bound."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="INSTANT", help="Last hi, ISO 8601 or ns, a day to its end; default: no bound."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Cut the work by this attribute of the patterns' keys.")
    ] = None,
    way: Annotated[
        Literal["key", "time", "parts", "whole"] | None,
        typer.Option("--way", help="Partition of the work; default: that of the plan."),
    ] = None,
    master: MasterOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write composite events into this file.")
    ] = None,
    force: ForceOption = False,
    with_events: Annotated[
        bool, typer.Option("--events", help="Write constituents as events, not only as ids.", show_default=False)
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Write lines in the native form, to be read as events.")
    ] = False,
    consumption: ConsumptionOption = "ordered",
    language: LanguageOption = "",
    engine: EngineOption = "auto",
    plan: Annotated[bool, typer.Option("--plan", help="Show the plan with its reasons, and stop.")] = False,
    as_json: AsJson = False,
) -> int:
    """Replay patterns over an event history, in parallel on Spark.

    Its composite events are those of guaranteed live detection, with the same ids. The work is cut by key where the
    patterns have one, by slices of time where the duration of a match is bounded.

    The exit code is 1 where files or rows of the history could not be read; the others are replayed.

    With --out finished work is kept beside the file, .FILE.replay, until all is done; the same command resumes it.

    \b
    Examples:
      distced replay office.pattern --history office --out found.jsonl
      distced replay '[Login as x] ; [Logout] by person within 8h' --history office --from 2026-11-21T00:00:00Z
      distced replay office.pattern --history office --plan
    """
    from distced.detectors.batch_run.report import progress_bars, writing_found
    from distced.detectors.batch_run.runner import misfits
    from distced.detectors.pattern_files import compile_source, read_source
    from distced.middleware.cli.history import selection
    from distced.middleware.history.history import History
    from distced.middleware.model.event_types import TypeRegistry
    from distced.simulations.replay.master_choice import master_of_replay
    from distced.simulations.replay.replay import HistoryReplay, ReplayProgress
    from distced.simulations.replay.replay_report import show, show_plan
    from distced.simulations.replay.runners import runner_of

    check_output("--out", out, force=force or plan, inputs=[pattern])
    span = selection((), (), begin, until)
    source = read_source(pattern, language)
    # A mistake in the pattern is reported before Spark starts.
    if not source.needs_types:
        compile_source(source, None, consumption=consumption)
    recorded = History(history)
    types = tuple(recorded.types.values())
    misfit = misfits(source, types, consumption)
    registry = None if misfit is not None else TypeRegistry(types)
    patterns = compile_source(source, registry, consumption=consumption)
    show_notes(patterns.notes)
    why = ""
    if master is None:
        master, why = master_of_replay(
            patterns.compiled, recorded, begin=span.begin, until=span.end, by=by, way=way, engine=engine
        )
    with _work_folder(out, plan_only=plan) as work, runner_of(master, work) as runner:
        runner.why = why
        run = HistoryReplay(
            patterns.compiled,
            recorded,
            work,
            cores=runner.cores,
            begin=span.begin,
            until=span.end,
            by=by,
            way=way,
            engine=engine,
            with_events=with_events,
        )
        if plan:
            show_plan(run, runner, as_json=as_json)
            return 0
        started = time.perf_counter()
        with progress_bars(out) as bars:
            partitioning = bars.add_task("partitioning", total=1, visible=bool(run.partitioning))
            detecting = bars.add_task("detecting", total=1)

            def on_progress(progress: ReplayProgress) -> None:
                bars.update(partitioning, completed=progress.partitioned, total=max(1, progress.to_partition))
                bars.update(detecting, completed=progress.detected, total=max(1, progress.to_detect))

            run.perform(runner, on_progress)
        performed = time.perf_counter()
        with writing_found(out, native=native, with_events=with_events) as write:
            found = iter(run)
            while events := list(islice(found, _AT_ONCE)):
                write(events)
        show(run, runner, misfit, performed - started, as_json=as_json)
        run.clear()
    return int(run.is_incomplete)


@contextmanager
def _work_folder(out: Path | None, *, plan_only: bool) -> Iterator[Path]:
    """Folder of work in progress: beside the result, so that a replay can be resumed; temporary without one."""
    import tempfile

    if out is not None and not out.parent.is_dir():
        raise DistcedError("no such folder", given=str(out.parent))
    try:
        if out is None or plan_only or (out.exists() and not out.is_file()):
            with tempfile.TemporaryDirectory(prefix="distced-replay-") as folder:
                yield Path(folder) / "work"
        else:
            yield out.with_name(f".{out.name}.replay")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DistcedError(
            f"the replay broke off: {error}",
            advice="finished tasks are kept with --out; repeat the command to resume",
        ) from None

"""`distced ingest` and `distced history compact`, beside the verbs of the middleware for histories."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from distced.middleware.cli.history import PathArgument, history
from distced.middleware.cli.output import AsJson, messages
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import EventError
from distced.simulations.options import HistoryOption, MappingOption, MasterOption

if TYPE_CHECKING:
    from distced.simulations.ingest.ingestion import IngestOutcome
    from distced.simulations.replay.master_choice import MasterChoice

__all__ = ["compact", "history", "ingest"]


def ingest(
    recordings: Annotated[
        list[Path],
        typer.Argument(metavar="RECORDING...", help="CSV, JSON, JSON lines, Parquet or text files, also .gz."),
    ],
    history: HistoryOption,
    mapping: MappingOption = None,
    name: Annotated[
        str, typer.Option(metavar="RECORDER", help="Name of the recorder in the names of files.")
    ] = "ingest",
    master: MasterOption = None,
    rejected: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write rejected rows into this file, too, as JSON lines.")
    ] = None,
    force: ForceOption = False,
    count_on: Annotated[
        bool, typer.Option("--count-on", help="Continue the sequence numbers of each source in the history.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Add nothing of a recording with rejected rows; the exit code is then 1.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Ingest recordings into an event history, made where there is none.

    Several recordings are read in parallel on Spark, each by one task. The history keeps rejected rows, in rejected/,
    with the reason; duplicates are left out. Repeating the command adds nothing, and resumes an interrupted ingestion.
    The exit code is 1 where a recording could not be read to its end or gave no event, or most rows were rejected.

    A mapping counts the events of a source, from 0 in each recording. Recordings that share their sources, such as one
    for each day, need --count-on.

    \b
    Examples:
      distced ingest events.parquet --history office
      distced ingest week-*.csv.gz --mapping office.toml --history office --count-on
    """
    from distced.detectors.batch_run.report import progress_bars
    from distced.middleware.history.layout import make_history
    from distced.middleware.history.writer import check_recorder
    from distced.middleware.mapping import load_mapping
    from distced.simulations.ingest.ingest_report import show
    from distced.simulations.ingest.ingestion import Ingest
    from distced.simulations.ingest.recordings import alone
    from distced.simulations.replay.master_choice import MasterChoice, master_of_ingest
    from distced.simulations.replay.runners import INLINE, check_master, runner_of

    if mapping is not None:
        # A mistake in the mapping is reported before Spark starts.
        load_mapping(mapping)
    check_recorder(name)
    if master is not None:
        check_master(master)
    if rejected is not None:
        check_output("--rejected", rejected, force=force, inputs=[*recordings, mapping])
        if not rejected.resolve().parent.is_dir():
            raise EventError("no such folder", given=str(rejected.parent))
    started = time.perf_counter()
    make_history(history)
    with alone(history):
        task = Ingest(tuple(recordings), history, mapping=mapping, recorder=name, count_on=count_on, strict=strict)
        # One recording is one task, which does not need Spark.
        choice = MasterChoice(master or INLINE, "")
        if master is None or len(task.open) < 2:
            choice = master_of_ingest([each.path for each in task.open])
        _say(choice, len(task.open), as_json=as_json)
        with runner_of(choice.master, task.work, tidy=True) as runner, progress_bars(None) as bars:
            bar = bars.add_task("reading", total=None, visible=bool(task.open))
            task.perform(runner, lambda events: bars.update(bar, completed=events))
        task.clear()
    order = {path: place for place, path in enumerate(recordings)}
    outcomes = sorted(task.outcomes, key=lambda each: order[each.path])
    if rejected is not None:
        _copy_rejected(outcomes, rejected)
    show(outcomes, history, time.perf_counter() - started, as_json=as_json)
    return int(any(each.ingested.trouble or each.ingested.is_mostly_rejected for each in outcomes))


@history.command("compact")
def compact(
    path: PathArgument,
    master: MasterOption = None,
    across_days: Annotated[
        bool,
        typer.Option(
            "--across-days/--by-day", help="Merge days with few events into months and years, or each day by itself."
        ),
    ] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the old files to the next run, for present readers.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Merge the small files of each type in an event history.

    Days with few events are merged into months or years; --by-day leaves them apart.
    Readers see each event once, at any time. An interrupted compaction can be repeated.

    \b
    Examples:
      distced history compact office
      distced history compact office --master inline
    """
    from distced.detectors.batch_run.report import progress_bars
    from distced.middleware.history.layout import check_history
    from distced.simulations.ingest.compaction import Compaction
    from distced.simulations.ingest.ingest_report import show_compaction
    from distced.simulations.ingest.recordings import alone, writing
    from distced.simulations.replay.master_choice import MasterChoice, master_of_compaction
    from distced.simulations.replay.runners import INLINE, check_master, runner_of

    started = time.perf_counter()
    if master is not None:
        check_master(master)
    check_history(path)
    with alone(path), writing(path):
        compaction = Compaction(path, across_days=across_days)
        # One merger is one task, which does not need Spark.
        choice = MasterChoice(master or INLINE, "")
        if master is None or len(compaction.mergers) < 2:
            files = sum(len(each.files) for each in compaction.mergers)
            choice = master_of_compaction(compaction.rows, files, len(compaction.mergers))
        _say(choice, len(compaction.mergers), as_json=as_json)
        with runner_of(choice.master, compaction.work, tidy=True) as runner, progress_bars(None) as bars:
            bar = bars.add_task("compacting", total=max(1, compaction.rows), visible=bool(compaction.mergers))
            compaction.perform(runner, lambda rows: bars.update(bar, completed=rows), keep=keep)
        compaction.clear()
    show_compaction(compaction, time.perf_counter() - started, as_json=as_json)
    return int(any(each.trouble for each in compaction.done))


def _say(choice: MasterChoice, tasks: int, *, as_json: bool) -> None:
    """Say where several tasks run that may run elsewhere."""
    if choice.why and tasks > 1 and not as_json:
        messages().print(Text(f"--master {choice.master}, {choice.why}", "dim"))


def _copy_rejected(outcomes: Sequence[IngestOutcome], path: Path) -> None:
    from distced.detectors.batch_run.report import opened_for_writing

    with opened_for_writing(path) as whole:
        for each in outcomes:
            if each.recording is not None and each.recording.rejected.exists():
                with each.recording.rejected.open("rb") as file:
                    shutil.copyfileobj(file, whole)

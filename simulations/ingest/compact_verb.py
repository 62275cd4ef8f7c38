"""The verb `distced history compact`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.output import AsJson

INLINE = "inline"
_SHOWN = 10


def compact(
    history: Annotated[Path, typer.Argument(metavar="PATH", help="The folder of the event history.")],
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, sc://… for Spark Connect, or inline: without Spark.")
    ] = "local[*]",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the old files to the next time, for those who are reading.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Put the small files of an event history together, those of a day and a type.

    Readers see each event once, before, meanwhile and afterwards. It can be broken off at any time, and run again.

    \b
    Examples:
      distced history compact office
      distced history compact office --master inline
    """
    import shutil
    import time

    import msgspec

    from distced.detectors.batch_run.output import progress_bars
    from distced.middleware.cli.output import messages, print_json
    from distced.middleware.history.layout import check_history
    from distced.simulations.ingest.compaction import Compaction
    from distced.simulations.ingest.recordings import alone, writing
    from distced.simulations.replay.runners import LOG, TASKS, Inline, Spark, check_master, session_of

    started = time.perf_counter()
    if master != INLINE:
        check_master(master)
    check_history(history)
    with alone(history), writing(history):
        compaction = Compaction(history)
        # One merger is one task, for which nobody need start Spark.
        session = None
        if master != INLINE and len(compaction.mergers) > 1:
            session = session_of(master, compaction.work / LOG)
        try:
            runner = Inline() if session is None else Spark(session, compaction.work.absolute())
            with progress_bars(None) as bars:
                task = bars.add_task("compacting", total=max(1, compaction.rows), visible=bool(compaction.mergers))
                compaction.perform(runner, lambda rows: bars.update(task, completed=rows), keep=keep)
        finally:
            if session is not None:
                session.stop()
                shutil.rmtree(compaction.work / TASKS, ignore_errors=True)
                (compaction.work / LOG).unlink(missing_ok=True)
        compaction.clear()
    good = [each for each in compaction.done if not each.trouble]
    bad = [each for each in compaction.done if each.trouble]
    summary = {
        "files_before": len(compaction.history.files),
        "files": len(compaction.history.files) - sum(each.files - 1 for each in good),
        "rows": sum(each.rows for each in good),
        "repeated": sum(each.repeated for each in good),
        "bytes_before": sum(each.bytes for each in good),
        "bytes": sum(each.size for each in good),
        "left_before": compaction.left,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if as_json:
        problems = [each.error.as_dict() for each in compaction.history.problems]
        print_json({**summary, "compacted": msgspec.to_builtins(compaction.done), "problems": problems}, indent=None)
        return int(bool(bad))
    console = messages()
    for each in bad[:_SHOWN]:
        console.print(f"! {each.day} {each.type}: {each.trouble}")
    for problem in compaction.history.problems[:_SHOWN]:
        console.print(f"! {problem.error}")
    said = [f"{summary['files_before']:,} files are {summary['files']:,}", f"{summary['rows']:,} events put together"]
    if summary["repeated"]:
        said.append(f"{summary['repeated']:,} more came again and were left out")
    if compaction.left:
        said.append(f"{compaction.left:,} old files were still there and are removed")
    console.print(", ".join(said) + f", in {summary['seconds']:.1f} s")
    return int(bool(bad))

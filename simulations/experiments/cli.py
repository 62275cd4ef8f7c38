"""`distced experiment`: run experiments from files, and write their reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.output import AsJson, messages, output, print_json
from distced.simulations.report import progress_bar

experiment = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Run experiments from files, and write reports of their results.",
)

SHOWN = 3
"""Number of failed cells of which the error is shown."""


@experiment.command("run")
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File, or name of a shipped experiment.")],
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cells at once; 0 for one on each processor. Default: 1, on Ray all.", min=0),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the results. Default: experiments/NAME.", show_default=False),
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Only the first N seeds of the file.", min=1)] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Run cells as tasks of Ray.")] = False,
    ray_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Join this Ray cluster, auto or HOST:PORT.", show_default=False)
    ] = "",
    report: Annotated[bool, typer.Option(help="Write the report afterwards.")] = True,
    as_json: AsJson = False,
) -> int:
    """Run an experiment, and write its report.

    Cells (one combination of factors and a seed each) that have a result of the same settings and code are not run
    again; an interrupted run goes on where it ended. Results are Parquet files. The exit code is 1 where cells failed.

    \b
    Examples:
      distced experiment run policies --jobs 2
      distced experiment run my.toml --seeds 2 --out /tmp/my
      distced experiment run policies --ray-address auto
    """
    from distced.simulations.experiments.experiment_file import load_experiment
    from distced.simulations.experiments.runner import Workers, run_experiment

    loaded = load_experiment(file, seeds=seeds)
    folder = out or Path("experiments") / loaded.name
    count = (os.cpu_count() or 1) if jobs == 0 else jobs
    workers = Workers(count, ray or bool(ray_address), ray_address)
    try:
        with progress_bar(steps=True, remaining=True) as on_progress:
            summary = run_experiment(loaded, folder, workers, on_progress)
    except KeyboardInterrupt:
        messages().print(f"interrupted; the same command goes on with what is left, in {folder}", highlight=False)
        raise
    page = _report(folder) if report and summary.done + summary.kept else None
    if as_json:
        print_json(
            {"cells": summary.cells, "kept": summary.kept, "done": summary.done, "failed": summary.failed,
             "seconds": summary.seconds, "folder": str(folder), "report": str(page) if page else None}
        )  # fmt: skip
        return 1 if summary.failed else 0
    console = output()
    console.print(
        f"{summary.cells:,} cells: {summary.done:,} run in {summary.seconds:,.0f} s of processor time, "
        f"{summary.kept:,} there already, {len(summary.failed):,} failed; {folder}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for name, error in list(summary.failed.items())[:SHOWN]:
        last = error.strip().rpartition("\n")[2]
        console.print(f"failed: {name}: {last}", markup=False, highlight=False, soft_wrap=True)
    if page is not None:
        console.print(f"report: {page}", highlight=False, soft_wrap=True)
    return 1 if summary.failed else 0


@experiment.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the shipped experiments and the kinds of experiments."""
    from distced.simulations.experiments.experiment_file import load_experiment, shipped
    from distced.simulations.experiments.kinds import MODULES, kind_named
    from distced.simulations.report import Column, ReportTable

    loaded = [load_experiment(path) for path in shipped()]
    if as_json:
        print_json(
            [{"name": each.name, "kind": each.kind.name, "title": each.title, "cells": len(each.cells()),
              "seeds": len(each.seeds)} for each in loaded]
        )  # fmt: skip
        return
    columns = (
        Column("name"),
        Column("kind"),
        Column("cells", format=","),
        Column("seeds", format=","),
        Column("title"),
    )
    rows = [(each.name, each.kind.name, len(each.cells()), len(each.seeds), each.title) for each in loaded]
    output().print(ReportTable(columns, rows).rendered())
    for name in MODULES:
        output().print(f"kind {name}: {kind_named(name).about}", highlight=False)


@experiment.command("report")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")],
) -> int:
    """Write the report of results: one HTML page, and each figure as PNG and SVG, in DIR/report."""
    output().print(str(_report(folder)), highlight=False, soft_wrap=True)
    return 0


def _report(folder: Path) -> Path:
    from distced.simulations.experiments.reporting.write_report import write_report

    return write_report(folder)

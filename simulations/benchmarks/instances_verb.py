"""What `distced bench instances` does with what it was asked for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from detectors.engines import chosen
from middleware.console_output import messages, output, print_json
from simulations.benchmarks.instances import measure
from simulations.benchmarks.patterns_verb import numbers
from simulations.plots import bars


def bench_instances(instances: str, events: int, *, report: Path | None, as_json: bool) -> int:
    """Measure, and show what came of it."""
    chosen("columnar", 0)
    counts = numbers(instances, "--instances")
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        figures = list(measure(counts, events, lambda what: progress.update(task, description=what)))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        rates = [(f"{each.instances:,}", each.rate) for each in figures]
        plot = bars(rates, title="events by live instances, columnar engine", unit="events/s")
        (report / "instances.svg").write_text(plot)
    if as_json:
        print_json([asdict(each) for each in figures])
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("instances", "bytes each", "allocated", "events/s", "stepwise: bytes each", "events/s"):
        table.add_column(name, justify="right")
    for each in figures:
        beside = ("", "")
        if each.stepwise_used is not None and each.stepwise_rate is not None:
            beside = (f"{each.stepwise_used:,.0f}", f"{each.stepwise_rate:,.0f}")
        row = (f"{each.instances:,}", f"{each.used:,.0f}", f"{each.allocated:,.0f}", f"{each.rate:,.0f}")
        table.add_row(*row, *beside)
    output().print(table)
    return 0

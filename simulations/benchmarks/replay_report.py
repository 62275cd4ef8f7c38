"""What `distced bench replay` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from middleware.console_output import messages, output, print_json
from simulations.benchmarks.replay import Figure, measure
from simulations.plots import bars

BESIDE = {"replay by key": "read, repartition, sort", "replay in stored order": "mapInArrow"}
"""What of Spark's own each replay is held to."""


def bench_replay(events: int, cores: int, seed: int, *, report: Path | None, as_json: bool) -> int:
    """Measure, and show what came of it."""
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        figures = measure(events, cores, seed, lambda what: progress.update(task, description=what))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        rates = [(f"{each.name}, {each.cores} core{'s' * (each.cores != 1)}", each.rate) for each in figures]
        (report / "replay.svg").write_text(bars(rates, title=f"replay of {events:,} events", unit="events/s"))
    if as_json:
        print_json(as_dict(figures))
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("pass", "cores", "seconds", "events/s", "found"):
        table.add_column(name, justify="left" if name == "pass" else "right")
    for each in figures:
        found = "" if each.found is None else f"{each.found:,}"
        table.add_row(each.name, str(each.cores), f"{each.seconds:.2f}", f"{each.rate:,.0f}", found)
    output().print(table)
    for line in lines(figures):
        output().print(line)
    return 0


def as_dict(figures: Sequence[Figure]) -> dict[str, Any]:
    """It as JSON."""
    return {
        "passes": [asdict(each) | {"events_per_second": round(each.rate)} for each in figures],
        "ratios": {f"{name} to {other}": round(ratio, 3) for name, other, ratio in ratios(figures)},
        "another_core": {name: round(ratio, 3) for name, ratio in gains(figures)},
    }


def lines(figures: Sequence[Figure]) -> Iterator[Text]:
    """What is to be read off."""
    for name, other, ratio in ratios(figures):
        yield Text.assemble(f"{name}: ", (f"{100 * ratio:.0f} %", "bold"), f" of Spark's own {other}")
    for name, ratio in gains(figures):
        yield Text.assemble(f"{name}: ", (f"{ratio:.2f} times", "bold"), " as fast as on one core")


def ratios(figures: Sequence[Figure]) -> Iterator[tuple[str, str, float]]:
    """Each replay to what it is held to."""
    cores = max(each.cores for each in figures)
    rates = {each.name: each.rate for each in figures if each.cores == cores}
    for name, other in BESIDE.items():
        yield name, other, rates[name] / rates[other]


def gains(figures: Sequence[Figure]) -> Iterator[tuple[str, float]]:
    """How many times as fast each replay is on all cores as on one."""
    cores = max(each.cores for each in figures)
    rates = {(each.name, each.cores): each.rate for each in figures}
    for name in BESIDE:
        if cores > 1 and (name, 1) in rates:
            yield name, rates[name, cores] / rates[name, 1]

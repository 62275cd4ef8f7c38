"""The figures of `distced bench replay`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from distced.simulations.benchmarks.replay import Figure
from distced.simulations.plots import bars

BESIDE = {"replay by key": "read, repartition, sort", "replay in stored order": "mapInArrow"}
"""What of Spark's own each replay is held to."""


def show(console: Console, figures: Sequence[Figure]) -> None:
    """For people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("pass", "cores", "seconds", "events/s", "found"):
        table.add_column(name, justify="left" if name == "pass" else "right")
    for each in figures:
        found = "" if each.found is None else f"{each.found:,}"
        table.add_row(each.name, str(each.cores), f"{each.seconds:.2f}", f"{each.rate:,.0f}", found)
    console.print(table)
    for line in lines(figures):
        console.print(line)


def as_dict(figures: Sequence[Figure]) -> dict[str, Any]:
    """For machines."""
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


def plots(figures: Sequence[Figure]) -> dict[str, str]:
    """The rate of each pass."""
    rates = [(f"{each.name}, {each.cores} core{'s' * (each.cores != 1)}", each.rate) for each in figures]
    return {"replay.svg": bars(rates, title=f"replay of {figures[0].events:,} events", unit="events/s")}

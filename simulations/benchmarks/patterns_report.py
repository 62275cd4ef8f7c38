"""The figures of `distced bench patterns`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from simulations.benchmarks.patterns import Throughput
from simulations.plots import bars


def as_dict(figures: Sequence[Throughput]) -> list[dict[str, Any]]:
    """Every figure."""
    return [asdict(each) for each in figures]


def show(console: Console, figures: Sequence[Throughput]) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    names = ("template", "patterns", "zipf", "selectivity", "indexes", "events/s", "matches")
    for name in (*names, "looked at", "live", "to add", "to compile"):
        table.add_column(name, justify="left" if name in ("template", "indexes") else "right")
    for each in figures:
        table.add_row(
            each.template,
            f"{each.patterns:,}",
            f"{each.zipf:g}",
            f"{each.selectivity:g}",
            "yes" if each.indexed else "no",
            f"{each.rate:,.0f}",
            f"{each.matches:,}",
            f"{each.touched:,.1f}",
            f"{each.live:,}",
            f"{each.add_ms:.2f} ms",
            f"{each.compile_ms:.2f} ms",
        )
    console.print(table)
    console.print()
    console.print("looked at: instances and starts, for each event")


def plots(figures: Sequence[Throughput]) -> dict[str, str]:
    """A file for the throughputs."""
    named = [(_name(each), each.rate) for each in figures]
    return {"patterns.svg": bars(named, title="many patterns in one pass", unit="events/s")}


def _name(figure: Throughput) -> str:
    about = f"{figure.template}, {figure.patterns:,}"
    about += f", zipf {figure.zipf:g}, selectivity {figure.selectivity:g}"
    return about if figure.indexed else f"{about}, no indexes"

"""The figures of `distced bench instances`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.instances import Kept
from distced.simulations.plots import bars


def as_dict(figures: Sequence[Kept]) -> list[dict[str, Any]]:
    """Every figure."""
    return [asdict(each) for each in figures]


def show(console: Console, figures: Sequence[Kept]) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("instances", "bytes each", "allocated", "events/s", "stepwise: bytes each", "events/s"):
        table.add_column(name, justify="right")
    for each in figures:
        beside = ("", "")
        if each.stepwise_used is not None and each.stepwise_rate is not None:
            beside = (f"{each.stepwise_used:,.0f}", f"{each.stepwise_rate:,.0f}")
        row = (f"{each.instances:,}", f"{each.used:,.0f}", f"{each.allocated:,.0f}", f"{each.rate:,.0f}")
        table.add_row(*row, *beside)
    console.print(table)


def plots(figures: Sequence[Kept]) -> dict[str, str]:
    """Rates by the number of instances."""
    rates = [(f"{each.instances:,}", each.rate) for each in figures]
    return {"instances.svg": bars(rates, title="events by live instances, columnar engine", unit="events/s")}

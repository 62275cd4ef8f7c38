"""The figures of `distced bench seq3`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.seq3 import Measured
from distced.simulations.plots import bars


def as_dict(figures: Sequence[Measured]) -> list[dict[str, Any]]:
    """Every figure."""
    return [asdict(each) for each in figures]


def sound(figures: Sequence[Measured]) -> bool:
    """Whether each found as many matches as there are, where that is known."""
    return all(each.expected in (None, each.matches) for each in figures)


def show(console: Console, figures: Sequence[Measured]) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("question", "by", "events", "matches", "expected", "events/s", "of by hand", "to start"):
        table.add_column(name, justify="left" if name in ("question", "by") else "right")
    for each in figures:
        matches, expected = ("" if count is None else f"{count:,}" for count in (each.matches, each.expected))
        starting = "" if each.starting is None else f"{each.starting:.2f} s"
        row = (f"{each.events:,}", matches, expected, f"{each.rate:,.0f}", f"{each.ratio:,.1%}", starting)
        table.add_row(each.question, each.by, *row)
    console.print(table)


def plots(figures: Sequence[Measured]) -> dict[str, str]:
    """The rate of each way to answer."""
    rates = [(f"{each.question}, {each.by}", each.rate) for each in figures]
    most = max((each.events for each in figures), default=0)
    return {"seq3.svg": bars(rates, title=f"seq3, {most:,} events", unit="events/s")}

"""The figures of `distced bench place`, for people, machines and plots."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from simulations.benchmarks.place import PlaceFigures
from simulations.plots import bars


def as_dict(figures: PlaceFigures) -> dict[str, Any]:
    """Every figure."""
    told = asdict(figures)
    told["rows"] = [
        asdict(each)
        | {
            "total_ms": each.total_ms,
            "total_median_ms": each.median_ms,
            "total_best_ms": min(each.total_ms),
            "total_worst_ms": max(each.total_ms),
            "anew_median_ms": median(each.anew_ms),
        }
        for each in figures.rows
    ]
    return told


def show(console: Console, figures: PlaceFigures) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    numbers = ("median ms", "best", "worst", "update", "ways", "suggest", "anew ms", "candidates", "sites")
    for name in ("policy", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for each in figures.rows:
        times = [each.median_ms, min(each.total_ms), max(each.total_ms)]
        times += [median(each.update_ms), median(each.ways_ms), median(each.suggest_ms), median(each.anew_ms)]
        row = [f"{value:.2f}" for value in times]
        table.add_row(each.policy, *row, f"{each.candidates}", f"{each.sites}")
    console.print(table)
    console.print(
        f"\n{figures.detectors:,} detectors on {figures.nodes:,} nodes, {figures.sources:,} sources. Times of the "
        f"processor; update, ways, suggest: medians of the parts; anew: with a situation made for each. It was made "
        f"from the directory in {figures.first_ms:.0f} ms."
    )


def plots(figures: PlaceFigures) -> dict[str, str]:
    """SVG by file name."""
    title = f"Place one more beside {figures.detectors:,} detectors on {figures.nodes:,} nodes"
    return {"place.svg": bars([(each.policy, each.median_ms) for each in figures.rows], title=title, unit="ms")}

"""The figures of `distced bench place`, for people, machines and plots."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.place import PlaceFigures
from distced.simulations.plots import bars


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
    told["decided"] = [
        asdict(each)
        | {
            "total_ms": each.total_ms,
            "total_median_ms": each.median_ms,
            "total_best_ms": min(each.total_ms),
            "total_worst_ms": max(each.total_ms),
        }
        for each in figures.decided
    ]
    return told


def show(console: Console, figures: PlaceFigures) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    numbers = ("median ms", "best", "worst", "update", "ways", "suggest", "anew ms", "candidates", "sites")
    for name in ("policy", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for each in figures.rows:
        times = [*_three(each.total_ms), *map(median, (each.update_ms, each.ways_ms, each.suggest_ms, each.anew_ms))]
        table.add_row(each.policy, *(f"{value:.2f}" for value in times), f"{each.candidates}", f"{each.sites}")
    console.print(table)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    numbers = ("median ms", "best", "worst", "update", "identify", "decide")
    for name in ("a node decides", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for node in figures.decided:
        times = [*_three(node.total_ms), *map(median, (node.update_ms, node.identify_ms, node.decide_ms))]
        table.add_row(node.policy, *(f"{value:.2f}" for value in times))
    console.print()
    console.print(table)
    console.print(
        f"\n{figures.detectors:,} detectors on {figures.nodes:,} nodes, {figures.sources:,} sources. Times of the "
        f"processor; update, ways, suggest, identify, decide: medians of the parts; anew: with a situation made for "
        f"each. It was made from the directory in {figures.first_ms:.0f} ms."
    )


def _three(times: list[float]) -> tuple[float, float, float]:
    return median(times), min(times), max(times)


def plots(figures: PlaceFigures) -> dict[str, str]:
    """SVG by file name."""
    title = f"Place one more beside {figures.detectors:,} detectors on {figures.nodes:,} nodes"
    rows = [(each.policy, each.median_ms) for each in figures.rows]
    rows += [(f"a node, {each.policy}", each.median_ms) for each in figures.decided]
    return {"place.svg": bars(rows, title=title, unit="ms")}

"""The figures of `distced bench plan`, for people, machines and plots."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.plan import PlanFigures
from distced.simulations.plots import bars


def as_dict(figures: PlanFigures) -> dict[str, Any]:
    """Every figure."""
    told = asdict(figures) | {"sound": figures.sound}
    told["rows"] = [
        asdict(each)
        | {
            "plan_median_ms": median(each.plan_ms),
            "plan_best_ms": min(each.plan_ms),
            "plan_worst_ms": max(each.plan_ms),
            "compile_median_ms": median(each.compile_ms),
            "ratio": each.ratio,
        }
        for each in figures.rows
    ]
    return told


def show(console: Console, figures: PlanFigures) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    words = ("shape", "in catalogue")
    numbers = ("atoms", "plan ms", "best", "worst", "compile ms", "naive ms", "naive/plan", "reused", "atoms left")
    for name in (*words, *numbers):
        table.add_column(name, justify="left" if name in words else "right")
    for each in figures.rows:
        times = [median(each.plan_ms), min(each.plan_ms), max(each.plan_ms), median(each.compile_ms)]
        row = [f"{each.atoms}", *(f"{value:.1f}" for value in times), f"{each.naive_ms:,.0f}", f"{each.ratio:,.0f}"]
        table.add_row(each.shape, each.fill, *row, f"{each.reused}", f"{each.left}")
    console.print(table)
    console.print(
        f"\n{figures.catalogue:,} detectors in the catalogue, made in {figures.build_s:.1f} s. One is added in "
        f"{figures.add_us:.0f} µs and removed in {figures.remove_us:.0f} µs; it needs {figures.entry_bytes / 1024:.1f} "
        f"KiB there, and {figures.plan_bytes / 1024:.1f} KiB for its plan."
    )
    samples = {each.shape: f"{each.shape} {each.measured:,} of {each.runs:,}" for each in figures.rows}
    console.print(f"naive: reckoned from a sample of the runs that may be detectors: {', '.join(samples.values())}.")
    if collected := sum(each.collected for each in figures.rows):
        console.print(
            f"worst: in {collected} of the rounds Python collected all garbage, the catalogue looked through."
        )
    if not figures.sound:
        console.print("WRONG: a detector was reused that detects something else.")


def plots(figures: PlanFigures) -> dict[str, str]:
    """SVG by file name."""
    times = [(f"{each.shape}, {each.fill}", median(each.plan_ms)) for each in figures.rows]
    title = f"Plan {max(each.atoms for each in figures.rows)} atoms against {figures.catalogue:,} detectors"
    ratios = [(f"{each.shape}, {each.fill}", each.ratio) for each in figures.rows]
    return {
        "plan.svg": bars(times, title=title, unit="ms"),
        "plan-ratio.svg": bars(ratios, title="The naive way takes so many times as long", unit="×"),
    }

"""The figures of `distced bench patterns`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.patterns import WITHOUT, Throughput
from distced.simulations.plots import lines


def as_dict(figures: Sequence[Throughput]) -> list[dict[str, Any]]:
    """Every figure."""
    return [asdict(each) for each in figures]


def sound(figures: Sequence[Throughput]) -> bool:
    """Whether all variants found as many matches in the same events."""
    return all(each.matches == each.expected for each in figures)


def show(console: Console, figures: Sequence[Throughput]) -> None:
    """The same for people."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    words = ("template", "variant")
    names = ("template", "patterns", "zipf", "selectivity", "variant", "events/s", "ratio", "matches", "looked at")
    for name in (*names, "live", "states", "to add", "to remove", "to compile"):
        table.add_column(name, justify="left" if name in words else "right")
    for each in figures:
        table.add_row(
            each.template,
            f"{each.patterns:,}",
            f"{each.zipf:g}",
            f"{each.selectivity:g}",
            each.variant,
            f"{each.rate:,.0f}",
            f"{each.ratio:.3g}",
            _matches(each),
            f"{each.touched:,.1f}",
            "" if each.live is None else f"{each.live:,}",
            "" if each.states is None else f"{each.states:,}",
            "" if each.add_ms is None else f"{each.add_ms:.2f} ms",
            "" if each.remove_ms is None else f"{each.remove_ms:.2f} ms",
            "" if each.add_ms is None else f"{each.compile_ms:.2f} ms",
        )
    console.print(table)
    console.print()
    console.print("predicates alone: the baseline, the static predicates of the first steps and nothing else")
    console.print("ratio: against the baseline")
    console.print("looked at: instances and starts, for each event; of the baseline the predicates it satisfies")
    few = [each for each in figures if each.variant == "without any"]
    if few:
        most = max(each.patterns for each in few)
        console.print(f"without any indexes: {WITHOUT:,} events at most, and no more than {most:,} patterns")
    if not sound(figures):
        console.print("matches differ: (of so many) is what was found with indexes in the same events")


def plots(figures: Sequence[Throughput]) -> dict[str, str]:
    """A file for the templates side by side, and one for the variants of each."""
    varied = [name for name in ("zipf", "selectivity") if len({getattr(each, name) for each in figures}) > 1]
    across = varied[0] if varied else "patterns"
    name = f"patterns-{across}" if varied else "patterns"
    drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in figures:
        point = (float(getattr(each, across)), each.rate)
        if each.variant == "with indexes":
            drawn.setdefault("", {}).setdefault(each.template, []).append(point)
        drawn.setdefault(f"-{each.template}", {}).setdefault(each.variant, []).append(point)
    made = {}
    for of, series in drawn.items():
        title = f"{of[1:]}: what indexes and merging do" if of else "many patterns in one pass"
        plot = lines(series, title=title, across=across, unit="events/s", logarithmic=bool(of))
        made[f"{name}{of}.svg"] = plot
    return made


def _matches(figure: Throughput) -> str:
    if figure.matches is None:
        return ""
    if figure.matches == figure.expected:
        return f"{figure.matches:,}"
    return f"{figure.matches:,} (of {figure.expected:,})"

"""How far policies are from the optimum: for people, machines and plots."""

from __future__ import annotations

from dataclasses import asdict
from statistics import mean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.policies.distribution.policy import NAMED
from distced.simulations.benchmarks.placement import REPLANNED, SETTLED, WITHIN, GapFigures
from distced.simulations.placement.evaluation import OWN
from distced.simulations.plots import bars


def show(console: Console, found: GapFigures) -> None:
    """For people: the gap of each heuristic by each metric, at the median and on average."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("heuristic")
    for metric in found.metrics:
        for what in (metric, "mean", "most"):
            table.add_column(what, justify="right")
    for name in (*NAMED, SETTLED, REPLANNED):
        cells = []
        for metric in found.metrics:
            gaps = found.gaps(metric, name)
            cells += [f"{figure:+.1%}" for figure in (median(gaps), mean(gaps), max(gaps))]
        table.add_row(name, *cells)
    console.print(table)
    nodes = [each.nodes for each in found.tried]
    patterns = [each.patterns for each in found.tried]
    console.print(
        f"\n{len(found.tried)} instances of {min(nodes)} to {max(nodes)} nodes with {min(patterns)} to {max(patterns)} "
        "patterns. How far each is from the optimum: at the median, on average, at the most; of reliability in "
        f"percentage points of what is lost with a node. {SETTLED.capitalize()} and {REPLANNED} is the policy that is "
        f"called after the metric ({', '.join(OWN[metric] for metric in found.metrics)})."
    )
    for metric in found.metrics:
        rows = [each for one in found.tried for each in one.by_metric if each.metric == metric]
        proven, name_gap = sum(each.proven for each in rows), found.best(metric)
        rest = "" if proven == len(rows) else f", the others to {max(each.open for each in rows):.1%}"
        solver = median(each.seconds["optimum"] for each in rows)
        console.print(
            f"{metric}: the best heuristic is {name_gap[0]}, {name_gap[1]:+.2%} at the median (wanted {WITHIN:.0%}); "
            f"optimum proven in {proven} of {len(rows)}{rest}, in {solver:.2f} s at the median"
        )


def as_dict(found: GapFigures) -> dict[str, Any]:
    """Every figure."""
    return {
        "instances": len(found.tried),
        "wanted": WITHIN,
        "holds": found.holds,
        "solver_seconds": found.limit,
        "best": {
            metric: dict(zip(("heuristic", "median"), found.best(metric), strict=True)) for metric in found.metrics
        },
        "gaps": {
            metric: {
                name: {"median": median(gaps), "mean": mean(gaps), "most": max(gaps), "least": min(gaps)}
                for name in found.heuristics(metric)
                if (gaps := found.gaps(metric, name))
            }
            for metric in found.metrics
        },
        "tried": [asdict(each) for each in found.tried],
    }


def plots(found: GapFigures) -> dict[str, str]:
    """SVG by file name."""
    made = {}
    for metric in found.metrics:
        rows = [(name, max(median(found.gaps(metric, name)), 0.0) * 100) for name in found.heuristics(metric)]
        made[f"placement-{metric}.svg"] = bars(
            rows, title=f"{metric}: from the optimum, median of {len(found.tried)} instances", unit="%"
        )
    return made

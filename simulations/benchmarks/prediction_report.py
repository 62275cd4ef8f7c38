"""The figures of `distced bench prediction`, for people, machines and plots."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from distced.simulations.benchmarks.prediction import OPTIMUM, POLICIES, WITHIN, PredictionFigures
from distced.simulations.placement.what_if import LEAST
from distced.simulations.plots import bars


def show(console: Console, found: PredictionFigures) -> None:
    """For people: how far predictions are off, by whose placements they are of."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("placed by", "placements", "moved", "links", "median", "most"):
        table.add_column(name, justify="left" if name == "placed by" else "right")
    for policy in (*POLICIES, OPTIMUM, ""):
        mine = [each for each in found.tried if policy in ("", each.policy)]
        off = found.off(policy)
        table.add_row(
            policy or "all",
            f"{len(mine):,}",
            f"{sum(not each.settled for each in mine):,}",
            f"{len(off):,}",
            f"{found.middle(policy):.1%}",
            f"{max(off, default=0.0):.1%}",
        )
    console.print(table)
    nodes = [each.nodes for each in found.tried]
    networks = _counted(len({each.seed for each in found.tried}), "network")
    console.print(
        f"\n{networks} of {min(nodes)} to {max(nodes)} nodes. How far bytes predicted of "
        f"links that carry at least {LEAST:g} B/s are off from those measured (wanted {WITHIN:.0%}); "
        "moved: detectors moved while it was counted, so there is no one placement to predict."
    )


def as_dict(found: PredictionFigures) -> dict[str, Any]:
    """For machines: every link of every placement."""
    return {
        "wanted": WITHIN,
        "holds": found.holds,
        "median": found.middle(),
        "most": max(found.off(), default=0.0),
        "placements": [asdict(each) for each in found.tried],
    }


def plots(found: PredictionFigures) -> dict[str, str]:
    """The links in ten groups, from the best predicted to the worst."""
    off = sorted(found.off())
    rows = [(f"{share} %", 100 * off[min(len(off) - 1, len(off) * share // 100)]) for share in (10, 25, 50, 75, 90, 99)]
    title = f"bytes of links: off by at most, for so many of {len(off):,} links"
    return {"prediction.svg": bars(rows if off else [], title=title, unit="%")}


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"

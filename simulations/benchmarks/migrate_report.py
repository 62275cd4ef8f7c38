"""The figures of `distced bench migrate`, for people, machines and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from distced.simulations.benchmarks.migrate import MigrateFigures, MoveFigures
from distced.simulations.plots import bars, histogram

_COLUMNS: tuple[tuple[str, Callable[[MoveFigures], float]], ...] = (
    ("pause", lambda each: each.pause),
    ("pause without a move", lambda each: each.still_pause),
    ("extra delay", lambda each: each.delay),
    ("extra delay without a move", lambda each: each.still_delay),
)


def as_dict(figures: MigrateFigures) -> dict[str, Any]:
    """Every figure; times in milliseconds."""
    return {
        "nodes": figures.nodes,
        "sites": figures.sites,
        "moves": [
            {
                "origin": each.origin,
                "target": each.target,
                "steps_ms": {name: _ms(at) for name, at in each.steps.items()},
                "state_bytes": each.state,
                **{f"{name.replace(' ', '_')}_ms": _ms(of(each)) for name, of in _COLUMNS},
            }
            for each in figures.moves
        ],
        "failed": figures.failed,
        **{f"{name.replace(' ', '_')}_ms": _spread([of(each) for each in figures.moves]) for name, of in _COLUMNS},
        "steps_ms": {name: _ms(at) for name, at in _steps(figures)},
        "state_bytes": max((each.state for each in figures.moves), default=0),
        "usual_gap_ms": _ms(figures.usual_gap),
        "usual_delay_ms": _ms(figures.usual_delay),
        "published": figures.published,
        "expected": figures.expected,
        "received": figures.received,
        "lost": figures.lost,
        "doubled": figures.doubled,
        "wrong": figures.wrong,
        "sound": figures.sound,
    }


def show(console: Console, figures: MigrateFigures) -> None:
    """The same as tables."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("of the subscriber, in ms")
    for name in ("median", "p95", "most"):
        table.add_column(name, justify="right")
    for name, of in _COLUMNS:
        spread = _spread([of(each) for each in figures.moves])
        table.add_row(name, *(f"{spread[part]:.1f}" for part in ("p50", "p95", "max")))
    console.print(table)
    state = max((each.state for each in figures.moves), default=0)
    usual = f"usually a notification every {_ms(figures.usual_gap):.2f} ms, {_ms(figures.usual_delay):.2f} ms late"
    console.print(f"\n{usual}; state of {state:,} bytes")
    steps = ", ".join(f"{name} {_ms(at):.1f}" for name, at in _steps(figures))
    console.print(Text(f"steps, median ms after a move was asked for: {steps}", "dim"))
    moves = f"{len(figures.moves)} moves" + (f", {figures.failed} failed" if figures.failed else "")
    came = f"{figures.published:,} events, {figures.received:,} of {figures.expected:,} notifications"
    faults = f"{figures.lost} lost, {figures.doubled} doubled, {figures.wrong} wrong"
    console.print(Text(f"{moves}, {came}: {faults}", "bold" if figures.sound else "bold red"))


def plots(figures: MigrateFigures) -> dict[str, str]:
    """SVG by file name."""
    at = figures.arrivals.at
    gaps = [(after - before) / 1e6 for before, after in pairwise(at)]
    pauses = [
        (f"{name}, {share}", _spread([of(each) for each in figures.moves])[part])
        for name, of in _COLUMNS[:2]
        for share, part in (("median", "p50"), ("p95", "p95"), ("most", "max"))
    ]
    steps = [(name, _ms(at)) for name, at in _steps(figures)]
    return {
        "migrate-pauses.svg": bars(pauses, title="The subscriber's longest wait, beyond the usual", unit="ms"),
        "migrate-steps.svg": bars(steps, title="Steps of a move, after it was asked for, median", unit="ms"),
        "migrate-gaps.svg": histogram(gaps, title="Between notifications, moves included", unit="ms"),
        "migrate-delays.svg": histogram(
            [each / 1e6 for each in figures.arrivals.delays], title="Delay of notifications, moves included", unit="ms"
        ),
    }


def _steps(figures: MigrateFigures) -> list[tuple[str, float]]:
    """The median of each step, seconds after the move was asked for, in the order of steps."""
    names = dict.fromkeys(name for each in figures.moves for name in each.steps)
    medians = [(name, median(each.steps[name] for each in figures.moves if name in each.steps)) for name in names]
    return sorted(medians, key=lambda step: step[1])


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and the most, in milliseconds; 0 for no moves."""
    if not seconds:
        return dict.fromkeys(("p50", "p95", "max"), 0.0)
    ordered = sorted(seconds)
    p95 = ordered[ceil(0.95 * len(ordered)) - 1]
    return {"p50": _ms(median(ordered)), "p95": _ms(p95), "max": _ms(ordered[-1])}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)

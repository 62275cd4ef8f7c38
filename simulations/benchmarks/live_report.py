"""The figures of `distced bench live`, for people, machines and plots."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from distced.simulations.benchmarks.live import LiveFigures
from distced.simulations.plots import bars, histogram


def as_dict(figures: LiveFigures) -> dict[str, Any]:
    """Every figure, and the ratios that count."""
    rates = {
        f"{receiver}, frames of {frame}": [round(rate) for rate in rounds]
        for (receiver, frame), rounds in figures.rates.items()
    }
    delays = {
        receiver: {
            name: round(figures.percentile(receiver, share) * 1000, 3) for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        for receiver in figures.delays
    }
    return {
        "events_per_second": rates,
        "rate_ratio": round(figures.best("node", 1) / figures.best("bare", 1), 3),
        "delay_ms": delays,
        "p99_above_ms": round((figures.percentile("node", 0.99) - figures.percentile("bare", 0.99)) * 1000, 3),
        "lost": {f"{receiver}, frames of {frame}": lost for (receiver, frame), lost in figures.lost.items()},
        "profiles": {
            f"frames of {frame}": [{"function": name, "seconds": round(seconds, 3)} for name, seconds in profile]
            for frame, profile in figures.profiles.items()
        },
    }


def show(console: Console, figures: LiveFigures) -> None:
    """The same as tables."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("events a message", "bare paho, events/s", "broker node, events/s", "of bare", "lost"):
        table.add_column(name, justify="right")
    for frame in sorted({frame for _, frame in figures.rates}):
        bare, node = figures.best("bare", frame), figures.best("node", frame)
        lost = f"{figures.lost['bare', frame]} / {figures.lost['node', frame]}"
        table.add_row(f"{frame}", f"{bare:,.0f}", f"{node:,.0f}", f"{node / bare:.0%}", lost)
    console.print(table)
    console.print()
    for receiver, what in (("bare", "bare paho callback"), ("node", "detected, at the subscriber")):
        p50, p99 = (figures.percentile(receiver, share) * 1000 for share in (0.5, 0.99))
        console.print(f"delay at 1,000 events/s, {what}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    above = (figures.percentile("node", 0.99) - figures.percentile("bare", 0.99)) * 1000
    console.print(Text(f"p99 above bare: {above:.2f} ms\n", "bold"))
    for frame, profile in figures.profiles.items():
        what = f"a node's own time by function, under the profiler, frames of {frame}:"
        console.print(Text(what, "dim"))
        for name, seconds in profile:
            console.print(f"  {seconds:6.3f} s  {name}")


def plots(figures: LiveFigures) -> dict[str, str]:
    """SVG by file name."""
    rates = [(f"{receiver}, {frame} a message", max(rounds)) for (receiver, frame), rounds in figures.rates.items()]
    drawn = {"live-rates.svg": bars(rates, title="Events a second", unit="events/s")}
    for receiver, delays in figures.delays.items():
        milliseconds = [delay * 1000 for delay in delays]
        drawn[f"live-delay-{receiver}.svg"] = histogram(milliseconds, title=f"Delay, {receiver}", unit="ms")
    return drawn

"""Reports of a placement analysis: tables, JSON, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distced.middleware.cli.output import error_as_dict
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time
from distced.policies.distribution.situation.rates import hosting
from distced.policies.explaining.placement_text import SHORT
from distced.policies.topology.topology_drawing import Hosted, Overlay
from distced.simulations.placement.analysis import Advice, Analysis, Option
from distced.simulations.placement.evaluation import Metric
from distced.simulations.placement.figures import counted_as_dict, show_counted
from distced.simulations.placement.history_figures.counts import HistoryCounts
from distced.simulations.placement.what_if import LEAST, Replayed


def show(
    console: Console,
    found: Analysis,
    counts: HistoryCounts,
    replayed: Sequence[Replayed] = (),
    *,
    figures: bool = False,
) -> None:
    """Table of policies, advice for each pattern, and the simulations, for reading.

    Args:
        figures: show counts and traffic between sites as well.
    """
    instance, best = found.instance, found.best
    limited = instance.empty.knows_capacity
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy")
    for name in (found.metric, "gap", "bytes", "delay", "busiest", "lost"):
        table.add_column(name, justify="right")
    table.add_column("where the detectors stand")
    for each in found.options:
        cost = each.cost
        cells = [
            show_cost(cost.by(found.metric), found.metric, limited),
            "" if each is found.options[-1] else show_gap(each, found.metric),
            show_rate(cost.bytes),
            show_time(cost.delay),
            show_cost(cost.peak, "load", limited),
            f"{cost.lost:.1%}",
        ]
        standing = places(each.detectors)
        if cost.overloaded:
            standing += f"; too much to do for {', '.join(cost.overloaded)}"
        table.add_row(each.name, *cells, escape(standing))
    console.print(table)
    for name, error in found.refused.items():
        console.print(f"{name}: {error}", markup=False)
    proven = "proven" if best.proven else f"not proven: none is below {show_cost(best.bound, found.metric, limited)}"
    console.print(
        f"\n{counts.events:,} events in {show_time(counts.duration)}; {len(instance.space.ways)} detectors to choose "
        f"from; the optimum by {found.metric} took {best.seconds:.1f} s, {proven}\n",
        markup=False,
    )
    for advice in found.advice:
        console.print(advice_text(advice), markup=False, soft_wrap=True)
    if figures:
        console.print()
        show_counted(console, instance, best.cost)
    for run in replayed:
        console.print()
        _show_replayed(console, run)


def show_cost(figure: float, metric: Metric, limited: bool) -> str:
    """The figure of a metric.

    Args:
        limited: whether capacities are known, so that a load is a share.
    """
    match metric:
        case "bandwidth":
            return show_rate(figure)
        case "latency":
            return show_time(figure)
        case "load":
            return f"{show_figure(figure * 100)} %" if limited else f"{show_figure(figure)}/s"
        case _:
            return f"{figure:.1%}"


def show_gap(option: Option, metric: Metric) -> str:
    """Distance of an option from the optimum."""
    if option.gap == float("inf"):
        return "∞"
    return f"{option.gap * 100:+.1f} points" if metric == "reliability" else f"{option.gap:+.1%}"


def places(detectors: Mapping[str, DetectorEntry]) -> str:
    """Number of detectors on each node."""
    hosted: dict[str, int] = {}
    for entry in detectors.values():
        for node in hosting(entry):
            hosted[node] = hosted.get(node, 0) + 1
    return ", ".join(f"{node} {count}" for node, count in sorted(hosted.items()))


def advice_text(advice: Advice) -> str:
    """Advice on a pattern, in a sentence or two."""
    how = "whole" if not advice.parts else f"reading {' and '.join(f'({part})' for part in advice.parts)}"
    said = (
        f"{advice.pattern}: on {', '.join(advice.nodes)}, {how}; {show_figure(advice.rate)} composite events/s, "
        f"{show_figure(advice.selectivity)} for each event read, heard after {show_time(advice.delay)}"
    )
    if advice.policy:
        same = set(advice.instead) == set(advice.nodes)
        there = "has it there, too" if same else f"would have it on {', '.join(advice.instead)}"
        said += f"; {advice.policy} {there}"
    return said


def as_dict(found: Analysis, counts: HistoryCounts, replayed: Sequence[Replayed] = ()) -> dict[str, Any]:
    """All figures: bytes and instances a second, times in nanoseconds."""
    return {
        "metric": found.metric,
        "events": counts.events,
        "duration_ns": counts.duration,
        **counted_as_dict(found.instance),
        "optimum": {
            "proven": found.best.proven,
            "bound": found.best.bound,
            "seconds": found.best.seconds,
            "variables": found.best.variables,
            "rows": found.best.rows,
        },
        "options": [_option(each, found.metric) for each in found.options],
        "refused": {name: error_as_dict(error) for name, error in found.refused.items()},
        "patterns": [
            {
                "pattern": each.pattern,
                "text": each.text,
                "detector": each.detector,
                "parts": list(each.parts),
                "nodes": list(each.nodes),
                "nearest_policy": each.policy or None,
                "nearest_nodes": list(each.instead),
                "rate": each.rate,
                "selectivity": each.selectivity,
                "delay_ns": round(each.delay),
            }
            for each in found.advice
        ],
        "what_if": [_replayed(each) for each in replayed],
    }


def overlay_of(found: Analysis) -> Overlay:
    """The best placement as an overlay of the drawn topology."""
    hosted: dict[str, list[Hosted]] = {}
    for name, entry in found.best.detectors.items():
        for node in hosting(entry):
            hosted.setdefault(node, []).append(Hosted(f"{name[:SHORT]} {entry.pattern}", new=True))
    flowing = {link: show_rate(amount) for link, amount in found.best.cost.links.items() if amount}
    return Overlay(f"the best by {found.metric}", hosted, flowing)


def _option(option: Option, metric: Metric) -> dict[str, Any]:
    cost = option.cost
    return {
        "policy": option.name,
        "cost": cost.by(metric),
        "gap": None if option.gap == float("inf") else option.gap,
        "bytes": cost.bytes,
        "delay_ns": cost.delay,
        "peak": cost.peak,
        "lost": cost.lost,
        "overloaded": list(cost.overloaded),
        "reasons": list(option.reasons),
        "links": [{"from": origin, "to": target, "bytes": amount} for (origin, target), amount in cost.links.items()],
        "traffic": [
            {"from": origin, "to": target, "bytes": amount} for (origin, target), amount in cost.traffic.items()
        ],
        "loads": {node: load for node, load in cost.loads.items() if load},
        "detectors": [
            {"id": name, "pattern": entry.pattern, "nodes": list(hosting(entry)), "parts": list(entry.parts)}
            for name, entry in option.detectors.items()
        ],
    }


def _show_replayed(console: Console, run: Replayed) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(f"{run.policy}, simulated")
    for name in ("measured", "predicted", "off"):
        table.add_column(name, justify="right")
    for each in run.links:
        if max(each.measured, each.predicted) >= LEAST:
            figures = (show_rate(each.measured), show_rate(each.predicted), f"{each.off:+.1%}")
            table.add_row(f"{each.origin} → {each.target}", *figures)
    console.print(table)
    console.print(
        f"{show_rate(run.measured)} measured, {show_rate(run.predicted)} predicted, over {run.seconds:g} s; "
        f"{'nothing moved meanwhile' if run.settled else 'detectors moved meanwhile, so this says little'}; "
        f"on the worst link {run.worst:.1%} off",
        markup=False,
    )
    for name, why in run.refused.items():
        console.print(f"{name} was refused: {why}", markup=False)


def _replayed(run: Replayed) -> dict[str, Any]:
    return {
        "policy": run.policy,
        "seconds": run.seconds,
        "settled": run.settled,
        # Without any measured traffic there is no relative error.
        "worst": run.worst if isfinite(run.worst) else None,
        "measured": run.measured,
        "predicted": run.predicted,
        "refused": dict(run.refused),
        "links": [
            {"from": each.origin, "to": each.target, "measured": each.measured, "predicted": each.predicted}
            for each in run.links
        ],
    }

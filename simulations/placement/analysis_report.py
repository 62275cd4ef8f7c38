"""Reports of a placement analysis: tables, JSON, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distced.middleware.cli.output import error_as_dict
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time
from distced.policies.distribution.situation.rates import flow_of, hosting
from distced.policies.explaining.placement_text import SHORT
from distced.policies.topology.drawing.topology_view import Hosted, Overlay
from distced.simulations.placement.analysis import Advice, Analysis, Option
from distced.simulations.placement.evaluation import Cost, Metric
from distced.simulations.placement.history_figures.counting import HistoryCounts
from distced.simulations.placement.problem import PlacementProblem
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


@dataclass(frozen=True, slots=True)
class Counted:
    """Figures of a detector that patterns may be made of.

    Attributes:
        text: of its pattern.
        of: the names of the patterns that may be made of it.
        reads: events a second that it reads as a whole.
        rate: composite events a second.
        selectivity: the same for each event that it reads.
        load: instances touched a second, as a whole.
    """

    detector: str
    text: str
    of: tuple[str, ...]
    reads: float
    rate: float
    selectivity: float
    load: float


def counted(instance: PlacementProblem) -> list[Counted]:
    """All detectors that patterns may be made of: each pattern before its parts, the largest parts first."""
    space = instance.space
    made = [(asked.name, space.made_of(root)) for root, asked in zip(space.roots, space.asked, strict=True)]
    found = []
    for name in dict.fromkeys((*space.roots, *reversed(space.ordered()))):
        foreseen, whole = instance.foreseen[name], space.whole(name)
        of = tuple(pattern for pattern, detectors in made if name in detectors)
        load = foreseen.loads.get("", 0.0)
        text = whole.compiled.text
        found.append(Counted(name, text, of, instance.reads(name), foreseen.rate, instance.selectivity(name), load))
    return found


def show_counted(console: Console, instance: PlacementProblem, cost: Cost) -> None:
    """Tables of figures, for reading.

    Args:
        cost: of the placement whose traffic is shown.
    """
    table = _table("source", "type", "at", *("events/s", "bytes"))
    for each in _streams(instance):
        table.add_row(each["source"], each["type"], each["site"], show_figure(each["rate"]), show_rate(each["bytes"]))
    console.print(table)
    console.print()
    table = _table("sub-pattern", "of", *("found/s", "selectivity", "instances/s"))
    for one in counted(instance):
        figures = (show_figure(one.rate), show_figure(one.selectivity), show_figure(one.load))
        table.add_row(escape(one.text), escape(", ".join(one.of)), *figures)
    console.print(table)
    console.print()
    targets = sorted({target for _, target in cost.traffic})
    table = _table("optimum, from", *(f"to {site}" for site in targets))
    for origin in sorted({origin for origin, _ in cost.traffic}):
        amounts = [cost.traffic.get((origin, target), 0.0) for target in targets]
        table.add_row(origin, *(show_rate(each) if each else "" for each in amounts))
    console.print(table)


def counted_as_dict(instance: PlacementProblem) -> dict[str, Any]:
    """The figures, for JSON."""
    return {
        "sources": _streams(instance),
        "sub_patterns": [
            {
                "detector": each.detector,
                "text": each.text,
                "of": list(each.of),
                "events_read": each.reads,
                "rate": each.rate,
                "selectivity": each.selectivity,
                "loads": dict(instance.foreseen[each.detector].loads),
            }
            for each in counted(instance)
        ],
    }


def _streams(instance: PlacementProblem) -> list[dict[str, Any]]:
    """Streams of each source that patterns read."""
    situation = instance.empty
    return [
        {
            "source": stream.name,
            "type": stream.type,
            "site": situation.site_of_home(situation.sources[stream.name].home),
            "rate": told.often,
            "bytes": flow_of(told),
        }
        for stream, told in sorted(instance.streams.items(), key=lambda each: (each[0].name, each[0].type))
        if stream.kind == "event"
    ]


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        words = ("source", "type", "at", "sub-pattern", "of", "optimum, from")
        table.add_column(escape(name), justify="left" if name in words else "right")
    return table

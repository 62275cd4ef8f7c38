"""Report of a placement analysis: tables and sentences for terminals, JSON for programs, an overlay of the topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec
from rich.console import Console

from distced.middleware.cli.output import error_as_dict
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time
from distced.policies.distribution.situation.rates import flow_of, hosting
from distced.policies.explaining.placement_text import SHORT
from distced.policies.topology.topology_drawing import Hosted, Overlay
from distced.simulations.placement.analysis import Advice, Analysis, Option
from distced.simulations.placement.evaluation import Cost, Metric
from distced.simulations.placement.history_figures.counting import HistoryCounts
from distced.simulations.placement.problem import PlacementProblem
from distced.simulations.placement.what_if import LEAST, Replayed
from distced.simulations.report import Cell, Column, ReportTable, number_columns


class SubPatternFigures(msgspec.Struct, frozen=True):
    """Figures of a detector that patterns may be made of.

    Attributes:
        of: names of these patterns.
        events_read: events a second that it reads as a whole.
        rate: composite events a second.
        selectivity: composite events for each event read.
        loads: instances touched a second, by the parts that it reads (`parts_key`).
    """

    detector: str
    text: str
    of: tuple[str, ...]
    events_read: float
    rate: float
    selectivity: float
    loads: dict[str, float]


def show(
    console: Console,
    found: Analysis,
    counts: HistoryCounts,
    replayed: Sequence[Replayed] = (),
    *,
    figures: bool = False,
) -> None:
    """Table of policies, advice by pattern, and the simulations; with `figures` counts and traffic between sites."""
    instance, best = found.instance, found.best
    limited = instance.empty.knows_capacity
    console.print(_options(found, limited).rendered())
    for name, error in found.refused.items():
        console.print(f"{name}: {error}", markup=False)
    proven = "proven" if best.proven else f"not proven: none is below {show_cost(best.bound, found.metric, limited)}"
    console.print(
        f"\n{counts.events:,} events in {show_time(counts.duration)}; {len(instance.space.alternatives)} detectors "
        f"to choose from; the optimum by {found.metric} took {best.seconds:.1f} s, {proven}\n",
        markup=False,
    )
    for advice in found.advice:
        console.print(advice_text(advice), markup=False, soft_wrap=True)
    for table in _figures(instance, best.cost) if figures else ():
        console.print()
        console.print(table.rendered())
    for run in replayed:
        console.print()
        console.print(_links(run).rendered())
        moved = "nothing moved meanwhile" if run.settled else "detectors moved meanwhile, which weakens the comparison"
        console.print(
            f"{show_rate(run.measured)} measured, {show_rate(run.predicted)} predicted, over {run.seconds:g} s; "
            f"{moved}; on the worst link {run.worst:.1%} off",
            markup=False,
        )
        for name, why in run.refused.items():
            console.print(f"{name} was refused: {why}", markup=False)


def _options(found: Analysis, limited: bool) -> ReportTable:
    rows: list[list[Cell]] = []
    for each in found.options:
        cost = each.cost
        hosted = Counter(node for entry in each.detectors.values() for node in hosting(entry))
        standing = ", ".join(f"{node} {count}" for node, count in sorted(hosted.items()))
        if cost.overloaded:
            standing += f"; over capacity: {', '.join(cost.overloaded)}"
        gap = None if each is found.options[-1] else show_gap(each, found.metric)
        figures = [show_cost(cost.by(found.metric), found.metric, limited), gap, show_rate(cost.bytes)]
        figures += [show_time(cost.delay), show_cost(cost.peak, "load", limited), f"{cost.lost:.1%}"]
        rows.append([each.name, *figures, standing])
    right = number_columns("", found.metric, "gap", "bytes", "delay", "busiest", "lost")
    return ReportTable([Column("policy"), *right, Column("where the detectors stand")], rows)


def _figures(instance: PlacementProblem, cost: Cost) -> list[ReportTable]:
    """Tables of sources, sub-patterns, and traffic between sites at the optimum."""
    sources = [
        [each["source"], each["type"], each["site"], show_figure(each["rate"]), show_rate(each["bytes"])]
        for each in _streams(instance)
    ]
    parts = [
        [each.text, ", ".join(each.of), *map(show_figure, (each.rate, each.selectivity, each.loads.get("", 0.0)))]
        for each in _sub_patterns(instance)
    ]
    targets = sorted({target for _, target in cost.traffic})
    traffic = [
        [origin, *(show_rate(each) if (each := cost.traffic.get((origin, to), 0.0)) else None for to in targets)]
        for origin in sorted({origin for origin, _ in cost.traffic})
    ]
    rates = number_columns("", "found/s", "selectivity", "instances/s")
    return [
        ReportTable([*map(Column, ("source", "type", "at")), *number_columns("", "events/s", "bytes")], sources),
        ReportTable([Column("sub-pattern"), Column("of"), *rates], parts),
        ReportTable([Column("optimum, from"), *number_columns("", *(f"to {site}" for site in targets))], traffic),
    ]


def _links(run: Replayed) -> ReportTable:
    rows = [
        [f"{each.origin} → {each.target}", show_rate(each.measured), show_rate(each.predicted), f"{each.off:+.1%}"]
        for each in run.links
        if max(each.measured, each.predicted) >= LEAST
    ]
    return ReportTable([Column(f"{run.policy}, simulated"), *number_columns("", "measured", "predicted", "off")], rows)


def show_cost(figure: float, metric: Metric, limited: bool) -> str:
    """The figure of a metric as text; a load is a share where capacities are known (`limited`)."""
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


def advice_text(advice: Advice) -> str:
    """Advice on a pattern, in a sentence or two."""
    how = "whole" if not advice.parts else f"reading {' and '.join(f'({part})' for part in advice.parts)}"
    said = (
        f"{advice.pattern}: on {', '.join(advice.nodes)}, {how}; {show_figure(advice.rate)} composite events/s, "
        f"{show_figure(advice.selectivity)} for each event read, received after {show_time(advice.delay)}"
    )
    if advice.policy:
        same = set(advice.instead) == set(advice.nodes)
        there = "has it there, too" if same else f"would have it on {', '.join(advice.instead)}"
        said += f"; {advice.policy} {there}"
    return said


def as_dict(found: Analysis, counts: HistoryCounts, replayed: Sequence[Replayed] = ()) -> dict[str, Any]:
    """All figures: bytes and instances a second, times in nanoseconds."""
    instance, best = found.instance, found.best
    return {
        "metric": found.metric,
        "events": counts.events,
        "duration_ns": counts.duration,
        "sources": _streams(instance),
        "sub_patterns": msgspec.to_builtins(_sub_patterns(instance)),
        "optimum": {name: getattr(best, name) for name in ("proven", "bound", "seconds", "variables", "rows")},
        "options": [_option(each, found.metric) for each in found.options],
        "refused": {name: error_as_dict(error) for name, error in found.refused.items()},
        "patterns": [
            msgspec.to_builtins(each) | {"nearest_policy": each.policy or None, "delay_ns": round(each.delay)}
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
        "links": _directed(cost.links),
        "traffic": _directed(cost.traffic),
        "loads": {node: load for node, load in cost.loads.items() if load},
        "detectors": [
            {"id": name, "pattern": entry.pattern, "nodes": list(hosting(entry)), "parts": list(entry.parts)}
            for name, entry in option.detectors.items()
        ],
    }


def _directed(amounts: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    return [{"from": origin, "to": target, "bytes": amount} for (origin, target), amount in amounts.items()]


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


def _sub_patterns(instance: PlacementProblem) -> list[SubPatternFigures]:
    """All detectors that patterns may be made of: each pattern before its parts, the largest parts first."""
    space = instance.space
    made = [(asked.name, space.made_of(root)) for root, asked in zip(space.roots, space.asked, strict=True)]
    return [
        SubPatternFigures(
            name,
            space.whole(name).compiled.text,
            tuple(pattern for pattern, detectors in made if name in detectors),
            instance.reads(name),
            instance.foreseen[name].rate,
            instance.selectivity(name),
            dict(instance.foreseen[name].loads),
        )
        for name in dict.fromkeys((*space.roots, *reversed(space.ordered())))
    ]


def _streams(instance: PlacementProblem) -> list[dict[str, Any]]:
    """Streams of each source that patterns read."""
    situation = instance.empty
    return [
        {
            "source": stream.name,
            "type": stream.type,
            "site": situation.site_of_home(situation.sources[stream.name].home),
            "rate": traffic.often,
            "bytes": flow_of(traffic),
        }
        for stream, traffic in sorted(instance.streams.items(), key=lambda each: (each[0].name, each[0].type))
        if stream.kind == "event"
    ]

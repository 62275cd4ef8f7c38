"""Figures of a history and a placement: sources, sub-patterns, and traffic between sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from distced.policies.distribution.choose.reasons import show_figure, show_rate
from distced.policies.distribution.situation.rates import flow_of
from distced.simulations.placement.evaluation import Cost
from distced.simulations.placement.problem import PlacementProblem


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

"""Reports of a run: tables for terminals, JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from distced.middleware.model.timestamps import MILLISECOND, SECOND, format_instant
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario.outcome import Comparison, LinkTraffic, ScenarioOutcome
from distced.simulations.report import Cell, Column, ReportTable, number_columns

AREAS = {"e": "events", "c": "composite", "d": "directory", "a": "administration", "x": "dead letters",
         "other": "JSON", "mqtt": "MQTT"}  # fmt: skip
"""Subjects of traffic, by the area of its topics."""

_NOTES_SHOWN = 12


def as_dict(
    outcome: ScenarioOutcome,
    compared: Mapping[str, Comparison],
    seconds: float,
    unfiltered: ScenarioOutcome | None = None,
) -> dict[str, Any]:
    """All figures, for JSON; of a run with filters beside those of the same scenario without."""
    scenario = outcome.scenario
    without = {} if unfiltered is None else _by_link(unfiltered.links)
    return {
        "seed": scenario.seed,
        "digest": outcome.digest,
        "complete": outcome.complete,
        "virtual_seconds": (outcome.ended - scenario.start) / SECOND,
        "seconds": round(seconds, 3),
        "messages": outcome.messages,
        "published": len(outcome.published),
        "lost": outcome.lost,
        "not_published": len(outcome.late),
        "bytes": outcome.bytes,
        "filters": None
        if unfiltered is None
        else {
            "left_out": dict(outcome.left_out),
            "bytes_without": unfiltered.bytes,
            "saved": unfiltered.bytes - outcome.bytes,
            "same": _same(outcome, unfiltered),
        },
        "cost": outcome.cost,
        "subscriptions": {
            name: {
                "pattern": each.asked.pattern,
                "policy": each.asked.distribution or scenario.distribution,
                "refused": each.refused or None,
                "detector": each.detector,
                "node": _host(outcome, each),
                "homes": list(each.homes),
                "found": len(each.found),
                "delay_ms": delays(each),
                "check": None
                if name not in compared
                else {"missing": len(compared[name].missing), "unexpected": len(compared[name].unexpected)},
            }
            for name, each in outcome.subscriptions.items()
        },
        "detectors": {
            name: {"node": each.node, "home": each.home, "replicas": list(each.replicas), "pattern": each.pattern,
                   "parts": list(each.parts)}
            for name, each in outcome.detectors.items()
        },
        "nodes": {
            name: {
                "site": each.site,
                "received": each.received,
                "detectors": each.detectors,
                "load": None if each.load is None else each.load.load,
                **{count.replace(" ", "_"): number for count, number in each.counts.items()},
            }
            for name, each in outcome.nodes.items()
        },
        "links": [
            {"from": each.origin, "to": each.target, "bytes": _named(each.bytes), "messages": _named(each.messages),
             "cost": each.cost,
             "saved": None if unfiltered is None else without.get((each.origin, each.target), 0) - _size(each)}
            for each in outcome.links
        ],
        "moved": [
            {"at": each.at / SECOND, "detector": each.detector, "from": each.origin, "to": each.node}
            for each in outcome.moved
        ],
        "notes": [
            {"at": each.at / SECOND, "node": each.node, "level": each.note.level, "event": each.note.event,
             **{key: str(value) for key, value in each.note.fields.items()}}
            for each in outcome.notes
        ],
        "dead_letters": [{"reason": each.reason, "message": each.message} for each in outcome.letters],
    }  # fmt: skip


def show(
    console: Console,
    outcome: ScenarioOutcome,
    compared: Mapping[str, Comparison],
    seconds: float,
    unfiltered: ScenarioOutcome | None = None,
) -> None:
    """All figures, in tables for reading; of a run with filters beside those of the same scenario without."""
    begin = outcome.scenario.start - outcome.scenario.lead
    console.print(
        f"{(outcome.ended - begin) / SECOND:.1f} s from {format_instant(begin)} in {seconds:.1f} s: "
        f"{len(outcome.published):,} events, {outcome.messages:,} messages, digest {outcome.digest[:12]}"
    )
    if outcome.late:
        console.print(f"{len(outcome.late):,} events not published: at or before the watermark of their new source")
    if unfiltered is not None:
        _show_filters(console, outcome, unfiltered)
    links = _links(outcome.links, None if unfiltered is None else unfiltered.links)
    for table in (_subscriptions(outcome, compared), links, _nodes(outcome), _moves(outcome)):
        if table.rows:
            console.print()
            console.print(table.rendered())
    _show_notes(console, outcome)
    console.print()
    _show_verdict(console, outcome, compared)


def _subscriptions(outcome: ScenarioOutcome, compared: Mapping[str, Comparison]) -> ReportTable:
    rows: list[list[Cell]] = []
    for name, each in outcome.subscriptions.items():
        if each.refused:
            rows.append([name, "refused", None, None, None, None, None, each.refused])
            continue
        homes = ", ".join(home or outcome.scenario.topology.directory for home in each.homes)
        times: list[Cell] = [f"{time:,.1f} ms" for time in delays(each).values()] or [None] * 3
        verdict = compared[name].verdict if name in compared else None
        rows.append([name, _host(outcome, each), homes, len(each.found), *times, verdict])
    left, right = map(Column, ("subscription", "node", "homes")), number_columns(",", "found", "p50", "p99", "most")
    return ReportTable([*left, *right, Column("check")], rows)


def _links(links: Iterable[LinkTraffic], unfiltered: Iterable[LinkTraffic] | None = None) -> ReportTable:
    """Bytes by link; `unfiltered`: the traffic without filters, for the share that they save."""
    used = [each for each in links if each.bytes]
    total = Counter[str]()
    for each in used:
        total.update(each.bytes)
    without = {} if unfiltered is None else _by_link(unfiltered)
    without["all", ""] = sum(without.values())
    summed = LinkTraffic("all", "", {}, total, sum(each.cost for each in used))
    rows: list[list[Cell]] = [
        [
            f"{each.origin} → {each.target}" if each.target else each.origin,
            _bytes(_size(each)),
            *([] if unfiltered is None else [_share(without.get((each.origin, each.target), 0), _size(each))]),
            each.cost,
            *(_bytes(each.bytes.get(area, 0)) for area in AREAS),
        ]
        for each in [*used, summed][: len(used) + (len(used) > 1)]
    ]
    saved = [] if unfiltered is None else ["saved by filters"]
    return ReportTable([Column("link"), *number_columns(",.0f", "bytes", *saved, "cost", *AREAS.values())], rows)


def _by_link(links: Iterable[LinkTraffic]) -> dict[tuple[str, str], int]:
    return {(each.origin, each.target): _size(each) for each in links}


def _size(link: LinkTraffic) -> int:
    return sum(link.bytes.values())


def _share(before: int, after: int) -> str:
    """Share of bytes that are saved."""
    return f"{(before - after) / before:.1%}" if before else ""


def _show_filters(console: Console, outcome: ScenarioOutcome, unfiltered: ScenarioOutcome) -> None:
    left, published = sum(outcome.left_out.values()), len(outcome.published)
    by_type = ", ".join(f"{name} {number:,}" for name, number in sorted(outcome.left_out.items()))
    console.print(
        f"filters left out {left:,} of {published:,} events ({left / max(published, 1):.0%}): {by_type or 'none'}"
    )
    if not _same(outcome, unfiltered):
        console.print(Text("✗ not the same composite events as without filters", "bold red"))


def _same(outcome: ScenarioOutcome, unfiltered: ScenarioOutcome) -> bool:
    """Whether all subscriptions got the same composite events in both runs."""
    return all(
        each.found.keys() == unfiltered.subscriptions[name].found.keys() for name, each in outcome.subscriptions.items()
    )


def _nodes(outcome: ScenarioOutcome) -> ReportTable:
    rows: list[list[Cell]] = [
        [
            *(name, each.site, each.detectors, each.received),
            *(each.counts.get(count, 0) for count in ("events", "composite events", "late")),
            None if each.load is None else f"{each.load.load:,.1f}/s",
        ]
        for name, each in outcome.nodes.items()
    ]
    counted = number_columns(",", "detectors", "received", "events", "composite", "late", "load")
    return ReportTable([Column("node"), Column("site"), *counted], rows)


def _moves(outcome: ScenarioOutcome) -> ReportTable:
    names = {each.detector: name for name, each in outcome.subscriptions.items()}
    rows = [
        [f"{each.at / SECOND:.3f} s", f"{each.detector}  {names.get(each.detector, '')}", each.origin, each.node]
        for each in outcome.moved
    ]
    return ReportTable([Column(name) for name in ("moved at", "detector", "from", "to")], rows)


def _show_notes(console: Console, outcome: ScenarioOutcome) -> None:
    """Decisions of nodes with their reasons, and warnings."""
    names = {each.detector: name for name, each in outcome.subscriptions.items()}
    notes = [each for each in outcome.notes if each.note.level == "warning" or "reason" in each.note.fields]
    if notes:
        console.print()
    for each in notes[:_NOTES_SHOWN]:
        fields = dict(each.note.fields)
        detector = str(fields.pop("detector", ""))
        about = [names.get(detector, detector)] if detector else []
        about += [f"{key} {value}" for key, value in fields.items()]
        style = "yellow" if each.note.level == "warning" else ""
        said = (f"{each.node}: {each.note.event}", style)
        console.print(Text.assemble((f"{each.at / SECOND:8.3f} s  ", "dim"), said, (f"  {', '.join(about)}", "dim")))
    if len(notes) > _NOTES_SHOWN:
        console.print(f"and {len(notes) - _NOTES_SHOWN} more; --json has all")


def _show_verdict(console: Console, outcome: ScenarioOutcome, compared: Mapping[str, Comparison]) -> None:
    if not outcome.complete:
        console.print(Text("✗ not every subscription has a watermark beyond the end in time", "bold red"))
    elif compared and all(each.holds for each in compared.values()):
        same = sum(each.same for each in compared.values())
        line = f"the same composite events as those of one engine: {same:,}"
        console.print(Text.assemble(("✓ ", "bold green"), line))
    elif compared:
        console.print(Text("✗ not the same composite events as those of one engine", "bold red"))
    if outcome.letters:
        reasons = ", ".join(sorted({each.reason for each in outcome.letters}))
        console.print(f"  {len(outcome.letters)} dead letters: {reasons}")


def delays(subscribed: SimulatedSubscription) -> dict[str, float]:
    """Delay from the last event of a match to its arrival, ms: median, 99th percentile, maximum."""
    delays = sorted(each.delay / MILLISECOND for each in subscribed.found.values())
    if not delays:
        return {}
    return {
        "p50": delays[len(delays) // 2],
        "p99": delays[min(len(delays) * 99 // 100, len(delays) - 1)],
        "most": delays[-1],
    }


def _host(outcome: ScenarioOutcome, each: SimulatedSubscription) -> str:
    """Hosts of its detector at the end."""
    entry = outcome.detectors.get(each.detector)
    return each.node if entry is None else " + ".join((entry.node, *entry.replicas))


def _named(counted: Mapping[str, int]) -> dict[str, int]:
    return {AREAS[area]: number for area, number in counted.items()}


def _bytes(size: int) -> str:
    if not size:
        return ""
    return f"{size / 1000:,.1f} kB" if size < 10_000_000 else f"{size / 1_000_000:,.1f} MB"

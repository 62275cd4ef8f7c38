"""Reports of the outcome of a run, for reading or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from distced.middleware.model.timestamps import MILLISECOND, SECOND, format_instant
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario.checking import Comparison
from distced.simulations.network.scenario.outcome import LinkTraffic, ScenarioOutcome

AREAS = {"e": "events", "c": "composite", "d": "directory", "a": "administration", "x": "dead letters", "mqtt": "MQTT"}
"""Subjects of traffic, by the area of its topics."""

_NOTES_SHOWN = 12


def as_dict(outcome: ScenarioOutcome, compared: Mapping[str, Comparison], seconds: float) -> dict[str, Any]:
    """All figures, for JSON."""
    scenario = outcome.scenario
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
             "cost": each.cost}
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


def show(console: Console, outcome: ScenarioOutcome, compared: Mapping[str, Comparison], seconds: float) -> None:
    """All figures, in tables for reading."""
    virtual = (outcome.ended - outcome.scenario.start + outcome.scenario.lead) / SECOND
    console.print(
        f"{virtual:.1f} s from {format_instant(outcome.scenario.start - outcome.scenario.lead)} in {seconds:.1f} s: "
        f"{len(outcome.published):,} events, {outcome.messages:,} messages, digest {outcome.digest[:12]}"
    )
    if outcome.late:
        console.print(
            f"{len(outcome.late):,} events were not published: detectors were beyond them when their source began"
        )
    for table in (_subscriptions(outcome, compared), _links(outcome.links), _nodes(outcome), _moves(outcome)):
        if table.row_count:
            console.print()
            console.print(table)
    _show_notes(console, outcome)
    console.print()
    _show_verdict(console, outcome, compared)


def _subscriptions(outcome: ScenarioOutcome, compared: Mapping[str, Comparison]) -> Table:
    table = _table("subscription", "node", "homes", found=1, p50=1, p99=1, most=1, check=0)
    for name, each in outcome.subscriptions.items():
        if each.refused:
            table.add_row(Text(name, "bold"), "refused", "", "", "", "", "", Text(each.refused))
            continue
        times = delays(each)
        shown = [f"{times[key]:,.1f} ms" if times else "" for key in ("p50", "p99", "most")]
        homes = ", ".join(home or outcome.scenario.topology.directory for home in each.homes)
        verdict = _verdict(compared[name]) if name in compared else Text("", "dim")
        table.add_row(Text(name, "bold"), _host(outcome, each), homes, f"{len(each.found):,}", *shown, verdict)
    return table


def _links(links: Iterable[LinkTraffic]) -> Table:
    areas = list(AREAS)
    table = _table("link", **dict.fromkeys(("bytes", "cost", *AREAS.values()), 1))
    used = [each for each in links if each.bytes]
    for each in used:
        counted = [_bytes(each.bytes.get(area, 0)) for area in areas]
        whole = _bytes(sum(each.bytes.values()))
        table.add_row(f"{each.origin} → {each.target}", whole, f"{each.cost:,.0f}", *counted)
    if len(used) > 1:
        counted = [_bytes(sum(each.bytes.get(area, 0) for each in used)) for area in areas]
        whole = _bytes(sum(sum(each.bytes.values()) for each in used))
        table.add_row(Text("all", "bold"), whole, f"{sum(each.cost for each in used):,.0f}", *counted)
    return table


def _nodes(outcome: ScenarioOutcome) -> Table:
    table = _table("node", "site", detectors=1, received=1, events=1, composite=1, late=1, load=1)
    for name, each in outcome.nodes.items():
        counts = [f"{each.counts.get(count, 0):,}" for count in ("events", "composite events", "late")]
        load = "" if each.load is None else f"{each.load.load:,.1f}/s"
        table.add_row(Text(name, "bold"), each.site, str(each.detectors), f"{each.received:,}", *counts, load)
    return table


def _moves(outcome: ScenarioOutcome) -> Table:
    table = _table("moved at", "detector", "from", "to")
    names = {each.detector: name for name, each in outcome.subscriptions.items()}
    for each in outcome.moved:
        detector = f"{each.detector}  {names[each.detector]}" if each.detector in names else each.detector
        table.add_row(f"{each.at / SECOND:.3f} s", detector, each.origin, each.node)
    return table


def _show_notes(console: Console, outcome: ScenarioOutcome) -> None:
    """Decisions of nodes with their reasons, and warnings."""
    names = {each.detector: name for name, each in outcome.subscriptions.items()}
    told = [each for each in outcome.notes if each.note.level == "warning" or "reason" in each.note.fields]
    if told:
        console.print()
    for each in told[:_NOTES_SHOWN]:
        fields = dict(each.note.fields)
        detector = str(fields.pop("detector", ""))
        about = [names.get(detector, detector)] if detector else []
        about += [f"{key} {value}" for key, value in fields.items()]
        style = "yellow" if each.note.level == "warning" else ""
        console.print(
            Text.assemble(
                (f"{each.at / SECOND:8.3f} s  ", "dim"),
                (f"{each.node}: {each.note.event}", style),
                (f"  {', '.join(about)}", "dim"),
            )
        )
    if len(told) > _NOTES_SHOWN:
        console.print(f"and {len(told) - _NOTES_SHOWN} more; --json has all")


def _show_verdict(console: Console, outcome: ScenarioOutcome, compared: Mapping[str, Comparison]) -> None:
    if not outcome.complete:
        console.print(Text("✗ not every subscription was heard beyond the end in time", "bold red"))
    elif compared and all(each.holds for each in compared.values()):
        same = sum(each.same for each in compared.values())
        line = f"what arrived is what one engine finds in the events: {same:,} composite events"
        console.print(Text.assemble(("✓ ", "bold green"), line))
    elif compared:
        console.print(Text("✗ what arrived is not what one engine finds in the events", "bold red"))
    if outcome.letters:
        reasons = ", ".join(sorted({each.reason for each in outcome.letters}))
        console.print(f"  {len(outcome.letters)} dead letters: {reasons}")


def _verdict(compared: Comparison) -> Text:
    if compared.holds:
        return Text("as one engine", "green")
    return Text(f"{len(compared.missing)} missing, {len(compared.unexpected)} unexpected", "red")


def delays(subscribed: SimulatedSubscription) -> dict[str, float]:
    """Delay from the last event of a match to its arrival, ms: median, 99th percentile, maximum."""
    told = sorted(each.delay / MILLISECOND for each in subscribed.found.values())
    if not told:
        return {}
    return {
        "p50": told[len(told) // 2],
        "p99": told[min(len(told) * 99 // 100, len(told) - 1)],
        "most": told[-1],
    }


def _host(outcome: ScenarioOutcome, each: SimulatedSubscription) -> str:
    """The host of its detector at the end."""
    entry = outcome.detectors.get(each.detector)
    if entry is None:
        return each.node
    return " + ".join((entry.node, *entry.replicas))


def _named(counted: Mapping[str, int]) -> dict[str, int]:
    return {AREAS[area]: number for area, number in counted.items()}


def _bytes(size: int) -> str:
    if not size:
        return ""
    return f"{size / 1000:,.1f} kB" if size < 10_000_000 else f"{size / 1_000_000:,.1f} MB"


def _table(*left: str, **right: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in left:
        table.add_column(name)
    for name, is_number in right.items():
        table.add_column(name, justify="right" if is_number else "left")
    return table

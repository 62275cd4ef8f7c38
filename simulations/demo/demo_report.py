"""Report of a demonstration: a summary for people and machines, and a folder with all files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from distced.middleware.event_files import write_events
from distced.middleware.model.events import CompositeEvent
from distced.simulations.demo.display import nodes_table
from distced.simulations.demo.session import DemoSession, Notification, Verdict
from distced.simulations.plots import histogram


def summary(session: DemoSession, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Figures of a demonstration."""
    progress = session.progress
    by_question: dict[str, Any] = {}
    for question in session.questions:
        heard = [each for each in progress.notifications if each.question == question.name]
        by_question[question.name] = {"found": len(heard), "delay_ms": _delays(heard)}
    return {
        "feed": session.feed.title,
        "speed": session.speed,
        "seconds": round(seconds, 2),
        "events": progress.published,
        "composite_events": len(progress.notifications),
        "patterns": by_question,
        "delay_ms": _delays(progress.notifications),
        "seconds_to_first": None if progress.first is None else round(progress.first, 3),
        "nodes": progress.nodes,
        "check": {
            "holds": verdict.holds,
            "same": verdict.same,
            "only_live": len(verdict.only_live),
            "only_run": len(verdict.only_run),
            "complete": verdict.complete,
        },
    }


def show(console: Console, session: DemoSession, verdict: Verdict, seconds: float) -> None:
    """Print the figures."""
    figures = summary(session, verdict, seconds)
    console.print()
    console.print(Text(f"{figures['feed']}: {figures['events']:,} events in {seconds:.1f} s", "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("pattern")
    for name in ("composite events", "delay p50", "p99", "most"):
        table.add_column(name, justify="right")
    for name, told in [*figures["patterns"].items(), ("all", {"found": figures["composite_events"], **_all(figures)})]:
        delays = told["delay_ms"]
        row = [f"{delays[key]:.1f} ms" if delays else "" for key in ("p50", "p99", "most")]
        table.add_row(Text(name, "bold"), f"{told['found']:,}", *row)
    console.print(table)
    console.print()
    console.print(nodes_table(figures["nodes"]))
    console.print()
    _show_verdict(console, verdict)


def write(folder: Path, session: DemoSession, verdict: Verdict, seconds: float) -> None:
    """Write events, composite events, figures and a plot of the delays to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_events(session.events, folder / "events.jsonl.gz")
    write_events([each.event for each in session.progress.notifications], folder / "composite-events.jsonl")
    (folder / "summary.json").write_text(json.dumps(summary(session, verdict, seconds), indent=2) + "\n")
    delays = [each.delay * 1000 for each in session.progress.notifications]
    (folder / "delays.svg").write_text(histogram(delays, title="Notification delay", unit="ms"))


def _all(figures: dict[str, Any]) -> dict[str, Any]:
    return {"delay_ms": figures["delay_ms"]}


def _delays(notifications: Sequence[Notification]) -> dict[str, float]:
    delays = sorted(each.delay * 1000 for each in notifications)
    if not delays:
        return {}
    share = {"p50": 0.5, "p99": 0.99}
    told = {name: round(delays[min(int(at * len(delays)), len(delays) - 1)], 3) for name, at in share.items()}
    return {**told, "most": round(delays[-1], 3)}


def _show_verdict(console: Console, verdict: Verdict) -> None:
    if verdict.holds:
        line = f"live = run: the same {verdict.same:,} composite events, found again in the recorded events"
        console.print(Text.assemble(("✓ ", "bold green"), line))
        return
    console.print(Text("✗ what was detected live is not what is found in the recorded events", "bold red"))
    if not verdict.complete:
        console.print("  not every subscription was heard beyond the end in time")
    for name, events in (("live only", verdict.only_live), ("recorded only", verdict.only_run)):
        for event in events[:5]:
            console.print(f"  {name}: {_short(event)}")


def _short(event: CompositeEvent) -> str:
    return f"{event.type} {event.attributes} [{event.lo}, {event.hi}] of {len(event.constituents)} events"

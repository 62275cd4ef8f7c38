"""Output of a demonstration: a live screen, the figures at the end, and a folder with all files."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from distced.middleware.cli.output import COLOURS
from distced.middleware.event_files import write_events
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import SECOND, format_instant
from distced.simulations.demo.feed import DemoFeed
from distced.simulations.demo.session import DemoProgress, DemoSession, Notification, Question, Verdict
from distced.simulations.plots import histogram, percentile
from distced.simulations.report import Cell, Column, ReportTable, number_columns

REPORT_FILES: Final = ("events.jsonl.gz", "composite-events.jsonl", "summary.json", "delays.svg")
REFRESH: Final = 0.1
SHOWN: Final = 12  # greatest number of lines for composite events on the screen


class Display:
    """Live display on a terminal: places of people, composite events, counters of nodes; else a line for each."""

    def __init__(self, console: Console, feed: DemoFeed, questions: Sequence[Question], *, quiet: bool = False) -> None:
        self.console = console
        self.feed = feed
        self.colours = {each.name: COLOURS[place % len(COLOURS)] for place, each in enumerate(questions)}
        self.quiet = quiet
        lively = console.is_terminal and not quiet
        self._live = Live(console=console, refresh_per_second=10, auto_refresh=False) if lively else None
        self._rooms: dict[str, dict[str, Attribute]] = {}
        self._seen = 0
        self._printed = 0
        self._sorted = 0
        self._latest: dict[str, deque[Notification]] = {}
        self._shown_at = 0.0

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: DemoProgress, *, last: bool = False) -> None:
        """Show the progress, at most ten times a second but for the last time."""
        if self.quiet:
            return
        if self._live is None:
            for notification in progress.notifications[self._printed :]:
                self.console.print(self._line(notification))
            self._printed = len(progress.notifications)
            return
        now = time.monotonic()
        if last or now - self._shown_at >= REFRESH:
            self._shown_at = now
            self._live.update(self._screen(progress), refresh=True)

    def _screen(self, progress: DemoProgress) -> RenderableType:
        clock = format_instant(progress.now - progress.now % SECOND).replace("T", "  ").rstrip("Z")
        head = Text.assemble(
            (f" {clock} ", "bold reverse"),
            f"  {self.feed.title}   ",
            (f"{progress.published:,} events   ", "bold"),
            (f"{len(progress.notifications):,} composite events", "bold green"),
        )
        parts: list[RenderableType] = [head, Text()]
        if places := self.feed.places():
            parts += [self._building(progress, places), Text()]
        return Group(*parts, self._detections(progress), Text(), nodes_table(progress.nodes))

    def _building(self, progress: DemoProgress, places: dict[str, str]) -> RenderableType:
        self._read(progress)
        rows: list[Sequence[Cell]] = []
        for room in sorted({*self._rooms, *places.values()}):
            state = self._rooms.get(room, {})
            temp = state.get("temp")
            shown = Text(f"{temp:.1f}", "blue bold" if temp < 15 else "") if isinstance(temp, float) else None
            light = Text("on", "yellow") if state.get("on") else None
            board = Text("on", "magenta") if state.get("board") else None
            people = ", ".join(sorted(person for person, place in places.items() if place == room))
            rows.append((Text(room, "bold"), shown, light, board, people))
        columns = (Column("room"), Column("°C", format=""), Column("light"), Column("board"), Column("people"))
        return ReportTable(columns, rows).rendered()

    def _read(self, progress: DemoProgress) -> None:
        """Update the state of rooms from the events published since the last call."""
        fresh = min(progress.published - self._seen, len(progress.recent))
        self._seen = progress.published
        for event in list(progress.recent)[len(progress.recent) - fresh :]:
            room = event.attributes.get("room")
            if isinstance(room, str):
                state = self._rooms.setdefault(room, {})
                if event.type in ("BoardOn", "BoardOff"):
                    state["board"] = event.type == "BoardOn"
                elif event.type in ("Temp", "Light"):
                    state.update(event.attributes)

    def _detections(self, progress: DemoProgress) -> RenderableType:
        if not progress.notifications:
            return Text("nothing detected yet", "dim")
        for notification in progress.notifications[self._sorted :]:
            self._latest.setdefault(notification.question, deque(maxlen=100)).append(notification)
        self._sorted = len(progress.notifications)
        return Group(*(self._line(each, times) for each, times in select(self._latest.values(), SHOWN)))

    def _line(self, notification: Notification, times: int = 1) -> Text:
        event = notification.event
        attributes = "  ".join(f"{name}={value}" for name, value in event.attributes.items())
        return Text.assemble(
            (format_instant(event.hi - event.hi % SECOND)[11:-1], "dim"),
            "  ",
            (f"{notification.question:<18}", f"bold {self.colours.get(notification.question, 'white')}"),
            f" {attributes:<36} ",
            (f"{len(event.constituents):>3} constituents  {notification.delay * 1000:6.1f} ms", "dim"),
            (f"  ×{times}" if times > 1 else "", "bold"),
        )


def select(kinds: Iterable[Sequence[Notification]], most: int) -> list[tuple[Notification, int]]:
    """Latest notifications of each kind, `most` in all and at least one of each kind, in their order; with the number
    of those alike.
    """
    # Many matches end in one event, and their lines would read the same.
    groups = [
        [
            (group[-1], len(group))
            for _, alike in groupby(kind, lambda each: (each.event.hi // SECOND, each.event.attributes))
            for group in [list(alike)]
        ]
        for kind in kinds
        if kind
    ]
    chosen = [group.pop() for group in groups]
    rest = sorted((each for group in groups for each in group), key=_end)
    return sorted([*chosen, *rest[max(0, len(rest) - max(0, most - len(chosen))) :]], key=_end)


def _end(shown: tuple[Notification, int]) -> int:
    return shown[0].event.hi


def nodes_table(nodes: dict[str, dict[str, int]]) -> RenderableType:
    """Counters of the broker nodes, as a table."""
    names = list(dict.fromkeys(name for counts in nodes.values() for name in counts))
    rows: list[tuple[Cell, ...]] = [
        (Text(node, "bold"), *(nodes[node].get(name, 0) for name in names)) for node in sorted(nodes)
    ]
    return ReportTable([Column("node"), *number_columns(",", *names)], rows).rendered()


def summary(session: DemoSession, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Figures of a demonstration."""
    progress = session.progress
    by_question: dict[str, Any] = {}
    for question in session.questions:
        received = [each for each in progress.notifications if each.question == question.name]
        by_question[question.name] = {"found": len(received), "delay_ms": _delays(received)}
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
        **_root_causes(verdict),
    }


def _root_causes(verdict: Verdict) -> dict[str, Any]:
    """Figures of a feed with faults; empty for others."""
    causes = verdict.root_causes
    if causes is None:
        return {}
    figures = {"found": causes.found, "true": causes.true, "known": causes.known}
    shares = {"precision": causes.precision, "recall": causes.recall, "chance": causes.chance}
    return {"root_causes": figures | {name: None if each is None else round(each, 4) for name, each in shares.items()}}


def show_figures(console: Console, session: DemoSession, verdict: Verdict, seconds: float) -> None:
    """Print the figures and the verdict."""
    figures = summary(session, verdict, seconds)
    console.print(Text(f"\n{figures['feed']}: {figures['events']:,} events in {seconds:.1f} s", "bold"))
    every = {"found": figures["composite_events"], "delay_ms": figures["delay_ms"]}
    columns = (
        Column("pattern"),
        Column("composite events", format=","),
        *number_columns(".1f", "delay p50", "p99", "most", unit="ms"),
    )
    rows = [
        (Text(name, "bold"), each["found"], *(each["delay_ms"].get(key) for key in ("p50", "p99", "most")))
        for name, each in [*figures["patterns"].items(), ("all", every)]
    ]
    console.print(ReportTable(columns, rows).rendered())
    console.print()
    console.print(nodes_table(figures["nodes"]))
    console.print()
    if causes := figures.get("root_causes"):
        shares = [f"{name} {causes[name]:.1%}" for name in ("precision", "recall") if causes[name] is not None]
        what = "root causes" if causes["chance"] is None else "causal edges of the recording"
        by_chance = "" if causes["chance"] is None else f" (a guess: {causes['chance']:.1%})"
        console.print(
            f"{what}: {causes['found']:,} found, {causes['true']:,} of them true, of {causes['known']:,}: "
            f"{', '.join(shares)}{by_chance}\n"
        )
    if verdict.holds:
        line = f"live = run: the same {verdict.same:,} composite events, found again in the recorded events"
        console.print(Text.assemble(("✓ ", "bold green"), line))
        return
    console.print(Text("✗ the live detections are not those in the recorded events", "bold red"))
    if not verdict.complete:
        console.print("  not every subscription reached the end in time")
    for name, events in (("live only", verdict.only_live), ("recorded only", verdict.only_run)):
        for event in events[:5]:
            interval = f"[{event.lo}, {event.hi}]"
            console.print(f"  {name}: {event.type} {event.attributes} {interval} of {len(event.constituents)} events")


def write(folder: Path, session: DemoSession, verdict: Verdict, seconds: float) -> None:
    """Write events, composite events, figures and a plot of the delays to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    events, composites, figures, plot = (folder / name for name in REPORT_FILES)
    write_events(session.events, events)
    write_events([each.event for each in session.progress.notifications], composites)
    figures.write_text(json.dumps(summary(session, verdict, seconds), indent=2) + "\n")
    delays = [each.delay * 1000 for each in session.progress.notifications]
    plot.write_text(histogram(delays, title="Notification delay", unit="ms"))


def _delays(notifications: Sequence[Notification]) -> dict[str, float]:
    delays = sorted(each.delay * 1000 for each in notifications)
    shares = {"p50": 0.5, "p99": 0.99, "most": 1.0} if delays else {}
    return {name: round(percentile(delays, share), 3) for name, share in shares.items()}

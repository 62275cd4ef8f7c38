"""Screen of a running demonstration: places of people, composite events, counters of the nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import SECOND, format_instant
from distced.simulations.demo.feed import DemoFeed
from distced.simulations.demo.patterns import Question
from distced.simulations.demo.session import DemoProgress, Notification

COLOURS: Final = ("cyan", "yellow", "magenta", "green", "blue", "red")
REFRESH: Final = 0.1
SHOWN: Final = 12
"""Greatest number of lines for composite events on the screen."""


class Display:
    """Live display on a terminal; elsewhere a line for each composite event."""

    def __init__(self, console: Console, feed: DemoFeed, questions: Sequence[Question], *, quiet: bool = False) -> None:
        self.console = console
        self.feed = feed
        self.colours = {each.name: COLOURS[place % len(COLOURS)] for place, each in enumerate(questions)}
        self.quiet = quiet
        self._live = Live(console=console, refresh_per_second=10, auto_refresh=False) if self._lively() else None
        self._rooms: dict[str, dict[str, Attribute]] = {}
        self._seen = 0
        self._printed = 0
        self._shown_at = 0.0

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: DemoProgress) -> None:
        """Show the progress."""
        if self.quiet:
            return
        if self._live is None:
            for notification in progress.notifications[self._printed :]:
                self.console.print(self._line(notification))
            self._printed = len(progress.notifications)
            return
        now = time.monotonic()
        if now - self._shown_at >= REFRESH:
            self._shown_at = now
            self._live.update(self._screen(progress), refresh=True)

    def _lively(self) -> bool:
        return self.console.is_terminal and not self.quiet

    def _screen(self, progress: DemoProgress) -> RenderableType:
        clock = format_instant(progress.now - progress.now % SECOND).replace("T", "  ").rstrip("Z")
        head = Text.assemble(
            (f" {clock} ", "bold reverse"),
            f"  {self.feed.title}   ",
            (f"{progress.published:,} events   ", "bold"),
            (f"{len(progress.notifications):,} composite events", "bold green"),
        )
        parts: list[RenderableType] = [head, Text()]
        places = self.feed.places()
        if places:
            parts += [self._building(progress, places), Text()]
        parts += [self._detections(progress), Text(), self._nodes(progress)]
        return Group(*parts)

    def _building(self, progress: DemoProgress, places: dict[str, str]) -> Table:
        self._read(progress)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("room", "°C", "light", "board", "who is there"):
            table.add_column(name, justify="right" if name == "°C" else "left", no_wrap=True)
        rooms = sorted({*self._rooms, *places.values()})
        for room in rooms:
            state = self._rooms.get(room, {})
            temp = state.get("temp")
            cold = isinstance(temp, float) and temp < 15
            table.add_row(
                Text(room, "bold"),
                Text(f"{temp:.1f}" if isinstance(temp, float) else "", "blue bold" if cold else ""),
                Text("on" if state.get("on") else "", "yellow"),
                Text("on" if state.get("board") else "", "magenta"),
                ", ".join(sorted(person for person, place in places.items() if place == room)),
            )
        return table

    def _read(self, progress: DemoProgress) -> None:
        """Update the state of rooms from the events published since the last look."""
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
        if not progress.latest:
            return Text("nothing detected yet", "dim")
        alike: list[list[Notification]] = []
        for each in progress.latest:
            if alike and _looks_like(alike[-1][-1], each):
                alike[-1].append(each)
            else:
                alike.append([each])
        return Group(*(self._line(group[-1], len(group)) for group in alike[-SHOWN:]))

    def _line(self, notification: Notification, times: int = 1) -> Text:
        event = notification.event
        attributes = "  ".join(f"{name}={value}" for name, value in event.attributes.items())
        return Text.assemble(
            (format_instant(event.hi - event.hi % SECOND)[11:-1], "dim"),
            "  ",
            (f"{notification.question:<18}", f"bold {self.colours.get(notification.question, 'white')}"),
            f" {attributes:<36.36} ",
            (f"{len(event.constituents):>3} constituents  {notification.delay * 1000:6.1f} ms", "dim"),
            (f"  ×{times}" if times > 1 else "", "bold"),
        )

    def _nodes(self, progress: DemoProgress) -> Table:
        return nodes_table(progress.nodes)


def _looks_like(one: Notification, other: Notification) -> bool:
    """Whether two lines would read the same: many matches end in one event."""
    shown = [(each.question, each.event.hi // SECOND, each.event.attributes) for each in (one, other)]
    return shown[0] == shown[1]


def nodes_table(nodes: dict[str, dict[str, int]]) -> Table:
    """Counters of the broker nodes, as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("node", no_wrap=True)
    columns = list(dict.fromkeys(name for counts in nodes.values() for name in counts))
    for name in columns:
        table.add_column(name, justify="right")
    for node in sorted(nodes):
        table.add_row(Text(node, "bold"), *(f"{nodes[node].get(name, 0):,}" for name in columns))
    return table

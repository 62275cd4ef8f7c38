"""The driver of `distced record`: a recorder, a line that says how it goes, and a summary at the end."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.live import Live
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.directory_reader import Reading
from distced.brokers.live.recorder import LiveRecorder
from distced.middleware.bus.pool import server_name
from distced.middleware.cli.event_lines import span
from distced.middleware.cli.logs import configure_logging
from distced.middleware.cli.options import PATIENCE
from distced.middleware.cli.output import messages, print_json, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import DAY, SECOND, format_instant

LOOK: Final = 0.25
"""Seconds between two looks at how it goes."""

TELL_EVERY: Final = 5.0
"""Seconds between two objects of JSON."""

RATE_OVER: Final = 5.0
"""Seconds over which the rate of events is taken."""

FEW: Final = 3


class Wanted(msgspec.Struct, frozen=True):
    """What `distced record` was asked for; the names are those of its options.

    Attributes:
        types: their names; none with `everything`.
        flush_every, keep: ns.
        duration: ns; None for ever.
    """

    history: Path
    types: tuple[str, ...]
    everything: bool
    server: str
    home: str
    name: str
    flush_every: int
    flush_events: int
    keep: int
    duration: int | None
    as_json: bool

    @property
    def recorded(self) -> tuple[str, ...] | None:
        """The types to record; None for all."""
        return None if self.everything else self.types


class Rate:
    """How many events came a second, of late."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def take(self, at: float, events: int) -> float:
        """The rate, with so many events until this second."""
        self._seen.append((at, events))
        while len(self._seen) > 2 and at - self._seen[1][0] >= RATE_OVER:
            self._seen.popleft()
        first, before = self._seen[0]
        return (events - before) / (at - first) if at > first else 0.0


def record_until(wanted: Wanted) -> int:
    """Record until time is up, or somebody wants an end; the exit code."""
    if wanted.everything == bool(wanted.types):
        problem = "both --types and --all" if wanted.everything else "no types to record"
        raise TypeRegistryError(problem, allowed="--types Login,Motion, or --all")
    configure_logging()
    with Reading(wanted.server).open() as reading:
        notes, _ = reading.look(lambda directory: check_types(directory, wanted.types))
    name = wanted.name or socket.gethostname().split(".")[0] or "recorder"
    recorder = LiveRecorder(
        wanted.server, wanted.history, name, types=wanted.recorded, home=wanted.home, flush_every=wanted.flush_every,
        flush_events=wanted.flush_events, keep=wanted.keep,
    )  # fmt: skip
    show_notes(notes)
    with ending():
        recorder.start(PATIENCE)
        try:
            announced = recorder.wait_announced(PATIENCE)
            _tell_beginning(recorder, name, wanted)
            if not announced:
                show_notes(["the server has not confirmed that it is there: sources do not wait for it so far"])
            _watch(recorder, wanted)
        except KeyboardInterrupt:
            pass
        finally:
            recorder.stop()
    status = recorder.status()
    summarise(status, as_json=wanted.as_json)
    return 1 if status["problem"] else 0


def check_types(directory: Directory, names: Iterable[str]) -> list[str]:
    """Notes on types that nobody publishes so far.

    Raises:
        TypeRegistryError: for a type under which nothing is published that could be recorded.
    """
    published = {entry.publishes for entry in directory.detectors.values() if entry.publishes}
    guaranteed = {entry.publishes for entry in directory.detectors.values() if entry.policy == "guaranteed"}
    known = sorted(published | {name for name, each in directory.types.items() if each.derived is None})
    notes = []
    for name in names:
        # Only what is a name of a type can ever be one.
        event_type(name)
        registered = directory.types.get(name)
        if registered is not None and registered.derived is not None:
            raise TypeRegistryError(
                f"the type {name!r} is derived: no events are published under it",
                given=name, allowed=registered.derived.base, advice="record the type it is derived from",
            )  # fmt: skip
        if registered is None and name in published - guaranteed:
            raise TypeRegistryError(
                "composite events that are found by best effort cannot be recorded: nobody says when they are complete",
                given=name, advice="have them detected with the guarantee",
            )  # fmt: skip
        if registered is None and name not in published:
            near = get_close_matches(name, known, n=1)
            said = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}" if known else ""
            notes.append(f"nobody has registered or publishes {name} so far{said}")
    return notes


def status_line(status: Mapping[str, Any], rate: float, now: int) -> Text:
    """How it goes, on one line."""
    watermark, waiting = status["watermark"], status["waiting"]
    parts: list[tuple[str, str]] = [
        (f"{rate:,.0f} events/s", "bold"),
        (f"{status['written']:,} written", "green"),
        (f"{waiting:,} waiting", "" if waiting else "dim"),
        ("no watermark yet", "dim") if watermark is None else (f"watermark {_behind(watermark, now)}", ""),
    ]
    parts += [
        (f"{status[what]:,} {what.replace('_', ' ')}", "yellow")
        for what in ("late", "duplicates", "dead_letters", "gaps")
        if status[what]
    ]
    if waiting and status["holding"] and not status["problem"]:
        parts.append((f"for {few(status['holding'])}", "dim"))
    if not status["connected"]:
        parts.append(("not connected", "bold red"))
    if status["problem"]:
        parts.append((str(status["problem"]), "bold red"))
    line = Text("recording: ", "dim", no_wrap=True, overflow="ellipsis")
    for place, part in enumerate(parts):
        line.append(", " if place else "", "dim").append(*part)
    return line


def few(names: list[str]) -> str:
    """Names, or some of them and how many more there are."""
    return ", ".join(names) if len(names) <= FEW else f"{', '.join(names[:FEW])} and {len(names) - FEW:,} more"


def _behind(watermark: int, now: int) -> str:
    if now - watermark > DAY:
        return f"at {format_instant(watermark)}"
    return f"{span(now - watermark)} behind" if watermark <= now else "ahead"


def _watch(recorder: LiveRecorder, wanted: Wanted) -> None:
    deadline = None if wanted.duration is None else time.monotonic() + wanted.duration / SECOND
    rate, console = Rate(), messages()
    told = time.monotonic()
    with ExitStack() as stack:
        live = None
        if console.is_terminal and not wanted.as_json:
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
        while deadline is None or time.monotonic() < deadline:
            status, now = recorder.status(), time.monotonic()
            current = rate.take(now, int(str(status["events"])))
            if live is not None:
                live.update(status_line(status, current, recorder.clock.now()), refresh=True)
            if wanted.as_json and now - told >= TELL_EVERY:
                told = now
                print_json({"event": "status", "rate": round(current, 3), **status}, indent=None)
            left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
            time.sleep(max(left, 0.0))


def _tell_beginning(recorder: LiveRecorder, name: str, wanted: Wanted) -> None:
    server = server_name(wanted.server)
    if wanted.as_json:
        print_json(
            {
                "event": "ready", "server": server, "recorder": name, "history": str(wanted.history),
                "types": wanted.recorded, "resumed": recorder.resumed,
            },
            indent=None,
        )  # fmt: skip
        return
    what = "all types" if wanted.everything else ", ".join(wanted.types)
    again = ", goes on where it was" if recorder.resumed else ""
    messages().print(f"{name} records {what} of {server} into {wanted.history}{again}; Ctrl-C ends it", style="dim")


def summarise(status: Mapping[str, Any], *, as_json: bool) -> None:
    """Say at the end what came of it."""
    if as_json:
        print_json({"event": "done", **status}, indent=None)
        return
    written, files, watermark = status["written"], status["files"], status["watermark"]
    parts = [f"{written:,} event{'s' * (written != 1)} written in {files:,} file{'s' * (files != 1)}"]
    parts += [
        f"{status[what]:,} {what.replace('_', ' ')}" for what in ("late", "duplicates", "dead_letters") if status[what]
    ]
    if watermark is not None:
        parts.append(f"complete until {format_instant(watermark)}")
    console = messages()
    console.print(", ".join(parts), style="bold")
    notes = []
    if status["waiting"]:
        why = f"not stable yet, for {few(status['holding'])} may still publish before that"
        if status["problem"]:
            why = "not written"
        events = f"{status['waiting']:,} event{'s' * (status['waiting'] != 1)}"
        notes.append(f"{events} {why}: kept, and written when this recorder is started again")
    if status["problem"]:
        notes.append(str(status["problem"]))
    show_notes(notes)

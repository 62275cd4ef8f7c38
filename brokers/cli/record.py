"""The verb `record`: a recorder, a line of its status, and a summary at the end."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

from rich.live import Live
from rich.text import Text
from typer import Option

from distced.brokers.cli.metrics_option import MetricsOption, metrics_address, serve_metrics
from distced.brokers.core.directory import Directory
from distced.brokers.live.observers import LiveDirectory
from distced.brokers.live.recorder import LiveRecorder
from distced.middleware.bus.access import participant_name
from distced.middleware.cli.logs import LogFormatOption, LogLevelOption, configure_logging
from distced.middleware.cli.options import DEFAULT, PATIENCE, VARIABLE, Duration, HomeOption, duration_option, verb
from distced.middleware.cli.output import (
    AsJson,
    discard_unwritable,
    dispensable_output,
    few,
    messages,
    print_json,
    show_notes,
    span,
)
from distced.middleware.cli.signals import ending
from distced.middleware.cli.traces_option import TracesOption, opened_traces
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.server_address import server_name
from distced.middleware.model.timestamps import DAY, SECOND, format_instant

LOOK: Final = 0.25
"""Interval of the status line, s."""

REPORT_EVERY: Final = 5.0
"""Interval of status objects in JSON, s."""

RATE_OVER: Final = 5.0
"""Period over which the event rate is measured, s."""


@dataclass(frozen=True)
class RecordOptions:
    """Options of `distced record`; durations in ns."""

    history: Annotated[Path, Option("--history", metavar="PATH", help="Folder of the history, existing or new.")]
    types: Annotated[
        list[str], Option("--types", metavar="TYPE,...", help="Types to record, composite ones included; repeatable.")
    ] = field(default_factory=list)
    everything: Annotated[bool, Option("--all", help="Record all types.")] = False
    server: Annotated[
        str, Option("--server", "--url", envvar=VARIABLE, metavar="URL", help="The MQTT server: mqtt://host:port.")
    ] = DEFAULT
    home: HomeOption = None
    name: Annotated[str | None, Option(help="Name of the recorder, unique; this machine's if left out.")] = None
    flush_every: Annotated[int, duration_option(help="Longest wait of stable events for a write.")] = Duration("60s")
    flush_events: Annotated[int, Option(help="Largest number of waiting stable events.", min=1)] = 100_000
    keep: Annotated[
        int, duration_option(help="Time for which the server keeps messages for an absent recorder; 0s for none.")
    ] = Duration("1d")
    duration: Annotated[int | None, duration_option("--for", help="Duration; default: no limit.")] = None
    metrics: MetricsOption = ""
    traces: TracesOption = False
    log_format: LogFormatOption = "text"
    log_level: LogLevelOption = "warning"
    as_json: AsJson = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the types given."""
        return tuple(each.strip() for text in self.types for each in text.split(",") if each.strip())

    @property
    def recorded(self) -> tuple[str, ...] | None:
        """Types to record; None for all."""
        return None if self.everything else self.names


class Rate:
    """Event rate over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def take(self, at: float, events: int) -> float:
        """Events per second, given their total at this time (s)."""
        self._seen.append((at, events))
        while len(self._seen) > 2 and at - self._seen[1][0] >= RATE_OVER:
            self._seen.popleft()
        first, before = self._seen[0]
        return (events - before) / (at - first) if at > first else 0.0


@verb
def record(options: RecordOptions) -> int:
    """Record events into a history, until interrupted.

    Events are written when they are stable, as guaranteed detection consumes them, so that a replay detects the same as
    the live system. Sources wait for the recorder before they publish, and the recorder waits for sources: a silent one
    delays it until its lease expires or it is fenced off. Late events are kept apart. A recorder started again under
    its name continues, also after a crash. A terminal shows a status line; with --json, there is a status object every
    five seconds. The exit code is 1 where events could not be written.

    \b
    Examples:
      distced record --all --history office-history
      distced record --types Login,Motion --history office-history --name office --flush-every 10s
      distced record --types Motion --history trial --for 10min --keep 0s
    """
    if options.everything == bool(options.names):
        problem = "both --types and --all" if options.everything else "no types to record"
        raise TypeRegistryError(problem, allowed="--types Login,Motion, or --all")
    log = configure_logging(as_json=options.log_format == "json", level=options.log_level)
    metrics = metrics_address(options.metrics)
    with LiveDirectory(options.server) as reading:
        notes, _ = reading.look(lambda directory: check_types(directory, options.names))
    name = options.name or participant_name(options.server) or socket.gethostname().split(".")[0] or "recorder"
    with ExitStack() as stack:
        recorder = LiveRecorder(
            options.server,
            options.history,
            name,
            types=options.recorded,
            home=options.home or "",
            flush_every=options.flush_every,
            flush_events=options.flush_events,
            keep=options.keep,
            board=serve_metrics(metrics, stack, log),
            traces=stack.enter_context(opened_traces(options.traces)),
        )
        with dispensable_output():
            show_notes(notes)
        with ending():
            recorder.start(PATIENCE)
            try:
                announced = recorder.wait_announced(PATIENCE)
                with dispensable_output():
                    _report_begin(recorder, name, options)
                    if not announced:
                        show_notes(["the server has not confirmed that it is there: sources do not wait for it so far"])
                _watch(recorder, options)
            except KeyboardInterrupt:
                pass
            finally:
                recorder.stop()
    status = recorder.status()
    with dispensable_output():
        summarise(status, as_json=options.as_json)
    discard_unwritable()
    return 1 if status["problem"] else 0


def check_types(directory: Directory, names: Iterable[str]) -> list[str]:
    """Notes on types without a publisher so far.

    Raises:
        TypeRegistryError: for a derived type, and one of composite events of best effort only.
    """
    detectors = directory.detectors.values()
    published = {entry.publishes for entry in detectors if entry.publishes}
    guaranteed = {entry.publishes for entry in detectors if entry.policy == "guaranteed"}
    known = sorted(published | {name for name, each in directory.types.items() if each.derived is None})
    notes = []
    for name in names:
        event_type(name)  # Checks the name.
        registered = directory.types.get(name)
        if registered is not None and registered.derived is not None:
            raise TypeRegistryError(
                f"the type {name!r} is derived: no events are published under it",
                given=name, allowed=registered.derived.base, advice="record the type it is derived from",
            )  # fmt: skip
        if registered is None and name in published - guaranteed:
            raise TypeRegistryError(
                "composite events detected by best effort cannot be recorded: they are never known to be complete",
                given=name, advice="have them detected with the guarantee",
            )  # fmt: skip
        if registered is None and name not in published:
            near = get_close_matches(name, known, n=1)
            said = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}" if known else ""
            notes.append(f"{name} is neither registered nor published so far{said}")
    return notes


def status_line(status: Mapping[str, Any], rate: float, now: int) -> Text:
    """The status on one line."""
    watermark, waiting = status["watermark"], status["waiting"]
    parts: list[tuple[str, str]] = [
        (f"{rate:,.0f} events/s", "bold"),
        (f"{status['written']:,} written", "green"),
        (f"{waiting:,} waiting", "" if waiting else "dim"),
        ("no watermark yet", "dim") if watermark is None else (f"watermark {_behind(watermark, now)}", ""),
    ]
    parts += [(text, "yellow") for text in _counted(status, "late", "duplicates", "dead_letters", "gaps", "losses")]
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


def _counted(status: Mapping[str, Any], *names: str) -> list[str]:
    return [f"{status[each]:,} {each.replace('_', ' ')}" for each in names if status[each]]


def _behind(watermark: int, now: int) -> str:
    if now - watermark > DAY:
        return f"at {format_instant(watermark)}"
    return f"{span(now - watermark)} behind" if watermark <= now else "ahead"


def _watch(recorder: LiveRecorder, options: RecordOptions) -> None:
    deadline = None if options.duration is None else time.monotonic() + options.duration / SECOND
    rate, console = Rate(), messages()
    reported = time.monotonic()
    with ExitStack() as stack:
        live = None
        if console.is_terminal and not options.as_json:
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
        while deadline is None or time.monotonic() < deadline:
            status, now = recorder.status(), time.monotonic()
            current = rate.take(now, int(str(status["events"])))
            if live is not None:
                live.update(status_line(status, current, recorder.clock.now()), refresh=True)
            if options.as_json and now - reported >= REPORT_EVERY:
                reported = now
                with dispensable_output():
                    print_json({"event": "status", "rate": round(current, 3), **status}, indent=None)
            left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
            time.sleep(max(left, 0.0))


def _report_begin(recorder: LiveRecorder, name: str, options: RecordOptions) -> None:
    server = server_name(options.server)
    if options.as_json:
        shown = {"server": server, "recorder": name, "history": str(options.history), "types": options.recorded}
        print_json({"event": "ready", **shown, "resumed": recorder.resumed}, indent=None)
        return
    what = "all types" if options.everything else ", ".join(options.names)
    again = ", goes on where it was" if recorder.resumed else ""
    messages().print(f"{name} records {what} of {server} into {options.history}{again}; Ctrl-C ends it", style="dim")


def summarise(status: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the summary at the end."""
    if as_json:
        print_json({"event": "done", **status}, indent=None)
        return
    written, files, watermark = status["written"], status["files"], status["watermark"]
    parts = [f"{written:,} event{'s' * (written != 1)} written in {files:,} file{'s' * (files != 1)}"]
    parts += _counted(status, "late", "duplicates", "dead_letters")
    if watermark is not None:
        parts.append(f"complete until {format_instant(watermark)}")
    messages().print(", ".join(parts), style="bold")
    notes = []
    if status["waiting"]:
        unstable = f"not stable yet, for {few(status['holding'])} may still publish before that"
        why = "not written" if status["problem"] else unstable
        events = f"{status['waiting']:,} event{'s' * (status['waiting'] != 1)}"
        notes.append(f"{events} {why}: kept, and written when this recorder is started again")
    if status["problem"]:
        notes.append(str(status["problem"]))
    show_notes(notes)

"""The driver of `distced nodes` and `distced detectors`: prints what the directory says, once or as it changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import check_node, detectors_report, find_detector
from distced.brokers.inspect.detectors_text import detectors_text
from distced.brokers.inspect.directory_reader import Reading, State
from distced.brokers.inspect.nodes import nodes_report
from distced.brokers.inspect.nodes_text import nodes_text
from distced.middleware.cli.output import output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.model.clock import Clock, SystemClock

AT_LEAST: Final = 0.2
"""Seconds between redraws: entries change in bursts."""

AT_MOST: Final = 1.0
"""Seconds until a terminal is redrawn though nothing has changed but the time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is to be printed.

    Attributes:
        report: what the directory says.
        text: the same for people, at a time in ns.
        found: whether there is anything.
    """

    report: msgspec.Struct
    text: Callable[[int], list[RenderableType]]
    found: bool


See: TypeAlias = Callable[[Directory], Seen]


def as_dict(seen: Seen, state: State, now: int) -> dict[str, Any]:
    """What is to be printed for programs."""
    lost = {"lost": state.lost} if state.lost else {}
    return {"at": now, **msgspec.to_builtins(seen.report), "unreadable": list(state.unreadable), **lost}


def as_text(seen: Seen, state: State, now: int) -> Group:
    """What is to be printed for people."""
    notes = [f"the connection is lost, and this is how it was: {state.lost}"] if state.lost else []
    notes += [f"an entry that cannot be read: {each}" for each in state.unreadable]
    return Group(*seen.text(now), *(Text(each, "yellow", overflow="fold", no_wrap=False) for each in notes))


def show_nodes(server: str, *, watch: bool, as_json: bool) -> int:
    """Print what the directory says of broker nodes; the exit code."""

    def see(directory: Directory) -> Seen:
        report = nodes_report(directory)
        return Seen(report, lambda now: list(nodes_text(report, now)), bool(report.nodes))

    with ending(), Reading(server).open() as reading:
        return _show(reading, see, watch=watch, as_json=as_json)


def show_detectors(server: str, prefix: str | None, node: str | None, *, watch: bool, as_json: bool) -> int:
    """Print what the directory says of detectors, of those on a node, or of one; the exit code.

    Raises:
        DistcedError: for a node or a detector that is not there.
    """

    def see(directory: Directory) -> Seen:
        report = detectors_report(directory, node=node, about=about)
        return Seen(report, lambda now: list(detectors_text(report)), bool(report.detectors))

    with ending(), Reading(server).open() as reading:
        about, _ = reading.look(lambda directory: _asked_for(directory, prefix, node))
        return _show(reading, see, watch=watch, as_json=as_json)


def _asked_for(directory: Directory, prefix: str | None, node: str | None) -> str | None:
    """The id of the one detector that is asked for; None for all."""
    if node is not None:
        check_node(directory, node)
    return None if prefix is None else find_detector(directory, prefix, node=node)


def _show(reading: Reading, see: See, *, watch: bool, as_json: bool) -> int:
    """Print once, or until it is interrupted."""
    clock, console = SystemClock(), output()
    try:
        if not watch:
            seen, state = reading.look(see)
            _print(seen, state, clock.now(), console, as_json, indent=2)
            return 0 if seen.found else 1
        if as_json or not console.is_terminal:
            _print_changes(reading, see, clock, console, as_json)
        else:
            _redraw(reading, see, clock, console)
    except KeyboardInterrupt:
        pass
    except (BrokenPipeError, SystemExit):
        # Whoever read has had enough, for which rich exits; what is in the buffer must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_changes(reading: Reading, see: See, clock: Clock, console: Console, as_json: bool) -> None:
    """Every state, one below the other, where what is shown of it has changed."""
    before: object = None
    while True:
        seen, state = reading.look(see)
        # As it is at one and the same time, for that goes on by itself.
        shown = as_dict(seen, state, 0) if as_json else _drawn(as_text(seen, state, 0), console)
        if shown != before:
            if before is not None and not as_json:
                console.print()
            _print(seen, state, clock.now(), console, as_json, indent=None)
            before = shown
        time.sleep(AT_LEAST)
        reading.wait(state, None)


def _drawn(text: RenderableType, console: Console) -> str:
    with console.capture() as captured:
        console.print(text)
    return captured.get()


def _redraw(reading: Reading, see: See, clock: Clock, console: Console) -> None:
    """One state in the place of the other; the time goes on."""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen, state = reading.look(see)
            live.update(as_text(seen, state, clock.now()), refresh=True)
            time.sleep(AT_LEAST)
            reading.wait(state, AT_MOST)


def _print(seen: Seen, state: State, now: int, console: Console, as_json: bool, *, indent: int | None) -> None:
    if as_json:
        print_json(as_dict(seen, state, now), indent=indent)
        return
    # Folded to the width, which the console of verbs leaves to the terminal otherwise.
    console.print(as_text(seen, state, now), soft_wrap=False)
    sys.stdout.flush()

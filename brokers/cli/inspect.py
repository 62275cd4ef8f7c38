"""The verbs `nodes` and `detectors`: the content of the directory, once or with each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text
from typer import Argument, Option

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import detectors_report, detectors_text
from distced.brokers.inspect.directory_reader import ViewState
from distced.brokers.inspect.lookup import check_node, find_detector
from distced.brokers.inspect.nodes import nodes_report, nodes_text
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.cli.options import DEFAULT, ServerOption, verb
from distced.middleware.cli.output import AsJson, output, print_json
from distced.middleware.cli.signals import ending, until_interrupted
from distced.middleware.model.clock import Clock, SystemClock

AT_LEAST: Final = 0.2
"""Least interval between redraws, s: entries change in bursts."""

AT_MOST: Final = 1.0
"""Greatest interval between redraws of a terminal, s, for the times shown."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A view to be printed.

    Attributes:
        report: what the directory says.
        text: the same for people, at a time in ns.
        found: whether there is anything.
    """

    report: msgspec.Struct
    text: Callable[[int], list[RenderableType]]
    found: bool


See: TypeAlias = Callable[[Directory], Seen]

Watched: TypeAlias = Annotated[bool, Option("--watch", help="Print again after each change, until an interrupt.")]


def as_dict(seen: Seen, state: ViewState, now: int) -> dict[str, Any]:
    """View for programs."""
    lost = {"lost": state.lost} if state.lost else {}
    return {"at": now, **msgspec.to_builtins(seen.report), "unreadable": list(state.unreadable), **lost}


def as_text(seen: Seen, state: ViewState, now: int) -> Group:
    """View for people."""
    notes = [f"the connection is lost, and this is how it was: {state.lost}"] if state.lost else []
    notes += [f"an entry that cannot be read: {each}" for each in state.unreadable]
    return Group(*seen.text(now), *(Text(each, "yellow", overflow="fold", no_wrap=False) for each in notes))


@dataclass(frozen=True)
class NodesOptions:
    """Options of `distced nodes`."""

    server: ServerOption = DEFAULT
    watch: Watched = False
    as_json: AsJson = False


@verb
def nodes(options: NodesOptions) -> int:
    """Show the broker nodes, with their start, detectors, load and counters; and the recorders.

    All of it is read from the directory; nodes publish counters every two seconds. The exit code is 1 without a node.

    \b
    Examples:
      distced nodes
      distced nodes --watch --server mqtt://192.168.1.10
      distced nodes --json
    """

    def see(directory: Directory) -> Seen:
        report = nodes_report(directory)
        return Seen(report, lambda now: list(nodes_text(report, now)), bool(report.nodes))

    with ending(), LiveDirectory(options.server) as reading:
        return show(reading, see, watch=options.watch, as_json=options.as_json)


@dataclass(frozen=True)
class DetectorsOptions:
    """Options of `distced detectors`."""

    detector: Annotated[
        str | None, Argument(metavar="DETECTOR-PREFIX", help="Beginning of the id of a detector, shown in detail.")
    ] = None
    server: ServerOption = DEFAULT
    node: Annotated[str | None, Option(metavar="NODE", help="Only the detectors on this node.")] = None
    watch: Watched = False
    as_json: AsJson = False


@verb
def detectors(options: DetectorsOptions) -> int:
    """Show the detectors: their nodes, patterns and subscriptions, and the detectors they read.

    Detectors that serve clients are at the top, and below each the detectors of parts of its pattern. A single detector
    is shown in detail, with its inputs and readers. The exit code is 1 without a detector.

    \b
    Examples:
      distced detectors
      distced detectors --node cellar --watch
      distced detectors c52925
    """

    def see(directory: Directory) -> Seen:
        report = detectors_report(directory, node=options.node, about=about)
        return Seen(report, lambda now: list(detectors_text(report)), bool(report.detectors))

    with ending(), LiveDirectory(options.server) as reading:
        about, _ = reading.look(lambda directory: _asked_for(directory, options.detector, options.node))
        return show(reading, see, watch=options.watch, as_json=options.as_json)


def _asked_for(directory: Directory, prefix: str | None, node: str | None) -> str | None:
    """Id of the one detector asked for; None for all."""
    if node is not None:
        check_node(directory, node)
    return None if prefix is None else find_detector(directory, prefix, node=node)


def show(reading: LiveDirectory, see: See, *, watch: bool, as_json: bool) -> int:
    """Print once, or until interrupted."""
    clock, console = SystemClock(), output()
    with until_interrupted():
        if not watch:
            seen, state = reading.look(see)
            _print(seen, state, clock.now(), console, as_json, indent=2)
            return 0 if seen.found else 1
        if as_json or not console.is_terminal:
            _print_changes(reading, see, clock, console, as_json)
        else:
            _redraw(reading, see, clock, console)
    return 0


def _print_changes(reading: LiveDirectory, see: See, clock: Clock, console: Console, as_json: bool) -> None:
    """Print every state in which a shown value has changed, one below the other."""
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


def _redraw(reading: LiveDirectory, see: See, clock: Clock, console: Console) -> None:
    """Print each state in the place of the one before; shown times advance."""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen, state = reading.look(see)
            live.update(as_text(seen, state, clock.now()), refresh=True)
            time.sleep(AT_LEAST)
            reading.wait(state, AT_MOST)


def _print(seen: Seen, state: ViewState, now: int, console: Console, as_json: bool, *, indent: int | None) -> None:
    if as_json:
        print_json(as_dict(seen, state, now), indent=indent)
        return
    # Folded to the width, which the console of verbs leaves to the terminal otherwise.
    console.print(as_text(seen, state, now), soft_wrap=False)
    sys.stdout.flush()

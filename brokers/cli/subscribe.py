"""The driver of `distced subscribe`: subscribes, prints what comes, and says how it went."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import check_node
from distced.brokers.inspect.directory_reader import Reading
from distced.detectors.batch_run.report import event_as_dict
from distced.detectors.compiler import register_derived
from distced.detectors.language.parser import parse_file
from distced.detectors.pattern_files import PatternSource, compile_source, read_source
from distced.detectors.stepwise.engine import in_order
from distced.middleware.cli.event_lines import EventLines, span
from distced.middleware.cli.options import PATIENCE, connected
from distced.middleware.cli.output import messages, output, print_json, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.client.client import Client
from distced.middleware.client.quality import Decomposition, QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.policy import parse_policy

COUNTED: Final = ("duplicates", "limited", "dropped", "errors")
"""What the summary tells besides, by the names of the statistics."""

LOOK: Final = 0.2
"""Seconds between looks at the time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `distced subscribe` was asked for; the names are those of its options.

    Attributes:
        timeout: ns; None for ever.
        distribution: the distribution policy; empty for the one that is set for everybody.
        home: the server of the site of who subscribes; None for that of the directory.
        near: a node at that site; None for none.
    """

    pattern: str
    server: str
    best_effort: bool
    constituents: bool
    decomposition: Decomposition | None
    distribution: str
    hints: Hints
    home: str | None
    near: str | None
    first: bool
    count: int | None
    timeout: int | None
    as_json: bool

    @property
    def quality(self) -> QualityOfService:
        """The quality of service that is asked for."""
        return QualityOfService(
            detection="best-effort" if self.best_effort else "guaranteed",
            matches="first" if self.first else "every",
            constituents=self.constituents,
            decomposition=self.decomposition,
            distribution=parse_policy(self.distribution).text if self.distribution else "",
            hints=self.hints,
        )


@dataclass(slots=True)
class Printed:
    """What has been printed so far: how many events, and their delays in ns, in all and the longest."""

    events: int = 0
    delays: int = 0
    longest: int = 0


def listen(wanted: Wanted) -> int:
    """Subscribe and print until there is an end; the exit code."""
    source = read_source(wanted.pattern)
    printed = Printed()
    # What is wrong with it is said before anything else happens.
    _ = wanted.quality
    with ending(), connected(wanted.server, _home(wanted)) as client:
        subscriptions = _subscribe(client, source, wanted)
        for each in subscriptions:
            where = f"detector {each.detector} on {each.node}, {each.quality.detection}" if each.detector else "events"
            messages().print(f"listening: {each.pattern}  ({where})", style="dim")
        try:
            complete = _print_all(client, subscriptions, wanted, printed)
        except KeyboardInterrupt:
            complete = True
        except (BrokenPipeError, SystemExit):
            # Whoever read has had enough, for which rich exits; what is in the buffer must not fail a second time.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            complete = True
        finally:
            _summarise(subscriptions, printed, wanted)
    return 0 if complete else 1


def _print_all(client: Client, subscriptions: Sequence[Subscription], wanted: Wanted, printed: Printed) -> bool:
    """Print events until all have come or time is up; whether what was asked for has come."""
    lines, console = EventLines(), output()
    changed = threading.Event()
    for each in subscriptions:
        each.on_change = changed.set
    deadline = None if wanted.timeout is None else time.monotonic() + wanted.timeout / SECOND
    while True:
        changed.clear()
        # Asked before: what comes between would be left.
        over = all(each.ended for each in subscriptions)
        for each in subscriptions:
            while (deadline is None or time.monotonic() < deadline) and (event := each.get(0.0)) is not None:
                _print(event, client.clock.now(), wanted, printed, lines, console)
                if printed.events == wanted.count:
                    return True
        if over:
            return True
        left = LOOK if deadline is None else min(deadline - time.monotonic(), LOOK)
        if left <= 0:
            return wanted.count is None and not wanted.first and printed.events > 0
        changed.wait(left)


def _print(event: Event, now: int, wanted: Wanted, printed: Printed, lines: EventLines, console: Console) -> None:
    delay = max(now - event.hi, 0)
    printed.events += 1
    printed.delays += delay
    printed.longest = max(printed.longest, delay)
    if wanted.as_json:
        print_json(event_as_dict(event, with_events=wanted.constituents), indent=None)
        return
    for line in lines.lines(event, delay if delay < HOUR else None):
        console.print(line)
    sys.stdout.flush()


# Where, and under which conditions.


def _home(wanted: Wanted) -> str | None:
    """The server of the site of who subscribes."""
    if wanted.near is None:
        return wanted.home
    if wanted.home is not None:
        raise DistcedError(
            "both --home and --near", given=f"{wanted.home}, {wanted.near}", advice="either says where you are"
        )
    with Reading(wanted.server).open() as reading:
        home, _ = reading.look(lambda directory: _home_of(directory, wanted.near or ""))
    return home


def _home_of(directory: Directory, node: str) -> str:
    check_node(directory, node)
    if node not in directory.nodes:
        raise DistcedError("a broker node that is gone", given=node, allowed=", ".join(sorted(directory.nodes)))
    return directory.nodes[node].home


# What is subscribed to.


def _subscribe(client: Client, source: PatternSource, wanted: Wanted) -> Sequence[Subscription]:
    text = source.text.strip()
    if source.name or not text.isidentifier():
        client.wait_for_nodes(1, PATIENCE)
    if not source.name:
        return [client.subscribe(text, quality=wanted.quality)]
    registry = _known(client)
    patterns = compile_source(source, registry)
    show_notes(patterns.notes)
    derived = TypeRegistry(registry)
    register_derived(parse_file(source.text), derived)
    client.register(*(each for each in derived if each.name not in registry))
    return [client.subscribe(each.text, quality=wanted.quality) for each in in_order(patterns.compiled)]


def _known(client: Client) -> TypeRegistry:
    """The types that the patterns may read: those registered, and those that detectors publish."""
    directory = Directory()
    directory.types.update(client.types)
    directory.detectors.update(client.detectors)
    return directory.registry()


# How it went.


def _summarise(subscriptions: Sequence[Subscription], printed: Printed, wanted: Wanted) -> None:
    told = {name: sum(getattr(each.statistics, name) for each in subscriptions) for name in COUNTED}
    console = messages()
    # Of events of the past, delays say nothing.
    timely = printed.events > 0 and printed.longest < HOUR
    mean = printed.delays // printed.events if timely else None
    longest = printed.longest if timely else None
    if wanted.as_json:
        shown = {"printed": printed.events, **told, "delay_mean": mean, "delay_most": longest}
        sys.stderr.write(json.dumps(shown) + "\n")
        return
    parts = [f"{printed.events:,} event{'s' * (printed.events != 1)}"]
    parts += [f"{count:,} {name}" for name, count in told.items() if count]
    if mean is not None and longest is not None:
        parts.append(f"delay {span(mean)} on average, {span(longest)} at most")
    console.print(", ".join(parts), style="bold")

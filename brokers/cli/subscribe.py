"""The verb `subscribe`: subscribes, prints events, and a summary at the end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from queue import Empty, SimpleQueue
from typing import Annotated, Final

from rich.console import Console
from typer import Argument, Option

from distced.brokers.cli.source_subscriptions import subscribe_source
from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import check_node
from distced.brokers.live.observers import LiveDirectory
from distced.detectors.batch_run.report import event_as_dict
from distced.detectors.cli.pattern_options import LanguageOption
from distced.detectors.pattern_files import read_source
from distced.middleware.cli.logs import configure_logging
from distced.middleware.cli.options import (
    DEFAULT,
    Duration,
    HomeOption,
    ServerOption,
    connected,
    duration_option,
    verb,
)
from distced.middleware.cli.output import AsJson, EventLines, messages, output, print_json, span
from distced.middleware.cli.signals import ending, until_interrupted
from distced.middleware.cli.traces_option import TracesOption
from distced.middleware.client.client import Client
from distced.middleware.client.quality import KEEP_BYTES, QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, SECOND
from distced.policies.cli.hint_options import AllowedNodes, EventRates, ExcludedNodes, Selectivity
from distced.policies.distribution.choose.hints import read_hints
from distced.policies.distribution.policy import parse_policy

SHOWN: Final = 20
"""Number of patterns that are printed at the start."""

COUNTED: Final = ("duplicates", "limited", "dropped", "losses", "errors")
"""Statistics in the summary."""

LOOK: Final = 0.2
"""Interval of looks at the time, s."""


class Decompositions(StrEnum):
    """Parts of a pattern that may become detectors of their own."""

    NONE = "none"
    FULL = "full"
    FOR_REUSE = "for-reuse"


@dataclass(frozen=True)
class SubscribeOptions:
    """Options of `distced subscribe`; durations in ns."""

    pattern: Annotated[
        str, Argument(metavar="PATTERN|TYPE|FILE", help="A pattern, an event type, or a pattern file; - for its text.")
    ]
    server: ServerOption = DEFAULT
    language: LanguageOption = ""
    detection: Annotated[
        str,
        Option(
            "--detection",
            metavar="POLICY",
            help="Detection policy: guaranteed, best-effort, bounded(T) or probabilistic(p). "
            "All but the first have less delay, and errors with late events.",
        ),
    ] = "guaranteed"
    constituents: Annotated[bool, Option("--constituents", help="Print the constituents of composite events.")] = False
    decomposition: Annotated[
        Decompositions | None,
        Option("--decomposition", help="Parts with detectors of their own; default: that of the policy."),
    ] = None
    policy: Annotated[
        str, Option("--policy", help="Distribution policy: its name, or three words in quotes.", show_default=False)
    ] = ""
    on: AllowedNodes = None
    avoid: ExcludedNodes = None
    rate: EventRates = None
    selectivity: Selectivity = None
    isolated: Annotated[bool, Option("--isolated", help="Run the detector in a process of its own.")] = False
    publish_json: Annotated[
        str,
        Option(
            "--publish-json",
            metavar="TOPIC",
            help="Publish composite events as JSON on this topic, too.",
            show_default=False,
        ),
    ] = ""
    durable: Annotated[
        str,
        Option(
            "--durable",
            metavar="NAME",
            help="Name under which nodes keep the subscription while nobody reads it; the next call goes on there.",
            show_default=False,
        ),
    ] = ""
    keep_for: Annotated[
        int, duration_option("--keep-for", help="Longest time that --durable is kept without a reader.")
    ] = Duration("24h")
    keep_bytes: Annotated[int, Option("--keep-bytes", help="Limit of what is kept with --durable, bytes.", min=1)] = (
        KEEP_BYTES
    )
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="WHEN",
            help="Begin with recorded events: from an instant on, ISO 8601 or ns, a time before now, -2h, or the "
            "beginning of the recording. Needs a node with --history.",
            show_default=False,
        ),
    ] = None
    home: HomeOption = None
    near: Annotated[
        str | None, Option("--near", metavar="NODE", help="Node at the site of the subscriber, in place of --home.")
    ] = None
    first: Annotated[bool, Option("--first", help="End after the first event; of a file: of each pattern.")] = False
    count: Annotated[int | None, Option(help="Number of events to print; default: no limit.", min=1)] = None
    timeout: Annotated[int | None, duration_option(help="Time limit; default: none.")] = None
    traces: TracesOption = False
    as_json: AsJson = False

    @property
    def quality(self) -> QualityOfService:
        """The quality of service."""
        return QualityOfService(
            detection=self.detection,
            matches="first" if self.first else "every",
            constituents=self.constituents,
            decomposition=None if self.decomposition is None else self.decomposition.value,
            distribution=parse_policy(self.policy).text if self.policy else "",
            publish_json=self.publish_json,
            hints=read_hints(
                self.on or (), self.avoid or (), self.rate or (), self.selectivity, isolated=self.isolated
            ),
            durable=self.durable,
            keep_for=int(self.keep_for),
            keep_bytes=self.keep_bytes,
            since=self.since,
        )


@dataclass(slots=True)
class Printed:
    """Events printed so far: number, sum of delays and longest delay, ns."""

    events: int = 0
    delays: int = 0
    longest: int = 0
    lines: EventLines = field(default_factory=EventLines)
    console: Console = field(default_factory=output)


@verb
def subscribe(options: SubscribeOptions) -> int:
    """Subscribe, and print events as they arrive.

    All patterns of a pattern file are subscribed to, and its derived types registered. A summary goes to standard
    error. The exit code is 1 where --timeout has passed before any event, or all requested events, have arrived.

    \b
    Examples:
      distced subscribe '[Motion as m] ; [Door where room == m.room] within 1min'
      distced subscribe Motion --count 10
      distced subscribe office.pattern --constituents --json > found.jsonl
      distced subscribe '[Motion] ; [Door]' --policy min-bandwidth --rate Motion=20 --avoid cellar
      distced subscribe '[Smoke as s] -> Alarm(room = s.room)' --publish-json home/alarms
      distced subscribe '[Smoke as s] -> Alarm(room = s.room)' --durable alarms --json >> alarms.jsonl
      distced subscribe '[Smoke as s] -> Alarm(room = s.room)' --since -2h
      distced subscribe 'SELECT * FROM Stock NEXT{$1.Name = $2.Name} Stock' --language cel
    """
    # Loss and return of the connection are logged.
    configure_logging(level="info")
    source = read_source(options.pattern, options.language)
    printed = Printed()
    # Faulty options are refused before anything else happens.
    _ = options.quality
    with ending(), connected(options.server, _home(options), traces=options.traces) as client:
        subscriptions = subscribe_source(client, source, options.quality)
        for each in subscriptions[:SHOWN]:
            where = f"detector {each.detector} on {each.node}, {each.quality.detection}" if each.detector else "events"
            messages().print(f"listening: {each.query or each.pattern}  ({where})", style="dim")
        if len(subscriptions) > SHOWN:
            messages().print(f"and {len(subscriptions) - SHOWN:,} patterns more", style="dim")
        complete = True
        try:
            with until_interrupted():
                complete = _print_all(client, subscriptions, options, printed)
        finally:
            _summarise(subscriptions, printed, options)
    return 0 if complete else 1


def _print_all(
    client: Client, subscriptions: Sequence[Subscription], options: SubscribeOptions, printed: Printed
) -> bool:
    """Print events until all have arrived or the time is up; True where the number asked for has arrived."""
    changed: SimpleQueue[Subscription] = SimpleQueue()
    for each in subscriptions:
        each.on_change = partial(changed.put, each)
    open_ones = {each.id for each in subscriptions}
    due: list[Subscription] = list(subscriptions)
    deadline = None if options.timeout is None else time.monotonic() + options.timeout / SECOND
    while True:
        # Asked before: what comes between would be left.
        open_ones -= {each.id for each in due if each.ended}
        over = not open_ones
        for each in due:
            while (deadline is None or time.monotonic() < deadline) and (event := each.get(0.0)) is not None:
                _print(event, client.clock.now(), options, printed)
                if printed.events == options.count:
                    return True
        if over:
            return True
        left = LOOK if deadline is None else min(deadline - time.monotonic(), LOOK)
        if left <= 0:
            return options.count is None and not options.first and printed.events > 0
        due = changed_ones(changed, left)


def changed_ones(changed: SimpleQueue[Subscription], timeout: float) -> list[Subscription]:
    """Subscriptions that have changed, each once; none after a timeout, seconds."""
    found: dict[str, Subscription] = {}
    with suppress(Empty):
        first = changed.get(timeout=timeout)
        found[first.id] = first
        while True:
            each = changed.get_nowait()
            found[each.id] = each
    return list(found.values())


def _print(event: Event, now: int, options: SubscribeOptions, printed: Printed) -> None:
    delay = max(now - event.hi, 0)
    printed.events += 1
    printed.delays += delay
    printed.longest = max(printed.longest, delay)
    if options.as_json:
        print_json(event_as_dict(event, with_events=options.constituents), indent=None)
        return
    for line in printed.lines.lines(event, delay if delay < HOUR else None):
        printed.console.print(line)
    sys.stdout.flush()


def _home(options: SubscribeOptions) -> str | None:
    """Home server of the subscriber's site."""
    if options.near is None:
        return options.home
    if options.home is not None:
        given = f"{options.home}, {options.near}"
        raise DistcedError("both --home and --near", given=given, advice="either says where you are")
    with LiveDirectory(options.server) as reading:
        home, _ = reading.look(lambda directory: _home_of(directory, options.near or ""))
    return home


def _home_of(directory: Directory, node: str) -> str:
    check_node(directory, node)
    if node not in directory.nodes:
        raise DistcedError("a broker node that is gone", given=node, allowed=", ".join(sorted(directory.nodes)))
    return directory.nodes[node].home


def _summarise(subscriptions: Sequence[Subscription], printed: Printed, options: SubscribeOptions) -> None:
    counts = {name: sum(getattr(each.statistics, name) for each in subscriptions) for name in COUNTED}
    # Of events of the past, delays say nothing.
    timely = printed.events > 0 and printed.longest < HOUR
    mean = printed.delays // printed.events if timely else None
    longest = printed.longest if timely else None
    if options.as_json:
        shown = {"printed": printed.events, **counts, "delay_mean": mean, "delay_most": longest}
        sys.stderr.write(json.dumps(shown) + "\n")
        return
    parts = [f"{printed.events:,} event{'s' * (printed.events != 1)}"]
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if mean is not None and longest is not None:
        parts.append(f"delay {span(mean)} on average, {span(longest)} at most")
    messages().print(", ".join(parts), style="bold")

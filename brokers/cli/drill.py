"""The verb `drill`: a composite event down to primitive events, of recordings or live.

Live, the composite events are those that nodes detect: the patterns are subscribed to with constituents, and so are the
detectors whose composite events they read, over as many levels as there are. Rejected: detection in this process of
the primitive events, which would show other composite events than those that applications receive.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Annotated, Final

from typer import Option

from distced.brokers.cli.source_subscriptions import subscribe_source
from distced.brokers.cli.subscribe import LOOK, changed_ones
from distced.detectors.batch_run.drill_down import DrillDown, IdText
from distced.detectors.batch_run.live_drill_down import KEPT, LiveDrillDown
from distced.detectors.cli.drill import RecordedOptions, as_dict, drill_recorded, tree_lines
from distced.detectors.pattern_files import PatternSource, read_source
from distced.middleware.cli.logs import configure_logging
from distced.middleware.cli.options import (
    DEFAULT,
    PATIENCE,
    Duration,
    HomeOption,
    ServerOption,
    connected,
    duration_option,
    verb,
)
from distced.middleware.cli.output import EventLines, few, messages, output, print_json
from distced.middleware.cli.signals import ending, until_interrupted
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.directory_entries import DetectorEntry

_OF_RECORDINGS: Final = {"inputs": "--input", "mapping": "--mapping", "types": "--types"}
_OF_LIVE: Final = {"count": "--count", "timeout": "--timeout"}


@dataclass(frozen=True)
class DrillOptions(RecordedOptions):
    """Options of `distced drill`; durations in ns."""

    live: Annotated[bool, Option("--live", help="Drill down composite events as nodes detect them.")] = False
    server: ServerOption = DEFAULT
    home: HomeOption = None
    detection: Annotated[
        str, Option("--detection", metavar="POLICY", help="Live: detection policy, as of subscribe.")
    ] = "guaranteed"
    count: Annotated[int | None, Option(help="Live: number of composite events; default: no limit.", min=1)] = None
    timeout: Annotated[int | None, duration_option(help="Live: time limit; default: none.")] = None
    wait: Annotated[
        int, duration_option("--wait", help="Live: time for which a composite event waits for missing constituents.")
    ] = Duration("1s")
    keep: Annotated[int, Option("--keep", help="Live: number of events kept as possible constituents.", min=1)] = KEPT


@verb
def drill(options: DrillOptions) -> int:
    """Show what a composite event is made of: its constituents, theirs, down to primitive events.

    Composite events are those of the recording, found by --pattern, or live detected by nodes. A constituent that is
    not there is shown as not recorded, or not received. The exit code is 1 where there are such, where rows cannot be
    read, and where --timeout has passed before all requested events have arrived.

    \b
    Examples:
      distced drill --input office-history
      distced drill c61b125ebc4b0c85b.2a0f31 --input office-history
      distced drill c61b125 --input events.jsonl --pattern threats.cedmos --json
      distced drill --live --pattern threats.cedmos --count 10
      distced drill c61b125 --live --pattern Alert
    """
    where = "distced drill"
    if not options.live:
        given = [name for field, name in _OF_LIVE.items() if getattr(options, field) is not None]
        if given:
            raise DistcedError("options of live events", given=", ".join(given), where=where, advice="add --live")
        if not options.inputs:
            advice = "name recorded events with --input FILE, or take live ones with --live --pattern FILE"
            raise DistcedError("no events to drill down", where=where, advice=advice)
        return drill_recorded(options)
    given = [name for field, name in _OF_RECORDINGS.items() if getattr(options, field)]
    if given:
        advice = "leave them out: live events and their types come from the server"
        raise DistcedError("options of recorded events with --live", given=", ".join(given), where=where, advice=advice)
    if options.pattern is None:
        advice = "--pattern: a pattern, a pattern file, or a type that detectors publish"
        raise DistcedError("no composite events to drill down with --live", where=where, advice=advice)
    return _drill_live(options, read_source(options.pattern, options.language))


def _drill_live(options: DrillOptions, source: PatternSource) -> int:
    configure_logging(level="info")
    quality = QualityOfService(detection=options.detection, consumption=options.consumption, constituents=True)
    with ending(), connected(options.server, options.home) as client:
        client.wait_for_nodes(1, PATIENCE)
        roots = _roots(client, source, quality)
        parts = _parts(client, roots)
        for each in roots:
            messages().print(f"listening: {each.query or each.pattern}  (detector {each.detector})", style="dim")
        if parts:
            names = few(sorted({client.detectors[each.detector].publishes for each in parts}))
            messages().print(f"and to what they read: {names}", style="dim")
        shown = missing = 0
        lines = EventLines()
        with until_interrupted():
            for found in _found(client, roots, parts, options):
                shown += 1
                missing += len(found.missing)
                if options.as_json:
                    print_json(as_dict(found), indent=None)
                else:
                    for line in tree_lines(found, "not received", lines):
                        output().print(line)
                if shown == (1 if options.id else options.count):
                    break
        messages().print(
            f"{shown:,} composite event{'s' * (shown != 1)}, {missing:,} constituents not received", style="bold"
        )
        ended = options.timeout is not None and shown < (1 if options.id else options.count or 1)
    return int(missing > 0 or ended)


def _found(
    client: Client, roots: Sequence[Subscription], parts: Sequence[Subscription], options: DrillOptions
) -> Iterator[DrillDown]:
    """Composite events in the order of arrival, until the time is up or all subscriptions have ended."""
    changed: SimpleQueue[Subscription] = SimpleQueue()
    for each in (*roots, *parts):
        each.on_change = partial(changed.put, each)
    events = LiveDrillDown(options.wait, options.keep)
    asked = {each.id for each in roots}
    wanted = None if options.id is None else IdText(options.id)
    deadline = None if options.timeout is None else time.monotonic_ns() + options.timeout
    due: Sequence[Subscription] = [*roots, *parts]
    while True:
        now = time.monotonic_ns()
        over = all(each.ended for each in roots) or (deadline is not None and now >= deadline)
        for each in due:
            for event in _received(each):
                is_asked = each.id in asked and (wanted is None or wanted.fits(event.id))
                if is_asked and isinstance(event, CompositeEvent):
                    events.show(event, now)
                else:
                    events.add(event)
        yield from events.ready(now, over=over)
        if over:
            return
        due = changed_ones(changed, LOOK)


def _received(subscription: Subscription) -> Iterator[Event]:
    while (event := subscription.get(0.0)) is not None:
        yield event


def _roots(client: Client, source: PatternSource, quality: QualityOfService) -> Sequence[Subscription]:
    """Subscriptions to the patterns, or to the detectors that publish a type."""
    name = source.text.strip()
    if source.name or source.language or not name.isidentifier():
        return subscribe_source(client, source, quality)
    known = client.detectors
    publishers = [entry for entry in known.values() if entry.publishes == name]
    if not publishers:
        allowed = few(sorted({entry.publishes for entry in known.values()} - {""})) or "none is published now"
        advice = "name the pattern that publishes it"
        raise DistcedError("a type that no detector publishes", given=name, allowed=allowed, advice=advice)
    return [_to_detector(client, each) for each in publishers]


def _parts(client: Client, roots: Sequence[Subscription]) -> list[Subscription]:
    """Subscriptions to the detectors whose composite events those read, and which these read."""
    covered = {each.detector for each in roots}
    made: list[Subscription] = []
    pending = [each.detector for each in roots]
    while pending:
        entry = _entry(client, pending.pop())
        known = client.detectors
        for identity, other in known.items():
            is_read = bool(other.publishes) and (entry.reads is None or other.publishes in entry.reads)
            if is_read and identity not in covered:
                made.append(_to_detector(client, other))
                covered |= {identity, made[-1].detector}
                pending.append(made[-1].detector)
    return made


def _to_detector(client: Client, entry: DetectorEntry) -> Subscription:
    """Subscription to a detector: by its pattern, which has its id."""
    return client.subscribe(entry.pattern, quality=QualityOfService(detection=entry.policy, constituents=True))


def _entry(client: Client, detector: str) -> DetectorEntry:
    """Entry of a detector, which may arrive a little behind the answer to its subscription."""
    until = time.monotonic() + PATIENCE
    while (entry := client.detectors.get(detector)) is None:
        if time.monotonic() > until:
            raise DistcedError("no entry of a detector", given=detector, advice="distced doctor says what is wrong")
        time.sleep(0.05)
    return entry

"""The verb `drill`: a composite event down to primitive events, of recordings or live.

Live, the composite events are those that nodes detect: the patterns are subscribed to with constituents, and so are the
detectors whose composite events they read, over as many levels as there are, also those that come later. Rejected:
detection in this process of the primitive events, which would show other composite events than those that applications
receive.
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
from distced.detectors.batch_run.drill_down import DrillDown, IdText, id_text
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
from distced.middleware.cli.output import EventLines, few, messages, output, print_json, show_error, show_notes
from distced.middleware.cli.signals import ending, until_interrupted
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import Subscription
from distced.middleware.history.layout import loss_text
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.numbered_stream import Loss

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
        followed = FollowedDetectors(client, source, quality)
        shown = missing = 0
        lines = EventLines()
        with until_interrupted():
            for found in _found(followed, options):
                shown += 1
                missing += len(found.missing)
                losses = followed.losses_of(found.events[found.root])
                if options.as_json:
                    lost = [{"since": each.since, "until": each.until, "reason": each.reason} for each in losses]
                    print_json(as_dict(found) | ({"losses": lost} if lost else {}), indent=None)
                else:
                    for line in tree_lines(found, "not received", lines):
                        output().print(line)
                    for each in losses:
                        output().print(f"may be wrong: {_lost(each)}", style="yellow")
                if shown == (1 if options.id else options.count):
                    break
        parts = [f"{shown:,} composite event{'s' * (shown != 1)}", f"{missing:,} constituents not received"]
        if count := sum(each.statistics.losses for each in followed.subscriptions):
            parts.append(f"{count:,} loss{'es' * (count != 1)}")
        messages().print(", ".join(parts), style="bold")
        ended = options.timeout is not None and shown < (1 if options.id else options.count or 1)
    return int(missing > 0 or ended)


def _found(followed: FollowedDetectors, options: DrillOptions) -> Iterator[DrillDown]:
    """Composite events in the order of arrival, until the time is up or all subscriptions have ended."""
    changed: SimpleQueue[Subscription] = SimpleQueue()
    events = LiveDrillDown(options.wait, options.keep)
    wanted = None if options.id is None else IdText(options.id)
    deadline = None if options.timeout is None else time.monotonic_ns() + options.timeout
    due: Sequence[Subscription] = []
    asked: set[str] = set()
    looked = 0
    while True:
        now = time.monotonic_ns()
        if now - looked >= LOOK * SECOND:
            looked = now
            made = followed.follow()
            for each in made:
                each.on_change = partial(changed.put, each)
                each.on_loss = _show_concerned
            due = [*due, *made]
            asked = {each.id for each in followed.roots}
        over = (bool(followed.roots) and all(each.ended for each in followed.roots)) or (
            deadline is not None and now >= deadline
        )
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


def _show_concerned(loss: Loss) -> None:
    """Name composite events of before that a loss makes doubtful; others are marked when they are shown."""
    if loss.concerned:
        show_notes([f"{few([id_text(each) for each in loss.concerned])} may be wrong: {_lost(loss)}"])


def _lost(loss: Loss) -> str:
    return f"events lost {loss_text((loss.since, loss.until, loss.reason))}"


def _received(subscription: Subscription) -> Iterator[Event]:
    while (event := subscription.get(0.0)) is not None:
        yield event


class FollowedDetectors:
    """Subscriptions to the patterns, or to the detectors that publish a type, and to the detectors whose composite
    events those read, and which these read; also to those that come later.

    Attributes:
        roots, parts: of the composite events that are drilled down, and of their constituents.
    """

    def __init__(self, client: Client, source: PatternSource, quality: QualityOfService) -> None:
        """Subscribe to the patterns; `DistcedError` for a type that no detector publishes now."""
        self._client = client
        name = source.text.strip()
        self._type = "" if source.name or source.language or not name.isidentifier() else name
        self.roots = [] if self._type else list(subscribe_source(client, source, quality))
        self.parts: list[Subscription] = []
        self._known: set[str] = set()
        # Error of the last subscription that failed.
        self._refused: DistcedError | None = None
        self._covered = {each.detector for each in self.roots}
        for each in self._covered:
            _await_entry(client, each)
        publishers = {entry.publishes for entry in client.detectors.values()} - {""}
        if self._type and self._type not in publishers:
            allowed = few(sorted(publishers)) or "none is published now"
            advice = "name the pattern that publishes it"
            raise DistcedError("a type that no detector publishes", given=name, allowed=allowed, advice=advice)

    @property
    def subscriptions(self) -> list[Subscription]:
        return [*self.roots, *self.parts]

    def follow(self) -> list[Subscription]:
        """Subscribe to detectors that are new; the subscriptions that are."""
        known = self._client.detectors
        is_first, new = not self._known, known.keys() - self._known
        # One that has gone is new when it comes back.
        self._known = set(known)
        if not new:
            return []
        # The first call gives those to the patterns, too.
        before = [] if is_first else self.subscriptions
        for identity, entry in known.items():
            if self._type and entry.publishes == self._type:
                self._add(self.roots, identity, entry)
        if is_first and self._refused is not None and not self.roots:
            raise self._refused
        names = set()
        pending = [each.detector for each in self.subscriptions]
        while pending:
            # The entry of one made just now may arrive a little behind, and is new then.
            if (reader := known.get(pending.pop())) is None:
                continue
            for identity, entry in known.items():
                is_read = bool(entry.publishes) and (reader.reads is None or entry.publishes in reader.reads)
                if is_read and self._add(self.parts, identity, entry):
                    names.add(entry.publishes)
                    pending.append(self.parts[-1].detector)
        made = [each for each in self.subscriptions if each not in before]
        for each in made:
            if each in self.roots:
                messages().print(f"listening: {each.query or each.pattern}  (detector {each.detector})", style="dim")
        if names:
            messages().print(f"and to what they read: {few(sorted(names))}", style="dim")
        return made

    def _add(self, group: list[Subscription], identity: str, entry: DetectorEntry) -> bool:
        """Subscribe to a detector once, by its pattern, which has its id; whether that was done now."""
        if identity in self._covered:
            return False
        self._covered.add(identity)
        try:
            made = self._client.subscribe(
                entry.pattern, quality=QualityOfService(detection=entry.policy, constituents=True)
            )
        except DistcedError as error:
            # It may have gone meanwhile.
            self._covered.discard(identity)
            self._refused = error
            if self.subscriptions:
                show_error(error)
            return False
        self._covered.add(made.detector)
        group.append(made)
        return True

    def losses_of(self, event: Event) -> list[Loss]:
        """Losses by which a composite event, or what it is made of, may be wrong."""
        found = {
            (loss.since, loss.until, loss.reason): loss
            for each in self.subscriptions
            for loss in each.losses
            if loss.concerns(event.lo, event.hi)
        }
        return [found[key] for key in sorted(found)]


def _await_entry(client: Client, detector: str) -> None:
    """Wait for the entry of a detector, which may arrive a little behind the answer to its subscription."""
    until = time.monotonic() + PATIENCE
    while detector not in client.detectors:
        if time.monotonic() > until:
            raise DistcedError("no entry of a detector", given=detector, advice="distced doctor says what is wrong")
        time.sleep(0.05)

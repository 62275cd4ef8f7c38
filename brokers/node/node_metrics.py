"""Figures of a broker node for its metrics (`brokers.core.metrics`), read at most once a second.

A node may have a hundred thousand detectors and sources. So instances and states are read of some detectors at a time,
in turn, and their sum is that of the last round; and of many watermarks only the least of each input is looked at.
Running sums in the detectors were rejected: they change with every event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import Final

from distced.brokers.core.dead_letters import REASONS as DEAD_LETTER_REASONS
from distced.brokers.core.metrics import (
    CHECKPOINTS_FAILED,
    CHECKPOINTS_SAVED,
    DEAD_LETTERS,
    EXCLUSIONS,
    LOSSES,
    MIGRATIONS_BEGUN,
    MIGRATIONS_ENDED,
    REFUSALS,
    SOURCES,
    TAKEOVERS,
    DelayHistogram,
    Delays,
    Values,
    by_reason,
    put,
)
from distced.brokers.node.admission import EXCLUDED, UNUSABLE
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.inputs import HostedInput
from distced.brokers.node.node import Node
from distced.brokers.node.refusals import REASONS
from distced.middleware.model.timestamps import INSTANT_MAX, SECOND
from distced.policies.detection.guaranteed import Guaranteed

AT_ONCE: Final = 1_000
"""Detectors whose instances are counted at once: a millisecond."""

MOST_WATERMARKS: Final = 5_000
"""Watermarks looked at, over all inputs: a few milliseconds. With more, only the least of each input."""

_FROM_START: Final = (
    *((REFUSALS, reason) for reason in (*REASONS.values(), UNUSABLE, EXCLUDED)),
    *((MIGRATIONS_BEGUN, kind) for kind in ("move", "replica")),
    *(
        (MIGRATIONS_ENDED, kind, outcome)
        for kind in ("move", "replica")
        for outcome in ("completed", "failed", "called_off")
    ),
    *((TAKEOVERS, kind) for kind in ("replica", "checkpoint")),
    *((name,) for name in (LOSSES, CHECKPOINTS_SAVED, CHECKPOINTS_FAILED)),
)
"""Counters exported also before they count, so that a first one is a change."""

_COUNTS: Final = {
    "frames": "distced_frames_total",
    "events": "distced_events_total",
    "composite events": "distced_composite_events_total",
    "late": "distced_late_events_total",
    "duplicates": "distced_duplicate_events_total",
    "detectors excluded": EXCLUSIONS,
    "clients quarantined": "distced_clients_quarantined_total",
    "sources fenced off": "distced_sources_fenced_total",
    "entries refused": "distced_entries_refused_total",
    "patterns refused": "distced_patterns_refused_total",
    "events delayed": "distced_delayed_messages_total",
    "durable events dropped": "distced_durable_events_dropped_total",
}
"""Metrics by the name of a node's counter."""


@dataclass(slots=True)
class _Sums:
    """Sums over detectors: instances, bytes of states, replicas; and the instant of the oldest checkpoint, ns."""

    instances: int = 0
    state: int = 0
    replicas: int = 0
    oldest: int = INSTANT_MAX


class NodeMetrics:
    """Figures of a node; from its making on the delays of composite events are counted."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._path = node.event_path
        self._delays = node.event_path.delays = DelayHistogram()
        # Detectors of the present round that were not read, and its sums so far; the sums of the last round.
        self._round: Iterator[str] = iter(())
        self._so_far = self._sums = _Sums()

    def delays(self) -> Delays:
        """Delays of composite events."""
        return self._delays.read()

    def read(self, now: int) -> Values:
        """Present figures."""
        node, path, values = self._node, self._path, Values()
        for count, name in _COUNTS.items():
            put(values, name, path.counts.get(count, 0))
        for tally in _FROM_START:
            put(values, tally[0], 0, *tally[1:])
        for tally, number in path.tallies.items():
            put(values, tally[0], number, *tally[1:])
        by_reason(values, DEAD_LETTERS, path.dead_letters.counts, DEAD_LETTER_REASONS)
        put(values, "distced_unpublished_dead_letters_total", path.dead_letters.unpublished)
        put(values, "distced_subscriptions", len(node.hosting.by_subscription))
        put(values, "distced_migrations_in_progress", len(node.migration.moving))
        put(values, "distced_backlog_seconds", node.backlog.behind / SECOND)
        put(values, "distced_queue_messages", len(node.delayed), "directory")
        put(values, "distced_queue_messages", len(node.admission.queue), "requests")
        put(values, "distced_queue_bytes", node.delayed.size)
        put(values, "distced_kept_bytes", sum(each.size for each in path.output.durable.values()))
        put(values, "distced_silent_sources", len(node.silent_sources.since))
        put(values, "distced_draining", node.draining.active)
        put(values, "distced_sources", len(node.directory.sources))
        load = path.meter.load
        put(values, "distced_instances_touched_per_second", load)
        if node.capacity:
            put(values, "distced_load_ratio", load / node.capacity)
        self._detectors(values, now)
        self._watermarks(values, now)
        return values

    def _detectors(self, values: Values, now: int) -> None:
        """Put the sums over all detectors, as of the last round."""
        hosted = self._path.hosted
        if len(hosted) <= AT_ONCE:
            self._sums, self._round, self._so_far = _Sums(), iter(()), _Sums()
            for each in hosted.values():
                self._add(each, self._sums)
        else:
            turn = list(islice(self._round, AT_ONCE))
            for identity in turn:
                if identity in hosted:
                    self._add(hosted[identity], self._so_far)
            if len(turn) < AT_ONCE:
                self._sums, self._so_far, self._round = self._so_far, _Sums(), iter(list(hosted))
        sums, checkpoints = self._sums, self._node.checkpoints
        put(values, "distced_instances", sums.instances)
        put(values, "distced_state_bytes", sums.state)
        put(values, "distced_detectors", len(hosted) - sums.replicas, "primary")
        put(values, "distced_detectors", sums.replicas, "replica")
        if checkpoints.kept:
            begun = now if checkpoints.begun_at is None else checkpoints.begun_at
            put(values, "distced_checkpoint_age_seconds", max(now - min(begun, sums.oldest), 0) / SECOND)

    def _add(self, hosted: HostedDetector, sums: _Sums) -> None:
        sums.instances += hosted.detector.live
        sums.state += hosted.detector.size
        sums.replicas += not hosted.primary
        if hosted.running and hosted.primary and (written := self._node.checkpoints.written.get(hosted.id)) is not None:
            sums.oldest = min(sums.oldest, written.at)

    def _watermarks(self, values: Values, now: int) -> None:
        """Put the events that wait to be stable, and the watermarks of the slowest sources."""
        policies = [
            each.shared.policy if isinstance(each, HostedInput) else each.detector.policy
            for each in self._path.inputs.readers()
        ]
        waiting = [each for each in policies if isinstance(each, Guaranteed)]
        put(values, "distced_waiting_events", sum(len(each.waiting) for each in waiting))
        put(values, "distced_put_off_events", sum(each.events for each in self._path.shares.turns))
        least: dict[str, int] = {}
        number = sum(len(each.sources) for each in waiting)
        for policy in waiting:
            if number <= MOST_WATERMARKS:
                names = iter(policy.sources)
            else:
                slowest = policy.slowest()
                names = iter(() if slowest is None else slowest[:1])
            for source in names:
                watermark = policy.sources[source].watermark
                # Of a part its host reports the source.
                if watermark < least.get(source, now) and source not in self._path.directory.detectors:
                    least[source] = watermark
        for source, watermark in nlargest(SOURCES, least.items(), key=lambda each: now - each[1]):
            # One that has promised nothing yet is behind since the epoch.
            put(values, "distced_watermark_lag_seconds", (now - max(watermark, 0)) / SECOND, source)

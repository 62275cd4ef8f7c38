"""Metrics of participants: what is exported, and readings of the figures, as data.

Names and units follow the conventions of Prometheus (https://prometheus.io/docs/practices/naming/): seconds and bytes,
`_total` for counters. Every sample has a label with the name of its participant, called as in the log: `node`,
`recorder` or `bridge`. A participant is pure and has one thread; so its driver makes a reading, at most once a second,
and whatever exports metrics reads the last one (`brokers.live.metrics_board`). Counters of the library for Prometheus
that participants change themselves were rejected: a lock for each event, and no participant without that library.

Labels with names from outside are bounded: sources to the slowest, homes to the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

Values: TypeAlias = dict[str, dict[tuple[str, ...], float]]
"""Figures by metric, and by the values of its labels."""


class Metric(NamedTuple):
    """Exported metric: its name, kind and help text, and its labels besides that of the participant."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Unit by its name; empty for a number."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "bytes") if stem.endswith(f"_{unit}")), "")


COMPOSITE_DELAY: Final = "distced_composite_delay_seconds"
DEAD_LETTERS: Final = "distced_dead_letters_total"
EXCLUSIONS: Final = "distced_detectors_excluded_total"
LOSSES: Final = "distced_losses_total"
MIGRATIONS_BEGUN: Final = "distced_migrations_begun_total"
MIGRATIONS_ENDED: Final = "distced_migrations_ended_total"
REFUSALS: Final = "distced_refusals_total"
TAKEOVERS: Final = "distced_takeovers_total"
CHECKPOINTS_SAVED: Final = "distced_checkpoints_saved_total"
CHECKPOINTS_FAILED: Final = "distced_checkpoint_writes_failed_total"

METRICS: Final = (
    # Of nodes.
    Metric("distced_frames_total", "counter", "Frames of events received, unusable ones too."),
    Metric("distced_events_total", "counter", "Events received and usable."),
    Metric("distced_composite_events_total", "counter", "Composite events published."),
    Metric("distced_late_events_total", "counter", "Events behind the watermark of a detector, not consumed."),
    Metric("distced_duplicate_events_total", "counter", "Events received again, not consumed."),
    Metric(
        COMPOSITE_DELAY,
        "histogram",
        "Time from the end of the last constituent of a composite event to its publication.",
    ),
    Metric(REFUSALS, "counter", "Subscriptions refused, by reason.", ("reason",)),
    Metric(LOSSES, "counter", "Losses that detectors have reported to their readers."),
    Metric(EXCLUSIONS, "counter", "Detectors excluded: beyond their limits, or lost with several nodes."),
    Metric("distced_clients_quarantined_total", "counter", "Clients whose entries the node stopped reading."),
    Metric("distced_sources_fenced_total", "counter", "Silent sources fenced off, as too many events waited."),
    Metric("distced_entries_refused_total", "counter", "Entries of the directory beyond a limit, but subscriptions."),
    Metric("distced_patterns_refused_total", "counter", "Patterns beyond a limit of their automaton."),
    Metric("distced_delayed_messages_total", "counter", "Messages of publishers beyond their rate, which waited."),
    Metric("distced_durable_events_dropped_total", "counter", "Events of durable subscriptions without room."),
    Metric(MIGRATIONS_BEGUN, "counter", "Migrations begun with the node as origin; replicas, too.", ("kind",)),
    Metric(
        MIGRATIONS_ENDED,
        "counter",
        "Migrations ended with the node as origin: completed, failed, or called off.",
        ("kind", "outcome"),
    ),
    Metric("distced_migrations_in_progress", "gauge", "Detectors on their way to the node or from it."),
    Metric(TAKEOVERS, "counter", "Detectors of lost nodes continued here, from a replica or a checkpoint.", ("kind",)),
    Metric(CHECKPOINTS_SAVED, "counter", "Checkpoints written to the store."),
    Metric(CHECKPOINTS_FAILED, "counter", "Attempts to write checkpoints that have failed."),
    Metric(
        "distced_checkpoint_age_seconds",
        "gauge",
        "Age of the oldest last checkpoint of a detector, or of the write under way; 0 without any.",
    ),
    Metric("distced_detectors", "gauge", "Detectors on the node, by role.", ("role",)),
    Metric("distced_subscriptions", "gauge", "Subscriptions served by detectors of the node."),
    Metric("distced_instances", "gauge", "Instances of the detectors, approximately."),
    Metric("distced_state_bytes", "gauge", "States of the detectors, approximately."),
    Metric("distced_load_ratio", "gauge", "Instances touched a second, as a share of the node's capacity, if known."),
    Metric("distced_instances_touched_per_second", "gauge", "Instances touched a second: the load of the node."),
    Metric("distced_backlog_seconds", "gauge", "Age of the oldest message not consumed; 0 below one second."),
    Metric("distced_queue_messages", "gauge", "Messages and requests that wait in the node, by queue.", ("queue",)),
    Metric("distced_queue_bytes", "gauge", "Messages about the directory that wait in the node."),
    Metric("distced_kept_bytes", "gauge", "Frames kept for durable subscriptions."),
    Metric("distced_silent_sources", "gauge", "Sources whose silence holds back a detector."),
    Metric("distced_draining", "gauge", "1 where the node is draining, else 0."),
    # Of nodes and recorders.
    Metric("distced_waiting_events", "gauge", "Events received that are not stable yet."),
    Metric("distced_put_off_events", "gauge", "Events that wait for the turns of detectors, for each of these."),
    Metric("distced_sources", "gauge", "Sources in the directory of a node; those a recorder or a bridge has."),
    Metric(
        "distced_watermark_lag_seconds",
        "gauge",
        "Time of the clock beyond the watermark of a source; the slowest sources only.",
        ("source",),
    ),
    # Of all participants.
    Metric(DEAD_LETTERS, "counter", "Unusable messages and events, published as dead letters, by reason.", ("reason",)),
    Metric("distced_unpublished_dead_letters_total", "counter", "Dead letters that were only counted."),
    Metric("distced_unsent_messages_total", "counter", "Messages dropped, as too many waited for a server."),
    Metric("distced_connected", "gauge", "1 where the server is connected, else 0.", ("home",)),
    Metric("distced_reconnections_total", "counter", "Connections to a server after the first.", ("home",)),
    Metric("distced_received_messages_total", "counter", "Messages received from a server.", ("home",)),
    Metric("distced_received_bytes_total", "counter", "Payloads received from a server.", ("home",)),
    Metric("distced_sent_messages_total", "counter", "Messages sent to a server, again after a loss.", ("home",)),
    Metric("distced_sent_bytes_total", "counter", "Payloads sent to a server, again after a loss.", ("home",)),
    Metric("distced_outgoing_messages", "gauge", "Messages that wait to be sent, or are under way.", ("home",)),
    # Of recorders.
    Metric("distced_recorder_events_total", "counter", "Events received by a recorder."),
    Metric("distced_recorder_written_events_total", "counter", "Events written into the history: its rows."),
    Metric("distced_recorder_written_files_total", "counter", "Files written into the history."),
    Metric("distced_recorder_late_events_total", "counter", "Events behind the watermark, recorded apart."),
    Metric("distced_recorder_duplicate_events_total", "counter", "Events received again, not recorded."),
    Metric("distced_recorder_unwritten_events", "gauge", "Stable events that are not written yet."),
    Metric("distced_recorder_lag_seconds", "gauge", "Time of the clock beyond the watermark of the recorder."),
    Metric("distced_recorder_losses", "gauge", "Losses and gaps noted in the history."),
    Metric("distced_recorder_failing", "gauge", "1 where the history cannot be written, else 0."),
    # Of bridges.
    Metric("distced_bridge_messages_total", "counter", "Messages of devices received."),
    Metric("distced_bridge_events_total", "counter", "Events published for devices."),
    Metric("distced_bridge_late_events_total", "counter", "Events beyond the allowed lateness, not published."),
    Metric("distced_bridge_rejected_total", "counter", "Messages and events of devices that were rejected."),
    Metric("distced_bridge_retained_messages_total", "counter", "Retained messages of devices, ignored."),
    Metric("distced_bridge_left_out_events_total", "counter", "Events not sent, as nobody reads them."),
)

SOURCES: Final = 20
"""Sources with a sample of their own: those with the greatest lag."""

BOUNDS: Final = (
    *(each * MILLISECOND for each in (1, 2, 5, 10, 25, 50, 100, 250, 500)),
    *(each * SECOND for each in (1, 2, 5, 10, 30, 60, 300)),
)
"""Upper bounds of the delays in each class of the histogram, ns; the last class has none."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays so far: number up to each of `BOUNDS`, number of all, and sum, s."""

    up_to: tuple[int, ...]
    number: int
    total: float


class DelayHistogram:
    """Histogram of the delays of composite events; a few additions for each."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0

    def add(self, found: Sequence[Event], now: int) -> None:
        """Add composite events that are published now; the delay of one ahead of this clock counts as none."""
        counts = self._counts
        for each in found:
            delay = now - each.hi
            if delay > 0:
                self._total += delay
            counts[bisect_left(BOUNDS, delay)] += 1

    def read(self) -> Delays:
        """Delays so far."""
        *up_to, number = accumulate(self._counts)
        return Delays(tuple(up_to), number, self._total / SECOND)


@dataclass(frozen=True, slots=True)
class MetricsReading:
    """Figures of a participant at an instant; never changed.

    Attributes:
        role, name: of the participant: `node`, `recorder` or `bridge`.
        at: instant by the monotonic clock of the process, s.
        connected: whether it was connected to the server of the directory.
    """

    role: str
    name: str
    at: float
    connected: bool
    values: Mapping[str, Mapping[tuple[str, ...], float]] = field(default_factory=dict)
    delays: Delays | None = None


def put(values: Values, name: str, value: float, *labels: str) -> None:
    """Put a figure among the values."""
    values.setdefault(name, {})[labels] = value


def by_reason(values: Values, name: str, counts: Mapping[str, int], known: Iterable[str] = ()) -> None:
    """Put the counts of each reason; of known ones also where there were none, so that a first one is a change."""
    values[name] = {(reason,): counts.get(reason, 0) for reason in dict.fromkeys((*known, *counts))}

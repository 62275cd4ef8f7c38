"""Detector on a broker node: its phase, the subscriptions it serves, its inputs, its replicas, its measurements.

composite-event-framework-2004, "Mobile Composite Event Detectors". Only the methods of this class change its fields.
Phases:

    planned ----> waiting for parts ----> running <----> leaving
       |                                     ^              |
       |                 arriving -----------+              v
       +----------------------------------------------->  gone

`validate` checks the invariants, after dask's scheduler, in tests and simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from distced.brokers.core.effects import Effect
from distced.brokers.node.checkpoint_format import Checkpoint, unpack_policy
from distced.brokers.node.json_output import JsonOutput, JsonTopic
from distced.brokers.node.metering import DetectorMeter
from distced.brokers.node.output import DetectorOutput
from distced.brokers.node.planning import Planned
from distced.brokers.node.served import FEW, ServedSubscriptions, served
from distced.detectors.runtime.detection_policy import Arrival
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.detection import BEST_EFFORT, GUARANTEED
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Heartbeat
from distced.middleware.wire.bounded_values import following
from distced.middleware.wire.directory_entries import Measured, SubscriptionEntry
from distced.middleware.wire.frames import Frame
from distced.middleware.wire.node_messages import DetectorState
from distced.middleware.wire.replica_streams import Streams

UNREAD_EVERY: Final = SECOND
"""Interval of published watermarks that no detector waits for, without composite events, ns."""

Kept: TypeAlias = tuple[str, str, Frame] | Heartbeat | str
"""Buffered input: a frame with its source and the home it came from, a heartbeat, or a source fenced off."""


Happened: TypeAlias = Callable[[str, str, str], None]
"""Recorder of a change of a detector, a subscription or a source: kind, id, text (`brokers.node.story`)."""

Changed: TypeAlias = Callable[[str], None]
"""Notice that a detector has changed, by its id (`brokers.node.inventory`)."""


class Phase(Enum):
    """Phase in the life of a hosted detector."""

    PLANNED = "planned"
    """No client is subscribed yet."""
    WAITING = "waiting for parts"
    """A client is subscribed, and detectors of parts of the pattern are not running yet."""
    RUNNING = "running"
    """Events are consumed; also while a move or a replica is prepared."""
    ARRIVING = "arriving"
    """On the way here: inputs are buffered until the state is here."""
    LEAVING = "leaving"
    """State sent to another node: inputs are buffered in case that node refuses."""
    GONE = "gone"
    """Destroyed, given up, or moved away."""


# Looked up for every frame.
_RUNNING: Final = Phase.RUNNING

_NEXT: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.PLANNED: frozenset({Phase.WAITING, Phase.RUNNING, Phase.ARRIVING, Phase.GONE}),
    Phase.WAITING: frozenset({Phase.PLANNED, Phase.RUNNING, Phase.GONE}),
    Phase.RUNNING: frozenset({Phase.LEAVING, Phase.GONE}),
    Phase.ARRIVING: frozenset({Phase.RUNNING, Phase.GONE}),
    Phase.LEAVING: frozenset({Phase.RUNNING, Phase.GONE}),
    Phase.GONE: frozenset(),
}


# Most detectors of a crowd have none of these.
_NO_PARTS: Final[Mapping[str, bool]] = MappingProxyType({})
_NO_TYPES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})
_NO_NAMES: Final[frozenset[str]] = frozenset()  # one object for all detectors
_NO_UPSTREAM: Final[Mapping[str, str]] = MappingProxyType({})
_NO_STREAMS: Final[Mapping[str, Streams]] = MappingProxyType({})
_NO_REPLICAS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class HostedDetector:
    """Detector on this node.

    Attributes:
        planned: plan it was made from.
        reads: published types it reads; None for every primitive event. Constant.
        home: home server of its topic, or where this replica publishes; empty for that of the directory. Constant.
        expected: expected measurements at its placement; None for unknown.
        names: types it names; composite events are read by their names only. Constant.
        subscriptions: those it serves, by id; none unless primary.
        upstream: detectors read by the type of their composite events, and waited for, with that type; each has a
            stream.
        parts: detectors read as parts of the pattern, and whether each is running; all are while this one runs.
        streams: of `upstream` and `parts`: the homes where it listens to them.
        kept: inputs received before it runs, in order; empty while it runs.
        arrivals: frames received and not consumed yet, within one call; none where it shares an input.
        engine: engine last reported.
        published, published_at: watermark published last, ns, None for none or due again; time of it, ns, None for
            never.
        has_readers: whether detectors read its composite events by their type.
        constituents, derivations: whether a subscription wants constituents, or provenance as of a part, sent along.
        gaps_due: whether the completeness of its derivations is due with the next watermark.
        meter: counts its work; None unless it runs.
        since: begin here, ns; may be set back for immediate reconsideration of its place.
        primary: whether it serves subscriptions; the others are replicas of it.
        replicas: of the primary: nodes with replicas, and the homes these publish at; empty otherwise.
        listed: of a replica: whether the directory has named it; before that its entry says nothing of it.
        generation: number of its primary, the last one known here (`DetectorEntry`); never falls.
        attributes_read: kinds of the attributes of the types that it reads and detectors publish, as it was checked.
        own_types: types that it reads and other queries of its text publish, which no detector did as it was checked.
        waits: why nothing can be found for the time being; empty where it is complete.
        notified: `waits` as of the last notification of its subscriptions; None for unknown, after a move.
        output: what it publishes here.
        recovered: the checkpoint whose state it has, until it runs; None for none.
        json: its composite events as JSON; None where no subscription has wanted them.
        idle_since: begin of the time without subscriptions, ns; None while one needs it.
    """

    detector: Detector
    planned: Planned
    reads: frozenset[str] | None
    home: str = ""
    expected: Measured | None = None
    happened: Happened = lambda kind, subject, what: None
    changed: Changed = lambda detector: None
    names: frozenset[str] = field(init=False)
    phase: Phase = Phase.PLANNED
    subscriptions: ServedSubscriptions = field(default_factory=ServedSubscriptions)
    upstream: Mapping[str, str] = field(default_factory=lambda: _NO_UPSTREAM)
    parts: Mapping[str, bool] = field(init=False)
    streams: Mapping[str, Streams] = field(default_factory=lambda: _NO_STREAMS)
    kept: Sequence[Kept] = ()
    arrivals: Sequence[Arrival] = ()
    engine: EngineName = "stepwise"
    published: int | None = None
    published_at: int | None = None
    has_readers: bool = False
    constituents: bool = False
    derivations: bool = False
    gaps_due: bool = False
    meter: DetectorMeter | None = None
    since: int = 0
    primary: bool = True
    replicas: Mapping[str, str] = field(default_factory=lambda: _NO_REPLICAS)
    listed: bool = False
    generation: int = 0
    attributes_read: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: _NO_TYPES)
    own_types: frozenset[str] = _NO_NAMES
    waits: str = ""
    notified: str | None = ""
    output: DetectorOutput = field(default_factory=DetectorOutput)
    recovered: Checkpoint | None = None
    json: JsonOutput | None = None
    idle_since: int | None = None

    def __post_init__(self) -> None:
        self.names = self.planned.compiled.names()
        self.parts = dict.fromkeys(self.planned.parts, False) if self.planned.parts else _NO_PARTS
        self.checked_again(self.attributes_read)
        self.own_types = self.own_types or _NO_NAMES

    @property
    def id(self) -> str:
        """Its name in the directory."""
        return self.detector.id

    @property
    def name(self) -> str:
        """Its name for messages, as of an input."""
        return self.detector.id

    @property
    def movable(self) -> bool:
        """Whether it may be moved, replicated and saved: it runs, and consumes no recorded events any more."""
        return self.phase is _RUNNING and not self.detector.in_history

    @property
    def running(self) -> bool:
        """Whether events are consumed."""
        return self.phase is _RUNNING

    @property
    def moving(self) -> bool:
        """Whether it is on its way here, or from here, and buffers its inputs."""
        return self.phase is Phase.ARRIVING or self.phase is Phase.LEAVING

    @property
    def settled(self) -> bool:
        """Whether nothing about it is to be looked at again: it runs alone, and all its clients listen to it."""
        return (
            self.phase is _RUNNING
            and self.primary
            and self.notified == self.waits == ""
            and not (self.parts or self.streams or self.upstream or self.replicas or self.json_due)
            and bool(self.subscriptions)
            and all(each.settled for each in self.subscriptions.terms())
        )

    @property
    def publishes(self) -> str:
        """Type of its composite events; empty where they have no name."""
        # One with an origin has others beside it that publish the same from now on.
        return "" if self.planned.asked.origin is not None else self.detector.compiled.publishes.name

    @property
    def json_due(self) -> bool:
        """Whether it is the primary, and does not publish JSON yet."""
        return self.primary and self.json is not None and not (self.json.publishes or self.json.handing_over)

    @property
    def json_homes(self) -> set[str]:
        """Servers where its composite events leave as JSON."""
        return set() if self.json is None else self.json.homes

    def takes(self, type_name: str) -> bool:
        """Whether it reads primitive events of a type."""
        return self.reads is None or type_name in self.reads

    # Subscriptions.

    def serve(self, name: str, entry: SubscriptionEntry, near: str = "") -> None:
        """Serve a subscription, again from the start, at the replica on a node where one is named."""
        self.changed(self.id)
        replica = near in self.replicas
        self.subscriptions.serve(name, entry, near if replica else "", "" if replica else near)
        terms = self.subscriptions[name].terms
        where = f", at the replica on {terms.near or terms.awaits}" if terms.near or terms.awaits else ""
        self.happened("subscription", name, f"served by {self.id}{where}")
        self.happened("detector", self.id, f"serves {name}")
        self.idle_since = None
        self._wait()

    def client_ready(self, name: str) -> None:
        """The client of a subscription is subscribed."""
        self.changed(self.id)
        self.subscriptions.change(name, ready=True)
        self.happened("subscription", name, "client listens")
        self._wait()

    def await_clients(self, names: Iterable[str]) -> None:
        """Count the clients of these subscriptions as not listening until they report ready: the topic is elsewhere, or
        they have listened to another host."""
        self.changed(self.id)
        for name in names:
            self.subscriptions.change(name, ready=False)
        self._wait()

    def withdraw(self, name: str) -> None:
        """End a subscription."""
        self.changed(self.id)
        self.subscriptions.remove(name)
        self.happened("subscription", name, f"no longer served by {self.id}")
        self.happened("detector", self.id, f"no longer serves {name}")
        self._wait()

    def serve_none(self) -> None:
        """End all subscriptions."""
        self.changed(self.id)
        self.subscriptions = ServedSubscriptions()
        self._wait()

    def ready_subscriptions(self) -> list[str]:
        """Subscriptions whose clients are subscribed."""
        return [name for name, each in self.subscriptions.items() if each.terms.ready]

    def near_nodes(self) -> set[str]:
        """Nodes whose replicas serve subscriptions near them."""
        return {each.near for each in self.subscriptions.terms() if each.near}

    def awaited_nodes(self) -> set[str]:
        """Nodes that need a replica before a subscription is offered the topic."""
        return {each.awaits for each in self.subscriptions.terms() if each.awaits}

    def update_extras(self, *, is_part: bool) -> bool:
        """Set the extras of composite events to those its subscriptions want, or all of them for the reader of a part;
        True where they change."""
        terms = self.subscriptions.terms()
        constituents = is_part or any(each.constituents for each in terms)
        derivations = is_part or any(each.derivations for each in terms)
        return self.send_along(constituents=constituents, derivations=derivations)

    def send_along(self, *, constituents: bool, derivations: bool) -> bool:
        """Set the extras of composite events: constituents, derivations; True where they change."""
        news = (constituents, derivations) != (self.constituents, self.derivations)
        self.constituents, self.derivations = constituents, derivations
        if derivations:
            self.detector.keep_derivations()
        return news

    def leave_as_json(self, topics: Iterable[JsonTopic]) -> bool:
        """Set the topics for its composite events as JSON; True where they change."""
        wanted = tuple(topics)
        if self.json is None:
            if not wanted:
                return False
            self.json = JsonOutput(self.detector.compiled.canonical_id, publishes=self.primary)
        self.changed(self.id)
        return self.json.leave_at(wanted)

    def keep_json(self, *, handing_over: bool = False) -> None:
        """Publish no JSON until this is the primary (again)."""
        if self.json is not None:
            self.changed(self.id)
            self.json.keep(handing_over=handing_over)

    def publish_json(self, now: int) -> list[Effect]:
        """Publish JSON from now on, beginning with what was kept."""
        self.changed(self.id)
        return [] if self.json is None else self.json.publish(now)

    def reset_idle(self) -> None:
        """Reset the idle time: it is needed, or is for another node to judge."""
        self.idle_since = None

    def idle_for(self, now: int) -> int:
        """Time without a subscription that needs it, ns, from the first call."""
        if self.idle_since is None:
            self.idle_since = now
        return now - self.idle_since

    # Inputs.

    def listen_to(self, detector: str, homes: Iterable[str]) -> None:
        """Subscribe to a detector at these homes."""
        self.changed(self.id)
        streams = self.streams.get(detector)
        if streams is None:
            streams = self._reading(())
            self.streams = {**self.streams, detector: streams}
        streams.want(homes)

    def _reading(self, homes: Iterable[str]) -> Streams:
        policy = self.detector.policy.name
        return Streams(homes, ordered=policy != BEST_EFFORT, exact=policy == GUARANTEED)

    def part_running(self, part: str, home: str, life: int, number: int, watermark: int | None = None) -> None:
        """The detector of a part runs, with a life at a home, the number of its next frame, 0 for unknown, and its
        watermark, ns."""
        self.parts = {**self.parts, part: True}
        # One that continues is not beyond what it has received itself.
        begins = self.phase is Phase.WAITING and self.recovered is None
        self.streams[part].begin(home, life, number or None, watermark if begins else None)
        self.happened("detector", self.id, f"part {part} running")
        self._wait()

    def wait_for(self, detectors: Mapping[str, str]) -> None:
        """Wait for these further detectors, which are read by their types."""
        self.changed(self.id)
        for each in sorted(detectors.keys() - self.upstream.keys()):
            self.happened("detector", self.id, f"reads {each}")
        if detectors:
            self.upstream = {**self.upstream, **detectors}

    def checked_again(self, attributes_read: Mapping[str, Mapping[str, str]]) -> None:
        """Its pattern suits the types that it reads, with these attributes."""
        self.attributes_read = attributes_read or _NO_TYPES

    def wait_for_types(self, reason: str) -> None:
        """Set the reason of a suspension; empty for none."""
        if reason != self.waits:
            self.changed(self.id)
            self.happened("detector", self.id, f"waits: {reason}" if reason else "waits no longer")
            self.waits = reason

    def subscriptions_notified(self) -> None:
        """Its subscriptions were notified of `waits`."""
        self.changed(self.id)
        self.notified = self.waits

    def disconnect(self, detector: str) -> None:
        """Remove a detector read by its type, which is gone."""
        self.changed(self.id)
        self.happened("detector", self.id, f"no longer reads {detector}")
        self.upstream = {each: name for each, name in self.upstream.items() if each != detector}
        if detector not in self.parts:
            self.streams = {each: streams for each, streams in self.streams.items() if each != detector}

    def keep(self, kept: Kept) -> None:
        """Buffer an input until it runs."""
        if isinstance(self.kept, list):
            self.kept.append(kept)
        else:
            self.kept = [kept]

    # Phases.

    def run(self, now: int) -> None:
        """Begin, or continue, once every awaited client is subscribed and every part runs."""
        self._become(_RUNNING)
        if not self.output.life:
            base = now if self.detector.policy.name == "best-effort" else None
            if self.detector.in_history:
                base = self.detector.watermark
            # Before an origin there is no state to begin without.
            self.output.begin(now, base=base, empty=not self.detector.in_history)

    def recover(self, checkpoint: Checkpoint) -> None:
        """Take the state of a checkpoint, before it runs. Raises `SnapshotError` for another one; then it is
        unusable."""
        self.detector.resume(checkpoint.snapshot, unpack_policy(checkpoint.policy))
        self.recovered = checkpoint
        self.send_along(constituents=checkpoint.constituents, derivations=checkpoint.derivations)
        self.happened("detector", self.id, "recovered from a checkpoint")

    def take_recovered(self) -> Checkpoint | None:
        """The checkpoint that its inputs are to go on from, once."""
        recovered, self.recovered = self.recovered, None
        return recovered

    def begin(self, now: int, meter: DetectorMeter) -> Sequence[Kept]:
        """Begin to count and measure; the buffered inputs, which come first."""
        self.since, self.meter = now, meter
        kept, self.kept = self.kept, ()
        return kept

    def arrive(self, upstream: Mapping[str, str], trusted: Mapping[str, tuple[str, ...]]) -> None:
        """Begin its arrival; `trusted` are homes where the origin is subscribed without loss, by detector."""
        self.changed(self.id)
        self._become(Phase.ARRIVING)
        self.upstream = upstream
        self.streams = {each: self._reading(trusted.get(each, ())) for each in (*self.parts, *sorted(upstream))}

    def arrived(self, state: DetectorState, known: Mapping[str, SubscriptionEntry], now: int, *, replica: bool) -> None:
        """End its arrival: it runs, with its state; subscriptions not `known` to the directory have ended meanwhile."""
        self.changed(self.id)
        self._become(_RUNNING)
        self.notified = None if self.attributes_read or self.own_types else ""
        self.parts = dict.fromkeys(self.parts, True)
        self.subscriptions = ServedSubscriptions(
            {
                name: served(known[name], ready=ready, near=state.near.get(name, ""))
                for name, ready in state.subscriptions.items()
                if name in known
            }
        )
        self.primary, self.replicas = not replica, dict(state.replicas)
        self.generation = state.generation if replica else following(state.generation)
        for each, read in state.reads.items():
            if each in self.streams:
                self.streams[each].resume(read)
        if self.json is not None and self.primary:
            # The origin has published what it has found.
            self.json.publish(now)
        self.published = None
        self.send_along(constituents=state.constituents, derivations=state.derivations)

    def leave(self) -> None:
        """Begin its departure: its state is on the way to another node."""
        self.meter = None
        self._become(Phase.LEAVING)

    def end(self) -> None:
        """Remove it from this node."""
        self.meter = None
        self._become(Phase.GONE)

    # Output.

    @property
    def published_together(self) -> bool:
        """Whether its watermark is published together with those of other detectors: all clients listen to the primary,
        and there are few, with names as `Client` gives them."""
        if not self.primary or self.replicas or self.has_readers or not 0 < len(self.subscriptions) <= FEW:
            return False
        return self.subscriptions.settled_by_name

    @property
    def unread_every(self) -> int:
        """Interval of published watermarks that no detector waits for, ns."""
        return max(self.subscriptions.quiet, UNREAD_EVERY)

    def news(self, found: bool, watermark: int | None, now: int, *, in_turn: bool = False) -> bool:
        """Whether to publish a frame, with composite events where `found`; it then counts as published. `in_turn`: its
        turn among many comes once, for the clients that want fewer, too."""
        if not found:
            if watermark is None or watermark == self.published:
                return False
            at = self.published_at
            # Only detectors wait for a watermark.
            if not (self.derivations or self.has_readers) and at is not None:
                since = now - at
                if since < UNREAD_EVERY or (not in_turn and since < self.subscriptions.quiet):
                    return False
        self.published, self.published_at = watermark, now
        return True

    def due_again(self) -> None:
        """Mark the watermark as due, whatever was published before."""
        self.published = self.published_at = None

    def publish_again(self) -> None:
        """Mark the watermark and gaps as due, for readers that came after they were published."""
        if self.publishes or self.derivations:
            self.published = None
            self.gaps_due = True

    def gaps_sent(self) -> None:
        """The completeness of its derivations was published to the readers."""
        self.gaps_due = False

    def readers_known(self, has_readers: bool) -> None:
        """Whether detectors read its composite events by their type."""
        self.has_readers = has_readers

    def engine_changed(self) -> bool:
        """Whether another engine runs than the one reported last."""
        if self.engine == self.detector.at_work:
            return False
        self.engine = self.detector.at_work
        return True

    def set_back(self, since: int) -> None:
        """Set the time of its creation here back to this at the latest, ns."""
        self.since = min(self.since, since)

    # Replicas.

    def add_replica(self, node: str, home: str) -> list[str]:
        """Add the replica on a node; the subscriptions that waited for it, and now read it."""
        self.changed(self.id)
        self.replicas = {**self.replicas, node: home}
        waited = self.stop_waiting(node)
        for name in waited:
            self.subscriptions.change(name, near=node)
        return waited

    def stop_waiting(self, node: str) -> list[str]:
        """Wait no longer for a replica on this node; the subscriptions that did."""
        self.changed(self.id)
        waited = [name for name, each in self.subscriptions.items() if each.terms.awaits == node]
        for name in waited:
            self.subscriptions.change(name, awaits="")
        return waited

    def remove_replicas(self, nodes: Iterable[str]) -> list[str]:
        """Remove replicas that are lost or given up; the subscriptions that read them."""
        self.changed(self.id)
        gone = set(nodes)
        self.replicas = {node: home for node, home in self.replicas.items() if node not in gone}
        near = {name: each.terms.near for name, each in self.subscriptions.items() if each.terms.near}
        listened = [name for name, node in near.items() if node not in self.replicas]
        for name in listened:
            self.subscriptions.change(name, near="")
        return listened

    def become_primary(self, replicas: Mapping[str, str], generation: int) -> None:
        """Serve subscriptions from now on, with these replicas elsewhere, as the primary of this number."""
        self.changed(self.id)
        self.primary, self.replicas, self.generation = True, dict(replicas), generation
        self.happened("detector", self.id, "primary")

    def succeed(self, generation: int) -> None:
        """Be the primary of this number, unless of a greater one."""
        if generation > self.generation:
            self.changed(self.id)
            self.generation = generation

    def become_replica(self, generation: int) -> None:
        """Serve no subscription from now on; the directory names it as a replica of the primary of this number."""
        self.changed(self.id)
        if self.primary or not self.listed:
            self.happened("detector", self.id, "replica")
        self.primary, self.replicas, self.listed, self.generation = False, _NO_REPLICAS, True, generation
        self.keep_json()
        self.serve_none()

    # Invariants.

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant does not hold."""
        running, streams, here = self.running, self.streams.keys(), self.subscriptions
        read = self.upstream.keys() | self.parts.keys()
        terms = here.terms()
        near, awaited = self.near_nodes(), self.awaited_nodes()
        here.validate()
        assert (self.meter is not None) == running, self._broken("a meter while it runs, and no other time")
        assert not running or all(self.parts.values()), self._broken("all parts running while it runs")
        assert streams == read if running else streams <= read, self._broken("streams of what it reads")
        assert not (running and self.kept), self._broken("inputs kept before it runs alone")
        assert self.primary or not (here or self.replicas), self._broken("nothing served by a replica")
        assert near <= self.replicas.keys(), self._broken("subscriptions listen to replicas that are there")
        assert awaited.isdisjoint(self.replicas), self._broken("subscriptions wait for replicas that are not")
        assert not (near and awaited and any(each.near and each.awaits for each in terms)), self._broken(
            "a subscription has a replica or waits for one"
        )
        assert self.published is None or self.published_at is not None, self._broken("the time of what was published")
        if self.phase is Phase.PLANNED or self.phase is Phase.WAITING:
            waits = any(each.ready for each in terms)
            assert (self.phase is Phase.WAITING) == waits, self._broken("planned until a client listens")

    def _broken(self, invariant: str) -> str:
        return f"detector {self.id} ({self.phase.value}): {invariant}"

    def _wait(self) -> None:
        """Set the phase to planned or waiting, by its clients."""
        if self.phase is Phase.PLANNED or self.phase is Phase.WAITING:
            ready = any(each.ready for each in self.subscriptions.terms())
            self._become(Phase.WAITING if ready else Phase.PLANNED)

    def _become(self, phase: Phase) -> None:
        if phase is self.phase:
            return
        if phase not in _NEXT[self.phase]:
            raise AssertionError(f"detector {self.id}: {self.phase.value} and then {phase.value}")
        self.changed(self.id)
        self.happened("detector", self.id, f"{phase.value} (was {self.phase.value})")
        self.phase = phase

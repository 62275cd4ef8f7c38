"""Recorder, sans-I/O: messages and the time in, operations to be journaled and batches to be written out.

Design, sections 3 and 4. It takes part in the protocol of sources as a broker node does: it acknowledges sources, waits
for them and for recorded detectors, and fences them off at the end of their leases or on request of an administrator.
Every operation on its state is journaled. Numbered messages that it lacks it requests, as any reader does; what their
publishers do not have any more is noted in the history as a loss.

A node with a detector that matches every event was rejected: subscriptions would be placed there, and a lost detector
begins from nothing, where a recorder has to continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from heapq import nsmallest
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from distced.brokers.core.barriers import Homes
from distced.brokers.core.clock_bound import ClockBound
from distced.brokers.core.dead_letters import REASONS, DeadLetters, foreign_promise
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Publish, warning
from distced.brokers.core.metrics import DEAD_LETTERS, SOURCES, Values, by_reason, put
from distced.brokers.core.topic_routes import TopicRoute, TopicRoutes
from distced.brokers.recorder.inputs import KEPT, Inputs, Interest, RecorderFilters
from distced.brokers.recorder.state import (
    Answered,
    Append,
    Beat,
    Begun,
    Entered,
    Fenced,
    JournaledState,
    Lost,
    Met,
    RecorderEffect,
    RecorderState,
    Resubscribed,
    StableCut,
    TypesChosen,
    Write,
)
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN, MINUTE, SECOND
from distced.middleware.wire.administration import (
    RENEW_EVERY,
    Filtered,
    Heartbeat,
    Missing,
    MissingMessages,
    Unavailable,
    read_unavailable,
    renewal,
)
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.declared_reads import DeclaredReads, any_filters, types_whole
from distced.middleware.wire.directory_entries import MAX_AHEAD, RECORDER, RecorderEntry
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.frames import decode_any
from distced.middleware.wire.numbered_stream import Loss, StreamPosition
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    composite_topic,
    directory_topic,
    event_topic,
    parse_topic,
)


class Recorder:
    """Recorder of events.

    Attributes:
        flush_every: longest wait of stable events to be written, ns.
        flush_events: greatest number of waiting stable events.
        announced: whether its entry is in the directory, so that sources wait for it.
    """

    def __init__(
        self,
        name: str,
        now: int,
        state: RecorderState | None = None,
        *,
        types: Iterable[str] | None,
        flush_every: int = MINUTE,
        flush_events: int = 100_000,
        root: str = ROOT,
        home: str = "",
        max_ahead: int = MAX_AHEAD,
    ) -> None:
        """Compose a recorder from the `state` of an earlier life; None for none.

        Args:
            types: names of the types to record, primitive or composite; None for all.
            home: server of its site; empty for that of the directory.
            max_ahead: events and promises further beyond the clock are rejected, ns.
        """
        self.name = name
        self.state = RecorderState() if state is None else state
        self.directory = Directory()
        self.flush_every = flush_every
        self.flush_events = flush_events
        self.announced = False
        speaker = self._speaker = f"{RECORDER}{name}"
        self.dead_letters = DeadLetters(speaker, root)
        self._clock_bound = ClockBound(self.dead_letters, max_ahead)
        # What an earlier life has asked for may still come.
        self.homes = Homes(speaker, root, first=max(now // 1_000, 0))
        self._root = root
        self._entry = RecorderEntry(now, None if types is None else tuple(sorted(set(types))), home)
        # Types of the detectors waited for.
        published: dict[str, str] = {}
        self._journaled = JournaledState(self.state)
        self._routes = TopicRoutes(self.directory, lambda detector: published.get(detector, ""))
        self._interest = Interest(self.state, self.directory)
        self._filters = RecorderFilters(name, root, self._interest, self.homes)
        # Not withdrawn when it stops: sources go on sending what the server keeps for it.
        self._reads = DeclaredReads(speaker)
        self._reads.need(speaker, None if self._entry.types is None else types_whole(self._entry.types), now, runs=True)
        self._handshake = DirectoryHandshake(speaker, root)
        self._inputs = Inputs(
            self._journaled,
            self.directory,
            self._interest,
            self._filters,
            self._routes,
            self._handshake,
            published,
            acknowledged_at=lambda source: administration_topic("ack", source, speaker, root=root),
        )
        self._stopped = False
        self._cut_at = self._renewed_at = now
        self._up: set[str] = set()
        self._lost_at: dict[str, int] = {}
        # Start of a connection over which everything was subscribed to again, until that is in force; ns.
        self._subscribed_again_at: int | None = None
        self._has_namesake = self._begun = False
        for (kind, entry), payload in self.state.entries.items():
            self.directory.read((kind, entry), payload, where="what was remembered")

    @property
    def types(self) -> tuple[str, ...] | None:
        """Types it records; None for all."""
        return self._entry.types

    def filters(self, home: str) -> list[str]:
        """MQTT filters at a server."""
        return self._filters.at(home)

    # From the driver.

    def begin(self, now: int, beyond: int | None = None, noted: RecorderNote | None = None) -> list[RecorderEffect]:
        """Effects before the first connection: subscriptions for messages that its server has queued.

        Without memory: `beyond`, lower bound of `hi` of recorded events, exclusive, ns; `noted`, note in the history.
        """
        if self.state.wants != self.types:
            self._journaled.do(TypesChosen(self.types))
        if beyond is not None and self.state.policy.watermark is None:
            begun = Begun(beyond)
            if noted is not None and noted.watermark is not None:
                begun = Begun(beyond, noted.since, noted.gaps, noted.watermark, noted.losses)
            self._journaled.do(begun)
        self._inputs.resume()
        return self._done(self._filters.renew())

    def connected(self, now: int, *, resumed: bool) -> list[RecorderEffect]:
        """Effects of a connection to the server of the directory, perhaps a repeated one that has kept messages."""
        effects = self._meet("", now, resumed)
        self.directory.reconnected(now)
        question = self._handshake.begin(now)
        again = self._look_again("")
        return self._done([*effects, *self._inputs.renew(now), *self._filters.renew(), question, *again])

    def linked(self, home: str, now: int, *, resumed: bool) -> list[RecorderEffect]:
        """Effects of a connection to another server, perhaps a repeated one."""
        return self._done([*self._meet(home, now, resumed), *self.homes.linked(home, now), *self._look_again(home)])

    def lost(self, home: str, now: int) -> None:
        """Effects of a lost connection. Meanwhile no lease of a source there expires, for its messages are queued."""
        if home in self._up:
            self._up.discard(home)
            self._lost_at[home] = now

    def will(self) -> Publish:
        """Last will: published when the recorder is lost."""
        return Publish(self._filters.topic, b"", retain=True)

    def stop(self, now: int) -> list[RecorderEffect]:
        """Effects of the end: stable events are written."""
        self._stopped = True
        return self._done([*self._write(now), self.will()])

    def receive(self, topic: str, payload: bytes, now: int, home: str = "") -> list[RecorderEffect]:
        """Effects of a message over the connection to this home."""
        try:
            return self._done(self._received(topic, payload, now, home))
        except DistcedError as error:
            return self._done(self.dead_letters.message("malformed", error, topic, payload))

    def tick(self, now: int) -> list[RecorderEffect]:
        """Effects of the time; call it a few times a second."""
        effects: list[RecorderEffect] = [*self.homes.tick(self._filters.servers, now), *self._handshake.again(now)]
        effects += self.dead_letters.tick(now)
        if self.announced and now - self._renewed_at >= RENEW_EVERY:
            self._renewed_at = now
            effects.append(renewal("recorder", self.name, root=self._root))
        for change in self.directory.clear_unconfirmed(now) if self._handshake.settled else ():
            effects += self._changed(change, b"", now)
        for source in self.state.expired(now):
            if (self.state.joined.get(source) or "") in self._up:
                self._journaled.do(Fenced(source, now))
                effects.append(warning("source fenced off", source=source, reason="its lease has run out"))
        if self._handshake.settled:
            effects += self._requests(now)
        # Nor does it wait for a clock that was set back.
        begins = self.announced and not self._begun
        self._begun |= begins
        # At its begin, so that the history says since when it is recorded.
        if begins or len(self.state.stable) >= self.flush_events or abs(now - self._cut_at) >= self.flush_every:
            effects += self._write(now)
        return self._done(effects)

    def status(self) -> dict[str, Any]:
        """Counts, events waiting, watermark, and sources waited for."""
        policy = self.state.policy
        return {
            **self.state.counts,
            "dead_letters": sum(self.dead_letters.counts.values()),
            "waiting": len(policy.waiting) + len(self.state.stable),
            "sources": len(policy.sources),
            "watermark": policy.watermark,
            "holding": policy.holding(),
            "gaps": len(self.state.gaps),
            "losses": len(self.state.losses),
        }

    def measured(self, now: int) -> Values:
        """Figures for metrics."""
        policy, counts, values = self.state.policy, self.state.counts, Values()
        put(values, "distced_recorder_events_total", counts["events"])
        put(values, "distced_recorder_late_events_total", counts["late"])
        put(values, "distced_recorder_duplicate_events_total", counts["duplicates"])
        put(values, "distced_recorder_losses", len(self.state.losses) + len(self.state.gaps))
        put(values, "distced_waiting_events", len(policy.waiting))
        put(values, "distced_sources", len(policy.sources))
        if policy.watermark is not None:
            put(values, "distced_recorder_lag_seconds", (now - policy.watermark) / SECOND)
        slowest = nsmallest(SOURCES, policy.sources.items(), key=lambda each: each[1].watermark)
        for source, state in slowest:
            put(values, "distced_watermark_lag_seconds", (now - max(state.watermark, 0)) / SECOND, source)
        by_reason(values, DEAD_LETTERS, self.dead_letters.counts, REASONS)
        return values

    # What is to be done.

    def _done(self, effects: Iterable[RecorderEffect]) -> list[RecorderEffect]:
        """Effects, operations to be journaled first: batches and acknowledgements rest on them."""
        done = list(effects)
        return [*(Append(each) for each in self._journaled.taken()), *done]

    def _write(self, now: int) -> list[RecorderEffect]:
        self._cut_at = now
        batch = self._journaled.do(StableCut(now))
        assert batch is not None
        return [Write(batch)]

    def _meet(self, home: str, now: int, resumed: bool) -> list[RecorderEffect]:
        self._up.add(home)
        if not home:
            self.announced = False
            self._subscribed_again_at = None if resumed else now
        missing = None
        if home in self.state.met and not resumed:
            missing = min(self._lost_at.get(home, now), max(self.state.heard, 0))
        self._journaled.do(Met(home, missing, now))
        if missing is None:
            return []
        where = {"home": home} if home else {}
        reason = "the server has kept nothing while the recorder was away"
        note = warning("events missed", **where, seconds=round((now - missing) / SECOND, 1), reason=reason)
        # Of the directory's server a barrier is under way in any case.
        return [note, *(self.homes.flush({home}, partial(self._listens, now), now) if home else [])]

    def _listens(self, began: int, now: int) -> list[Effect]:
        self._journaled.do(Resubscribed(began, now))
        return []

    # Messages.

    def _received(self, topic: str, payload: bytes, now: int, home: str) -> list[RecorderEffect]:
        route = self._routes.known.get(topic)
        if route is not None:
            return self._events(route, topic, payload, now, home)
        area, levels = parse_topic(topic, root=self._root)
        if area in (Area.EVENTS, Area.COMPOSITE_EVENTS):
            if area is Area.EVENTS and not self.state.wants_type(levels[0]):
                return []  # From a subscription of an earlier life.
            return self._events(self._routes.find(topic, area, levels), topic, payload, now, home)
        if area is Area.DIRECTORY:
            change = self.directory.read(levels, payload, where=topic)
            if change.kind == "source" and change.entry is not None:
                problem = self._clock_bound.check_promise(change.entry.watermark, topic, payload, now)
                if problem is not None:
                    change = self.directory.without_promise(change)
                    return [*problem, *self._changed(change, encode(change.entry), now)]
            return self._changed(change, payload, now)
        if topic == self.homes.topic:
            return self._answered(payload, now, home)
        match levels:
            case ("heartbeat", publisher):
                beat = decode(payload, Heartbeat, where=topic)
                problem = self._clock_bound.check_promise(beat.watermark, topic, payload, now)
                if problem is not None:
                    return [*problem]
                foreign = self.directory.not_of(publisher, beat.sources)
                if not foreign:
                    return self._heartbeat(beat, now)
                letter = self.dead_letters.message("rejected", foreign_promise(publisher, foreign), topic, payload)
                return [*letter, *self._heartbeat(beat.without(foreign), now)]
            case ("again", self._speaker, "e", source):
                published = event_topic(decode_any(payload, where=topic).type, source, root=self._root)
                return self._received(published, payload, now, home)
            case ("again", self._speaker, "c", detector):
                return self._received(composite_topic(detector, root=self._root), payload, now, home)
            case ("lost", self._speaker, kind, source):
                self._unavailable(read_unavailable(kind, source, payload), now, home)
                return []
            case ("filtered", self._speaker, publisher):
                return list(self._filtered(publisher, decode(payload, Filtered, where=topic)))
            case ("fence", source):
                self._journaled.do(Fenced(source, now))
                return [warning("source fenced off", source=source)]
        return []

    def _events(self, route: TopicRoute, topic: str, payload: bytes, now: int, home: str) -> list[RecorderEffect]:
        frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        usable, effects = route.usable(frame, topic, payload, self.dead_letters)
        if usable is None:
            return list(effects)
        if route.kind == "e":
            frame, rejected = self._clock_bound.bounded(replace(frame, events=usable), topic, payload, now)
            usable, effects = frame.events, effects + rejected
        source, watermark = frame.source, frame.watermark
        position: StreamPosition | None = None
        self._lose(frame.losses)
        if route.kind == "e" and frame.number is not None:
            position = StreamPosition(frame.type, frame.number, self._clock_bound.top(frame.top, now))
        if route.kind == "c":
            source = route.source
            usable = [_bare(event) for event in usable]
            streams = self._filters.streams.get(source)
            if streams is not None:
                # Events are recorded as they come; the watermark waits for those that are missing.
                frames, watermark = streams.take(home, frame, now)
                usable = usable if frames else []
                self._lose(streams.take_losses())
            if source not in self.state.joined:
                # The watermark of a detector that is gone does not count.
                watermark = None
        if usable or watermark is not None or position is not None:
            self._journaled.hear(source, usable, watermark, now, position)
        return list(effects)

    def _lose(self, losses: Sequence[Loss]) -> None:
        """Note losses that publishers and detectors report."""
        if losses:
            self._journaled.do(Lost(tuple([(each.since, each.until, each.reason) for each in losses])))

    def _unavailable(self, lost: Unavailable, now: int, home: str) -> None:
        """Take the answer to a request for missing messages."""
        if lost.kind == "e":
            self._journaled.do(Answered(self._clock_bound.bounded_answer(lost, now), now))
            return
        streams = self._filters.streams.get(lost.source)
        if streams is not None and lost.source in self.state.joined:
            _, watermark = streams.unavailable(home, lost, now)
            self._lose(streams.take_losses())
            if watermark is not None:
                self._journaled.hear(lost.source, [], watermark, now)

    def _heartbeat(self, beat: Heartbeat, now: int) -> list[RecorderEffect]:
        found: dict[str, tuple[tuple[str, int, int | None], ...]] = {}
        for source, positions in zip_longest(beat.sources, beat.positions[: len(beat.sources)], fillvalue=()):
            if source in self.state.policy.sources:
                entry = self.directory.sources.get(source)
                bounded = [(number, self._clock_bound.top(top, now)) for number, top in positions]
                types = () if entry is None else entry.types
                found[source] = tuple([(name, *each) for name, each in zip(types, bounded, strict=False)])
        if found:
            self._journaled.do(Beat(tuple(found), beat.watermark, now, tuple(found.values())))
        return []

    def _requests(self, now: int) -> list[Effect]:
        """Requests for messages that are missing, of sources and detectors, by publisher and home."""
        found: dict[tuple[tuple[str, ...], str], list[MissingMessages]] = {}
        for source, stream, begin, end in self.state.policy.missing(now):
            entry = self.directory.sources.get(source)
            if entry is not None:
                messages = found.setdefault((("source", entry.publisher), entry.home), [])
                messages.append(MissingMessages("e", source, begin, end, stream))
        for detector, streams in self._filters.streams.items():
            for home, missing in streams.due(detector, now).items():
                found.setdefault((("detector",), home), []).extend(missing)
        return [self._request(levels, home, messages) for (levels, home), messages in found.items()]

    def _request(self, levels: tuple[str, ...], home: str, messages: Sequence[MissingMessages]) -> Publish:
        topic = administration_topic("missing", *levels, root=self._root)
        return Publish(topic, encode(Missing(self._speaker, tuple(messages))), home=home)

    def _look_again(self, home: str) -> list[Effect]:
        """Request the positions of the detectors at a home, over a new connection: messages may be missing."""
        read = [MissingMessages("c", each, 0, 0) for each, at in self._filters.streams.items() if home in at.homes]
        return [self._request(("detector",), home, read)] if read else []

    def _answered(self, payload: bytes, now: int, home: str) -> list[RecorderEffect]:
        """A barrier has come back: messages before it have arrived."""
        if home:
            return list(self.homes.answered(home, payload, now))
        if not self._handshake.answered(payload):
            return []
        # The server has taken the subscriptions before, too.
        if self._subscribed_again_at is not None:
            self._listens(self._subscribed_again_at, now)
            self._subscribed_again_at = None
        self._reads.repeat()
        return [*self._declared(now), self._entered(), *self._inputs.unsent()]

    def _declared(self, now: int) -> list[Effect]:
        """Declaration of what it records, from the first source that filters on."""
        if not self._handshake.settled or self._handshake.reading or not any_filters(self.directory):
            return []
        self._reads.activate(now)
        entry = self._reads.take()
        topic = directory_topic("reader", self._speaker, root=self._root)
        return [] if entry is None else [Publish(topic, encode(entry), retain=True)]

    def _filtered(self, publisher: str, ack: Filtered) -> list[Effect]:
        """Take the acknowledgement of a publisher that filters: what was left out since the begin is missing."""
        since = INSTANT_MIN if self.state.since is None else self.state.since - 1
        self._lose(
            [
                replace(loss, since=max(loss.since, since))
                for _, loss in self._reads.acknowledged(publisher, ack)
                if loss.until > since
            ]
        )
        return []

    # The directory.

    def _changed(self, change: Change, payload: bytes, now: int) -> list[RecorderEffect]:
        if change.kind == "recorder":
            return self._namesake(change)
        if change.kind == "reader" and change.name == self._speaker:
            self._reads.seen(change.entry, now)
            return list(self._declared(now))
        if change.kind not in KEPT:
            return []
        if self.state.entries.get((change.kind, change.name), b"") != payload:
            self._journaled.do(Entered(change.kind, change.name, payload))
        match change.kind:
            case "source":
                return [*self._declared(now), *self._inputs.source_changed(change.name, change.entry, now)]
            case "detector":
                self._routes.forget()
                notes = self._interest.about_detector(change.name, change.entry)
                return [*notes, *self._inputs.listen(now), *self._filters.renew()]
            case _:
                self._routes.forget()
                return [*self._interest.about_type(change.name, change.entry), *self._filters.renew()]

    def _namesake(self, change: Change) -> list[RecorderEffect]:
        """The entry of this recorder's name has changed."""
        if change.name != self.name or self._stopped or self._handshake.reading:
            return []
        if change.entry is None:
            # The last will of a connection that was lost before this one.
            return [self._entered()]
        self.announced |= change.entry == self._entry
        if change.entry.since > self._entry.since and not self._has_namesake:
            self._has_namesake = True
            advice = "sources wait for one of the two only: give one another name"
            return [warning("recorder claimed twice", since=change.entry.since, advice=advice)]
        return []

    def _entered(self) -> Publish:
        return Publish(self._filters.topic, encode(self._entry), retain=True)


def _bare(event: Event) -> Event:
    """Composite event without its extras."""
    if isinstance(event, CompositeEvent) and (event.events or event.derivations or event.again):
        return replace(event, events=(), derivations=(), again=False)
    return event

"""Sources of a client: announcement, acknowledgements, events with watermarks, end.

A source is an entry of the directory. Each broker node and recorder acknowledges it when it listens at the server where
the source publishes, with the watermark of its detectors; only then does the source publish. Its end is published in
the directory, too; where that is another server than the one of its events, only when its events are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from distced.middleware.client.client_effects import ClientEffect, Done, SessionTimers
from distced.middleware.client.directory_session import DirectorySession
from distced.middleware.model.errors import BusError, DistcedError, EventError, SubscriptionError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, format_duration, format_instant
from distced.middleware.wire.administration import Acknowledgement, Covered, Heartbeat, Missing
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import MAX_AHEAD, MAX_MESSAGE, RECORDER, SourceEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.mqtt_effects import Note, Publish
from distced.middleware.wire.outbox import Outbox, waits_for
from distced.middleware.wire.published_streams import PublishedStreams
from distced.middleware.wire.source_filter import SourceFilter
from distced.middleware.wire.topics import ROOT, administration_topic, event_topic

FRAME: Final = 500  # most events in one frame; decoding, not matching, limits the throughput of a node

DEFERRED_AT_ONCE: Final = 500
"""Number of messages that have waited for a server, handed to its bus at a time."""


class SourceState:
    """Source without its connection. Its events are numbered in the order they are created.

    Attributes:
        name: the source of its events.
        types: types it publishes, by name.
        watermark: it has promised to publish no event with `hi` at or before this, ns.
        published: number of events it has published.
        qos: 0 or 1.
        first: number of its first message of each type (`middleware.wire.numbered_stream`).
        resumed: microsecond of its start where it continues an earlier life, by the log of an outbox; else 0.
        next_seq: sequence number of the next event; beyond those of an earlier life of the source.
        uncertainty: of the clock of its instants, ns, given one of them.
        streams: of all sources of its publisher.
        owes_since: instant at which its watermark came with an event that was left out, and is to be published yet, ns;
            None for not.
    """

    def __init__(
        self,
        publisher: str,
        name: str,
        types: Mapping[str, EventType],
        watermark: int,
        qos: int,
        now: int,
        *,
        home: str = "",
        root: str = ROOT,
        streams: PublishedStreams | None = None,
        max_ahead: Callable[[], int] = lambda: MAX_AHEAD,
        max_message: Callable[[], int] = lambda: MAX_MESSAGE,
        wanted: SourceFilter | None = None,
    ) -> None:
        """Source of a client, the publisher; events and heartbeats go to its home, messages into `streams`. What is
        further than `max_ahead` beyond the client's clock is refused, ns, and so is an event whose message has more
        bytes than `max_message`; what is not `wanted` is not sent."""
        self.name = name
        self.types = dict(types)
        self.published = 0
        self.qos = qos
        self.uncertainty: Callable[[int], int] = _certain
        self.streams = PublishedStreams() if streams is None else streams
        start = max(now // 1_000, 0)
        mark = self.streams.open(name, list(self.types), start)
        self.first, self.next_seq = mark.first, max(start, mark.seq)
        self.resumed = start if mark.first < start else 0
        self.watermark = max(watermark, mark.promised)
        self.owes_since: int | None = None
        self._wanted = wanted if wanted is not None and wanted.enabled else None
        self._publisher = publisher
        self._max_ahead = max_ahead
        self._max_message = max_message
        self._home = home
        self._root = root
        self._topics = {each: event_topic(each, name, root=root) for each in self.types}

    def create(self, type_name: str, lo: int, hi: int | None = None, /, **attributes: Attribute) -> Event:
        """Next event of the source at `[lo, hi]`, ns (`hi` is `lo` where left out), widened by the uncertainty of its
        clock; checked, not yet published."""
        event_type = self.types.get(type_name)
        if event_type is None:
            raise EventError(
                f"the source {self.name!r} does not publish this type", given=type_name, allowed=", ".join(self.types)
            )
        if self.uncertainty is not _certain:
            hi = lo if hi is None else hi
            # Anything else is an error of the event.
            if type(lo) is type(hi) is int:
                error = self.uncertainty(hi)
                lo, hi = lo - error, hi + error
        event = event_type.create(lo, hi, source=self.name, seq=self.next_seq, attributes=attributes)
        self.next_seq += 1
        return event

    def messages(
        self, events: Sequence[Event], watermark: int | None, now: int
    ) -> Iterator[tuple[Sequence[Event], Publish]]:
        """Messages that publish events in this order, several of one type in one frame, each message with its events.

        A message counts as published when the next one is asked for; until then no other one of the source may be made.
        Events that nobody reads are left out where the source filters.
        The watermark, ns, promises no further event with `hi` at or before it.

        Raises:
            EventError: before the first message, an event of another type, behind an earlier promise, or far beyond
                the clock; and such a promise. Before its own message, an event that is larger than nodes read.
        """
        if watermark is not None:
            self.check_ahead("a promise", check_watermark(watermark), now)
        for event in events:
            self._check(event)
            self.check_ahead("an event", event.hi, now)
        all_wanted = True
        if self._wanted is not None and events:
            wanted = [each for each in events if self._wanted.passes(each)]
            all_wanted, events = len(wanted) == len(events), wanted
        # Readers of one of several types do not get the frames of another.
        apart = watermark is not None and (not events or len(self.types) > 1)
        groups = [list(group) for _, group in groupby(events, key=lambda event: event.type)]
        for group in groups:
            start, most = 0, FRAME
            while start < len(group):
                frame = group[start : start + most]
                promised = None if apart or start + most < len(group) else watermark
                type_name = frame[0].type
                number, top = self.streams.position(self.name, type_name, promised)
                payload = encode_frame(
                    frame, type=type_name, source=self.name, watermark=promised, check=False, number=number, top=top
                )
                if len(payload) > self._max_message():
                    self._check_size(payload, frame)
                    most = len(frame) // 2
                    continue
                start += len(frame)
                self.streams.publishing(self.name, type_name, payload, frame, promised, now)
                try:
                    yield frame, self.message(type_name, payload)
                except GeneratorExit:
                    # It could not be sent.
                    self.streams.withdrawn(self.name, type_name)
                    raise
                self.streams.published(self.name, type_name, payload, max([each.hi for each in frame]), now)
                self.published += len(frame)
        if watermark is not None:
            self.promise(watermark)
            owes = apart and not events and not all_wanted
            self.owes_since = None if not owes else now if self.owes_since is None else self.owes_since
            if owes:
                # It goes out in a moment, with those of other sources (`middleware.client.filter_session`).
                self.streams.promising([self.name], watermark)
            elif apart:
                yield (), heartbeat(self._publisher, [self], watermark, now, home=self._home, root=self._root)

    def message(self, type_name: str, payload: bytes) -> Publish:
        """Message with a frame of events of a type."""
        return Publish(self._topics[type_name], payload, self.qos, home=self._home)

    def promise(self, watermark: int) -> None:
        """Note a promise, ns."""
        self.watermark = max(self.watermark, watermark)
        self.streams.promise(self.name, self.watermark)

    def check_ahead(self, what: str, instant: int, now: int) -> None:
        """Raise `EventError` where an instant, ns, is so far beyond the clock of the client that nodes reject it."""
        if instant > now and instant - now > (most := self._max_ahead()):
            raise EventError(
                f"{what} of the source {self.name!r} far beyond the clock: whatever follows would be late",
                given=f"{instant}, {format_instant(instant)}",
                allowed=f"up to {format_duration(most)} beyond {format_instant(now)}, the clock of this client",
                advice="check clocks and units (ns); or start the broker nodes with a greater --max-ahead",
            )

    def _check_size(self, payload: bytes, frame: Sequence[Event]) -> None:
        """Raise `EventError` where a message that is too large cannot be divided."""
        if len(frame) == 1:
            raise EventError(
                f"an event of the source {self.name!r} that is larger than nodes read",
                given=f"a message of {len(payload):,} bytes",
                allowed=f"{self._max_message():,}",
                advice="shorten its texts, or start the broker nodes with a greater --max-message",
            )

    def positions(self, watermark: int) -> tuple[tuple[int, int | None], ...]:
        """Positions of its streams, as of `Heartbeat`."""
        return tuple([self.streams.position(self.name, each, watermark) for each in self.types])

    def _check(self, event: Event) -> None:
        event_type = self.types.get(event.type)
        if event_type is None or event.source != self.name:
            raise EventError(
                f"not an event of the source {self.name!r}",
                given=f"{event.type} of {event.source}",
                allowed=", ".join(self.types),
            )
        event_type.check(event)
        if event.hi <= self.watermark:
            raise EventError(
                f"an event at or before the watermark of its source {self.name!r}: it would be late everywhere",
                given=event.hi,
                allowed=f"hi > {self.watermark}",
                advice="promise less, or publish sooner",
            )


def _certain(instant: int) -> int:
    return 0


def heartbeat(
    publisher: str, sources: Sequence[SourceState], watermark: int, now: int, *, home: str = "", root: str = ROOT
) -> Publish:
    """Promise of sources to publish no event with `hi` at or before a watermark, ns.

    Raises:
        EventError: a watermark far beyond the clock.
    """
    check_watermark(watermark)
    for source in sources:
        source.check_ahead("a promise", watermark, now)
    for source in sources:
        source.promise(watermark)
        source.owes_since = None
    if sources:
        sources[0].streams.promising([each.name for each in sources], watermark)
    names, positions = [each.name for each in sources], [each.positions(watermark) for each in sources]
    beat = encode(Heartbeat(tuple(names), watermark, tuple(positions)))
    qos = max((source.qos for source in sources), default=0)
    return Publish(administration_topic("heartbeat", publisher, root=root), beat, qos, home=home)


def last_beat(publisher: str, sources: Sequence[SourceState], *, home: str = "", root: str = ROOT) -> Publish:
    """Heartbeat of sources that repeats the last promise of each, at least the least one, with their positions."""
    watermark = min(each.watermark for each in sources)
    names, positions = [each.name for each in sources], [each.positions(watermark) for each in sources]
    beat = encode(Heartbeat(tuple(names), watermark, tuple(positions)))
    return Publish(administration_topic("heartbeat", publisher, root=root), beat, home=home)


def check_watermark(watermark: int) -> int:
    """Return a watermark, or raise `DistcedError` where it is out of range."""
    if type(watermark) is not int or not INSTANT_MIN <= watermark <= INSTANT_MAX:
        raise DistcedError(
            "not a watermark", given=watermark, allowed="integer nanoseconds since the Unix epoch, in 64 bits"
        )
    return watermark


@dataclass(slots=True)
class _Opening:
    """Sources that are opened together, and wait for acknowledgements in their order.

    Attributes:
        done: number of sources, from the first on, that are acknowledged by all.
        acknowledged: by source, the watermark of each node and recorder, ns.
        timer: ends the wait for the next source.
    """

    operation: object
    sources: Sequence[SourceState]
    acknowledged: dict[str, dict[str, int]]
    done: int = 0
    timer: int = 0


@dataclass(slots=True)
class SourceSession:
    """Sources of a client.

    Attributes:
        patience: time for nodes and recorders to acknowledge a source, ns.
        sources: the open ones, by name.
        outbox: their messages, recent ones and those that nodes have not acknowledged.
        filters: whether they leave out events that nobody reads.
        streams: numbers of their messages.
    """

    name: str
    root: str
    home: str
    server: str
    patience: int
    directory: DirectorySession
    timers: SessionTimers
    sources: dict[str, SourceState] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    filters: bool = False
    streams: PublishedStreams = field(init=False)
    _opening: dict[str, _Opening] = field(default_factory=dict)
    # Whether the server of the home is connected.
    _up: bool = False

    def __post_init__(self) -> None:
        self.streams = PublishedStreams(self.outbox)

    def open(self, sources: Sequence[SourceState], lease: int, operation: object) -> list[ClientEffect]:
        """Announce sources; they are open when all nodes and recorders have acknowledged all of them.

        Raises:
            DistcedError: a name that is taken.
        """
        self.check_free(source.name for source in sources)
        if self.outbox.log is not None:
            self.outbox.log.force()
        opening = _Opening(operation, sources, {source.name: {} for source in sources})
        effects: list[ClientEffect] = []
        for source in sources:
            self._opening[source.name] = opening
            effects.append(self.directory.put("source", source.name, self._entry(source, lease)))
        return effects + self._advance(opening, begun=True)

    def _entry(self, source: SourceState, lease: int) -> SourceEntry:
        """Entry of a source; it promises nothing about events that are published again."""
        log = self.outbox.log
        least = None if log is None else log.floor(source.name)
        watermark = source.watermark if least is None else min(source.watermark, max(least - 1, INSTANT_MIN))
        types = tuple(source.types)
        return SourceEntry(types, watermark, lease, self.name, self.home, source.first, source.resumed, self.filters)

    def close(self, names: Iterable[str], then: Callable[[], list[ClientEffect]]) -> list[ClientEffect]:
        """End sources: detectors do not wait for them any more; continue when their events are at the server."""
        closing = [self.sources[each] for each in names if each in self.sources]
        effects: list[ClientEffect] = list(self.outbox.take_unsent()) if self._up and closing else []
        # The last number, with which readers know whether they have everything.
        effects += [self._last_beat(closing)] if closing else []
        if not self.home or not closing:
            return [*effects, *self._ended(closing), *then()]
        # One message at QoS 1 is acknowledged when all before it were taken.
        # Where their server is away, their end is published all the same.
        return [*effects, self.timers.flush(self.home, self.patience, lambda now: [*self._ended(closing), *then()])]

    def max_ahead(self) -> int:
        """Instants beyond the clock that all nodes accept, ns."""
        return min((each.max_ahead for each in self.directory.entries.nodes.values()), default=MAX_AHEAD)

    def max_message(self) -> int:
        """Bytes of a message that all nodes read."""
        return min((each.max_message for each in self.directory.entries.nodes.values()), default=MAX_MESSAGE)

    def connected(self, home: str) -> list[ClientEffect]:
        """Publish the positions of all sources over a new connection: messages before may be lost at the server; and
        announce those again that are being opened: nodes may have acknowledged them without a connection here."""
        effects: list[ClientEffect] = []
        if not home:
            announced = [each for each in self._opening if self.directory.keeps("source", each)]
            effects += [self.directory.repeat("source", each) for each in announced]
        if home != self.home:
            return effects
        self._up = True
        return [*effects, *self._send_deferred()]

    def lost(self, home: str) -> None:
        """Take the loss of a connection."""
        if home == self.home:
            self._up = False

    def _send_deferred(self) -> list[ClientEffect]:
        """Publish what has waited for the server, some messages at a time, then the positions of all sources."""
        if not self._up:
            return []
        effects: list[ClientEffect] = list(self.outbox.take_unsent(DEFERRED_AT_ONCE))
        if self.outbox.waits:
            return [*effects, self.timers.flush(self.home, self.patience, lambda now: self._send_deferred())]
        self.streams.again.clear()
        return [*effects, self._last_beat(list(self.sources.values()))] if self.sources else effects

    def missing(self, payload: bytes, topic: str) -> list[ClientEffect]:
        """Answer to a reader that lacks messages."""
        return list(self.streams.answer(decode(payload, Missing, where=topic), root=self.root, over=self.home))

    def covered(self, payload: bytes, topic: str) -> None:
        """Take the durable acknowledgement of a node."""
        covered = decode(payload, Covered, where=topic)
        for source, type_name, number in covered.messages:
            self.outbox.acknowledge(covered.node, (source, type_name), number)

    def full(self) -> list[ClientEffect] | BusError:
        """Make room in a full outbox; the error of a publisher that cannot wait any longer."""
        outbox, dropped = self.outbox, self.outbox.dropped
        holders = outbox.make_room(self.directory.entries.nodes)
        if outbox.full:
            reasons = [f"broker nodes to acknowledge it: {waits_for(holders.items())}"] if holders else []
            reasons += ["the server, which is away"] if outbox.unsent else []
            reasons += [f"their sources to be opened: {', '.join(outbox.unopened)}"] if outbox.unopened else []
            return BusError(
                "the outbox of the client is full",
                given=f"{outbox.total_bytes:,} bytes that wait for {', and '.join(reasons)}",
                where=self.home or self.server,
                advice="publish again in a while; look whether the nodes write checkpoints (their logs); or make the "
                "client with a greater outbox, or one that drops the oldest messages when it is full",
            )
        if dropped == outbox.dropped or outbox.dropped.bit_length() == dropped.bit_length():
            return []
        # Logged at each power of two.
        return [Note("warning", "messages dropped from the outbox", {"client": self.name, "so_far": outbox.dropped})]

    def defer(self, message: Publish, *, events: bool) -> bool:
        """Queue a message of a source in an outbox that queues, as long as its server is away, or messages before it
        wait; whether it does. A heartbeat is dropped: the last one is repeated over the new connection."""
        if not self.outbox.queues or (self._up and not self.outbox.waits):
            return False
        if events:
            self.outbox.defer(message)
        return True

    def _last_beat(self, sources: Sequence[SourceState]) -> Publish:
        return last_beat(self.name, sources, home=self.home, root=self.root)

    def acknowledged(self, levels: tuple[str, ...], payload: bytes, topic: str) -> list[ClientEffect]:
        """Take the acknowledgement of a source by a node or a recorder."""
        opening = self._opening.get(levels[1]) if len(levels) == 3 else None
        if opening is None:
            return []
        opening.acknowledged[levels[1]][levels[2]] = decode(payload, Acknowledgement, where=topic).watermark
        return self._advance(opening)

    def changed(self) -> list[ClientEffect]:
        """Take a change of nodes or recorders."""
        effects: list[ClientEffect] = []
        for opening in {id(each): each for each in self._opening.values()}.values():
            effects += self._advance(opening)
        return effects

    def _advance(self, opening: _Opening, *, begun: bool = False) -> list[ClientEffect]:
        entries, before = self.directory.entries, opening.done
        expected = entries.nodes.keys() | {f"{RECORDER}{name}" for name in entries.recorders}
        while opening.done < len(opening.sources):
            if not expected <= opening.acknowledged[opening.sources[opening.done].name].keys():
                return self._wait(opening, expected) if begun or opening.done > before else []
            opening.done += 1
        self._finish(opening)
        effects: list[ClientEffect] = []
        for source in opening.sources:
            source.watermark = max([source.watermark, *opening.acknowledged[source.name].values()])
            self.sources[source.name] = source
            effects += self._publish_again(source)
        return [*effects, *(self._send_deferred() if self.outbox.again else ()), Done(opening.operation)]

    def _publish_again(self, source: SourceState) -> list[ClientEffect]:
        """Queue the messages of a source by an earlier process, before any other."""
        log = self.outbox.log
        messages = [] if log is None else log.again(source.name)
        if log is not None:
            log.messages.pop(source.name, None)
        again = [source.message(each.stream[1], each.payload) for each in messages if each.stream[1] in source.types]
        self.outbox.again.extend(again)
        fields: dict[str, object] = {"source": source.name, "messages": len(again)}
        return [Note("info", "source continued", fields)] if source.resumed else []

    def _wait(self, opening: _Opening, expected: set[str]) -> list[ClientEffect]:
        self.timers.cancel(opening.timer)
        timer = self.timers.set(self.patience, lambda now: self._unacknowledged(opening))
        opening.timer = timer.number
        return [timer]

    def _unacknowledged(self, opening: _Opening) -> list[ClientEffect]:
        entries = self.directory.entries
        source = opening.sources[opening.done].name
        expected = entries.nodes.keys() | {f"{RECORDER}{name}" for name in entries.recorders}
        error = SubscriptionError(
            f"broker nodes have not acknowledged the source {source!r}",
            given=", ".join(sorted(expected - opening.acknowledged[source].keys())),
            where=self.home or self.server,
            advice="look whether they run and reach this server; a dead one leaves the directory after a while",
        )
        self._finish(opening)
        cleared = [self.directory.clear("source", each.name) for each in opening.sources]
        return [*cleared, Done(opening.operation, error)]

    def _finish(self, opening: _Opening) -> None:
        self.timers.cancel(opening.timer)
        for source in opening.sources:
            del self._opening[source.name]

    def _ended(self, sources: Iterable[SourceState]) -> list[ClientEffect]:
        for source in sources:
            self.sources.pop(source.name, None)
            if self.outbox.log is not None:
                self.outbox.log.ended(source.name)
        return [self.directory.clear("source", source.name) for source in sources]

    def check_free(self, names: Iterable[str]) -> None:
        """Raise `DistcedError` for a name that is taken; to be called before a source is made, too."""
        for each in names:
            self._check_free(each)

    def _check_free(self, name: str) -> None:
        if name in self.sources or name in self._opening:
            raise DistcedError("a source of this name is open already", given=name, advice="close it, or share it")
        entries = self.directory.entries
        known = entries.sources.get(name)
        # The process before this one has ended, as its outbox is free.
        former = {self.name} if self.outbox.log is None else {self.name, self.outbox.log.former}
        if known is not None and known.publisher in entries.clients.keys() - former:
            raise DistcedError(
                "a source of this name is open already", given=name, where=f"client {known.publisher}",
                advice="choose another name: it identifies events",
            )  # fmt: skip

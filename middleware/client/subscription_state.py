"""State of a subscription: the request, the detector that serves it, and the intake of its events.

The intake is the same under every driver: events that came before are dropped by id, those of other types and those
beyond the upper rate are counted. Messages are numbered (`middleware.wire.replica_streams`), so the subscription knows
what is missing: its watermark waits for that, and what is lost for good comes as a `Loss` in its place. A driver adds a
queue and the waiting.

A full queue never holds a connection. The next messages are left where they are kept, at their publishers: they count
as missing, and are requested when there is room, as after a lost connection. Rejected: a bus that waits (the server
drops a client that sends no pings), one that is not read, or acknowledgements held back (MQTT has these in order, so
one slow subscription would hold all others of its client, and the server drops what is beyond its own queue silently).
Messages without numbers, and composite events of a subscription to a type, cannot be left; there the oldest events in
the queue are dropped, as the subscription may want of all messages, and reported as a `Loss`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.detection import BEST_EFFORT, GUARANTEED
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import MissingMessages, Unavailable
from distced.middleware.wire.directory_entries import PositionEntry
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.numbered_stream import SUBSCRIBED_WITHIN, Loss, NumberedStream
from distced.middleware.wire.replica_streams import LifeState, Streams, has_content, without_content
from distced.middleware.wire.topics import decode_level, encode_level

REMEMBERED: Final = 100_000  # event ids that a subscription keeps to recognise duplicates
LOOKED_AT: Final = 10_000  # composite events among which those that a loss concerns are looked for, the last ones
MOST_CONCERNED: Final = 1_000  # composite events that a loss names
KEPT_LOSSES: Final = 16  # losses that it keeps to recognise those that are repeated


class Place(NamedTuple):
    """Topics that a subscription listens to at the server of a home; empty for that of the directory."""

    home: str
    filter: str


class SubscriptionStatistics(msgspec.Struct, gc=False):
    """Counters of a subscription.

    Attributes:
        received: events given to the application or waiting for it.
        duplicates: events that had come before, those among them that come again with further derivations.
        limited: events left out because of the upper rate.
        dropped: events dropped because the application was too slow; not counted as received.
        errors: messages that could not be read, events of another type, and exceptions of the callback.
        waits: times that it waited for a type, between which events may be missing.
        losses: intervals in which events were lost for good, between which composite events may be missing or wrong.
        watermark: no event with `hi` at or before this will come any more, ns; None for no promise, as for a type,
            whose
            sources each promise for themselves.
        delay_sum, delay_most: from the `hi` of events to their arrival, by the client's clock, ns.
    """

    received: int = 0
    duplicates: int = 0
    limited: int = 0
    dropped: int = 0
    errors: int = 0
    waits: int = 0
    losses: int = 0
    watermark: int | None = None
    delay_sum: int = 0
    delay_most: int = 0


class SubscriptionState:
    """Subscription without the waiting.

    Attributes:
        id: its name in the directory.
        pattern: the pattern or the name of the type, as text.
        language, query: language of the pattern, and the query of it that is meant; empty for the core language, and
            for the only one.
        detector, node: the detector that serves it, and its node; empty for a type.
        homes: servers where the detector publishes, by the last answer of a node.
        type_name, event_type: the type subscribed to; empty for a pattern, and None where it is not registered.
        places: topics it listens to, and whether the server has confirmed each.
        statistics: counters.
        ended: no further event comes; events that have come can still be read.
        behind: whether messages were left at their publishers, and have not been received since.
        waits: why nothing can be found for the time being, as nobody publishes a type that the pattern reads; else
            empty.
        losses: the last intervals in which events were lost for good.
        foreign: homes from which messages without numbers have come, of a type.
    """

    # A client may have ten thousand of them.
    __slots__ = (
        "_confirmed",
        "_ended_before",
        "_life",
        "_next",
        "_resumed",
        "_seen",
        "_sources",
        "_streams",
        "_taken_until",
        "_typed",
        "_unconfirmed",
        "_window",
        "behind",
        "detector",
        "ended",
        "event_type",
        "foreign",
        "homes",
        "id",
        "language",
        "losses",
        "node",
        "pattern",
        "quality",
        "query",
        "statistics",
        "type_name",
        "waits",
    )

    def __init__(self, identity: str, pattern: str, quality: QualityOfService) -> None:
        self.id = identity
        self.pattern = pattern
        self.language = ""
        self.query = ""
        self.quality = quality
        self.detector = ""
        self.node = ""
        self.homes: tuple[str, ...] = ()
        self.type_name = ""
        self.event_type: EventType | None = None
        # Places by whether the server has confirmed them; of most subscriptions there is one, and a dictionary takes
        # 220 bytes.
        self._confirmed: tuple[Place, ...] = ()
        self._unconfirmed: tuple[Place, ...] = ()
        self.statistics = SubscriptionStatistics()
        self.ended = False
        self.foreign: tuple[str, ...] = ()
        self.behind = False
        self.waits = ""
        self.losses: tuple[Loss, ...] = ()
        # Life of the host of its detector, and number of the next message: all there is to know while nothing is
        # missing, no other host has come and it publishes at one home; then there are streams.
        self._life = 0
        self._next = 1
        self._streams: Streams | None = None
        # Of a subscription to a type, streams of detectors by id, and of sources by topic.
        self._typed: dict[str, Streams] | None = None
        self._sources: dict[str, NumberedStream] | None = None
        # Ids of the last events; None before the first.
        # Under other than guaranteed detection with their intervals, which late events may concern.
        self._seen: OrderedDict[EventId, tuple[int, int] | None] | None = None
        # Watermark of a durable subscription up to which an application has taken everything before; None for nowhere.
        self._taken_until: int | None = None
        # Loss of a durable subscription that had ended, up to its first message; None for none.
        self._ended_before: Loss | None = None
        # Sequence numbers, in hexadecimal, of composite events behind that which were taken.
        self._resumed: frozenset[str] = frozenset()
        # Instants of the events within the current period of the upper rate, ns; None without such events.
        self._window: deque[int] | None = None

    @property
    def places(self) -> dict[Place, bool]:
        # In this order: a place that is confirmed meanwhile, on another thread, is in one of them.
        return dict.fromkeys(self._unconfirmed, False) | dict.fromkeys(self._confirmed, True)

    def add_place(self, place: Place) -> None:
        """Add a place that the server has not confirmed."""
        self._unconfirmed += (place,)

    def confirm_place(self, place: Place) -> None:
        self._confirmed += (place,)
        self._unconfirmed = tuple([each for each in self._unconfirmed if each != place])

    def remove_place(self, place: Place) -> None:
        self._confirmed = tuple([each for each in self._confirmed if each != place])
        self._unconfirmed = tuple([each for each in self._unconfirmed if each != place])

    def arrived(self, topic: str, payload: bytes, now: int, home: str = "") -> Iterator[Event | Loss]:
        """Events of a message from a home that are new and within the quality of service, and of messages that have
        waited for it, each behind the losses before; one message after the other."""
        statistics = self.statistics
        try:
            # Of JSON the topic says what the event leaves out, as for nodes.
            source = decode_level(topic.rpartition("/")[2]) if self.type_name else None
            frame = decode_any(payload, where=topic, type=self.type_name or None, source=source, now=now)
        except DistcedError as error:
            statistics.errors += 1
            self.rejected("message rejected", error)
            return
        statistics.errors += len(frame.rejected)
        left = self._is_left(topic, frame, home)
        if left:
            frame = without_content(frame)
        if frame.number is None:
            if self.type_name and frame.kind == "e" and home not in self.foreign:
                self.foreign += (home,)
            yield from self._taken([frame], frame.watermark, topic, now)
        elif frame.kind == "c":
            # Of a type, several detectors and sources publish events, with a promise each: nobody waits for them.
            if self.detector:
                yield from self._taken(*self._in_order(home, frame, now), topic, now)
            else:
                yield from self._of_detector(home, frame, topic, now)
        elif left:
            self._leave(topic, frame)
        elif self._is_new(topic, frame):
            yield from self._taken([frame], None, topic, now)

    def _of_detector(self, home: str, frame: Frame, topic: str, now: int) -> Iterator[Event | Loss]:
        """Events of a frame of one of the detectors that publish the type, at once, unless it has come before."""
        streams = None if self._typed is None else self._typed.get(frame.source)
        if streams is None:
            yield from self._taken([frame], None, topic, now)
            return
        frames, _ = streams.take(home, frame, now)
        yield from self._lost(streams.take_losses())
        yield from self._taken(frames, None, topic, now)

    def _taken(self, frames: list[Frame], watermark: int | None, topic: str, now: int) -> Iterator[Event | Loss]:
        """Losses and events of frames in order, and the watermark behind them."""
        streams = self._streams
        if self._ended_before is not None:
            ended, self._ended_before = self._ended_before, None
            yield from self._lost([replace(ended, until=now)])
        if streams is not None and streams.losses:
            yield from self._lost(streams.take_losses())
        for frame in frames:
            if frame.losses:
                yield from self._lost(frame.losses)
            for event in frame.events:
                if self._is_of_type(event, topic) and self._is_wanted(event, now):
                    yield self._without_extras(event)
        if self.detector and watermark is not None:
            self.progressed(watermark)

    def _lost(self, losses: Iterable[Loss]) -> Iterator[Loss]:
        for each in losses:
            if each not in self.losses:
                self._remember(each)
                self.statistics.losses += 1
                yield replace(each, concerned=self._concerned(each)) if self.quality.detection != GUARANTEED else each

    def _concerned(self, loss: Loss) -> tuple[EventId, ...]:
        """Ids of composite events received that a loss concerns, the last ones."""
        seen, since, until = islice(reversed((self._seen or {}).items()), LOOKED_AT), loss.since, loss.until
        # As `Loss.concerns` says; a call for each event takes several times as long.
        found = (each for each, span in seen if span is not None and span[1] > since and span[0] <= until)
        return tuple(islice(found, MOST_CONCERNED))

    def _remember(self, loss: Loss, instead: Loss | None = None) -> None:
        others = [each for each in self.losses if each is not instead]
        self.losses = (*others[-KEPT_LOSSES + 1 :], loss)

    # Overflow.

    @property
    def room(self) -> int | None:
        """Number of events that may be taken, 0 where the queue is full; None for any number, without a queue."""
        return None

    def make_room(self) -> None:
        """Hook that drops events of a full queue; for drivers with one to override."""

    def _is_left(self, topic: str, frame: Frame, home: str) -> bool:
        """Whether a message is left at its publisher for now; without that, dropped events make room for it."""
        if not has_content(frame):
            return False
        if self.behind and self.complete:
            self.behind = False
        full = self.room == 0
        keeps = frame.number is not None and (frame.kind == "e" or bool(self.detector))
        if not keeps or self.quality.overflow == "drop":
            if full:
                self.make_room()
            return False
        if full:
            self.behind = True
            return True
        # What is not next would wait here for those that were left.
        if frame.kind == "c":
            streams = self._streams
            return self.behind and streams is not None and streams.would_hold(home, frame)
        stream = (self._sources or {}).get(topic)
        return self.behind and stream is not None and stream.next is not None and (frame.number or 0) > stream.next

    def _leave(self, topic: str, frame: Frame) -> None:
        """Note a message of a source that was left, given without its content."""
        assert frame.number is not None
        if self._sources is None:
            self._sources = {}
        if topic not in self._sources:
            self._sources[topic] = NumberedStream(frame.number - 1)
        self._sources[topic].claim(frame.number, None, frame.top)

    # Completeness.

    @property
    def _follows(self) -> bool:
        """Whether it follows streams, so that anything may be missing."""
        return self._streams is not None or self._sources is not None or self._typed is not None

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        if self._sources is not None and not all(each.complete for each in self._sources.values()):
            return False
        if self._typed is not None and any(each.homes and not each.complete for each in self._typed.values()):
            return False
        return self._streams is None or self._streams.complete

    def follow(self, detector: str, homes: Iterable[str], *, exact: bool) -> None:
        """Of a subscription to a type: follow the stream of a detector from now on, at these homes.

        Args:
            exact: whether no event comes behind a watermark of the detector.
        """
        if self._typed is None:
            self._typed = {}
        known = self._typed.get(detector)
        if known is not None:
            known.want(homes)
            return
        made = self._typed[detector] = Streams(homes, ordered=False, exact=exact)
        for home in made.homes:
            made.begin(home)

    def unfollow(self, detector: str, now: int) -> Iterator[Event | Loss]:
        """A detector has ended: what is missing of it is lost."""
        streams = (self._typed or {}).pop(detector, None)
        if streams is not None:
            frames = streams.end(f"{detector}: the detector has ended")
            yield from self._lost(streams.take_losses())
            yield from self._taken(frames, None, "", now)

    def expect(self, topic: str, first: int) -> None:
        """Of a subscription to a type: expect the messages of a new source from its first one on."""
        if self._sources is None:
            self._sources = {}
        if topic not in self._sources:
            self._sources[topic] = NumberedStream(first, first)

    def reads(self, detector: str) -> bool:
        """Whether it follows the stream of a detector."""
        return self.detector == detector or (self._typed is not None and detector in self._typed)

    def begun(self, home: str, life: int, number: int, watermark: int | None) -> None:
        """Its detector is active, with a life at a home, the number of its next frame, 0 for unknown, and its last
        watermark, ns. Without a life, as of a replica, positions are requested: a quiet detector publishes none."""
        if self._streams is None and len(self.homes) == 1 and (life or watermark is None):
            if not self._life:
                self._life, self._next = life, number or 1
            if life and (life, number) == (self._life, self._next):
                if watermark is not None:
                    self.progressed(watermark)
                return
        if life or watermark is not None or self._streams is not None or len(self.homes) > 1:
            streams = self._all_streams()
            for each in (home,) if life else self.homes:
                reached = streams.begin(each, life, number or None, watermark)
                if reached is not None:
                    self.progressed(reached)
            if streams.floor is None:
                streams.floor = watermark

    def located(self, homes: tuple[str, ...]) -> None:
        """Its detector publishes at these homes from now on."""
        if homes != self.homes:
            if self._life or self._streams is not None:
                self._all_streams().want(homes)
            self.homes = homes

    def left(self, home: str, now: int) -> Iterator[Event | Loss]:
        """It listens no longer at a home; what had waited for missing messages."""
        if self._streams is not None and home not in self.homes and home in self._streams.homes:
            yield from self._taken(*self._streams.lost(home), "", now)

    def progress(self, watermark: int, life: int, number: int) -> None:
        """Take a watermark, ns, of a host of its detector, by its life and the number of its next frame."""
        if not life or (self._streams is None and (life, number) == (self._life, self._next)):
            self.progressed(watermark)
            return
        frame = Frame("c", "", "", watermark, [], number=number, life=life)
        home = self.homes[0]
        frames, reached = self._in_order(home, frame, 0)
        if reached is not None and not frames:
            self.progressed(reached)

    def unavailable(self, home: str, lost: Unavailable, now: int) -> Iterator[Event | Loss]:
        """Take the answer to a request for missing messages."""
        if not lost.source:
            yield from self._lost([Loss(INSTANT_MIN, now + SUBSCRIBED_WITHIN, lost.reason)])
            return
        if lost.kind == "c" and not self.detector:
            streams = (self._typed or {}).get(lost.source)
            if streams is not None:
                frames, _ = streams.unavailable(home, lost, now)
                yield from self._lost(streams.take_losses())
                yield from self._taken(frames, None, "", now)
            return
        if lost.kind == "c":
            level = (lost.life, lost.before) == (self._life, self._next)
            if self._streams is not None or not (lost.position and level):
                yield from self._taken(*self._all_streams().unavailable(home, lost, now), "", now)
            elif lost.watermark is not None:
                self.progressed(lost.watermark)
            return
        if lost.position:
            self._begin_source(lost)
        for topic, stream in (self._sources or {}).items():
            if topic.rpartition("/")[2] == encode_level(lost.source):
                loss = None
                if lost.position:
                    stream.located(lost.before, lost.top)
                elif lost.life:
                    loss = stream.begin_life(lost.life, f"{lost.source}: {lost.reason}")
                else:
                    loss = stream.give_up(lost.before, lost.top, f"{lost.source}: {lost.reason}")
                yield from self._lost([] if loss is None else [loss])

    def _begin_source(self, lost: Unavailable) -> None:
        """Begin with the next message of a source that nothing has come of, by its position."""
        for place in self.places:
            if place.filter.endswith("/+"):
                topic = place.filter[:-1] + encode_level(lost.source)
                if self._sources is None:
                    self._sources = {}
                self._sources.setdefault(topic, NumberedStream(lost.before))
                return

    # Durable subscriptions.

    def resume(self, position: PositionEntry) -> None:
        """Go on behind the position of an earlier application, before anything is received."""
        detection = self.quality.detection
        self._streams = Streams(ordered=detection != BEST_EFFORT, exact=detection == GUARANTEED)
        self._streams.resume_at({"": position.lives})
        if detection == GUARANTEED:
            self._taken_until = max((mark for *_, mark in position.lives if mark is not None), default=None)
        self._resumed = frozenset(position.ids)

    def begin_again(self, position: PositionEntry | None, reason: str) -> None:
        """Begin behind a durable subscription that has ended meanwhile, or left no position: what lies between is
        lost."""
        reached = INSTANT_MIN if position is None else _furthest(position.lives)
        self._ended_before = Loss(reached, reached, reason)

    @property
    def lives(self) -> tuple[LifeState, ...]:
        """Lives of hosts of its detector as far as they were received; none where nothing is known."""
        if self._streams is not None:
            at_homes = [each for each in self._streams.state().values() if each]
            return max(at_homes, key=_furthest, default=())
        return ((self._life, self._next, self.statistics.watermark),) if self._life else ()

    def position(self, now: int, *, last: bool = False) -> PositionEntry | None:
        """Position up to which a durable subscription was taken; None for unknown. `last`: at its farewell."""
        lives = self.lives
        return PositionEntry(now, lives) if lives else None

    def due(self, now: int) -> dict[str, list[MissingMessages]] | None:
        """Missing messages to be requested now, by home; None where nothing is missing any more."""
        return None if self.complete else self.missing(now)

    def missing(self, now: int) -> dict[str, list[MissingMessages]]:
        """Missing messages to be requested now, as far as there is room, by home; of sources under an empty one."""
        room = self.room
        if room == 0:
            return {}
        found: dict[str, list[MissingMessages]] = {}
        if self._streams is not None:
            found = self._streams.due(self.detector, now)
        for detector, streams in (self._typed or {}).items():
            for home, messages in streams.due(detector, now).items():
                found.setdefault(home, []).extend(messages)
        for topic, stream in (self._sources or {}).items():
            source = decode_level(topic.rpartition("/")[2])
            messages = [MissingMessages("e", source, *each, type=self.type_name) for each in stream.missing()]
            if messages:
                found.setdefault("", []).extend(messages)
        if self.behind and room is not None:
            return {home: [replace(each, most=room) for each in messages] for home, messages in found.items()}
        return found

    def _in_order(self, home: str, frame: Frame, now: int) -> tuple[list[Frame], int | None]:
        """Frames of the detector that are in order now, and the watermark behind them."""
        streams = self._streams
        if streams is None:
            if len(self.homes) == 1 and (frame.life == self._life or (not self._life and frame.number == 1)):
                self._life = frame.life
                if frame.number == self._next:
                    self._next += has_content(frame)
                    return [frame], frame.watermark
            streams = self._all_streams()
        return streams.take(home, frame, now)

    def _all_streams(self) -> Streams:
        if self._streams is None:
            detection = self.quality.detection
            self._streams = Streams(self.homes, ordered=detection != BEST_EFFORT, exact=detection == GUARANTEED)
            if self._life:
                state = (self._life, self._next, self.statistics.watermark)
                self._streams.resume({self.homes[0]: (state,)})
        return self._streams

    def _is_new(self, topic: str, frame: Frame) -> bool:
        """Whether a message of a source has not come before."""
        assert frame.number is not None
        if not has_content(frame):
            return True
        if self._sources is None:
            self._sources = {}
        stream = self._sources.get(topic)
        if stream is None:
            stream = self._sources[topic] = NumberedStream(frame.number)
        return stream.take(frame.number, None, frame.top)

    def progressed(self, watermark: int) -> None:
        """Take a watermark, ns."""
        known = self.statistics.watermark
        if known is None or watermark > known:
            self.statistics.watermark = watermark

    def delivered(self, event: Event, now: int) -> None:
        """Count an event that the application has, or that waits for it; the first match may end the subscription."""
        delay = max(now - event.hi, 0)
        self.statistics.received += 1
        self.statistics.delay_sum += delay
        self.statistics.delay_most = max(self.statistics.delay_most, delay)
        if self.quality.matches == "first":
            self.ended = True

    def rejected(self, event: str, reason: DistcedError) -> None:
        """Log hook for a message or an event that is counted as an error; for drivers to override."""

    def _is_of_type(self, event: Event, topic: str) -> bool:
        if not self.type_name or self.event_type is None or isinstance(event, CompositeEvent):
            return True
        try:
            if event.type != self.type_name:
                raise SubscriptionError("an event of another type", given=event.type, allowed=self.type_name)
            self.event_type.check(event, where=topic)
        except DistcedError as error:
            self.statistics.errors += 1
            self.rejected("event rejected", error)
            return False
        return True

    def _is_wanted(self, event: Event, now: int) -> bool:
        if self.ended:
            return False
        # What comes again is not always remembered: it may have been found long ago, or before this subscription began.
        if self._seen is None:
            self._seen = OrderedDict()
        if self._taken_until is not None and event.hi <= self._taken_until:
            self.statistics.duplicates += 1
            return False
        if self.quality.since is not None and event.hi <= (self.statistics.watermark or INSTANT_MIN):
            # Of a host that has begun with the recorded events again, as the one before was lost.
            self.statistics.duplicates += 1
            return False
        if self._resumed and f"{event.seq:x}" in self._resumed:
            self._seen.setdefault(event.id, None)
        if event.id in self._seen or (isinstance(event, CompositeEvent) and event.again):
            self.statistics.duplicates += 1
            return False
        keeps_span = self.quality.detection != GUARANTEED and isinstance(event, CompositeEvent)
        self._seen[event.id] = (event.lo, event.hi) if keeps_span else None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return self.quality.rate is None or self._is_within(self.quality.rate, now)

    def _is_within(self, rate: float, now: int) -> bool:
        # A rate below one a second is one in a longer time.
        most = max(int(rate), 1)
        period = round(most / rate * SECOND)
        if self._window is None:
            self._window = deque()
        while self._window and now - self._window[0] >= period:
            self._window.popleft()
        if len(self._window) >= most:
            self.statistics.limited += 1
            return False
        self._window.append(now)
        return True

    def _without_extras(self, event: Event) -> Event:
        """Event without what others request that share the detector."""
        if not isinstance(event, CompositeEvent):
            return event
        events = event.events if self.quality.constituents else ()
        if event.derivations or len(events) < len(event.events):
            return replace(event, events=events, derivations=())
        return event


def _furthest(lives: tuple[LifeState, ...]) -> int:
    """Greatest watermark of lives, ns."""
    return max(INSTANT_MIN if mark is None else mark for *_, mark in lives)

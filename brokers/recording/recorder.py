"""A recorder: it is told what messages arrive and what time it is, and says what is to be kept, and written.

Design, sections 3 and 4. It takes part in the protocol of sources as a broker node does: it is in the directory, so
sources wait until it counts with them; it waits for sources and for the detectors whose composite events it records; it
fences them off when their leases run out or an administrator says so. Like a node it is sans-I/O.

To be a node with a detector that matches every event was rejected. Subscriptions would be placed there; and a detector
begins anew when it is lost, where a recorder has to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from brokers.dead_letters import DeadLetters
from brokers.directory import Change, Directory
from brokers.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from brokers.homes import Homes
from brokers.inputs import Fits, fitting, what_is_wrong
from brokers.recording.keeping import (
    Batch,
    Beat,
    Begun,
    Cut,
    Entered,
    Fenced,
    Heard,
    Joined,
    Keeper,
    Left,
    Listening,
    Met,
    Operation,
    Wanted,
    encode_operation,
)
from brokers.streams import Streams
from detectors.packing import pack_event
from middleware.errors import DistcedError
from middleware.events import CompositeEvent, Event
from middleware.eventtypes import EventType
from middleware.history.layout import RecorderNote
from middleware.protocol import (
    RECORDER,
    Acknowledgement,
    DetectorEntry,
    Heartbeat,
    RecorderEntry,
    SourceEntry,
    decode,
    encode,
)
from middleware.timestamps import MINUTE, SECOND
from middleware.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    directory_topic,
    event_filter,
    parse_topic,
)
from middleware.wire import decode_any

ASK_EVERY: Final = SECOND // 2
"""How often a recorder asks whether it has read the directory, until it has, ns."""

CONFIRM_WITHIN: Final = 30 * SECOND
"""How long after a reconnection entries of the directory may stay away, ns."""

ROUTES: Final = 100_000
"""How many topics are remembered."""

KEPT: Final = ("type", "source", "detector")
"""The entries of the directory that a recorder looks at."""


class Append(msgspec.Struct, frozen=True):
    """Keep an operation, packed, before anything is acknowledged that came until now."""

    operation: bytes


class Write(msgspec.Struct, frozen=True):
    """Write a batch; what was kept before it is not needed then."""

    batch: Batch


Wish: TypeAlias = Effect | Append | Write
"""What a recorder wants to have done."""


class _Route(msgspec.Struct, frozen=True):
    """What a topic of events leads to.

    Attributes:
        type_name: the type that events on it have to have.
        source: who publishes on it, as the topic says.
        kind: "e" for primitive events, "c" for composite ones.
        type: the type itself; None where events on this topic cannot be used, and `problem` says why.
        fits: the quick test of their attributes.
    """

    type_name: str
    source: str
    kind: str
    type: EventType | None
    problem: str
    fits: Fits


class Recorder:
    """A recorder.

    Attributes:
        name: unlike all other recorders.
        keeper: what it remembers.
        directory: what is known.
        flush_every: how long what is stable waits until it is written, at most, ns.
        flush_events: how many events wait, at most.
        dead_letters: what could not be used.
        settled: whether the directory was read, once.
        announced: whether the server has put it into the directory, so that sources wait for it.
    """

    def __init__(
        self,
        name: str,
        now: int,
        keeper: Keeper | None = None,
        *,
        types: Iterable[str] | None,
        flush_every: int = MINUTE,
        flush_events: int = 100_000,
        root: str = ROOT,
        home: str = "",
    ) -> None:
        """
        Args:
            keeper: what an earlier life remembered; None for nothing.
            types: the names of the types to record, primitive or composite; None for all.
            home: the server of its site; empty for that of the directory.
        """
        self.name = name
        self.root = root
        self.keeper = Keeper() if keeper is None else keeper
        self.directory = Directory()
        self.flush_every = flush_every
        self.flush_events = flush_events
        self.settled = self.announced = False
        speaker = f"{RECORDER}{name}"
        self.dead_letters = DeadLetters(speaker, root)
        # What an earlier life has asked for may still come.
        self.homes = Homes(speaker, root, first=max(now // 1_000, 0))
        self._speaker = speaker
        self._entry = RecorderEntry(now, None if types is None else tuple(sorted(set(types))), home)
        self._topic = directory_topic("recorder", name, root=root)
        # Of the detectors that are waited for: where they are heard, and the types they publish.
        self._streams: dict[str, Streams] = {}
        self._names: dict[str, str] = {}
        self._routes: dict[str, _Route] = {}
        self._filters: set[tuple[str, str]] = set()
        self._operations: list[Append] = []
        self._stopped = False
        self._cut_at = now
        self._up: set[str] = set()
        self._lost_at: dict[str, int] = {}
        self._asked: bytes | None = None
        # Since when a connection stands over which everything was subscribed to anew, until that is in force.
        self._anew: int | None = None
        self._unsent: dict[str, Publish] = {}
        self._asked_at = now
        # Entries from before that have not shown up again, and until when they may.
        self._unconfirmed: set[tuple[str, str]] = set()
        self._confirm_until = now
        # What was said once already.
        self._said: set[str] = set()
        for (kind, entry), payload in self.keeper.entries.items():
            self.directory.read((kind, entry), payload, where="what was remembered")

    @property
    def types(self) -> tuple[str, ...] | None:
        """The types it records; None for all."""
        return self._entry.types

    def filters(self, home: str) -> list[str]:
        """What it listens to at a server."""
        heard = (topic for each, topic in self._filters if each == home)
        return sorted(heard, key=lambda topic: (topic == self.homes.topic, topic))

    # From the driver.

    def begin(self, now: int, beyond: int | None = None, noted: RecorderNote | None = None) -> list[Wish]:
        """Before it is connected: what it is to hear of what its server has kept.

        Args:
            beyond: of one that remembers nothing: no event with `hi` at or before this is to be recorded, ns.
            noted: of one that remembers nothing: what an earlier life has noted in the history.
        """
        if self.keeper.wants != self.types:
            self._do(Wanted(self.types))
        if beyond is not None and self.keeper.policy.watermark is None:
            known = noted is not None and noted.watermark is not None
            self._do(Begun(beyond, noted.since, noted.gaps, noted.watermark) if noted and known else Begun(beyond))
        for each in self._detectors():
            if each in self.keeper.joined:
                self._streams[each] = Streams(self._published_at(each))
                self._names[each] = self.directory.detectors[each].publishes
        return self._done(self._refilter())

    def connected(self, now: int, *, resumed: bool) -> list[Wish]:
        """The connection to the server of the directory stands, perhaps again.

        Args:
            resumed: whether the server has kept what came meanwhile.
        """
        effects = self._meet("", now, resumed)
        self._unconfirmed = {(kind, name) for kind, name in self.directory.names() if kind in KEPT and kind != "type"}
        self._confirm_until = now + CONFIRM_WITHIN
        self._asked, self._asked_at = b"%d" % now, now
        return self._done([*effects, *self._join_all(now), *self._refilter(), self._ask()])

    def linked(self, home: str, now: int, *, resumed: bool) -> list[Wish]:
        """A connection to another server stands, perhaps again."""
        return self._done([*self._meet(home, now, resumed), *self.homes.linked(home, now)])

    def lost(self, home: str, now: int) -> None:
        """A connection is lost. Meanwhile no lease of a source there runs out, for what it says is kept."""
        if home in self._up:
            self._up.discard(home)
            self._lost_at[home] = now

    def will(self) -> Publish:
        """What is to be published when the recorder is lost."""
        return Publish(self._topic, b"", retain=True)

    def stop(self, now: int) -> list[Wish]:
        """The recorder is to end: what is stable is written."""
        self._stopped = True
        return self._done([*self._write(now), self.will()])

    def receive(self, topic: str, payload: bytes, now: int, home: str = "") -> list[Wish]:
        """A message has arrived, over the connection to this home."""
        try:
            return self._done(self._received(topic, payload, now, home))
        except DistcedError as error:
            return self._done([self.dead_letters.message("malformed", str(error), topic, payload)])

    def tick(self, now: int) -> list[Wish]:
        """Time has passed; call it a few times a second."""
        used = {home for home, _ in self._filters}
        effects: list[Wish] = list(self.homes.tick(used, now))
        if self._asked is not None and now - self._asked_at >= ASK_EVERY:
            # A server may take a message before a subscription that was sent before it, and amqtt does.
            self._asked_at = now
            effects.append(self._ask())
        if self._unconfirmed and self.settled and now > self._confirm_until:
            missing, self._unconfirmed = self._unconfirmed, set()
            for kind, name in sorted(missing):
                effects += self._changed(self.directory.read((kind, name), b"", where="the directory"), b"", now)
        for source in self.keeper.expired(now):
            if (self.keeper.joined.get(source) or "") in self._up:
                self._do(Fenced(source, now))
                fields: dict[str, object] = {"source": source, "reason": "its lease has run out"}
                effects.append(Note("warning", "source fenced off", fields))
        # Nor does it wait for a clock that was set back.
        if len(self.keeper.stable) >= self.flush_events or abs(now - self._cut_at) >= self.flush_every:
            effects += self._write(now)
        return self._done(effects)

    def status(self) -> dict[str, Any]:
        """How it goes: counts, what waits, how far it is, and for whom it waits."""
        policy = self.keeper.policy
        return {
            **self.keeper.counts,
            "dead_letters": sum(self.dead_letters.counts.values()),
            "waiting": len(policy.waiting) + len(self.keeper.stable),
            "sources": len(policy.sources),
            "watermark": policy.watermark,
            "holding": policy.holding(),
            "gaps": len(self.keeper.gaps),
        }

    # What is to be done.

    def _do(self, operation: Operation) -> Batch | None:
        self._operations.append(Append(encode_operation(operation)))
        return self.keeper.apply(operation)

    def _done(self, effects: Iterable[Wish]) -> list[Wish]:
        """What was kept comes first: what is written and acknowledged rests on it."""
        wishes = list(effects)
        operations, self._operations = self._operations, []
        return [*operations, *wishes]

    def _write(self, now: int) -> list[Wish]:
        self._cut_at = now
        batch = self._do(Cut(now))
        assert batch is not None
        return [Write(batch)]

    def _ask(self) -> Publish:
        return Publish(self.homes.topic, self._asked or b"")

    def _meet(self, home: str, now: int, resumed: bool) -> list[Wish]:
        self._up.add(home)
        if not home:
            self.announced = False
            self._anew = None if resumed else now
        missing = None
        if home in self.keeper.met and not resumed:
            missing = min(self._lost_at.get(home, now), max(self.keeper.heard, 0))
        self._do(Met(home, missing, now))
        if missing is None:
            return []
        fields: dict[str, object] = {"home": home} if home else {}
        fields["seconds"] = round((now - missing) / SECOND, 1)
        note = "the server has kept nothing while the recorder was away: what was published then is missing"
        # Of the directory's server there is a marker under way in any case.
        listening = self._behind({home}, partial(self._listens, now), now) if home else []
        return [Note("warning", note, fields), *listening]

    def _listens(self, began: int, now: int) -> list[Effect]:
        self._do(Listening(began, now))
        return []

    # Messages.

    def _received(self, topic: str, payload: bytes, now: int, home: str) -> list[Wish]:
        route = self._routes.get(topic)
        if route is not None:
            return self._events(route, topic, payload, now, home)
        area, levels = parse_topic(topic, root=self.root)
        if area in (Area.EVENTS, Area.COMPOSITE_EVENTS):
            if area is Area.EVENTS and not self.keeper.wants_type(levels[0]):
                # An earlier life has subscribed to it, and the server has not forgotten.
                return []
            return self._events(self._find(topic, area, levels), topic, payload, now, home)
        if area is Area.DIRECTORY:
            change = self.directory.read(levels, payload, where=topic)
            self._unconfirmed.discard((change.kind, change.name))
            return self._changed(change, payload, now)
        if topic == self.homes.topic:
            return self._answered(payload, now, home)
        match levels:
            case ("heartbeat", _):
                return self._heartbeat(decode(payload, Heartbeat, where=topic), now)
            case ("fence", source):
                self._do(Fenced(source, now))
                return [Note("warning", "source fenced off", {"source": source})]
        return []

    def _events(self, route: _Route, topic: str, payload: bytes, now: int, home: str) -> list[Wish]:
        frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        effects: list[Wish] = [self.dead_letters.row(each, topic) for each in frame.rejected]
        if route.type is None:
            return effects + [
                self.dead_letters.event("unknown-type", route.problem, each, topic) for each in frame.events
            ]
        if frame.type != route.type_name or frame.kind != route.kind:
            carried = "composite" if frame.kind == "c" else "primitive"
            problem = f"a frame of {carried} events {frame.type!r} on the topic of {route.type_name!r}"
            return [*effects, self.dead_letters.message("malformed", problem, topic, payload)]
        usable: list[Event] = []
        for event in frame.events:
            if route.fits(event.attributes):
                usable.append(event)
            else:
                problem = what_is_wrong(event, route.type, topic)
                effects.append(self.dead_letters.event("mistyped", problem, event, topic))
        source, watermark = frame.source, frame.watermark
        if route.kind == "c":
            source = route.source
            usable = [_bare(event) for event in usable]
            if source in self._streams:
                watermark = self._streams[source].hear(home, watermark)
            if source not in self.keeper.joined:
                # One of a detector that is gone says nothing of how far it is.
                watermark = None
        if usable or watermark is not None:
            heard = Heard(source, [pack_event(event) for event in usable], watermark, now)
            self._operations.append(Append(encode_operation(heard)))
            self.keeper.hear(source, usable, watermark, now)
        return effects

    def _heartbeat(self, beat: Heartbeat, now: int) -> list[Wish]:
        sources = tuple(each for each in beat.sources if each in self.keeper.policy.sources)
        if sources:
            self._do(Beat(sources, beat.watermark, now))
        return []

    def _answered(self, payload: bytes, now: int, home: str) -> list[Wish]:
        """Somebody's own message to itself has come back: what was before it has come."""
        if home:
            return list(self.homes.answered(home, payload, now))
        if payload != self._asked:
            return []
        # What was subscribed to before has been taken, too: now it may be counted on.
        self._asked = None
        self.settled = True
        if self._anew is not None:
            self._listens(self._anew, now)
            self._anew = None
        acks, self._unsent = self._unsent, {}
        return [Publish(self._topic, encode(self._entry), retain=True), *acks.values()]

    def _find(self, topic: str, area: Area, levels: tuple[str, ...]) -> _Route:
        if area is Area.EVENTS:
            made = self._primitive(*levels)
        else:
            (detector,) = levels
            name = self._names.get(detector, "")
            problem = f"no detector {detector!r} is known"
            made = _Route(name, detector, "c", EventType(name, {}) if name else None, problem, _anything)
        if made.type is not None and len(self._routes) < ROUTES:
            self._routes[topic] = made
        return made

    def _primitive(self, name: str, source: str) -> _Route:
        known = self.directory.types.get(name)
        if known is None:
            return _Route(name, source, "e", None, f"no event type {name!r} is registered", _anything)
        if known.derived is not None:
            problem = f"the type {name!r} is derived: events of {known.derived.base!r} are published"
            return _Route(name, source, "e", None, problem, _anything)
        return _Route(name, source, "e", known, "", fitting(known))

    # The directory.

    def _changed(self, change: Change, payload: bytes, now: int) -> list[Wish]:
        if change.kind == "recorder":
            return self._namesake(change)
        if change.kind not in KEPT:
            return []
        if self.keeper.entries.get((change.kind, change.name), b"") != payload:
            self._do(Entered(change.kind, change.name, payload))
        match change.kind:
            case "source":
                return self._source_changed(change, now)
            case "detector":
                self._routes.clear()
                return [*self._refuse(change.name, change.entry), *self._listen(now), *self._refilter()]
            case _:
                self._routes.clear()
                return [*self._refuse_derived(change.name, change.entry), *self._refilter()]

    def _namesake(self, change: Change) -> list[Wish]:
        """What the directory says under this recorder's name has changed."""
        if change.name != self.name or self._stopped or self._asked is not None:
            return []
        if change.entry is None:
            # The last will of a connection that was lost before this one.
            return [Publish(self._topic, encode(self._entry), retain=True)]
        self.announced |= change.entry == self._entry
        if change.entry.since > self._entry.since and "namesake" not in self._said:
            self._said.add("namesake")
            note = "another recorder has this name: sources wait for one of the two only; give one another"
            return [Note("warning", note, {"since": change.entry.since})]
        return []

    def _source_changed(self, change: Change, now: int) -> list[Wish]:
        name, entry = change.name, change.entry
        reads = self._reads(entry)
        effects: list[Wish] = []
        if not reads and name in self.keeper.joined:
            # Its last events have come when its server has handed them on; its end is told by that of the directory.
            home = self.keeper.joined[name] or ""
            effects += self._behind({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark = max(entry.watermark, self.keeper.floor)
        if reads:
            watermark = max(watermark, self._join(name, entry, now))
        topic = administration_topic("ack", name, self._speaker, root=self.root)
        ack = Publish(topic, encode(Acknowledgement(watermark)))
        # Before it publishes it has to be heard.
        effects += self._refilter()
        return [*effects, *self._behind({entry.home} if reads else (), lambda _: self._acknowledge(name, ack), now)]

    def _acknowledge(self, source: str, ack: Publish) -> list[Effect]:
        if self._asked is None:
            return [ack]
        # The server may not have taken all subscriptions yet.
        self._unsent[source] = ack
        return []

    def _join_all(self, now: int) -> list[Wish]:
        """Wait for those that were remembered, where other types are recorded now; and no more for others."""
        for name, entry in self.directory.sources.items():
            if self._reads(entry) and name not in self.keeper.joined:
                self._join(name, entry, now)
        for name, home in list(self.keeper.joined.items()):
            if home is not None and not self._reads(self.directory.sources.get(name)):
                self._leave(name, now)
        return self._listen(now)

    def _join(self, name: str, entry: SourceEntry, now: int) -> int:
        joined = Joined(name, entry.home, entry.watermark, entry.lease, now)
        self._operations.append(Append(encode_operation(joined)))
        return self.keeper.join(joined)

    def _leave(self, name: str, now: int) -> list[Effect]:
        if name in self.keeper.joined and not self._reads(self.directory.sources.get(name)):
            self._do(Left(name, now))
        return []

    def _reads(self, entry: SourceEntry | None) -> bool:
        return entry is not None and any(map(self.keeper.wants_type, entry.types))

    def _listen(self, now: int) -> list[Wish]:
        """Wait for the detectors whose composite events are recorded, and for no others."""
        effects: list[Wish] = []
        wanted = self._detectors()
        for each in sorted(wanted):
            if each not in self.keeper.joined:
                joined = Joined(each, None, self.keeper.floor, 0, now)
                self._operations.append(Append(encode_operation(joined)))
                self.keeper.join(joined)
            homes = self._published_at(each)
            self._names[each] = self.directory.detectors[each].publishes
            streams = self._streams.setdefault(each, Streams(homes))
            streams.want(homes)
            for home in sorted(streams.homes - set(homes)):
                effects += self._behind({home}, partial(self._lost_home, streams, each, home), now)
        for each, at_home in list(self.keeper.joined.items()):
            if at_home is None and each not in wanted:
                at = self._streams[each].homes if each in self._streams else ()
                effects += self._behind(at, partial(self._disconnect, each), now)
        return effects

    def _disconnect(self, detector: str, now: int) -> list[Effect]:
        if detector in self.keeper.joined and detector not in self._detectors():
            self._do(Left(detector, now))
            self._streams.pop(detector, None)
            self._names.pop(detector, None)
            self._routes.clear()
        return self._refilter()

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home not in self._published_at(detector) and home in streams.homes:
            streams.lost(home)
        return self._refilter()

    def _behind(self, homes: Iterable[str], then: Callable[[int], list[Effect]], now: int) -> list[Effect]:
        return self.homes.flush(homes, then, now)

    def _detectors(self) -> set[str]:
        """The detectors whose composite events are recorded."""
        return {
            name
            for name, entry in self.directory.detectors.items()
            if entry.publishes and entry.policy == "guaranteed" and self.keeper.wants_type(entry.publishes)
        }

    def _published_at(self, detector: str) -> tuple[str, ...]:
        """The homes where a detector or a copy of it publishes."""
        entry = self.directory.detectors.get(detector)
        return () if entry is None else tuple(sorted({entry.home, *entry.copies.values()}))

    def _refuse(self, name: str, entry: DetectorEntry | None) -> list[Wish]:
        """What is found by best effort is not recorded: nobody says when it is complete."""
        if entry is None or entry.policy == "guaranteed" or not entry.publishes:
            return []
        if name in self._said or not self.keeper.wants_type(entry.publishes):
            return []
        self._said.add(name)
        note = "composite events that are found by best effort are not recorded: nobody says when they are complete"
        return [Note("warning", note, {"type": entry.publishes, "detector": name})]

    def _refuse_derived(self, name: str, entry: EventType | None) -> list[Wish]:
        named = self.keeper.wants is not None and name in self.keeper.wants
        if entry is None or entry.derived is None or not named or name in self._said:
            return []
        self._said.add(name)
        note = "nothing is published under a derived type: record the type that it is derived from"
        return [Note("warning", note, {"type": name, "base": entry.derived.base})]

    # What is listened to.

    def _refilter(self) -> list[Effect]:
        """Subscribe to what is recorded and to what is to be heard beside it; each event has to come once."""
        filters = self._events_heard() | self._beside()
        # Where a marker is waited for, what is on its way before it is still to be heard.
        awaited = self.homes.awaited
        filters |= {each for each in self._filters if each[0] in awaited}
        # The markers last: when one comes back, all before was taken.
        added = sorted(filters - self._filters, key=lambda each: (each[1] == self.homes.topic, each))
        dropped = sorted(self._filters - filters)
        self._filters = filters
        return [
            *(Subscribe(topic, home=home) for home, topic in added),
            *(Unsubscribe(topic, home=home) for home, topic in dropped),
        ]

    def _events_heard(self) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for detector, streams in self._streams.items():
            found |= {(home, composite_topic(detector, root=self.root)) for home in streams.homes}
        # Who publishes without a word of it beforehand does so at the server of the directory.
        publishing = [(each.home, each.types) for each in self.directory.sources.values() if self._reads(each)]
        homes = {"", *(home for home, _ in publishing)}
        if self.keeper.wants is None:
            return found | {(home, event_filter(root=self.root)) for home in homes}
        for name in self.keeper.wants:
            topic = event_filter(name, root=self.root)
            found |= {(home, topic) for home, types in [*publishing, ("", (name,))] if name in types}
        return found

    def _beside(self) -> set[tuple[str, str]]:
        """The directory, heartbeats, markers."""
        found = {("", area_filter(Area.DIRECTORY, kind, root=self.root)) for kind in KEPT}
        found.add(("", self._topic))
        found.add(("", area_filter(Area.ADMINISTRATION, "fence", root=self.root)))
        found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self.root)))
        for each in self.directory.sources.values():
            if each.home and self._reads(each):
                found.add((each.home, administration_topic("heartbeat", each.publisher, root=self.root)))
        homes = {home for streams in self._streams.values() for home in streams.homes}
        homes |= {home for home, _ in found} | {""}
        return found | {(home, self.homes.topic) for home in homes}


def _bare(event: Event) -> Event:
    """A composite event without what travels along with it."""
    if isinstance(event, CompositeEvent) and (event.events or event.records or event.again):
        return replace(event, events=(), records=(), again=False)
    return event


def _anything(attributes: object) -> bool:
    return True

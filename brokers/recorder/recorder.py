"""A recorder: it is told what messages arrive and what time it is, and says what is to be kept, and written.

Design, sections 3 and 4. It takes part in the protocol of sources as a broker node does: it is in the directory, so
sources wait until it counts with them; it waits for sources and for the detectors whose composite events it records; it
fences them off when their leases run out or an administrator says so. Like a node it is sans-I/O.

It consists of whom it waits for (`awaited`), what it is subscribed to (`filters`), what topics lead to (`routes`), what
of the directory concerns it (`interest`), whether it has read that (`asking`), and what it remembers (`memory`).

To be a node with a detector that matches every event was rejected. Subscriptions would be placed there; and a detector
begins anew when it is lost, where a recorder has to go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from distced.brokers.core.barriers import Homes
from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.directory_handshake import Asking
from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.core.replica_streams import Streams
from distced.brokers.recorder.effects import Wish, Write
from distced.brokers.recorder.event_routes import Route, Routes
from distced.brokers.recorder.inputs import Awaited
from distced.brokers.recorder.interest import KEPT, Interest
from distced.brokers.recorder.memory import Memory
from distced.brokers.recorder.state import Beat, Begun, Cut, Entered, Fenced, Keeper, Listening, Met, Wanted
from distced.brokers.recorder.topic_filters import Filters
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.wire.directory_entries import RECORDER, Heartbeat, RecorderEntry, decode, encode
from distced.middleware.wire.frames import decode_any
from distced.middleware.wire.topics import ROOT, Area, parse_topic

CONFIRM_WITHIN: Final = 30 * SECOND
"""How long after a reconnection entries of the directory may stay away, ns."""


class Recorder:
    """A recorder.

    Attributes:
        name: unlike all other recorders.
        keeper: what it remembers.
        directory: what is known.
        flush_every: how long what is stable waits until it is written, at most, ns.
        flush_events: how many events wait, at most.
        dead_letters: what could not be used.
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
        self.keeper = Keeper() if keeper is None else keeper
        self.directory = Directory()
        self.flush_every = flush_every
        self.flush_events = flush_events
        self.announced = False
        speaker = f"{RECORDER}{name}"
        self.dead_letters = DeadLetters(speaker, root)
        # What an earlier life has asked for may still come.
        self.homes = Homes(speaker, root, first=max(now // 1_000, 0))
        self._root = root
        self._entry = RecorderEntry(now, None if types is None else tuple(sorted(set(types))), home)
        # Where the detectors that are waited for are heard.
        self._streams: dict[str, Streams] = {}
        self._memory = Memory(self.keeper)
        self._routes = Routes(self.directory)
        self._interest = Interest(self.keeper, self.directory)
        self._filters = Filters(name, root, self._interest, self._streams, self.homes)
        self._asking = Asking(speaker, root, self.homes.topic, now)
        self._awaited = Awaited(
            self._memory, self.directory, self._interest, self._streams,
            homes=self.homes, filters=self._filters, routes=self._routes, asking=self._asking,
        )  # fmt: skip
        self._stopped = False
        self._cut_at = now
        self._up: set[str] = set()
        self._lost_at: dict[str, int] = {}
        # Since when a connection stands over which everything was subscribed to anew, until that is in force.
        self._anew: int | None = None
        # Entries from before that have not shown up again, and until when they may.
        self._unconfirmed: set[tuple[str, str]] = set()
        self._confirm_until = now
        self._has_namesake = False
        for (kind, entry), payload in self.keeper.entries.items():
            self.directory.read((kind, entry), payload, where="what was remembered")

    @property
    def types(self) -> tuple[str, ...] | None:
        """The types it records; None for all."""
        return self._entry.types

    def filters(self, home: str) -> list[str]:
        """What it listens to at a server."""
        return self._filters.at(home)

    # From the driver.

    def begin(self, now: int, beyond: int | None = None, noted: RecorderNote | None = None) -> list[Wish]:
        """Before it is connected: what it is to hear of what its server has kept.

        Args:
            beyond: of one that remembers nothing: no event with `hi` at or before this is to be recorded, ns.
            noted: of one that remembers nothing: what an earlier life has noted in the history.
        """
        if self.keeper.wants != self.types:
            self._memory.do(Wanted(self.types))
        if beyond is not None and self.keeper.policy.watermark is None:
            begun = Begun(beyond)
            if noted is not None and noted.watermark is not None:
                begun = Begun(beyond, noted.since, noted.gaps, noted.watermark)
            self._memory.do(begun)
        self._awaited.resume()
        return self._done(self._filters.renew())

    def connected(self, now: int, *, resumed: bool) -> list[Wish]:
        """The connection to the server of the directory stands, perhaps again.

        Args:
            resumed: whether the server has kept what came meanwhile.
        """
        effects = self._meet("", now, resumed)
        self._unconfirmed = {(kind, name) for kind, name in self.directory.names() if kind in KEPT and kind != "type"}
        self._confirm_until = now + CONFIRM_WITHIN
        question = self._asking.begin(now)
        return self._done([*effects, *self._awaited.renew(now), *self._filters.renew(), question])

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
        return Publish(self._filters.topic, b"", retain=True)

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
        effects: list[Wish] = [*self.homes.tick(self._filters.homes, now), *self._asking.again(now)]
        if self._unconfirmed and self._asking.settled and now > self._confirm_until:
            missing, self._unconfirmed = self._unconfirmed, set()
            for kind, name in sorted(missing):
                effects += self._changed(self.directory.read((kind, name), b"", where="the directory"), b"", now)
        for source in self.keeper.expired(now):
            if (self.keeper.joined.get(source) or "") in self._up:
                self._memory.do(Fenced(source, now))
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

    def _done(self, effects: Iterable[Wish]) -> list[Wish]:
        """What was kept comes first: what is written and acknowledged rests on it."""
        wishes = list(effects)
        return [*self._memory.taken(), *wishes]

    def _write(self, now: int) -> list[Wish]:
        self._cut_at = now
        batch = self._memory.do(Cut(now))
        assert batch is not None
        return [Write(batch)]

    def _meet(self, home: str, now: int, resumed: bool) -> list[Wish]:
        self._up.add(home)
        if not home:
            self.announced = False
            self._anew = None if resumed else now
        missing = None
        if home in self.keeper.met and not resumed:
            missing = min(self._lost_at.get(home, now), max(self.keeper.heard, 0))
        self._memory.do(Met(home, missing, now))
        if missing is None:
            return []
        fields: dict[str, object] = {"home": home} if home else {}
        fields["seconds"] = round((now - missing) / SECOND, 1)
        note = "the server has kept nothing while the recorder was away: what was published then is missing"
        # Of the directory's server there is a marker under way in any case.
        listening = self.homes.flush({home}, partial(self._listens, now), now) if home else []
        return [Note("warning", note, fields), *listening]

    def _listens(self, began: int, now: int) -> list[Effect]:
        self._memory.do(Listening(began, now))
        return []

    # Messages.

    def _received(self, topic: str, payload: bytes, now: int, home: str) -> list[Wish]:
        route = self._routes.known(topic)
        if route is not None:
            return self._events(route, topic, payload, now, home)
        area, levels = parse_topic(topic, root=self._root)
        if area in (Area.EVENTS, Area.COMPOSITE_EVENTS):
            if area is Area.EVENTS and not self.keeper.wants_type(levels[0]):
                # An earlier life has subscribed to it, and the server has not forgotten.
                return []
            return self._events(self._routes.find(topic, area, levels), topic, payload, now, home)
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
                self._memory.do(Fenced(source, now))
                return [Note("warning", "source fenced off", {"source": source})]
        return []

    def _events(self, route: Route, topic: str, payload: bytes, now: int, home: str) -> list[Wish]:
        frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        usable, effects = route.usable(frame, topic, payload, self.dead_letters)
        if usable is None:
            return list(effects)
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
            self._memory.hear(source, usable, watermark, now)
        return list(effects)

    def _heartbeat(self, beat: Heartbeat, now: int) -> list[Wish]:
        sources = tuple(each for each in beat.sources if each in self.keeper.policy.sources)
        if sources:
            self._memory.do(Beat(sources, beat.watermark, now))
        return []

    def _answered(self, payload: bytes, now: int, home: str) -> list[Wish]:
        """Somebody's own message to itself has come back: what was before it has come."""
        if home:
            return list(self.homes.answered(home, payload, now))
        if not self._asking.answered(payload):
            return []
        # What was subscribed to before has been taken, too: now it may be counted on.
        if self._anew is not None:
            self._listens(self._anew, now)
            self._anew = None
        return [self._entered(), *self._asking.unsent()]

    # The directory.

    def _changed(self, change: Change, payload: bytes, now: int) -> list[Wish]:
        if change.kind == "recorder":
            return self._namesake(change)
        if change.kind not in KEPT:
            return []
        if self.keeper.entries.get((change.kind, change.name), b"") != payload:
            self._memory.do(Entered(change.kind, change.name, payload))
        match change.kind:
            case "source":
                return list(self._awaited.source_changed(change.name, change.entry, now))
            case "detector":
                self._routes.forget()
                notes = self._interest.about_detector(change.name, change.entry)
                return [*notes, *self._awaited.listen(now), *self._filters.renew()]
            case _:
                self._routes.forget()
                return [*self._interest.about_type(change.name, change.entry), *self._filters.renew()]

    def _namesake(self, change: Change) -> list[Wish]:
        """What the directory says under this recorder's name has changed."""
        if change.name != self.name or self._stopped or self._asking.open:
            return []
        if change.entry is None:
            # The last will of a connection that was lost before this one.
            return [self._entered()]
        self.announced |= change.entry == self._entry
        if change.entry.since > self._entry.since and not self._has_namesake:
            self._has_namesake = True
            note = "another recorder has this name: sources wait for one of the two only; give one another"
            return [Note("warning", note, {"since": change.entry.since})]
        return []

    def _entered(self) -> Publish:
        return Publish(self._filters.topic, encode(self._entry), retain=True)


def _bare(event: Event) -> Event:
    """A composite event without what travels along with it."""
    if isinstance(event, CompositeEvent) and (event.events or event.records or event.again):
        return replace(event, events=(), records=(), again=False)
    return event

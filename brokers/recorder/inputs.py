"""Inputs of a recorder: sources of its types, detectors whose composite events it records, and their MQTT filters.

An input is subscribed to before it publishes, and until its last events have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from distced.brokers.core.barriers import HeldFilters, Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Note, Publish, warning
from distced.brokers.core.topic_routes import TopicRoutes
from distced.brokers.recorder.state import Joined, JournaledState, Left, Lost, RecorderState
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.administration import Acknowledgement
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import RECORDER, DetectorEntry, SourceEntry
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.replica_streams import Streams
from distced.middleware.wire.topics import (
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    directory_topic,
    event_filter,
)

KEPT: Final = ("type", "source", "detector")
"""Kinds of directory entries that a recorder reads."""


class Interest:
    """Entries of the directory that concern a recorder: sources and detectors of its types."""

    def __init__(self, state: RecorderState, directory: Directory) -> None:
        self._state = state
        self._directory = directory
        # Types and detectors with a note already.
        self._said: set[str] = set()

    @property
    def wants(self) -> tuple[str, ...] | None:
        """Types that are recorded; None for all."""
        return self._state.wants

    def reads(self, entry: SourceEntry | None) -> bool:
        """Whether events of a source are recorded."""
        return entry is not None and any(map(self._state.wants_type, entry.types))

    def sources(self) -> list[SourceEntry]:
        """Sources whose events are recorded."""
        return [each for each in self._directory.sources.values() if self.reads(each)]

    def detectors(self) -> set[str]:
        """Detectors whose composite events are recorded."""
        return {
            name
            for name, entry in self._directory.detectors.items()
            if entry.publishes and entry.policy == "guaranteed" and self._state.wants_type(entry.publishes)
        }

    def published_at(self, detector: str) -> tuple[str, ...]:
        """Homes where a detector or a replica of it publishes."""
        entry = self._directory.detectors.get(detector)
        return () if entry is None else tuple(sorted({entry.home, *entry.replicas.values()}))

    def about_detector(self, name: str, entry: DetectorEntry | None) -> list[Note]:
        """Note on a detector that may find wrong events, which is not recorded."""
        if entry is None or entry.policy == "guaranteed" or not entry.publishes:
            return []
        if name in self._said or not self._state.wants_type(entry.publishes):
            return []
        self._said.add(name)
        reason = f"composite events of {entry.policy} detection are never known to be complete"
        return [warning("detector not recorded", type=entry.publishes, detector=name, reason=reason)]

    def about_type(self, name: str, entry: EventType | None) -> list[Note]:
        """Note on a derived type, which is not recorded."""
        named = self.wants is not None and name in self.wants
        if entry is None or entry.derived is None or not named or name in self._said:
            return []
        self._said.add(name)
        advice = "nothing is published under a derived type: record the type that it is derived from"
        return [warning("type not recorded", type=name, base=entry.derived.base, advice=advice)]


class RecorderFilters:
    """MQTT filters of a recorder, by home server; each event must arrive once.

    Attributes:
        topic: of the recorder's own entry in the directory.
        streams: of the detectors waited for.
        homes: barriers at the servers in use.
    """

    def __init__(self, name: str, root: str, interest: Interest, homes: Homes) -> None:
        self.topic = directory_topic("recorder", name, root=root)
        # Answers about missing messages.
        self._again = area_filter(Area.ADMINISTRATION, "again", f"{RECORDER}{name}", root=root)
        self._lost = area_filter(Area.ADMINISTRATION, "lost", f"{RECORDER}{name}", root=root)
        # Its declaration for sources that filter, and their acknowledgements.
        self._declared = directory_topic("reader", f"{RECORDER}{name}", root=root)
        self._filtered = area_filter(Area.ADMINISTRATION, "filtered", f"{RECORDER}{name}", root=root)
        self._root = root
        self._interest = interest
        self.streams: dict[str, Streams] = {}
        self.homes = homes
        self._held = HeldFilters(homes)

    @property
    def servers(self) -> set[str]:
        """Servers with a filter."""
        return self._held.homes

    def at(self, home: str) -> list[str]:
        """Filters at a server."""
        return self._held.at(home)

    def renew(self) -> list[Effect]:
        """Subscribe to the filters needed now, and to no others."""
        return self._held.hold(self._events() | self._beside())

    def _events(self) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for detector, streams in self.streams.items():
            found |= {(home, composite_topic(detector, root=self._root)) for home in streams.homes}
        # A source that was not announced publishes at the server of the directory.
        publishing = [(each.home, each.types) for each in self._interest.sources()]
        homes = {"", *(home for home, _ in publishing)}
        if self._interest.wants is None:
            return found | {(home, event_filter(root=self._root)) for home in homes}
        for name in self._interest.wants:
            topic = event_filter(name, root=self._root)
            found |= {(home, topic) for home, types in [*publishing, ("", (name,))] if name in types}
        return found

    def _beside(self) -> set[tuple[str, str]]:
        """The directory, heartbeats, barriers."""
        found = {("", area_filter(Area.DIRECTORY, kind, root=self._root)) for kind in KEPT}
        found |= {("", each) for each in (self.topic, self._declared, self._filtered)}
        found.add(("", area_filter(Area.ADMINISTRATION, "fence", root=self._root)))
        found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self._root)))
        of_detectors = {home for streams in self.streams.values() for home in streams.homes}
        for home in {"", *(each.home for each in self._interest.sources()), *of_detectors}:
            found |= {(home, self._again), (home, self._lost)}
        for each in self._interest.sources():
            if each.home:
                found.add((each.home, administration_topic("heartbeat", each.publisher, root=self._root)))
        homes = {home for streams in self.streams.values() for home in streams.homes}
        homes |= {home for home, _ in found} | {""}
        return found | {(home, self.homes.topic) for home in homes}


class Inputs:
    """Sources and detectors a recorder waits for."""

    def __init__(
        self,
        journaled: JournaledState,
        directory: Directory,
        interest: Interest,
        filters: RecorderFilters,
        routes: TopicRoutes,
        handshake: DirectoryHandshake,
        published: dict[str, str],
        acknowledged_at: Callable[[str], str],
    ) -> None:
        self._journaled = journaled
        self._state = journaled.state
        self._directory = directory
        self._interest = interest
        self._filters = filters
        self._streams = filters.streams
        self._homes = filters.homes
        self._routes = routes
        self._handshake = handshake
        self._published = published
        self._acknowledged_at = acknowledged_at
        # Acknowledgements held back while the directory is read, by source.
        self._unsent: dict[str, Publish] = {}

    def resume(self) -> None:
        """Subscribe to the detectors that an earlier life has waited for."""
        for each in self._interest.detectors():
            if each in self._state.joined:
                self._streams[each] = _streams(self._interest.published_at(each))
                self._published[each] = self._directory.detectors[each].publishes

    def renew(self, now: int) -> list[Effect]:
        """Wait for the remembered inputs of the types recorded now, and for no others."""
        for name, entry in self._directory.sources.items():
            if self._interest.reads(entry) and name not in self._state.joined:
                self._join(name, entry, now)
        for name, home in list(self._state.joined.items()):
            if home is not None and not self._interest.reads(self._directory.sources.get(name)):
                self._leave(name, now)
        return self.listen(now)

    def source_changed(self, name: str, entry: SourceEntry | None, now: int) -> list[Effect]:
        """A source was announced, has changed or left."""
        reads = self._interest.reads(entry)
        effects: list[Effect] = []
        if not reads and name in self._state.joined:
            # Its last events come from its own server, its end from that of the directory.
            home = self._state.joined[name] or ""
            effects += self._homes.flush({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark = max(entry.watermark, self._state.floor)
        if reads:
            watermark = max(watermark, self._join(name, entry, now))
        # It publishes once its events are subscribed to.
        effects += self._filters.renew()
        homes = {entry.home} if reads else ()
        return [*effects, *self._homes.flush(homes, lambda _: self._acknowledge(name, watermark), now)]

    def listen(self, now: int) -> list[Effect]:
        """Wait for the detectors whose composite events are recorded, and for no others."""
        effects: list[Effect] = []
        wanted = self._interest.detectors()
        for each in sorted(wanted):
            if each not in self._state.joined:
                self._journaled.join(Joined(each, None, self._state.floor, 0, now))
            homes = self._interest.published_at(each)
            self._published[each] = self._directory.detectors[each].publishes
            streams = self._streams.get(each)
            if streams is None:
                streams = self._streams[each] = _streams(homes)
            streams.want(homes)
            for home in homes:
                streams.begin(home)
            for home in sorted(streams.homes - set(homes)):
                effects += self._homes.flush({home}, partial(self._lost_home, streams, each, home), now)
        for each, at_home in list(self._state.joined.items()):
            if at_home is None and each not in wanted:
                at = self._streams[each].homes if each in self._streams else ()
                effects += self._homes.flush(at, partial(self._disconnect, each), now)
        return effects

    def unsent(self) -> list[Publish]:
        """Acknowledgements held back until the directory was read."""
        acks, self._unsent = self._unsent, {}
        return list(acks.values())

    def _acknowledge(self, source: str, watermark: int) -> list[Effect]:
        """Acknowledge a source, now or once the directory is read and all subscriptions are taken."""
        ack = Publish(self._acknowledged_at(source), encode(Acknowledgement(watermark)))
        if not self._handshake.reading:
            return [ack]
        self._unsent[source] = ack
        return []

    def _join(self, name: str, entry: SourceEntry, now: int) -> int:
        # One that was there before this recorder may have published.
        running = entry.resumed > 0 or (self._handshake.reading and name not in self._state.joined)
        types = tuple([each for each in entry.types if self._state.wants_type(each)]) if entry.first else ()
        joined = Joined(name, entry.home, entry.watermark, entry.lease, now, types, entry.first, running)
        return self._journaled.join(joined)

    def _leave(self, name: str, now: int) -> list[Effect]:
        if name in self._state.joined and not self._interest.reads(self._directory.sources.get(name)):
            self._journaled.do(Left(name, now))
        return []

    def _disconnect(self, detector: str, now: int) -> list[Effect]:
        if detector in self._state.joined and detector not in self._interest.detectors():
            ended = self._streams.pop(detector, None)
            if ended is not None:
                ended.end(f"{detector}: the detector has ended, and its last messages are missing")
                losses = tuple([(each.since, each.until, each.reason) for each in ended.take_losses()])
                if losses:
                    self._journaled.do(Lost(losses))
            self._journaled.do(Left(detector, now))
            self._published.pop(detector, None)
            self._routes.forget()
        return self._filters.renew()

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home not in self._interest.published_at(detector) and home in streams.homes:
            streams.lost(home)
        return self._filters.renew()


def _streams(homes: Iterable[str]) -> Streams:
    """Streams of a detector whose events are recorded as they come."""
    made = Streams(homes, ordered=False)
    for home in made.homes:
        made.begin(home)
    return made

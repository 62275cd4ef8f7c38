"""Inputs of a recorder: the sources of its types, and the detectors whose composite events it records.

Sources are announced and leave; detectors are created, moved, replicated and destroyed. An input is subscribed to
before it publishes, and until its last events have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Publish
from distced.brokers.core.replica_streams import Streams
from distced.brokers.core.topic_routes import TopicRoutes
from distced.brokers.recorder.state import Joined, JournaledState, Left
from distced.brokers.recorder.topic_filters import Interest, RecorderFilters
from distced.middleware.wire.administration import Acknowledgement
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import SourceEntry
from distced.middleware.wire.directory_handshake import DirectoryHandshake


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
        """
        Args:
            published: types of the detectors waited for; kept up to date.
            acknowledged_at: topic of acknowledgements of a source.
        """
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
                self._streams[each] = Streams(self._interest.published_at(each))
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
            # Its last events have come when its server has handed them on; its end is told by that of the directory.
            home = self._state.joined[name] or ""
            effects += self._homes.flush({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark = max(entry.watermark, self._state.floor)
        if reads:
            watermark = max(watermark, self._join(name, entry, now))
        # Before it publishes it has to be heard.
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
            streams = self._streams.setdefault(each, Streams(homes))
            streams.want(homes)
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
        """Acknowledge a source, now or once the directory is read: then the server has taken all subscriptions."""
        ack = Publish(self._acknowledged_at(source), encode(Acknowledgement(watermark)))
        if not self._handshake.reading:
            return [ack]
        self._unsent[source] = ack
        return []

    def _join(self, name: str, entry: SourceEntry, now: int) -> int:
        return self._journaled.join(Joined(name, entry.home, entry.watermark, entry.lease, now))

    def _leave(self, name: str, now: int) -> list[Effect]:
        if name in self._state.joined and not self._interest.reads(self._directory.sources.get(name)):
            self._journaled.do(Left(name, now))
        return []

    def _disconnect(self, detector: str, now: int) -> list[Effect]:
        if detector in self._state.joined and detector not in self._interest.detectors():
            self._journaled.do(Left(detector, now))
            self._streams.pop(detector, None)
            self._published.pop(detector, None)
            self._routes.forget()
        return self._filters.renew()

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home not in self._interest.published_at(detector) and home in streams.homes:
            streams.lost(home)
        return self._filters.renew()

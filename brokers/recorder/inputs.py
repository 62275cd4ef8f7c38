"""Whom a recorder waits for: the sources of its types, and the detectors whose composite events it records.

Sources are announced and leave; detectors come, move, are copied and go. Who is waited for has to be heard before it
publishes, and who is not waited for any more has to be heard until what it has published is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.directory_handshake import Asking
from distced.brokers.core.effects import Effect
from distced.brokers.core.replica_streams import Streams
from distced.brokers.recorder.event_routes import Routes
from distced.brokers.recorder.interest import Interest
from distced.brokers.recorder.memory import Memory
from distced.brokers.recorder.state import Joined, Left
from distced.brokers.recorder.topic_filters import Filters
from distced.middleware.wire.directory_entries import SourceEntry


class Awaited:
    """Whom a recorder waits for."""

    def __init__(
        self,
        memory: Memory,
        directory: Directory,
        interest: Interest,
        streams: dict[str, Streams],
        *,
        homes: Homes,
        filters: Filters,
        routes: Routes,
        asking: Asking,
    ) -> None:
        """
        Args:
            streams: where the detectors that are waited for are heard.
        """
        self._memory = memory
        self._keeper = memory.keeper
        self._directory = directory
        self._interest = interest
        self._streams = streams
        self._homes = homes
        self._filters = filters
        self._routes = routes
        self._asking = asking

    def resume(self) -> None:
        """Listen to the detectors that an earlier life has waited for."""
        for each in self._interest.detectors():
            if each in self._keeper.joined:
                self._streams[each] = Streams(self._interest.published_at(each))
                self._routes.names[each] = self._directory.detectors[each].publishes

    def renew(self, now: int) -> list[Effect]:
        """Wait for those that were remembered, where other types are recorded now; and no more for others."""
        for name, entry in self._directory.sources.items():
            if self._interest.reads(entry) and name not in self._keeper.joined:
                self._join(name, entry, now)
        for name, home in list(self._keeper.joined.items()):
            if home is not None and not self._interest.reads(self._directory.sources.get(name)):
                self._leave(name, now)
        return self.listen(now)

    def source_changed(self, name: str, entry: SourceEntry | None, now: int) -> list[Effect]:
        """A source was announced, or has changed or left."""
        reads = self._interest.reads(entry)
        effects: list[Effect] = []
        if not reads and name in self._keeper.joined:
            # Its last events have come when its server has handed them on; its end is told by that of the directory.
            home = self._keeper.joined[name] or ""
            effects += self._behind({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark = max(entry.watermark, self._keeper.floor)
        if reads:
            watermark = max(watermark, self._join(name, entry, now))
        # Before it publishes it has to be heard.
        effects += self._filters.renew()
        homes = {entry.home} if reads else ()
        return [*effects, *self._behind(homes, lambda _: self._asking.acknowledge(name, watermark), now)]

    def listen(self, now: int) -> list[Effect]:
        """Wait for the detectors whose composite events are recorded, and for no others."""
        effects: list[Effect] = []
        wanted = self._interest.detectors()
        for each in sorted(wanted):
            if each not in self._keeper.joined:
                self._memory.join(Joined(each, None, self._keeper.floor, 0, now))
            homes = self._interest.published_at(each)
            self._routes.names[each] = self._directory.detectors[each].publishes
            streams = self._streams.setdefault(each, Streams(homes))
            streams.want(homes)
            for home in sorted(streams.homes - set(homes)):
                effects += self._behind({home}, partial(self._lost_home, streams, each, home), now)
        for each, at_home in list(self._keeper.joined.items()):
            if at_home is None and each not in wanted:
                at = self._streams[each].homes if each in self._streams else ()
                effects += self._behind(at, partial(self._disconnect, each), now)
        return effects

    def _join(self, name: str, entry: SourceEntry, now: int) -> int:
        return self._memory.join(Joined(name, entry.home, entry.watermark, entry.lease, now))

    def _leave(self, name: str, now: int) -> list[Effect]:
        if name in self._keeper.joined and not self._interest.reads(self._directory.sources.get(name)):
            self._memory.do(Left(name, now))
        return []

    def _disconnect(self, detector: str, now: int) -> list[Effect]:
        if detector in self._keeper.joined and detector not in self._interest.detectors():
            self._memory.do(Left(detector, now))
            self._streams.pop(detector, None)
            self._routes.names.pop(detector, None)
            self._routes.forget()
        return self._filters.renew()

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home not in self._interest.published_at(detector) and home in streams.homes:
            streams.lost(home)
        return self._filters.renew()

    def _behind(self, homes: Iterable[str], then: Callable[[int], list[Effect]], now: int) -> list[Effect]:
        return self._homes.flush(homes, then, now)

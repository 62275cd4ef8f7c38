"""Directory entries that concern a recorder, and the MQTT filters that follow from them."""

from __future__ import annotations

from typing import Final

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Note, warning
from distced.brokers.core.held_filters import HeldFilters
from distced.brokers.core.replica_streams import Streams
from distced.brokers.recorder.state import RecorderState
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory_entries import DetectorEntry, SourceEntry
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
        """Note on a detector of best effort, which is not recorded."""
        if entry is None or entry.policy == "guaranteed" or not entry.publishes:
            return []
        if name in self._said or not self._state.wants_type(entry.publishes):
            return []
        self._said.add(name)
        reason = "composite events of best effort are never known to be complete"
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
        found.add(("", self.topic))
        found.add(("", area_filter(Area.ADMINISTRATION, "fence", root=self._root)))
        found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self._root)))
        for each in self._interest.sources():
            if each.home:
                found.add((each.home, administration_topic("heartbeat", each.publisher, root=self._root)))
        homes = {home for streams in self.streams.values() for home in streams.homes}
        homes |= {home for home, _ in found} | {""}
        return found | {(home, self.homes.topic) for home in homes}

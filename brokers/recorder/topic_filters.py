"""MQTT filters of a recorder: the events that it records, the directory, heartbeats, fencing, barriers."""

from __future__ import annotations

from collections.abc import Mapping

from distced.brokers.core.barriers import Homes
from distced.brokers.core.effects import Effect
from distced.brokers.core.held_filters import HeldFilters
from distced.brokers.core.replica_streams import Streams
from distced.brokers.recorder.inputs import KEPT, Interest
from distced.middleware.wire.topics import (
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    directory_topic,
    event_filter,
)


class RecorderFilters:
    """MQTT filters of a recorder, by home server; each event must arrive once.

    Attributes:
        topic: of the recorder's own entry in the directory.
    """

    def __init__(self, name: str, root: str, interest: Interest, streams: Mapping[str, Streams], homes: Homes) -> None:
        """
        Args:
            streams: of the detectors that are waited for.
        """
        self.topic = directory_topic("recorder", name, root=root)
        self._root = root
        self._interest = interest
        self._streams = streams
        self._homes = homes
        self._held = HeldFilters(homes)

    @property
    def homes(self) -> set[str]:
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
        for detector, streams in self._streams.items():
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
        homes = {home for streams in self._streams.values() for home in streams.homes}
        homes |= {home for home, _ in found} | {""}
        return found | {(home, self._homes.topic) for home in homes}

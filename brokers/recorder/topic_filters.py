"""What a recorder is subscribed to: the events that it records, and what is to be heard beside them."""

from __future__ import annotations

from collections.abc import Mapping

from distced.brokers.core.barriers import Homes
from distced.brokers.core.effects import Effect, Subscribe, Unsubscribe
from distced.brokers.core.replica_streams import Streams
from distced.brokers.recorder.interest import KEPT, Interest
from distced.middleware.wire.topics import (
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    directory_topic,
    event_filter,
)


class Filters:
    """The filters of a recorder, by home; each event has to come once.

    Attributes:
        topic: that of the recorder's own entry in the directory.
    """

    def __init__(self, name: str, root: str, interest: Interest, streams: Mapping[str, Streams], homes: Homes) -> None:
        """
        Args:
            streams: where the detectors that are waited for are heard.
        """
        self.topic = directory_topic("recorder", name, root=root)
        self._root = root
        self._interest = interest
        self._streams = streams
        self._homes = homes
        self._filters: set[tuple[str, str]] = set()

    @property
    def homes(self) -> set[str]:
        """The servers at which something is listened to."""
        return {home for home, _ in self._filters}

    def at(self, home: str) -> list[str]:
        """What is listened to at a server."""
        heard = (topic for each, topic in self._filters if each == home)
        return sorted(heard, key=lambda topic: (topic == self._homes.topic, topic))

    def renew(self) -> list[Effect]:
        """Subscribe to what is to be heard now, and to nothing else."""
        filters = self._events() | self._beside()
        # Where a marker is waited for, what is on its way before it is still to be heard.
        awaited = self._homes.awaited
        filters |= {each for each in self._filters if each[0] in awaited}
        # The markers last: when one comes back, all before was taken.
        added = sorted(filters - self._filters, key=lambda each: (each[1] == self._homes.topic, each))
        dropped = sorted(self._filters - filters)
        self._filters = filters
        return [
            *(Subscribe(topic, home=home) for home, topic in added),
            *(Unsubscribe(topic, home=home) for home, topic in dropped),
        ]

    def _events(self) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for detector, streams in self._streams.items():
            found |= {(home, composite_topic(detector, root=self._root)) for home in streams.homes}
        # Who publishes without a word of it beforehand does so at the server of the directory.
        publishing = [(each.home, each.types) for each in self._interest.sources()]
        homes = {"", *(home for home, _ in publishing)}
        if self._interest.wants is None:
            return found | {(home, event_filter(root=self._root)) for home in homes}
        for name in self._interest.wants:
            topic = event_filter(name, root=self._root)
            found |= {(home, topic) for home, types in [*publishing, ("", (name,))] if name in types}
        return found

    def _beside(self) -> set[tuple[str, str]]:
        """The directory, heartbeats, markers."""
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

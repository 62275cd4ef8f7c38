"""What a node listens to, and at which servers: each event has to come once.

Topics have home servers (design, section 4). The events of a type are heard at every home of a source that publishes
it, composite events at the home of their detector, heartbeats where their sources are.
"""

from __future__ import annotations

from collections.abc import Iterable

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Subscribe, Unsubscribe
from distced.brokers.node.event_path import Detecting, Hosted
from distced.middleware.wire.topics import Area, administration_topic, area_filter, composite_topic, event_filter


class Listening:
    """The subscriptions of a node at servers, as far as they follow from what it hosts.

    Attributes:
        inspecting: whether this node looks at all events of its site, for those of types that nobody has registered.
    """

    def __init__(self, root: str, home: str, homes: Homes, directory: Directory, detecting: Detecting) -> None:
        """
        Args:
            home: the server of the node's site.
        """
        self.root = root
        self.home = home
        self.directory = directory
        self.detecting = detecting
        self.inspecting = False
        self.homes = homes
        # What is subscribed to, with the homes.
        self._filters: set[tuple[str, str]] = set()

    def refilter(self) -> list[Effect]:
        """Subscribe to what is read, without filters that a wider one covers: each event has to come once."""
        self.detecting.routes.clear()
        everything = event_filter(root=self.root)
        publishing = self._publishing()
        filters = {(self.home, everything)} if self.inspecting else set()
        for hosted in self.detecting.everybody():
            for each, streams in hosted.streams.items():
                filters |= {(home, composite_topic(each, root=self.root)) for home in streams.homes}
                streams.left = False
            if not hosted.active and not hosted.buffering:
                continue
            if hosted.reads is None:
                filters |= {(home, everything) for homes in publishing.values() for home in homes}
                filters.add(("", everything))
                continue
            for name in hosted.reads & self.directory.types.keys():
                topic = event_filter(name, root=self.root)
                # Who publishes without a word of it beforehand does so at the server of the directory.
                filters |= {(home, topic) for home in publishing.get(name, set()) | {""}}
        below = everything.removesuffix("+/+")
        covered = {home for home, topic in filters if topic == everything}
        filters = {
            (home, topic)
            for home, topic in filters
            if topic == everything or home not in covered or not topic.startswith(below)
        }
        filters |= self._beside(filters)
        # Where a marker is waited for, what is on its way before it is still to be heard.
        awaited = self.homes.awaited
        filters |= {each for each in self._filters if each[0] in awaited}
        added, dropped = sorted(filters - self._filters), sorted(self._filters - filters)
        self._filters = filters
        return [
            *(Subscribe(topic, home=home) for home, topic in added),
            *(Unsubscribe(topic, home=home) for home, topic in dropped),
        ]

    def _beside(self, filters: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """What has to be heard beside events: heartbeats of their sources, and markers."""
        found = {(home, self.homes.topic) for home, _ in filters if home}
        for hosted in self.detecting.everybody():
            if hosted.home:
                found.add((hosted.home, self.homes.topic))
            # Of sources that were not announced nobody knows who speaks for them.
            found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self.root)))
            found |= {
                (source.home, administration_topic("heartbeat", source.publisher, root=self.root))
                for source in self.directory.sources.values()
                if source.home and any(map(hosted.takes, source.types))
            }
        return found

    def homes_used(self) -> set[str]:
        """The servers that this node hears, that of the directory left out."""
        return {home for home, _ in self._filters if home}

    def homes_read(self, hosted: Hosted) -> set[str]:
        """The servers from which a detector gets what it reads."""
        publishing = self._publishing()
        homes = {home for name, homes in publishing.items() if hosted.takes(name) for home in homes}
        return homes | {home for each in hosted.streams.values() for home in each.homes}

    def _publishing(self) -> dict[str, set[str]]:
        """By type, the homes of the sources that publish it."""
        homes: dict[str, set[str]] = {}
        for source in self.directory.sources.values():
            for name in source.types:
                homes.setdefault(name, set()).add(source.home)
        return homes

    def homes_of(self, detector: str, *, several: bool = False) -> tuple[str, ...]:
        """Where a detector's topic is listened to: where its node publishes, or each of its copies."""
        entry = self.directory.detectors.get(detector)
        if entry is None:
            return ("",)
        return tuple(sorted(self.living(detector))) if several else (entry.home,)

    def living(self, detector: str) -> set[str]:
        """The homes where a detector is published by a node that is there."""
        entry = self.directory.detectors.get(detector)
        if entry is None:
            return set()
        hosts = {entry.node: entry.home, **entry.copies}
        return {home for node, home in hosts.items() if node in self.directory.nodes}

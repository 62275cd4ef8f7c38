"""MQTT filters a node must hold, given its detectors, by server: each event must arrive once.

Topics have home servers (design, section 4). The events of a type are heard at every home of a source that publishes
it, composite events at the home of their detector, heartbeats where their sources are.
"""

from __future__ import annotations

from collections.abc import Iterable

from distced.brokers.core.effects import Effect
from distced.brokers.core.held_filters import HeldFilters
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.wire.topics import Area, administration_topic, area_filter, composite_topic, event_filter


class TopicFilters(NodePart):
    """Subscriptions of a node at servers, as far as they follow from its detectors.

    Attributes:
        inspecting: whether this node inspects all events of its site, for those of unregistered types.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.inspecting = False
        self._held = HeldFilters(shared.homes)

    def refilter(self) -> list[Effect]:
        """Subscribe to all inputs, without filters that a wider one covers."""
        self.event_path.routes.forget()
        everything = event_filter(root=self.root)
        publishing = self._publishing()
        filters = {(self.home, everything)} if self.inspecting else set()
        for hosted in self.event_path.all_hosted():
            for each, streams in hosted.streams.items():
                filters |= {(home, composite_topic(each, root=self.root)) for home in streams.homes}
                streams.left = False
            if not hosted.running and not hosted.moving:
                continue
            if hosted.reads is None:
                filters |= {(home, everything) for homes in publishing.values() for home in homes}
                filters.add(("", everything))
                continue
            for name in hosted.reads & self.directory.types.keys():
                topic = event_filter(name, root=self.root)
                # A source that was not announced publishes at the server of the directory.
                filters |= {(home, topic) for home in publishing.get(name, set()) | {""}}
        below = everything.removesuffix("+/+")
        covered = {home for home, topic in filters if topic == everything}
        filters = {
            (home, topic)
            for home, topic in filters
            if topic == everything or home not in covered or not topic.startswith(below)
        }
        filters |= self._beside(filters)
        return self._held.hold(filters)

    def _beside(self, filters: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Filters beside those of events: heartbeats of their sources, and barriers."""
        found = {(home, self.homes.topic) for home, _ in filters if home}
        for hosted in self.event_path.all_hosted():
            if hosted.home:
                found.add((hosted.home, self.homes.topic))
            # The publisher of an unannounced source is unknown.
            found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self.root)))
            found |= {
                (source.home, administration_topic("heartbeat", source.publisher, root=self.root))
                for source in self.directory.sources.values()
                if source.home and any(map(hosted.takes, source.types))
            }
        return found

    def homes_used(self) -> set[str]:
        """Servers that this node receives from, that of the directory left out."""
        return self._held.homes - {""}

    def homes_read(self, hosted: HostedDetector) -> set[str]:
        """Servers from which a detector receives its inputs."""
        publishing = self._publishing()
        homes = {home for name, homes in publishing.items() if hosted.takes(name) for home in homes}
        return homes | {home for each in hosted.streams.values() for home in each.homes}

    def _publishing(self) -> dict[str, set[str]]:
        """Homes of the sources, by the type they publish."""
        homes: dict[str, set[str]] = {}
        for source in self.directory.sources.values():
            for name in source.types:
                homes.setdefault(name, set()).add(source.home)
        return homes

    def homes_of(self, detector: str, *, several: bool = False) -> tuple[str, ...]:
        """Homes of a detector's topic: that of its node, or of each replica."""
        entry = self.directory.detectors.get(detector)
        if entry is None:
            return ("",)
        return tuple(sorted(self.living(detector))) if several else (entry.home,)

    def living(self, detector: str) -> set[str]:
        """Homes where a live node publishes a detector."""
        entry = self.directory.detectors.get(detector)
        if entry is None:
            return set()
        hosts = {entry.node: entry.home, **entry.replicas}
        return {home for node, home in hosts.items() if node in self.directory.nodes}

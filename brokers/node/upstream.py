"""Upstream detectors: read by the type of their composite events, at the homes where they publish.

A pattern may name a type that other detectors publish. The reader waits for each of them as for a source, subscribes at
its home or at those of its replicas (`brokers.core.replica_streams`), and drops it when it is gone and everything it
published has arrived.
"""

from __future__ import annotations

from functools import partial

from distced.brokers.core.effects import Effect
from distced.brokers.core.replica_streams import Streams
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.shared import NodePart, Shared
from distced.brokers.node.topic_filters import TopicFilters
from distced.middleware.model.timestamps import INSTANT_MIN


class Upstream(NodePart):
    """Sources and detectors that the detectors of a node wait for."""

    def __init__(self, shared: Shared, topic_filters: TopicFilters) -> None:
        super().__init__(shared)
        self.topic_filters = topic_filters

    def join_sources(self, hosted: HostedDetector, now: int) -> None:
        """Wait for the sources of primitive events."""
        for source, each in self.directory.sources.items():
            if any(hosted.takes(type_name) for type_name in each.types):
                hosted.detector.join(source, each.watermark, now, each.lease)

    def update_readers(self) -> None:
        """Note which detectors here have readers of their type."""
        reads: set[str] = set()
        everything = False
        for entry in self.directory.detectors.values():
            everything |= entry.reads is None
            reads.update(entry.reads or ())
        for hosted in self.event_path.hosted.values():
            hosted.readers_known(bool(hosted.publishes) and (everything or hosted.publishes in reads))

    def connect(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Wait for the detectors whose composite events are read, and no others."""
        detector = hosted.detector
        wanted = self.detectors(hosted)
        effects: list[Effect] = []
        for each in sorted(wanted):
            if each not in hosted.upstream:
                detector.join(each, max(detector.engine.clock, INSTANT_MIN), now)
            hosted.listen_to(each, self.wanted_homes(hosted, each))
        gone = sorted(hosted.upstream - wanted)
        hosted.wait_for(wanted)
        for each in gone:
            # Its last composite events have come when their servers have handed them on.
            effects += self.homes.flush(hosted.streams[each].homes, partial(self._disconnect, hosted, each), now)
        return effects

    def _disconnect(self, hosted: HostedDetector, upstream: str, now: int) -> list[Effect]:
        """Remove a detector that was read and is gone, once everything it published has arrived."""
        if upstream in self.detectors(hosted) or upstream not in hosted.upstream or not hosted.running:
            return []
        hosted.disconnect(upstream)
        return [*self.event_path.leave(upstream, hosted, now), *self.topic_filters.refilter()]

    def detectors(self, hosted: HostedDetector) -> set[str]:
        """Detectors whose composite events a detector reads by their types."""
        policy = hosted.detector.policy.name
        return {each for name in hosted.names for each in self.directory.publishers(name, policy)}

    def wanted_homes(self, hosted: HostedDetector, detector: str) -> tuple[str, ...]:
        """Homes at which a detector read by its type is needed."""
        several = self.policies.replicas(hosted.planned.asked, hosted.detector.id) > 1
        return self.topic_filters.homes_of(detector, several=several)

    def listen_elsewhere(self, now: int) -> list[Effect]:
        """Subscribe at the homes where inputs are published now, as detectors or nodes were added or lost."""
        effects: list[Effect] = []
        changed = False
        for hosted in self.event_path.all_hosted():
            for each, streams in hosted.streams.items():
                if each not in self.directory.detectors:
                    continue
                if each in hosted.upstream:
                    wanted = self.wanted_homes(hosted, each)
                    changed |= wanted != streams.wanted
                    streams.want(wanted)
                for home in sorted(streams.homes - self.topic_filters.living(each)):
                    # What was published there by a node that is lost has come when its server has handed it on.
                    effects += self.homes.flush({home}, partial(self._lost_home, streams, each, home), now)
                changed |= streams.left
        return [*effects, *(self.topic_filters.refilter() if changed else ())]

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home in self.topic_filters.living(detector) or home not in streams.homes:
            return []
        streams.lost(home)
        return self.topic_filters.refilter()

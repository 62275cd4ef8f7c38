"""What the detectors of a node read of other detectors by their types, and where they hear it.

A pattern may name a type that others publish. Whoever publishes it is waited for like a source, is heard at its home or
at those of its copies (`brokers.core.replica_streams`), and is left when it is gone and everything it published has
come.
"""

from __future__ import annotations

from functools import partial

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect
from distced.brokers.core.replica_streams import Streams
from distced.brokers.node.event_path import Detecting, Hosted
from distced.brokers.node.policy_settings import PolicySettings
from distced.brokers.node.topic_filters import Listening
from distced.middleware.model.timestamps import INSTANT_MIN


class Upstream:
    """Whom the detectors of a node wait for."""

    def __init__(
        self, directory: Directory, detecting: Detecting, homes: Homes, listening: Listening, policies: PolicySettings
    ) -> None:
        self.directory = directory
        self.detecting = detecting
        self.homes = homes
        self.listening = listening
        self.policies = policies

    def join_sources(self, hosted: Hosted, now: int) -> None:
        """Wait for the sources of primitive events."""
        for source, each in self.directory.sources.items():
            if any(hosted.takes(type_name) for type_name in each.types):
                hosted.detector.join(source, each.watermark, now, each.lease)

    def see_who_reads(self) -> None:
        """Whether what detectors here publish under a name is read by others."""
        reads: set[str] = set()
        everything = False
        for entry in self.directory.detectors.values():
            everything |= entry.reads is None
            reads.update(entry.reads or ())
        for hosted in self.detecting.hosted.values():
            hosted.read = bool(hosted.publishes) and (everything or hosted.publishes in reads)

    def connect(self, hosted: Hosted, now: int) -> list[Effect]:
        """Wait for the detectors whose composite events are read, and for no others."""
        detector = hosted.detector
        wanted = self.detectors(hosted)
        effects: list[Effect] = []
        for each in sorted(wanted):
            if each not in hosted.upstream:
                detector.join(each, max(detector.engine.clock, INSTANT_MIN), now)
            hosted.streams.setdefault(each, Streams()).want(self.wanted_homes(hosted, each))
        gone = sorted(hosted.upstream - wanted)
        hosted.upstream |= wanted
        for each in gone:
            # Its last composite events have come when their servers have handed them on.
            effects += self.homes.flush(hosted.streams[each].homes, partial(self._disconnect, hosted, each), now)
        return effects

    def _disconnect(self, hosted: Hosted, upstream: str, now: int) -> list[Effect]:
        """A detector that was read is gone, and everything it published has come."""
        if upstream in self.detectors(hosted) or upstream not in hosted.upstream or not hosted.active:
            return []
        hosted.upstream.discard(upstream)
        if upstream not in hosted.parts:
            del hosted.streams[upstream]
        return [*self.detecting.leave(upstream, hosted, now), *self.listening.refilter()]

    def detectors(self, hosted: Hosted) -> set[str]:
        """The detectors whose composite events a detector reads by their types."""
        policy = hosted.detector.policy.name
        return {each for name in hosted.names for each in self.directory.publishers(name, policy)}

    def wanted_homes(self, hosted: Hosted, detector: str) -> tuple[str, ...]:
        """Where a detector that is read by its type is to be listened to."""
        several = self.policies.replicas(hosted.planned.asked, hosted.detector.id) > 1
        return self.listening.homes_of(detector, several=several)

    def listen_elsewhere(self, now: int) -> list[Effect]:
        """Detectors or nodes have come or gone: what is read is heard where it is published now."""
        effects: list[Effect] = []
        changed = False
        for hosted in self.detecting.everybody():
            for each, streams in hosted.streams.items():
                if each not in self.directory.detectors:
                    continue
                if each in hosted.upstream:
                    wanted = self.wanted_homes(hosted, each)
                    changed |= wanted != streams.wanted
                    streams.want(wanted)
                for home in sorted(streams.homes - self.listening.living(each)):
                    # What was published there by a node that is lost has come when its server has handed it on.
                    effects += self.homes.flush({home}, partial(self._lost_home, streams, each, home), now)
                changed |= streams.left
        return [*effects, *(self.listening.refilter() if changed else ())]

    def _lost_home(self, streams: Streams, detector: str, home: str, now: int) -> list[Effect]:
        if home in self.listening.living(detector) or home not in streams.homes:
            return []
        streams.lost(home)
        return self.listening.refilter()

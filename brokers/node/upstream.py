"""Inputs of a node's detectors: required MQTT filters, by server, and upstream detectors.

Topics have home servers (design, section 4), and each event must arrive once: events of a type at every home of a
source that publishes it, composite events at the home of their detector, heartbeats at those of their sources.

An upstream detector is read by the type of its composite events. The reader waits for it as for a source, subscribes at
its home or at those of its replicas (`middleware.wire.replica_streams`), and drops it when it is gone and all its
events have arrived. One that is lost with its host is waited for, as another host takes it over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from distced.brokers.core.barriers import HeldFilters
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.planning import Planner
from distced.brokers.node.renewals import MISSED
from distced.brokers.node.shared import NodePart, Shared
from distced.detectors.compiler import Compiled
from distced.detectors.runtime.detection_policy import Begins
from distced.middleware.model.errors import DistcedError, TypeRegistryError
from distced.middleware.model.published_types import known_type
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import RENEW_EVERY
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.replica_streams import LifeState
from distced.middleware.wire.topics import Area, administration_topic, area_filter, composite_topic, event_filter


class TopicFilters(NodePart):
    """Subscriptions of a node that follow from its detectors.

    `inspecting`: the node inspects all events of its site, for those of unregistered types.
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
        for hosted in self.event_path.inventory.streaming():
            for each, streams in hosted.streams.items():
                filters |= {(home, composite_topic(each, root=self.root)) for home in streams.homes}
                streams.left = False
        for hosted in self.event_path.inventory.keeping_json():
            if hosted.json is not None:
                filters |= set(hosted.json.topics)
        for reads in self.event_path.inventory.reads(active=True):
            if reads is None:
                filters |= {(home, everything) for homes in publishing.values() for home in homes}
                filters.add(("", everything))
                continue
            for name in reads & self.directory.types.keys():
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
        reads = self.event_path.inventory.reads(active=False)
        if not reads:
            return found
        found |= {(home, self.homes.topic) for home in self.event_path.inventory.homes}
        # Missing messages come by the server where they were published.
        found |= {
            (home, area_filter(Area.ADMINISTRATION, kind, self.name, root=self.root))
            for home in {"", *(home for home, _ in filters)}
            for kind in ("again", "lost")
        }
        # Requests of readers come there, too.
        missing = administration_topic("missing", "detector", root=self.root)
        found |= {(home, missing) for home in {"", *self.event_path.inventory.homes}}
        # The publisher of an unannounced source is unknown.
        found.add(("", area_filter(Area.ADMINISTRATION, "heartbeat", root=self.root)))
        # Of detectors that do not run yet, too: their sources beat all the time.
        types = None if None in reads else frozenset().union(*(each for each in reads if each is not None))
        found |= {
            (source.home, administration_topic("heartbeat", source.publisher, root=self.root))
            for source in self.directory.sources.values()
            if source.home and (types is None or not types.isdisjoint(source.types))
        }
        return found

    def covers_member(self, hosted: HostedDetector) -> bool:
        """Whether all that a detector needs that has joined a shared input is subscribed to."""
        return hosted.json is None and (not hosted.home or hosted.home in self._held.homes)

    def homes_used(self) -> set[str]:
        """Servers that this node receives from, that of the directory left out."""
        return self._held.homes - {""}

    def homes_read(self, hosted: HostedDetector) -> set[str]:
        """Servers from which a detector receives its inputs."""
        publishing = self._publishing()
        homes = {home for name, homes in publishing.items() if hosted.takes(name) for home in homes}
        homes |= {home for each in hosted.streams.values() for home in each.homes}
        # Sources that were not announced publish there, and barriers cost nothing over the connection of the directory.
        return homes | {""}

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


Reads: TypeAlias = Mapping[str, tuple[LifeState, ...]]
"""What was received of a detector, by home (`Streams.state`)."""

_NOT_BACK: Final = "a detector that it reads was lost with its host, and has not come back"

_ENDED: Final = "a detector that it reads has ended while this node had no connection to its server"

HELD_FOR: Final = 30 * SECOND
"""Time for which a detector waits for one that was lost with its host, ns: another host takes that over meanwhile."""

HELD_WHERE_WANTED: Final = (MISSED + 1) * RENEW_EVERY + HELD_FOR
"""The same where a subscription wants it, ns: the node that chooses the host may itself be lost, which after a power
cut is known from its renewals alone."""


class Upstream(NodePart):
    """Sources and detectors that the detectors of a node wait for."""

    def __init__(self, shared: Shared, topic_filters: TopicFilters, planner: Planner) -> None:
        super().__init__(shared)
        self.topic_filters = topic_filters
        self.planner = planner
        # Number of detectors of the directory that read each type by its name, and of those that read every type.
        self._reads: Counter[str] = Counter()
        self._read_all = 0
        # Detectors lost with their hosts, and since when, ns: their readers wait for them.
        self._held: dict[str, int] = {}
        # When nodes were lost, or have lost their memory, ns.
        self._lost_nodes: dict[str, int] = {}

    def join_sources(self, hosted: HostedDetector, now: int, *, from_begin: bool = False) -> None:
        """Wait for the sources of primitive events; read those that are new from their first message on, or from
        here."""
        for source, each in self.directory.sources.items():
            read = [type_name for type_name in each.types if hosted.takes(type_name)]
            if read:
                begins = Begins(read, each.first, running=not from_begin)
                hosted.detector.join(source, each.watermark, now, each.lease, begins)
                self.event_path.asks = True

    def readers_changed(self, change: Change) -> None:
        """Note which detectors here have readers of their type, as the entry of a detector has changed."""
        before, after = (
            (set[str](), False) if each is None else (set(each.reads or ()), each.reads is None)
            for each in (change.before, change.entry)
        )
        if before != after:
            crossing = {name for name in before[0] ^ after[0] if self._reads[name] == (name in before[0])}
            self._reads.update(after[0])
            self._reads.subtract(before[0])
            self._reads = +self._reads if crossing else self._reads
            crosses = before[1] != after[1] and self._read_all == before[1]
            self._read_all += after[1] - before[1]
            if crossing or crosses:
                for hosted in self.event_path.hosted.values():
                    if hosted.publishes and (crosses or hosted.publishes in crossing):
                        self.update_readers(hosted)
        mine = self.event_path.hosted.get(change.name)
        if mine is not None:
            self.update_readers(mine)

    def update_readers(self, hosted: HostedDetector) -> None:
        """Note whether a detector here has readers of its type."""
        name = hosted.publishes
        self.event_path.readers_known(hosted, bool(name) and (self._read_all > 0 or self._reads[name] > 0))

    def connect(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Wait for the detectors whose composite events are read, and no others."""
        detector = hosted.detector
        self.look_at_types(hosted)
        wanted = self.detectors(hosted)
        if wanted:
            self.event_path.separate(hosted)
        effects: list[Effect] = []
        for each in sorted(wanted):
            if each not in hosted.upstream:
                detector.join(each, max(detector.engine.clock, INSTANT_MIN), now)
            homes = self.wanted_homes(hosted, each)
            hosted.listen_to(each, homes)
            for home in homes:
                hosted.streams[each].begin(home)
            self.event_path.asks = True
        gone = sorted(hosted.upstream.keys() - wanted.keys() - self._held.keys())
        hosted.wait_for(wanted)
        for each in gone:
            effects += self.homes.flush(hosted.streams[each].homes, partial(self._disconnect, hosted, each), now)
        return effects

    def _disconnect(self, hosted: HostedDetector, upstream: str, now: int) -> list[Effect]:
        """Remove a detector that was read and is gone, once everything it published has arrived."""
        back = upstream in self._held or upstream in self.detectors(hosted)
        if back or upstream not in hosted.upstream or not hosted.running:
            return []
        effects: list[Effect] = []
        streams = hosted.streams[upstream]
        if streams.sought & streams.trusted:
            # It has ended before it has answered over a new connection.
            reached = hosted.detector.watermark
            lost = Loss(INSTANT_MIN if reached is None else reached, now, _ENDED)
            effects += self.event_path.lose(hosted, [lost], now)
        hosted.disconnect(upstream)
        return [*effects, *self.event_path.leave(upstream, hosted, now), *self.topic_filters.refilter()]

    def detector_changed(self, change: Change, now: int) -> None:
        """Note that a detector was lost with its host, or is back."""
        if change.entry is not None:
            self._held.pop(change.name, None)
        elif change.before is not None:
            node = change.before.node
            lost_at = self._lost_nodes.get(node)
            # A node that was lost clears what it had in its earlier life.
            if node not in self.directory.nodes or (lost_at is not None and now - lost_at < HELD_FOR):
                self.hold_back([change.name], now)

    def node_lost(self, node: str, now: int) -> None:
        """A node is lost, or has lost its memory: its detectors are taken over."""
        self._lost_nodes[node] = now
        self.hold_back([name for name, each in self.directory.detectors.items() if each.node == node], now)

    def hold_back(self, detectors: Iterable[str], now: int) -> None:
        """Wait for detectors without an entry, as they may be back."""
        for name in detectors:
            self._held.setdefault(name, now)

    def hold(self, hosted: HostedDetector, upstream: Mapping[str, str], reads: Mapping[str, Reads], now: int) -> None:
        """Wait for detectors that a recovered one has read, and that are not there for the moment."""
        for each, name in upstream.items():
            if each not in hosted.upstream and each in reads:
                hosted.listen_to(each, ())
                hosted.wait_for({each: name})
                hosted.streams[each].resume_at(reads[each])
                self._held.setdefault(each, now)

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: wait no longer for detectors that have not come back."""
        over = {name: now - since for name, since in self._held.items() if now - since >= HELD_FOR}
        effects: list[Effect] = []
        for name, held in over.items():
            readers = [each for each in self.event_path.inventory.streaming() if name in each.upstream]
            if readers and held < HELD_WHERE_WANTED and self._is_wanted(name, readers[0].upstream[name]):
                continue
            del self._held[name]
            for hosted in readers:
                if hosted.running and name not in self.directory.detectors:
                    reached = hosted.detector.watermark
                    lost = Loss(INSTANT_MIN if reached is None else reached, now, _NOT_BACK)
                    effects += [*self.event_path.lose(hosted, [lost], now), *self.connect(hosted, now)]
        return effects

    def _is_wanted(self, detector: str, publishes: str) -> bool:
        """Whether a subscription is to a detector that publishes this type, so that a node will host it."""
        registry = self.directory.registry()
        for entry in self.directory.subscriptions.values():
            # Only of patterns that may publish it: compiling takes its time.
            if publishes in entry.pattern and (entry.language or "->" in entry.pattern or "→" in entry.pattern):
                # Of a faulty pattern there is no detector.
                with suppress(DistcedError):
                    if self.planner.identify(entry, registry).id == detector:
                        return True
        return False

    def detectors(self, hosted: HostedDetector) -> dict[str, str]:
        """Detectors whose composite events a detector reads by their types, with the type of each."""
        policy = hosted.detector.policy.name
        return {
            each: name
            for name in hosted.names
            for each in self.directory.publishers(name, policy)
            if name not in hosted.attributes_read
            or self.directory.detectors[each].published.suits(hosted.attributes_read[name])
        }

    def look_at_types(self, hosted: HostedDetector) -> None:
        """Note whether the types it reads are published, with attributes that suit it; they are checked again."""
        if hosted.attributes_read and self._differ(hosted):
            reason = self._check_again(hosted)
            if reason:
                hosted.wait_for_types(reason)
                return
        hosted.wait_for_types("; ".join(self._lacking(hosted)))

    def _differ(self, hosted: HostedDetector) -> bool:
        registry = self.directory.registry()
        found = ((known_type(registry, name), known) for name, known in hosted.attributes_read.items())
        return any(each is not None and each.all_kinds != known for each, known in found)

    def _check_again(self, hosted: HostedDetector) -> str:
        """Check a pattern whose types have other attributes by now; why it does not suit them, empty where it does."""
        registry = self.directory.registry()
        try:
            found = self.planner.check_again(hosted.planned.asked, registry)
        except DistcedError as error:
            return f"a type that it reads has other attributes than before: {error}"
        try:
            hosted.planned.compiled.published.joined(found.published)
        except TypeRegistryError:
            return f"its own type {found.publishes.name} would have other attributes than before"
        hosted.checked_again(types_of_detectors(hosted.planned.compiled, self.directory))
        return ""

    def _lacking(self, hosted: HostedDetector) -> Iterator[str]:
        for name in sorted(hosted.attributes_read.keys() | hosted.own_types):
            if name in self.directory.types:
                continue
            publishers = self.directory.publishers(name, hosted.detector.policy.name)
            waits = [self.directory.detectors[each].waits for each in publishers]
            if not publishers and name in hosted.own_types:
                yield f"the type {name} has no publisher: subscribe to its query, too"
            elif not publishers:
                yield f"the type {name} has no publisher any more"
            elif all(waits):
                yield f"the type {name} is not available: {waits[0]}"

    def wanted_homes(self, hosted: HostedDetector, detector: str) -> tuple[str, ...]:
        """Homes at which a detector read by its type is needed."""
        several = self.policies.replicas(hosted.planned.asked, hosted.detector.id) > 1
        return self.topic_filters.homes_of(detector, several=several)

    def listen_elsewhere(self, now: int) -> list[Effect]:
        """Subscribe at the homes where inputs are published now, as detectors or nodes were added or lost."""
        effects: list[Effect] = []
        changed = False
        for hosted in self.event_path.inventory.streaming():
            for each, streams in hosted.streams.items():
                if each not in self.directory.detectors:
                    continue
                # A part whose host has answered before the directory knew of it has none, as its home counted as lost.
                if each in hosted.upstream or not streams.wanted:
                    wanted = self.wanted_homes(hosted, each)
                    changed |= wanted != streams.wanted
                    streams.want(wanted)
                for home in sorted(streams.homes - self.topic_filters.living(each)):
                    effects += self.homes.flush({home}, partial(self._lost_home, hosted, each, home), now)
                changed |= streams.left
        return [*effects, *(self.topic_filters.refilter() if changed else ())]

    def _lost_home(self, hosted: HostedDetector, detector: str, home: str, now: int) -> list[Effect]:
        streams = hosted.streams.get(detector)
        if streams is None or home in self.topic_filters.living(detector) or home not in streams.homes:
            return []
        return [*self.event_path.lost_home(hosted, detector, home, now), *self.topic_filters.refilter()]


def types_of_detectors(compiled: Compiled, directory: Directory) -> dict[str, Mapping[str, str]]:
    """Types that a pattern reads and detectors publish, with the kinds of their attributes."""
    registry = directory.registry()
    names = sorted(compiled.named() - directory.types.keys())
    return {name: found.all_kinds for name in names if (found := known_type(registry, name)) is not None}


def types_of_text(compiled: Compiled, directory: Directory) -> frozenset[str]:
    """Types that a pattern reads and nothing in the directory publishes: other queries of its text do, which are not
    subscribed to. To start these with it was rejected: they would publish for all applications, and another one may
    publish the type."""
    registry = directory.registry()
    return frozenset(name for name in compiled.named() if name not in registry)

"""Hosting of detectors: created for subscriptions, shared by them, handed over, destroyed.

A subscription begins in steps, so that nothing is lost: the chosen node builds the detector and offers its topic; the
client subscribes and reports that it is ready; the node subscribes to the inputs of the detector, and answers that it
is active. Offers are repeated until the client is ready.

When a node is lost the others choose again, and offer the detectors again; the matches begun on the lost node are lost.
A detector that delegates parts of its pattern (`brokers.node.planning`) begins when all of these run. Nodes that see
others come and go in different order may both host a detector for a moment; then one of them, the same for both, gives
it up. Left-over entries are cleared: a detector's by the node that would host it, a subscription's by the node that
serves it, when its client has been away for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, Publish, info, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.announcements import Announcements
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.planning import Planned, Planner, is_there
from distced.brokers.node.shared import NodePart, Shared
from distced.brokers.node.topic_filters import TopicFilters
from distced.brokers.node.upstream import Upstream
from distced.detectors.runtime.detector import Detector
from distced.middleware.model.event_types import Kind, TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry, Measured, SubscriptionEntry
from distced.middleware.wire.node_messages import DetectorState, Lacking
from distced.middleware.wire.topics import administration_topic

GRACE: Final = 15 * SECOND
"""How long the subscriptions of a client that is gone are kept, ns: longer than a client waits to connect again."""


class DetectorHosting(NodePart):
    """Detectors of a node, and the subscriptions they serve.

    Attributes:
        by_subscription: the detector of each subscription that is served here.
        topic_filters: MQTT filters for the detectors.
        announcements: messages about them.
        upstream: sources and detectors that they wait for.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.by_subscription: dict[str, str] = {}
        self.topic_filters = TopicFilters(shared)
        self.announcements = Announcements(shared)
        self.upstream = Upstream(shared, self.topic_filters)
        self.planner = Planner(shared.name, shared.directory)
        # By subscription to a part for a detector here: the detector, and the part.
        self._for_parts: dict[str, tuple[str, str]] = {}
        # Those that were published and not cleared since.
        self._asked_for: set[str] = set()
        self._absent: dict[str, int] = {}

    # Subscriptions.

    def serve(self, name: str, entry: SubscriptionEntry, near: str = "") -> list[Effect]:
        """Serve a subscription to a detector that is here; its client is offered the detector's topic.

        Args:
            near: the node whose replica it is to listen to, or that is to have one; empty for none.
        """
        hosted = self.event_path.hosted[self.by_subscription[name]]
        hosted.serve(name, near)
        effects = [*self._update_output(hosted), self.announcements.publish(hosted)]
        if hosted.subscriptions[name].awaits:
            return effects
        return [*effects, self.announcements.offer(name, entry, hosted)]

    def host(self, planned: Planned, home: str, name: str, expected: Measured | None = None) -> list[Effect]:
        """Host a detector from now on, if it is not here yet, for a subscription that is to be served next."""
        self.by_subscription[name] = planned.id
        there = self.event_path.hosted.get(planned.id)
        if there is not None:
            if there.primary:
                return []
            # No other node knows of its primary any more; its state is the best there is.
            there.become_primary({})
            return [info("replica promoted", detector=planned.id)]
        hosted = self._created(planned, home, expected)
        self.event_path.hosted[planned.id] = hosted
        parts = {"parts": ", ".join(planned.parts)} if planned.parts else {}
        note = info("detector created", detector=planned.id, pattern=planned.compiled.text, **parts)
        return [note, *self.subscribe_to_parts(hosted)]

    def _created(self, planned: Planned, home: str, expected: Measured | None = None) -> HostedDetector:
        compiled, registry = planned.compiled, self.directory.registry()
        detector = Detector(compiled, planned.policy, _kinds(registry), engines=self.shared.engines)
        for part in planned.parts:
            self._for_parts[_part_subscription(planned.id, part, self.name)] = (planned.id, part)
        return HostedDetector(
            detector, planned, compiled.reads(registry), home, expected, self.event_path.stories.happened
        )

    # Detectors that move: see `brokers.node.migration`.

    def arriving(
        self, planned: Planned, home: str, reads: Mapping[str, tuple[str, ...]]
    ) -> tuple[HostedDetector, list[Effect]]:
        """A detector is on its way here: listen to all it reads, and keep that.

        Args:
            reads: by detector that it reads, the homes where the origin listens.
        """
        hosted = self._created(planned, home)
        hosted.arrive(self.upstream.detectors(hosted), reads)
        for each, streams in hosted.streams.items():
            streams.want(self.upstream.wanted_homes(hosted, each))
        self.event_path.moving[planned.id] = hosted
        return hosted, [*self.subscribe_to_parts(hosted), *self.topic_filters.refilter()]

    def arrived(self, hosted: HostedDetector, state: DetectorState, now: int, *, replica: bool) -> list[Effect]:
        """It is here, with its state: go on, with its subscriptions; a replica serves none."""
        identity = hosted.id
        del self.event_path.moving[identity]
        self.event_path.hosted[identity] = hosted
        hosted.arrived(state, self.directory.subscriptions, replica=replica)
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        effects: list[Effect] = [] if replica else [self.announcements.publish(hosted)]
        effects += [*self._catch_up(hosted, now), *self.topic_filters.refilter(), *self.event_path.begin(hosted, now)]
        if replica or hosted.subscriptions or self._expected(identity):
            return effects
        return [*effects, *self._destroyed(identity)]

    def _catch_up(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Sources have come and gone while it was on its way."""
        self.upstream.join_sources(hosted, now)
        effects = self.upstream.connect(hosted, now)
        waited_for = {*self.directory.sources, *hosted.upstream, *hosted.parts}
        for source in sorted(hosted.detector.policy.waits_for() - waited_for):
            effects += self.event_path.leave(source, hosted, now)
        return effects

    def leaving(self, identity: str) -> None:
        """A detector is on its way from here, and keeps its inputs until it is there."""
        hosted = self.event_path.moving[identity] = self.event_path.hosted.pop(identity)
        self.event_path.rest(hosted)
        hosted.leave()
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)

    def gone(self, identity: str) -> list[Effect]:
        """It is elsewhere, or has not come."""
        hosted = self.event_path.moving.pop(identity)
        hosted.end()
        return [*self._leave_parts(hosted), *self.topic_filters.refilter()]

    def stays(self, identity: str, now: int) -> list[Effect]:
        """It does not leave after all, and goes on as if nothing had happened."""
        hosted = self.event_path.moving.pop(identity)
        self.event_path.hosted[identity] = hosted
        hosted.run()
        self.event_path.routes.forget()
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        withdrawn = [name for name in hosted.subscriptions if name not in self.directory.subscriptions]
        effects = [self.announcements.publish(hosted), *self._catch_up(hosted, now), *self.topic_filters.refilter()]
        effects += self.event_path.begin(hosted, now)
        for name in withdrawn:
            effects += self.withdrawn(name, now)
        return effects

    def subscribe_to_parts(self, hosted: HostedDetector) -> list[Effect]:
        """Subscribe to the parts of its pattern, again where the directory has forgotten that."""
        effects: list[Effect] = []
        for part, wanted in hosted.planned.parts.items():
            name = _part_subscription(hosted.detector.id, part, self.name)
            # What this node has taken back a moment ago the directory may still have.
            if name not in self._asked_for or self.directory.subscriptions.get(name) != wanted:
                self._asked_for.add(name)
                effects.append(self.put("subscription", name, wanted))
        return effects

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """The answer to a subscription to a part."""
        reader, part = self._for_parts.get(answer.subscription, ("", ""))
        hosted = self.event_path.hosted.get(reader) or self.event_path.moving.get(reader)
        if hosted is None:
            # Of a detector that is not here any more; or of somebody else, whose it stays.
            entry = self.directory.subscriptions.get(answer.subscription)
            own = entry is not None and entry.client == self.planner.client
            return [self.clear("subscription", answer.subscription)] if own else []
        match answer.state:
            case "offered":
                hosted.listen_to(part, answer.homes)
                ready = Publish(administration_topic("ready", answer.subscription, root=self.root), b"")
                return [*self.topic_filters.refilter(), *self.homes.flush(answer.homes, lambda _: [ready], now)]
            case "active":
                hosted.part_running(part)
                return self._begin(hosted, now)
            case "refused":
                return self._detect_whole(hosted, part, answer, now)
        return []

    def _detect_whole(self, hosted: HostedDetector, part: str, answer: Answer, now: int) -> list[Effect]:
        """No node detects a part: the whole pattern is detected here."""
        if hosted.moving:
            # Its pattern is cut as at the other end until it is at rest; then the part is asked for again.
            return [self.clear("subscription", answer.subscription)]
        identity = hosted.detector.id
        effects: list[Effect] = [warning("part refused", detector=identity, part=part, reason=answer.message)]
        self.planner.whole.add(identity)
        waiting = list(hosted.subscriptions)
        planned = self.planner.plan_again(hosted.planned.asked, self.directory.registry(), {}, {})
        home = hosted.home
        self.serve_none(hosted)
        effects += self._destroyed(identity)
        for name in waiting:
            if name in self.directory.subscriptions:
                effects += [*self.host(planned, home, name), *self.serve(name, self.directory.subscriptions[name])]
        return effects

    def ready(self, name: str, now: int) -> list[Effect]:
        """The client listens: the detector begins, if it has not yet."""
        identity = self.by_subscription.get(name)
        entry = self.directory.subscriptions.get(name)
        if identity is None or entry is None:
            return []
        hosted = self.event_path.hosted[identity]
        hosted.client_ready(name)
        if hosted.running:
            return self._announce_active(hosted, [name], now)
        return self._begin(hosted, now)

    def _announce_active(self, hosted: HostedDetector, names: Iterable[str], now: int) -> list[Effect]:
        """Answer subscriptions that the detector runs, as soon as it hears all its inputs."""

        def tell(now: int) -> list[Effect]:
            known = self.directory.subscriptions
            return [
                self.reply(known[name].client, self.announcements.answer(name, "active", hosted))
                for name in names
                if name in hosted.subscriptions and name in known
            ]

        # What is found by best effort may lack the first events anyway.
        homes = self.topic_filters.homes_read(hosted) if hosted.detector.policy.name == "guaranteed" else set()
        return self.homes.flush(homes, tell, now)

    def _begin(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Run a detector if a client listens and every part runs, and answer its subscriptions."""
        # One that is on its way here or elsewhere begins when it has come, or stays.
        if hosted.phase is not Phase.WAITING or not all(hosted.parts.values()):
            return []
        ready = hosted.ready_subscriptions()
        hosted.run()
        self.upstream.join_sources(hosted, now)
        for part in hosted.parts:
            hosted.detector.join(part, INSTANT_MIN, now)
        effects = [
            *self.upstream.connect(hosted, now),
            *self.topic_filters.refilter(),
            *self._announce_active(hosted, ready, now),
        ]
        return [*effects, *self.event_path.begin(hosted, now)]

    def withdrawn(self, name: str, now: int) -> list[Effect]:
        """A subscription has ended; a detector without any is destroyed."""
        identity = self.by_subscription.pop(name, None)
        if identity is None:
            return []
        hosted = self.event_path.hosted[identity]
        hosted.withdraw(name)
        if hosted.subscriptions:
            return [*self._update_output(hosted), self.announcements.publish(hosted)]
        return [] if self._expected(identity) else self._destroyed(identity)

    def _expected(self, identity: str) -> bool:
        """Whether a detector that has just moved reads this one as a part and is not served by it yet."""
        return any(
            entry.derivations and _part_of(name) == identity for name, entry in self.directory.subscriptions.items()
        )

    def drop(self, hosted: HostedDetector, reason: str) -> list[Effect]:
        """Give up a detector that is hosted elsewhere, or gone; the directory says so."""
        self.serve_none(hosted)
        self.event_path.rest(self.event_path.hosted.pop(hosted.id))
        hosted.end()
        note = info("detector given up", detector=hosted.id, reason=reason)
        return [note, *self._leave_parts(hosted), *self.topic_filters.refilter()]

    def publish_entries(self) -> list[Effect]:
        """Say of every detector here how it is."""
        return [self.announcements.publish(each) for each in self.event_path.hosted.values() if each.primary]

    def serve_none(self, hosted: HostedDetector) -> None:
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)
        hosted.serve_none()

    def offer_again(self, hosted: HostedDetector, names: Iterable[str]) -> list[Effect]:
        known = self.directory.subscriptions
        return [self.announcements.offer(name, known[name], hosted) for name in names if name in known]

    def _destroyed(self, identity: str) -> list[Effect]:
        hosted = self.event_path.hosted.pop(identity)
        self.event_path.rest(hosted)
        hosted.end()
        effects: list[Effect] = [self.clear("detector", identity), *self._leave_parts(hosted)]
        return [*effects, *self.topic_filters.refilter(), info("detector destroyed", detector=identity)]

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it every few seconds: offers that were not taken, clients that do not come back."""
        effects: list[Effect] = []
        subscriptions = self.directory.subscriptions
        for hosted in list(self.event_path.hosted.values()):
            effects += self.subscribe_to_parts(hosted)
            for name, served in hosted.subscriptions.items():
                if name in subscriptions and not served.ready and not served.awaits:
                    effects.append(self.announcements.offer(name, subscriptions[name], hosted))
            if any(each.left for each in hosted.streams.values()):
                effects += self.topic_filters.refilter()
            if not hosted.primary or hosted.subscriptions or self._expected(hosted.detector.id):
                hosted.reset_idle()
            elif hosted.idle_for(now) > GRACE:
                effects += self._destroyed(hosted.detector.id)
        clients = {entry.client for entry in subscriptions.values()}
        absent = {client for client in clients if not is_there(client, self.directory)}
        self._absent = {client: self._absent.get(client, now) for client in absent}
        for name, entry in subscriptions.items():
            if now - self._absent.get(entry.client, now) > GRACE and (
                name in self.by_subscription or chosen(name, self.directory.common_nodes) == self.name
            ):
                note = warning("subscription cleared", subscription=name, client=entry.client, reason="client gone")
                effects += [note, self.clear("subscription", name)]
        return effects

    # Detectors, here and elsewhere.

    def detector_changed(self, change: Change, now: int) -> list[Effect]:
        """A detector has come, gone or moved, here or elsewhere."""
        effects: list[Effect] = []
        identity, entry, before = change.name, change.entry, change.before
        mine = self.event_path.hosted.get(identity)
        if mine is not None:
            effects += self._contested(mine, entry, now)
        elif entry is not None and self.name in entry.replicas and identity not in self.event_path.moving:
            # Given up here while the primary was away.
            effects.append(self.send(entry.node, "lacking", identity, encode(Lacking(self.name))))
        published = {each.publishes for each in (entry, before) if each is not None}
        if entry is None or before is None or entry.reads != before.reads:
            self.upstream.update_readers()
        if entry is None or before is None or (entry.policy, entry.publishes) != (before.policy, before.publishes):
            for hosted in self.event_path.hosted.values():
                if hosted.running and not published.isdisjoint(hosted.names):
                    effects += self.upstream.connect(hosted, now)
            effects += self.topic_filters.refilter()
        if (
            before is None
            or entry is None
            or (entry.node, entry.home, entry.replicas) != (before.node, before.home, before.replicas)
        ):
            effects += self.upstream.listen_elsewhere(now)
        return effects

    def compare(self, shown: set[str], now: int) -> list[Effect]:
        """Compare the detectors here with a directory that was read again, and publish missing entries of primaries.

        A replica whose entry is missing stays: its primary may be about to publish the entry again. When that does not
        happen the entry counts as cleared after a while (`brokers.node.node`), and the replica is given up.

        Args:
            shown: the detectors with an entry.
        """
        effects: list[Effect] = []
        for identity, hosted in list(self.event_path.hosted.items()):
            if identity in shown:
                effects += self._contested(hosted, self.directory.detectors.get(identity), now)
            elif hosted.primary:
                effects += self._contested(hosted, None, now)
        return effects

    def _contested(self, mine: HostedDetector, entry: DetectorEntry | None, now: int) -> list[Effect]:
        """Compare the entry of a detector that is here with its role."""
        news = self._role(mine, entry)
        if news is not None:
            return news
        if entry is None or entry.node not in self.directory.nodes:
            # Cleared by a node that did not know yet that it is here, or left over from one that is lost.
            return [self.announcements.publish(mine)]
        identity = mine.detector.id
        if chosen(identity, (self.name, entry.node)) == self.name:
            # Who has accepted the other one's offer comes back.
            return [self.announcements.publish(mine), *self.offer_again(mine, mine.subscriptions)]
        return self.drop(mine, f"{entry.node} has it")

    def _role(self, hosted: HostedDetector, entry: DetectorEntry | None) -> list[Effect] | None:
        """The role of a detector here that has replicas, as the directory has it; None where that is no news."""
        if entry is None:
            return None if hosted.primary else self.drop(hosted, "the detector is destroyed")
        if entry.node == self.name:
            if hosted.primary:
                return []
            hosted.become_primary(entry.replicas)
            return [info("replica promoted", detector=hosted.id), self.announcements.publish(hosted)]
        if self.name in entry.replicas:
            if hosted.primary:
                self.serve_none(hosted)
            hosted.become_replica()
            return []
        if not hosted.primary and not hosted.listed:
            # Said before the primary knew of this replica.
            return []
        if not hosted.primary or entry.node in hosted.replicas:
            return self.drop(hosted, f"{entry.node} has it")
        return None

    def without_replicas(self, hosted: HostedDetector, nodes: Iterable[str]) -> list[Effect]:
        """Replicas are lost, or given up: their subscriptions are offered the homes that are left."""
        gone = [node for node in nodes if node in hosted.replicas]
        if not gone:
            return []
        listened = hosted.remove_replicas(gone)
        note = info("replicas removed", detector=hosted.id, nodes=", ".join(gone))
        return [note, self.announcements.publish(hosted), *self.offer_again(hosted, listened)]

    # Messages.

    def _update_output(self, hosted: HostedDetector) -> list[Effect]:
        """Compute the extras of composite events; replicas without them are given up, and made again where needed."""
        wanted = [self.directory.subscriptions.get(name) for name in hosted.subscriptions]
        entries = [entry for entry in wanted if entry is not None]
        news = hosted.send_along(
            constituents=any(entry.constituents for entry in entries),
            derivations=any(entry.derivations for entry in entries),
        )
        return self.without_replicas(hosted, hosted.replicas) if news else []

    def _leave_parts(self, hosted: HostedDetector) -> list[Effect]:
        names = [_part_subscription(hosted.detector.id, part, self.name) for part in hosted.parts]
        for name in names:
            self._for_parts.pop(name, None)
            self._asked_for.discard(name)
        return [self.clear("subscription", name) for name in names]


def _part_subscription(reader: str, part: str, node: str) -> str:
    """The name of a node's subscription to a part. Two nodes that host the reader for a moment have two."""
    return f"{reader} {part} {node}"


def _part_of(subscription: str) -> str:
    """The part that a node subscribes to under this name."""
    return subscription.split(" ")[1] if subscription.count(" ") == 2 else ""


def _kinds(registry: TypeRegistry) -> Callable[[str], Mapping[str, Kind] | None]:
    def kinds(name: str) -> Mapping[str, Kind] | None:
        found = registry.find(name)
        return None if found is None else found.attributes

    return kinds

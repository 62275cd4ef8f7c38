"""Hosting of detectors: created for subscriptions, shared by them, handed over, destroyed.

A subscription begins in steps, without loss: the chosen node builds the detector and offers its topic, repeatedly; the
client subscribes and reports ready; the node subscribes to the inputs of the detector and answers active.

When a node is lost, the others choose again and offer the detectors again; matches begun on the lost node are lost. A
detector with delegated parts (`brokers.node.planning`) begins when all of these run. Nodes that see others come and go
in different order may host one detector twice for a moment; then one of them, the same for both, gives it up. Left-over
entries are cleared: a detector's by the node that would host it, a subscription's by the node that serves it, after a
long absence of its client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.directory import Change, part_subscription
from distced.brokers.core.effects import Effect, Publish, info, warning
from distced.brokers.core.exclusions import is_excluded, of_part
from distced.brokers.core.metrics import TAKEOVERS
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.announcements import Announcements
from distced.brokers.node.checkpoint_format import Checkpoint
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.json_output import JsonTopic
from distced.brokers.node.origins import Origins
from distced.brokers.node.planning import Planned, Planner, home_of, is_away
from distced.brokers.node.shared import NodePart, Shared
from distced.brokers.node.upstream import TopicFilters, Upstream, types_of_detectors, types_of_text
from distced.brokers.node.wanted_reads import WantedReads
from distced.detectors.runtime.detector import Detector
from distced.middleware.history.coverage import HistoryPart
from distced.middleware.model.errors import SnapshotError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Answer, Filtered, Listening
from distced.middleware.wire.bounded_values import following
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry, Measured, SubscriptionEntry
from distced.middleware.wire.node_messages import DetectorState, Lacking
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import administration_topic
from distced.policies.detection import detection_policy

_LEFT: Final = "it has left while nothing detected"

GRACE: Final = 15 * SECOND
"""Time for which a detector without subscriptions, and sources that have left, are kept, ns: longer than a client waits
to reconnect."""

STARTS_AGAIN: Final = 30 * SECOND
"""Time in which a publisher that was lost together with its server's memory starts again, ns."""


class DetectorHosting(NodePart):
    """Detectors of a node, and the subscriptions they serve.

    Attributes:
        by_subscription: detector of each subscription served here.
        topic_filters, announcements: MQTT filters for the detectors; messages about them.
        upstream: sources and detectors that they wait for.
        wanted: what they look at, for sources that filter.
        origins: those that consume recorded events.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.by_subscription: dict[str, str] = {}
        self.topic_filters = TopicFilters(shared)
        self.announcements = Announcements(shared)
        self.planner = Planner(shared.name, shared.directory, shared.root)
        self.upstream = Upstream(shared, self.topic_filters, self.planner)
        self.wanted = WantedReads(shared)
        # By subscription to a part for a detector here: the detector, and the part.
        self._for_parts: dict[str, tuple[str, str]] = {}
        # Those that were published and not cleared since.
        self._asked_for: set[str] = set()
        self.origins = Origins(shared)
        # Sources that have left a moment ago, with the instant, ns.
        self._ended: dict[str, int] = {}
        # By detector and source, since when a recovered detector waits for a source that is not there, ns.
        self._absent_sources: dict[tuple[str, str], int] = {}
        self._reads: dict[frozenset[str], frozenset[str]] = {}
        # One object each for all detectors.
        self._kinds_of = self._kinds
        self._happened, self._changed = shared.event_path.stories.happened, shared.event_path.inventory.changed

    # Subscriptions.

    def serve(self, name: str, entry: SubscriptionEntry, near: str = "") -> list[Effect]:
        """Serve a subscription to a detector here, and offer its topic, at the replica on a node where one is named."""
        hosted = self.event_path.hosted[self.by_subscription[name]]
        hosted.serve(name, entry, near)
        self.event_path.assign(hosted)
        if entry.durable is not None:
            self._keep_frames(hosted)
        effects = [*self._update_output(hosted), self.announcements.publish(hosted)]
        if is_away(entry, self.directory):
            # It is detected for whoever comes back.
            hosted.client_ready(name)
            return effects
        if hosted.subscriptions[name].terms.awaits:
            return effects
        return [*effects, self.announcements.offer(name, entry, hosted)]

    def _keep_frames(self, hosted: HostedDetector) -> None:
        """Keep the frames of a detector for its durable subscriptions, if it has any; of a replica, for those of its
        primary."""
        terms = [
            entry.durable.keep_bytes
            for name in self.directory.durable_names
            if (entry := self.directory.subscriptions[name]).durable is not None
            and hosted.id in (self.by_subscription.get(name), self._served_by(name))
        ]
        if any(terms):
            self.event_path.output.keep(hosted.id, max(terms))

    def _served_by(self, name: str) -> str:
        known = self.directory.durables.get(name)
        return "" if known is None else known.detector

    def host(
        self,
        planned: Planned,
        home: str,
        name: str,
        expected: Measured | None = None,
        checkpoint: Checkpoint | None = None,
        now: int = 0,
    ) -> list[Effect]:
        """Host a detector from now on, if it is not here yet, for a subscription that is to be served next; with the
        state of a checkpoint where there is one."""
        self.by_subscription[name] = planned.id
        there = self.event_path.hosted.get(planned.id)
        if there is not None:
            if there.primary:
                return []
            # Its primary is lost; its state is the best there is.
            there.become_primary({}, self._next_generation(planned.id))
            return [info("replica promoted", detector=planned.id)]
        notes: list[Effect] = []
        if checkpoint is None:
            hosted = self._created(planned, home, expected)
        else:
            hosted = self._recovered(planned, home, expected, checkpoint, notes)
        hosted.succeed(self._next_generation(planned.id))
        before = 0 if checkpoint is None else checkpoint.output.life
        hosted.output.plan(now, max(before, self.directory.last_life(planned.id)))
        self.event_path.inventory.host(hosted)
        parts = {"parts": ", ".join(planned.parts)} if planned.parts else {}
        note = info("detector created", detector=planned.id, pattern=planned.compiled.text, **parts)
        return [note, *notes, *self.subscribe_to_parts(hosted)]

    def _recovered(
        self, planned: Planned, home: str, expected: Measured | None, checkpoint: Checkpoint, notes: list[Effect]
    ) -> HostedDetector:
        """Detector with the state of a checkpoint, without it where that cannot be used."""
        hosted = self._created(planned, home, expected)
        try:
            hosted.recover(checkpoint)
        except SnapshotError as error:
            notes.append(warning("checkpoint refused", detector=planned.id, reason=str(error)))
            return self._created(planned, home, expected)
        self.event_path.tallies[TAKEOVERS, "checkpoint"] += 1
        self.wanted.reads.runs(planned.id)
        notes.append(info("detector recovered", detector=planned.id, until=checkpoint.output.watermark))
        return hosted

    def _created(self, planned: Planned, home: str, expected: Measured | None = None) -> HostedDetector:
        compiled = planned.compiled
        reads = compiled.reads(self.directory.registry())
        policy = detection_policy(planned.policy)
        detector = Detector(
            compiled,
            policy,
            self._kinds_of,
            engines=self.shared.engines,
            limits=self.shared.limits,
            identity=planned.id if planned.asked.origin is not None else "",
        )
        if detector.id == planned.id:
            # One object: of ten thousand ids these are many bytes.
            detector.id = planned.id
        for part in planned.parts:
            self._for_parts[part_subscription(planned.id, part, self.name)] = (planned.id, part)
        hosted = HostedDetector(
            detector,
            planned,
            # One object for all that read the same.
            None if reads is None else self._reads.setdefault(reads, reads),
            home,
            expected,
            self._happened,
            self._changed,
            attributes_read=types_of_detectors(compiled, self.directory),
            own_types=types_of_text(compiled, self.directory),
        )
        self.wanted.need(hosted)
        return hosted

    def _next_generation(self, identity: str) -> int:
        """Number of a primary after those that the directory, or a replica here, knows of."""
        here, known = self.event_path.hosted.get(identity), self.directory.detectors.get(identity)
        return following(max(-1 if each is None else each.generation for each in (here, known)))

    def _kinds(self, name: str) -> Mapping[str, Kind] | None:
        # Of composite events kinds are claims, which nothing checks where a pattern does not know them.
        found = self.directory.types.get(name)
        return None if found is None or found.derived is not None else found.attributes

    # Detectors that move: see `brokers.node.migration`.

    def arriving(
        self, planned: Planned, reads: Mapping[str, tuple[str, ...]], json: Iterable[JsonTopic] = ()
    ) -> tuple[HostedDetector, list[Effect]]:
        """Subscribe to the inputs of an arriving detector, and to where it leaves as JSON; `reads` are homes of the
        origin, by upstream detector."""
        hosted = self._created(planned, self.home)
        hosted.leave_as_json(json)
        hosted.keep_json()
        hosted.arrive(self.upstream.detectors(hosted), reads)
        for each, streams in hosted.streams.items():
            streams.want(self.upstream.wanted_homes(hosted, each))
        self.event_path.inventory.move(hosted)
        return hosted, [*self.subscribe_to_parts(hosted), *self.topic_filters.refilter()]

    def arrived(self, hosted: HostedDetector, state: DetectorState, now: int, *, replica: bool) -> list[Effect]:
        """Continue a detector here, with its state and its subscriptions; a replica serves none."""
        identity = hosted.id
        self.event_path.inventory.host(hosted)
        hosted.arrived(state, self.directory.subscriptions, now, replica=replica)
        self.upstream.update_readers(hosted)
        self.wanted.begun(hosted)
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        if hosted.subscriptions:
            self._update_json(hosted)
        self._keep_frames(hosted)
        self.event_path.output.take_over(hosted, state.output, now)
        effects: list[Effect] = [] if replica else [self.announcements.publish(hosted)]
        effects += [*self._catch_up(hosted, now), *self.topic_filters.refilter(), *self.event_path.begin(hosted, now)]
        # A primary that was handed over a moment ago has no subscriptions yet.
        if replica or hosted.subscriptions or not state.subscriptions or self._expected(identity):
            return effects
        return [*effects, *self._destroyed(identity)]

    def _catch_up(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Join and leave sources that have changed during a move."""
        self.upstream.join_sources(hosted, now)
        effects = self.upstream.connect(hosted, now)
        for source in sorted(self._gone(hosted)):
            if source in self._ended:
                effects += self.event_path.leave(source, hosted, now)
            else:
                # Perhaps the server has forgotten it.
                self._absent_sources[hosted.id, source] = now
        return effects

    def source_ended(self, source: str, now: int) -> None:
        """Note that a source has left, for detectors that are on their way here."""
        self._ended[source] = now

    def _catch_up_from(self, hosted: HostedDetector, checkpoint: Checkpoint, now: int) -> list[Effect]:
        """Continue all inputs of a detector where they were at its checkpoint."""
        # Whichever subscription it is recovered for.
        self._keep_frames(hosted)
        self.event_path.output.take_over(hosted, checkpoint.output, now)
        for each, read in checkpoint.reads.items():
            if each in hosted.streams:
                hosted.streams[each].resume_at(read)
        self.upstream.hold(hosted, checkpoint.upstream, checkpoint.reads, now)
        self.upstream.join_sources(hosted, now, from_begin=True)
        for part in hosted.parts:
            hosted.detector.join(part, INSTANT_MIN, now)
        for source in sorted(self._gone(hosted)):
            self._absent_sources[hosted.id, source] = now
        return self.event_path.resumed(hosted, now)

    def _gone(self, hosted: HostedDetector) -> set[str]:
        """What a detector waits for and nobody is known to publish."""
        return hosted.detector.policy.waits_for() - {*self.directory.sources, *hosted.upstream, *hosted.parts}

    def _leave_absent(self, now: int) -> list[Effect]:
        """Wait no longer for sources that had gone when a detector was recovered, and are not back."""
        effects: list[Effect] = []
        self._ended = {source: at for source, at in self._ended.items() if now - at < GRACE}
        for (identity, source), since in list(self._absent_sources.items()):
            hosted = self.event_path.hosted.get(identity)
            if hosted is None or not hosted.running or source not in self._gone(hosted):
                del self._absent_sources[identity, source]
            elif now - since >= STARTS_AGAIN:
                del self._absent_sources[identity, source]
                # What it has published since the checkpoint is not known.
                reached = hosted.detector.watermark
                loss = Loss(INSTANT_MIN if reached is None else reached, now, f"{source}: {_LEFT}")
                effects += self.event_path.lose(hosted, [loss], now)
                effects += self.event_path.leave(source, hosted, now)
        return effects

    def leaving(self, identity: str) -> None:
        """Buffer the inputs of a detector on its way from here."""
        hosted = self.event_path.hosted[identity]
        self.event_path.inventory.move(hosted)
        self.event_path.separate(hosted)
        self.event_path.rest(hosted)
        hosted.leave()
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)

    def gone(self, identity: str) -> list[Effect]:
        """Remove a detector that has moved away, or has not arrived."""
        hosted = self.event_path.inventory.remove(identity)
        hosted.end()
        return [*self._leave_parts(hosted), *self.topic_filters.refilter()]

    def stays(self, identity: str, now: int) -> list[Effect]:
        """Continue a detector whose move has failed."""
        hosted = self.event_path.moving[identity]
        self.event_path.inventory.host(hosted)
        hosted.run(now)
        self.event_path.routes.forget()
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        withdrawn = [name for name in hosted.subscriptions if name not in self.directory.subscriptions]
        effects = [self.announcements.publish(hosted), *self._catch_up(hosted, now), *self.topic_filters.refilter()]
        effects += self.event_path.begin(hosted, now)
        for name in withdrawn:
            effects += self.withdrawn(name, now)
        return effects

    def subscribe_to_parts(self, hosted: HostedDetector) -> list[Effect]:
        """Subscribe to the parts of its pattern, again where the directory lacks the entry."""
        effects: list[Effect] = []
        for part, wanted in hosted.planned.parts.items():
            name = part_subscription(hosted.detector.id, part, self.name)
            # The directory may still have an entry cleared a moment ago.
            if name not in self._asked_for or self.directory.subscriptions.get(name) != wanted:
                self._asked_for.add(name)
                effects.append(self.put("subscription", name, wanted))
        return effects

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """The answer to a subscription to a part."""
        reader, part = self._for_parts.get(answer.subscription, ("", ""))
        hosted = self.event_path.hosted.get(reader) or self.event_path.moving.get(reader)
        if hosted is None:
            # Of a detector that is gone; entries of other clients stay.
            entry = self.directory.subscriptions.get(answer.subscription)
            own = entry is not None and entry.client == self.planner.client
            return [self.clear("subscription", answer.subscription)] if own else []
        match answer.state:
            case "offered":
                hosted.listen_to(part, answer.homes)
                topic = administration_topic("ready", self.planner.client, root=self.root)
                ready = Publish(topic, encode(Listening((answer.subscription,))))
                return [
                    *self.topic_filters.refilter(),
                    *self.homes.once_subscribed(answer.homes, lambda _: [ready], now),
                ]
            case "active":
                hosted.part_running(part, answer.homes[0], answer.life, answer.number, answer.watermark)
                return self._begin(hosted, now)
            case "refused" if (excluded := self.directory.exclusions.get(part)) and is_excluded(excluded, now):
                self.event_path.excesses[hosted.id] = of_part(excluded)
            case "refused":
                return self._detect_whole(hosted, part, answer, now)
        return []

    def _detect_whole(self, hosted: HostedDetector, part: str, answer: Answer, now: int) -> list[Effect]:
        """Detect the whole pattern here, as no node detects a part."""
        if hosted.moving:
            # Its pattern stays cut as at the other end during the move; then the part is requested again.
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
                effects += [
                    *self.host(planned, home, name, now=now),
                    *self.serve(name, self.directory.subscriptions[name]),
                ]
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
        """Answer `active` to subscriptions, once the detector receives all its inputs."""

        def answers(now: int) -> list[Effect]:
            known = self.directory.subscriptions
            self.origins.subscribed(hosted, now)
            answers = [
                self.reply(known[name].client, self.announcements.answer(name, "active", hosted))
                for name in names
                if name in hosted.subscriptions and name in known
            ]
            return [*answers, *self.event_path.repeat_losses(hosted, now)]

        # Best effort may lack the first events of other servers.
        homes = {""} if hosted.detector.policy.name == "best-effort" else self.topic_filters.homes_read(hosted)
        return self.homes.once_subscribed(homes, answers, now)

    def _begin(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Run a detector if a client listens and every part runs, and answer its subscriptions."""
        if hosted.phase is not Phase.WAITING or not all(hosted.parts.values()) or not self.wanted.covers(hosted):
            return []
        history: HistoryPart | None = None
        if hosted.planned.asked.origin is not None and hosted.recovered is None:
            history, asks = self.origins.first_part(hosted, now)
            if history is None:
                return asks
            hosted.detector.read_history(max(history.begin - 1, INSTANT_MIN))
        ready = hosted.ready_subscriptions()
        hosted.run(now)
        effects = self.upstream.connect(hosted, now)
        recovered = hosted.take_recovered()
        shared = recovered is None and history is None and self.event_path.share(hosted)
        if recovered is not None:
            effects += self._catch_up_from(hosted, recovered, now)
        elif not shared:
            self.upstream.join_sources(hosted, now)
            for part in hosted.parts:
                hosted.detector.join(part, INSTANT_MIN, now)
        if not (shared and self.topic_filters.covers_member(hosted)):
            effects += self.topic_filters.refilter()
        effects += self._announce_active(hosted, ready, now)
        effects += self.event_path.begin(hosted, now)
        lost = self.wanted.begun(hosted)
        if history is not None:
            effects += self.origins.consume(hosted, history, now)
        return [*effects, *self.event_path.lose(hosted, lost, now)] if lost else effects

    def history_read(self, hosted: HostedDetector, part: HistoryPart, now: int) -> list[Effect]:
        """Take recorded events for a detector, which begins with the first ones."""
        return self.origins.consume(hosted, part, now) if hosted.running else self._begin(hosted, now)

    def filtered(self, publisher: str, ack: Filtered, now: int) -> list[Effect]:
        """A publisher sends what this node has declared: detectors may begin."""
        effects = self.wanted.acknowledged(publisher, ack, now)
        return [*effects, *self.begin_some(now)]

    def begin_some(self, now: int) -> list[Effect]:
        """Run the detectors that may begin by now."""
        return [effect for hosted in self.event_path.inventory.unsettled() for effect in self._begin(hosted, now)]

    def withdrawn(self, name: str, now: int) -> list[Effect]:
        """A subscription has ended; a detector without any is destroyed."""
        identity = self.by_subscription.pop(name, None)
        if identity is None:
            return []
        hosted = self.event_path.hosted[identity]
        hosted.withdraw(name)
        self.event_path.assign(hosted)
        if hosted.subscriptions:
            return [*self._update_output(hosted), self.announcements.publish(hosted)]
        return [] if self._expected(identity) else self._destroyed(identity)

    def _expected(self, identity: str) -> bool:
        """Whether a detector that has just moved reads this one as a part and is not served by it yet."""
        return identity in self.directory.parts_wanted

    def drop(self, hosted: HostedDetector, reason: str) -> list[Effect]:
        """Give up a detector that the directory has elsewhere, or not at all."""
        self.serve_none(hosted)
        self.event_path.rest(self.event_path.inventory.remove(hosted.id))
        hosted.end()
        note = info("detector released", detector=hosted.id, reason=reason)
        return [note, *self._leave_parts(hosted), *self.topic_filters.refilter()]

    def publish_entries(self) -> list[Effect]:
        """Publish the entries of the detectors here."""
        return [self.announcements.publish(each) for each in self.event_path.hosted.values() if each.primary]

    def serve_none(self, hosted: HostedDetector) -> None:
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)
        hosted.serve_none()

    def unanswered(self) -> Iterator[str]:
        """Subscriptions whose clients have not taken the offer, which is to be repeated every few seconds."""
        for hosted in self.event_path.inventory.unsettled():
            for name, served in hosted.subscriptions.items():
                if not served.terms.ready and not served.terms.awaits:
                    yield name

    def repeat_offer(self, name: str, entry: SubscriptionEntry) -> list[Effect]:
        """Repeat the offer to a subscription, unless it was taken."""
        hosted = self.event_path.hosted.get(self.by_subscription.get(name, ""))
        served = None if hosted is None else hosted.subscriptions.get(name)
        if hosted is None or served is None or served.terms.ready or served.terms.awaits:
            return []
        return [self.announcements.offer(name, entry, hosted)]

    def offer_again(self, hosted: HostedDetector, names: Iterable[str]) -> list[Effect]:
        """Offer a detector to subscriptions that it serves, until they listen: a client without a connection receives
        a later offer."""
        known, again = self.directory.subscriptions, list(names)
        hosted.await_clients(again)
        return [self.announcements.offer(name, known[name], hosted) for name in again if name in known]

    def exclude(self, hosted: HostedDetector) -> list[Effect]:
        """Remove a detector for good; its subscriptions are refused by the caller."""
        self.serve_none(hosted)
        if hosted.primary:
            return self._destroyed(hosted.id)
        return self.drop(hosted, "the detector is excluded")

    def _destroyed(self, identity: str) -> list[Effect]:
        hosted = self.event_path.inventory.remove(identity)
        self.event_path.rest(hosted)
        hosted.end()
        effects: list[Effect] = [self.clear_detector(identity, hosted.publishes), *self._leave_parts(hosted)]
        return [*effects, *self.topic_filters.refilter(), info("detector destroyed", detector=identity)]

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time, every few seconds: parts, types, JSON, detectors without subscriptions."""
        effects: list[Effect] = []
        for hosted in self.event_path.inventory.unsettled():
            effects += [*self.subscribe_to_parts(hosted), *self._begin(hosted, now)]
            if hosted.primary and hosted.running and hosted.notified != hosted.waits:
                effects += self._notify_waiting(hosted)
            if hosted.json_due:
                effects += self.homes.flush(hosted.json_homes, partial(self.publish_json, hosted), now)
            if any(each.left for each in hosted.streams.values()):
                effects += self.topic_filters.refilter()
            if not hosted.primary or hosted.subscriptions or self._expected(hosted.detector.id):
                hosted.reset_idle()
            elif hosted.idle_for(now) > GRACE:
                effects += self._destroyed(hosted.detector.id)
        return [*effects, *self.upstream.tick(now), *self._leave_absent(now)]

    def types_changed(self, name: str) -> list[Effect]:
        """A type was registered or removed."""
        for hosted in self.event_path.inventory.naming([name]):
            if name in hosted.attributes_read:
                self.upstream.look_at_types(hosted)
        return self.topic_filters.refilter()

    def _notify_waiting(self, hosted: HostedDetector) -> list[Effect]:
        """Notify subscriptions of a suspension with its reason, or of the resumption.

        Not at once: a publisher that moves or is taken over is back in a moment.
        """
        effects: list[Effect] = []
        known = self.directory.subscriptions
        if hosted.waits:
            effects.append(warning("detector suspended", detector=hosted.id, reason=hosted.waits))
        elif hosted.notified:
            effects.append(info("detector resumed", detector=hosted.id))
        for name in hosted.ready_subscriptions():
            if name in known:
                answer = self.announcements.answer(name, "waiting" if hosted.waits else "active", hosted)
                effects.append(self.reply(known[name].client, replace(answer, message=hosted.waits)))
        hosted.subscriptions_notified()
        return [*effects, self.announcements.publish(hosted)]

    def publish_json(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Publish JSON, as the messages of the primary before have arrived."""
        if not hosted.json_due or self.event_path.hosted.get(hosted.id) is not hosted:
            return []
        return [*hosted.publish_json(now), *self.topic_filters.refilter()]

    # Detectors, here and elsewhere.

    def detector_changed(self, change: Change, now: int) -> list[Effect]:
        """Effects of a changed entry of a detector."""
        effects: list[Effect] = []
        identity, entry, before = change.name, change.entry, change.before
        self.upstream.detector_changed(change, now)
        mine = self.event_path.hosted.get(identity)
        if mine is not None:
            effects += self._contested(mine, entry, now)
        elif entry is not None and self.name in entry.replicas and identity not in self.event_path.moving:
            # Given up here while the primary was away.
            effects.append(self.send(entry.node, "lacking", identity, encode(Lacking(self.name))))
        published = {each.publishes for each in (entry, before) if each is not None and each.publishes}
        if published and _as_type(entry) != _as_type(before):
            for hosted in self.event_path.inventory.naming(sorted(published)):
                if hosted.running:
                    effects += self.upstream.connect(hosted, now)
            for hosted in self.event_path.inventory.streaming():
                # A type may be read by a part alone.
                if hosted.parts and not published.isdisjoint(hosted.attributes_read):
                    self.upstream.look_at_types(hosted)
            effects += self.topic_filters.refilter()
        hosts = [each and (each.node, each.home, each.replicas) for each in (entry, before)]
        return effects if hosts[0] == hosts[1] else [*effects, *self.upstream.listen_elsewhere(now)]

    def compare(self, shown: set[str], now: int) -> list[Effect]:
        """Compare the detectors here with those `shown` in a directory read again; publish entries of primaries, and of
        subscriptions to parts that the server has forgotten.

        A replica without an entry stays until the entry counts as cleared: its primary may publish it again.
        """
        effects: list[Effect] = [
            self.put("subscription", name, wanted)
            for hosted in self.event_path.inventory.streaming()
            for part, wanted in hosted.planned.parts.items()
            if ("subscription", name := part_subscription(hosted.id, part, self.name)) in self.directory.unconfirmed
        ]
        for identity, hosted in list(self.event_path.hosted.items()):
            if identity in shown:
                effects += self._contested(hosted, self.directory.detectors.get(identity), now)
            elif hosted.primary:
                effects += self._contested(hosted, None, now)
        return effects

    def _contested(self, mine: HostedDetector, entry: DetectorEntry | None, now: int) -> list[Effect]:
        """Effects of the entry of a detector that is here: its role, where the entry is that of a later primary."""
        if entry is None:
            # Cleared by a node that did not know it.
            return [self.announcements.publish(mine)] if mine.primary else self.drop(mine, "the detector is destroyed")
        if entry.node == self.name:
            if mine.primary:
                mine.succeed(entry.generation)
                return []
            mine.become_primary(entry.replicas, entry.generation)
            return [info("replica promoted", detector=mine.id), self.announcements.publish(mine)]
        if mine.primary:
            if entry.node not in self.directory.nodes:
                # Left over from a lost one.
                mine.succeed(following(entry.generation))
                return [self.announcements.publish(mine)]
            same = entry.generation == mine.generation
            if entry.generation < mine.generation or (same and chosen(mine.id, (self.name, entry.node)) == self.name):
                # Clients that accepted the offer of the other node come back.
                return [self.announcements.publish(mine), *self.offer_again(mine, mine.subscriptions)]
        if self.name in entry.replicas:
            if mine.primary:
                self.serve_none(mine)
            mine.become_replica(entry.generation)
            return self.topic_filters.refilter() if mine.leave_as_json(entry.json) or mine.json else []
        if not mine.primary and not mine.listed:
            return []  # Published before the primary knew of this replica.
        return self.drop(mine, f"{entry.node} has it")

    def without_replicas(self, hosted: HostedDetector, nodes: Iterable[str]) -> list[Effect]:
        """Remove replicas, and offer their subscriptions the remaining homes."""
        gone = [node for node in nodes if node in hosted.replicas]
        if not gone:
            return []
        listened = hosted.remove_replicas(gone)
        note = info("replicas removed", detector=hosted.id, nodes=", ".join(gone))
        return [note, self.announcements.publish(hosted), *self.offer_again(hosted, listened)]

    def call_readers(self, hosted: HostedDetector) -> list[Effect]:
        """Offer a detector that has come with another home to its subscriptions, until each listens there; detectors
        that read its type follow its entry, and clients that are away ask for it once they are back."""
        known = self.directory.subscriptions
        names = [
            name
            for name, each in hosted.subscriptions.items()
            if not each.terms.near and name in known and not is_away(known[name], self.directory)
        ]
        return self.offer_again(hosted, names)

    # Messages.

    def _update_output(self, hosted: HostedDetector) -> list[Effect]:
        """Compute the extras of composite events, and their JSON; replicas without the extras are given up."""
        self._update_json(hosted)
        # A reader that has just moved goes on with its stream, and is not served again so far.
        is_part = self._expected(hosted.id)
        if is_part or any(each.derivations for each in hosted.subscriptions.terms()):
            self.event_path.separate(hosted)
        return self.without_replicas(hosted, hosted.replicas) if hosted.update_extras(is_part=is_part) else []

    def _update_json(self, hosted: HostedDetector) -> None:
        if hosted.json is None and not any(each.json for each in hosted.subscriptions.terms()):
            return
        known = self.directory.subscriptions
        topics = [
            (self._json_home(known[name]), topic)
            for name, each in hosted.subscriptions.items()
            if each.terms.json
            and name in known
            and (topic := self.planner.json_topic(known[name], self.directory.registry()))
        ]
        hosted.leave_as_json(topics)

    def _json_home(self, entry: SubscriptionEntry) -> str:
        """Server of the site of a subscription's client, also where that is away."""
        return home_of(entry.client, self.directory) if entry.durable is None else entry.durable.home

    def _leave_parts(self, hosted: HostedDetector) -> list[Effect]:
        names = [part_subscription(hosted.detector.id, part, self.name) for part in hosted.parts]
        for name in names:
            self._for_parts.pop(name, None)
            self._asked_for.discard(name)
        return [self.clear("subscription", name) for name in names]


def _as_type(entry: DetectorEntry | None) -> tuple[object, ...] | None:
    """Fields of a detector's entry that concern readers of its type."""
    return None if entry is None else (entry.policy, entry.published, entry.waits)

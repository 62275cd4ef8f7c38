"""Which subscriptions a node serves: detectors created, shared, handed over and destroyed.

A subscription comes about in steps, so that nothing is lost: the node that is chosen builds the detector and offers its
topic; the client listens and says that it is ready; the node subscribes to what the detector reads, and answers that it
is active. Offers are repeated until the client is ready.

A detector stays where it is as long as its node lives. When a node is lost the others choose anew, and the clients are
offered the detectors again; what the lost ones had matched so far is lost (recovery is for later). A detector that
leaves parts of its pattern to others (`brokers.node.planning`) begins when all of these are at work. Nodes that see the
others come and go in different order may both host a detector for a moment; then one of them, the same for both, gives
it up. Entries that nobody stands behind any more are cleared: a detector's by the node that would host it, a
subscription's by the node that serves it, when its client has been away for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from distced.brokers.core.barriers import Homes
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.core.rendezvous import chosen
from distced.brokers.core.replica_streams import Streams
from distced.brokers.node.announcements import Telling
from distced.brokers.node.event_path import Detecting, Hosted
from distced.brokers.node.planning import Delegating, Planned, is_there
from distced.brokers.node.policy_settings import PolicySettings
from distced.brokers.node.replicas import Copies
from distced.brokers.node.topic_filters import Listening
from distced.brokers.node.upstream import Upstream
from distced.detectors.runtime.detector import Detector
from distced.detectors.runtime.engine_switch import Engines
from distced.middleware.model.event_types import Kind, TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.directory_entries import Answer, DetectorEntry, Measured, State, SubscriptionEntry, encode
from distced.middleware.wire.topics import administration_topic, directory_topic

GRACE: Final = 15 * SECOND
"""How long the subscriptions of a client that is gone are kept, ns: longer than a client waits to connect again."""


class Serving:
    """The subscriptions of a node.

    Attributes:
        directory: what is known.
        detecting: the detectors at work.
        by_subscription: the detector of each subscription that is served here.
        listening: what it listens to for them.
        telling: what it says of them.
        upstream: whom they wait for.
        copies: those of the detectors here.
        engines: how engines are chosen for them; None for the stepwise engine in any case.
    """

    def __init__(
        self,
        name: str,
        root: str,
        home: str,
        directory: Directory,
        detecting: Detecting,
        homes: Homes,
        policies: PolicySettings,
        engines: Engines | None = None,
    ) -> None:
        self.name = name
        self.root = root
        self.home = home
        self.homes = homes
        self.policies = policies
        self.engines = engines
        self.directory = directory
        self.detecting = detecting
        self.by_subscription: dict[str, str] = {}
        self.listening = Listening(root, home, homes, directory, detecting)
        self.telling = Telling(name, root, directory, policies)
        self.upstream = Upstream(directory, detecting, homes, self.listening, policies)
        self.copies = Copies(name, self)
        self.delegating = Delegating(name, directory)
        # Of what is subscribed to for detectors here: the detector, and the part.
        self._for_parts: dict[str, tuple[str, str]] = {}
        # Those that were said and not taken back since.
        self._asked_for: set[str] = set()
        self._absent: dict[str, int] = {}

    # Subscriptions.

    def serve(self, name: str, entry: SubscriptionEntry) -> list[Effect]:
        """Serve a subscription to a detector that is here; its client is offered the detector's topic."""
        hosted = self.detecting.hosted[self.by_subscription[name]]
        hosted.subscriptions[name] = False
        effects = [*self._see_what_is_wanted(hosted), self.telling.entry(hosted)]
        return effects if name in hosted.waiting else [*effects, self.telling.offer(name, entry, hosted)]

    def host(self, planned: Planned, home: str, name: str, expected: Measured | None = None) -> list[Effect]:
        """Host a detector from now on, if it is not here yet, for a subscription that is to be served next."""
        self.by_subscription[name] = planned.id
        if planned.id in self.detecting.hosted:
            return []
        hosted = self.detecting.hosted[planned.id] = self._created(planned, home, self.directory.registry())
        hosted.expected = expected
        fields: dict[str, object] = {"detector": planned.id, "pattern": planned.compiled.text}
        if planned.parts:
            fields["parts"] = ", ".join(planned.parts)
        return [Note("info", "detector created", fields), *self.subscribe_to_parts(hosted)]

    def _created(self, planned: Planned, home: str, registry: TypeRegistry) -> Hosted:
        compiled = planned.compiled
        detector = Detector(compiled, planned.policy, _kinds(registry), engines=self.engines)
        hosted = Hosted(detector, compiled.reads(registry), compiled.names(), planned, home=home)
        hosted.parts = dict.fromkeys(planned.parts, False)
        for part in planned.parts:
            self._for_parts[_part_subscription(planned.id, part, self.name)] = (planned.id, part)
        return hosted

    # Detectors that move: see `brokers.node.migration`.

    def arriving(
        self, planned: Planned, home: str, reads: Mapping[str, tuple[str, ...]]
    ) -> tuple[Hosted, list[Effect]]:
        """A detector is on its way here: listen to all it reads, and keep that.

        Args:
            reads: by detector that it reads, the homes where the origin listens.
        """
        hosted = self._created(planned, home, self.directory.registry())
        hosted.buffering = True
        hosted.upstream = self.upstream.detectors(hosted)
        for each in (*hosted.parts, *sorted(hosted.upstream)):
            # Where the origin hears it, nothing is missed; anywhere else something may be.
            streams = hosted.streams[each] = Streams(reads.get(each, ()))
            streams.want(self.upstream.wanted_homes(hosted, each))
        self.detecting.moving[planned.id] = hosted
        return hosted, [*self.subscribe_to_parts(hosted), *self.listening.refilter()]

    def arrived(self, hosted: Hosted, state: State, now: int, *, copy: bool) -> list[Effect]:
        """It is here, with its state: go on, and serve whom it has served; a copy serves nobody."""
        identity = hosted.detector.id
        del self.detecting.moving[identity]
        self.detecting.hosted[identity] = hosted
        hosted.buffering, hosted.active = False, True
        hosted.parts = dict.fromkeys(hosted.parts, True)
        known = self.directory.subscriptions
        hosted.subscriptions = {name: ready for name, ready in state.subscriptions.items() if name in known}
        hosted.primary, hosted.copies, hosted.near = not copy, state.copies, state.near
        hosted.constituents, hosted.records = state.constituents, state.records
        if hosted.records:
            hosted.detector.keep_records()
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        hosted.told = None
        effects: list[Effect] = [] if copy else [self.telling.entry(hosted)]
        effects += [*self._catch_up(hosted, now), *self.listening.refilter(), *self.detecting.begin(hosted, now)]
        if copy or hosted.subscriptions or self._expected(identity):
            return effects
        return [*effects, *self._destroyed(identity)]

    def _catch_up(self, hosted: Hosted, now: int) -> list[Effect]:
        """Sources have come and gone while it was on its way."""
        self.upstream.join_sources(hosted, now)
        effects = self.upstream.connect(hosted, now)
        waited_for = {*self.directory.sources, *hosted.upstream, *hosted.parts}
        for source in sorted(hosted.detector.policy.waits_for() - waited_for):
            effects += self.detecting.leave(source, hosted, now)
        return effects

    def leaving(self, identity: str) -> dict[str, bool]:
        """A detector is on its way from here, and keeps what arrives until it is there."""
        hosted = self.detecting.moving[identity] = self.detecting.hosted.pop(identity)
        self.detecting.rest(hosted)
        hosted.buffering = True
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)
        return dict(hosted.subscriptions)

    def gone(self, identity: str) -> list[Effect]:
        """It is elsewhere, or has not come."""
        hosted = self.detecting.moving.pop(identity)
        return [*self._leave_parts(hosted), *self.listening.refilter()]

    def stays(self, identity: str, now: int) -> list[Effect]:
        """It does not leave after all, and goes on as if nothing had happened."""
        hosted = self.detecting.moving.pop(identity)
        self.detecting.hosted[identity] = hosted
        hosted.active, hosted.buffering = True, False
        self.detecting.routes.clear()
        self.by_subscription |= dict.fromkeys(hosted.subscriptions, identity)
        withdrawn = [name for name in hosted.subscriptions if name not in self.directory.subscriptions]
        effects = [self.telling.entry(hosted), *self._catch_up(hosted, now), *self.listening.refilter()]
        effects += self.detecting.begin(hosted, now)
        for name in withdrawn:
            effects += self.withdrawn(name, now)
        return effects

    def subscribe_to_parts(self, hosted: Hosted) -> list[Effect]:
        """Ask for what is left to others; again where the directory has forgotten it."""
        effects: list[Effect] = []
        for part, wanted in hosted.planned.parts.items():
            name = _part_subscription(hosted.detector.id, part, self.name)
            # What this node has taken back a moment ago the directory may still have.
            if name not in self._asked_for or self.directory.subscriptions.get(name) != wanted:
                self._asked_for.add(name)
                topic = directory_topic("subscription", name, root=self.root)
                effects.append(Publish(topic, encode(wanted), retain=True))
        return effects

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """What became of a subscription to a part."""
        reader, part = self._for_parts.get(answer.subscription, ("", ""))
        hosted = self.detecting.hosted.get(reader) or self.detecting.moving.get(reader)
        if hosted is None:
            # Of a detector that is not here any more; or of somebody else, whose it stays.
            entry = self.directory.subscriptions.get(answer.subscription)
            own = entry is not None and entry.client == self.delegating.client
            return [self.telling.clear("subscription", answer.subscription)] if own else []
        match answer.state:
            case "offered":
                hosted.streams.setdefault(part, Streams()).want(answer.homes)
                ready = Publish(administration_topic("ready", answer.subscription, root=self.root), b"")
                return [*self.listening.refilter(), *self.homes.flush(answer.homes, lambda _: [ready], now)]
            case "active":
                hosted.parts[part] = True
                return self._begin(hosted, now)
            case "refused":
                return self._left_whole(hosted, part, answer, now)
        return []

    def _left_whole(self, hosted: Hosted, part: str, answer: Answer, now: int) -> list[Effect]:
        """Nobody detects a part: the pattern is detected here, all of it."""
        identity = hosted.detector.id
        fields: dict[str, object] = {"detector": identity, "part": part, "reason": answer.message}
        effects: list[Effect] = [Note("warning", "a part was refused, so the pattern is not cut", fields)]
        self.delegating.whole.add(identity)
        waiting = list(hosted.subscriptions)
        planned = self.delegating.plan_again(hosted.planned.asked, self.directory.registry(), {}, {})
        home = hosted.home
        self.serve_nobody(hosted)
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
        hosted = self.detecting.hosted[identity]
        hosted.subscriptions[name] = True
        if hosted.active:
            return self._say_active(hosted, [name], now)
        return self._begin(hosted, now)

    def _say_active(self, hosted: Hosted, names: Iterable[str], now: int) -> list[Effect]:
        """Tell who listens that the detector is at work, as soon as it hears all it reads."""

        def tell(now: int) -> list[Effect]:
            known = self.directory.subscriptions
            return [
                self.telling.answer(known[name].client, self.telling.told(name, "active", hosted))
                for name in names
                if name in hosted.subscriptions and name in known
            ]

        # What is found by best effort may lack the first events anyway.
        homes = self.listening.homes_read(hosted) if hosted.detector.policy.name == "guaranteed" else set()
        return self.homes.flush(homes, tell, now)

    def _begin(self, hosted: Hosted, now: int) -> list[Effect]:
        """Begin to detect, if somebody listens and every part is at work; who listens is told."""
        ready = [name for name, listening in hosted.subscriptions.items() if listening]
        # One that is on its way here or elsewhere begins when it has come, or stays.
        if hosted.active or hosted.buffering or not ready or not all(hosted.parts.values()):
            return []
        hosted.active = True
        self.upstream.join_sources(hosted, now)
        for part in hosted.parts:
            hosted.detector.join(part, INSTANT_MIN, now)
        effects = [
            *self.upstream.connect(hosted, now),
            *self.listening.refilter(),
            *self._say_active(hosted, ready, now),
        ]
        return [*effects, *self.detecting.begin(hosted, now)]

    def withdrawn(self, name: str, now: int) -> list[Effect]:
        """A subscription has ended; a detector that nobody needs is destroyed."""
        identity = self.by_subscription.pop(name, None)
        if identity is None:
            return []
        hosted = self.detecting.hosted[identity]
        del hosted.subscriptions[name]
        hosted.near.pop(name, None)
        hosted.waiting.pop(name, None)
        if hosted.subscriptions:
            return [*self._see_what_is_wanted(hosted), self.telling.entry(hosted)]
        return [] if self._expected(identity) else self._destroyed(identity)

    def _expected(self, identity: str) -> bool:
        """Whether somebody reads a detector as part of a pattern who is not served by it yet, having just moved."""
        return any(entry.records and _part_of(name) == identity for name, entry in self.directory.subscriptions.items())

    def drop(self, hosted: Hosted, reason: str) -> list[Effect]:
        """What is here is not needed any more, and the directory knows."""
        self.serve_nobody(hosted)
        self.detecting.rest(self.detecting.hosted.pop(hosted.detector.id))
        note = Note("info", "detector given up", {"detector": hosted.detector.id, "reason": reason})
        return [note, *self._leave_parts(hosted), *self.listening.refilter()]

    def tell_entries(self) -> list[Effect]:
        """Say of every detector here how it is."""
        return [self.telling.entry(each) for each in self.detecting.hosted.values() if each.primary]

    def serve_nobody(self, hosted: Hosted) -> None:
        for name in hosted.subscriptions:
            self.by_subscription.pop(name, None)
        hosted.subscriptions, hosted.near, hosted.waiting = {}, {}, {}

    def offer_again(self, hosted: Hosted, names: Iterable[str]) -> list[Effect]:
        known = self.directory.subscriptions
        return [self.telling.offer(name, known[name], hosted) for name in names if name in known]

    def _destroyed(self, identity: str) -> list[Effect]:
        hosted = self.detecting.hosted.pop(identity)
        self.detecting.rest(hosted)
        effects: list[Effect] = [self.telling.clear("detector", identity), *self._leave_parts(hosted)]
        return [*effects, *self.listening.refilter(), Note("info", "detector destroyed", {"detector": identity})]

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it every few seconds: offers that were not taken, clients that do not come back."""
        effects: list[Effect] = self.copies.tick(now)
        subscriptions = self.directory.subscriptions
        for hosted in list(self.detecting.hosted.values()):
            effects += self.subscribe_to_parts(hosted)
            for name, ready in hosted.subscriptions.items():
                if not ready and name in subscriptions and name not in hosted.waiting:
                    effects.append(self.telling.offer(name, subscriptions[name], hosted))
            if any(each.left for each in hosted.streams.values()):
                effects += self.listening.refilter()
            if not hosted.primary or hosted.subscriptions or self._expected(hosted.detector.id):
                hosted.idle_since = None
            elif hosted.idle_since is None:
                hosted.idle_since = now
            elif now - hosted.idle_since > GRACE:
                effects += self._destroyed(hosted.detector.id)
        clients = {entry.client for entry in subscriptions.values()}
        absent = {client for client in clients if not is_there(client, self.directory)}
        self._absent = {client: self._absent.get(client, now) for client in absent}
        for name, entry in subscriptions.items():
            if now - self._absent.get(entry.client, now) > GRACE and (
                name in self.by_subscription or chosen(name, self.directory.common_nodes) == self.name
            ):
                fields: dict[str, object] = {"subscription": name, "client": entry.client}
                effects += [Note("warning", "subscription of a client that is gone", fields)]
                effects.append(Publish(directory_topic("subscription", name, root=self.root), b"", retain=True))
        return effects

    # Detectors, here and elsewhere.

    def detector_changed(self, change: Change, now: int) -> list[Effect]:
        """A detector has come, gone or moved, here or elsewhere."""
        effects: list[Effect] = []
        identity, entry, before = change.name, change.entry, change.before
        mine = self.detecting.hosted.get(identity)
        if mine is not None:
            effects += self._contested(mine, entry, now)
        published = {each.publishes for each in (entry, before) if each is not None}
        if entry is None or before is None or entry.reads != before.reads:
            self.upstream.see_who_reads()
        if entry is None or before is None or _reads_differently(entry, before):
            for hosted in self.detecting.hosted.values():
                if hosted.active and not published.isdisjoint(hosted.names):
                    effects += self.upstream.connect(hosted, now)
            effects += self.listening.refilter()
        if (
            before is None
            or entry is None
            or (entry.node, entry.home, entry.copies) != (before.node, before.home, before.copies)
        ):
            effects += self.upstream.listen_elsewhere(now)
        return effects

    def compare(self, shown: set[str], now: int) -> list[Effect]:
        """The directory was read again: whether it knows of the detectors here. `shown` are those it speaks of."""
        effects: list[Effect] = []
        for identity, hosted in list(self.detecting.hosted.items()):
            entry = self.directory.detectors.get(identity) if identity in shown else None
            effects += self._contested(hosted, entry, now)
        return effects

    def _contested(self, mine: Hosted, entry: DetectorEntry | None, now: int) -> list[Effect]:
        """The directory speaks of a detector that is here: does it say so?"""
        news = self.copies.role(mine, entry)
        if news is not None:
            return news
        if entry is None or entry.node not in self.directory.nodes:
            # Cleared by a node that did not know yet that it is here, or left over from one that is lost.
            return [self.telling.entry(mine)]
        identity = mine.detector.id
        if chosen(identity, (self.name, entry.node)) == self.name:
            # Who has accepted the other one's offer comes back.
            return [self.telling.entry(mine), *self.offer_again(mine, mine.subscriptions)]
        return self.drop(mine, f"{entry.node} has it")

    # Messages.

    def _see_what_is_wanted(self, hosted: Hosted) -> list[Effect]:
        """What has to be sent along; copies that do not know of it are given up, and made anew where needed."""
        before = (hosted.constituents, hosted.records)
        wanted = [self.directory.subscriptions.get(name) for name in hosted.subscriptions]
        entries = [entry for entry in wanted if entry is not None]
        hosted.constituents = any(entry.constituents for entry in entries)
        hosted.records = any(entry.records for entry in entries)
        if hosted.records:
            hosted.detector.keep_records()
        return (
            self.copies.without_copies(hosted, hosted.copies) if before != (hosted.constituents, hosted.records) else []
        )

    def _leave_parts(self, hosted: Hosted) -> list[Effect]:
        names = [_part_subscription(hosted.detector.id, part, self.name) for part in hosted.parts]
        for name in names:
            self._for_parts.pop(name, None)
            self._asked_for.discard(name)
        return [self.telling.clear("subscription", name) for name in names]


def _part_subscription(reader: str, part: str, node: str) -> str:
    """The name of a node's subscription to a part. Two nodes that host the reader for a moment have two."""
    return f"{reader} {part} {node}"


def _part_of(subscription: str) -> str:
    """The part that a node subscribes to under this name."""
    return subscription.split(" ")[1] if subscription.count(" ") == 2 else ""


def _reads_differently(entry: DetectorEntry, before: DetectorEntry) -> bool:
    """Whether who reads a detector's composite events by their type has to listen elsewhere, or not at all."""
    shown = ("policy", "publishes")
    return any(getattr(entry, each) != getattr(before, each) for each in shown)


def _kinds(registry: TypeRegistry) -> Callable[[str], Mapping[str, Kind] | None]:
    def kinds(name: str) -> Mapping[str, Kind] | None:
        found = registry.find(name)
        return None if found is None else found.attributes

    return kinds

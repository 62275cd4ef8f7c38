"""Admission of subscriptions: coordinators determine the node that serves each.

composite-event-framework-2004, "Mobile Composite Event Detectors" (construction). Three roles, so that no pattern is
read by every node and nothing is decided twice; one node may have all:

* The *coordinator of a subscription* is chosen by the text of its pattern. It computes the canonical id, refuses faulty
  patterns, and notifies the responsible node until the subscription is served, and again when that node is lost.
* The *host* of the detector serves the subscription.
* The *coordinator of a detector* is chosen by its canonical id. It places a detector without a host
  (`brokers.node.placement`), and notifies that node.

Coordinators are chosen by rendezvous hashing over the live nodes (`brokers.core.rendezvous`). Messages that do not
concern a node (any more, or yet) are dropped and repeated by the coordinator of the subscription. Rejected: the
coordinator of a detector as its host (placement ignores the network); a decision by any node (several create one
detector).

What a subscription asks of a node waits in a queue by client (`brokers.node.request_queue`), which the driver serves
between messages: its entry, that its client listens, the messages of other nodes about it. The directory has an entry
as soon as it arrives, so that queued subscriptions count for the limits (`brokers.node.refusals`), and a request is
served by the entry as it is then. The end of a subscription that is not served here takes effect at once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from distced.brokers.core.causes import MessageArrived, Stimulus
from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Compile, Effect, info, warning
from distced.brokers.core.exclusions import error_of, is_excluded
from distced.brokers.core.metrics import REFUSALS
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.checkpoint_format import Checkpoint
from distced.brokers.node.checkpoints import Checkpoints
from distced.brokers.node.compiling import Compiling
from distced.brokers.node.coordinated import CoordinatedSubscriptions
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.isolation import Isolation
from distced.brokers.node.pattern_limits import check_size
from distced.brokers.node.placement import Decision, Placement
from distced.brokers.node.planning import Found, PatternCache, Planned, cut_of, delegated_of, is_away
from distced.brokers.node.refusals import Refusals
from distced.brokers.node.request_queue import RequestQueue
from distced.brokers.node.shared import NodePart
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import UNKNOWN_TYPE
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import (
    NODE_CLIENT,
    DetectorEntry,
    DurableEntry,
    ExclusionEntry,
    SubscriptionEntry,
)
from distced.middleware.wire.node_messages import Hosting, Served

RETRY: Final = 2 * SECOND
"""Interval of notifications by the coordinator of a subscription to an unresponsive node, ns."""

PATIENCE: Final = 15 * SECOND
"""Time for a node to host a detector that its coordinator has placed there, ns."""

_NEW: Final = b"new"
_AGAIN: Final = b"again"
"""Flags of a notification: a new subscription may be refused for want of nodes, one served before is deferred."""


LOOK_EVERY: Final = 20 * SECOND
"""Interval of looks for detectors without a host, ns; those that two looks have found are cleared."""

_ENDED: Final = b"ended"
"""Content of the request of an entry that was cleared, and perhaps published again, since it was served."""

UNUSABLE: Final = "unusable"
EXCLUDED: Final = "excluded"
"""Reasons of refusals in metrics: a pattern that cannot be compiled or placed, and one that is excluded."""

_ENTRY, _ADMIT, _READY, _SERVE, _HOST, _OFFER = _KINDS = "entry", "admit", "ready", "serve", "host", "offer"


class Request(NamedTuple):
    """Request about a subscription: its kind, the content of its message, and the stimulus that has brought it."""

    kind: str
    name: str
    content: bytes | Hosting
    stimulus: Stimulus

    @property
    def where(self) -> str:
        """Topic of the message."""
        return self.stimulus.topic if isinstance(self.stimulus, MessageArrived) else ""


@dataclass(frozen=True, slots=True)
class _Assigned:
    """Detector placed on a node that does not host it yet, at a time (ns), with the subscriptions that wait for it."""

    node: str
    at: int
    subscriptions: set[str]


class Admission(NodePart):
    """A node as host and coordinator.

    Attributes:
        served: the subscriptions coordinated here that are served.
        queue: requests that wait, by kind and name; a few at most for each subscription known or served here.
        refusals: refusals of subscriptions beyond the limits.
    """

    def __init__(
        self,
        hosting: DetectorHosting,
        placement: Placement,
        isolation: Isolation,
        refusals: Refusals,
        checkpoints: Checkpoints,
    ) -> None:
        super().__init__(hosting.shared)
        self.checkpoints = checkpoints
        # Last look for detectors without a host, ns, and those that it has found.
        self._looked_at = INSTANT_MIN
        self._without_host: set[str] = set()
        self.refusals = refusals
        self.queue: RequestQueue[tuple[str, str], Request] = RequestQueue()
        self.compiling = Compiling(hosting.planner.patterns)
        self.isolation = isolation
        self.hosting = hosting
        self.planner = hosting.planner
        self.placement = placement
        self.served = CoordinatedSubscriptions()
        # Subscriptions not served yet: time of the notification, node notified, and whether they were served before.
        self._notified: dict[str, tuple[int, str, bytes]] = {}
        self._assigned: dict[str, _Assigned] = {}
        # Reasons why subscriptions that were served before wait, by name.
        self._held: dict[str, str] = {}
        # Subscriptions to detectors in motion.
        self._parked: dict[str, set[str]] = {}

    # Requests.

    def entry_arrived(self, change: Change, now: int) -> list[Effect]:
        """Take a subscription that was added, changed or removed."""
        name, before, entry = change.name, change.before, change.entry
        if before is not None and entry is None and name not in self.hosting.by_subscription:
            self._forget(name, before)
            return [*self._changed(name, None, now), *self.isolation.tidy()]
        if before is not None and entry is not None and before.client != entry.client:
            self._forget(name, before)
        of = before if entry is None else entry
        waiting = self.queue.get(of.client, (_ENTRY, name))
        ended = entry is None or (waiting is not None and waiting.content == _ENDED)
        self._ask(_ENTRY, name, of, _ENDED if ended else b"")
        return []

    def listening(self, name: str) -> None:
        """Take the report of a client that it listens for a subscription."""
        entry = self.directory.subscriptions.get(name)
        if entry is None:
            return
        changes = self.queue.get(entry.client, (_ENTRY, name)) is not None
        if changes or name in self.hosting.by_subscription:
            # What is begun is ended first: clients and nodes repeat reports and offers until then.
            self._ask(_READY, name, entry, first=not changes)

    def message(self, kind: str, name: str, payload: bytes, where: str) -> None:
        """Take another node's message about a subscription."""
        kinds: dict[str, type[Served | Hosting]] = {"served": Served, _HOST: Hosting}
        content = decode(payload, kinds[kind], where=where) if kind in kinds else payload
        entry = self.directory.subscriptions.get(name)
        if entry is None:
            return
        if isinstance(content, Served):
            self.served.put(name, content.node, content.detector)
            self._notified.pop(name, None)
            self._held.pop(name, None)
        else:
            self._ask(kind, name, entry, content)

    def serve(self, request: Request, now: int) -> list[Effect]:
        """Serve a request of the queue, or have its pattern compiled first."""
        kind, name, content = request.kind, request.name, request.content
        entry = self.directory.subscriptions.get(name)
        if entry is not None and self._compiles(kind, name, entry):
            self.queue.put(entry.client, (kind, name), request, first=True)
            self.queue.hold(entry.client)
            return self.compiling.begin(entry, self.directory.registry(), now)
        if kind == _ENTRY:
            effects = self._changed(name, None, now) if entry is None or content == _ENDED else []
            if entry is not None:
                effects += self._changed(name, entry, now)
            return [*effects, *self.isolation.tidy()]
        if entry is None:
            return []
        if isinstance(content, Hosting):
            return self._host(name, entry, content, now)
        if kind == _READY:
            return self.hosting.ready(name, now)
        if kind == _OFFER and is_away(entry, self.directory):
            return self.hosting.ready(name, now)
        if kind == _OFFER:
            return self.hosting.repeat_offer(name, entry)
        if kind == _SERVE:
            return self._see_to(name, entry, content, now)
        return [] if name in self.served else self._admit(name, entry, content, now)

    def _compiles(self, kind: str, name: str, entry: SubscriptionEntry) -> bool:
        """Whether the pattern of a request is to be compiled beside first."""
        if kind in (_READY, _OFFER) or not self.compiling.needs(entry, self.directory.registry()):
            return False
        here = name in self.hosting.by_subscription or kind in (_SERVE, _HOST)
        return here or chosen(entry.pattern, self.directory.common_nodes) == self.name

    def compiled(self, order: Compile, cache: PatternCache, now: int) -> list[Effect]:
        """Take a pattern that was compiled beside; the requests that wait for it are served."""
        return self._go_on(*self.compiling.finished(order, cache, now))

    def _go_on(self, clients: Iterable[str], effects: list[Effect]) -> list[Effect]:
        for each in clients:
            self.queue.release(each)
        return effects

    def _ask(
        self, kind: str, name: str, entry: SubscriptionEntry, content: bytes | Hosting = b"", *, first: bool = False
    ) -> None:
        request = Request(kind, name, content, self.event_path.stories.stimulus)
        self.queue.put(entry.client, (kind, name), request, first=first)

    def _forget(self, name: str, entry: SubscriptionEntry) -> None:
        for kind in _KINDS:
            self.queue.discard(entry.client, (kind, name))

    # Coordinator of subscriptions.

    def _changed(self, name: str, entry: SubscriptionEntry | None, now: int) -> list[Effect]:
        self.served.remove(name)
        self._notified.pop(name, None)
        self._held.pop(name, None)
        if entry is None:
            return self.hosting.withdrawn(name, now)
        effects = self._asks_for_something_else(name, entry, now)
        return [*effects, *self._admit(name, entry, _AGAIN if entry.again else _NEW, now)]

    def take_up(self) -> list[Effect]:
        """Nodes were added or lost: admit the subscriptions without a serving node."""
        # Entries left over are cleared first, so that other nodes know those detectors have no host.
        effects: list[Effect] = [
            self.clear_detector(identity, each.publishes)
            for identity, each in self.directory.detectors.items()
            if self._left_over(identity)
        ]
        self.refusals.refuse_excess(lambda name: name in self.served or name in self.hosting.by_subscription)
        for name, entry in self.directory.subscriptions.items():
            if name not in self.served and name not in self._notified:
                self._ask(_ADMIT, name, entry, _AGAIN)
        return effects

    def node_lost(self, node: str) -> None:
        """A node is lost, with all that it served and all that was placed on it."""
        for name in self.served.on(node):
            self.served.remove(name)
        self._notified = {name: each for name, each in self._notified.items() if each[1] != node}
        waiting = [name for each in self._assigned.values() if each.node == node for name in sorted(each.subscriptions)]
        self._assigned = {name: each for name, each in self._assigned.items() if each.node != node}
        self._see_to_again(waiting)

    def _see_to_again(self, names: Iterable[str]) -> None:
        for name in names:
            if (entry := self.directory.subscriptions.get(name)) is not None:
                self._ask(_SERVE, name, entry, _AGAIN)

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: repeat offers, and notifications that no node has confirmed."""
        # A client with requests here may have answered among them.
        known, busy = self.directory.subscriptions, self.queue.clients()
        for name in self.hosting.unanswered():
            if (entry := known.get(name)) is not None and entry.client not in busy:
                self._ask(_OFFER, name, entry)
        for name, (at, _, how) in list(self._notified.items()):
            entry = self.directory.subscriptions.get(name)
            if entry is None:
                del self._notified[name]
            elif now - at >= RETRY:
                self._ask(_ADMIT, name, entry, how)
        self._assigned = {name: each for name, each in self._assigned.items() if now - each.at < PATIENCE}
        return [*self._go_on(*self.compiling.late(now)), *self._clear_left_over(now), *self.refusals.tick(now)]

    def _clear_left_over(self, now: int) -> list[Effect]:
        """Clear entries of detectors without a host that have come since nodes were last added or lost; not at once, as
        the entry of a node may come behind those of its detectors."""
        if now - self._looked_at < LOOK_EVERY:
            return []
        self._looked_at = now
        before = self._without_host
        self._without_host = {each for each in self.directory.detectors if self._left_over(each)}
        gone = sorted(before & self._without_host)
        return [self.clear_detector(each, self.directory.detectors[each].publishes) for each in gone]

    def detector_changed(self, change: Change) -> list[Effect]:
        """A detector has another host, or none: notify it of the subscriptions."""
        entry = change.entry
        effects: list[Effect] = []
        if entry is not None and entry.node == self.name and self._left_over(change.name):
            # From before this node gave the detector up.
            effects.append(self.clear_detector(change.name, entry.publishes))
        self._assigned.pop(change.name, None)
        for name in self.served.by(change.name, but="" if entry is None else entry.node):
            self.served.remove(name)
            subscription = self.directory.subscriptions.get(name)
            if subscription is not None:
                self._ask(_ADMIT, name, subscription, _AGAIN)
        return effects

    def _admit(self, name: str, entry: SubscriptionEntry, how: bytes, now: int) -> list[Effect]:
        if chosen(entry.pattern, self.directory.common_nodes) != self.name:
            self._notified.pop(name, None)
            self._held.pop(name, None)
            return []
        if ("subscription", name) in self.directory.unconfirmed:
            # Perhaps cleared while this node was away: tried again once it is confirmed.
            self._notified[name] = (now, "", how)
            return []
        try:
            found = self.planner.identify(entry, self.directory.registry())
        except DistcedError as error:
            if _may_be_back(error, how, entry):
                # It reads what others publish, perhaps, and they may be back: in a moment, where they are taken over.
                tried = name in self._notified
                self._notified[name] = (now, "", how)
                return self._wait(name, entry, error) if tried else []
            return self._refuse(name, entry, error, now)
        excluded = self.directory.exclusions.get(found.id)
        if excluded and is_excluded(excluded, now):
            return self._refuse(name, entry, error_of(excluded), now, EXCLUDED)
        concerned = self._concerned(found.id)
        self._notified[name] = (now, concerned, how)
        self.happened("subscription", name, f"coordinated here: {found.id}, for {concerned} to see to")
        return self._pass_on(name, entry, found, how, now)

    def _pass_on(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        concerned = self._concerned(found.id)
        if concerned == self.name:
            return self._deal_with(name, entry, found, how, now)
        return [self.send(concerned, "serve", name, how)]

    def _refuse(
        self, name: str, entry: SubscriptionEntry, error: DistcedError, now: int, reason: str = UNUSABLE
    ) -> list[Effect]:
        if _is_rule(entry) or is_away(entry, self.directory):
            # Nobody is there to ask again.
            self._notified[name] = (now, "", _AGAIN)
            return [*self.hosting.withdrawn(name, now), *self._wait(name, entry, error)]
        self._notified.pop(name, None)
        self.served.put(name, self.name, "")
        self.event_path.tallies[REFUSALS, reason] += 1
        answer = Answer(name, "refused", node=self.name, error=error.as_dict(), message=str(error))
        return [*self.hosting.withdrawn(name, now), self.reply(entry.client, answer)]

    def refuse_excluded(self, name: str, entry: SubscriptionEntry, exclusion: ExclusionEntry, now: int) -> list[Effect]:
        """Refuse a subscription whose detector was excluded here."""
        return self._refuse(name, entry, error_of(exclusion), now, EXCLUDED)

    def refuse_origin(self, name: str, entry: SubscriptionEntry, error: DistcedError, now: int) -> list[Effect]:
        """Refuse a subscription whose recorded events cannot be read here."""
        return self._refuse(name, entry, error, now)

    def _wait(self, name: str, entry: SubscriptionEntry, error: DistcedError) -> list[Effect]:
        """Defer a served subscription that cannot be served for now, and notify its client; it is tried again."""
        if self._held.get(name) == str(error):
            return []
        self._held[name] = str(error)
        answer = Answer(name, "waiting", node=self.name, error=error.as_dict(), message=str(error))
        notice = self.reply(entry.client, answer)
        if _is_rule(entry):
            notice = self.put("durable", name, DurableEntry(self.name, reason=str(error)))
        elif is_away(entry, self.directory):
            # Of no node, so that one stands in that ends it in time.
            known = self.directory.durables.get(name) or DurableEntry("")
            notice = self.put("durable", name, replace(known, node="", reason=str(error)))
        return [warning("subscription deferred", subscription=name, reason=str(error)), notice]

    # Host, and coordinator of detectors.

    def _see_to(self, name: str, entry: SubscriptionEntry, how: bytes, now: int) -> list[Effect]:
        """Serve a subscription, or have it served, on behalf of its coordinator."""
        try:
            found = self.planner.identify(entry, self.directory.registry())
        except DistcedError as error:
            again = _may_be_back(error, how, entry)
            return self._wait(name, entry, error) if again else self._refuse(name, entry, error, now)
        if self._concerns(found.id):
            return self._pass_on(name, entry, found, how, now)
        # The sender may have been away when the detector was destroyed.
        known = found.id in self.directory.detectors
        return [] if known else [self.clear_detector(found.id, found.compiled.publishes.name)]

    def settled(self, identity: str) -> None:
        """A move of a detector has ended: serve the subscriptions deferred meanwhile."""
        parked = sorted(self._parked.pop(identity, ()))
        self._see_to_again(name for name in parked if name not in self.hosting.by_subscription)

    def _deal_with(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        """Serve a subscription, or have its detector created."""
        excluded = self.directory.exclusions.get(found.id)
        if excluded and is_excluded(excluded, now):
            return self._refuse(name, entry, error_of(excluded), now, EXCLUDED)
        if self._is_coming(found.id):
            self._parked.setdefault(found.id, set()).add(name)
            return []
        if self._serves(found.id):
            return self._serve(name, entry, found, how, now)
        assigned = self._assigned.get(found.id)
        if assigned is not None and assigned.node in self.directory.nodes and now - assigned.at < PATIENCE:
            assigned.subscriptions.add(name)
            return [self.send(assigned.node, "serve", name, how)]
        try:
            _ = found.compiled.structure
            if not entry.client.startswith(NODE_CLIENT):
                check_size(found.compiled, self.refusals.limits)
        except DistcedError as error:
            # Too large, or without a possible match.
            counts = self.event_path.counts
            counts["patterns refused"] = counts.get("patterns refused", 0) + 1
            return self._refuse(name, entry, error, now)
        try:
            decision = self.placement.decide(found, entry, self.directory.registry(), again=_makes_do(how, entry))
        except DistcedError as error:
            again = how == _AGAIN
            return self._wait(name, entry, error) if again else self._refuse(name, entry, error, now)
        self._held.pop(name, None)
        effects: list[Effect] = []
        if decision.reason:
            effects.append(info("detector placed", detector=found.id, node=decision.node, reason=decision.reason))
        if decision.node == self.name and not entry.hints.isolated:
            return [*effects, *self._create(name, entry, found, decision, now)]
        self._assigned[found.id] = _Assigned(decision.node, now, {name})
        cuts = tuple(cut_of(place, each) for place, each in decision.planned.places)
        hosting = Hosting(entry, cuts, decision.planned.parts, decision.home, decision.expected)
        if decision.node == self.name:
            return [*effects, *self.isolation.hand_on(found.id, name, encode(hosting))]
        return [*effects, self.send(decision.node, "host", name, encode(hosting))]

    def _host(self, name: str, entry: SubscriptionEntry, hosting: Hosting, now: int) -> list[Effect]:
        """Host a detector that its coordinator has placed here."""
        places = dict(map(delegated_of, hosting.cuts))
        try:
            planned = self.planner.plan_again(entry, self.directory.registry(), places, hosting.parts)
        except (DistcedError, LookupError) as error:
            # Perhaps a type is not known here yet; the coordinator of the subscription tries again.
            return [warning("hosting refused", subscription=name, reason=str(error))]
        excluded = self.directory.exclusions.get(planned.id)
        if excluded and is_excluded(excluded, now):
            return self._refuse(name, entry, error_of(excluded), now, EXCLUDED)
        if planned.id in self.event_path.moving:
            # Its state is on its way: that of a checkpoint is older.
            self.checkpoints.drop(planned.id)
        if self._is_coming(planned.id) and not self._is_next(planned.id):
            self._parked.setdefault(planned.id, set()).add(name)
            return []
        if entry.hints.isolated and not self.reserved:
            return self.isolation.hand_on(planned.id, name, encode(hosting))
        found = Found(planned.id, planned.compiled, planned.policy)
        return self._create(name, entry, found, Decision(self.name, hosting.home, planned, "", hosting.expected), now)

    def _create(self, name: str, entry: SubscriptionEntry, found: Found, decision: Decision, now: int) -> list[Effect]:
        planned, checkpoint = decision.planned, None
        if found.id not in self.event_path.hosted:
            cuts = tuple(cut_of(place, each) for place, each in planned.places)
            hosting = Hosting(entry, cuts, planned.parts, decision.home, decision.expected)
            reading = self.checkpoints.read(found.id, name, hosting, now)
            if reading is not None:
                return reading
            checkpoint = self.checkpoints.take(found.id, name)
            if checkpoint is not None and checkpoint.cuts != cuts:
                planned, checkpoint = self._cut_as_before(planned, checkpoint)
        effects = self.hosting.host(planned, decision.home, name, decision.expected, checkpoint, now)
        self.settled(found.id)
        return [*effects, *self._serve(name, entry, found, _AGAIN, now)]

    def _cut_as_before(self, planned: Planned, checkpoint: Checkpoint) -> tuple[Planned, Checkpoint | None]:
        """Detector with the cuts of its checkpoint; as planned, without the checkpoint, where these are not possible
        any more."""
        places = dict(map(delegated_of, checkpoint.cuts))
        try:
            before = self.planner.plan_again(planned.asked, self.directory.registry(), places, checkpoint.parts)
        except (DistcedError, LookupError):
            return planned, None
        return (before, checkpoint) if before.id == planned.id else (planned, None)

    def recover(self, detector: str, hosted: Mapping[str, Hosting]) -> None:
        """Checkpoints of a detector were read: host it for the subscriptions that have waited."""
        known = {name: entry for name in hosted if (entry := self.directory.subscriptions.get(name)) is not None}
        for name, entry in known.items():
            self._ask(_HOST, name, entry, hosted[name])
        if not known:
            self.checkpoints.drop(detector)
        if not self._is_next(detector):
            self.settled(detector)

    def _serve(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        self._held.pop(name, None)
        effects: list[Effect] = []
        identity = found.id
        hosted = self.event_path.hosted[identity]
        if name not in hosted.subscriptions:
            try:
                near = self.placement.near(hosted, found, entry, again=_makes_do(how, entry))
            except DistcedError as error:
                if how != _AGAIN:
                    return self._refuse(name, entry, error, now)
                near = ""
            self.hosting.by_subscription[name] = identity
            effects = self.hosting.serve(name, entry, near)
            if is_away(entry, self.directory):
                self._ask(_READY, name, entry)
        coordinator = chosen(entry.pattern, self.directory.common_nodes)
        if coordinator == self.name:
            self.served.put(name, self.name, identity)
            self._notified.pop(name, None)
        elif coordinator is not None:
            effects.append(self.send(coordinator, "served", name, encode(Served(self.name, identity))))
        return effects

    def _asks_for_something_else(self, name: str, entry: SubscriptionEntry, now: int) -> list[Effect]:
        """The entry of a subscription served here has changed."""
        before = self.hosting.by_subscription.get(name)
        if before is None:
            return []
        try:
            same = self.planner.identify(entry, self.directory.registry()).id == before
        except DistcedError:
            same = False
        # Its matches so far stay.
        return self.hosting.serve(name, entry) if same else self.hosting.withdrawn(name, now)

    # Responsibility.

    def _is_coming(self, identity: str) -> bool:
        """Whether a detector is in motion, or about to be here with the state of a checkpoint."""
        return identity in self.event_path.moving or self.checkpoints.reads(identity) or self._is_next(identity)

    def _is_next(self, identity: str) -> bool:
        """Whether the checkpoints of a detector were read, and the request to host it is in the queue."""
        return self.checkpoints.has_read(identity) and identity not in self.event_path.hosted

    def _concerned(self, identity: str) -> str:
        """Node responsible for a detector: its host while that lives, else its coordinator."""
        if self._serves(identity) or self._is_coming(identity):
            return self.name
        known = self.directory.detectors.get(identity)
        host = None if known is None else serving_host(known, self.directory.expected_nodes)
        if host is not None and host != self.name:
            return host
        return chosen(identity, self.directory.common_nodes) or self.name

    def _concerns(self, identity: str) -> bool:
        """Whether this node hosts a detector or coordinates it."""
        here = self._serves(identity) or self._is_coming(identity)
        return here or chosen(identity, self.directory.common_nodes) == self.name

    def _serves(self, identity: str) -> bool:
        """Whether a detector is here, and is no replica of one elsewhere."""
        hosted = self.event_path.hosted.get(identity)
        return hosted is not None and hosted.primary

    def _left_over(self, identity: str) -> bool:
        """Whether an entry is of a detector without a host, and for this node to clear."""
        if identity in self.event_path.hosted or identity in self.event_path.moving:
            return False
        known = self.directory.detectors[identity]
        if known.node == self.name:
            return True  # From an earlier life of this node.
        host = serving_host(known, self.directory.expected_nodes)
        if host is None:
            return chosen(identity, self.directory.common_nodes) == self.name
        # A replica here that was lost after its primary.
        return host == self.name


def _makes_do(how: bytes, entry: SubscriptionEntry) -> bool:
    """Whether fewer nodes than a policy wants will do for now: for what was served before, and for a part, whose
    refusal would end the cut of its reader, and the state that goes with it."""
    return how == _AGAIN or entry.client.startswith(NODE_CLIENT)


def _is_rule(entry: SubscriptionEntry) -> bool:
    """Whether a subscription is a rule, which nobody reads."""
    return entry.durable is not None and bool(entry.durable.rules)


def _may_be_back(error: DistcedError, how: bytes, entry: SubscriptionEntry) -> bool:
    """Whether a subscription waits until its error is gone: one that was served before, and a part for its types, which
    its reader has known. A part that cannot be detected on its own is refused, and its reader detects it."""
    return error.problem == UNKNOWN_TYPE if entry.client.startswith(NODE_CLIENT) else how == _AGAIN


def serving_host(entry: DetectorEntry, nodes: Container[str]) -> str | None:
    """Node that serves a detector's subscriptions: its own, else the first live one with a replica."""
    if entry.node in nodes:
        return entry.node
    return min((each for each in entry.replicas if each in nodes), default=None)

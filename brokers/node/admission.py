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
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, info, warning
from distced.brokers.core.node_location import LIMITS, SubscriptionLimits
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.isolation import Isolation
from distced.brokers.node.placement import Decision, Placement
from distced.brokers.node.planning import Found, cut_of, delegated_of
from distced.brokers.node.shared import NodePart
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import NODE_CLIENT, DetectorEntry, SubscriptionEntry
from distced.middleware.wire.node_messages import Hosting, Served

RETRY: Final = 2 * SECOND
"""Interval of notifications by the coordinator of a subscription to an unresponsive node, ns."""

PATIENCE: Final = 15 * SECOND
"""Time for a node to host a detector that its coordinator has placed there, ns."""

_NEW: Final = b"new"
_AGAIN: Final = b"again"
"""Flags of a notification: a new subscription may be refused for want of nodes, one served before is deferred."""


@dataclass(frozen=True, slots=True)
class _Assigned:
    """Detector placed on a node that does not host it yet, at a time (ns), with the subscriptions that wait for it."""

    node: str
    at: int
    subscriptions: set[str]


class CoordinatedSubscriptions:
    """Subscriptions that are served, with node and detector of each; found by their detector, too."""

    def __init__(self) -> None:
        # Detectors by name, for each node.
        self._on: dict[str, dict[str, str]] = {}
        # Names by detector: the only one, as of most, or several by their node.
        self._of: dict[str, str | dict[str, dict[str, None]]] = {}

    def __contains__(self, name: str) -> bool:
        return self._node(name) is not None

    def __len__(self) -> int:
        return sum(map(len, self._on.values()))

    def put(self, name: str, node: str, detector: str) -> None:
        """Note that a node serves a subscription; an empty detector for a refused one."""
        self.remove(name)
        there = self._of.get(detector)
        if there is None:
            self._of[detector] = name
        else:
            if isinstance(there, str):
                there = self._of[detector] = {self._node(there) or "": {there: None}}
            there.setdefault(node, {})[name] = None
        self._on.setdefault(node, {})[name] = detector

    def remove(self, name: str) -> None:
        """Remove a subscription, if it is served."""
        node = self._node(name)
        if node is None:
            return
        detector = self._on[node].pop(name)
        if not self._on[node]:
            del self._on[node]
        there = self._of[detector]
        if isinstance(there, dict):
            del there[node][name]
            if not there[node]:
                del there[node]
            if there:
                return
        del self._of[detector]

    def by(self, detector: str, *, but: str = "") -> list[str]:
        """Subscriptions to a detector that other nodes than this one serve."""
        there = self._of.get(detector, {})
        if isinstance(there, str):
            return [] if self._node(there) == but else [there]
        return [name for node, names in there.items() if node != but for name in names]

    def on(self, node: str) -> list[str]:
        """Subscriptions that a node serves."""
        return list(self._on.get(node, ()))

    def _node(self, name: str) -> str | None:
        return next((node for node, names in self._on.items() if name in names), None)


class Admission(NodePart):
    """A node as host and coordinator; `served`: the subscriptions coordinated here that are served."""

    def __init__(
        self,
        hosting: DetectorHosting,
        placement: Placement,
        isolation: Isolation,
        limits: SubscriptionLimits = LIMITS,
    ) -> None:
        """`limits`: numbers of subscriptions at most."""
        super().__init__(hosting.shared)
        self.limits = limits
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
        # Clients of which subscriptions were refused, as they have too many.
        self._limited: set[str] = set()

    # Coordinator of subscriptions.

    def changed(self, name: str, entry: SubscriptionEntry | None, now: int) -> list[Effect]:
        """A subscription was added, changed, or removed."""
        self.served.remove(name)
        self._notified.pop(name, None)
        self._held.pop(name, None)
        if entry is None:
            return self.hosting.withdrawn(name, now)
        effects = self._asks_for_something_else(name, entry, now)
        return [*effects, *self._admit(name, entry, _NEW, now)]

    def take_up(self, now: int) -> list[Effect]:
        """Nodes were added or lost: admit the subscriptions without a serving node."""
        # Entries left over are cleared first, so that other nodes know those detectors have no host.
        effects: list[Effect] = [
            self.clear_detector(identity, each.publishes)
            for identity, each in self.directory.detectors.items()
            if self._left_over(identity)
        ]
        beyond = self._beyond_limit()
        for name, entry in list(self.directory.subscriptions.items()):
            if name not in self.served and name not in self._notified:
                effects += self._admit(name, entry, _NEW if name in beyond else _AGAIN, now)
        return effects

    def _beyond_limit(self) -> set[str]:
        """Subscriptions in excess, of those not served yet: they came while no node was there."""
        found: set[str] = set()
        for client, names in self.directory.by_client.items():
            beyond = len(names) - self.limits.of_client
            if beyond > 0 and not client.startswith(NODE_CLIENT):
                waiting = [name for name in names if name not in self.served]
                found.update(waiting[max(0, len(waiting) - beyond) :])
        return found

    def node_lost(self, node: str, now: int) -> list[Effect]:
        """A node is lost, with all that it served and all that was placed on it."""
        for name in self.served.on(node):
            self.served.remove(name)
        self._notified = {name: each for name, each in self._notified.items() if each[1] != node}
        waiting = [name for each in self._assigned.values() if each.node == node for name in sorted(each.subscriptions)]
        self._assigned = {name: each for name, each in self._assigned.items() if each.node != node}
        return [effect for name in waiting for effect in self.message("serve", name, _AGAIN, now, "")]

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: repeat notifications that no node has confirmed."""
        effects: list[Effect] = []
        for name, (at, _, how) in list(self._notified.items()):
            entry = self.directory.subscriptions.get(name)
            if entry is None:
                del self._notified[name]
            elif now - at >= RETRY:
                effects += self._admit(name, entry, how, now)
        self._assigned = {name: each for name, each in self._assigned.items() if now - each.at < PATIENCE}
        return effects

    def detector_changed(self, change: Change, now: int) -> list[Effect]:
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
                effects += self._admit(name, subscription, _AGAIN, now)
        return effects

    def _admit(self, name: str, entry: SubscriptionEntry, how: bytes, now: int) -> list[Effect]:
        if chosen(entry.pattern, self.directory.common_nodes) != self.name:
            self._notified.pop(name, None)
            return []
        if how == _NEW and (error := self._exceeded(entry)) is not None:
            return self._refuse_beyond_limit(name, entry, error)
        if ("subscription", name) in self.directory.unconfirmed:
            # Perhaps cleared while this node was away: tried again once it is confirmed.
            self._notified[name] = (now, "", how)
            return []
        try:
            found = self.planner.identify(entry, self.directory.registry())
        except DistcedError as error:
            if how == _AGAIN:
                # It reads what others publish, perhaps, and they may be back.
                self._notified[name] = (now, "", how)
                return self._wait(name, entry, error)
            return self._refuse(name, entry, error, now)
        concerned = self._concerned(found.id)
        self._notified[name] = (now, concerned, how)
        self.happened("subscription", name, f"coordinated here: {found.id}, for {concerned} to see to")
        return self._pass_on(name, entry, found, how, now)

    def _pass_on(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        concerned = self._concerned(found.id)
        if concerned == self.name:
            return self._deal_with(name, entry, found, how, now)
        return [self.send(concerned, "serve", name, how)]

    def _refuse(self, name: str, entry: SubscriptionEntry, error: DistcedError, now: int) -> list[Effect]:
        self._notified.pop(name, None)
        self.served.put(name, self.name, "")
        answer = Answer(name, "refused", node=self.name, error=error.as_dict(), message=str(error))
        return [*self.hosting.withdrawn(name, now), self.reply(entry.client, answer)]

    def _exceeded(self, entry: SubscriptionEntry) -> DistcedError | None:
        """Error where there are too many subscriptions."""
        if entry.client.startswith(NODE_CLIENT):
            return None
        if len(self.directory.by_client[entry.client]) > self.limits.of_client:
            return DistcedError(
                "too many subscriptions of one client",
                given=entry.client,
                allowed=f"{self.limits.of_client:,}",
                advice="end some, subscribe to patterns that find what several do, or start nodes with "
                "--max-subscriptions",
            )
        if len(self.directory.subscriptions) > self.limits.of_all:
            return DistcedError(
                "too many subscriptions of all clients together",
                given=f"{len(self.directory.subscriptions):,}, with this one of {entry.client}",
                allowed=f"{self.limits.of_all:,}",
                advice="end some, or start nodes with --max-subscriptions-in-all",
            )
        return None

    def _refuse_beyond_limit(self, name: str, entry: SubscriptionEntry, error: DistcedError) -> list[Effect]:
        """Refuse a subscription and clear its entry, so that the client takes no more room here."""
        counts = self.event_path.counts
        counts["subscriptions refused"] = counts.get("subscriptions refused", 0) + 1
        answer = Answer(name, "refused", node=self.name, error=error.as_dict(), message=str(error))
        effects: list[Effect] = [self.clear("subscription", name), self.reply(entry.client, answer)]
        if entry.client not in self._limited:
            # Once for all of them.
            self._limited.add(entry.client)
            effects.append(warning("subscriptions refused", client=entry.client, reason=str(error)))
        return effects

    def _wait(self, name: str, entry: SubscriptionEntry, error: DistcedError) -> list[Effect]:
        """Defer a served subscription that cannot be served for now, and tell its client; it is tried again."""
        if self._held.get(name) == str(error):
            return []
        self._held[name] = str(error)
        answer = Answer(name, "waiting", node=self.name, error=error.as_dict(), message=str(error))
        return [
            warning("subscription deferred", subscription=name, reason=str(error)),
            self.reply(entry.client, answer),
        ]

    # Host, and coordinator of detectors.

    def message(self, kind: str, name: str, payload: bytes, now: int, where: str) -> list[Effect]:
        """Effects of another node's message about a subscription."""
        entry = self.directory.subscriptions.get(name)
        match kind:
            case "served":
                served = decode(payload, Served, where=where)
                if entry is not None:
                    self.served.put(name, served.node, served.detector)
                    self._notified.pop(name, None)
                return []
            case "host":
                return self._host(name, entry, decode(payload, Hosting, where=where), now)
            case "serve" if entry is not None:
                try:
                    found = self.planner.identify(entry, self.directory.registry())
                except DistcedError as error:
                    if payload == _AGAIN:
                        return self._wait(name, entry, error)
                    return self._refuse(name, entry, error, now)
                if self._concerns(found.id):
                    return self._pass_on(name, entry, found, payload, now)
                # The sender may have been away when the detector was destroyed.
                return (
                    []
                    if found.id in self.directory.detectors
                    else [self.clear_detector(found.id, found.compiled.publishes.name)]
                )
        return []

    def settled(self, identity: str, now: int) -> list[Effect]:
        """A move of a detector has ended: serve the subscriptions deferred meanwhile."""
        effects: list[Effect] = []
        for name in sorted(self._parked.pop(identity, ())):
            entry = self.directory.subscriptions.get(name)
            if entry is not None and name not in self.hosting.by_subscription:
                effects += self.message("serve", name, _AGAIN, now, "")
        return effects

    def _deal_with(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        """Serve a subscription, or have its detector created."""
        if found.id in self.event_path.moving:
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
        except DistcedError as error:
            # Too large, or without a possible match.
            return self._refuse(name, entry, error, now)
        try:
            decision = self.placement.decide(found, entry, self.directory.registry(), again=how == _AGAIN)
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

    def _host(self, name: str, entry: SubscriptionEntry | None, hosting: Hosting, now: int) -> list[Effect]:
        """Host a detector that its coordinator has placed here."""
        if entry is None:
            return []
        places = dict(map(delegated_of, hosting.cuts))
        try:
            planned = self.planner.plan_again(entry, self.directory.registry(), places, hosting.parts)
        except (DistcedError, LookupError) as error:
            # Perhaps a type is not known here yet; the coordinator of the subscription tries again.
            return [warning("hosting refused", subscription=name, reason=str(error))]
        if planned.id in self.event_path.moving:
            self._parked.setdefault(planned.id, set()).add(name)
            return []
        if entry.hints.isolated and not self.reserved:
            return self.isolation.hand_on(planned.id, name, encode(hosting))
        found = Found(planned.id, planned.compiled, planned.policy)
        return self._create(name, entry, found, Decision(self.name, hosting.home, planned, "", hosting.expected), now)

    def _create(self, name: str, entry: SubscriptionEntry, found: Found, decision: Decision, now: int) -> list[Effect]:
        effects = self.hosting.host(decision.planned, decision.home, name, decision.expected)
        return [*effects, *self._serve(name, entry, found, _AGAIN, now)]

    def _serve(self, name: str, entry: SubscriptionEntry, found: Found, how: bytes, now: int) -> list[Effect]:
        effects: list[Effect] = []
        identity = found.id
        hosted = self.event_path.hosted[identity]
        if name not in hosted.subscriptions:
            try:
                near = self.placement.near(hosted, found, entry, again=how == _AGAIN)
            except DistcedError as error:
                if how != _AGAIN:
                    return self._refuse(name, entry, error, now)
                near = ""
            self.hosting.by_subscription[name] = identity
            effects = self.hosting.serve(name, entry, near)
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

    def _concerned(self, identity: str) -> str:
        """Node responsible for a detector: its host while that lives, else its coordinator."""
        if self._serves(identity) or identity in self.event_path.moving:
            return self.name
        known = self.directory.detectors.get(identity)
        host = None if known is None else serving_host(known, self.directory.expected_nodes)
        if host is not None and host != self.name:
            return host
        return chosen(identity, self.directory.common_nodes) or self.name

    def _concerns(self, identity: str) -> bool:
        """Whether this node hosts a detector or coordinates it."""
        here = self._serves(identity) or identity in self.event_path.moving
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
        return (
            serving_host(known, self.directory.expected_nodes) is None
            and chosen(identity, self.directory.common_nodes) == self.name
        )


def serving_host(entry: DetectorEntry, nodes: Container[str]) -> str | None:
    """Node that serves a detector's subscriptions: its own, else the first live one with a replica."""
    if entry.node in nodes:
        return entry.node
    return min((each for each in entry.replicas if each in nodes), default=None)

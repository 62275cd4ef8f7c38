"""Whether a detector is where it should be, asked from time to time by the node that hosts it.

composite-event-framework-2004, "Mobile Composite Event Detectors": detectors keep to their policy while they live, and
migrate where that pays. Design, section 3.

*It has to be worth it.* A move has a price: its state travels to the other node, both nodes read what the detector
reads for a while, and what happens meanwhile is found later. The price is spread over a `HORIZON` and added to the
costs of the other node; it has to be better nevertheless, by the policy's own rank, and by a `MARGIN` in the first
figure that differs. So policies need not know what moves are, and each pays in its own coin.

*It has to be quiet.* Estimates waver with what is measured, so a detector that has come stays for `DWELL`; and margins
keep two detectors from making way for one another for ever. A figure that counts less may only decide where those
before it do not get worse.

The primary keeps the number of replicas: a missing replica, or one without a subscription left to serve, comes before
any move and without dwell time, for waiting gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.candidate import Candidate, Rank
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.choose.ranking import lot
from distced.policies.distribution.choose.reasons import costs_in_words, show_rate, show_time, show_use
from distced.policies.distribution.estimate.costs import CostEstimate
from distced.policies.distribution.estimate.delays import mean
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place

MARGIN: Final = 0.1
"""By what share of itself the figure that decides has to get better."""

HORIZON: Final = 60 * SECOND
"""Within what time a move has to pay, ns."""

DWELL: Final = 30 * SECOND
"""How long a detector stays where it has come, ns."""

HANDOVER: Final = 500 * MILLISECOND
"""How long a move takes beside the transfer of the state, ns: both nodes read what the detector reads."""

HostChangeKind: TypeAlias = Literal["move", "replicate", "drop"]
"""A detector moves, is replicated to a further node, or gives a replica up."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """Change proposed for the hosts of a running detector.

    Attributes:
        node: the new node of the detector or of a replica; with `drop` the node that gives its replica up.
        reason: a sentence with the costs.
        before, after: costs of both; equal where a replica serves no subscription.
    """

    kind: HostChangeKind
    node: str
    reason: str
    before: Candidate
    after: Candidate


def reconsider(
    policy: Policy,
    situation: Situation,
    detector: str,
    subscribers: Sequence[Place],
    hints: Hints,
    since: int,
    now: int,
) -> HostChange | None:
    """What should change about a detector; None where nothing should.

    Args:
        subscribers: where those are who listen to it.
        since: when it came to its node, ns.
        now: ns.
    """
    if detector not in situation.detectors or not subscribers:
        return None
    hosts = situation.hosts(detector)
    primary = situation.detectors[detector].node
    if primary not in hosts:
        # Whoever takes over looks again.
        return None
    standing = _Standing(policy, situation, detector, subscribers, hosts, primary)
    free = [node for node in allowed_nodes(hints, situation) if node not in hosts]
    replicas = standing.replica_missing(free) or standing.surplus_replica()
    if replicas is not None or now - since < DWELL:
        return replicas
    return standing.better_place(free, forced=_is_ruled_out(primary, hints))


class _Standing:
    """A running detector, as it is and as it might be.

    Attributes:
        costs: as if it were not at its primary node.
    """

    def __init__(
        self,
        policy: Policy,
        situation: Situation,
        detector: str,
        subscribers: Sequence[Place],
        hosts: dict[str, str],
        primary: str,
    ) -> None:
        self.policy = policy
        self.situation = situation
        self.detector = detector
        self.subscribers = subscribers
        self.hosts = hosts
        self.primary = primary
        read = situation.reading.at(primary)
        alone: set[Stream] = {each for each in situation.reading.streams_of(detector) if read.get(each, 0) <= 1}
        self.costs = CostEstimate.of_running(situation, detector, gone={primary: alone})
        self._uses = {node: situation.use(node) for node in situation.nodes}
        self._uses[primary] -= self.costs.does.load / situation.capacity(primary)
        # The two nodes that are used the most tell the busiest of all but one.
        self._busiest = sorted(self._uses.items(), key=lambda each: -each[1])[:2]
        self._before = situation.bytes_over_links - self._bytes(primary)[0]

    def replica_missing(self, free: Sequence[str]) -> HostChange | None:
        """A further node, where there are fewer than wanted and some are free."""
        if len(self.hosts) >= self.policy.replicas or not free:
            return None
        now = self._candidate(self.hosts)
        new = {node: self.situation.home_of_node(node) for node in free}
        # What does not hear, or is not heard, is no replica.
        new = {node: home for node, home in new.items()
               if all(self._delay({node: home}, place) < inf for place in self.subscribers)}  # fmt: skip
        best = self._best({node: self._candidate({**self.hosts, node: home}, node) for node, home in new.items()})
        if best is None:
            return None
        node, after = best
        reason = (
            f"{self.policy.name} wants {self.policy.replicas} replicas, and there "
            f"{'is' if len(self.hosts) == 1 else 'are'} {len(self.hosts)}: a replica on {node}: {costs_in_words(after)}"
        )
        return HostChange("replicate", node, reason, now, after)

    def surplus_replica(self) -> HostChange | None:
        """A replica that nobody needs: replicas beyond their number, else one that is nearest to no subscriber."""
        replicas = [node for node in self.hosts if node != self.primary]
        if not replicas:
            return None
        now = self._candidate(self.hosts)
        if self.policy.replicas > 1:
            if len(self.hosts) <= self.policy.replicas:
                return None
            left = {node: {each: home for each, home in self.hosts.items() if each != node} for node in replicas}
            best = self._best({node: self._candidate(hosts) for node, hosts in left.items()})
            if best is None:
                return None
            node, after = best
            reason = f"{self.policy.name} wants {self.policy.replicas} replicas, and there are {len(self.hosts)}"
            return HostChange(
                "drop", node, f"{reason}: the replica on {node} goes: {costs_in_words(after)}", now, after
            )
        heard = {self._nearest(self.hosts, place) for place in self.subscribers}
        homes = list(self.hosts.values())
        for node in sorted(replicas):
            rest = {each: home for each, home in self.hosts.items() if each != node}
            idle = self.hosts[node] not in heard
            # Who listens at a server hears everybody who publishes there.
            twice = homes.count(self.hosts[node]) > 1 and self.policy.reuse != "none"
            if not idle and not twice:
                continue
            after = self._candidate(rest)
            if after.delay <= now.delay:
                reason = f"the replica on {node} has no subscriber that others are not as near to"
                return HostChange("drop", node, reason, now, after)
        return None

    def better_place(self, free: Sequence[str], *, forced: bool) -> HostChange | None:
        """Another node, where that is better and pays; any other where it may not stay."""
        now = self._candidate(self.hosts)
        candidates = {node: self._candidate(self._hosts_at(node)) for node in free}
        priced = {node: self._priced(each, node) for node, each in candidates.items()}
        reached = {node: each for node, each in priced.items() if each.delay < inf}
        best = self._best(reached)
        if best is None:
            return None
        node, with_price = best
        after = candidates[node]
        rank, other = _settled(self.policy.rank(now)), _settled(self.policy.rank(with_price))
        relieved = now.overloaded and not with_price.overloaded
        if with_price.overloaded and not now.overloaded and not forced:
            return None
        if not (forced or relieved or is_better(other, rank)):
            return None
        why = "hints do not let it stay" if forced else f"better by {MARGIN:.0%} or more, the move included"
        size, pause = self._state(), self._pause(node)
        reason = (
            f"{self.policy.name}: {node} instead of {self.primary}, {why}: {_words(after)} instead of {_words(now)}; "
            f"the move takes {show_time(pause)} and {size:,.0f} bytes of state, to be paid within {HORIZON // SECOND} s"
        )
        return HostChange("move", node, reason, now, after)

    # Figures.

    def _candidate(self, hosts: dict[str, str], added: str = "") -> Candidate:
        """The costs with these hosts. The first one is the primary; `added` is one that would be new beside it."""
        situation, costs = self.situation, self.costs
        node = added or next(iter(hosts))
        amount, cost = self._bytes(node)
        uses = dict(self._uses)
        for each in {next(iter(hosts)), node}:
            uses[each] += costs.does.load / situation.capacity(each)
        delays = [self._delay(hosts, place) for place in self.subscribers]
        return Candidate(
            "replicate" if added else "create",
            0,
            node,
            (),
            delay=mean(delays),
            farthest=max(delays),
            bytes=amount,
            cost=cost,
            load=costs.does.load,
            own=uses[node],
            peak=max(uses[node], *(use for each, use in self._busiest if each != node), 0.0),
            bytes_before=self._before,
            peak_before=self._busiest[0][1] if self._busiest else 0.0,
            missing=max(self.policy.replicas - len(hosts), 0),
            sites=min(len({situation.site_of_node(each) for each in hosts}), self.policy.replicas),
            limited=situation.knows_capacity,
        )

    def _hosts_at(self, node: str) -> dict[str, str]:
        """The hosts when the primary has moved to a node. The home of its topic stays."""
        return {node if each == self.primary else each: home for each, home in self.hosts.items()}

    def _bytes(self, node: str) -> tuple[float, float]:
        """Bytes a second over links, and their cost, that the detector makes on a node: what it reads, what it sends to
        its home. What goes from there to subscribers is the same wherever it is."""
        costs = self.costs
        read, cost = costs.reading(node)
        home = self.hosts.get(node, self.hosts[self.primary])
        sent, sent_cost = costs.sending(node, home)
        return read + sent, cost + sent_cost

    def _delay(self, hosts: dict[str, str], place: Place) -> float:
        situation = self.situation
        heard = hosts.items()
        if self.policy.replicas == 1:
            nearest = self._nearest(hosts, place)
            heard = {node: home for node, home in hosts.items() if home == nearest}.items()
        return min(
            self.costs.wait(node) + situation.to_node(home, node) + situation.to_place(home, place)
            for node, home in heard
        )

    def _nearest(self, hosts: dict[str, str], place: Place) -> str:
        return min(hosts.values(), key=lambda home: (self.situation.to_place(home, place), home))

    # The price of a move.

    def _priced(self, after: Candidate, node: str) -> Candidate:
        """The costs of another node with the price of the move, spread over the horizon."""
        pause, size = self._pause(node), self._state()
        way = self.situation.network.way(self.situation.site_of_node(self.primary), self.situation.site_of_node(node))
        hops, cost = (0, 0.0) if way is None else (way.hops, way.cost)
        twice, twice_cost = self.costs.reading(node)
        share = pause / HORIZON
        load = after.load * share
        use = load / self.situation.capacity(node)
        return replace(
            after,
            # What happens in the pause is found at its end, on average half of it later.
            delay=after.delay + pause * share / 2,
            farthest=after.farthest + pause * share / 2,
            bytes=after.bytes + size * hops / (HORIZON / SECOND) + twice * share,
            cost=after.cost + size * cost / (HORIZON / SECOND) + twice_cost * share,
            load=after.load + load,
            own=after.own + use,
            peak=max(after.peak, after.own + use),
        )

    def _pause(self, node: str) -> float:
        """ns that the move takes, during which nothing is found: a few messages, and the state."""
        network = self.situation.network
        origin, target = self.situation.site_of_node(self.primary), self.situation.site_of_node(node)
        return HANDOVER + network.transfer(origin, target, self._state())

    def _state(self) -> int:
        return max(self.costs.does.state, 0)

    def _best(self, candidates: dict[str, Candidate]) -> tuple[str, Candidate] | None:
        return min(
            candidates.items(),
            key=lambda each: (each[1].overloaded, _settled(self.policy.rank(each[1])), lot(self.detector, each[0])),
            default=None,
        )


def is_better(rank: Rank, than: Rank) -> bool:
    """Whether a rank is better enough: by the margin in some figure, and those before it are not worse."""
    for new, old in zip(rank, than, strict=True):
        if new > old:
            return False
        if old - new >= MARGIN * abs(old) and new < old:
            return True
    return False


def _settled(rank: Rank) -> Rank:
    return tuple(float(f"{each:.9g}") for each in rank)


def _is_ruled_out(node: str, hints: Hints) -> bool:
    return node in hints.avoid or bool(hints.nodes and node not in hints.nodes)


def _words(candidate: Candidate) -> str:
    return (
        f"{show_time(candidate.delay)} to subscribers, {show_rate(candidate.bytes)} over links, "
        f"busiest node at {show_use(candidate, candidate.peak)}"
    )

"""Decision of a policy on a running detector: move, replicate, drop a replica, or stay; run regularly by its host.

composite-event-framework-2004, "Mobile Composite Event Detectors"; design, section 3.

*Price.* Transfer of the state, double reading, late detections: spread over a `HORIZON` and added to the costs of the
other node, which must still rank better, by a `MARGIN` in the first number that differs.

*Hysteresis.* No move within `DWELL` of the last; margins keep two detectors from displacing one another for ever. A
later number decides only where earlier ones do not get worse.

The primary keeps the number of replicas: a missing or surplus one comes before any move, without dwell time. A detector
leaves a draining node without dwell time, to wherever its policy ranks best.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

MARGIN: Final = 0.1  # Share by which the deciding number has to improve
HORIZON: Final = 60 * SECOND  # Time within which a move has to pay, ns
DWELL: Final = 30 * SECOND  # Least time between moves of a detector, ns
HANDOVER: Final = 500 * MILLISECOND  # Duration of a move beside the transfer of the state, ns: both nodes read
HostChangeKind: TypeAlias = Literal["move", "replicate", "drop"]
"""Move the detector, replicate it to a further node, or drop a replica."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """Proposed change of a running detector's hosts: the new one, or with `drop` the one given up; costs of both."""

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
    """Proposed change, or None; `subscribers`: places of listeners; `since`: arrival at the node, ns."""
    if detector not in situation.detectors or not subscribers:
        return None
    hosts = situation.hosts(detector)
    primary = situation.detectors[detector].node
    if primary not in hosts:
        # The next host decides.
        return None
    standing = _Standing(policy, situation, detector, subscribers, hosts, primary)
    free = [node for node in allowed_nodes(hints, situation) if node not in hosts]
    draining = {node for node in hosts if situation.nodes[node].draining}
    replicas = standing.replica_missing(free, draining - {primary}) or standing.surplus_replica()
    if replicas is not None or (now - since < DWELL and primary not in draining):
        return replicas
    return standing.better_place(free, forced=primary in draining or _is_ruled_out(primary, hints))


@dataclass
class _Standing:
    """A running detector, as it is and as it might be; `costs` as if it were not at its primary node."""

    policy: Policy
    situation: Situation
    detector: str
    subscribers: Sequence[Place]
    hosts: dict[str, str]
    primary: str

    def __post_init__(self) -> None:
        reading = self.situation.reading
        read = reading.at(self.primary)
        alone: set[Stream] = {each for each in reading.streams_of(self.detector) if read.get(each, 0) <= 1}
        self.costs = CostEstimate.of_running(self.situation, self.detector, gone={self.primary: alone})
        self._uses = {node: self.situation.use(node) for node in self.situation.nodes}
        self._uses[self.primary] -= self.costs.does.load / self.situation.capacity(self.primary)
        # The two nodes that are used the most tell the busiest of all but one.
        self._busiest = sorted(self._uses.items(), key=lambda each: -each[1])[:2]
        self._before = self.situation.bytes_over_links - self._bytes(self.primary)[0]

    def replica_missing(self, free: Sequence[str], draining: Collection[str]) -> HostChange | None:
        """A further replica, where one is missing and a node is free; replicas on `draining` nodes do not count."""
        if len(self.hosts.keys() - draining) >= self.policy.replicas or not free:
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
        """A replica to drop: beyond their number, else one that is nearest to no subscriber."""
        replicas = [node for node in self.hosts if node != self.primary]
        if not replicas:
            return None
        now = self._candidate(self.hosts)
        left = {node: {each: home for each, home in self.hosts.items() if each != node} for node in sorted(replicas)}
        if self.policy.replicas > 1:
            best = self._best({node: self._candidate(hosts) for node, hosts in left.items()})
            if len(self.hosts) <= self.policy.replicas or best is None:
                return None
            node, after = best
            reason = (
                f"{self.policy.name} wants {self.policy.replicas} replicas, and there are {len(self.hosts)}: "
                f"the replica on {node} goes: {costs_in_words(after)}"
            )
            return HostChange("drop", node, reason, now, after)
        heard = {self.situation.nearest_home(self.hosts.values(), place) for place in self.subscribers}
        homes = list(self.hosts.values())
        for node, rest in left.items():
            idle = self.hosts[node] not in heard
            # A listener at a server receives from all publishers there.
            twice = homes.count(self.hosts[node]) > 1 and self.policy.reuse != "none"
            if not idle and not twice:
                continue
            after = self._candidate(rest)
            if after.delay <= now.delay:
                reason = f"the replica on {node} has no subscriber that others are not as near to"
                return HostChange("drop", node, reason, now, after)
        return None

    def better_place(self, free: Sequence[str], *, forced: bool) -> HostChange | None:
        """A better node, the price of the move included; any other one where it may not stay."""
        now = self._candidate(self.hosts)
        candidates = {node: self._candidate(self._hosts_at(node)) for node in free}
        priced = {node: self._priced(each, node) for node, each in candidates.items()}
        reached = {node: each for node, each in priced.items() if each.delay < inf}
        best = self._best(reached)
        if best is None:
            return None
        node, with_price = best
        after = candidates[node]
        if not forced:
            if with_price.overloaded and not now.overloaded:
                return None
            relieved = now.overloaded and not with_price.overloaded
            if not relieved and not is_better(self._rank(with_price), self._rank(now)):
                return None
        why = f"better by {MARGIN:.0%} or more, the move included"
        if forced:
            draining = self.situation.nodes[self.primary].draining
            why = f"{self.primary} is drained" if draining else "hints do not let it stay"
        size, pause = self._state(), self._pause(node)
        reason = (
            f"{self.policy.name}: {node} instead of {self.primary}, {why}: {_words(after)} instead of {_words(now)}; "
            f"the move takes {show_time(pause)} and {size:,.0f} bytes of state, to be paid within {HORIZON // SECOND} s"
        )
        return HostChange("move", node, reason, now, after)

    # Figures.

    def _candidate(self, hosts: dict[str, str], added: str = "") -> Candidate:
        """Costs with these hosts, the primary first; `added` is a new one beside them."""
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
        """Hosts after a move of the primary. The home of its topic stays."""
        return {node if each == self.primary else each: home for each, home in self.hosts.items()}

    def _bytes(self, node: str) -> tuple[float, float]:
        """Bytes per second over links, and their cost, of reading at a node and sending to its home."""
        costs = self.costs
        read, cost = costs.reading(node)
        home = self.hosts.get(node, self.hosts[self.primary])
        sent, sent_cost = costs.sending(node, home)
        return read + sent, cost + sent_cost

    def _delay(self, hosts: dict[str, str], place: Place) -> float:
        situation = self.situation
        homes = set(hosts.values())
        if self.policy.replicas == 1:
            homes = {situation.nearest_home(homes, place)}
        return min(
            self.costs.wait(node) + situation.to_node(home, node) + situation.to_place(home, place)
            for node, home in hosts.items()
            if home in homes
        )

    # The price of a move.

    def _priced(self, after: Candidate, node: str) -> Candidate:
        """Costs of another node with the price of the move, spread over the horizon."""
        pause, size = self._pause(node), self._state()
        path = self.situation.network.path(self.situation.site_of_node(self.primary), self.situation.site_of_node(node))
        twice, twice_cost = self.costs.reading(node)
        share = pause / HORIZON
        load = after.load * share
        use = load / self.situation.capacity(node)
        return replace(
            after,
            # What happens in the pause is found at its end, on average half of it later.
            delay=after.delay + pause * share / 2,
            farthest=after.farthest + pause * share / 2,
            bytes=after.bytes + size * path.hops / (HORIZON / SECOND) + twice * share,
            cost=after.cost + size * path.cost / (HORIZON / SECOND) + twice_cost * share,
            load=after.load + load,
            own=after.own + use,
            peak=max(after.peak, after.own + use),
        )

    def _pause(self, node: str) -> float:
        """Duration of the move, ns, without detection: a few messages, and the state."""
        network = self.situation.network
        origin, target = self.situation.site_of_node(self.primary), self.situation.site_of_node(node)
        return HANDOVER + network.transfer(origin, target, self._state())

    def _state(self) -> int:
        return max(self.costs.does.state, 0)

    def _best(self, candidates: dict[str, Candidate]) -> tuple[str, Candidate] | None:
        return min(
            candidates.items(),
            key=lambda each: (each[1].overloaded, self._rank(each[1]), lot(self.detector, each[0])),
            default=None,
        )

    def _rank(self, candidate: Candidate) -> Rank:
        # What differs by less differs by rounding.
        return tuple(float(f"{each:.9g}") for each in self.policy.rank(candidate))


def is_better(rank: Rank, than: Rank) -> bool:
    """Whether a rank is better by the margin in some number, and not worse in those before it."""
    for new, old in zip(rank, than, strict=True):
        if new > old:
            return False
        if old - new >= MARGIN * abs(old) and new < old:
            return True
    return False


def _is_ruled_out(node: str, hints: Hints) -> bool:
    return node in hints.avoid or bool(hints.nodes and node not in hints.nodes)


def _words(candidate: Candidate) -> str:
    return (
        f"{show_time(candidate.delay)} to subscribers, {show_rate(candidate.bytes)} over links, "
        f"busiest node at {show_use(candidate, candidate.peak)}"
    )

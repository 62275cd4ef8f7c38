"""Decision of a policy on a running detector: move, replicate, drop a replica, or stay; run regularly by its host.

composite-event-framework-2004, "Mobile Composite Event Detectors"; design, section 3.

*Price.* Transfer of the state, double reading, late detections: spread over a `HORIZON` and added to the costs of the
other node, which must still rank better, by a `MARGIN` in the first number that differs.

*Hysteresis.* No move within `DWELL` of the last; margins keep two detectors from displacing one another for ever. A
later number decides only where earlier ones do not get worse. For the policy with the least impact bytes and load are
exchanged for each other by a large margin only (`pays`).

*Together.* Where a node reads a stream once for several detectors, none of them saves it by a move of its own, so that
each stays, although all of them would be better off elsewhere. Detectors that read the same and have the same policy
are therefore also considered as one, with the costs of all, and moved at the same time: where one went first, it would
pay for all until the others follow, and move back. Rejected: a share of the stream's bytes for each of its readers,
which lets the first one pay as much.

*Relief.* For a policy that aims at the use of the busiest node alone, detectors of this node and of others that have
the same policy change places where no move of one of them pays (`relief`).

The primary keeps the number of replicas: a missing or surplus one comes before any move, without dwell time. A detector
leaves a draining node without dwell time, to wherever its policy ranks best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.candidate import Candidate, Rank, least_impact
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.choose.ranking import lot
from distced.policies.distribution.choose.reasons import costs_in_words, show_rate, show_time, show_use
from distced.policies.distribution.choose.relief import relief
from distced.policies.distribution.estimate.busiest_node import BusiestNode
from distced.policies.distribution.estimate.costs import CostEstimate
from distced.policies.distribution.estimate.delays import mean
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place

MARGIN: Final = 0.1  # Share by which the deciding number has to improve
LOAD_MARGIN: Final = 0.02  # The same for the busiest node, of a policy that aims at its use alone: few detectors count
RELIEF_MARGIN: Final = 0.01  # The same for each of several moves that relieve it; their price is below
# Least decrease of the impact for a move that adds to either of bytes and load, as a share of all there is of both
IMPACT_MARGIN: Final = 0.3
HORIZON: Final = 60 * SECOND  # Time within which a move has to pay, ns
DWELL: Final = 30 * SECOND  # Least time between moves of a detector, ns
HANDOVER: Final = 500 * MILLISECOND  # Duration of a move beside the transfer of the state, ns: both nodes read
STEPS: Final = 2_000  # Bytes of the messages of a move beside its state
AS_TEXT: Final = 4 / 3  # Characters of a byte of state in its message
CALL: Final = 600  # Bytes with which a subscription is called to another home: offer, acceptance, answer
MOST_TOGETHER: Final = 16  # Detectors that are moved at the same time
MOST_NODES: Final = 10  # Nodes that are considered for these: the best ones for the first of them
HostChangeKind: TypeAlias = Literal["move", "replicate", "drop"]
"""Move the detector, replicate it to a further node, or drop a replica."""

Together: TypeAlias = tuple[str, frozenset[tuple[str, tuple[Place, ...]]], frozenset[str]]
"""Detectors of a node under a policy, with their listeners, and the nodes that they might move to together."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """Proposed change of a running detector's hosts: the new one, or with `drop` the one given up; costs of both.

    `together`: moves of other detectors, to which node, without which the move does not pay.
    """

    kind: HostChangeKind
    node: str
    reason: str
    before: Candidate
    after: Candidate
    together: tuple[tuple[str, str], ...] = ()


def reconsider(
    policy: Policy,
    situation: Situation,
    detector: str,
    subscribers: Sequence[Place],
    hints: Hints,
    since: int,
    now: int,
    beside: Mapping[str, Sequence[Place]] | None = None,
    tried: set[Together] | None = None,
) -> HostChange | None:
    """Proposed change, or None.

    Args:
        subscribers: places of listeners.
        since: arrival at the node, ns.
        beside: listeners of the other detectors of the node that may move to any node with it: of the same policy,
            without replicas.
        tried: groups of these that move together nowhere in this situation; those found here are added.
    """
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
    forced = primary in draining or _is_ruled_out(primary, hints)
    change = standing.better_place(free, forced=forced)
    if change is None and beside and not forced and len(hosts) == 1:
        change = standing.better_together(beside, free, set() if tried is None else tried)
    if change is None and not forced and len(hosts) == 1:
        change = standing.relief(free)
    return change


def gives_way(
    policy: Policy, situation: Situation, detector: str, subscribers: Sequence[Place], hints: Hints, node: str
) -> bool:
    """Whether a running detector may move to a node to relieve another one (`relief`)."""
    if detector not in situation.detectors or node not in allowed_nodes(hints, situation):
        return False
    hosts = situation.hosts(detector)
    primary = situation.detectors[detector].node
    if node in hosts or primary not in hosts:
        return False
    standing = _Standing(policy, situation, detector, subscribers, hosts, primary)
    after = standing.candidate_at(node)
    return _aims_at(policy, after) == (False, True) and after.delay < inf and not after.overloaded


def may_move_together(situation: Situation, detector: str) -> bool:
    """Whether it shares a stream on its node with others that are few enough to move together."""
    entry = situation.detectors.get(detector)
    if entry is None:
        return False
    read = situation.reading.at(entry.node)
    return any(1 < read.get(each, 0) <= MOST_TOGETHER for each in situation.reading.streams_of(detector))


class MovePrice(NamedTuple):
    """What a move adds to the costs of the other node: delay in ns, bytes and their cost, instances per second."""

    delay: float
    bytes: float
    cost: float
    load: float


@dataclass
class _Standing:
    """A running detector, as it is and as it might be; `costs` as if it were not at its primary node."""

    policy: Policy
    situation: Situation
    detector: str
    subscribers: Sequence[Place]
    hosts: dict[str, str]
    primary: str
    gone: Collection[Stream] | None = None
    """Streams that its node does not read without it; by default those that no other detector there reads."""

    def __post_init__(self) -> None:
        gone = self.gone
        if gone is None:
            gone = _only_read_by([self.detector], self.situation, self.primary)
        self.costs = CostEstimate.of_running(self.situation, self.detector, gone={self.primary: gone})
        self._uses = {node: self.situation.use(node) for node in self.situation.nodes}
        self._uses[self.primary] -= self.costs.does.load / self.situation.capacity(self.primary)
        self._busiest = BusiestNode(self._uses, self.situation.capacity)
        self._readers = self._places_of_readers(gone)
        # Costs on other nodes, the price of the move included, once they are known.
        self.reached: dict[str, Candidate] = {}

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
        candidates = {node: self.candidate_at(node) for node in free}
        priced = {node: self._priced(each, node) for node, each in candidates.items()}
        self.reached = {node: each for node, each in priced.items() if each.delay < inf}
        best = self._best(self.reached)
        if best is None:
            return None
        node, with_price = best
        after = candidates[node]
        if not forced:
            if with_price.overloaded and not now.overloaded:
                return None
            relieved = now.overloaded and not with_price.overloaded
            if not relieved and not self._is_better(with_price, now):
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
        beside = self._busiest.beside(node)
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
            peak=max(uses[node], 0.0 if beside is None else uses[beside], 0.0),
            rise=self._rise(node, costs.does.load),
            bytes_before=situation.bytes_over_links,
            peak_before=situation.busiest[1],
            missing=max(self.policy.replicas - len(hosts), 0),
            sites=min(len({situation.site_of_node(each) for each in hosts}), self.policy.replicas),
            limited=situation.knows_capacity,
        )

    def candidate_at(self, node: str) -> Candidate:
        """Costs with the primary at another node."""
        return self._candidate(self._hosts_at(node))

    def _home_at(self, node: str) -> str:
        """Home server at a node: where it publishes now, or would, for the home of its topic moves with it."""
        return self.hosts[node] if node in self.hosts else self.situation.home_of_node(node)

    def _hosts_at(self, node: str) -> dict[str, str]:
        """Hosts after a move of the primary."""
        return {node if each == self.primary else each: self._home_at(node) if each == self.primary else home
                for each, home in self.hosts.items()}  # fmt: skip

    def _bytes(self, node: str) -> tuple[float, float]:
        """Bytes per second over links, and their cost, of reading at a node and publishing there."""
        read, cost = self.costs.reading(node)
        sent, sent_cost = self.publishing_at(node)
        return read + sent, cost + sent_cost

    def publishing_at(self, node: str) -> tuple[float, float]:
        """Bytes per second over links, and their cost, from a node to its home, and from there to the readers that do
        not read a replica."""
        home = self._home_at(node)
        amount, cost = self.costs.sending(node, home)
        for place, times in self._readers.items():
            more, price = self.costs.publishing(home, place)
            amount, cost = amount + more * times, cost + price * times
        return amount, cost

    def delays_at(self, node: str) -> list[float]:
        """Delays to the subscribers with the primary at a node, ns."""
        hosts = self._hosts_at(node)
        return [self._delay(hosts, place) for place in self.subscribers]

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

    def _places_of_readers(self, gone: Collection[Stream]) -> Counter[Place]:
        """Places of what reads it at the primary's home, by number of connections; not of what moves with it."""
        situation, own = self.situation, Stream("composite", "", self.detector)
        nodes = [node for node in situation.reading.readers().get(own, ()) if node in situation.nodes]
        places = Counter(Place("node", node) for node in nodes if node != self.primary or own not in gone)
        # Nodes that read it as a part were counted as readers.
        parts = Counter(map(situation.home_of_node, situation.reading.reading_part(self.detector)))
        for home, number in situation.detectors[self.detector].readers.items():
            if number > parts[home]:
                places[Place("site", situation.site_of_home(home))] += number - parts[home]
        if len(self.hosts) == 1:
            return places
        at, heard = self.hosts[self.primary], situation.homes_heard
        return Counter({each: number for each, number in places.items()
                        if at in heard(self.detector, situation.site_of(each))})  # fmt: skip

    # The price of a move.

    def price(self, node: str) -> MovePrice:
        """Price of a move to another node, spread over the horizon."""
        pause, size = self._pause(node), AS_TEXT * self._state() + STEPS + self._calls(node)
        # Nodes write to each other over the server of the directory.
        there, back = (self.situation.network.path(self.situation.site_of_node(each), self.situation.network.directory)
                       for each in (self.primary, node))  # fmt: skip
        twice, twice_cost = self.costs.reading(node)
        share = pause / HORIZON
        return MovePrice(
            # What happens in the pause is found at its end, on average half of it later.
            delay=pause * share / 2,
            bytes=size * (there.hops + back.hops) / (HORIZON / SECOND) + twice * share,
            cost=size * (there.cost + back.cost) / (HORIZON / SECOND) + twice_cost * share,
            load=self.costs.does.load * share,
        )

    def _priced(self, after: Candidate, node: str) -> Candidate:
        """Costs of another node with the price of the move."""
        price = self.price(node)
        use = price.load / self.situation.capacity(node)
        return replace(
            after,
            delay=after.delay + price.delay,
            farthest=after.farthest + price.delay,
            bytes=after.bytes + price.bytes,
            cost=after.cost + price.cost,
            load=after.load + price.load,
            own=after.own + use,
            peak=max(after.peak, after.own + use),
            rise=self._rise(node, after.load + price.load),
        )

    def _rise(self, node: str, load: float) -> float:
        """Expected use that the detector's load adds to the busiest node."""
        return self._busiest.rise(node, load, self.costs.error)

    def _pause(self, node: str) -> float:
        """Duration of the move, ns, without detection: a few messages, and the state."""
        network, size = self.situation.network, self._state()
        origin, target = self.situation.site_of_node(self.primary), self.situation.site_of_node(node)
        there = network.transfer(origin, network.directory, size)
        return HANDOVER + there + network.transfer(network.directory, target, size)

    def _state(self) -> int:
        return max(self.costs.does.state, 0)

    def _is_better(self, candidate: Candidate, now: Candidate) -> bool:
        rank, than = self._rank(candidate), self._rank(now)
        if is_better(rank, than):
            return pays(self.policy, candidate, now)
        return _aims_at(self.policy, now) == (False, True) and is_better(rank[:1], than[:1], LOAD_MARGIN)

    def _calls(self, node: str) -> int:
        """Bytes with which its subscriptions are called to another home."""
        stays = self._home_at(node) == self.hosts[self.primary]
        return 0 if stays else CALL * self.situation.detectors[self.detector].subscriptions

    def _best(self, candidates: dict[str, Candidate]) -> tuple[str, Candidate] | None:
        return min(
            candidates.items(),
            key=lambda each: (each[1].overloaded, self._rank(each[1]), lot(self.detector, each[0])),
            default=None,
        )

    def _rank(self, candidate: Candidate) -> Rank:
        return rounded_rank(self.policy, candidate)

    # Several detectors as one.

    def better_together(
        self, beside: Mapping[str, Sequence[Place]], free: Sequence[str], tried: set[Together]
    ) -> HostChange | None:
        """A better node for this detector with others of its node that read the same streams."""
        now = self._candidate(self.hosts)
        if not _aims_at_bytes(self.policy, now):
            return None
        reading, own = self.situation.reading, set(self.costs.streams)
        alike = [name for name in sorted(beside) if reading.streams_of(name) and own >= set(reading.streams_of(name))]
        sharing = [name for name in sorted(beside) if not own.isdisjoint(reading.streams_of(name))]
        near = sorted((node for node in free if node in self.reached), key=lambda node: self._rank(self.reached[node]))
        for names in (alike, sharing) if alike != sharing else (sharing,):
            members = {self.detector: self.subscribers, **{name: beside[name] for name in names}}
            heard = frozenset((name, tuple(places)) for name, places in members.items())
            together = self.policy.text, heard, frozenset(near[:MOST_NODES])
            # What holds for one of them holds for all.
            if 0 < len(names) < MOST_TOGETHER and together not in tried:
                group = _Group(self, {name: beside[name] for name in names})
                change = group.better_place(near[:MOST_NODES])
                if change is not None:
                    return change
                tried.add(together)
        return None

    def relief(self, free: Sequence[str]) -> HostChange | None:
        """A place for this detector of the busiest node with others, there and elsewhere, that make room."""
        situation = self.situation
        if situation.busiest[0] != self.primary:
            return None
        now = self._candidate(self.hosts)
        if _aims_at(self.policy, now) != (False, True):
            return None
        nodes = {self.primary, *(node for node in free if node in self.reached)}
        movable = {
            name: entry.node
            for name, entry in situation.detectors.items()
            if entry.node in nodes and not entry.replicas and entry.distribution == self.policy.text
        }
        found = relief(
            {name: situation.measures.of(name).load for name in movable},
            movable,
            {node: situation.use(node) for node in sorted(nodes)},
            {node: situation.capacity(node) for node in nodes},
            RELIEF_MARGIN,
            LOAD_MARGIN,
        )
        if found is None or self.detector not in found.nodes:
            return None
        node = found.nodes[self.detector]
        others = tuple((name, found.nodes[name]) for name in sorted(found.nodes) if name != self.detector)
        reason = (
            f"{self.policy.name}: {node} instead of {self.primary}, with "
            f"{', '.join(f'{name} to {to}' for name, to in others)}: busiest node at {show_use(now, found.after)} "
            f"instead of {show_use(now, found.before)}, better by {RELIEF_MARGIN:.0%} or more for each move"
        )
        return HostChange("move", node, reason, now, replace(self.reached[node], peak=found.after), others)


class _Group:
    """A detector and others of its node, none with replicas, as they are and as they might be together elsewhere."""

    def __init__(self, first: _Standing, others: Mapping[str, Sequence[Place]]) -> None:
        situation, primary = first.situation, first.primary
        self._policy = first.policy
        self._situation = situation
        self._primary = primary
        gone = _only_read_by([first.detector, *others], situation, primary)
        self._members = [
            _Standing(first.policy, situation, name, places, situation.hosts(name), primary, gone)
            for name, places in {first.detector: first.subscribers, **others}.items()
        ]
        self._load = sum(each.costs.does.load for each in self._members)
        self._uses = {node: situation.use(node) for node in situation.nodes}
        self._uses[primary] -= self._load / situation.capacity(primary)
        self._busiest = BusiestNode(self._uses, situation.capacity)

    def better_place(self, nodes: Sequence[str]) -> HostChange | None:
        """A better one of these nodes for all, the price of the moves included."""
        now = self._candidate(self._primary)
        after = {node: self._candidate(node) for node in nodes}
        priced = {node: self._priced(each) for node, each in after.items()}
        first = self._members[0].detector
        node = min(
            (node for node, each in priced.items() if each.delay < inf and not each.overloaded),
            key=lambda node: (self._rank(priced[node]), lot(first, node)),
            default=None,
        )
        if node is None or not is_better(self._rank(priced[node]), self._rank(now)):
            return None
        if not pays(self._policy, priced[node], now):
            return None
        names = tuple(each.detector for each in self._members[1:])
        reason = (
            f"{self._policy.name}: {node} instead of {self._primary}, together with {', '.join(names)}, which read "
            f"the same, better by {MARGIN:.0%} or more, the moves included: {_words(after[node])} instead of "
            f"{_words(now)}; to be paid within {HORIZON // SECOND} s"
        )
        return HostChange("move", node, reason, now, after[node], tuple((name, node) for name in names))

    def _candidate(self, node: str) -> Candidate:
        situation = self._situation
        amount, cost = self._bytes(node)
        uses = {**self._uses, node: self._uses[node] + self._load / situation.capacity(node)}
        delays = [delay for each in self._members for delay in each.delays_at(node)]
        return Candidate(
            "create", 0, node, (), delay=mean(delays), farthest=max(delays), bytes=amount, cost=cost, load=self._load,
            own=uses[node], peak=max(uses.values()), rise=self._rise(node, self._load),
            bytes_before=situation.bytes_over_links, peak_before=situation.busiest[1], missing=0, sites=1,
            limited=situation.knows_capacity,
        )  # fmt: skip

    def _rise(self, node: str, load: float) -> float:
        """Expected use that their loads add to the busiest node."""
        error = sqrt(sum(each.costs.error**2 for each in self._members))
        return self._busiest.rise(node, load, error)

    def _bytes(self, node: str) -> tuple[float, float]:
        """Bytes per second over links, and their cost, of reading at a node, each stream once, and sending."""
        amount = cost = 0.0
        # What one of them reads of another moves along.
        seen = {Stream("composite", "", each.detector) for each in self._members}
        for each in self._members:
            for more, price in (each.costs.reading(node, seen), each.publishing_at(node)):
                amount, cost = amount + more, cost + price
            seen.update(each.costs.streams)
        return amount, cost

    def _priced(self, after: Candidate) -> Candidate:
        """Costs of another node with the prices of all moves, of which each reads for itself meanwhile."""
        priced = [each.price(after.node) for each in self._members]
        load = sum(each.load for each in priced)
        use = load / self._situation.capacity(after.node)
        late = sum(each.delay for each in priced) / len(priced)
        return replace(
            after,
            delay=after.delay + late,
            farthest=after.farthest + late,
            bytes=after.bytes + sum(each.bytes for each in priced),
            cost=after.cost + sum(each.cost for each in priced),
            load=after.load + load,
            own=after.own + use,
            peak=max(after.peak, after.own + use),
            rise=self._rise(after.node, after.load + load),
        )

    def _rank(self, candidate: Candidate) -> Rank:
        return rounded_rank(self._policy, candidate)


def rounded_rank(policy: Policy, candidate: Candidate) -> Rank:
    """Rank without differences by rounding."""
    return tuple(float(f"{each:.9g}") for each in policy.rank(candidate))


def pays(policy: Policy, candidate: Candidate, now: Candidate) -> bool:
    """Whether a move to less impact is one for certain: by `IMPACT_MARGIN`, or with neither bytes nor load more.

    Each may be exchanged for the other, by figures that were measured apart from each other and lag behind.
    """
    # As a whole: the first numbers of others are equal where all are 0.
    if any(tuple(policy.rank(each)) != least_impact(each) for each in (candidate, now)):
        return True
    # The smallest differences of expected use are noise, as in the rank.
    if candidate.bytes <= now.bytes and round(candidate.more_use, 2) <= round(now.more_use, 2):
        return True
    return now.impact - candidate.impact >= IMPACT_MARGIN


def _only_read_by(detectors: Collection[str], situation: Situation, node: str) -> set[Stream]:
    """Streams that no other detector of a node reads."""
    reading = situation.reading
    counts = Counter(stream for each in detectors for stream in reading.streams_of(each))
    read = reading.at(node)
    return {stream for stream, count in counts.items() if read.get(stream, 0) <= count}


def _aims_at_bytes(policy: Policy, candidate: Candidate) -> bool:
    """Whether the aim of a policy, the first number of its rank, depends on the bytes over links."""
    return _aims_at(policy, candidate)[0]


def _aims_at(policy: Policy, candidate: Candidate) -> tuple[bool, bool]:
    """Whether the aim of a policy depends on the bytes over links, and whether on the use of the busiest node."""
    more = replace(candidate, bytes=candidate.bytes + candidate.bytes_before + 1.0, cost=candidate.cost + 1.0)
    busier = replace(
        candidate,
        own=candidate.own * 2 + 1.0,
        peak=candidate.peak * 2 + 1.0,
        rise=candidate.rise + candidate.peak_before + 1.0,
    )
    aim = policy.rank(candidate)[:1]
    return policy.rank(more)[:1] != aim, policy.rank(busier)[:1] != aim


def is_better(rank: Rank, than: Rank, margin: float = MARGIN) -> bool:
    """Whether a rank is better by the margin in some number, and not worse in those before it."""
    for new, old in zip(rank, than, strict=True):
        if new > old:
            return False
        if old - new >= margin * abs(old) and new < old:
            return True
    return False


def _is_ruled_out(node: str, hints: Hints) -> bool:
    return node in hints.avoid or bool(hints.nodes and node not in hints.nodes)


def _words(candidate: Candidate) -> str:
    return (
        f"{show_time(candidate.delay)} to subscribers, {show_rate(candidate.bytes)} over links, "
        f"busiest node at {show_use(candidate, candidate.peak)}"
    )

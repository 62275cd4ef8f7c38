"""Candidates for one request, with their costs, ranked.

Each alternative on each node, the running detector, its replicas. Sets of nodes are enumerated up to `MOST_SETS`; above
that the search is greedy from the best single node, then exchanges nodes while that improves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import combinations
from math import comb, hypot, inf
from typing import Final, NamedTuple, TypeAlias

from distced.detectors.cutting.cut import DetectorGraph
from distced.middleware.model.detection import BEST_EFFORT
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import NO_HINTS, Hints
from distced.policies.distribution.candidate import Action, Candidate, Rank
from distced.policies.distribution.choose.alternatives import may_be_read
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.estimate.busiest_node import BusiestNode
from distced.policies.distribution.estimate.costs import Assumed, CostEstimate
from distced.policies.distribution.estimate.delays import mean
from distced.policies.distribution.estimate.detector_estimate import Part
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place

MOST_SETS: Final = 1000  # Number of node sets that are examined one by one
NEAR: Final = 40  # Number of best single nodes that are combined where there are more sets
Key: TypeAlias = tuple[bool, Rank, int, int, tuple[int, ...]]
"""Sort key of candidates: overloaded, rank of the policy, action, alternative, lots of the nodes."""

_ORDER: Final[dict[Action, int]] = {"reuse": 1, "create": 2, "replicate": 3}
"""Of equals, the running detector is left alone."""


def lot(name: str, node: str) -> int:
    """Lot of a node for a name, least wins among equals: rendezvous hashing, the same on all nodes, evenly spread."""
    return int.from_bytes(blake2b(f"{name}\0{node}".encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Request:
    """Request for a detector.

    Attributes:
        id: of the detector: canonical form, exports and detection policy.
        graphs: alternatives to detect the pattern, cut at the top only, at least one; the detector is the root of each.
        subscribers: their places, `Situation.place_of` the client, at least one.
        derivations, constituents: whether it is read as part of a pattern; whether constituents are sent along.
    """

    id: str
    graphs: tuple[DetectorGraph, ...]
    subscribers: tuple[Place, ...]
    hints: Hints = NO_HINTS
    detection: str = "guaranteed"
    derivations: bool = False
    constituents: bool = False


@dataclass
class Ranking:
    """Candidates for one request.

    Attributes:
        nodes: allowed nodes, at least one.
        running: present hosts, the primary first, and their home servers.
        costs: of each alternative; of a running detector its own.
    """

    policy: Policy
    situation: Situation
    request: Request
    nodes: tuple[str, ...]
    running: Mapping[str, str]
    costs: Sequence[CostEstimate] = ()

    def __post_init__(self) -> None:
        situation = self.situation
        if not self.costs and self.running:
            self.costs = [CostEstimate.of_running(situation, self.request.id)]
        elif not self.costs:
            self.costs = [self._costs(graph) for graph in self.request.graphs]
        self._bytes_before = situation.bytes_over_links
        self._peak_before = situation.busiest[1]
        self._limited = situation.knows_capacity
        self._uses = situation.uses
        self._capacity = situation.capacity
        self._busiest = BusiestNode(self._uses, self._capacity)
        self._alone: dict[tuple[int, str], _Alone] = {}
        self._listeners: dict[tuple[int, str], list[_Listener]] = {}
        self._keys: dict[tuple[Action, int, tuple[str, ...]], Key] = {}

    # Candidates.

    def of_new(self) -> Iterable[Candidate]:
        """Candidates of a new detector: each alternative on each node, or set of nodes."""
        if len(self.nodes) < self.policy.replicas:
            raise too_few(self.policy, self.nodes)
        for alternative in range(len(self.costs)):
            yield from self._sets(alternative, "create", self.nodes, self.policy.replicas, {})

    def of_running(self) -> Iterable[Candidate]:
        """Candidates of a running detector: as it is, where the policy allows that, or with further replicas."""
        free = tuple(node for node in self.nodes if node not in self.running)
        short = max(self.policy.replicas - len(self.running), 0)
        where = allowed_nodes(self.request.hints, self.situation, reserved=True)
        allowed = may_be_read(self.request.id, self.policy, self.situation, self.request.subscribers, where)
        if len(free) < short:
            raise too_few(self.policy, (*self.running, *free))
        if not short and (allowed or not free):
            yield self.candidate("reuse", 0, (), self.running)
        if short or not allowed or self.policy.replicas == 1:
            yield from self._sets(0, "replicate", free, max(short, 1), self.running)

    def _sets(
        self, alternative: int, action: Action, nodes: Sequence[str], count: int, there: Mapping[str, str]
    ) -> Iterable[Candidate]:
        @cache
        def made(chosen: tuple[str, ...]) -> Candidate:
            return self.candidate(action, alternative, chosen, there)

        if count > 1 or there:
            # What does not hear, or is not heard, is no replica.
            nodes = [node for node in nodes if self._on(alternative, node, "").delay < inf]
            if len(nodes) < count and len(there) < self.policy.replicas:
                raise too_few(self.policy, (*there, *nodes))
        if count <= 1:
            yield from (self.candidate(action, alternative, (node,), there) for node in nodes)
            return
        if comb(len(nodes), count) <= MOST_SETS:
            yield from (self._first(made, chosen) for chosen in combinations(nodes, count))
            return
        alone = sorted((made((node,)) for node in nodes), key=self.key)
        best, nodes = alone[0], [each.node for each in alone[:NEAR]]
        while len(best.nodes) < count:
            best = min((made((*best.nodes, node)) for node in nodes if node not in best.nodes), key=self.key)
        while True:
            exchanged = [
                made((*best.nodes[:place], node, *best.nodes[place + 1 :]))
                for place in range(count)
                for node in nodes
                if node not in best.nodes
            ]
            better = min(exchanged, key=self.key)
            if self.key(better) >= self.key(best):
                break
            best = better
        yield self._first(made, best.nodes)
        yield from (self._first(made, each.nodes) for each in exchanged)

    def _first(self, made: Callable[[tuple[str, ...]], Candidate], chosen: tuple[str, ...]) -> Candidate:
        """The candidate with the best single node as the primary."""
        if len(chosen) > 1:
            chosen = tuple(sorted(chosen, key=lambda node: self.key(made((node,)))))
        return made(chosen)

    def candidate(
        self, action: Action, alternative: int, chosen: tuple[str, ...], there: Mapping[str, str]
    ) -> Candidate:
        """Costs of one alternative on these nodes, beside its present hosts."""
        costs, assumed = self.costs[alternative], self.costs[alternative].assumed
        new = [self._on(alternative, node, "") for node in chosen]
        amount, cost = assumed.bytes + costs.louder[0], assumed.cost + costs.louder[1]
        for each in new:
            amount, cost = amount + each.read, cost + each.read_cost
        if len(new) == 1 and not there:
            every, delays = new, new[0].delays
            for listener in new[0].listeners:
                amount, cost = amount + listener.bytes, cost + listener.cost
        else:
            every = [*(self._on(alternative, node, home) for node, home in there.items()), *new]
            hosts = {each.node: each.home for each in every}
            delays = []
            for number, place in enumerate(self.request.subscribers):
                heard = [self._on(alternative, node, hosts[node]) for node in self.heard(hosts, place)]
                delays.append(min(each.delays[number] for each in heard))
                for each in heard:
                    listener = each.listeners[number]
                    amount, cost = amount + listener.bytes, cost + listener.cost
        added = dict(assumed.loads)
        for node in chosen:
            added[node] = added.get(node, 0.0) + costs.load
        uses = {node: self._uses[node] + load / self._capacity(node) for node, load in added.items()}
        nodes = chosen or (min(every, key=lambda each: (each.delay, each.node)).node,)
        replicas = self.policy.replicas
        return Candidate(
            action,
            alternative,
            nodes[0],
            nodes[1:],
            delay=delays[0] if len(delays) == 1 else mean(delays),
            farthest=max(delays),
            bytes=amount,
            cost=cost,
            load=sum(added.values()),
            own=max(uses.values(), default=0.0),
            peak=max(self._peak_before, *uses.values()) if uses else self._peak_before,
            rise=max((self._rise(node, load, costs, assumed) for node, load in added.items()), default=0.0),
            bytes_before=self._bytes_before,
            peak_before=self._peak_before,
            missing=max(replicas - len(every), 0),
            sites=1 if replicas == 1 else min(len({each.site for each in every}), replicas),
            limited=self._limited,
            parts=len(assumed.homes),
        )

    def _rise(self, node: str, added: float, costs: CostEstimate, assumed: Assumed) -> float:
        """Expected use that the load added to a node adds to the busiest one."""
        own = costs.error if added > assumed.loads.get(node, 0.0) else 0.0
        return self._busiest.rise(node, added, hypot(assumed.errors.get(node, 0.0), own))

    def heard(self, hosts: Mapping[str, str], place: Place) -> list[str]:
        """Hosts that a subscriber listens to: all for reliability, else those at the nearest server."""
        if self.policy.replicas > 1 or len(hosts) == 1:
            return list(hosts)
        nearest = self.situation.nearest_home(hosts.values(), place)
        return [node for node, home in hosts.items() if home == nearest]

    # Comparing.

    def key(self, candidate: Candidate) -> Key:
        name = (candidate.action, candidate.alternative, candidate.nodes)
        known = self._keys.get(name)
        if known is None:
            # What differs by less than this differs by rounding.
            rank = tuple([float(f"{each:.9g}") for each in self.policy.rank(candidate)])
            lots = tuple([lot(self.request.id, node) for node in candidate.nodes])
            # A pattern is cut where that is as good as leaving it whole.
            known = (candidate.overloaded, rank, _ORDER[candidate.action], -candidate.alternative, lots)
            self._keys[name] = known
        return known

    # Costs, each computed once.

    def _costs(self, graph: DetectorGraph) -> CostEstimate:
        request = self.request
        root = graph.roots[0]
        assumed = self._assumed(graph, graph.plans[root].parts)
        return CostEstimate.of_new(
            self.situation,
            graph,
            root,
            request.hints,
            derivations=request.derivations,
            constituents=request.constituents,
            guaranteed=request.detection == "guaranteed",
            promises=request.detection != BEST_EFFORT,
            assumed=assumed,
        )

    def _assumed(self, graph: DetectorGraph, parts: Sequence[str]) -> Assumed:
        """Parts yet to be made, each at the policy's own choice, in sequence."""
        assumed = Assumed()
        for part in parts:
            if self.situation.hosts(part):
                continue
            costs = CostEstimate.of_new(
                self.situation, graph, part, self.request.hints, derivations=True, constituents=True, guaranteed=True
            )
            # Beside those that were put somewhere before.
            costs.assumed = Assumed(loads=assumed.loads, errors=assumed.errors, reads=assumed.reads)
            request = replace(self.request, id=part, graphs=(graph,))
            choice = Ranking(self.policy, self.situation, request, self.nodes, {}, [costs])
            best = min((choice.candidate("create", 0, (each,), {}) for each in self.nodes), key=choice.key)
            node, load = best.node, costs.load
            assumed.homes[part] = self.situation.home_of_node(node)
            assumed.arrived[part] = costs.wait(node) + self.situation.to_node(assumed.homes[part], node)
            assumed.parts[part] = Part(costs.does, costs.watermark_rate)
            assumed.loads[node] = assumed.loads.get(node, 0.0) + load
            assumed.errors[node] = hypot(assumed.errors.get(node, 0.0), costs.error)
            read, read_cost = costs.reading(node)
            assumed.bytes += read + costs.louder[0]
            assumed.cost += read_cost + costs.louder[1]
            assumed.reads.setdefault(node, set()).update(costs.streams)
        return assumed

    def _on(self, alternative: int, node: str, home: str) -> _Alone:
        """Costs of a detector on one node; a new one publishes at the node's own server."""
        known = self._alone.get((alternative, node))
        if known is None:
            situation, costs = self.situation, self.costs[alternative]
            home = home if node in self.running else situation.home_of_node(node)
            arrived = costs.wait(node) + situation.to_node(home, node)
            listeners = self._listening(alternative, home)
            delays = [arrived + each.latency for each in listeners]
            read, read_cost = costs.reading(node)
            known = _Alone(node, home, situation.site_of_node(node), mean(delays), read, read_cost, delays, listeners)
            self._alone[alternative, node] = known
        return known

    def _listening(self, alternative: int, home: str) -> list[_Listener]:
        known = self._listeners.get((alternative, home))
        if known is None:
            known = self._listeners[alternative, home] = [
                _Listener(self.situation.to_place(home, place), *self.publishing(alternative, home, place))
                for place in self.request.subscribers
            ]
        return known

    def publishing(self, alternative: int, home: str, place: Place) -> tuple[float, float]:
        """Bytes per second, and their cost, that a listener at a home server adds to links."""
        own = Stream("composite", "", self.request.id)
        if self.running and place.kind == "node" and own in self.situation.reading.at(place.name):
            # Its connection carries that already.
            return 0.0, 0.0
        return self.costs[alternative].publishing(home, place)


class _Listener(NamedTuple):
    """Subscriber of a host: ns from the home server; bytes per second it adds to links, and their cost."""

    latency: float
    bytes: float
    cost: float


class _Alone(NamedTuple):
    """A detector on one node: mean delay and each subscriber's, ns; bytes per second its reading adds, and cost."""

    node: str
    home: str
    site: str
    delay: float
    read: float
    read_cost: float
    delays: list[float]
    listeners: list[_Listener]


def too_few(policy: Policy, nodes: Sequence[str]) -> DistcedError:
    """Error for fewer nodes than replicas."""
    return DistcedError(
        f"{policy.replicas} replicas need as many nodes",
        given=f"{len(nodes)} there: {', '.join(nodes)}" if nodes else "none is there",
        allowed=f"{policy.replicas} nodes or more",
        where=f"distribution policy {policy.name}",
        advice="start further nodes, or take back hints that leave too few, or take another policy",
    )

"""The candidates for one request, with their figures, and how they compare.

All that may be done is laid out: each way to detect the pattern on each node, listening to the detector there is,
copies of it. Nothing is tried out: a hundred nodes with two ways are two hundred candidates. Sets of nodes, for
replicas, are all looked at while they are few (`MOST_SETS`); else the best node comes first, further ones are added one
by one, and then each is exchanged as long as that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Final

from detectors.cutting.graph import DetectorGraph
from middleware.errors import DistcedError
from policies.distribution.candidates import Action, Candidate, Rank
from policies.distribution.delays import mean
from policies.distribution.figures import Assumed, Figures
from policies.distribution.policy import Policy
from policies.distribution.request import Request
from policies.distribution.situation import Situation, Stream
from policies.distribution.ties import lot
from policies.distribution.ways import may_be_read
from policies.topology.model import Place

MOST_SETS: Final = 1000
"""So many sets of nodes are looked at one by one."""

_ORDER: Final[dict[Action, int]] = {"reuse": 1, "create": 2, "copy": 3}
"""What is there already is best left alone."""


class Choice:
    """The candidates for one request.

    Attributes:
        figures: of each way; of a detector that is there its own, once.
    """

    def __init__(
        self,
        policy: Policy,
        situation: Situation,
        request: Request,
        nodes: tuple[str, ...],
        running: Mapping[str, str],
        figures: Sequence[Figures] | None = None,
    ) -> None:
        """
        Args:
            nodes: those it may stand on, at least one.
            running: the nodes that host it already, the primary first, and the home servers they publish at.
            figures: of each way, where they are known already.
        """
        self.policy = policy
        self.situation = situation
        self.request = request
        self.nodes = nodes
        self.running = running
        self.figures: Sequence[Figures]
        if figures is not None:
            self.figures = figures
        elif running:
            self.figures = [Figures.of_running(situation, request.id)]
        else:
            self.figures = [self._figures(graph) for graph in request.graphs]
        self._bytes_before = situation.bytes_over_links
        self._peak_before = situation.busiest[1]
        self._told: dict[tuple[int, str, Place], tuple[float, float]] = {}
        self._alone: dict[tuple[int, str], tuple[float, float, float]] = {}

    # Candidates.

    def of_new(self) -> Iterable[Candidate]:
        """It is not there yet: each way on each node, or set of nodes."""
        if len(self.nodes) < self.policy.replicas:
            raise too_few(self.policy, self.nodes)
        for way in range(len(self.figures)):
            yield from self._sets(way, "create", self.nodes, self.policy.replicas, {})

    def of_running(self) -> Iterable[Candidate]:
        """It is there: listen to it as it is, where the policy allows that, or have it copied."""
        free = tuple(node for node in self.nodes if node not in self.running)
        short = max(self.policy.replicas - len(self.running), 0)
        allowed = may_be_read(self.request.id, self.policy, self.situation, self.request.subscribers, self.nodes)
        if len(free) < short:
            raise too_few(self.policy, (*self.running, *free))
        if not short and (allowed or not free):
            yield self.candidate("reuse", 0, (), self.running)
        yield from self._sets(0, "copy", free, max(short, 1), self.running)

    def _sets(
        self, way: int, action: Action, nodes: Sequence[str], count: int, there: Mapping[str, str]
    ) -> Iterable[Candidate]:
        def made(chosen: tuple[str, ...]) -> Candidate:
            return self.candidate(action, way, chosen, there)

        if count <= 1 or comb(len(nodes), count) <= MOST_SETS:
            yield from (self._first(made, chosen) for chosen in combinations(nodes, count))
            return
        best = min((made((node,)) for node in nodes), key=self.key)
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
        """Of several nodes the one that would be chosen by itself is the primary."""
        if len(chosen) > 1:
            chosen = tuple(sorted(chosen, key=lambda node: self.key(made((node,)))))
        return made(chosen)

    def candidate(self, action: Action, way: int, chosen: tuple[str, ...], there: Mapping[str, str]) -> Candidate:
        """The figures of one way on these nodes, beside those that host it already."""
        situation, figures = self.situation, self.figures[way]
        assumed = figures.assumed
        amount, cost = assumed.bytes, assumed.cost
        added = dict(assumed.loads)
        hosts = {**there, **{node: situation.home_of_node(node) for node in chosen}}
        arrived: dict[str, float] = {}
        for node, home in hosts.items():
            wait, read, read_cost = self._on(way, node)
            arrived[node] = wait + situation.to_node(home, node)
            if node not in there:
                amount, cost = amount + read, cost + read_cost
                added[node] = added.get(node, 0.0) + figures.does.load
        delays = []
        for place in self.request.subscribers:
            heard = self.heard(hosts, place)
            delays.append(min(arrived[node] + situation.to_place(hosts[node], place) for node in heard))
            for node in heard:
                told, told_cost = self.telling(way, hosts[node], place)
                amount, cost = amount + told, cost + told_cost
        uses = {node: situation.use(node) + load / situation.capacity(node) for node, load in added.items()}
        nodes = chosen or (min(hosts, key=lambda node: (self._distance(node, hosts), node)),)
        own = max((uses[node] for node in chosen), default=0.0)
        return Candidate(
            action,
            way,
            nodes[0],
            nodes[1:],
            delay=mean(delays),
            farthest=max(delays),
            bytes=amount,
            cost=cost,
            load=sum(added.values()),
            own=own,
            peak=max(self._peak_before, *uses.values()) if uses else self._peak_before,
            bytes_before=self._bytes_before,
            peak_before=self._peak_before,
            missing=max(self.policy.replicas - len(hosts), 0),
            sites=len({situation.site_of_node(node) for node in hosts}),
        )

    def heard(self, hosts: Mapping[str, str], place: Place) -> list[str]:
        """The hosts that a subscriber listens to: all where they are there for reliability, else those at the server
        from which it hears the soonest."""
        if self.policy.replicas > 1 or len(hosts) == 1:
            return list(hosts)
        nearest = min(hosts.values(), key=lambda home: (self.situation.to_place(home, place), home))
        return [node for node, home in hosts.items() if home == nearest]

    # Comparing.

    def key(self, candidate: Candidate) -> tuple[bool, Rank, int, int, int]:
        """What candidates are sorted by."""
        full = candidate.own > 1.0 and self.situation.knows_capacity
        # What differs by less than this differs by rounding.
        rank = tuple(float(f"{each:.9g}") for each in self.policy.rank(candidate))
        # A pattern is cut where that is as good as leaving it whole.
        return full, rank, _ORDER[candidate.action], -candidate.way, lot(self.request.id, candidate.nodes)

    # Figures, each reckoned once.

    def _figures(self, graph: DetectorGraph) -> Figures:
        request = self.request
        root = graph.roots[0]
        assumed = self._assumed(graph, graph.plans[root].parts)
        return Figures.of_new(
            self.situation,
            graph,
            root,
            request.hints,
            records=request.records,
            constituents=request.constituents,
            guaranteed=request.detection == "guaranteed",
            assumed=assumed,
        )

    def _assumed(self, graph: DetectorGraph, parts: Sequence[str]) -> Assumed:
        """Parts that are to be made, each where the policy would put it by itself, one after the other."""
        assumed = Assumed()
        for part in parts:
            if self.situation.hosts(part):
                continue
            figures = Figures.of_new(
                self.situation, graph, part, self.request.hints, records=True, constituents=True, guaranteed=True
            )
            # Beside those that were put somewhere before.
            figures.assumed = Assumed(loads=assumed.loads, reads=assumed.reads)
            request = replace(self.request, id=part, graphs=(graph,))
            choice = Choice(self.policy, self.situation, request, self.nodes, {}, [figures])
            best = min((choice.candidate("create", 0, (each,), {}) for each in self.nodes), key=choice.key)
            node, load = best.node, figures.does.load
            assumed.homes[part] = self.situation.home_of_node(node)
            assumed.arrived[part] = figures.wait(node) + self.situation.to_node(assumed.homes[part], node)
            assumed.measured[part] = figures.does
            assumed.loads[node] = assumed.loads.get(node, 0.0) + load
            assumed.reads.setdefault(node, set()).update(figures.streams)
            read, read_cost = figures.reading(node)
            assumed.bytes, assumed.cost = assumed.bytes + read, assumed.cost + read_cost
        return assumed

    def _on(self, way: int, node: str) -> tuple[float, float, float]:
        """How long a detector on a node waits, and what it adds by reading."""
        known = self._alone.get((way, node))
        if known is None:
            figures = self.figures[way]
            known = self._alone[way, node] = (figures.wait(node), *figures.reading(node))
        return known

    def telling(self, way: int, home: str, place: Place) -> tuple[float, float]:
        """What it adds to links, and their cost, that somebody listens at a home server."""
        key = (way, home, place)
        known = self._told.get(key)
        if known is None:
            known = self.figures[way].telling(home, place)
            if place.kind == "node" and Stream("composite", "", self.request.id) in self.situation.read_at(place.name):
                # Its connection carries that already.
                known = (0.0, 0.0)
            self._told[key] = known
        return known

    def _distance(self, node: str, hosts: Mapping[str, str]) -> float:
        return mean(self.situation.to_place(hosts[node], place) for place in self.request.subscribers)


def too_few(policy: Policy, nodes: Sequence[str]) -> DistcedError:
    """There are not as many nodes as the policy wants."""
    return DistcedError(
        f"{policy.replicas} replicas need as many nodes",
        given=f"{len(nodes)} there: {', '.join(nodes)}" if nodes else "none is there",
        allowed=f"{policy.replicas} nodes or more",
        where=f"distribution policy {policy.name}",
        advice="start further nodes, or take back hints that leave too few, or take another policy",
    )

"""Optimal placement by one metric: which parts are detected, in what way, where, and from where each is read.

composite-event-framework-2004, "Distribution Policies": policies are heuristics, which decide about one subscription at
a time. Here all are decided about at once, as a mixed-integer programme. *d* is a detector, *w* a way to detect it
(`space`), *n* a node, *s* a stream.

    z[d,w] ∈ {0,1}         d is detected in way w;  Σ_w z[d,w] = 1 for the patterns asked for, u[d] ∈ [0,1] for parts
    y[d,w,n] ∈ {0,1}       it is on n;              y <= z,  Σ_n y[d,w,n] >= z[d,w];  n hears what d reads, and is heard
    u[p] >= z[d,w]         where w reads the part p
    Σ load[d,w] y[d,w,n] <= capacity[n]             where capacities are known

*Bandwidth*: the bytes a second, summed over links.

    r[s,n] >= y[d,w,n]     n reads the stream s, once for all its readers          flow[s] · links(home of s → n)
    Σ_m f[p,m,n] = r[p,n]  composite events of p are read by n from m, f <= y[p,·,m]   flow[p] · links(m → n)
    Σ_m g[d,l,m] = 1       listeners at l read d from m, g <= y[d,·,m]            flow[d] · links(m → l)
    Σ g[d,l,m'] >= y[d,·,m]  from the nearest of its hosts: over all m' as near as m; alike of f, where n reads p. Left
                           out unless what is solved without it breaks it
    e[d,l,m] >= g + u' - 1 a pattern that others read as a part sends more, u' >= z of those   more[d] · links(m → l)

*Latency*: ns until subscribers hear, mean over patterns: Σ x[l,d,n,h] · delay[d,n,l,h] with Σ_n,h x = 1 and x <= y.
Patterns stay whole: what comes through a part comes no sooner than what is read where it comes from. *h* says where
that stands what the pattern reads by its type: x <= y[p,m] for each such p, on m. Without capacities only that from
where it is heard the soonest is looked at, else as many as `nearness.MOST`: beyond these the bound may not be reached,
and then nothing is proven.

*Load*: the least P with Σ load[d,w] y[d,w,n] <= P · capacity[n]. No more nodes are needed than there are detectors, and
of nodes that can do more none is worse; so only as many are looked at, those that can do the most.

*Reliability*: as bandwidth, with two hosts for each detector (Σ_n y = 2 z), at two sites where there are two and all
fits, each reader hearing both (Σ_m f = 2 r). Then nothing is lost with any one node; of all such placements it is the
one with the fewest bytes.

The equations for r, f and g are those of uncapacitated facility location, whose relaxation is nearly whole. To bound f
by y + r - 1 instead was rejected: its relaxation is 0. Nodes at one site read and send alike, so for bytes one at each
site stands for all, as long as what is put there fits on one of them; else all nodes are looked at.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from distced.detectors.cutting.cut import DetectorPlan
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.situation.rates import flow_of
from distced.policies.distribution.situation.readers import Stream
from distced.simulations.placement.evaluation import Cost, Metric, evaluate
from distced.simulations.placement.optimum.nearness import Beside, Nearness
from distced.simulations.placement.optimum.programme import OutOfTimeError, Programme, Solved
from distced.simulations.placement.problem import PlacementProblem


class Model:
    """Programme of a problem and a metric.

    Attributes:
        nodes: those considered.
        hosts: number of hosts of each detector, where it reaches as many.
    """

    def __init__(
        self,
        instance: PlacementProblem,
        near: Nearness,
        metric: Metric,
        *,
        every_node: bool = False,
        apart: bool = True,
        nearest: bool = False,
    ) -> None:
        """
        Args:
            every_node: consider all nodes instead of representatives.
            apart: hosts of one detector at different sites, where there are enough.
            nearest: listeners receive from the nearest of several hosts; else from that with the fewest bytes, which
                hardly ever differs.
        """
        self.instance = instance
        self.near = near
        self.metric = metric
        self.every_node = every_node
        self.apart = apart
        self.nearest = nearest
        self.programme = Programme()
        # By subscription the ways to receive it, with the detectors and nodes required.
        self._heard: list[dict[Hashable, Beside]] = []
        self.hosts = min(2, len(near.nodes)) if metric == "reliability" else 1
        self.alternatives = self._alternatives()
        self.nodes = self._nodes()
        self._place()
        match metric:
            case "latency":
                self._delays()
            case "load":
                self._peak()
            case _:
                self._reading()
                self._composites()
                self._listening()
        if metric != "load" and (every_node or metric == "latency"):
            self._capacities()

    # Candidates.

    def _alternatives(self) -> dict[str, list[DetectorPlan]]:
        space = self.instance.space
        if self.metric == "latency":
            return {name: [space.whole(name)] for name in dict.fromkeys(space.roots)}
        return {name: list(space.alternatives[name].values()) for name in space.ordered()}

    def _nodes(self) -> Sequence[str]:
        near = self.near
        if self.metric == "load":
            nodes = sorted(near.nodes, key=lambda node: (-near.capacity(node), node))
            return nodes if self._is_parted else nodes[: len(self.alternatives)]
        if self.metric == "latency" or self.every_node:
            return near.nodes
        # Of each site as many as there are to be hosts, those that can do the most.
        return near.representatives(self.hosts)

    def hosts_of(self, name: str) -> int:
        """Number of hosts for a detector."""
        return min(self.hosts, len(self.near.able(name)))

    def reaches(self, host: str, node: str) -> bool:
        """Whether composite events of one node reach another one."""
        return self.near.links(self.near.site(host), self.near.site(node)) < inf

    def load(self, plan: DetectorPlan) -> float:
        """Instances touched a second by a plan of a detector."""
        foreseen = self.instance.foreseen[plan.id]
        load = foreseen.load(plan.parts)
        return foreseen.loads[""] if load is None else load

    @cached_property
    def _is_parted(self) -> bool:
        """Whether some nodes do not reach one another, or some detector."""
        near = self.near
        sites = {near.site(node) for node in near.nodes}
        return any(len(near.able(name)) < len(near.nodes) for name in self.alternatives) or any(
            near.links(one, other) == inf for one in sites for other in sites
        )

    # Which ways are taken, and where.

    def _place(self) -> None:
        programme, roots = self.programme, set(self.instance.space.roots)
        for name, plans in self.alternatives.items():
            programme.variable(("u", name))
            for alternative in range(len(plans)):
                programme.variable(("z", name, alternative), whole=True)
                for node in self.nodes:
                    programme.variable(
                        ("y", name, alternative, node), whole=True, upper=float(node in self.near.able(name))
                    )
                    programme.row([(("y", name, alternative, node), 1.0), (("z", name, alternative), -1.0)], most=0.0)
                hosted = [(("y", name, alternative, node), 1.0) for node in self.nodes]
                most = 0.0 if self.metric in ("load", "reliability") else inf
                programme.row([*hosted, (("z", name, alternative), -float(self.hosts_of(name)))], least=0.0, most=most)
            programme.row(
                [*((("z", name, alternative), 1.0) for alternative in range(len(plans))), (("u", name), -1.0)], 0.0, 0.0
            )
            if name in roots:
                programme.row([(("u", name), 1.0)], 1.0, 1.0)
            if self.hosts_of(name) > 1 and self.apart:
                self._apart(name)
        for name, alternative, plan in self._every():
            for part in plan.parts:
                programme.row([(("u", part), 1.0), (("z", name, alternative), -1.0)], least=0.0)

    def _apart(self, name: str) -> None:
        """Rows for hosts at different sites, as far as there are as many."""
        sites: dict[str, list[str]] = {}
        for node in self.nodes:
            if node in self.near.able(name):
                sites.setdefault(self.near.site(node), []).append(node)
        if len(sites) >= self.hosts:
            for nodes in sites.values():
                self.programme.row([term for node in nodes for term in self._at(name, node)], most=1.0)

    def _capacities(self) -> None:
        if not self.near.limited:
            return
        for node in self.nodes:
            terms = [(("y", name, alternative, node), self.load(plan)) for name, alternative, plan in self._every()]
            self.programme.row(terms, most=self.near.capacity(node))

    def _every(self) -> Iterable[tuple[str, int, DetectorPlan]]:
        for name, plans in self.alternatives.items():
            for alternative, plan in enumerate(plans):
                yield name, alternative, plan

    def _at(self, name: str, node: str, factor: float = 1.0) -> list[tuple[Hashable, float]]:
        """Whether a detector is on a node, by any plan."""
        return [(("y", name, alternative, node), factor) for alternative in range(len(self.alternatives[name]))]

    # Bytes.

    def _reading(self) -> None:
        """Rows for streams; those always read together are one."""
        readers: dict[Stream, list[tuple[str, int]]] = {}
        for name, alternative, plan in self._every():
            for stream in self.near.streams(plan):
                if stream.kind != "composite":
                    readers.setdefault(stream, []).append((name, alternative))
        groups: dict[tuple[tuple[str, int], ...], list[Stream]] = {}
        for stream, reading in readers.items():
            groups.setdefault(tuple(reading), []).append(stream)
        programme = self.programme
        for number, (together, streams) in enumerate(groups.items()):
            for node in self.nodes:
                cost = sum(self.near.flow(stream) * self.near.links_to(stream, node) for stream in streams)
                if not cost:
                    continue
                programme.variable(("r", number, node), cost)
                for name, alternatives in _by_name(together).items():
                    terms = [(("y", name, alternative, node), -1.0) for alternative in alternatives]
                    programme.row([(("r", number, node), 1.0), *terms], least=0.0)

    def _composites(self) -> None:
        """Rows for readers of composite events, and the hosts they read from."""
        programme, near = self.programme, self.near
        readers: dict[str, list[tuple[str, int]]] = {}
        for name, alternative, plan in self._every():
            for other in (*plan.parts, *self.instance.space.named(plan)):
                readers.setdefault(other, []).append((name, alternative))
        for part, reading in readers.items():
            foreseen = self.instance.foreseen[part]
            flow = flow_of(foreseen.loud if self.instance.space.publishes(part) else foreseen.part)
            for node in self.nodes:
                programme.variable(("R", part, node))
                for name, alternatives in _by_name(reading).items():
                    terms = [(("y", name, alternative, node), -1.0) for alternative in alternatives]
                    programme.row([(("R", part, node), 1.0), *terms], least=0.0)
                hosts = [host for host in self.nodes if self.reaches(host, node)]
                for host in hosts:
                    programme.variable(("f", part, host, node), flow * near.links(near.site(host), near.site(node)))
                    programme.row([(("f", part, host, node), 1.0), *self._at(part, host, -1.0)], most=0.0)
                heard = [(("f", part, host, node), 1.0) for host in hosts]
                programme.row([*heard, (("R", part, node), -float(self.hosts_of(part)))], 0.0, 0.0)
                for place, host in enumerate(ordered := near.nearest(hosts, near.site(node)) if self.nearest else ()):
                    nearer = [(("f", part, each, node), 1.0) for each in ordered[: place + 1]]
                    programme.row([*nearer, *self._at(part, host, -1.0), (("R", part, node), -1.0)], least=-1.0)

    def _listening(self) -> None:
        """Rows for subscribers, and the hosts they receive from."""
        programme, near, space = self.programme, self.near, self.instance.space
        reading: dict[str, list[tuple[str, int]]] = {}
        for name, alternative, plan in self._every():
            for part in plan.parts:
                reading.setdefault(part, []).append((name, alternative))
        for root in dict.fromkeys(space.roots):
            foreseen = self.instance.foreseen[root]
            flow = flow_of(foreseen.output(part=False, read=root in space.read_by_type))
            more = max(flow_of(foreseen.part) - flow, 0.0)
            if root in reading and more:
                programme.variable(("q", root))
                for name, alternative in reading[root]:
                    programme.row([(("q", root), 1.0), (("z", name, alternative), -1.0)], least=0.0)
            for home, count in self.instance.listeners(root).items():
                site = self.instance.empty.site_of_home(home)
                hosts = [host for host in self.nodes if host in near.able(root)]
                for host in hosts:
                    links = near.links(near.site(host), site)
                    programme.variable(("g", root, home, host), flow * count * links)
                    programme.row([(("g", root, home, host), 1.0), *self._at(root, host, -1.0)], most=0.0)
                    if ("q", root) in programme and links:
                        programme.variable(("e", root, home, host), more * count * links)
                        loud = [(("g", root, home, host), -1.0), (("q", root), -1.0)]
                        programme.row([(("e", root, home, host), 1.0), *loud], least=-1.0)
                heard = [(("g", root, home, host), 1.0) for host in hosts]
                programme.row(heard, float(self.hosts_of(root)), float(self.hosts_of(root)))
                for place, host in enumerate(ordered := near.nearest(hosts, site) if self.nearest else ()):
                    nearer = [(("g", root, home, each), 1.0) for each in ordered[: place + 1]]
                    programme.row([*nearer, *self._at(root, host, -1.0)], least=0.0)

    # Delays, loads.

    def _delays(self) -> None:
        programme, space = self.programme, self.instance.space
        for place, (root, asked) in enumerate(zip(space.roots, space.asked, strict=True)):
            share = 1.0 / len(asked.subscribers) / len(space.asked)
            for number, subscriber in enumerate(asked.subscribers):
                heard: dict[Hashable, Beside] = {}
                for node in (each for each in self.nodes if each in self.near.able(root)):
                    for alternative, (delay, beside) in enumerate(
                        self.near.delays(space.whole(root), node, subscriber)
                    ):
                        name = ("x", place, number, node, alternative)
                        heard[name] = beside | {(root, node)}
                        programme.variable(name, delay * share)
                        for other, host in heard[name]:
                            programme.row([(name, 1.0), (("y", other, 0, host), -1.0)], most=0.0)
                programme.row([(name, 1.0) for name in heard], 1.0, 1.0)
                self._heard.append(heard)

    def _peak(self) -> None:
        programme = self.programme
        programme.variable("peak", 1.0, upper=inf)
        for node in self.nodes:
            terms = [(("y", name, alternative, node), self.load(plan)) for name, alternative, plan in self._every()]
            programme.row([*terms, ("peak", -self.near.capacity(node))], most=0.0)
        for name, alternative, plan in self._every() if self._is_parted else ():
            # Its inputs are on nodes that it reaches.
            for other in (*plan.parts, *self.instance.space.named(plan)):
                for node in self.nodes:
                    for host in self.nodes:
                        if not self.reaches(host, node):
                            programme.row([(("y", name, alternative, node), 1.0), *self._at(other, host)], most=1.0)

    # Results.

    def solve(self, seconds: float) -> Solved | None:
        """Solve it; None where there is no placement."""
        return self.programme.solve(seconds, TOLERANCE)

    def too_much(self) -> DistcedError:
        """Why there is no placement."""
        loads = [self.load(self.alternatives[name][0]) for name in dict.fromkeys(self.instance.space.roots)]
        capacities = [self.near.capacity(node) for node in self.near.nodes]
        advice = "add a node, or raise capacities"
        if self.metric == "latency":
            advice += "; by another metric patterns may be cut"
        return DistcedError(
            "the nodes are too small for the patterns",
            given=f"{sum(loads) * self.hosts:,.0f} instances a second, the largest pattern {max(loads):,.0f}",
            allowed=f"{sum(capacities):,.0f} on all nodes, {max(capacities):,.0f} on one",
            advice=advice,
        )

    def bound(self, solved: Solved) -> float:
        """Lower bound of the metric over all placements."""
        if self.metric == "reliability":
            # With the only node that reaches it a pattern is lost.
            space, nodes = self.instance.space, self.near.situation.nodes
            rates = [self.instance.foreseen[name].rate for name in space.roots]
            weights = rates if any(rates) else [1.0] * len(rates)
            pairs = zip(space.roots, weights, strict=True)
            return sum(weight for name, weight in pairs if self.hosts_of(name) == 1) / sum(weights) / len(nodes)
        return max(solved.bound, 0.0)

    def crowded(self, solved: Solved) -> bool:
        """Whether a node that represents its site is over capacity."""
        if self.every_node or self.metric not in ("bandwidth", "reliability") or not self.near.limited:
            return False
        loads: dict[str, float] = {}
        for name, alternative, plan in self._every():
            for node in self.nodes:
                if solved.chosen(("y", name, alternative, node)):
                    loads[node] = loads.get(node, 0.0) + self.load(plan)
        return any(load > self.near.capacity(node) for node, load in loads.items())

    def placement(self, solved: Solved) -> dict[str, DetectorEntry]:
        """The entries of the detectors."""
        found, used = {}, set(self.instance.space.roots)
        # Readers before their parts, of which only those with readers are made.
        for name in reversed(list(self.alternatives)):
            if name not in used:
                continue
            alternative = max(
                range(len(self.alternatives[name])), key=lambda each: solved.values.get(("z", name, each), 0.0)
            )
            plan = self.alternatives[name][alternative]
            used.update(plan.parts)
            nodes = tuple(node for node in self.nodes if self._hosts(solved, name, alternative, node))
            text = "max-reliability" if self.metric == "reliability" and len(nodes) > 1 else ""
            found[name] = self.instance.entry(plan, nodes, distribution=text)
        return self.instance.heard(found)

    def _hosts(self, solved: Solved, name: str, alternative: int, node: str) -> bool:
        if self.metric != "latency":
            return solved.chosen(("y", name, alternative, node))
        # A replica without readers is not made.
        return (name, node) in self._serving(solved)

    def _serving(self, solved: Solved) -> Beside:
        """The hosts required for the delays of the solution."""
        soonest = (max(each, key=lambda name: solved.values.get(name, 0.0)) for each in self._heard)
        return frozenset().union(*(each[name] for each, name in zip(self._heard, soonest, strict=True)))


def _by_name(reading: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The ways of each detector, of which at most one is taken."""
    found: dict[str, list[int]] = {}
    for name, alternative in reading:
        found.setdefault(name, []).append(alternative)
    return found


SECONDS = 60.0
"""Time limit of the solver, s."""

TOLERANCE = 1e-4
"""Relative gap of a solution that counts as optimal."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best placement by a metric.

    Attributes:
        bound: no placement has a lesser figure, as far as the programme goes; `proven` if so before time ran out.
        seconds, variables, rows: time of the solver, and size of the programme.
    """

    metric: Metric
    detectors: Mapping[str, DetectorEntry]
    cost: Cost
    bound: float
    proven: bool
    seconds: float
    variables: int
    rows: int


def optimum(
    instance: PlacementProblem,
    metric: Metric,
    *,
    known: Iterable[Mapping[str, DetectorEntry]] = (),
    seconds: float = SECONDS,
) -> Optimum:
    """The best placement by a metric; where time runs out, or patterns fit on nodes only when cut, the best known one.

    Raises:
        DistcedError: where there is none: no node reaches all that a pattern needs, or capacities are too small.
        OutOfTimeError: without a solution within `seconds`, nor a known one.
    """
    began = time.perf_counter()
    near = Nearness(instance)
    for name in instance.space.roots:
        if not near.able(name):
            raise DistcedError("no node reaches all sources and subscribers of a pattern",
                               given=instance.space.whole(name).compiled.text,
                               advice="add a link, or a node on their side")  # fmt: skip
    model = Model(instance, near, metric)
    placements: list[Mapping[str, DetectorEntry]] = []
    bound, proven = 0.0, False
    try:
        solved = model.solve(seconds)
        if solved is not None and model.crowded(solved):
            # The detectors of a site do not fit on one node of it.
            model = Model(instance, near, metric, every_node=True)
            solved = model.solve(seconds)
        if solved is None and metric == "reliability":
            # Nor does all fit with the two hosts at sites of their own.
            model = Model(instance, near, metric, every_node=True, apart=False)
            solved = model.solve(seconds)
        if solved is not None and metric == "bandwidth":
            first = model.placement(solved)
            if evaluate(instance, first).bytes > solved.objective * (1 + 10 * TOLERANCE):
                # A listener uses a nearer host than the one from where it takes the fewest bytes.
                placements.append(first)
                bound = model.bound(solved)
                model = Model(instance, near, metric, every_node=model.every_node or near.limited, nearest=True)
                solved = model.solve(seconds)
        if solved is not None:
            placements.append(model.placement(solved))
            bound, proven = model.bound(solved), solved.proven
        elif metric == "latency":
            # As wholes patterns do not fit, cut they may.
            placements += (each for each in known if not any(_rank(evaluate(instance, each), metric)[:1]))
        if not placements:
            raise model.too_much()
    except OutOfTimeError:
        placements += known
        if not placements:
            raise
    else:
        if solved is not None and not proven:
            placements += known
    detectors, cost = min(
        ((each, evaluate(instance, each)) for each in placements), key=lambda each: _rank(each[1], metric)
    )
    if metric == "latency" and cost.delay > bound * (1 + 10 * TOLERANCE):
        proven = False
    return Optimum(metric, detectors, cost, bound, proven, time.perf_counter() - began, *model.programme.size)


def _rank(cost: Cost, metric: Metric) -> tuple[int, float, float]:
    return cost.unheard + len(cost.overloaded), cost.by(metric), cost.bytes

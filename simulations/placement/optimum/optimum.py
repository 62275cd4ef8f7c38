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
    e[d,l,m] >= g + u' - 1 a pattern that others read as a part tells more, u' >= z of those   more[d] · links(m → l)

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.simulations.placement.evaluation import Cost, Metric, evaluate
from distced.simulations.placement.optimum.formulation import Model
from distced.simulations.placement.optimum.nearness import Nearness
from distced.simulations.placement.optimum.programme import OutOfTimeError
from distced.simulations.placement.problem import PlacementProblem

SECONDS = 60.0
"""Time limit of the solver, in seconds."""

TOLERANCE = 1e-4
"""Relative gap at which a solution counts as optimal."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best placement by a metric.

    Attributes:
        detectors: the entries.
        cost: of the placement.
        bound: no placement has a lesser figure, as far as the programme goes.
        proven: whether that was proven, or time has run out.
        seconds: time of the solver.
        variables, rows: of the programme.
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
    tolerance: float = TOLERANCE,
) -> Optimum:
    """The best placement by a metric.

    Args:
        known: placements that are known already; the best of them counts where time runs out before a better one is
            found, and where patterns fit on nodes cut and not as wholes.
        seconds: time limit of the solver.

    Raises:
        DistcedError: where there is none: no node reaches all that a pattern needs, or together they can do too little.
        OutOfTimeError: where there was no solution in time, and none is known.
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
        solved = model.solve(seconds, tolerance)
        if solved is not None and model.crowded(solved):
            # The detectors of a site do not fit on one node of it.
            model = Model(instance, near, metric, every_node=True)
            solved = model.solve(seconds, tolerance)
        if solved is None and metric == "reliability":
            # Nor does all fit with the two hosts at sites of their own.
            model = Model(instance, near, metric, every_node=True, apart=False)
            solved = model.solve(seconds, tolerance)
        if solved is not None and metric == "bandwidth":
            first = model.placement(solved)
            if evaluate(instance, first).bytes > solved.objective * (1 + 10 * tolerance):
                # A listener uses a nearer host than the one from where it takes the fewest bytes.
                placements.append(first)
                bound = model.bound(solved)
                model = Model(instance, near, metric, every_node=model.every_node or near.limited, nearest=True)
                solved = model.solve(seconds, tolerance)
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
    if metric == "latency" and cost.delay > bound * (1 + 10 * tolerance):
        proven = False
    return Optimum(metric, detectors, cost, bound, proven, time.perf_counter() - began, *model.programme.size)


def _rank(cost: Cost, metric: Metric) -> tuple[int, float, float]:
    return cost.unheard + len(cost.overloaded), cost.by(metric), cost.bytes

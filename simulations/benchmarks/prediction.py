"""`distced bench prediction`: traffic of links predicted by placement analysis, and measured in the simulator.

Random networks with random events as the history. Detectors are placed by several policies and by the solver, from
counts of the history, and each placement is replayed on the simulated network, given as hints to the nodes, which do
everything else as they do live. The traffic of each link in a part of the replay is compared with the prediction for
the locations the detectors then have (`simulations.placement.what_if`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from typing import Final

from distced.middleware.model.event_types import event_type
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.random_topology import TYPES
from distced.simulations.benchmarks.placement import random_space
from distced.simulations.benchmarks.policy_comparison import unlimited_topology
from distced.simulations.network.scenario.random_scenario import streams_by_rates
from distced.simulations.network.scenario_model import START
from distced.simulations.placement.analysis import hints_of
from distced.simulations.placement.by_policy import place_all
from distced.simulations.placement.evaluation import Detectors
from distced.simulations.placement.history_figures.counting import count
from distced.simulations.placement.history_figures.measuring import instance_of, located, types_of
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.problem import PlacementProblem
from distced.simulations.placement.what_if import LEAST, LOOK, SETTLE, LinkCompared, RecordedStretch, replay
from distced.simulations.plots import bars, percentile
from distced.simulations.report import (
    Cell,
    Column,
    OnProgress,
    Report,
    ReportTable,
    no_progress,
    number_columns,
)

POLICIES: Final = ("min-latency", "min-bandwidth", "min-load")
OPTIMUM: Final = "optimum"  # by bytes

# Least and greatest numbers of a network, the latter excluded.
SITES: Final = (4, 9)
NODES: Final = (3, 9)
PUBLISHERS: Final = (5, 11)
SUBSCRIBERS: Final = (2, 5)
PATTERNS: Final = (3, 7)

WITHIN: Final = 0.1  # greatest error of a prediction, relative to the measurement
_DURATION: Final = SETTLE + LOOK
_EVENT_TYPES: Final = tuple(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
_VALUES: Final = {name: {"k": tuple(range(5)), "v": tuple(range(10))} for name in TYPES}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions for a placement on a network; if a detector moved meanwhile, there is no one placement."""

    seed: int
    policy: str
    nodes: int
    detectors: int
    links: tuple[LinkCompared, ...]  # those that carry at least `LEAST`
    settled: bool  # whether no detector moved during the measurement


@dataclass(frozen=True, slots=True)
class PredictionFigures:
    """Results of the benchmark."""

    tried: tuple[Predicted, ...]

    def off(self, policy: str = "") -> list[float]:
        """Errors of predictions, link by link, of one policy or all."""
        chosen = [each for each in self.tried if each.settled and policy in ("", each.policy)]
        return [abs(link.off) for each in chosen for link in each.links]

    @property
    def holds(self) -> bool:
        """Whether the prediction of every link is accurate enough."""
        return all(each <= WITHIN for each in self.off())


def measure(networks: int = 10, seed: int = 0, on_progress: OnProgress = no_progress) -> PredictionFigures:
    """Predict and measure on n networks; progress counts placements."""
    tried: list[Predicted] = []
    placed_by = (*POLICIES, OPTIMUM)
    for number in range(networks):
        network = _PredictedNetwork(seed + number)
        for policy in placed_by:
            tried.append(network.predict(policy))
            on_progress(f"network {number + 1} of {networks}, {policy}", len(tried), networks * len(placed_by))
    return PredictionFigures(tuple(tried))


class _PredictedNetwork:
    """A random network with its published events, and the figures of its detectors."""

    def __init__(self, seed: int) -> None:
        random = Random(f"prediction {seed}")
        self.seed = seed
        # Nodes have capacity for all, lest a subscription be refused.
        self.topology = unlimited_topology(
            random, sites=SITES, nodes=NODES, publishers=PUBLISHERS, subscribers=SUBSCRIBERS
        )
        self.space = random_space(random, self.topology, PATTERNS)
        streams = streams_by_rates(self.topology, _EVENT_TYPES, random, start=START, duration=_DURATION, values=_VALUES)
        events = [event for stream in streams for send in stream.sends for event in send.events]
        events.sort(key=lambda event: event.key)
        published = {each.name: each.types for each in self.topology.publishers.values()}
        sources = located(published, self.topology)
        self.recorded = RecordedStretch(events, _EVENT_TYPES, sources, START)
        kinds = {each.name: each.attributes for each in _EVENT_TYPES}
        counts = count(self.space, events, types_of(sources), START, START + _DURATION, kinds.get)
        self.instance: PlacementProblem = instance_of(counts, self.space, self.topology, sources)

    def predict(self, policy: str) -> Predicted:
        detectors = self._placed(policy)
        instance = self.instance
        hints = hints_of(instance, detectors)
        by = "min-bandwidth" if policy == OPTIMUM else policy
        found = replay(self.recorded, self.space, self.topology, by, name=policy, hints=hints, seed=self.seed)
        links = tuple(each for each in found.links if max(each.measured, each.predicted) >= LEAST)
        settled = found.settled and not found.refused
        return Predicted(self.seed, policy, len(self.topology.nodes), len(found.detectors), links, settled)

    def _placed(self, policy: str) -> Detectors:
        if policy == OPTIMUM:
            return optimum(self.instance, "bandwidth").detectors
        placed = place_all(self.instance, NAMED[policy])
        self.instance = self.instance.with_alternatives(placed.plans)
        return placed.detectors


def report(figures: PredictionFigures) -> Report:
    """The figures as a report; an inaccurate prediction of a link is a fault."""
    rows: list[Sequence[Cell]] = []
    for policy in (*POLICIES, OPTIMUM, ""):
        mine = [each for each in figures.tried if policy in ("", each.policy)]
        off = sorted(figures.off(policy))
        moved = sum(not each.settled for each in mine)
        rows.append((policy or "all", len(mine), moved, len(off), median(off or [0.0]), max(off, default=0.0)))
    columns = (
        Column("placed by"),
        *number_columns(",", "placements", "moved", "links"),
        *number_columns(".1%", "median", "most"),
    )
    nodes, networks = [each.nodes for each in figures.tried], len({each.seed for each in figures.tried})
    note = (
        f"{networks:,} network{'s' * (networks != 1)} of {min(nodes)} to {max(nodes)} nodes. Difference between "
        f"predicted and measured bytes of links that carry at least {LEAST:g} B/s (wanted {WITHIN:.0%}); "
        "moved: detectors moved during the measurement, so there is no one placement to predict."
    )
    shares = [(f"{each} %", 100 * percentile(off, each / 100)) for each in (10, 25, 50, 75, 90, 99) if off]
    plot = partial(bars, shares, title=f"greatest difference within a share of {len(off):,} links", unit="%")
    faults = [] if figures.holds else [f"a link carries more or less than predicted by {off[-1]:.1%}"]
    return Report("prediction", figures, [ReportTable(columns, rows)], [note], faults, {"prediction.svg": plot})

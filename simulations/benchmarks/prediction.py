"""`distced bench prediction`: traffic of links predicted by placement analysis, and measured in the simulator.

Random networks with random events, which are the history. It is counted, detectors are placed by several policies and
by the solver, and each placement is replayed on the simulated network, given as hints to the nodes, which do everything
else as they do live. The traffic of each link in a stretch of it is compared with the prediction for the locations the
detectors then have (`simulations.placement.what_if`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from typing import Final

from distced.detectors.compiler import compile_pattern
from distced.middleware.model.event_types import event_type
from distced.policies.distribution.policy import NAMED
from distced.policies.topology.model import BrokerNode, Place
from distced.policies.topology.random_topology import RANDOM_KINDS, TYPES, random_topology
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.random_scenario import random_patterns, streams_by_rates
from distced.simulations.network.scenario_model import START
from distced.simulations.placement.analysis import hints_of
from distced.simulations.placement.by_policy import place_all
from distced.simulations.placement.evaluation import Detectors
from distced.simulations.placement.history_figures.counting import count
from distced.simulations.placement.history_figures.measuring import instance_of, located, types_of
from distced.simulations.placement.optimum.optimum import optimum
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from distced.simulations.placement.problem import PlacementProblem
from distced.simulations.placement.what_if import LEAST, LOOK, SETTLE, LinkCompared, RecordedStretch, replay
from distced.simulations.plots import bars
from distced.simulations.report import (
    Cell,
    Column,
    OnProgress,
    Report,
    ReportTable,
    ignore_progress,
    number_columns,
)

POLICIES: Final = ("min-latency", "min-bandwidth", "min-load")
OPTIMUM: Final = "optimum"
"""Placements that are predicted: of these policies, and the optimum by bytes."""

SITES: Final = (4, 9)
NODES: Final = (3, 9)
PUBLISHERS: Final = (5, 11)
SUBSCRIBERS: Final = (2, 5)
PATTERNS: Final = (3, 7)
"""Least and greatest number of patterns, the latter excluded."""

WITHIN: Final = 0.1
"""Greatest error of a prediction, relative to the measurement."""

_DURATION: Final = SETTLE + LOOK
_EVENT_TYPES: Final = tuple(event_type(name, {"k": "number", "v": "number"}) for name in TYPES)
_VALUES: Final = {name: {"k": tuple(range(5)), "v": tuple(range(10))} for name in TYPES}


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions for a placement on a network.

    Attributes:
        seed: of the network.
        links: those that carry at least `LEAST`.
        settled: whether no detector moved during the measurement; else there is no one placement to compare with.
    """

    seed: int
    policy: str
    nodes: int
    detectors: int
    links: tuple[LinkCompared, ...]
    settled: bool

    @property
    def worst(self) -> float:
        """Greatest error of the prediction over all links."""
        return max((abs(each.off) for each in self.links), default=0.0)


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

    def middle(self, policy: str = "") -> float:
        """Median error."""
        return median(self.off(policy) or [0.0])


def measure(networks: int = 10, seed: int = 0, on_progress: OnProgress = ignore_progress) -> PredictionFigures:
    """Predict and measure on n networks; progress counts placements."""
    tried: list[Predicted] = []
    total = networks * (len(POLICIES) + 1)
    for number in range(networks):
        network = _PredictedNetwork(seed + number)
        for policy in (*POLICIES, OPTIMUM):
            on_progress(f"network {number + 1} of {networks}, {policy}", len(tried), total)
            tried.append(network.predict(policy))
    on_progress("done", total, total)
    return PredictionFigures(tuple(tried))


class _PredictedNetwork:
    """A random network, the events published on it, and the figures of its detectors."""

    def __init__(self, seed: int) -> None:
        random = Random(f"prediction {seed}")
        self.seed = seed
        self.topology = _topology(random)
        self.space = _space(random, self.topology)
        streams = streams_by_rates(
            self.topology, _EVENT_TYPES, random, start=START, duration=_DURATION, values=_VALUES
        )  # fmt: skip
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
        self.instance = self.instance.with_ways(placed.plans)
        return placed.detectors


def _topology(random: Random) -> Topology:
    """A topology whose nodes have capacity for all, lest a subscription be refused."""
    made = random_topology(
        random.choice(RANDOM_KINDS),
        random,
        sites=random.randrange(*SITES),
        nodes=random.randrange(*NODES),
        publishers=random.randrange(*PUBLISHERS),
        subscribers=random.randrange(*SUBSCRIBERS),
    )
    return Topology(
        made.sites.values(),
        [BrokerNode(each.name, each.site) for each in made.nodes.values()],
        made.publishers.values(),
        made.subscribers.values(),
        made.links,
    )


def _space(random: Random, topology: Topology) -> SearchSpace:
    subscribers: Sequence[str] = sorted(topology.subscribers)
    texts = random_patterns(random, topology.types, random.randrange(*PATTERNS))
    return space_of(
        [
            PatternRequest(f"q{number}", compile_pattern(text), (Place("subscriber", random.choice(subscribers)),))
            for number, text in enumerate(texts, 1)
        ]
    )


def report(figures: PredictionFigures) -> Report:
    """The figures as a report; an inaccurate prediction of a link is a fault."""
    rows: list[Sequence[Cell]] = []
    for policy in (*POLICIES, OPTIMUM, ""):
        mine = [each for each in figures.tried if policy in ("", each.policy)]
        off = figures.off(policy)
        moved = sum(not each.settled for each in mine)
        rows.append((policy or "all", len(mine), moved, len(off), figures.middle(policy), max(off, default=0.0)))
    columns = (
        Column("placed by"),
        *number_columns(",", "placements", "moved", "links"),
        *number_columns(".1%", "median", "most"),
    )
    nodes = [each.nodes for each in figures.tried]
    networks = len({each.seed for each in figures.tried})
    note = (
        f"{networks:,} network{'s' * (networks != 1)} of {min(nodes)} to {max(nodes)} nodes. Difference between "
        f"predicted and measured bytes of links that carry at least {LEAST:g} B/s (wanted {WITHIN:.0%}); "
        "moved: detectors moved during the measurement, so there is no one placement to predict."
    )
    off = sorted(figures.off())
    shares = [(f"{each} %", 100 * off[min(len(off) - 1, len(off) * each // 100)]) for each in (10, 25, 50, 75, 90, 99)
              if off]  # fmt: skip
    plot = partial(bars, shares, title=f"greatest difference within a share of {len(off):,} links", unit="%")
    return Report(
        "prediction",
        figures,
        [ReportTable(columns, rows)],
        [note],
        [] if figures.holds else [f"a link carries more or less than predicted by {off[-1]:.1%}"],
        {"prediction.svg": plot},
    )

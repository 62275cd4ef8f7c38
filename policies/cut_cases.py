"""Conformance cases on cut patterns: the same composite events have to come out of a graph of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal, TypeAlias

from distced.detectors.compiler import Compiled
from distced.detectors.conformance import Kinds, Run
from distced.detectors.cutting import decomposition
from distced.detectors.cutting.graph import Choose, cut
from distced.middleware.model.events import CompositeEvent, Event
from distced.policies.local_runner import LocalRunner

HowCut: TypeAlias = Literal["none", "full", "random"]

SOURCES = 3
"""Number of sources the events of a case are spread over."""


def cut_run(how: HowCut, seed: int = 0) -> Run:
    """Runner of cases with each pattern cut; random delays and order between its detectors."""

    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
        random = Random(seed)
        choose: Choose = decomposition.none
        if how == "full":
            choose = decomposition.full
        elif how == "random":
            choose = decomposition.randomly(random)
        runner = LocalRunner(cut(patterns, choose), random, kinds, over_wire=True)
        runner.run(spread(events, random))
        return [each for root in runner.graph.roots for each in runner.composites(root)]

    return run


def spread(events: Sequence[Event], random: Random, *, disorder: float = 0.3) -> dict[str, list[Event]]:
    """Events over several sources, each in its order of publication.

    Args:
        disorder: probability that two neighbours change places; the second is then out of order, and not yet late.
    """
    spread_out: dict[str, list[Event]] = {f"source {number}": [] for number in range(SOURCES)}
    for event in events:
        spread_out[random.choice(list(spread_out))].append(event)
    for told in spread_out.values():
        for place in range(1, len(told)):
            if random.random() < disorder:
                told[place - 1], told[place] = told[place], told[place - 1]
    return spread_out

"""A placement analysis: placements by policies, the optimum, and advice, from the figures of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry
from distced.policies.distribution.policy import NAMED, Policy
from distced.policies.distribution.situation.rates import hosting
from distced.simulations.placement.by_policy import PolicyPlacement, place_all, replan, settle
from distced.simulations.placement.evaluation import OWN, Cost, Metric, evaluate, gap
from distced.simulations.placement.optimum.optimum import SECONDS, Optimum, optimum
from distced.simulations.placement.problem import PlacementProblem

REPLANNED = "replanned"
OPTIMUM = "optimum"

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Option:
    """A compared placement: its name, its gap to the optimum by the metric, and a policy's reason for each pattern."""

    name: str
    detectors: Mapping[str, DetectorEntry]
    cost: Cost
    gap: float
    reasons: tuple[str, ...] = ()


class Advice(
    msgspec.Struct,
    frozen=True,
    rename={"policy": "nearest_policy", "instead": "nearest_nodes", "delay": "delay_ns"},
):
    """Advice on a pattern.

    Attributes:
        pattern, text: its name and its text.
        detector: its id.
        parts: the detectors to read, as text; empty for a whole pattern.
        nodes: hosts of its detector.
        policy: the named policy nearest to the optimum over all patterns.
        instead: the hosts by that policy.
        rate: composite events a second.
        selectivity: composite events for each event read.
        delay: ns until subscribers receive it.
    """

    pattern: str
    text: str
    detector: str
    parts: tuple[str, ...]
    nodes: tuple[str, ...]
    policy: str
    instead: tuple[str, ...]
    rate: float
    selectivity: float
    delay: float


@dataclass(frozen=True, slots=True)
class Analysis:
    """Results of an analysis: options, the optimum as the last, and policies without a placement, with the reason."""

    instance: PlacementProblem
    metric: Metric
    options: tuple[Option, ...]
    refused: Mapping[str, DistcedError]
    best: Optimum
    advice: tuple[Advice, ...]

    def hints(self) -> dict[str, HintEntry]:
        """The optimum as hints for nodes."""
        return hints_of(self.instance, self.best.detectors)


def analyse(
    instance: PlacementProblem,
    metric: Metric,
    *,
    further: Iterable[Policy] = (),
    seconds: float = SECONDS,
    on_progress: OnProgress = lambda *_: None,
) -> Analysis:
    """Compare placements by policies, the named and further ones, with the optimum found within `seconds`."""
    placed: dict[str, PolicyPlacement] = {}
    refused: dict[str, DistcedError] = {}
    for name, policy in {**NAMED, **{each.text: each for each in further}}.items():
        on_progress(f"placing by {name}")
        try:
            placed[name] = place_all(instance, policy)
        except DistcedError as error:
            refused[name] = error
            continue
        instance = instance.with_alternatives(placed[name].plans)
    if OWN[metric] in placed:
        on_progress("replanning")
        replanned = replan(instance, settle(instance, placed[OWN[metric]]), metric)
        instance = instance.with_alternatives(replanned.plans)
        placed[REPLANNED] = replanned
    on_progress("computing the optimum")
    best = optimum(instance, metric, known=[each.detectors for each in placed.values()], seconds=seconds)
    figure = best.cost.by(metric)
    costs = {name: evaluate(instance, each.detectors) for name, each in placed.items()}
    options = [
        Option(name, placed[name].detectors, cost, gap(cost.by(metric), figure, metric), placed[name].reasons)
        for name, cost in costs.items()
    ]
    options.append(Option(OPTIMUM, best.detectors, best.cost, 0.0))
    return Analysis(instance, metric, tuple(options), refused, best, tuple(_advice(instance, options, best)))


def hints_of(instance: PlacementProblem, detectors: Mapping[str, DetectorEntry]) -> dict[str, HintEntry]:
    """A placement as hints for nodes."""
    return {name: instance.hint(name, tuple(hosting(entry)), entry.parts) for name, entry in detectors.items()}


def _advice(instance: PlacementProblem, options: list[Option], best: Optimum) -> list[Advice]:
    named = [each for each in options if each.name in NAMED]
    nearest = min(named, key=lambda each: (len(each.cost.overloaded), each.gap), default=None)
    found = []
    for number, (root, asked) in enumerate(zip(instance.space.roots, instance.space.asked, strict=True)):
        entry, figures = best.detectors[root], instance.foreseen[root]
        found.append(
            Advice(
                asked.name,
                asked.compiled.text,
                root,
                tuple(instance.space.whole(part).compiled.text for part in entry.parts),
                tuple(hosting(entry)),
                "" if nearest is None else nearest.name,
                () if nearest is None else tuple(hosting(nearest.detectors[root])),
                figures.rate,
                instance.selectivity(root),
                best.cost.delays[number],
            )
        )
    return found

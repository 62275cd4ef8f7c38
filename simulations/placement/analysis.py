"""All of a placement analysis: what a history says, what each policy would do, what would be best, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry
from distced.policies.distribution.policy import NAMED, Policy
from distced.policies.distribution.situation.rates import hosting
from distced.simulations.placement.by_policy import Placed, place_all, settle
from distced.simulations.placement.evaluation import OWN, Cost, Metric, evaluate, gap
from distced.simulations.placement.optimum.optimum import SECONDS, Optimum, optimum
from distced.simulations.placement.problem import Instance
from distced.simulations.placement.replanning import replan

REPLANNED = "planned anew"
OPTIMUM = "optimum"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Option:
    """A placement that was compared.

    Attributes:
        name: of the policy, or what it is.
        gap: how far it is from the optimum by the metric.
        reasons: why a policy has put the detector of each pattern where it is; empty where no policy has.
    """

    name: str
    detectors: Mapping[str, DetectorEntry]
    cost: Cost
    gap: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a pattern.

    Attributes:
        pattern: its name; `text` is what it says.
        detector: its id.
        parts: the detectors it should read, as text; none for leaving it whole.
        nodes: where its detector should stand.
        policy: the named policy that comes nearest for all patterns together, and what it would do with this one.
        instead: where that policy has it.
        rate: composite events a second.
        selectivity: the same for each event that it reads.
        delay: ns until subscribers hear.
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
    """What came of it.

    Attributes:
        instance: the problem.
        options: the named policies, further ones, what was planned anew, and the optimum, which is the last.
        refused: policies that cannot do it, and why.
        best: the optimum.
        advice: by pattern.
    """

    instance: Instance
    metric: Metric
    options: tuple[Option, ...]
    refused: Mapping[str, DistcedError]
    best: Optimum
    advice: tuple[Advice, ...]

    def hints(self) -> dict[str, HintEntry]:
        """The best placement, as nodes are told of it."""
        return hints_of(self.instance, self.best.detectors)


def analyse(
    instance: Instance,
    metric: Metric,
    *,
    further: Iterable[Policy] = (),
    seconds: float = SECONDS,
    tell: Tell = lambda _: None,
) -> Analysis:
    """Compare what policies would do with the best there is.

    Args:
        further: policies beside the named ones.
        seconds: how long the solver may look.
        tell: what is being done.
    """
    placed: dict[str, Placed] = {}
    refused: dict[str, DistcedError] = {}
    for name, policy in {**NAMED, **{each.text: each for each in further}}.items():
        tell(f"placing by {name}")
        try:
            placed[name] = place_all(instance, policy)
        except DistcedError as error:
            refused[name] = error
            continue
        instance = instance.with_ways(placed[name].plans)
    if OWN[metric] in placed:
        tell("planning anew")
        anew = replan(instance, settle(instance, placed[OWN[metric]]), metric)
        instance = instance.with_ways(anew.plans)
        placed[REPLANNED] = anew
    tell("looking for the optimum")
    best = optimum(instance, metric, known=[each.detectors for each in placed.values()], seconds=seconds)
    figure = best.cost.by(metric)
    costs = {name: evaluate(instance, each.detectors) for name, each in placed.items()}
    options = [
        Option(name, placed[name].detectors, cost, gap(cost.by(metric), figure, metric), placed[name].reasons)
        for name, cost in costs.items()
    ]
    options.append(Option(OPTIMUM, best.detectors, best.cost, 0.0))
    return Analysis(instance, metric, tuple(options), refused, best, tuple(_advice(instance, options, best)))


def hints_of(instance: Instance, detectors: Mapping[str, DetectorEntry]) -> dict[str, HintEntry]:
    """A placement, as nodes are told of it."""
    return {name: instance.hint(name, tuple(hosting(entry)), entry.parts) for name, entry in detectors.items()}


def _advice(instance: Instance, options: list[Option], best: Optimum) -> list[Advice]:
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

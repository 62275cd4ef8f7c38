"""`distced bench policies`: standings of the named policies over random scenarios (`policy_comparison`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Final

from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.policy import NAMED
from distced.simulations.benchmarks.policy_comparison import (
    EQUAL,
    IMPACT_EQUAL,
    METRICS,
    ComparedScenario,
    compare_many,
)
from distced.simulations.plots import bars
from distced.simulations.report import Cell, Column, OnProgress, Report, ReportTable

WANTED: Final = 0.97  # least share of scenarios in which each policy has to be best at its own metric


@dataclass(frozen=True, slots=True)
class PolicyStanding:
    """Standing of one policy at one metric."""

    policy: str
    metric: str
    wins: int  # number of scenarios in which no other was better
    behind: float  # relative advantage of the best, mean over the scenarios where that is a number
    own: bool  # whether the policy is named after the metric
    lost_to: dict[str, int]  # of its own metric: numbers of scenarios, by the policy that was best in its place


@dataclass(frozen=True, slots=True)
class Standings:
    """Standings of all policies at all measured metrics."""

    scenarios: tuple[ComparedScenario, ...]  # compared, by seed
    rows: tuple[PolicyStanding, ...]
    refused: int  # number of scenarios with a refusal under any policy

    def of(self, policy: str, metric: str) -> PolicyStanding:
        """Standing of one policy at one metric."""
        return next(each for each in self.rows if (each.policy, each.metric) == (policy, metric))

    @property
    def shares(self) -> dict[str, float]:
        """Share of scenarios in which each policy is best at its own metric, where that was measured."""
        return {each.policy: each.wins / len(self.scenarios) for each in self.rows if each.own}

    @property
    def holds(self) -> bool:
        """Whether each policy is best at its own metric as often as required."""
        return all(share >= WANTED for share in self.shares.values())

    @property
    def metrics(self) -> tuple[str, ...]:
        """The measured metrics, in the order of the policies named after them."""
        return tuple(dict.fromkeys(each.metric for each in self.rows))


def measure(scenarios: int, seed: int, metrics: str, processes: int, on_progress: OnProgress) -> Standings:
    """Compare the policies on n scenarios, several at once."""
    compared = []
    for each in compare_many(range(seed, seed + scenarios), parse_metrics(metrics), processes):
        compared.append(each)
        on_progress("scenarios", len(compared), scenarios)
    return standings(compared)


def standings(compared: Sequence[ComparedScenario]) -> Standings:
    """Standings from comparisons; all at the same metrics, and at least one."""
    ordered = tuple(sorted(compared, key=lambda each: each.seed))
    metrics = [metric for metric in METRICS.values() if metric in ordered[0].figures]
    rows = tuple(_standing(ordered, policy, metric) for metric in metrics for policy in NAMED)
    return Standings(ordered, rows, sum(bool(each.refused) for each in ordered))


def _standing(compared: Sequence[ComparedScenario], policy: str, metric: str) -> PolicyStanding:
    own = METRICS[policy] == metric
    behind = [each.behind(policy, metric) for each in compared]
    lost = [each for each in compared if own and not each.best(policy)]
    lost_to = Counter(min(each.figures[metric], key=partial(each.behind, metric=metric)) for each in lost)
    wins = sum(each.best(policy, metric) for each in compared)
    average = mean([each for each in behind if each != float("inf")] or [0.0])
    return PolicyStanding(policy, metric, wins, average, own, dict(lost_to.most_common()))


def parse_metrics(text: str) -> tuple[str, ...]:
    """Metrics from a text with commas between them; all for an empty text."""
    named = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for each in named:
        if each not in METRICS.values():
            raise DistcedError("not a metric", given=each, allowed=", ".join(METRICS.values()), where="--metrics")
    return named or tuple(METRICS.values())


def report(found: Standings) -> Report:
    """The standings as a report; a policy that is not best at its own metric often enough is a fault."""
    columns = [Column("policy")]
    for metric in found.metrics:
        columns += [Column(metric, "best", ","), Column(f"{metric}, behind", format="+.1%")]
    columns += [Column("own", format=".1%"), Column("lost to")]
    shares = {policy: found.shares[policy] for policy in NAMED if policy in found.shares}
    rows: list[list[Cell]] = []
    for policy in NAMED:
        row: list[Cell] = [policy]
        for metric in found.metrics:
            each = found.of(policy, metric)
            row += [each.wins, each.behind]
        lost = found.of(policy, METRICS[policy]).lost_to if policy in shares else {}
        rows.append([*row, shares.get(policy), ", ".join(f"{other} {count}" for other, count in lost.items())])
    notes = [
        f"{len(found.scenarios)} scenarios. Best: in how many none is better by more than {EQUAL:.0%} (impact: by more "
        f"than {IMPACT_EQUAL:.0%} of what was there before). Behind: by how much the best is better on average; of "
        "impact and reliability in percentage points."
    ]
    if found.refused:
        notes.append(f"In {found.refused} of them something was refused under some policy.")
    own = [(f"{policy}, {METRICS[policy]}", share * 100) for policy, share in shares.items()]
    title = f"Best at its own metric, {len(found.scenarios)} scenarios"
    plots = {"policies.svg": partial(bars, own, title=title, unit="%")}
    for metric in found.metrics:
        behind = [(each.policy, max(each.behind, 0.0) * 100) for each in found.rows if each.metric == metric]
        title = f"{metric}: worse than the best by, on average"
        plots[f"policies-{metric}.svg"] = partial(bars, behind, title=title, unit="%")
    faults = [
        f"{policy}: best at its own metric in {share:.1%} of the scenarios, wanted {WANTED:.0%}"
        for policy, share in shares.items()
        if share < WANTED
    ]
    figures = {"scenarios": found.scenarios, "refused": found.refused, "rows": found.rows, "own": shares}
    return Report("policies", figures, [ReportTable(columns, rows)], notes, faults, plots)

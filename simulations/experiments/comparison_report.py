"""How the named policies compare over many scenarios, for people, machines and plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.policy import NAMED
from distced.simulations.experiments.comparison import EQUAL, IMPACT_EQUAL, METRICS, Compared
from distced.simulations.plots import bars

WANTED: Final = 0.95
"""In what share of scenarios each policy has to be best at its own metric."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one policy does at one metric.

    Attributes:
        wins: in how many scenarios none was better.
        behind: by what share the best was better, mean over the scenarios where that is a number.
        own: whether it is the metric that the policy is called after.
        lost_to: of its own metric: who was best where it was not, and how often.
    """

    policy: str
    metric: str
    wins: int
    behind: float
    own: bool
    lost_to: dict[str, int]


@dataclass(frozen=True, slots=True)
class Standings:
    """The same of all policies at all metrics that were looked at.

    Attributes:
        scenarios: what was compared, by seed.
        refused: in how many of them something was refused under some policy.
    """

    scenarios: tuple[Compared, ...]
    rows: tuple[Standing, ...]
    refused: int

    def of(self, policy: str, metric: str) -> Standing:
        """That of one policy at one metric."""
        return next(each for each in self.rows if (each.policy, each.metric) == (policy, metric))

    def share(self, policy: str) -> float | None:
        """In what share of scenarios a policy is best at its own metric; None where that was not looked at."""
        own = next((each for each in self.rows if each.policy == policy and each.own), None)
        return None if own is None else own.wins / len(self.scenarios)

    @property
    def holds(self) -> bool:
        """Whether each policy is best at its own metric as often as it should be."""
        shares = [self.share(policy) for policy in NAMED]
        return all(each is None or each >= WANTED for each in shares)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were looked at, in the order of the policies that are called after them."""
        return tuple(metric for metric in METRICS.values() if any(each.metric == metric for each in self.rows))


def standings(compared: Sequence[Compared]) -> Standings:
    """What comes of comparisons; all at the same metrics, and at least one."""
    ordered = tuple(sorted(compared, key=lambda each: each.seed))
    rows = [
        _standing(ordered, policy, metric)
        for metric in METRICS.values()
        if metric in ordered[0].figures
        for policy in NAMED
    ]
    return Standings(ordered, tuple(rows), sum(bool(each.refused) for each in ordered))


def _standing(compared: Sequence[Compared], policy: str, metric: str) -> Standing:
    own = METRICS[policy] == metric
    behind = [each.behind(policy, metric) for each in compared]
    lost_to = Counter(_best(each, metric) for each in compared if own and not each.best(policy))
    return Standing(
        policy,
        metric,
        sum(each.best(policy, metric) for each in compared),
        mean([each for each in behind if each != float("inf")] or [0.0]),
        own,
        dict(lost_to.most_common()),
    )


def _best(compared: Compared, metric: str) -> str:
    return min(compared.figures[metric], key=lambda policy: compared.behind(policy, metric))


def parse_metrics(text: str) -> tuple[str, ...]:
    """Metrics as people write them, apart by commas; all for an empty text."""
    named = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for each in named:
        if each not in METRICS.values():
            raise DistcedError("not a metric", given=each, allowed=", ".join(METRICS.values()), where="--metrics")
    return named or tuple(METRICS.values())


def as_dict(found: Standings) -> dict[str, Any]:
    """Every figure."""
    return {
        "scenarios": len(found.scenarios),
        "refused": found.refused,
        "wanted": WANTED,
        "equal": {metric: IMPACT_EQUAL if metric == "impact" else EQUAL for metric in found.metrics},
        "holds": found.holds,
        "own": {policy: share for policy in NAMED if (share := found.share(policy)) is not None},
        "rows": [
            {"policy": each.policy, "metric": each.metric, "wins": each.wins, "behind": each.behind, "own": each.own,
             "lost_to": each.lost_to}
            for each in found.rows
        ],
        "figures": [{"seed": each.seed, "figures": each.figures, "refused": each.refused} for each in found.scenarios],
    }  # fmt: skip


def show(console: Console, found: Standings) -> None:
    """The same for people: of each policy at each metric how often none is better, and how far it is behind."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy")
    for metric in found.metrics:
        table.add_column(metric, justify="right")
    table.add_column("own", justify="right")
    table.add_column("lost to")
    for policy in NAMED:
        cells = []
        for metric in found.metrics:
            each = found.of(policy, metric)
            cells.append(f"{each.wins}  {each.behind:+.1%}")
        share = found.share(policy)
        lost = found.of(policy, METRICS[policy]).lost_to if share is not None else {}
        words = ", ".join(f"{other} {count}" for other, count in lost.items())
        table.add_row(policy, *cells, "" if share is None else f"{share:.1%}", words)
    console.print(table)
    console.print(
        f"\n{len(found.scenarios)} scenarios. Of each policy: in how many none is better by more than {EQUAL:.0%} "
        f"(impact: by more than {IMPACT_EQUAL:.0%} of what was there before), and by how much the best is better on "
        "average; of impact and reliability in percentage points."
    )
    if found.refused:
        console.print(f"In {found.refused} of them something was refused under some policy.")


def plots(found: Standings) -> dict[str, str]:
    """SVG by file name."""
    shares = [(f"{policy}, {METRICS[policy]}", share * 100) for policy in NAMED
              if (share := found.share(policy)) is not None]  # fmt: skip
    title = f"Best at its own metric, {len(found.scenarios)} scenarios"
    made = {"policies.svg": bars(shares, title=title, unit="%")}
    for metric in found.metrics:
        rows = [(each.policy, max(each.behind, 0.0) * 100) for each in found.rows if each.metric == metric]
        made[f"policies-{metric}.svg"] = bars(rows, title=f"{metric}: worse than the best by, on average", unit="%")
    return made

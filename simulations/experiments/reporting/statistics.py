"""Means with confidence intervals, and paired tests between treatments on the same seeds.

Intervals are Student's (95 %), over seeds: the figures of one seed count once, however many events it has. Pairs are
tested by Wilcoxon's signed ranks, two-sided, which needs no normal distribution; p-values of one family are adjusted by
Holm's method. A bootstrap was rejected: with ten seeds its intervals are too narrow, and it needs a seed of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan, sqrt
from statistics import fmean, stdev
from typing import Final

from distced.middleware.model.errors import DistcedError
from distced.simulations.experiments.reporting.sections import Interval

LEVEL: Final = 0.95
"""Confidence of intervals."""

SIGNIFICANT: Final = 0.05
"""Adjusted p below which a difference counts as one."""

METHOD: Final = (
    "Intervals are 95 % confidence intervals of the mean by Student's t, over seeds, cut off where no value can be "
    "(below 0, a share above 1). Pairs on the same seeds are tested by Wilcoxon's signed-rank test, two-sided, with p "
    "adjusted by Holm's method within each table."
)


@dataclass(frozen=True, slots=True)
class Paired:
    """Difference between two treatments on the same seeds.

    Attributes:
        count: number of seeds with both.
        difference: of the first from the second, with its interval.
        ratio: mean of the first by that of the second; nan for none.
        p: probability of such ranks without a difference; 1 where all pairs are equal.
    """

    count: int
    difference: Interval
    ratio: float
    p: float


def interval(values: Sequence[float], *, most: float = inf) -> Interval | None:
    """Mean and its interval; None without values. That of a single value has no width, that of sizes begins at 0.

    Args:
        most: greatest possible value, as 1 of shares.
    """
    if not values:
        return None
    middle = fmean(values)
    if len(values) == 1:
        return Interval(middle, middle, middle, 1)
    half = _quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    low = middle - half
    return Interval(middle, max(low, 0.0) if min(values) >= 0 else low, min(middle + half, most), len(values))


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired | None:
    """Difference of two treatments, figures by seed; None where no seed has both."""
    seeds = sorted(first.keys() & second.keys())
    differences = [first[seed] - second[seed] for seed in seeds]
    middle = interval(differences)
    if middle is None:
        return None
    base = fmean(second[seed] for seed in seeds)
    ratio = fmean(first[seed] for seed in seeds) / base if base else nan
    return Paired(len(seeds), middle, ratio, _signed_ranks(differences))


def adjusted(values: Sequence[float]) -> list[float]:
    """P-values of a family of tests, adjusted by Holm's method."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found, least = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(values[place] * (len(values) - rank), 1.0))
        found[place] = least
    return found


def _quantile(freedom: int) -> float:
    try:
        from scipy.stats import t
    except ImportError:
        raise DistcedError(
            "statistics need scipy, which is not installed", advice="pip install 'distced[experiments]'"
        ) from None
    return float(t.ppf((1 + LEVEL) / 2, freedom))


def _signed_ranks(differences: Sequence[float]) -> float:
    if not any(differences):
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences, zero_method="pratt").pvalue)

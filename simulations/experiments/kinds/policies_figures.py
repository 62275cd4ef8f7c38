"""Figures of the kind `policies`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean
from typing import Any, Final

from distced.policies.distribution.policy import NAMED
from distced.simulations.experiments.model import Results
from distced.simulations.experiments.reporting.sections import (
    Axis,
    Claim,
    Dots,
    Figure,
    Interval,
    Panel,
    Section,
    Table,
)
from distced.simulations.experiments.reporting.statistics import SIGNIFICANT, adjusted, interval, paired
from distced.simulations.experiments.topologies import TWO_SITES
from distced.simulations.report import Cell as TableCell
from distced.simulations.report import Column

STATIC: Final = "static "

EQUAL: Final = 0.01
"""Greatest relative difference that counts as equal."""

WANTED: Final = 0.97
"""Least share of the runs in which a policy is best at its own metric."""

NEAR: Final = 0.03
"""Greatest mean distance from the optimum."""


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric, less is better, with the policy that is named after it."""

    column: str
    label: str
    axis: Axis
    policy: str


_METRICS: Final = (
    _Metric("latency_ms", "mean delay", Axis("delay of notifications", "ms"), "min-latency"),
    _Metric("bytes_s", "traffic", Axis("traffic over all links", "B/s", logarithmic=True), "min-bandwidth"),
    _Metric("load_max", "load of the busiest node", Axis("load", "instances/s", logarithmic=True), "min-load"),
)
_P99: Final = Axis("delay of notifications", "ms")
_CLASSES: Final = {"wired": "wired links", "access": "access links", "wireless": "wireless link"}


def figures(results: Results) -> list[Section]:
    """Each workload on its own, policies at their own metrics, losses, drift, distance from the optimum."""
    sections: list[Section] = [_settings(results), *_own_metrics(results)]
    for workload in results.distinct("workload"):
        sections += _of_workload(results.where(workload=workload), workload)
    sections += [*_losses(results), *_drift(results), *_optimum(results)]
    sections += [_pairs(results), *_claims(results)]
    return sections


def _treatments(results: Results) -> list[str]:
    return results.distinct("treatment")


def _panel(results: Results, column: str, axis: Axis, title: str, *, most: float = inf) -> Panel:
    """Means of a column: topologies as groups, treatments as series."""
    series: dict[str, dict[str, Interval]] = {}
    for treatment in _treatments(results):
        groups = {}
        for topology in results.distinct("topology"):
            found = interval(results.where(treatment=treatment, topology=topology).numbers(column), most=most)
            if found is not None:
                groups[topology] = found
        if groups:
            series[treatment] = groups
    return Panel(axis, series, title)


def _settings(results: Results) -> Table:
    rows: list[Sequence[TableCell]] = [
        ("workload", each.name, each.kind, f"{each.subscriptions:,} subscriptions, {each.duration} of virtual time")
        for each in results.spec.workloads
    ]
    for each in results.spec.topologies:
        sites = 2 if each.kind == TWO_SITES else each.sites
        numbers = (
            f"{sites:,} sites, {each.nodes:,} broker nodes, {each.publishers:,} publishers, "
            f"{each.subscribers:,} subscribers"
        )
        rows.append(("topology", each.name, each.kind or "file", numbers if each.kind else ""))
    return Table(
        "setting",
        "Workloads and topologies",
        (Column("what"), Column("name"), Column("kind"), Column("size")),
        rows,
        "Random topologies, streams and subscriptions are drawn from the seed, and are the same for every policy of a "
        "seed. In the workload office, the topology's publishers are replaced by the sensors of the building.",
    )


def _of_workload(results: Results, workload: str) -> Iterator[Section]:
    yield Figure(
        f"delay-traffic-{_slug(workload)}",
        f"Delay and traffic: {workload}",
        Dots(
            [
                _panel(results, "latency_ms", _P99, "mean delay"),
                _panel(results, "latency_p99_ms", _P99, "99th percentile of the delay"),
                _panel(results, "bytes_s", _METRICS[1].axis, "traffic"),
            ]
        ),
        "Delay from the last event of a match to the subscriber, under guaranteed detection (which waits for the "
        "heartbeats of all sources), and bytes over all links without those of the directory. Dots are means over "
        "seeds, bars their 95 % confidence intervals. Each seed is another network, so that bars are wide: the ratios "
        "and the paired tests compare on the same network.",
    )
    classes = [name for name in _CLASSES if results.values(f"bytes_{name}_s")]
    if len(classes) > 1:
        yield Figure(
            f"link-classes-{_slug(workload)}",
            f"Traffic by class of link: {workload}",
            Dots([_panel(results, f"bytes_{name}_s", _METRICS[1].axis, _CLASSES[name]) for name in classes]),
            "The same bytes by the class of the link: wired (a byte costs 1 or less), access (up to 10), wireless "
            "(more). Topologies without links of a class are left out.",
        )
    yield Figure(
        f"load-{_slug(workload)}",
        f"Load and detectors: {workload}",
        Dots(
            [
                _panel(results, "load_max", _METRICS[2].axis, "busiest node"),
                _panel(results, "load_spread", Axis("standard deviation / mean"), "spread over the nodes"),
                _panel(results, "detectors", Axis("number of detectors"), "detectors"),
                _panel(results, "shared", Axis("number of detectors"), "of these shared"),
                _panel(results, "migrations", Axis("number of moves"), "migrations"),
            ]
        ),
        "Load is the number of partial matches that a node tries a second. Shared detectors serve several "
        "subscriptions or detectors. Migrations are those while measured.",
    )


def _ratios(results: Results, metric: str, treatment: str, base: str) -> dict[int, float]:
    """Logarithm of the ratio of a metric to that of another treatment, by seed, mean over workloads and topologies."""
    found: dict[int, list[float]] = {}
    values = _by_run(results, metric)
    for (place, seed), own in values.get(treatment, {}).items():
        other = values.get(base, {}).get((place, seed))
        if own > 0 and other is not None and other > 0:
            found.setdefault(seed, []).append(log(own / other))
    return {seed: fmean(each) for seed, each in found.items()}


def _by_run(results: Results, metric: str) -> dict[str, dict[tuple[Any, int], float]]:
    """Values of a metric by treatment, and by workload and topology, and seed."""
    found: dict[str, dict[tuple[Any, int], float]] = {}
    for row in results.rows:
        value = row.get(metric)
        if isinstance(value, int | float):
            key = ((row["workload"], row["topology"]), int(row["seed"] or 0))
            found.setdefault(str(row["treatment"]), {})[key] = float(value)
    return found


def _as_ratio(logarithms: Mapping[int, float]) -> Interval | None:
    found = interval([*logarithms.values()])
    if found is None:
        return None
    middle, half = found.mean, found.high - found.mean
    return Interval(exp(middle), exp(middle - half), exp(middle + half), found.count)


def _own_metrics(results: Results) -> list[Section]:
    panels = []
    for metric in _METRICS:
        groups = {}
        for treatment in _treatments(results):
            ratio = _as_ratio(_ratios(results, metric.column, treatment, metric.policy))
            if ratio is not None:
                groups[treatment] = ratio
        axis = Axis(f"ratio to {metric.policy}", logarithmic=metric.axis.logarithmic, zero=False)
        if groups:
            panels.append(Panel(axis, {"": groups}, metric.label, ("", 1.0)))
    if not panels:
        return []
    return [
        Figure(
            "own-metrics",
            "Each metric against the policy that is named after it",
            Dots(panels),
            "Ratio of each treatment to the policy of the metric on the same seed, geometric mean over all workloads "
            "and topologies, with 95 % confidence intervals over seeds. Right of the dashed line is worse than the "
            "policy that aims at the metric; the optimum may be left of it.",
        )
    ]


def _losses(results: Results) -> list[Section]:
    if not results.values("delivered_after_loss"):
        return []
    panels = [
        _panel(results.where(workload=workload), "delivered_after_loss", Axis("delivered share"), workload, most=1.0)
        for workload in results.distinct("workload")
    ]
    return [
        Figure(
            "loss",
            "Delivery when the node with the most detectors is lost",
            Dots(panels),
            "Share of the composite events after the loss that subscribers receive nevertheless; 1 is all that one "
            "engine finds over the published events. The node is lost after the measured part of the run. The process "
            "of the node ends without a farewell, and does not come back; nodes keep no checkpoints here. A central "
            "detector is tied to its node, as optima are to theirs, which are not run with a loss.",
        )
    ]


def _drift(results: Results) -> list[Section]:
    treatments = _treatments(results)
    pairs = [each for each in treatments if STATIC + each in treatments]
    if not pairs:
        return []
    panels = []
    for metric in _METRICS:
        groups = {}
        for policy in pairs:
            ratio = _as_ratio(_ratios(results, metric.column, policy, STATIC + policy))
            if ratio is not None:
                groups[policy] = ratio
        panels.append(Panel(Axis("ratio adaptive / static", zero=False), {"": groups}, metric.label, ("", 1.0)))
    return [
        Figure(
            "static-adaptive",
            "Adaptive against static under drift",
            Dots(panels),
            "Static detectors stay where the policy had them before the rates changed; adaptive ones may move, and "
            "the bytes of their moves are counted. Ratios on the same seeds, geometric means with 95 % confidence "
            "intervals; left of the dashed line adapting is better.",
        )
    ]


def _optimum(results: Results) -> list[Section]:
    panels = []
    for metric in _METRICS:
        optimal = metric.policy.replace("min-", "optimum-")
        if optimal not in _treatments(results):
            continue
        groups = {}
        for topology in results.distinct("topology"):
            ratio = _as_ratio(_ratios(results.where(topology=topology), metric.column, metric.policy, optimal))
            if ratio is not None:
                groups[topology] = ratio
        panels.append(Panel(Axis(f"{metric.policy} / optimum", zero=False), {"": groups}, metric.label, ("", 1.0)))
    if not panels:
        return []
    return [
        Figure(
            "optimum",
            "Policies against the optimum of placement analysis",
            Dots(panels),
            "Ratio of a policy to the proven optimum of its metric, both measured in the simulation, on the same "
            "seeds. The optimum knows the events of the whole run beforehand; it is optimal for mean rates, so that a "
            "measured ratio may be below 1.",
        )
    ]


def _pairs(results: Results) -> Table:
    made = []
    for metric in _METRICS:
        for treatment in _treatments(results):
            logarithms = _ratios(results, metric.column, treatment, metric.policy)
            found = paired(logarithms, dict.fromkeys(logarithms, 0.0))
            if treatment != metric.policy and found is not None:
                made.append((metric, treatment, found, _as_ratio(logarithms)))
    probabilities = adjusted([each.p for _, _, each, _ in made])
    rows: list[Sequence[TableCell]] = []
    for (metric, treatment, each, ratio), p in zip(made, probabilities, strict=True):
        assert ratio is not None
        between = f"{ratio.low:.3f} to {ratio.high:.3f}"
        rows.append((metric.label, metric.policy, treatment, ratio.mean, between, p, each.count))
    columns = (
        Column("metric"), Column("policy of the metric"), Column("against"), Column("ratio", format=".3f"),
        Column("95 % interval"), Column("p", format=".3g"), Column("seeds", format=","),
    )  # fmt: skip
    return Table(
        "pairs",
        "Paired tests on the same seeds",
        columns,
        rows,
        "Ratio of the treatment in the third column to the policy that is named after the metric; above 1 the latter "
        f"is better. p below {SIGNIFICANT} counts as a difference.",
    )


def _claims(results: Results) -> Iterator[Claim]:
    named = [each for each in NAMED if each in _treatments(results)]
    for metric in _METRICS:
        values = {each: made for each, made in _by_run(results, metric.column).items() if each in named}
        if metric.policy not in values or len(values) < 2:
            continue
        runs = values[metric.policy]
        best = sum(
            own <= min(made.get(key, own) for made in values.values()) * (1 + EQUAL) for key, own in runs.items()
        )
        share = best / len(runs)
        yield Claim(
            f"{metric.policy} has the least {metric.label} of the five policies, or as little as the best, in "
            f"{WANTED:.0%} of the runs.",
            share >= WANTED,
            f"{share:.1%} of {len(runs):,} runs",
            "own-metrics",
        )
        optimal = _as_ratio(_ratios(results, metric.column, metric.policy, metric.policy.replace("min-", "optimum-")))
        if optimal is not None:
            yield Claim(
                f"{metric.policy} is within {NEAR:.0%} of the optimum at the mean, for all of the confidence interval.",
                _at_most(optimal, 1 + NEAR),
                f"ratio {optimal.mean:.3f} ({optimal.low:.3f} to {optimal.high:.3f})",
                "optimum",
            )
        drifting = _as_ratio(_ratios(results, metric.column, metric.policy, STATIC + metric.policy))
        if drifting is not None:
            yield Claim(
                f"Under drift {metric.policy} that adapts has no more {metric.label} than where it is static.",
                _at_most(drifting, 1 + EQUAL),
                f"ratio {drifting.mean:.3f} ({drifting.low:.3f} to {drifting.high:.3f})",
                "static-adaptive",
            )

    yield from _reliability(results, named)


def _reliability(results: Results, named: Sequence[str]) -> Iterator[Claim]:
    own = "max-reliability"
    shares = {each: made for each, made in _by_run(results, "delivered_after_loss").items() if each in named}
    if own in shares and len(shares) > 1:
        runs = shares[own]
        best = sum(share >= max(made.get(key, 0.0) for made in shares.values()) - EQUAL for key, share in runs.items())
        found = interval([*runs.values()], most=1.0)
        assert found is not None
        yield Claim(
            f"{own} delivers the most of the five policies after the loss of a node, or as much as the best, in "
            f"{WANTED:.0%} of the runs.",
            best / len(runs) >= WANTED,
            f"{best / len(runs):.1%} of {len(runs):,} runs; delivered share {found.mean:.3f} at the mean",
            "loss",
        )


def _at_most(ratio: Interval, most: float) -> bool | None:
    """Whether a mean is at most this; None where its interval has values on both sides."""
    return True if ratio.high <= most else False if ratio.low > most else None


def _slug(text: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in text)

"""Figures of the kind `detection`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distced.simulations.benchmarks.detection import LEARNING, NETWORKS
from distced.simulations.experiments.model import Results
from distced.simulations.experiments.reporting.sections import (
    Axis,
    Claim,
    Curves,
    Dots,
    Figure,
    Interval,
    Panel,
    Scatter,
    Section,
    Table,
)
from distced.simulations.experiments.reporting.statistics import SIGNIFICANT, adjusted, interval, paired
from distced.simulations.report import Cell as TableCell
from distced.simulations.report import Column

_LEAST_SHARE = 1e-5
_ERRORS = Axis("share of unstable events", logarithmic=True, threshold=_LEAST_SHARE)


def figures(results: Results) -> list[Section]:
    """Delays and errors side by side, one against the other, calibration, and the pairs."""
    networks, policies = results.distinct("network"), results.distinct("policy")
    sections: list[Section] = [_networks(networks), _side_by_side(results, networks), _against(results, networks)]
    calibration = _calibration(results, networks)
    if calibration is not None:
        sections.append(calibration)
    sections.append(_pairs(results, networks, policies))
    sections += _claims(results, networks, policies, calibrated=calibration is not None)
    return sections


def _mean(results: Results, column: str, **factors: str) -> Interval | None:
    return interval(results.where(**factors).numbers(column))


def _by_policy(results: Results, network: str, column: str) -> dict[str, Interval]:
    policies = results.distinct("policy")
    found = {policy: _mean(results, column, network=network, policy=policy) for policy in policies}
    return {policy: each for policy, each in found.items() if each is not None}


def _networks(networks: Sequence[str]) -> Table:
    return Table(
        "networks",
        "The networks",
        (Column("network"), Column("sources and delays")),
        [(name, NETWORKS[name].about) for name in networks],
        "The same messages arrive under every policy; those of one source stay in order, as over MQTT. The first "
        f"{LEARNING:.0%} of each run, in which a probabilistic policy learns the delays, are not counted.",
    )


def _side_by_side(results: Results, networks: Sequence[str]) -> Figure:
    columns = (
        ("mean_ms", "mean delay", Axis("delay to consumption", "ms", logarithmic=True)),
        ("p99_ms", "99th percentile of the delay", Axis("delay to consumption", "ms", logarithmic=True)),
        ("share", "errors", _ERRORS),
    )
    panels = [
        Panel(axis, {network: _by_policy(results, network, column) for network in networks}, title)
        for column, title, axis in columns
    ]
    return Figure(
        "delay-and-errors",
        "Delay and errors of each detection policy",
        Dots(panels),
        "How long a detector holds an event back before it consumes it (left, middle), and how often that was too "
        "early: an event is unstable where an earlier one arrives after its consumption, so that a match may be missed "
        "or wrong (right; 0 is at the left edge). Dots are means over seeds, bars their 95 % confidence intervals.",
    )


def _against(results: Results, networks: Sequence[str]) -> Figure:
    series, labels = {}, {}
    for network in networks:
        delays, shares = _by_policy(results, network, "mean_ms"), _by_policy(results, network, "share")
        series[network] = [(delays[policy], shares[policy]) for policy in delays]
        labels[network] = [_short(policy) for policy in delays]
    longest = max(networks, key=lambda name: max((each.mean for each, _ in series[name]), default=0.0))
    return Figure(
        "trade-off",
        "Errors against delay",
        Scatter(
            Axis("mean delay to consumption", "ms", logarithmic=True), _ERRORS, series, joined=True,
            labels={longest: labels[longest]},
        ),
        "Each line is one network, each point one policy, from best effort (fast, many errors) to guaranteed (no "
        f"errors, waits for every source); the points of “{longest}” are labelled. Below and to the left is better.",
    )  # fmt: skip


def _short(policy: str) -> str:
    return policy.replace("probabilistic", "p=").replace("(", "").replace(")", "") if "(0" in policy else policy


def _calibration(results: Results, networks: Sequence[str]) -> Figure | None:
    """Measured against allowed shares of the probabilistic policies; None without any."""
    series: dict[str, Mapping[float, Interval]] = {}
    for network in networks:
        points = {}
        for policy in results.distinct("policy"):
            own = results.where(network=network, policy=policy)
            allowed, share = own.numbers("allowed"), interval(own.numbers("share"))
            if allowed and allowed[0] > 0 and share is not None:
                points[allowed[0]] = share
        if points:
            series[network] = points
    if not series:
        return None
    allowed_axis = Axis("allowed share of unstable events (1 - probability)", logarithmic=True)
    return Figure(
        "calibration",
        "Calibration of probabilistic detection",
        Curves(allowed_axis, _ERRORS, series, diagonal="as allowed"),
        "A policy probabilistic(p) promises that at most 1 - p of the events turn out unstable. A point on or below "
        "the dashed line keeps that promise; 0 is at the lower edge. Bars are 95 % confidence intervals over seeds.",
    )


def _pairs(results: Results, networks: Sequence[str], policies: Sequence[str]) -> Table:
    """Delay of each policy against guaranteed detection on the same messages."""
    base = "guaranteed" if "guaranteed" in policies else policies[-1]
    made = []
    for network in networks:
        for policy in policies:
            if policy == base:
                continue
            mine, other = (results.where(network=network, policy=each).by_seed("mean_ms") for each in (policy, base))
            found = paired(mine, other)
            if found is not None:
                made.append((network, policy, found))
    probabilities = adjusted([each.p for _, _, each in made])
    rows: list[Sequence[TableCell]] = []
    for (network, policy, each), p in zip(made, probabilities, strict=True):
        between = f"{each.difference.low:,.1f} to {each.difference.high:,.1f}"
        share = _mean(results, "share", network=network, policy=policy)
        shown = None if share is None else share.mean
        rows.append((network, policy, each.ratio, each.difference.mean, between, p, each.count, shown))
    columns = (
        Column("network"), Column("policy"), Column("delay / that of " + base, format=".3f"),
        Column("difference", "ms", ",.1f"), Column("95 % interval", "ms"), Column("p", format=".3g"),
        Column("seeds", format=","), Column("unstable share", format=".2g"),
    )  # fmt: skip
    return Table(
        "pairs",
        f"Mean delay against {base} detection, on the same messages",
        columns,
        rows,
        f"Negative differences are shorter delays. p below {SIGNIFICANT} counts as a difference.",
    )


def _claims(results: Results, networks: Sequence[str], policies: Sequence[str], *, calibrated: bool) -> list[Claim]:
    found = []
    if "guaranteed" in policies:
        own = results.where(policy="guaranteed")
        wrong = sum(own.numbers("unstable")) + sum(own.numbers("late"))
        events = sum(own.numbers("events"))
        found.append(
            Claim(
                "Guaranteed detection consumes no event too early, and none late, under any distribution of delays.",
                wrong == 0,
                f"{wrong:,.0f} of {events:,.0f} events",
                "delay-and-errors",
            )
        )
    for policy in policies if calibrated else ():
        allowed = results.where(policy=policy).numbers("allowed")
        if not allowed or not allowed[0]:
            continue
        shares = {network: _mean(results, "share", network=network, policy=policy) for network in networks}
        known = {network: each for network, each in shares.items() if each is not None}
        worst = max(known, key=lambda name: known[name].mean)
        found.append(
            Claim(
                f"{policy} keeps its promise of at most {allowed[0]:.2g} unstable events on every network.",
                _at_most(list(known.values()), allowed[0]),
                f"at most {known[worst].mean:.2g} ({known[worst].low:.2g} to {known[worst].high:.2g}), on {worst}",
                "calibration",
            )
        )
    return found


def _at_most(shares: Sequence[Interval], allowed: float) -> bool | None:
    """Whether all means are below a limit; None where the interval of one above it reaches below."""
    if all(each.mean <= allowed for each in shares):
        return True
    return False if any(each.low > allowed for each in shares) else None

"""Checks of clocks: those of nodes against this machine's, and against each other.

A request leaves at `sent`, is answered at `at` by the clock of the node, and the answer is here at `received`. The node
has read its clock in between, so it is ahead by `at - (sent + received) / 2`, right to half the round trip, as in NTP
(RFC 5905, section 8); the shortest of several round trips bounds it best. A clock counts as off where it is beyond the
bound whatever the round trip, and cannot be checked where the round trip is as long as the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final, NamedTuple

from distced.brokers.doctor.checks.findings import Finding, State, duration
from distced.middleware.model.timestamps import SECOND

BOUND: Final = SECOND // 2
"""Difference of two clocks from which one counts as off, ns: detectors wait for it, and by it events are late."""


class RoundTrip(NamedTuple):
    """Round trip of a request to a node: `sent` and `received` by the clock here, `at` by that of the node, ns."""

    sent: int
    at: int
    received: int


class ClockEstimate(NamedTuple):
    """Estimate of a clock: ns by which it is ahead of the one here, and the greatest error of that."""

    ahead: int
    error: int


def estimate(trips: Iterable[RoundTrip]) -> ClockEstimate | None:
    """Estimate by the shortest round trip; None for none, as where the clock here was set back meanwhile."""
    usable = [each for each in trips if each.received >= each.sent]
    if not usable:
        return None
    best = min(usable, key=lambda trip: trip.received - trip.sent)
    return ClockEstimate(best.at - (best.sent + best.received) // 2, (best.received - best.sent + 1) // 2)


def clock_findings(
    trips: Mapping[str, Iterable[RoundTrip]], most_ahead: Mapping[str, int], bound: int = BOUND
) -> list[Finding]:
    """Findings about the clocks of nodes, by their round trips.

    Args:
        most_ahead: by node, instants beyond its clock that it accepts, ns.
        bound: difference from which a clock counts as off, ns.
    """
    estimates = {node: found for node, each in sorted(trips.items()) if (found := estimate(each)) is not None}
    findings = [_against_here(node, found, most_ahead.get(node), bound) for node, found in estimates.items()]
    for (node, one), (other, two) in combinations(estimates.items(), 2):
        apart, error = abs(one.ahead - two.ahead), one.error + two.error
        if apart - error > bound:
            text = f"differs from that of {other} by {_figure(apart, error)}; the bound is {duration(bound)}"
            findings.append(Finding("clocks", State.WARNING, node, text, _REMEDY))
    return findings


_REMEDY: Final = "have a time service such as chrony set the clocks of both machines"


def _against_here(node: str, found: ClockEstimate, most_ahead: int | None, bound: int) -> Finding:
    apart = abs(found.ahead)
    direction = "ahead of" if found.ahead > 0 else "behind"
    text = f"{_figure(apart, found.error)} {direction} the clock here; the bound is {duration(bound)}"
    if most_ahead is not None and -found.ahead - found.error > most_ahead:
        limit = duration(most_ahead)
        text += f", and it rejects events more than {limit} beyond its clock, as those with the time here"
        return Finding("clock", State.ERROR, node, text, _REMEDY)
    if apart - found.error > bound:
        return Finding("clock", State.WARNING, node, text, _REMEDY)
    if found.error > bound:
        text = f"its answers take too long to tell: {_figure(apart, found.error)} {direction} the clock here"
        return Finding("clock", State.NOT_CHECKED, node, text, "try again from a machine that is nearer to it")
    return Finding("clock", State.OK, node, text)


def _figure(apart: int, error: int) -> str:
    return f"{duration(apart)} ± {duration(error)}"

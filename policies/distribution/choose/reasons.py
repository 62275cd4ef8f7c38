"""Reasons of suggestions as text: a sentence with the costs."""

from __future__ import annotations

from collections.abc import Sequence

from distced.middleware.model.timestamps import MICROSECOND, MILLISECOND, SECOND
from distced.policies.distribution.candidate import Candidate


def reason_of(
    policy: str, best: Candidate, others: Sequence[Candidate], parts: tuple[Sequence[str], Sequence[str]]
) -> str:
    """Reason of a suggestion; `others`, best first; `parts` read from running detectors, and yet to be made."""
    said = f"{policy}: {what(best)}"
    reused, new = parts
    if reused:
        said += f", reading {_count(len(reused), 'running detector')} as part of it"
    if new:
        said += f", with {_count(len(new), 'new part')}"
    said += f": {costs_in_words(best)}"
    elsewhere = next((each for each in others if (each.nodes, each.action) != (best.nodes, best.action)), None)
    if elsewhere is None:
        return f"{said}; there was no other choice"
    return f"{said}; next best of {len(others) + 1}: {what(elsewhere)}: {costs_in_words(elsewhere)}"


def what(candidate: Candidate) -> str:
    """The action in words."""
    nodes = ", ".join(candidate.nodes)
    if candidate.action == "reuse":
        return f"the detector on {nodes} serves"
    one, several = ("a new detector", "new detectors") if candidate.action == "create" else ("a replica", "replicas")
    return f"{several if candidate.replicas else one} on {nodes}"


def costs_in_words(candidate: Candidate) -> str:
    return (
        f"{show_time(candidate.delay)} to subscribers, {show_rate(candidate.bytes)} more over links "
        f"({show_rate(candidate.bytes_before)} now), {show_figure(candidate.load)} instances/s more, "
        f"busiest node {show_use(candidate, candidate.peak_before)} → {show_use(candidate, candidate.peak)}"
    )


def show_time(nanoseconds: float) -> str:
    """Time with three digits."""
    return _scaled(nanoseconds, ("s", SECOND), ("ms", MILLISECOND), ("µs", MICROSECOND), ("ns", 1))


def show_rate(bytes_per_second: float) -> str:
    """Bytes per second with three digits."""
    return _scaled(bytes_per_second, ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1))


def show_figure(number: float) -> str:
    """Number with three digits."""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def show_use(candidate: Candidate, use: float) -> str:
    """Use of a node: percent of its capacity, or instances per second where no capacity is known."""
    return f"{show_figure(use * 100)} %" if candidate.limited else f"{show_figure(use)}/s"


def _scaled(value: float, *units: tuple[str, float]) -> str:
    unit, size = next((each for each in units if abs(value) >= each[1]), units[-1])
    return f"{value / size:.3g} {unit}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"

"""Why something was suggested, as people read it: a sentence with the figures."""

from __future__ import annotations

from collections.abc import Sequence

from distced.middleware.model.timestamps import MICROSECOND, MILLISECOND, SECOND
from distced.policies.distribution.candidate import Candidate


def reason_of(
    policy: str, best: Candidate, others: Sequence[Candidate], parts: tuple[Sequence[str], Sequence[str]]
) -> str:
    """The sentence.

    Args:
        others: the other candidates, the best first.
        parts: the parts that are read from running detectors, and those that are to be made.
    """
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
    """What is to be done, without why."""
    nodes = ", ".join(candidate.nodes)
    match candidate.action:
        case "create":
            return f"a new detector on {nodes}" if not candidate.replicas else f"new detectors on {nodes}"
        case "reuse":
            return f"the detector on {nodes} serves"
        case _:
            return f"a replica on {nodes}" if not candidate.replicas else f"replicas on {nodes}"


def costs_in_words(candidate: Candidate) -> str:
    """The figures of a candidate in a row."""
    return (
        f"{show_time(candidate.delay)} to subscribers, {show_rate(candidate.bytes)} more over links "
        f"({show_rate(candidate.bytes_before)} now), {show_figure(candidate.load)} instances/s more, "
        f"busiest node {show_use(candidate, candidate.peak_before)} → {show_use(candidate, candidate.peak)}"
    )


def show_time(nanoseconds: float) -> str:
    """A time to three digits."""
    for unit, size in (("s", SECOND), ("ms", MILLISECOND), ("µs", MICROSECOND)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def show_rate(bytes_per_second: float) -> str:
    """Bytes a second to three digits."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if abs(bytes_per_second) >= size:
            return f"{bytes_per_second / size:.3g} {unit}"
    return f"{bytes_per_second:.3g} B/s"


def show_figure(number: float) -> str:
    """Any number to three digits."""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def show_use(candidate: Candidate, use: float) -> str:
    """A use of nodes: a share of the capacity, or instances a second where no capacity is known."""
    return f"{show_figure(use * 100)} %" if candidate.limited else f"{show_figure(use)}/s"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"

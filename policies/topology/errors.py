"""Errors of topologies."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from distced.middleware.model.errors import DistcedError


class TopologyError(DistcedError):
    """An invalid topology, or a request for a part that it lacks."""


def located(error: DistcedError, where: str) -> TopologyError:
    """The error at another place."""
    return TopologyError(error.problem, given=error.given, allowed=error.allowed, where=where, advice=error.advice)


def unknown(problem: str, given: str, known: Iterable[str], where: str | None = None) -> TopologyError:
    """Error for an unknown name, with the known ones and the nearest."""
    names = sorted(known)
    near = get_close_matches(given, names, n=1)
    return TopologyError(
        problem,
        given=given,
        allowed=", ".join(names) or "there is none",
        where=where,
        advice=f"did you mean {near[0]}?" if near else None,
    )

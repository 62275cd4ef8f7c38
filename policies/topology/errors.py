"""What is wrong with a topology, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from distced.middleware.model.errors import DistcedError


class TopologyError(DistcedError):
    """A topology that cannot be, or something asked of one that it does not hold."""


def located(error: DistcedError, where: str) -> TopologyError:
    """The error with another place."""
    return TopologyError(error.problem, given=error.given, allowed=error.allowed, where=where, advice=error.advice)


def unknown(problem: str, given: str, known: Iterable[str], where: str | None = None) -> TopologyError:
    """An error about a name that is not known: it lists those that are, and says which one was probably meant."""
    names = sorted(known)
    near = get_close_matches(given, names, n=1)
    return TopologyError(
        problem,
        given=given,
        allowed=", ".join(names) or "there is none",
        where=where,
        advice=f"did you mean {near[0]}?" if near else None,
    )

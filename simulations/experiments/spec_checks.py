"""Checks of the values in the table of a kind; errors are `SpecError`, with the path of the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from distced.middleware.model.errors import DistcedError
from distced.simulations.experiments.model import SpecError


def named_once(values: Sequence[str], path: Sequence[str | int], what: str) -> None:
    """Check that each name of a factor is there once; raises `SpecError`."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise SpecError(f"a {what} twice", (*path, place), given=value, allowed="each once")
    if not values:
        raise SpecError(f"no {what}", path, allowed="at least one")


def check_known(value: str, known: Iterable[str], path: Sequence[str | int], problem: str) -> None:
    """Check that a name is known; raises `SpecError`."""
    names = list(known)
    if value not in names:
        near = get_close_matches(value, names, n=1)
        raise SpecError(problem, path, given=value, allowed=", ".join(names),
                        advice=f"did you mean {near[0]}?" if near else None)  # fmt: skip


def check_range(value: float, least: float, most: float, path: Sequence[str | int], what: str) -> None:
    """Check that a number is within bounds, both included; raises `SpecError`."""
    if not least <= value <= most:
        raise SpecError(f"not a {what}", path, given=value, allowed=f"{least:,} to {most:,}")


@contextmanager
def at_key(*path: str | int) -> Iterator[None]:
    """Errors from inside with the path of a key."""
    try:
        yield
    except SpecError:
        raise
    except DistcedError as error:
        advice = "; ".join(filter(None, [error.where, error.advice]))
        raise SpecError(error.problem, path, given=error.given, allowed=error.allowed, advice=advice or None) from None

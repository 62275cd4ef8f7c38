"""The design space of distribution policies, and the five named ones.

composite-event-framework-2004, "Distribution Policies", Fig. 9 and Table 1; design, section 3. A policy is a point in
three dimensions; a subscription has one of its own, with hints of the application. Policies hold no state and decide
nothing: they say what is wanted, `suggest` works out what that means here and now, and the node decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, get_args

from middleware.errors import DistcedError

Decomposition: TypeAlias = Literal["none", "for-reuse", "full"]
"""What of a pattern becomes detectors of its own: nothing, what is detected already, or all that may be."""

Reuse: TypeAlias = Literal["none", "local-only", "at-least-2", "maximum"]
"""Which running detectors are read: none, those close by, those of which there are two or more, or all."""

Locality: TypeAlias = Literal["subscribers", "publishers", "none"]
"""Where new detectors stand: near who wants to know, near where events come from, or wherever there is least to do."""

_DIMENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "decomposition": get_args(Decomposition),
    "reuse": get_args(Reuse),
    "locality": get_args(Locality),
}


@dataclass(frozen=True, slots=True)
class Hints:
    """What an application knows that the middleware does not.

    Attributes:
        nodes: the nodes that detectors may stand on; empty for all.
        avoid: nodes they may not stand on.
        rates: by event type, events a second to be expected, where nothing has been measured.
        selectivity: of the whole pattern: how many composite events for each event that it reads; None for not known.
    """

    nodes: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    rates: tuple[tuple[str, float], ...] = ()
    selectivity: float | None = None


@dataclass(frozen=True, slots=True)
class DistributionPolicy:
    """A distribution policy.

    Attributes:
        name: by which people call it; that of its dimensions where it has no name of its own.
        decomposition, reuse, locality: the point in the design space.
        replicas: how many detectors of the pattern there are to be, on nodes of their own.
        hints: what the application knows.
    """

    name: str
    decomposition: Decomposition
    reuse: Reuse
    locality: Locality
    replicas: int = 1
    hints: Hints = Hints()

    def hinted(self, hints: Hints) -> DistributionPolicy:
        """The same policy with hints."""
        return replace(self, hints=hints)

    @property
    def text(self) -> str:
        """The name, or the three dimensions, as `parse_policy` reads them."""
        return self.name if self.name in NAMED else f"{self.decomposition} {self.reuse} {self.locality}"


NAMED: Final = {
    policy.name: policy
    for policy in (
        DistributionPolicy("min-latency", "none", "local-only", "subscribers"),
        DistributionPolicy("min-bandwidth", "for-reuse", "maximum", "publishers"),
        DistributionPolicy("min-impact", "for-reuse", "maximum", "none"),
        DistributionPolicy("min-load", "full", "maximum", "none"),
        DistributionPolicy("max-reliability", "for-reuse", "at-least-2", "none", replicas=2),
    )
}
"""The policies of Table 1, by name. Each tries to be best at what it is called after."""

DEFAULT: Final = NAMED["min-latency"]


def parse_policy(given: Any, *, where: str | None = None) -> DistributionPolicy:
    """A policy from what people write: a name, three words in the order of the dimensions, or a table of these.

    Raises:
        DistcedError: for anything else; it says what is allowed.
    """
    if isinstance(given, str):
        words = given.split()
        if len(words) == 3:
            return _policy(dict(zip(_DIMENSIONS, words, strict=True)), where)
        if given in NAMED:
            return NAMED[given]
        near = get_close_matches(given, NAMED, n=1)
        raise DistcedError(
            "no distribution policy of this name",
            given=given,
            allowed=", ".join(NAMED),
            where=where,
            advice=f"did you mean {near[0]}?" if near else "or three words: " + _words(),
        )
    if isinstance(given, dict):
        return _policy(given, where)
    raise DistcedError("not a distribution policy", given=given, allowed=f"a name, or {_words()}", where=where)


def _policy(given: dict[str, Any], where: str | None) -> DistributionPolicy:
    unknown = sorted(given.keys() - _DIMENSIONS.keys() - {"replicas"})
    if unknown:
        raise DistcedError(
            "no dimension of distribution policies", given=unknown[0], allowed=", ".join(_DIMENSIONS), where=where
        )
    for name, allowed in _DIMENSIONS.items():
        if given.get(name) not in allowed:
            raise DistcedError(
                f"no value of the dimension {name}", given=given.get(name), allowed=", ".join(allowed), where=where
            )
    point = (given["decomposition"], given["reuse"], given["locality"])
    default = 2 if given["reuse"] == "at-least-2" else 1
    replicas = given.get("replicas", default)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise DistcedError("not a number of replicas", given=replicas, allowed="1 or more", where=where)
    for named in NAMED.values():
        if point == (named.decomposition, named.reuse, named.locality) and replicas == named.replicas:
            return named
    return DistributionPolicy(" ".join(point), *point, replicas=replicas)


def _words() -> str:
    return ", ".join(f"{name} ({' | '.join(values)})" for name, values in _DIMENSIONS.items())

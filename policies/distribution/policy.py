"""Distribution policies: design space, the five named points, and names to policies.

composite-event-framework-2004, "Distribution Policies", Fig. 9 and Table 1; design, section 3. A policy is data: three
dimensions limit the candidates, an objective (`candidate`) ranks them. `choose.suggest` decides on a new subscription,
`choose.reconsider` on a running detector.

Installed packages add policies by the entry-point group `distced.policies`. Names such as `module:object` were
rejected: a node must not import a name from the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.metadata import entry_points
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.candidate import (
    Candidate,
    Objective,
    Rank,
    least_bytes,
    least_delay,
    least_impact,
    least_load,
    most_reliable,
)

Decomposition: TypeAlias = Literal["none", "for-reuse", "full"]
"""Sub-patterns that may become detectors of their own: none, those that run already, or all the rule allows."""

Reuse: TypeAlias = Literal["none", "local-only", "at-least-2", "maximum"]
"""Running detectors that may be read: none, near ones, those with two hosts or more, or all."""

Locality: TypeAlias = Literal["subscribers", "publishers", "none"]
"""Location of new detectors: near subscribers, near publishers, or at the least loaded nodes."""

GROUP: Final = "distced.policies"
"""Entry-point group of policies of other packages."""

_DIMENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "decomposition": get_args(Decomposition),
    "reuse": get_args(Reuse),
    "locality": get_args(Locality),
}


class Policy(Protocol):
    """Interface of a policy to `choose`: dimensions limit the alternatives, `replicas` is the number of hosts."""

    @property
    def name(self) -> str: ...

    @property
    def decomposition(self) -> Decomposition: ...

    @property
    def reuse(self) -> Reuse: ...

    @property
    def replicas(self) -> int: ...

    @property
    def text(self) -> str:
        """Text that `parse_policy` reads as this policy."""
        ...

    def rank(self, candidate: Candidate) -> Rank:
        """Rank of a candidate, less is better. The first number is the aim: a detector moves only to improve it."""
        ...


@dataclass(frozen=True, slots=True)
class DistributionPolicy:
    """A distribution policy; by default named by its dimensions, with their usual objective (None)."""

    name: str
    decomposition: Decomposition
    reuse: Reuse
    locality: Locality
    replicas: int = 1
    objective: Objective | None = None

    def rank(self, candidate: Candidate) -> Rank:
        return (self.objective or self._usual)(candidate)

    @property
    def text(self) -> str:
        """Its name, or the three dimensions, with the number of replicas where that is not the usual one."""
        dimensions = f"{self.decomposition} {self.reuse} {self.locality}"
        if self.name != dimensions or self.replicas == _usual_replicas(self.reuse):
            return self.name
        return f"{dimensions} {self.replicas}"

    @property
    def _usual(self) -> Objective:
        """Usual objective: delay near subscribers, bytes near publishers; else by the other dimensions."""
        if self.locality != "none":
            return least_delay if self.locality == "subscribers" else least_bytes
        if self.replicas > 1:
            return most_reliable
        return least_load if self.decomposition == "full" else least_impact


NAMED: Final = {
    policy.name: policy
    for policy in (
        DistributionPolicy("min-latency", "none", "local-only", "subscribers", objective=least_delay),
        DistributionPolicy("min-bandwidth", "for-reuse", "maximum", "publishers", objective=least_bytes),
        DistributionPolicy("min-impact", "for-reuse", "maximum", "none", objective=least_impact),
        DistributionPolicy("min-load", "full", "maximum", "none", objective=least_load),
        DistributionPolicy("max-reliability", "for-reuse", "at-least-2", "none", 2, most_reliable),
    )
}
"""The policies of Table 1, by name; each aims at what its name says."""

DEFAULT: Final = NAMED["min-latency"]


def parse_policy(given: Any, *, where: str | None = None) -> DistributionPolicy | Policy:
    """Policy of a name, or of the dimensions' words in order and a number of replicas; raises `DistcedError`."""
    if isinstance(given, str):
        words = given.split()
        if len(words) in (3, 4) and words[0] in _DIMENSIONS["decomposition"]:
            table: dict[str, Any] = dict(zip(_DIMENSIONS, words, strict=False))
            if len(words) == 4:
                table["replicas"] = int(words[3]) if words[3].isascii() and words[3].isdigit() else words[3]
            return _policy(table, where)
        if given in NAMED:
            return NAMED[given]
        others = installed()
        if given in others:
            return _installed(given)
        near = get_close_matches(given, [*NAMED, *others], n=1)
        raise DistcedError(
            "no distribution policy of this name",
            given=given,
            allowed=", ".join([*NAMED, *others]),
            where=where,
            advice=f"did you mean {near[0]}?" if near else "or three words: " + _words(),
        )
    if isinstance(given, dict):
        return _policy(given, where)
    raise DistcedError("not a distribution policy", given=given, allowed=f"a name, or {_words()}", where=where)


def installed() -> tuple[str, ...]:
    """Names of the policies of other packages, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@cache
def _installed(name: str) -> Policy:
    point = next(iter(entry_points(group=GROUP, name=name)))
    where = f"entry point {name} of {GROUP}"
    try:
        policy = point.load()
    except Exception as error:
        # Whatever the code of a stranger raises.
        raise DistcedError("a policy that cannot be loaded", given=point.value, where=where,
                           advice=f"{type(error).__name__}: {error}") from error  # fmt: skip
    return check_policy(policy, name, where)


def check_policy(policy: Any, name: str, where: str | None = None) -> Policy:
    """The object, checked to be a policy; raises `DistcedError`."""
    missing = [each for each in ("name", "decomposition", "reuse", "replicas", "text", "rank")
               if not hasattr(policy, each)]  # fmt: skip
    if missing:
        raise DistcedError("not a policy", given=policy, allowed=f"with {', '.join(missing)}", where=where,
                           advice="make a DistributionPolicy with an objective of its own")  # fmt: skip
    if policy.name != name or policy.text != name:
        raise DistcedError("a policy of another name", given=policy.name, allowed=name, where=where)
    if name in NAMED:
        allowed = f"none of {', '.join(NAMED)}"
        raise DistcedError("a policy with the name of another", given=name, allowed=allowed, where=where)
    _check({each: getattr(policy, each) for each in ("decomposition", "reuse", "replicas")}, where)
    checked: Policy = policy
    return checked


@lru_cache(maxsize=256)
def replicas_of(text: str) -> int:
    """Number of nodes that host a detector under a policy; 1 for an empty or unknown text."""
    try:
        return parse_policy(text).replicas
    except DistcedError:
        return 1


def _policy(given: dict[str, Any], where: str | None) -> DistributionPolicy:
    unknown = sorted(given.keys() - _DIMENSIONS.keys() - {"replicas"})
    if unknown:
        allowed = ", ".join(_DIMENSIONS)
        raise DistcedError("no dimension of distribution policies", given=unknown[0], allowed=allowed, where=where)
    replicas = given.get("replicas", _usual_replicas(given.get("reuse", "")))
    _check({**dict.fromkeys(_DIMENSIONS), **given, "replicas": replicas}, where)
    point = (given["decomposition"], given["reuse"], given["locality"])
    for named in NAMED.values():
        if point == (named.decomposition, named.reuse, named.locality) and replicas == named.replicas:
            return named
    return DistributionPolicy(" ".join(point), *point, replicas=replicas)


def _usual_replicas(reuse: str) -> int:
    return 2 if reuse == "at-least-2" else 1


def _check(given: Mapping[str, Any], where: str | None) -> None:
    """Check values of dimensions and the number of replicas."""
    for name, value in given.items():
        allowed = _DIMENSIONS.get(name, ())
        if name == "replicas" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise DistcedError("not a number of replicas", given=value, allowed="1 or more", where=where)
        if name != "replicas" and value not in allowed:
            allowed_text = ", ".join(allowed)
            raise DistcedError(f"no value of the dimension {name}", given=value, allowed=allowed_text, where=where)


def _words() -> str:
    return ", ".join(f"{name} ({' | '.join(values)})" for name, values in _DIMENSIONS.items())

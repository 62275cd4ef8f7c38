"""Hints of applications, checked, and the nodes they allow.

composite-event-framework-2004, "Distribution Policies": policies are enhanced by hints from the application.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.errors import unknown
from distced.policies.topology.topology import Topology


def check_hints(hints: Hints, known: Topology | Collection[str], *, where: str | None = None) -> Hints:
    """The hints, checked; raises `DistcedError`. `known`: nodes or the topology; `where`: place named by errors."""
    names = sorted(known.nodes if isinstance(known, Topology) else known)
    for key, given in (("nodes", hints.nodes), ("avoid", hints.avoid)):
        for each in given:
            if each not in names:
                raise unknown(f"there is no node of this name for the hint {key}", each, names, where)
    if not set(hints.nodes or names) - set(hints.avoid) and names:
        raise DistcedError(
            "hints that leave no node",
            given=f"avoid {', '.join(sorted(hints.avoid))}",
            allowed=f"at least one of {', '.join(hints.nodes or names)} not to be avoided",
            where=where,
        )
    for name, rate in hints.rates.items():
        if not 0 <= rate < math.inf:
            raise DistcedError(f"not a rate for {name}", given=rate, allowed="events a second, from 0", where=where)
    if hints.selectivity is not None and not 0 <= hints.selectivity < math.inf:
        raise DistcedError("not a selectivity", given=hints.selectivity, where=where,
                           allowed="composite events for each event that is read, from 0")  # fmt: skip
    return hints


def read_hints(
    on: Iterable[str], avoid: Iterable[str], rates: Iterable[str], selectivity: float | None, *, isolated: bool = False
) -> Hints:
    """Hints of a verb's options; `rates` are `TYPE=NUMBER`."""
    by_type: dict[str, float] = {}
    for each in rates:
        name, _, number = each.partition("=")
        try:
            by_type[name] = float(number)
        except ValueError:
            raise DistcedError("not a rate", given=each, allowed="TYPE=NUMBER, in events a second") from None
    return Hints(nodes=tuple(on), avoid=tuple(avoid), rates=by_type, selectivity=selectivity, isolated=isolated)


def allowed_nodes(hints: Hints, situation: Situation, *, reserved: bool = False) -> tuple[str, ...]:
    """Live nodes allowed by the hints, by name, without draining ones; `reserved` includes nodes started for a single
    detector."""
    wanted = set(hints.nodes)
    return tuple(
        name
        for name, entry in sorted(situation.nodes.items())
        if (not wanted or name in wanted)
        and name not in hints.avoid
        and (entry.common or (reserved and bool(entry.reserved)))
    )

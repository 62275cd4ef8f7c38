"""Relief of the busiest node by several moves, none of which pays alone.

composite-event-framework-2004, Table 1: the aim of `min-load`. Detectors that are reconsidered one after the other stay
where each is too large for what is left elsewhere, although two that change places would fit. So from the present
places the best *ejection* is applied again and again: a detector of the busiest node moves to another one, and perhaps
one of that node to a third, or in return (Glover 1996, "Ejection Chains, Reference Structures and Alternating Path
Methods"). Where the last result is worth the number of its moves, all are made at once.

Longer chains were rejected, which find little more, and an integer programme: the answer has to be known within a
message, at a node that has other work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

STEP: Final = 0.001
"""Least share of the present use of the busiest node that an ejection saves."""

MOST_MOVES: Final = 16
"""Most moves of a relief."""

MOST_TRIED: Final = 100_000
"""Most ejections that are compared in a step, some 50 ms; with as many detectors single moves serve as well."""

_BUSIEST: Final = 4
"""Nodes of which one is not concerned by an ejection, which concerns three."""


@dataclass(frozen=True, slots=True)
class Relief:
    """Moves that relieve the busiest node: detectors with their new nodes; its use before, and the greatest after."""

    nodes: Mapping[str, str]
    before: float
    after: float

    @property
    def gain(self) -> float:
        """Share by which the use of the busiest node falls."""
        return (self.before - self.after) / self.before


def relief(
    loads: Mapping[str, float], at: Mapping[str, str], uses: Mapping[str, float], capacities: Mapping[str, float],
    per_move: float, least: float,
) -> Relief | None:  # fmt: skip
    """The best relief of the busiest node; None for none.

    Args:
        loads: instances per second of each detector that may move.
        at: their nodes.
        uses, capacities: of each node that they may be on, with the detectors that stay.
        per_move, least: share by which the use of the busiest node has to fall for each move, and at least.
    """
    best = None
    for after, nodes in _steps(loads, dict(at), dict(uses), capacities):
        moved = {name: node for name, node in nodes.items() if node != at[name]}
        if len(moved) > MOST_MOVES:
            break
        found = Relief(moved, max(uses.values()), after)
        if found.gain >= max(per_move * len(moved), least) and (best is None or found.after < best.after):
            best = found
    return best


def _steps(
    loads: Mapping[str, float], at: dict[str, str], uses: dict[str, float], capacities: Mapping[str, float]
) -> Iterator[tuple[float, Mapping[str, str]]]:
    """The greatest use and the places after each ejection."""
    on: dict[str, dict[str, None]] = {node: {} for node in uses}
    for name in sorted(at):
        on[at[name]][name] = None
    while True:
        step = _best_ejection(loads, on, uses, capacities)
        if step is None:
            return
        for name, node in step:
            before = at[name]
            del on[before][name]
            on[node][name] = None
            uses[before] -= loads[name] / capacities[before]
            uses[node] += loads[name] / capacities[node]
            at[name] = node
        yield max(uses.values()), at


def _best_ejection(
    loads: Mapping[str, float], on: Mapping[str, Mapping[str, None]], uses: Mapping[str, float],
    capacities: Mapping[str, float],
) -> list[tuple[str, str]] | None:  # fmt: skip
    """Moves of one detector, or of two, with the least use of the busiest node afterwards."""
    top = sorted(uses, key=lambda node: (-uses[node], node))[:_BUSIEST]
    busiest = top[0]
    others = sum(map(len, on.values())) - len(on[busiest])
    if len(on[busiest]) * (others + 1) * len(uses) > MOST_TRIED:
        return None
    least, best = uses[busiest] * (1 - STEP), None
    for name in on[busiest]:
        left = uses[busiest] - loads[name] / capacities[busiest]
        for target in uses:
            if target == busiest or left >= least:
                continue
            there = uses[target] + loads[name] / capacities[target]
            rest = max((uses[node] for node in top if node not in (busiest, target)), default=0.0)
            after = max(left, there, rest)
            if after < least:
                least, best = after, [(name, target)]
            for ejected in on[target]:
                relieved = there - loads[ejected] / capacities[target]
                if relieved >= least:
                    continue
                for third in uses:
                    if third == target:
                        continue
                    own = left if third == busiest else uses[third]
                    taken = own + loads[ejected] / capacities[third]
                    if taken >= least:
                        continue
                    rest = max((uses[node] for node in top if node not in (busiest, target, third)), default=0.0)
                    after = max(left if third != busiest else 0.0, relieved, taken, rest)
                    if after < least:
                        least, best = after, [(name, target), (ejected, third)]
    return best

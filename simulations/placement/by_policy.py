"""Where a policy would put the detectors of all patterns, one subscription after the other, as nodes would.

The decisions are those that nodes make (`policies.distribution.placing`), in a situation in which is foreseen what
detectors will do. Afterwards detectors may settle: each is asked, again and again, whether it would not rather be
elsewhere, as the nodes that host them do (`policies.distribution.adapting`), until none would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace as replace_entry

from detectors.cutting.catalogue import Catalogue
from detectors.cutting.graph import DetectorPlan
from middleware.eventtypes import TypeRegistry
from middleware.protocol import NODE_CLIENT, DetectorEntry
from policies.distribution.adapting import DWELL, reconsider
from policies.distribution.hints import NO_HINTS
from policies.distribution.placing import place
from policies.distribution.policy import Policy
from policies.distribution.reading import Stream
from policies.distribution.situation import Situation
from policies.topology.model import Place
from simulations.placement.instance import Instance

ROUNDS = 20
"""How often all detectors are asked at the most whether they would rather be elsewhere."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The patterns of an instance, placed by a policy.

    Attributes:
        policy: its name.
        detectors: the entries.
        reasons: why each pattern's own detector is where it is, in the order of the patterns.
        moves: how many detectors have moved while all settled.
        plans: the detectors that were made, as they were cut.
    """

    policy: str
    detectors: Mapping[str, DetectorEntry]
    reasons: tuple[str, ...]
    moves: int
    plans: Mapping[str, DetectorPlan]


def place_all(
    instance: Instance, policy: Policy, *, settle: bool = True, registry: TypeRegistry | None = None
) -> Placed:
    """Place the detectors of all patterns under a policy.

    Args:
        settle: let detectors move afterwards, until none is better off elsewhere.

    Raises:
        DistcedError: where the policy cannot do it.
    """
    situation, catalogue = instance.situation({}), Catalogue()
    reasons, plans = [], dict[str, DetectorPlan]()
    for asked in instance.space.asked:
        placement = place(asked.compiled, policy, situation, asked.subscribers, registry=registry, catalogue=catalogue)
        situation = placement.situation
        reasons.append(placement.root.suggestion.reason)
        for each in placement.placed:
            if each.suggestion.action == "create":
                plans[each.id] = each.suggestion.graph.plans[each.suggestion.graph.roots[0]]
    moves = _settle(instance, policy, situation) if settle else 0
    return Placed(policy.name, dict(situation.detectors), tuple(reasons), moves, plans)


def _settle(instance: Instance, policy: Policy, situation: Situation) -> int:
    moves = 0
    for _ in range(ROUNDS):
        before = moves
        for name in sorted(situation.detectors):
            listeners = _listeners(instance, situation, name)
            move = reconsider(policy, situation, name, listeners, NO_HINTS, 0, DWELL)
            if move is None:
                continue
            entry = situation.detectors[name]
            if move.kind == "move":
                # The home of its topic stays.
                entry = replace_entry(entry, node=move.node)
            elif move.kind == "copy":
                entry = replace_entry(entry, copies={**entry.copies, move.node: situation.home_of_node(move.node)})
            else:
                copies = {node: home for node, home in entry.copies.items() if node != move.node}
                entry = replace_entry(entry, copies=copies)
            situation.changed("detector", name, entry)
            moves += 1
        if moves == before:
            break
    return moves


def _listeners(instance: Instance, situation: Situation, name: str) -> list[Place]:
    """The subscribers, and the nodes that read it as a part."""
    nodes = situation.reading.readers().get(Stream("composite", "", name), ())
    return [*instance.subscribers(name), *(situation.place_of(NODE_CLIENT + node) for node in sorted(nodes))]

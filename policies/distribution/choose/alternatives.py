"""Alternatives to detect a pattern under a policy, cut at the top.

composite-event-framework-2004, "Distribution Policies", decomposition and reuse. An alternative is the pattern's own
detector and the parts it reads; a part's host cuts it further. Node and alternative are one choice: reuse must pay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from distced.detectors.compiler import Compiled, check_pattern
from distced.detectors.cutting.candidates import Candidate
from distced.detectors.cutting.catalogue import Catalogue, Entry
from distced.detectors.cutting.cut import Choose, ChosenCut, DetectorGraph, DetectorPlan, cut, full, none
from distced.detectors.cutting.reuse import INLINE, Usable, for_reuse
from distced.detectors.language.names import referenced
from distced.detectors.language.private import types_named
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import Keyed, Publication, walk
from distced.middleware.wire.directory_entries import NO_HINTS, DetectorEntry, Hints
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place


def alternatives(
    compiled: Compiled,
    policy: Policy,
    catalogue: Catalogue,
    exports: frozenset[str] = frozenset(),
    *,
    situation: Situation,
    subscribers: Collection[Place],
    hints: Hints = NO_HINTS,
    whole: bool = False,
) -> list[DetectorGraph]:
    """Alternatives to detect a pattern, each once: whole, cut by the policy, from running detectors.

    Args:
        catalogue: running detectors readable as parts.
        exports: variables and registers of the pattern that are read outside.
        whole: no cut: best effort, epochs, or a refused part.
    """
    found = [cut([compiled], none, exports=exports)]
    if whole or compiled.indivisible or policy.decomposition == "none":
        return found
    root = found[0].plans[found[0].roots[0]]
    if policy.reuse != "none" and len(catalogue):
        choose = for_reuse(catalogue, _usable(policy, situation, subscribers, hints))
        found += _cut(compiled, root, choose, catalogue, exports)
    if policy.decomposition == "full":
        running = catalogue if policy.reuse != "none" else Catalogue()
        found += _cut(compiled, root, full, running, exports)
    different: dict[tuple[str, ...], DetectorGraph] = {}
    for graph in found:
        different.setdefault(graph.plans[graph.roots[0]].parts, graph)
    return list(different.values())


def running_plan(entry: DetectorEntry, registry: TypeRegistry) -> DetectorPlan | None:
    """Plan of a detector of the directory, for a `Catalogue`; None for one that cannot be a part."""
    if entry.policy != "guaranteed" or entry.publishes:
        return None
    try:
        compiled = check_pattern(entry.pattern, registry)
        graph = cut([compiled], none, exports=frozenset(entry.exports))
    except (DistcedError, KeyError):
        return None
    return None if compiled.throttlings or compiled.computations else graph.plans[graph.roots[0]]


def may_be_read(
    detector: str, policy: Policy, situation: Situation, subscribers: Iterable[Place], nodes: Collection[str]
) -> bool:
    """Whether reuse allows a running detector, for readers' places and allowed nodes (reserved included)."""
    hosts = {node: home for node, home in situation.hosts(detector).items() if node in nodes}
    match policy.reuse:
        case "none":
            return False
        case "local-only":
            return bool(hosts) and all(_is_local(hosts.values(), place, situation, nodes) for place in subscribers)
        case "at-least-2":
            return len(hosts) >= 2
        case _:
            return bool(hosts)


def _is_local(homes: Iterable[str], place: Place, situation: Situation, nodes: Collection[str]) -> bool:
    """Whether one of these servers is as near to a place as any node's own."""
    nearest = min((situation.to_place(situation.home_of_node(node), place) for node in nodes), default=float("inf"))
    return any(situation.to_place(home, place) <= nearest for home in homes)


def _usable(policy: Policy, situation: Situation, subscribers: Collection[Place], hints: Hints) -> Usable:
    nodes = allowed_nodes(hints, situation, reserved=True)

    def usable(entry: Entry) -> float | None:
        return INLINE if may_be_read(entry.id, policy, situation, subscribers, nodes) else None

    return usable


def _keys(candidate: Candidate) -> frozenset[str]:
    keyed = (node.attributes for node in walk(candidate.pattern) if isinstance(node, Keyed))
    return frozenset(candidate.key).union(*keyed)


def _cut(
    compiled: Compiled, whole: DetectorPlan, choose: Choose, catalogue: Catalogue, exports: frozenset[str]
) -> list[DetectorGraph]:
    """The pattern cut as chosen, at the top; empty without a cut. Throttled parts stay, and those by a computed key, as
    all do that read private publications, or are some, beside them; and private publications detected whole, which
    have no derivations."""
    marks = frozenset(each.mark for each in compiled.throttlings)
    marks |= frozenset(each.mark for each in compiled.computations)

    def private(candidate: Candidate) -> bool:
        read = types_named(candidate.pattern)
        return bool(candidate.private) or any(each.mark in read for each in compiled.privates)

    kept = frozenset(each.mark for each in compiled.privates if each.is_no_part)
    chosen = [
        each
        for each in choose(whole.compiled.form.publication, whole.exports)
        if each.candidate.private not in kept
        and not (
            marks
            and (marks & (referenced(each.candidate.pattern, None) | _keys(each.candidate)) or private(each.candidate))
        )
    ]
    if not chosen:
        return []
    left = [chosen]

    def at_the_top(publication: Publication, exports: frozenset[str]) -> Iterable[ChosenCut]:
        return left.pop() if left else ()

    return [cut([compiled], at_the_top, running=catalogue.plans, exports=exports)]

"""Decision of a policy on a new subscription: action, alternative and nodes.

composite-event-framework-2004, "Distribution Policies"; design, section 3. Dimensions and hints limit the candidates
(`alternatives`, `ranking`), `CostEstimate` computes costs, the policy's `rank` decides, also on reuse. Before any rank:
a candidate reaches its sources and subscribers, and a node is not overloaded while another is free. Lots break ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from distced.detectors.cutting.cut import DetectorGraph
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import NO_HINTS, Hints, Measured
from distced.policies.distribution.candidate import Action, Candidate
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.choose.ranking import Ranking, Request
from distced.policies.distribution.choose.reasons import reason_of
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.situation import Situation

__all__ = ["Request", "Suggestion", "suggest"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Placement of a detector, with its reason.

    Attributes:
        action: `create`, `reuse` the running one, or `replicate` that.
        graph: the alternative; for a running detector the first of the request.
        node, replicas: host of the new detector or replica, or of the running one; further hosts.
        home, homes: home server of its topic at `node`; servers the subscribers listen to.
        links: bytes per second it adds to each link, by (from site, to site).
        expected: estimated load and output of the detector until measured, for `Situation.expect`.
        chosen, alternatives: the candidates, best first.
    """

    action: Action
    graph: DetectorGraph
    node: str
    replicas: tuple[str, ...]
    home: str
    homes: tuple[str, ...]
    links: Mapping[tuple[str, str], float]
    expected: Measured
    chosen: Candidate
    alternatives: tuple[Candidate, ...]
    reason: str


def suggest(policy: Policy, situation: Situation, request: Request) -> Suggestion:
    """Best candidate by the policy.

    Raises:
        DistcedError: no node, none by the hints, fewer nodes than replicas, or none reaching sources and subscribers.
    """
    nodes = _nodes(situation, request.hints)
    running = situation.hosts(request.id)
    choice = Ranking(policy, situation, request, nodes, running)
    candidates = choice.of_running() if running else choice.of_new()
    ranked = sorted((each for each in candidates if each.delay < inf), key=choice.key)
    if not ranked:
        raise DistcedError(
            "no node reaches the sources of the pattern and its subscribers",
            given=", ".join(nodes),
            allowed=f"sources at {', '.join(_sites_read(choice))}; "
            f"subscribers at {', '.join(sorted({situation.site_of(each) for each in request.subscribers}))}",
            advice="add a link, or a node on their side",
        )
    return _suggestion(choice, ranked[0], tuple(ranked[1:]))


def _nodes(situation: Situation, hints: Hints) -> tuple[str, ...]:
    nodes = allowed_nodes(hints, situation)
    if nodes:
        return nodes
    common = allowed_nodes(NO_HINTS, situation)
    if not common:
        raise DistcedError("no broker node is there to host a detector", advice="start one with `distced broker`")
    wanted = ", ".join(hints.nodes) or f"all but {', '.join(hints.avoid)}"
    raise DistcedError(
        "none of the nodes that the hints allow is there",
        given=wanted,
        allowed=", ".join(common),
        advice="start one of them, or take the hint back",
    )


def _suggestion(choice: Ranking, best: Candidate, others: tuple[Candidate, ...]) -> Suggestion:
    situation, costs = choice.situation, choice.costs[best.alternative]
    new = {} if best.action == "reuse" else {node: situation.home_of_node(node) for node in best.nodes}
    hosts = {**choice.running, **new}
    links: dict[tuple[str, str], float] = {}
    homes: dict[str, None] = {}
    for node in new:
        _add(links, costs.links(node))
    for place in choice.request.subscribers:
        for node in choice.heard(hosts, place):
            homes[hosts[node]] = None
            if any(choice.publishing(best.alternative, hosts[node], place)):
                _add(links, costs.links_to(hosts[node], place))
    return Suggestion(
        best.action,
        choice.request.graphs[best.alternative],
        best.node,
        best.replicas,
        hosts[best.node],
        tuple(homes),
        links,
        costs.does,
        best,
        others,
        reason_of(choice.policy.name, best, others, _parts(choice, best)),
    )


def _sites_read(choice: Ranking) -> list[str]:
    situation = choice.situation
    homes = {home for costs in choice.costs for stream in costs.streams for home in situation.homes_of(stream, "")}
    return sorted({situation.site_of_home(home) for home in homes}) or ["no site"]


def _parts(choice: Ranking, candidate: Candidate) -> tuple[list[str], list[str]]:
    """Parts read from running detectors, and those yet to be made."""
    if choice.running:
        return [], []
    graph = choice.request.graphs[candidate.alternative]
    parts = graph.plans[graph.roots[0]].parts
    new = choice.costs[candidate.alternative].assumed.homes
    return [each for each in parts if each not in new], [each for each in parts if each in new]


def _add(links: dict[tuple[str, str], float], more: Mapping[tuple[str, str], float]) -> None:
    for link, amount in more.items():
        links[link] = links.get(link, 0.0) + amount

"""What a policy suggests for a subscription, here and now.

composite-event-framework-2004, "Distribution Policies"; design, section 3. What may be done is said by the policy's
dimensions and the hints (`ways`, `choosing`), what that means by the `Figures`, and which of it is best by the policy's
`rank`. So a way that reads running detectors is taken only where it is better by what the policy is after, and nothing
here knows what that is.

Two things come before any policy's rank: what cannot reach its sources or its subscribers is no candidate, and a node
is not given more than it can do while there is another. Ties are decided by lot, the same for all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from distced.detectors.cutting.graph import DetectorGraph
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import NO_HINTS, Hints, Measured
from distced.policies.distribution.candidate import Action, Candidate
from distced.policies.distribution.choose.hints import allowed_nodes
from distced.policies.distribution.choose.ranking import Ranking
from distced.policies.distribution.choose.reasons import reason_of
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.request import Request
from distced.policies.distribution.situation.situation import Situation

__all__ = ["Request", "Suggestion", "suggest"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Where a detector should be, and why.

    Attributes:
        action: have it made (`create`), listen to the one there is (`reuse`), or have it replicated (`replicate`).
        graph: the way to detect the pattern; where the detector is there already, the first that was asked for.
        node: which node is to host it: a new one; the one that is listened to; the one that gets the replica.
        replicas: further nodes that are to get it in the same state.
        home: the home server of its topic at `node`.
        homes: the servers that the subscribers should listen to.
        links: bytes a second it adds to each link, by (from site, to site).
        expected: what the detector is expected to do until that is measured, for `Situation.expect`; of one that is
            there, what it does.
        chosen: the costs.
        alternatives: the other candidates, the best first.
        reason: why, in a sentence with the costs.
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
    """What is best by the policy.

    Raises:
        DistcedError: where nothing can be done: no node is there, the hints leave none, there are fewer nodes than
            replicas, or none of them reaches sources and subscribers.
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
    """The best, with everything that is to be known of it."""
    situation, costs = choice.situation, choice.costs[best.way]
    new = {} if best.action == "reuse" else {node: situation.home_of_node(node) for node in best.nodes}
    hosts = {**choice.running, **new}
    links: dict[tuple[str, str], float] = {}
    homes: dict[str, None] = {}
    for node in new:
        _add(links, costs.links(node))
    for place in choice.request.subscribers:
        for node in choice.heard(hosts, place):
            homes[hosts[node]] = None
            if any(choice.telling(best.way, hosts[node], place)):
                _add(links, costs.links_to(hosts[node], place))
    return Suggestion(
        best.action,
        choice.request.graphs[best.way],
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
    """The sites of the sources."""
    situation = choice.situation
    homes = {home for costs in choice.costs for stream in costs.streams for home in situation.homes_of(stream, "")}
    return sorted({situation.site_of_home(home) for home in homes}) or ["no site"]


def _parts(choice: Ranking, candidate: Candidate) -> tuple[list[str], list[str]]:
    """The parts that are read from running detectors, and those that are to be made."""
    if choice.running:
        return [], []
    graph = choice.request.graphs[candidate.way]
    parts = graph.plans[graph.roots[0]].parts
    new = choice.costs[candidate.way].assumed.homes
    return [each for each in parts if each not in new], [each for each in parts if each in new]


def _add(links: dict[tuple[str, str], float], more: Mapping[tuple[str, str], float]) -> None:
    for link, amount in more.items():
        links[link] = links.get(link, 0.0) + amount

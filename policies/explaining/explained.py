"""Explanation of a policy: placements of patterns, and their costs, as plain values.

`place` decides. Links, delays and loads are those after all placements, less those before, and are to be expected; the
costs in a detector's reason, with its parts where assumed at its placement, may differ a little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from distced.detectors.compiler import Compiled
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.directory_entries import Hints, Measured
from distced.policies.distribution.candidate import Candidate
from distced.policies.distribution.choose.hints import check_hints
from distced.policies.distribution.choose.place_all import Placed, Placement, place
from distced.policies.distribution.estimate.delays import arrivals
from distced.policies.distribution.policy import Policy
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place

_LINK_JSON: Final = {
    "origin": "from", "target": "to", "before": "bytes_before", "more": "bytes_more", "cost": "cost_more",
    "share": "share_of_bandwidth",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """Patterns to place in order, after `running` ones; `registry` None takes every type as known."""

    patterns: tuple[Compiled, ...]
    subscribers: tuple[Place, ...]
    hints: Hints
    running: tuple[Compiled, ...] = ()
    registry: TypeRegistry | None = None


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """A detector in the tree of a pattern, at a depth from 0, last part of its reader or not.

    Attributes:
        action: `create`, `reuse`, or `replicate to` nodes; `as above` for a repeated one.
        hosts: final hosts, the primary first.
        does: expected load and output on each.
    """

    depth: int
    last: bool
    id: str
    pattern: str
    action: str
    hosts: tuple[str, ...]
    does: Measured


class LinkRow(msgspec.Struct, frozen=True, rename=_LINK_JSON):
    """A link in one direction.

    Attributes:
        before, more: bytes per second at present, and in addition; `cost` of the latter per second.
        share: of its bandwidth, with both; None for unlimited or unknown.
    """

    origin: str
    target: str
    before: float
    more: float
    cost: float
    share: float | None


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A stream from its home server to a reader, by way of `sites`; bytes per second on each link.

    Attributes:
        what: type and source, heartbeats, or detector.
        reader: the detector; empty for subscribers.
    """

    what: str
    reader: str
    to: Place
    sites: tuple[str, ...]
    bytes: float


class Explained:
    """Explanation of one policy: situations without and with the patterns, a placement for each."""

    def __init__(self, policy: Policy, asked: ExplainRequest, situation: Situation) -> None:
        """Place the patterns; raises `DistcedError` where the policy cannot."""
        check_hints(asked.hints, situation.nodes)
        self.policy = policy
        self.asked = asked
        self.before = self._placed(asked.running, situation)[1]
        placements, self.after = self._placed(asked.patterns, self.before)
        self.placements = tuple(placements)

    def _placed(self, patterns: Sequence[Compiled], situation: Situation) -> tuple[list[Placement], Situation]:
        placements = []
        for each in patterns:
            asked = self.asked
            placements.append(
                place(each, self.policy, situation, asked.subscribers, hints=asked.hints, registry=asked.registry)
            )
            situation = placements[-1].situation
        return placements, situation

    # Detectors.

    def rows(self, placement: Placement) -> list[DetectorRow]:
        """Detectors of one pattern as a tree: each, then its parts."""
        parts: dict[str, list[str]] = {}
        asked: dict[str, list[Placed]] = {}
        for each in placement.placed:
            asked.setdefault(each.id, []).append(each)
            # A part is asked for by each host of its reader.
            if each.reader and each.id not in parts.setdefault(each.reader, []):
                parts[each.reader].append(each.id)
        return list(self._below(placement.root.id, 0, True, parts, asked, set()))

    def _below(
        self, name: str, depth: int, last: bool, parts: dict[str, list[str]], asked: dict[str, list[Placed]],
        shown: set[str],
    ) -> Iterator[DetectorRow]:  # fmt: skip
        hosts, does = tuple(self.after.hosts(name)), self.after.measures.of(name)
        action = "as above" if name in shown else _action(asked[name])
        yield DetectorRow(depth, last, name, asked[name][0].pattern, action, hosts, does)
        if name in shown:
            return
        shown.add(name)
        below = parts.get(name, [])
        for number, part in enumerate(below, 1):
            yield from self._below(part, depth + 1, number == len(below), parts, asked, shown)

    @cached_property
    def new(self) -> tuple[str, ...]:
        """New detectors, by id."""
        return tuple(name for name in self.after.detectors if name not in self.before.detectors)

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """Detectors made, read or replicated, by id."""
        return tuple(dict.fromkeys(each.id for placement in self.placements for each in placement.placed))

    @property
    def reused(self) -> tuple[str, ...]:
        """Earlier detectors that are read, by id."""
        return tuple(name for name in self.touched if name in self.before.detectors)

    # What it means.

    def delay(self, placement: Placement, subscriber: Place) -> float:
        """Mean delay from the last event of a match to a subscriber, ns."""
        arrived = arrivals(self.after, placement.root.id)
        return min((at + self.after.to_place(home, subscriber) for home, at in arrived.items()), default=0.0)

    @property
    def delays(self) -> list[float]:
        """Delays of all patterns and subscribers."""
        return [self.delay(each, subscriber) for each in self.placements for subscriber in self.asked.subscribers]

    @cached_property
    def links(self) -> tuple[LinkRow, ...]:
        """Links with traffic, in the order of the topology."""
        before, after = self.before.bytes_by_link, self.after.bytes_by_link
        topology = self.after.topology
        if topology is None:
            return tuple(_link(name, before, after, None, 0.0) for name in sorted(after))
        return tuple(
            _link(name, before, after, link.bandwidth, link.cost)
            for link in topology.links
            for name in link.directions
            if after.get(name) or before.get(name)
        )

    @property
    def bytes_more(self) -> float:
        """Bytes per second added, summed over links."""
        return sum(each.more for each in self.links)

    @property
    def cost_more(self) -> float:
        """Cost per second of these."""
        return sum(each.cost for each in self.links)

    @property
    def load_more(self) -> float:
        """Instances per second added, at all nodes."""
        return sum(self.after.load(node) - self.before.load(node) for node in self.after.nodes)

    def flows(self) -> list[FlowRow]:
        """Streams to new detectors and to subscribers; one that a node reads for several is listed with the first."""
        found: dict[tuple[Stream, Place, str], FlowRow] = {}
        situation = self.after
        for name in self.new:
            for node in situation.hosts(name):
                to, site = Place("node", node), situation.site_of_node(node)
                for stream in situation.reading.streams_of(name):
                    if stream in self.before.reading.at(node):
                        continue
                    for home in situation.homes_of(stream, site):
                        found.setdefault((stream, to, home), self._flow(stream, name, to, home))
        for placement in self.placements:
            stream = Stream("composite", "", placement.root.id)
            for subscriber in self.asked.subscribers:
                for home in situation.homes_heard(placement.root.id, situation.site_of(subscriber)):
                    found.setdefault((stream, subscriber, home), self._flow(stream, "", subscriber, home))
        return list(found.values())

    def _flow(self, stream: Stream, reader: str, to: Place, home: str) -> FlowRow:
        situation = self.after
        origin = situation.site_of_home(home)
        path = situation.network.path(origin, situation.site_of(to))
        sites = (origin, *(target for _, target in path.links))
        return FlowRow(_what(stream, origin), reader, to, sites, situation.measures.flow(stream))


def explained_by(policy: Policy, asked: ExplainRequest, situation: Situation) -> Explained | DistcedError:
    """Explanation of a policy, or its error, so that others are still shown."""
    try:
        return Explained(policy, asked, situation)
    except DistcedError as error:
        return error


def form_of(placed: Placed, candidate: Candidate) -> str:
    """Form of a candidate: whole, or number of parts."""
    if placed.suggestion.action != "create":
        return "as it runs"
    if candidate.alternative == placed.suggestion.chosen.alternative:
        count = len(placed.suggestion.graph.plans[placed.suggestion.graph.roots[0]].parts)
        return f"{count} part{'s' * (count != 1)}" if count else "whole"
    if candidate.alternative == 0:
        return "whole"
    return "cut otherwise" if placed.suggestion.chosen.alternative else "cut"


def _action(asked: Sequence[Placed]) -> str:
    actions = [each.suggestion for each in asked]
    made = [each for each in actions if each.action == "create"]
    replicated = [node for each in actions if each.action == "replicate" for node in (each.node, *each.replicas)]
    if made:
        return "create"
    return f"replicate to {', '.join(replicated)}" if replicated else "reuse"


def _link(
    name: tuple[str, str], before: dict[tuple[str, str], float], after: dict[tuple[str, str], float],
    bandwidth: int | None, cost: float,
) -> LinkRow:  # fmt: skip
    was, now = before.get(name, 0.0), after.get(name, 0.0)
    more = now - was if abs(now - was) > 1e-6 else 0.0
    return LinkRow(*name, was, more, more * cost, now / bandwidth if bandwidth else None)


def _what(stream: Stream, site: str) -> str:
    match stream.kind:
        case "event":
            return f"{stream.type} of {stream.name}"
        case "heartbeat":
            return f"heartbeats at {site}"
        case _:
            return stream.name

"""What a policy would do with patterns, and what that would mean: everything that is shown of it, as plain values.

`place` does the work. The figures of links, delays and nodes are those of the situation in which everything has its
place, less what was there before; those in the reason of a detector are what was expected when it was placed, with its
parts where they were taken to go. So the two may differ a little, and the first are what would come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What is asked about.

    Attributes:
        patterns: those that are new, in their order.
        running: those that run already, for the same subscribers and under the same policy.
        registry: of event types; None where every type is taken as known.
    """

    patterns: tuple[Compiled, ...]
    subscribers: tuple[Place, ...]
    hints: Hints
    running: tuple[Compiled, ...] = ()
    registry: TypeRegistry | None = None


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """A detector in the tree of a pattern.

    Attributes:
        depth: how far down: 0 for the pattern's own.
        last: whether it is the last one below its reader.
        id, pattern: which, and what it detects.
        action: `create`, `reuse`, or `replicate to` nodes; `as above` for one that stands above with its parts.
        hosts: the nodes that host it when all is done, the primary first.
        does: what it is expected to do, on each of them.
    """

    depth: int
    last: bool
    id: str
    pattern: str
    action: str
    hosts: tuple[str, ...]
    does: Measured


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link in one direction, by its sites.

    Attributes:
        before, more: bytes a second it carries anyhow, and on top of that.
        cost: what the latter cost a second.
        share: of its bandwidth, with both; None where that is unlimited, or no topology knows of it.
    """

    origin: str
    target: str
    before: float
    more: float
    cost: float
    share: float | None


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A stream from its home server to a node that reads it.

    Attributes:
        what: for people: a type with its source, heartbeats, or a detector.
        reader: the detector that reads it, or `""` for subscribers.
        sites: those it travels through.
        bytes: a second, on each link.
    """

    what: str
    reader: str
    to: Place
    sites: tuple[str, ...]
    bytes: float


class Explained:
    """What a policy would do.

    Attributes:
        before: the situation the patterns come into.
        after: the one they leave.
        placements: one for each pattern.
    """

    def __init__(self, policy: Policy, asked: ExplainRequest, situation: Situation) -> None:
        """Place the patterns.

        Raises:
            DistcedError: where the policy cannot do it.
        """
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
        """The detectors of one pattern as a tree: each, then the parts it reads."""
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
        told: set[str],
    ) -> Iterator[DetectorRow]:  # fmt: skip
        hosts, does = tuple(self.after.hosts(name)), self.after.measures.of(name)
        action = "as above" if name in told else _action(asked[name])
        yield DetectorRow(depth, last, name, asked[name][0].pattern, action, hosts, does)
        if name in told:
            return
        told.add(name)
        below = parts.get(name, [])
        for number, part in enumerate(below, 1):
            yield from self._below(part, depth + 1, number == len(below), parts, asked, told)

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The detectors that are made, by id."""
        return tuple(name for name in self.after.detectors if name not in self.before.detectors)

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """The detectors that the patterns have to do with: made, read or replicated, by id."""
        return tuple(dict.fromkeys(each.id for placement in self.placements for each in placement.placed))

    @property
    def reused(self) -> tuple[str, ...]:
        """The detectors that were there and are listened to, by id."""
        return tuple(name for name in self.touched if name in self.before.detectors)

    # What it means.

    def delay(self, placement: Placement, subscriber: Place) -> float:
        """ns from the last event of a match until a subscriber hears of it, on average."""
        arrived = arrivals(self.after, placement.root.id)
        return min((at + self.after.to_place(home, subscriber) for home, at in arrived.items()), default=0.0)

    @property
    def delays(self) -> list[float]:
        """The same of all patterns and subscribers."""
        return [self.delay(each, subscriber) for each in self.placements for subscriber in self.asked.subscribers]

    @cached_property
    def links(self) -> tuple[LinkRow, ...]:
        """The links that carry anything, in the order of the topology's."""
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
        """Bytes a second that are added, summed over links."""
        return sum(each.more for each in self.links)

    @property
    def cost_more(self) -> float:
        """What these cost a second."""
        return sum(each.cost for each in self.links)

    @property
    def load_more(self) -> float:
        """Instances a second that are added, at all nodes together."""
        return sum(self.after.load(node) - self.before.load(node) for node in self.after.nodes)

    def flows(self) -> list[FlowRow]:
        """What the new detectors read, and what subscribers hear, each stream on its own way.

        A node that reads a stream for several detectors gets it once: then the first of them is named.
        """
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
        way = situation.network.way(origin, situation.site_of(to))
        sites = (origin, *(target for _, target in way.links)) if way is not None else (origin,)
        return FlowRow(_what(stream, origin), reader, to, sites, situation.measures.flow(stream))


def explained_by(policy: Policy, asked: ExplainRequest, situation: Situation) -> Explained | DistcedError:
    """What a policy would do, or why it cannot: one of several is not to keep the others from being shown."""
    try:
        return Explained(policy, asked, situation)
    except DistcedError as error:
        return error


def way_of(placed: Placed, candidate: Candidate) -> str:
    """Form of a candidate: the whole pattern, or a number of parts."""
    if placed.suggestion.action != "create":
        return "as it runs"
    if candidate.way == placed.suggestion.chosen.way:
        count = len(placed.suggestion.graph.plans[placed.suggestion.graph.roots[0]].parts)
        return f"{count} part{'s' * (count != 1)}" if count else "whole"
    if candidate.way == 0:
        return "whole"
    return "cut otherwise" if placed.suggestion.chosen.way else "cut"


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

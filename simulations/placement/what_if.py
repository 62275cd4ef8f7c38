"""What if: a history replayed through a policy's placement in the simulator, beside what was predicted of it.

The nodes of the simulation are those that run live (`simulations.network`), each source publishes what the history has
of it at the `hi` of each event, and promises every quarter of a second. The simulation says where the detectors came to
stand and what each link carried while nobody moved; the prediction is made for that placement, from the same stretch of
the history. Compared are the bytes of events, composite events and administration, acknowledgements included, as in
`simulations.experiments.metrics`: the directory and what connections need themselves are there whatever is detected.

How often detectors say something depends on where they stand, so that is followed once more (`following`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from distced.detectors.runtime.engines import Kinds
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry, SourceEntry
from distced.policies.topology.model import Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Asked as AskedFor
from distced.simulations.network.scenario_model import Scenario, Send, Stream
from distced.simulations.network.transport.links import Channels
from distced.simulations.network.transport.packet_sizes import ACKNOWLEDGEMENT
from distced.simulations.placement.evaluation import evaluate
from distced.simulations.placement.history_figures.counting import Counting
from distced.simulations.placement.history_figures.heartbeat_rates import HEARTBEAT, Promises
from distced.simulations.placement.history_figures.measuring import instance_of, types_of
from distced.simulations.placement.optimum.search_space import Space
from distced.simulations.placement.output_traffic import followed_by

COUNTED: Final = ("e", "c", "a")
"""The areas of topics whose bytes count."""

SETTLE: Final = 20 * SECOND
"""How long nodes have for placing and moving detectors before it is counted, ns."""

LOOK: Final = 30 * SECOND
"""How long it is counted, ns."""

FIRST: Final = -6 * SECOND
"""When patterns are asked for, ns after the start."""

APART: Final = 3 * SECOND
"""How long after what they read by its type, ns."""

LEAST: Final = 100.0
"""Bytes a second: a link that carries less, a message now and then, is left out where links are compared."""


@dataclass(frozen=True, slots=True)
class LinkCompared:
    """A link in one direction.

    Attributes:
        measured, predicted: bytes a second.
    """

    origin: str
    target: str
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """By what share of what was measured the prediction is more."""
        if self.measured == self.predicted:
            return 0.0
        return (self.predicted - self.measured) / self.measured if self.measured else float("inf")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A policy tried in the simulator.

    Attributes:
        detectors: where they stood while it was counted.
        links: those that carry something.
        seconds: how long it was counted.
        settled: whether nothing has moved meanwhile.
        refused: what was refused, by pattern.
    """

    policy: str
    detectors: Mapping[str, DetectorEntry]
    links: tuple[LinkCompared, ...]
    seconds: float
    settled: bool
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """How far the prediction is off on the link where it is the farthest."""
        return max((abs(each.off) for each in self.links if max(each.measured, each.predicted) >= LEAST), default=0.0)

    @property
    def measured(self) -> float:
        """Bytes a second over all links."""
        return sum(each.measured for each in self.links)

    @property
    def predicted(self) -> float:
        """The same as predicted."""
        return sum(each.predicted for each in self.links)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stretch of a history that is replayed.

    Attributes:
        events: in the order of consumption.
        types: of all events.
        sources: who publishes, and where.
        start: when it begins, ns; nothing happens before.
    """

    events: Sequence[Event]
    types: tuple[EventType, ...]
    sources: Mapping[str, SourceEntry]
    start: int


def replay(
    recorded: Recorded,
    space: Space,
    topology: Topology,
    policy: str,
    *,
    name: str = "",
    hints: Mapping[str, HintEntry] | None = None,
    seed: int = 0,
    settle: int = SETTLE,
    look: int = LOOK,
) -> Replayed:
    """Replay a stretch of a history in the simulator, under a policy, and compare.

    Args:
        name: what it is called; as the policy, unless it is said.
        hints: what nodes are told of detectors; those of a placement make it that one.
        seed: of everything that is left to chance, the moments of promises too.
        settle: ns until it is counted.
        look: how long it is counted, ns.
    """
    begin, end = recorded.start + settle, recorded.start + settle + look
    promises = {source: beats(seed, source, settle + look) for source in recorded.sources}
    scenario = scenario_of(recorded, space, topology, policy, promises, hints or {}, seed, settle + look)
    simulation = Simulation(scenario)
    engine = simulation.network.engine
    engine.run(begin)
    before, standing = _bytes(simulation.network.channels), simulation.administrator.detectors
    engine.run(end)
    carried = _bytes(simulation.network.channels)
    after = simulation.administrator.detectors
    counting = Counting(space, types_of(recorded.sources), _kinds(recorded.types))
    counting.take([each for each in recorded.events if each.hi <= begin], recorded.start, begin, counted=False)
    events = [each for each in recorded.events if begin < each.hi <= end]
    counting.take(events, begin, end)
    instance = instance_of(counting.counts, space, topology, recorded.sources)
    after = {name: entry for name, entry in after.items() if name in space.ways}
    told = {source: [recorded.start + at for at in each] for source, each in promises.items()}
    followed = followed_by(instance, after, counting, events, told, begin, end)
    links = evaluate(followed, after).links if set(space.roots) <= after.keys() else {}
    seconds = look / SECOND
    measured = {link: (carried[link] - before.get(link, 0)) / seconds for link in carried}
    compared = [
        LinkCompared(*link, measured.get(link, 0.0), links.get(link, 0.0))
        for link in sorted({*links, *(link for link, amount in measured.items() if amount)})
    ]
    refused = {name: each.refused for name, each in simulation.subscribed.items() if each.refused}
    return Replayed(name or policy, after, tuple(compared), seconds, _places(standing) == _places(after), refused)


def scenario_of(
    recorded: Recorded,
    space: Space,
    topology: Topology,
    policy: str,
    promises: Mapping[str, Promises],
    hints: Mapping[str, HintEntry],
    seed: int,
    duration: int,
) -> Scenario:
    """What is to be simulated: the sources publish what the history has of them, the patterns are asked for."""
    by_source: dict[str, list[Event]] = {source: [] for source in recorded.sources}
    for event in recorded.events:
        if event.source in by_source and recorded.start < event.hi <= recorded.start + duration:
            by_source[event.source].append(event)
    streams = [
        _stream(source, entry, by_source[source], promises[source], recorded.start)
        for source, entry in recorded.sources.items()
    ]
    asked, topology = _asked(space, topology)
    return Scenario(
        topology,
        recorded.types,
        tuple(streams),
        tuple(asked),
        seed=seed,
        start=recorded.start,
        duration=duration,
        distribution=policy,
        hints=hints,
    )


def beats(seed: int, source: str, duration: int) -> list[int]:
    """When a source promises beside its events, ns from the start."""
    first = Random(f"{seed} {source}").randrange(1, HEARTBEAT + 1)
    return list(range(first, duration + 1, HEARTBEAT))


def _stream(source: str, entry: SourceEntry, events: Sequence[Event], told: Promises, start: int) -> Stream:
    along = len(entry.types) == 1
    sends = [Send(each.hi - start, (each,), each.hi if along else None) for each in events]
    sends += [Send(at, (), start + at) for at in told]
    sends.sort(key=lambda send: (send.at, not send.events))
    return Stream(source, entry.publisher, entry.types, tuple(sends), floor=start)


def _asked(space: Space, topology: Topology) -> tuple[list[AskedFor], Topology]:
    """The subscriptions; whoever is at a site is a subscriber there."""
    added: dict[str, Subscriber] = {}
    asked = []
    for each, root in zip(space.asked, space.roots, strict=True):
        # What is published by then may be read.
        at = FIRST + space.depth(root) * APART
        for number, place in enumerate(each.subscribers):
            name = place.name
            if place.kind == "site":
                name = f"somebody at {place.name}"
                added[name] = Subscriber(name, place.name)
            marked = each.name if not number else f"{each.name} {number + 1}"
            asked.append(AskedFor(marked, name, each.compiled.text, at=at))
    known = topology.subscribers.values()
    subscribers = [*known, *(each for name, each in added.items() if name not in topology.subscribers)]
    return asked, Topology(
        topology.sites.values(), topology.nodes.values(), topology.publishers.values(), subscribers, topology.links,
        directory=topology.directory, allow_partitions=topology.allow_partitions,
    )  # fmt: skip


def _bytes(channels: Channels) -> dict[tuple[str, str], int]:
    found = {}
    for each in channels.all.values():
        counted = [each.traffic[area] for area in COUNTED if area in each.traffic]
        found[each.origin, each.target] = sum(size + messages * ACKNOWLEDGEMENT for messages, size in counted)
    return found


def _places(detectors: Mapping[str, DetectorEntry]) -> dict[str, tuple[object, ...]]:
    return {name: (each.node, each.home, each.parts, tuple(each.copies.items())) for name, each in detectors.items()}


def _kinds(types: Sequence[EventType]) -> Kinds:
    known = {each.name: each.attributes for each in types}
    return known.get

"""What-if analysis: a history replayed in the simulator with a policy's placement, beside the prediction.

The nodes of the simulation are the live ones; each source publishes its recorded events at their `hi`, and promises
every quarter of a second. Predicted are the bytes on each link for the simulated placement, measured while no detector
moved: of events, composite events and administration with acknowledgements, as in `benchmarks.policy_comparison`,
since the directory and connections are the same whatever is detected. Delays shift the watermarks that detectors
receive, so heartbeat rates are computed again for the placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from msgspec.structs import replace as replace_entry

from distced.detectors.runtime.engines import Kinds
from distced.middleware.history.history import History, events_of_history
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry, OutputTraffic, SourceEntry
from distced.policies.distribution.situation.rates import hosting
from distced.policies.topology.model import Subscriber
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.run import Simulation
from distced.simulations.network.scenario_model import Scenario, ScenarioSubscription, Send, SourceStream
from distced.simulations.network.transport.links import ACKNOWLEDGEMENT, Links
from distced.simulations.placement.analysis import OPTIMUM, REPLANNED, Analysis, hints_of
from distced.simulations.placement.evaluation import OWN, evaluate
from distced.simulations.placement.history_figures.counting import Counting, frame_size
from distced.simulations.placement.history_figures.heartbeat_rates import (
    HEARTBEAT,
    DetectorLocations,
    Promises,
    heartbeat_counts,
    steps,
)
from distced.simulations.placement.history_figures.measuring import instance_of, types_of, wanted_types
from distced.simulations.placement.optimum.search_space import SearchSpace
from distced.simulations.placement.problem import PlacementProblem

COUNTED: Final = ("e", "c", "a")
"""Areas of topics whose bytes count."""

SETTLE: Final = 20 * SECOND
"""Time for placement and moves before the measurement, ns."""

LOOK: Final = 30 * SECOND
"""Duration of the measurement, ns."""

FIRST: Final = -6 * SECOND
"""Time of the first subscription, ns after the start."""

APART: Final = 3 * SECOND
"""Delay of a subscription after those whose types it reads, ns."""

LEAST: Final = 100.0
"""Least rate of a compared link, bytes a second: below it, single messages decide."""


@dataclass(frozen=True, slots=True)
class LinkCompared:
    """Predicted and measured bytes a second of a link in one direction."""

    origin: str
    target: str
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """Relative excess of the prediction."""
        if self.measured == self.predicted:
            return 0.0
        return (self.predicted - self.measured) / self.measured if self.measured else float("inf")


@dataclass(frozen=True, slots=True)
class Replayed:
    """A policy replayed in the simulator for `seconds`: places of detectors, links with traffic, refusals by pattern.

    It is `settled` where no detector moved meanwhile.
    """

    policy: str
    detectors: Mapping[str, DetectorEntry]
    links: tuple[LinkCompared, ...]
    seconds: float
    settled: bool
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """Greatest relative error over all links."""
        return max((abs(each.off) for each in self.links if max(each.measured, each.predicted) >= LEAST), default=0.0)

    @property
    def measured(self) -> float:
        """Bytes a second over all links."""
        return sum(each.measured for each in self.links)

    @property
    def predicted(self) -> float:
        """Predicted bytes a second over all links."""
        return sum(each.predicted for each in self.links)


@dataclass(frozen=True, slots=True)
class RecordedStretch:
    """All events of a history since `start`, ns, in the order of consumption, with their types and located sources."""

    events: Sequence[Event]
    types: tuple[EventType, ...]
    sources: Mapping[str, SourceEntry]
    start: int


def replay(
    recorded: RecordedStretch,
    space: SearchSpace,
    topology: Topology,
    policy: str,
    *,
    name: str = "",
    hints: Mapping[str, HintEntry] | None = None,
    seed: int = 0,
    look: int = LOOK,
) -> Replayed:
    """Replay a stretch of a history in the simulator, with a policy and hints, and compare.

    `name` is by default that of the policy; the measurement of `look` ns begins after `SETTLE`. Hints of a placement
    reproduce it. The seed is that of all random choices, the instants of promises included.
    """
    start, duration = recorded.start, SETTLE + look
    begin, end = start + SETTLE, start + duration
    promises = {source: beats(seed, source, duration) for source in recorded.sources}
    by_source: dict[str, list[Event]] = {source: [] for source in recorded.sources}
    for event in recorded.events:
        if event.source in by_source and start < event.hi <= end:
            by_source[event.source].append(event)
    streams = tuple(
        _stream(source, entry, by_source[source], promises[source], start) for source, entry in recorded.sources.items()
    )
    asked, network = _asked(space, topology)
    scenario = Scenario(
        network,
        recorded.types,
        streams,
        tuple(asked),
        seed=seed,
        start=start,
        duration=duration,
        distribution=policy,
        hints=hints or {},
        validates=False,
    )
    simulation = Simulation(scenario)
    engine = simulation.network.engine
    engine.run(begin)
    before, standing = _bytes(simulation.network.links), simulation.administrator.detectors
    engine.run(end)
    carried = _bytes(simulation.network.links)
    after = simulation.administrator.detectors
    counting = Counting(space, types_of(recorded.sources), _kinds(recorded.types))
    counting.take([each for each in recorded.events if each.hi <= begin], recorded.start, begin, counted=False)
    events = [each for each in recorded.events if begin < each.hi <= end]
    counting.take(events, begin, end)
    instance = instance_of(counting.counts, space, topology, recorded.sources)
    after = {name: entry for name, entry in after.items() if name in space.alternatives}
    promised = {source: [recorded.start + at for at in each] for source, each in promises.items()}
    followed = with_output_traffic(instance, after, counting, events, promised, begin, end)
    links = evaluate(followed, after).links if set(space.roots) <= after.keys() else {}
    seconds = look / SECOND
    measured = {link: (carried[link] - before.get(link, 0)) / seconds for link in carried}
    compared = [
        LinkCompared(*link, measured.get(link, 0.0), links.get(link, 0.0))
        for link in sorted({*links, *(link for link, amount in measured.items() if amount)})
    ]
    refused = {name: each.refused for name, each in simulation.subscribed.items() if each.refused}
    return Replayed(name or policy, after, tuple(compared), seconds, _places(standing) == _places(after), refused)


def beats(seed: int, source: str, duration: int) -> list[int]:
    """Instants of a source's promises beside its events, ns from the start."""
    first = Random(f"{seed} {source}").randrange(1, HEARTBEAT + 1)
    return list(range(first, duration + 1, HEARTBEAT))


def _stream(source: str, entry: SourceEntry, events: Sequence[Event], promises: Promises, start: int) -> SourceStream:
    along = len(entry.types) == 1
    sends = [Send(each.hi - start, (each,), each.hi if along else None) for each in events]
    sends += [Send(at, (), start + at) for at in promises]
    sends.sort(key=lambda send: (send.at, not send.events))
    return SourceStream(source, entry.publisher, entry.types, tuple(sends), floor=start)


def _asked(space: SearchSpace, topology: Topology) -> tuple[list[ScenarioSubscription], Topology]:
    """The subscriptions, with a subscriber at each place."""
    added: dict[str, Subscriber] = {}
    asked = []
    for each, root in zip(space.asked, space.roots, strict=True):
        # What is published by then may be read.
        at = FIRST + space.depth(root) * APART
        for number, place in enumerate(each.subscribers):
            name = place.name
            if place.kind == "site":
                name = f"listener at {place.name}"
                added[name] = Subscriber(name, place.name)
            marked = each.name if not number else f"{each.name} {number + 1}"
            asked.append(ScenarioSubscription(marked, name, each.compiled.text, at=at))
    known = topology.subscribers.values()
    subscribers = [*known, *(each for name, each in added.items() if name not in topology.subscribers)]
    return asked, Topology(
        topology.sites.values(), topology.nodes.values(), topology.publishers.values(), subscribers, topology.links,
        directory=topology.directory, allow_partitions=topology.allow_partitions,
    )  # fmt: skip


def _bytes(links: Links) -> dict[tuple[str, str], int]:
    found = {}
    for each in links.all.values():
        counted = [each.traffic[area] for area in COUNTED if area in each.traffic]
        found[each.origin, each.target] = sum(size + messages * ACKNOWLEDGEMENT for messages, size in counted)
    return found


def _places(detectors: Mapping[str, DetectorEntry]) -> dict[str, tuple[object, ...]]:
    return {name: (each.node, each.home, each.parts, tuple(each.replicas.items())) for name, each in detectors.items()}


def _kinds(types: Sequence[EventType]) -> Kinds:
    known = {each.name: each.attributes for each in types}
    return known.get


def recorded_of(history: History, space: SearchSpace, sources: dict[str, SourceEntry]) -> RecordedStretch:
    """Beginning of a history, as long as is simulated."""
    types = wanted_types(space)
    start = (history.first or 0) - 1
    events = list(events_of_history(history, types, start + 1, start + SETTLE + LOOK))
    every = dict(history.types)
    for each in sources.values():
        # Types that a publisher of the topology may publish, and has not in this history.
        for name in each.types:
            every.setdefault(name, EventType(name, {}))
    return RecordedStretch(events, tuple(every.values()), sources, start)


def replay_option(found: Analysis, recorded: RecordedStretch, name: str, seed: int) -> list[Replayed]:
    """A compared placement replayed with its policy; empty for one that was not compared."""
    option = next((each for each in found.options if each.name == name), None)
    if option is None:
        return []
    policy = OWN[found.metric] if name in (REPLANNED, OPTIMUM) else name
    instance = found.instance
    run = replay(recorded, instance.space, instance.topology, policy, name=name,
                 hints=hints_of(instance, option.detectors), seed=seed)  # fmt: skip
    return [run]


def with_output_traffic(
    instance: PlacementProblem,
    detectors: Mapping[str, DetectorEntry],
    counting: Counting,
    events: Sequence[Event],
    beats: Mapping[str, Promises],
    begin: int,
    end: int,
) -> PlacementProblem:
    """The problem with the output traffic of detectors at their nodes.

    Args:
        counting: of the same stretch.
        beats: instants of each source's promises beside its events, ns.
    """
    space = instance.space
    types = types_of(instance.sources or {})
    promises = {
        source: sorted(
            {each for each in promised if begin < each <= end}
            | {each.hi for each in events if each.source == source and len(types[source]) == 1}
        )
        for source, promised in beats.items()
    }
    situation, seconds = instance.situation(detectors), (end - begin) / SECOND
    said: dict[str, list[tuple[int, int]]] = {}
    for number in range(max(len(hosting(entry)) for entry in detectors.values()) if detectors else 0):
        for name, further in steps(space, promises, types, DetectorLocations(situation, detectors, number)).items():
            said.setdefault(name, []).append(heartbeat_counts(further, counting.found[name], end - begin))
    foreseen = dict(instance.foreseen)
    for name, each in said.items():
        # Mean over the hosts.
        loud, quiet = (sum(numbers) / len(each) / seconds for numbers in zip(*each, strict=True))
        frame, known = frame_size(name), foreseen[name]
        # The share with composite events stays; the rate of heartbeats is corrected.
        foreseen[name] = replace_entry(
            known,
            quiet=OutputTraffic(known.quiet.size + (quiet - known.quiet.often) * frame, quiet),
            loud=OutputTraffic(known.loud.size + (loud - known.loud.often) * frame, loud),
            part=OutputTraffic(known.part.size + (loud - known.part.often) * frame, loud),
        )
    return replace(instance, foreseen=foreseen)

"""The outcome of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distced.brokers.core.effects import Note
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario_model import Scenario


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Traffic over a link in one direction.

    Attributes:
        origin, target: sites.
        messages, bytes: by subject: `e` events, `c` composite events, `d` the directory, `a`
            administration, `x` dead letters, `mqtt` the traffic of connections themselves.
        cost: of all bytes.
    """

    origin: str
    target: str
    messages: Mapping[str, int]
    bytes: Mapping[str, int]
    cost: float


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Work of a node.

    Attributes:
        site: of the node.
        received: number of messages received.
        counts: its counters, as of `NodeEntry`.
        detectors: number hosted at the end.
        load: last reported load; None without a report.
    """

    site: str
    received: int
    counts: Mapping[str, int]
    detectors: int
    load: LoadEntry | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A move of a detector to a node.

    Attributes:
        at: when, ns after the start.
        detector: its id.
        origin, node: previous and new host.
    """

    at: int
    detector: str
    origin: str
    node: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A log event of a node.

    Attributes:
        at: when, ns after the start.
    """

    at: int
    node: str
    note: Note


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The outcome of a run.

    Attributes:
        scenario: of the run.
        subscriptions: by name, with the events received.
        published: the events that reached a server, or will not be lost on the way.
        lost: number of messages of publishers at QoS 0 lost.
        late: events that sources did not publish, for detectors were beyond them when the source began.
        links: traffic over each link and direction.
        nodes: present at the end, by name.
        detectors: the directory's entries at the end, by id.
        moved: moves of detectors, in order.
        notes, letters: log events of nodes, and dead letters.
        complete: whether the watermark of every subscription is beyond the last promise of the sources; without those
            by best effort.
        final: that promise, ns; None where no source has promised anything.
        ended: the virtual instant of the end, ns.
        messages: number delivered, to servers and from them.
        steps: number of calls made.
        digest: of all messages delivered.
    """

    scenario: Scenario
    subscriptions: Mapping[str, SimulatedSubscription]
    published: tuple[Event, ...]
    lost: int
    late: tuple[Event, ...]
    links: tuple[LinkTraffic, ...]
    nodes: Mapping[str, NodeFigures]
    detectors: Mapping[str, DetectorEntry]
    moved: tuple[Moved, ...]
    notes: tuple[Noted, ...]
    letters: tuple[DeadLetter, ...]
    complete: bool
    final: int | None
    ended: int
    messages: int
    steps: int
    digest: str

    @property
    def bytes(self) -> int:
        """Bytes over all links."""
        return sum(sum(each.bytes.values()) for each in self.links)

    @property
    def cost(self) -> float:
        """Cost of all bytes over all links."""
        return sum(each.cost for each in self.links)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Events received and expected of a subscription.

    Attributes:
        missing: expected composite events that did not arrive.
        unexpected: those that arrived without being expected.
        same: number that arrived as expected.
    """

    missing: tuple[CompositeEvent, ...]
    unexpected: tuple[CompositeEvent, ...]
    same: int

    @property
    def holds(self) -> bool:
        """Whether the events received are those expected."""
        return not self.missing and not self.unexpected

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        return "as one engine" if self.holds else f"{len(self.missing)} missing, {len(self.unexpected)} unexpected"


def compare(outcome: ScenarioOutcome) -> dict[str, Comparison]:
    """The comparison of each subscription that has a single right answer."""
    final = outcome.final
    comparable = {name: each for name, each in outcome.subscriptions.items() if _is_comparable(each, outcome)}
    if final is None or not comparable:
        return {}
    compiled = _compiled(comparable.values(), outcome)
    by_id = {each.canonical_id: each for each in compiled.values()}
    engine = StepwiseEngine(list(by_id.values()))
    found: dict[str, list[CompositeEvent]] = {identity: [] for identity in by_id}
    for event in [*engine.feed(sorted(outcome.published, key=lambda one: one.key)), *engine.advance(final)]:
        if event.source in found and event.hi <= final:
            found[event.source].append(event)
    return {
        name: _comparison(found[compiled[name].canonical_id], each.events, final)
        for name, each in comparable.items()
        if name in compiled
    }


def _is_comparable(each: SimulatedSubscription, outcome: ScenarioOutcome) -> bool:
    return (
        each.asked.detection == "guaranteed"
        and each.asked.until is None
        and each.active_at is not None
        and each.active_at <= outcome.scenario.start
    )


def _compiled(subscriptions: Iterable[SimulatedSubscription], outcome: ScenarioOutcome) -> dict[str, Compiled]:
    """The patterns by the names of their subscriptions; each after those whose composite events it reads."""
    registry = TypeRegistry(outcome.scenario.types)
    compiled: dict[str, Compiled] = {}
    waiting = list(subscriptions)
    while waiting:
        left: list[SimulatedSubscription] = []
        for each in waiting:
            asked = each.asked
            consumption = "epoch" if asked.consumption == "epoch" else "ordered"
            try:
                made = compile_pattern(
                    asked.pattern,
                    registry,
                    definitions=asked.definitions,
                    consumption=consumption,  # type: ignore[arg-type]
                )
            except DistcedError:
                # It reads what another publishes, which is not known yet.
                left.append(each)
                continue
            compiled[asked.name] = made
            if made.publishes.name and made.publishes.name not in registry:
                registry.register(made.publishes)
        if len(left) == len(waiting):
            break
        waiting = left
    return compiled


def _comparison(expected: Iterable[CompositeEvent], got: Iterable[CompositeEvent], final: int) -> Comparison:
    wanted = {_told(each): each for each in expected}
    heard = {_told(each): each for each in got if each.hi <= final}
    return Comparison(
        tuple(wanted[each] for each in wanted if each not in heard),
        tuple(heard[each] for each in heard if each not in wanted),
        len(wanted.keys() & heard.keys()),
    )


def _told(event: CompositeEvent) -> tuple[object, ...]:
    """The parts in which two detections have to agree."""
    return event.type, event.id, event.lo, event.hi, event.constituents, repr(sorted(event.attributes.items()))

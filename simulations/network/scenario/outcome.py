"""Outcome of a run, and its comparison with one engine over the published events.

Design, section 2, "Transparency": under guaranteed detection composite events are a function of the pattern and the
events. Subscriptions active from before the streams have a single right answer: until the end, or up to the watermark
at which their subscriber was killed. Of one that is back, composite events that begin behind its return are compared,
and earlier ones have to be right, but need not come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from distced.brokers.core.effects import Note
from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.directory_entries import DetectorEntry, LoadEntry
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario_model import Scenario


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Traffic over a link in one direction.

    Attributes:
        origin, target: sites.
        messages, bytes: by area of topics (`outcome_report.AREAS`).
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
        received: number of messages.
        counts: as of `NodeEntry`.
        detectors: number hosted at the end.
        load: last report; None without one.
    """

    site: str
    received: int
    counts: Mapping[str, int]
    detectors: int
    load: LoadEntry | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A move of a detector from `origin` to `node`, `at` ns after the start."""

    at: int
    detector: str
    origin: str
    node: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A log event of a node, `at` ns after the start."""

    at: int
    node: str
    note: Note


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The outcome of a run.

    Attributes:
        subscriptions: by name, with their composite events.
        published: events that reached a server, or will.
        left_out: number of events that a filter has left out, by type; they count as published.
        lost: number of messages lost at QoS 0.
        late: events not published, at or before the watermark of their new source.
        nodes: present at the end, by name.
        detectors: entries at the end, by id.
        moved: moves in order.
        complete: whether the watermark of every subscription under guaranteed detection is at or beyond `final`.
        final: least of the last promises of all sources, ns; None where one promises nothing.
        ended: instant of the end, ns.
        messages: number delivered, to and from servers.
        steps: number of scheduled calls.
        digest: of all delivered messages.
    """

    scenario: Scenario
    subscriptions: Mapping[str, SimulatedSubscription]
    published: tuple[Event, ...]
    left_out: Mapping[str, int]
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
    """Composite events received and expected of a subscription; `same` is the number of those received as expected."""

    missing: tuple[CompositeEvent, ...]
    unexpected: tuple[CompositeEvent, ...]
    same: int

    @property
    def holds(self) -> bool:
        """Whether those received are those expected."""
        return not self.missing and not self.unexpected

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        return "as one engine" if self.holds else f"{len(self.missing)} missing, {len(self.unexpected)} unexpected"


def compare(outcome: ScenarioOutcome) -> dict[str, Comparison]:
    """Comparison of each subscription with a single right answer, by name."""
    comparable = {name: each for name, each in outcome.subscriptions.items() if _is_comparable(each, outcome)}
    return {
        name: _comparison(found, comparable[name], outcome) for name, found in expected(comparable, outcome).items()
    }


def expected(
    subscriptions: Mapping[str, SimulatedSubscription], outcome: ScenarioOutcome
) -> dict[str, list[CompositeEvent]]:
    """Composite events of subscriptions, by name, as one engine finds them over all published events.

    Up to the least of the last promises; empty where a source promises nothing.
    """
    final = outcome.final
    if final is None or not subscriptions:
        return {}
    compiled = _compiled(subscriptions.values(), outcome)
    by_id = {each.canonical_id: each for each in compiled.values()}
    engine = StepwiseEngine(list(by_id.values()))
    found: dict[str, list[CompositeEvent]] = {identity: [] for identity in by_id}
    for event in [*engine.feed(sorted(outcome.published, key=lambda one: one.key)), *engine.advance(final)]:
        if event.source in found and event.hi <= final:
            found[event.source].append(event)
    return {name: found[compiled[name].canonical_id] for name in subscriptions if name in compiled}


def _is_comparable(each: SimulatedSubscription, outcome: ScenarioOutcome) -> bool:
    return (
        each.asked.detection == "guaranteed"
        and each.asked.until is None
        and each.active_at is not None
        and (each.active_at <= outcome.scenario.start or each.is_back)
    )


def _compiled(subscriptions: Iterable[SimulatedSubscription], outcome: ScenarioOutcome) -> dict[str, Compiled]:
    """Patterns by subscription; each after those whose composite events it reads."""
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


def _comparison(
    expected: Iterable[CompositeEvent], subscribed: SimulatedSubscription, outcome: ScenarioOutcome
) -> Comparison:
    final = outcome.final or 0
    due = INSTANT_MIN if subscribed.watermark is None else subscribed.watermark
    due = min(due, final) if subscribed.killed else final
    since = subscribed.active_at if subscribed.is_back and subscribed.active_at is not None else INSTANT_MIN
    wanted = {_comparable(each): each for each in expected}
    heard = {_comparable(each): each for each in subscribed.events if each.hi <= final}
    return Comparison(
        tuple(each for key, each in wanted.items() if key not in heard and since < each.lo and each.hi <= due),
        tuple(heard[each] for each in heard if each not in wanted),
        len(wanted.keys() & heard.keys()),
    )


def _comparable(event: CompositeEvent) -> tuple[object, ...]:
    """The parts in which two detections agree."""
    return event.type, event.id, event.lo, event.hi, event.constituents, repr(sorted(event.attributes.items()))

"""Check of subscriptions: composite events received, compared with those one engine detects in the published events.

Design, section 2, "Transparency": under guaranteed detection that is a function of the pattern and the events alone.
Only subscriptions that were active before the streams began, and lasted to the end, have a single right answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distced.detectors.compiler import Compiled, compile_pattern
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent
from distced.simulations.network.participants.subscriber import SimulatedSubscription
from distced.simulations.network.scenario.outcome import ScenarioOutcome


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

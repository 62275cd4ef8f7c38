"""Stages before the automata: marks for the first event of each interval and key, in the order of consumption, values
of aggregates over sliding windows, last values of types, and values of computed keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from distced.detectors.language.computed import Computation
from distced.detectors.language.derived import Throttling
from distced.detectors.stepwise.group_value import GroupValue
from distced.detectors.stepwise.last_value import LastValue
from distced.detectors.stepwise.plans import key_of
from distced.detectors.stepwise.sliding import SlidingAggregate
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.evaluation import Scope, compile_condition, compile_value
from distced.middleware.sets.state_reads import GROUP_READS

if TYPE_CHECKING:
    from distced.detectors.compiler import Compiled

Stage: TypeAlias = "Throttler | SlidingAggregate | LastValue"


class Throttler:
    """Throttle of one rule; `passed` is the interval of the last passed event by key, or its `hi` where a time has to
    pass behind it; swept periodically."""

    def __init__(self, throttling: Throttling) -> None:
        self.throttling = throttling
        self.types = throttling.types
        self.passed: dict[object, int] = {}
        self._condition = compile_condition(throttling.condition, Scope())
        self._key = key_of(throttling.by) if throttling.by else None
        self._sweep_at = 4096

    def value(self, event: Event) -> Attribute:
        """Mark of an event that passes; null for another."""
        return True if self.passes(event) else None

    def packed(self) -> dict[object, int]:
        """The state as values, for a snapshot."""
        return self.passed

    def unpack(self, passed: dict[object, int]) -> None:
        """Continue from a state."""
        self.passed = passed

    def passes(self, event: Event) -> bool:
        """Whether this event is the first of its interval and key, and thus represents it."""
        if self._condition is not True and (self._condition is False or not self._condition(event, (), ())):
            return False
        key = self._key(event) if self._key is not None else ()
        if key is None:
            return False
        if self.throttling.quiet:
            return self._is_first(event.hi, key)
        interval = event.hi // self.throttling.every
        if self.passed.get(key, interval - 1) >= interval:
            return False
        self.passed[key] = interval
        if len(self.passed) >= self._sweep_at:
            self.passed = {key: each for key, each in self.passed.items() if each >= interval}
            self._sweep_at = max(4096, 2 * len(self.passed))
        return True

    def _is_first(self, hi: int, key: object) -> bool:
        """Whether nothing has passed for long enough."""
        quiet = self.throttling.quiet
        if hi - self.passed.get(key, hi - quiet) < quiet:
            return False
        self.passed[key] = hi
        if len(self.passed) >= self._sweep_at:
            self.passed = {key: each for key, each in self.passed.items() if hi - each < quiet}
            self._sweep_at = max(4096, 2 * len(self.passed))
        return True


class Computer:
    """Computation of the value of a key for events of some types; without state."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self._values = {name: compile_value(value, Scope()) for name, value in computation.values}

    def value(self, event: Event) -> Attribute:
        """The value of the key for an event of one of the types."""
        return self._values[event.type](event, (), ())

    def computes(self, type_name: str) -> bool:
        """Whether events of this type have a value of the key."""
        return type_name in self._values


def stage_of(throttling: Throttling) -> Stage:
    """The stage of a throttling, of an aggregate over a sliding window, or of a state."""
    if throttling.state is not None:
        return GroupValue(throttling) if throttling.state.function in GROUP_READS else LastValue(throttling)
    return Throttler(throttling) if throttling.sliding is None else SlidingAggregate(throttling)


def go_on_from(stage: Stage, other: Stage) -> None:
    """Continue from another stage of the same throttling, which must not be used afterwards."""
    stage.passed = other.passed
    if isinstance(stage, SlidingAggregate) and isinstance(other, SlidingAggregate):
        stage.latest = other.latest


def mark(throttlers: Sequence[Stage], event: Event, computers: Sequence[Computer] = ()) -> Event:
    """The event with the values of computed keys, and with the marks of all throttlings it passes, in the order of
    their dependence."""
    if computers:
        computed = {each.computation.mark: each.value(event) for each in computers if each.computes(event.type)}
        if computed:
            event = structs.replace(event, attributes=event.attributes | computed)
    if len(throttlers) == 1 and event.__class__ is Event:
        # The usual case, in half of the time.
        (throttler,) = throttlers
        if event.type not in throttler.types or (value := throttler.value(event)) is None:
            return event
        attributes = {**event.attributes, throttler.throttling.mark: value}
        return Event(event.type, event.lo, event.hi, event.source, event.seq, attributes)
    marked = False
    for throttler in throttlers:
        if event.type in throttler.types and (value := throttler.value(event)) is not None:
            if marked:
                # It is seen here alone so far.
                event.attributes[throttler.throttling.mark] = value
                continue
            marked, attributes = True, {**event.attributes, throttler.throttling.mark: value}
            if event.__class__ is Event:
                # In a third of the time.
                event = Event(event.type, event.lo, event.hi, event.source, event.seq, attributes)
            else:
                event = structs.replace(event, attributes=attributes)
    return event


def late_stages(throttlings: Iterable[Throttling], published: Collection[str]) -> frozenset[str]:
    """Marks of the stages that look at types that patterns of the same engine publish, or build on such stages: they
    run when all events of an instant are found. The throttlings stand in the order of their dependence."""
    late: set[str] = set()
    for each in throttlings:
        if not each.types.isdisjoint(published) or not each.names.isdisjoint(late):
            late.add(each.mark)
    return frozenset(late)


def computers_of(patterns: Iterable[Compiled]) -> tuple[Computer, ...]:
    """Computers of the keys of patterns, one for each mark."""
    computations = {each.mark: each for pattern in patterns for each in pattern.computations}
    return tuple(map(Computer, computations.values()))


def unmarked(event: Event) -> Event:
    """The event in published form."""
    kept = {name: value for name, value in event.attributes.items() if " " not in name}
    return event if len(kept) == len(event.attributes) else structs.replace(event, attributes=kept)

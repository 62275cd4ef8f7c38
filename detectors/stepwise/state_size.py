"""Memory of an engine's state: estimated by a walk over its instances, their events and their texts.

A walk takes as long as the instances are many, so it is made when work enough was done for a state beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.last_value import LastValue
from distced.detectors.stepwise.sliding import SlidingAggregate
from distced.detectors.stepwise.throttling import Stage
from distced.middleware.model.events import Attribute, Event

INSTANCE: Final = 400
"""Bytes of an instance, with its place in a bucket."""

KEY: Final = 100
"""Bytes of a key that has begun, or of which something has passed."""

VALUE: Final = 500
"""Bytes of the last value that a state keeps for a key, with the place of its event."""

IN_WINDOW: Final = 120
"""Bytes of a value in a sliding window, with its instant."""

LINK: Final = 72
EVENT: Final = 400
"""Bytes of a link of a chain, and of an event besides its texts."""


class StateSize(NamedTuple):
    """Bytes of a state, and the mean of those of an instance, an event, or a value of a stage."""

    memory: int
    mean: int


def state_size(engine: StepwiseEngine) -> StateSize:
    """Size of the state of an engine; what instances share counts once."""
    seen: set[int] = set()
    memory = count = 0

    def text(value: Attribute) -> int:
        if value.__class__ is not str or id(value) in seen:
            return 0
        seen.add(id(value))
        return len(value)

    def event(each: Event) -> int:
        if id(each) in seen:
            return 0
        seen.add(id(each))
        return EVENT + sum(map(text, each.attributes.values()))

    for unit in engine.units:
        quiet = unit.matcher.quiet
        for keys in (unit.matcher.begun or (), () if quiet is None else quiet.passed):
            count += len(keys)
            memory += KEY * len(keys) + sum(len(each) for each in keys if each.__class__ is str)
        for instance in unit.matcher.store.instances():
            count += 1
            memory += INSTANCE + sum(map(text, instance.registers))
            memory += sum(event(each) for each in instance.bindings if each is not None)
            link = instance.chain
            while link is not None and id(link) not in seen:
                seen.add(id(link))
                count += 1
                memory += LINK + event(link[1])
                link = link[0]
    values, bytes_of_values = values_size(engine.throttlers)
    memory += bytes_of_values
    return StateSize(memory, memory // max(count + values, 1))


def values_size(stages: Iterable[Stage]) -> tuple[int, int]:
    """Number and bytes of the values that states and sliding windows keep, and of keys that have passed."""
    count = memory = 0
    for each in stages:
        memory += sum(len(key) for key in each.passed if key.__class__ is str)
        if isinstance(each, LastValue):
            kept = len(each.passed)
            memory += VALUE * kept + sum(len(value) for _, value in each.passed.values() if value.__class__ is str)
        elif isinstance(each, SlidingAggregate):
            kept = sum(len(window.kept) for window in each.passed.values())
            memory += KEY * len(each.passed) + IN_WINDOW * kept
            windows = each.passed.values()
            memory += sum(len(value) for window in windows for _, value in window.kept if value.__class__ is str)
        else:
            kept = len(each.passed)
            memory += KEY * kept
        count += kept
    return count, memory

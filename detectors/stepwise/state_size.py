"""Memory of an engine's state: estimated by a walk over its instances, their events and their texts.

A walk takes as long as the instances are many, so it is made when work enough was done for a state beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.last_value import LastValue
from distced.detectors.stepwise.throttling import Stage
from distced.middleware.model.events import Attribute, Event

INSTANCE: Final = 400
"""Bytes of an instance, with its place in a bucket."""

KEY: Final = 100
"""Bytes of a key that has begun, or of which something has passed."""

VALUE: Final = 500
"""Bytes of the last value that a state keeps for a key, with the place of its event."""

LINK: Final = 72
EVENT: Final = 400
"""Bytes of a link of a chain, and of an event besides its texts."""


class StateSize(NamedTuple):
    """Bytes of a state, and the mean of those of an instance or event."""

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
    count += sum(len(each.passed) for each in engine.throttlers if isinstance(each, LastValue))
    memory += values_size(engine.throttlers)
    return StateSize(memory, memory // max(count, 1))


def values_size(stages: Iterable[Stage]) -> int:
    """Bytes of the values that states keep."""
    memory = 0
    for each in stages:
        if isinstance(each, LastValue):
            texts = (one for key, (_, value) in each.passed.items() for one in (key, value) if one.__class__ is str)
            memory += VALUE * len(each.passed) + sum(map(len, texts))
    return memory

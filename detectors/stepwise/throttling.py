"""Thinning: marks the first event of each interval and key, in the order of consumption."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from distced.detectors.language.derived import Thinning
from distced.detectors.stepwise.plans import key_of
from distced.middleware.model.events import Event
from distced.middleware.sets.evaluation import Scope, compile_condition


class Thinner:
    """Runs one thinning.

    Attributes:
        thinning: what is run.
        passed: the number of the interval in which the last event of each key passed; of past intervals only what has
            not been swept out yet.
    """

    def __init__(self, thinning: Thinning) -> None:
        self.thinning = thinning
        self.passed: dict[object, int] = {}
        self._condition = compile_condition(thinning.condition, Scope())
        self._key = key_of(thinning.by) if thinning.by else None
        self._sweep_at = 4096

    def passes(self, event: Event) -> bool:
        """Whether this event is the first of its interval and key; it then is the one that stands for it."""
        if self._condition is not True and (self._condition is False or not self._condition(event, (), ())):
            return False
        key = self._key(event) if self._key is not None else ()
        if key is None:
            return False
        interval = event.hi // self.thinning.every
        if self.passed.get(key, interval - 1) >= interval:
            return False
        self.passed[key] = interval
        if len(self.passed) >= self._sweep_at:
            self.passed = {key: each for key, each in self.passed.items() if each >= interval}
            self._sweep_at = max(4096, 2 * len(self.passed))
        return True


def mark(thinners: Iterable[Thinner], event: Event) -> Event:
    """The event with the marks of those thinnings, each after those it builds on, that it passes."""
    for thinner in thinners:
        if thinner.thinning.type_name == event.type and thinner.passes(event):
            event = structs.replace(event, attributes={**event.attributes, thinner.thinning.mark: True})
    return event


def unmarked(event: Event) -> Event:
    """The event as it was published."""
    kept = {name: value for name, value in event.attributes.items() if " " not in name}
    return event if len(kept) == len(event.attributes) else structs.replace(event, attributes=kept)

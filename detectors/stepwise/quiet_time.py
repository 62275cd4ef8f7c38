"""Stage behind the composite events of a pattern: `at most 1 per 10min by user`.

As with the rate of an output in Esper (`output first every`), nothing in the automaton depends on it. The composite
events of an instant are taken at its end, in the order of their beginnings and of their constituents. Rejected: the
order of detection, which differs between engines and cuts; that of their ids, which are digests, so that ids of events
would matter by more than their order; a filter in the automaton, which would make what an instance does depend on the
composite events of others.
"""

from __future__ import annotations

from typing import Final

from distced.detectors.stepwise.plans import key_of
from distced.middleware.model.events import CompositeEvent, OrderKey, composite_digest
from distced.middleware.patterns.tree import Quiet

_SWEEP_LEAST: Final = 4096


class QuietTime:
    """Filter of composite events; `passed` is the `hi` of the last one that passed by key, until the time is over."""

    __slots__ = ("_key", "_length", "_sweep_at", "passed")

    def __init__(self, quiet: Quiet) -> None:
        self._length = quiet.length
        self._key = key_of(quiet.by) if quiet.by else None
        self.passed: dict[object, int] = {}
        self._sweep_at = _SWEEP_LEAST

    def passing(self, found: list[CompositeEvent]) -> list[CompositeEvent]:
        """Composite events of an instant that are emitted, in order."""
        return [each for each in (sorted(found, key=_order) if len(found) > 1 else found) if self._passes(each)]

    def sweep(self, clock: int) -> bool:
        """Drop what concerns no event behind an instant, ns; whether nothing is left."""
        self.passed = {key: each for key, each in self.passed.items() if clock - each < self._length}
        self._sweep_at = max(_SWEEP_LEAST, 2 * len(self.passed))
        return not self.passed

    def _passes(self, event: CompositeEvent) -> bool:
        key = self._key(event) if self._key is not None else ()
        if key is None:
            return False
        hi = event.hi
        if hi - self.passed.get(key, hi - self._length) < self._length:
            return False
        self.passed[key] = hi
        if len(self.passed) >= self._sweep_at:
            self.sweep(hi)
        return True


def _order(event: CompositeEvent) -> tuple[int, tuple[OrderKey, ...], int]:
    return event.lo, tuple([each.key for each in event.events]), composite_digest((), event.attributes)

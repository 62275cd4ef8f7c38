"""Matcher of a `settled` pattern: composite events at the end of an instant, for what then stands.

cedmos-1999, coalescing: changes within an instant that cancel each other are none. An instance that reaches a
generative state within an instant is noted, and emits at its end if it still stands there; one that has ended there
emits at once. Rejected: a search of all instances at the end of each instant, whose number may be large, and a delay of
composite events in the engine, which does not know of instances that have moved on.
"""

from __future__ import annotations

from typing import Any, Final

from distced.detectors.stepwise.instance import AFTER_ALL, Instance
from distced.detectors.stepwise.instance_store import distinct
from distced.detectors.stepwise.matcher import Matcher

_NONE_REACHED: Final[list[Instance]] = []


class SettledMatcher(Matcher):
    """Runs one automaton whose generative states emit at the end of an instant."""

    __slots__ = ("_generative", "_reached")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reached = _NONE_REACHED
        self._generative = frozenset(
            place for place, state in enumerate(self.automaton.states) if state.accepting and state.moves
        )

    def _settle(self, *, one_key: bool = True) -> None:
        if self._born:
            # One that is dropped as equal to another stands nowhere.
            self._born = distinct(self._born)
            reached = [each for each in self._born if each.state in self._generative]
            if reached:
                self._reached = [*self._reached, *reached]
        super()._settle(one_key=one_key)

    def _take_reached(self) -> list[Instance]:
        """Instances that have reached a generative state since the last call."""
        reached, self._reached = self._reached, _NONE_REACHED
        return reached

    def end_instant(self) -> None:
        """Emit composite events of the instances that stand in a generative state, reached in this instant."""
        for each in self._take_reached():
            if not each.alive:
                continue
            emitted = self.composites.add(
                each.chain, each.lo, each.hi, each.bindings, each.registers, each.key, each.origin
            )
            if emitted and self.automaton.once:
                each.chain, each.lo, each.windows = None, AFTER_ALL, self.root.windows
